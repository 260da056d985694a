"""What can go wrong in a running program, and the conditions that tell."""

from __future__ import annotations

from enum import Enum

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64, INT64
from tensorel.base.records import dataclass
from tensorel.errors import (
    ArithmeticError_,
    IndexError_,
    NameError_,
    RangeError,
    TensorelError,
    UnsupportedError,
    ValueError_,
    ZeroDivisionError_,
)
from tensorel.ir.build import convert
from tensorel.ir.nodes import Call, Expr, const
from tensorel.loops.origin import Origin


class Wrong(Enum):
    """The class of the error and its message; {a} and {b} are the values."""

    INDEX = IndexError_, "index {a} of {what} is outside its {b} entries"
    OVERFLOW = RangeError, "a whole number does not fit 64 bits"
    FIT = RangeError, "{a} does not fit {what}"
    EXACT = RangeError, "a value here has no exact {what}, which the variable holds"
    ZERO = ZeroDivisionError_, "division by zero"
    STEP = ValueError_, "the step of a range is zero"
    DOMAIN = ValueError_, "{what} is not defined there"
    RANGE = ArithmeticError_, "the result of {what} is too large"
    COMPLEX = UnsupportedError, "a negative number to a power that is not whole is complex"
    NEGATIVE = ValueError_, "a whole number to a negative power"
    SHIFT = ValueError_, "a shift by a negative number"
    UNSET = NameError_, "{what} is used before it is set"
    END = UnsupportedError, "the program ends without a return"
    WHOLE = ValueError_, "a number that is not finite has no whole part"


@dataclass(frozen=True, slots=True)
class Check:
    wrong: Wrong
    line: int
    what: str = ""

    def error(self, origin: Origin, a: int, b: int) -> TensorelError:
        kind, message = self.wrong.value
        return origin.error(kind, message.format(a=a, b=b, what=self.what), self.line)


_UINT64 = np.dtype("uint64")
_LAST = 2**63 - 1


# -- conditions ------------------------------------------------------------------------------------
def call(op: ops.Operator, *args: Expr) -> Expr:
    return Call(op, args)


def negative(e: Expr) -> Expr:
    return call(ops.less, e, const(0, e.dtype))


def is_zero(e: Expr) -> Expr:
    return call(ops.equal, e, const(0, e.dtype))


def outside(e: Expr, low: int, high: int) -> Expr:
    """A whole number is below the one or above the other."""
    if e.dtype == INT64 and low < -_LAST:
        return call(ops.greater, e, const(high, INT64))
    if e.dtype == INT64 and high >= _LAST:
        return call(ops.less, e, const(low, INT64))
    if e.dtype == INT64:  # one comparison: below wraps around to above
        moved = call(ops.subtract, e, const(low, INT64))
        return call(ops.greater, convert(moved, _UINT64), const(high - low, _UINT64))
    return call(ops.logical_or, call(ops.less, e, const(low, e.dtype)),
                call(ops.greater, e, const(high, e.dtype)))


def too_far(x: Expr, factor: int, added: int) -> Expr:
    """``factor * x + added`` does not fit 64 bits."""
    ends = [(sign * _LAST - added, factor) for sign in ((-1, 1) if factor > 0 else (1, -1))]
    low, high = -(-ends[0][0] // ends[0][1]), ends[1][0] // ends[1][1]
    return outside(x, max(low, -_LAST - 1), min(high, _LAST))


#: Products of doubles above this are taken for overflows; the exact limit is 0.05% higher.
_SURE = 9.22e18


def too_large(product: Expr) -> Expr:
    """A double, which was computed beside a whole number, is near the limit or beyond; so is
    nan."""
    size = call(ops.absolute, product)
    return call(ops.logical_not, call(ops.less, size, const(_SURE, FLOAT64)))


def misses(e: Expr, limit: int = 2**53) -> Expr:
    """A whole number may have no exact double."""
    return outside(e, -limit, limit)


