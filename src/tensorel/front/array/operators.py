"""Python's operators on tensors: one line each, all through ``binary``, ``unary``, ``matmul``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.front.array.base import Base
from tensorel.front.array.convert import is_pydata, is_scipy
from tensorel.front.functions.elementwise import binary, unary
from tensorel.front.functions.products import matmul

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_OPERANDS = (Base, bool, int, float, complex, np.generic, np.ndarray, list, tuple)


def is_operand(x: object) -> bool:
    """Whether operators take ``x``; else Python asks the other side."""
    return isinstance(x, _OPERANDS) or is_scipy(x) or is_pydata(x)


def _apply(op: ops.Operator, a: object, b: object, other: object) -> Tensor:
    return binary(op, a, b) if is_operand(other) else NotImplemented


class Operators(Base):
    """The operator methods."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> Tensor:
        return _apply(ops.add, self, other, other)

    def __radd__(self, other: object) -> Tensor:
        return _apply(ops.add, other, self, other)

    def __sub__(self, other: object) -> Tensor:
        return _apply(ops.subtract, self, other, other)

    def __rsub__(self, other: object) -> Tensor:
        return _apply(ops.subtract, other, self, other)

    def __mul__(self, other: object) -> Tensor:
        return _apply(ops.multiply, self, other, other)

    def __rmul__(self, other: object) -> Tensor:
        return _apply(ops.multiply, other, self, other)

    def __truediv__(self, other: object) -> Tensor:
        return _apply(ops.divide, self, other, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return _apply(ops.divide, other, self, other)

    def __floordiv__(self, other: object) -> Tensor:
        return _apply(ops.floor_divide, self, other, other)

    def __rfloordiv__(self, other: object) -> Tensor:
        return _apply(ops.floor_divide, other, self, other)

    def __mod__(self, other: object) -> Tensor:
        return _apply(ops.remainder, self, other, other)

    def __rmod__(self, other: object) -> Tensor:
        return _apply(ops.remainder, other, self, other)

    def __divmod__(self, other: object) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pow__(self, other: object) -> Tensor:
        return _apply(ops.power, self, other, other)

    def __rpow__(self, other: object) -> Tensor:
        return _apply(ops.power, other, self, other)

    def __and__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_and, self, other, other)

    def __rand__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_and, other, self, other)

    def __or__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_or, self, other, other)

    def __ror__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_or, other, self, other)

    def __xor__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_xor, self, other, other)

    def __rxor__(self, other: object) -> Tensor:
        return _apply(ops.bitwise_xor, other, self, other)

    def __lshift__(self, other: object) -> Tensor:
        return _apply(ops.left_shift, self, other, other)

    def __rlshift__(self, other: object) -> Tensor:
        return _apply(ops.left_shift, other, self, other)

    def __rshift__(self, other: object) -> Tensor:
        return _apply(ops.right_shift, self, other, other)

    def __rrshift__(self, other: object) -> Tensor:
        return _apply(ops.right_shift, other, self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _apply(ops.equal, self, other, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _apply(ops.not_equal, self, other, other)

    def __lt__(self, other: object) -> Tensor:
        return _apply(ops.less, self, other, other)

    def __le__(self, other: object) -> Tensor:
        return _apply(ops.less_equal, self, other, other)

    def __gt__(self, other: object) -> Tensor:
        return _apply(ops.greater, self, other, other)

    def __ge__(self, other: object) -> Tensor:
        return _apply(ops.greater_equal, self, other, other)

    def __matmul__(self, other: object) -> Tensor:
        return matmul(self, other) if is_operand(other) else NotImplemented

    def __rmatmul__(self, other: object) -> Tensor:
        return matmul(other, self) if is_operand(other) else NotImplemented

    def __neg__(self) -> Tensor:
        return unary(ops.negative, self)

    def __pos__(self) -> Tensor:
        return unary(ops.positive, self)

    def __abs__(self) -> Tensor:
        return unary(ops.absolute, self)

    def __invert__(self) -> Tensor:
        return unary(ops.invert, self)
