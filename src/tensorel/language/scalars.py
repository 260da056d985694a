"""Scalars of a language as expressions of the calculus, and the semirings that they are from."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert


@dataclass(frozen=True, slots=True, eq=False)
class Semiring:
    """Values with a monoid ``add``, whose identity is the zero that absent keys have, and a
    product ``mul`` with the unit ``one``. ``dtype``: that of values which say no other."""

    name: str
    add: ops.Operator
    mul: ops.Operator
    zero: float
    one: float
    dtype: ops.DType = ops.FLOAT64

    @property
    def is_ring(self) -> bool:
        """Whether values are numbers: 1 and 0, truth values as numbers, are one and zero."""
        return self.add is ops.add and self.mul is ops.multiply

    def zero_in(self, dtype: ops.DType) -> ir.Const:
        return ir.const(self.zero, dtype)

    def times(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        """The product. Its zero annihilates: 0 does by itself, and an infinity among sums."""
        found = arithmetic(self.mul, a, b)
        if self.zero == 0 or self.mul is ops.add:
            return found
        zero = self.zero_in(found.dtype)
        none = call(ops.logical_or, call(ops.equal, a, zero), call(ops.equal, b, zero))
        return call(ops.where, none, zero, found)

    def widened(self, e: ir.Expr) -> ir.Expr:
        """``e`` as a value: whole numbers in 64 bits, reals in their own precision."""
        kind = self.dtype.kind
        if kind == "b" or (kind == "f" and e.dtype.kind in "fc"):
            return e
        return convert(e, self.dtype)


BOOL = Semiring("bool", ops.logical_or, ops.logical_and, 0, 1, ops.BOOL)
INT = Semiring("int", ops.add, ops.multiply, 0, 1, ops.INT64)
REAL = Semiring("real", ops.add, ops.multiply, 0, 1)
MIN_PLUS = Semiring("min_plus", ops.minimum, ops.add, float("inf"), 0.0)
MAX_PLUS = Semiring("max_plus", ops.maximum, ops.add, float("-inf"), 0.0)
MIN_TIMES = Semiring("min_times", ops.minimum, ops.multiply, float("inf"), 1.0)
MAX_TIMES = Semiring("max_times", ops.maximum, ops.multiply, float("-inf"), 1.0)


def call(op: ops.Operator, *args: ir.Expr) -> ir.Expr:
    """``op(args)`` with NumPy's conversions written out; literals fold."""
    into, _ = op.resolve(*[a.dtype for a in args])
    cast = [convert(a, d) for a, d in zip(args, into)]
    values = [a.value for a in cast if isinstance(a, ir.Const)]
    if len(values) == len(cast):
        with np.errstate(all="ignore"):
            return ir.const(op(*values))
    return ir.Call(op, tuple(cast))


def arithmetic(op: ops.Operator, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """``op(a, b)``; a literal takes the dtype of a real beside it."""
    if isinstance(a, ir.Const) and a.dtype.kind in "if" and b.dtype.kind in "fc":
        a = convert(a, b.dtype)
    elif isinstance(b, ir.Const) and b.dtype.kind in "if" and a.dtype.kind in "fc":
        b = convert(b, a.dtype)
    return call(op, a, b)


def truth(e: ir.Expr) -> ir.Expr:
    """A test: numbers hold where they are not zero."""
    return e if e.dtype == ir.BOOL else call(ops.not_equal, e, ir.const(0, e.dtype))
