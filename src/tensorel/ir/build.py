"""Short spellings for building expressions; constants fold and x+0, x*1 vanish (integers only)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.given import lifted
from tensorel.ir.nodes import INT64, Call, Const, Expr, Index, Read, Source, const

IntLike = Expr | int


def as_expr(value: IntLike) -> Expr:
    return value if isinstance(value, Expr) else const(value, INT64)


def int_value(e: Expr) -> int | None:
    """The value of an integer literal, else None."""
    return e.value.item() if isinstance(e, Const) and e.dtype.kind in "iu" else None


def _int_call(op: ops.Operator, fold: Callable[[int, int], int], a: IntLike, b: IntLike) -> Expr:
    left, right = as_expr(a), as_expr(b)
    x, y = int_value(left), int_value(right)
    if x is not None and y is not None:
        return const(fold(x, y), INT64)
    return Call(op, (left, right))


def plus(a: IntLike, b: IntLike) -> Expr:
    if a == 0 or int_value(as_expr(a)) == 0:
        return as_expr(b)
    if b == 0 or int_value(as_expr(b)) == 0:
        return as_expr(a)
    if type(b) is int and b < 0:
        return _int_call(ops.subtract, operator.sub, a, -b)
    return _int_call(ops.add, operator.add, a, b)


def minus(a: IntLike, b: IntLike) -> Expr:
    if int_value(as_expr(b)) == 0:
        return as_expr(a)
    if type(b) is int and b < 0:
        return _int_call(ops.add, operator.add, a, -b)
    return _int_call(ops.subtract, operator.sub, a, b)


def moved_by(e: Expr, by: int) -> Expr:
    """``e + by``, where the whole numbers that ``e`` adds and subtracts are one with ``by``.

    >>> moved_by(plus(Index("i"), 5), -5)
    Index(name='i')
    """
    while isinstance(e, Call) and e.op in (ops.add, ops.subtract) and e.dtype == INT64:
        op, (a, b) = e.op, e.args
        first, second = int_value(a), int_value(b)
        if second is not None:
            e, by = a, by + (second if op is ops.add else -second)
        elif first is not None and op is ops.add:
            e, by = b, by + first
        else:
            break
    return plus(e, by) if by >= 0 else minus(e, -by)


def times(a: IntLike, b: IntLike) -> Expr:
    x, y = int_value(as_expr(a)), int_value(as_expr(b))
    if x == 1:
        return as_expr(b)
    if y == 1:
        return as_expr(a)
    if x == 0 or y == 0:
        return const(0, INT64)
    return _int_call(ops.multiply, operator.mul, a, b)


def floordiv(a: IntLike, b: IntLike) -> Expr:
    if int_value(as_expr(b)) == 1:
        return as_expr(a)
    return _int_call(ops.floor_divide, operator.floordiv, a, b)


def modulo(a: IntLike, b: IntLike) -> Expr:
    if int_value(as_expr(b)) == 1:
        return const(0, INT64)
    return _int_call(ops.remainder, operator.mod, a, b)


def compare(op: ops.Operator, a: IntLike, b: IntLike) -> Expr:
    return Call(op, (as_expr(a), as_expr(b)))


def both(*conditions: Expr | None) -> Expr | None:
    """The conjunction; None stands for true."""
    result: Expr | None = None
    for c in conditions:
        if c is not None:
            result = c if result is None else Call(ops.logical_and, (result, c))
    return result


def either(a: Expr, b: Expr) -> Expr:
    return Call(ops.logical_or, (a, b))


def convert(e: Expr, dtype: ops.DType) -> Expr:
    """``e`` in ``dtype``; literals are converted at once."""
    if e.dtype == dtype:
        return e
    if isinstance(e, Const):
        return const(lifted(ops.cast(dtype), e.value), dtype)
    return Call(ops.cast(dtype), (e,))


def repeated(op: ops.Operator, value: Expr, count: int) -> Expr | None:
    """``count`` >= 1 copies of ``value`` under a monoid, None if it has no repetition.

    Sums of real numbers are products, small powers are powers: other laws know these."""
    dtype = value.dtype
    if op.idempotent or (dtype.kind == "b" and op in _PLAIN):  # + is or, * is and
        return value
    if op.repeat is None:
        return None
    plain = _PLAIN.get(op)
    if plain is not None and _is_plain(op, dtype, count):
        return Call(plain, (value, const(count, dtype)))
    times, number = copies(op, dtype, count)
    return Call(times, (value, const(number)))


def copies(op: ops.Operator, dtype: ops.DType, count: int) -> tuple[ops.Operator, Any]:
    """``op.copies``, also for a count that plans are given."""
    return op.copies(dtype, 1)[0], lifted(_number_of_copies, op, dtype, count)


def _number_of_copies(op: ops.Operator, dtype: ops.DType, count: int) -> Any:
    return op.copies(dtype, count)[1]


_PLAIN = {ops.add: ops.multiply, ops.multiply: ops.power}


def _is_plain(op: ops.Operator, dtype: ops.DType, count: int) -> bool:
    """Whether ``count`` copies are exactly value * count, or value ** count, in the dtype."""
    if op is ops.add:
        return dtype.kind != "c" and count < 2**31
    if dtype.kind == "f":
        return count < 2**24
    return dtype.kind in "iu" and count <= np.iinfo(dtype.name).max


def element(array: Source, position: IntLike) -> Expr:
    """An element of a physical index array, widened to int64."""
    return convert(Read(array, (as_expr(position),)), INT64)


def index(name: str) -> Index:
    return Index(name)
