"""Scalars of SDQLite's kinds as expressions of the calculus."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, convert
from tensorel.sdql.functions import SEMIRINGS

DTYPES: dict[str, ops.DType] = {"bool": ir.BOOL, "int": ir.INT64}
DTYPES |= dict.fromkeys(("real", *SEMIRINGS), ops.FLOAT64)
_MASKS = (0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF)


def zero_of(kind: str, dtype: ops.DType) -> ir.Const:
    return ir.const(SEMIRINGS[kind].zero if kind in SEMIRINGS else 0, dtype)


def adder(kind: str) -> ops.Operator:
    """The monoid that sums of a kind are made with."""
    if kind in SEMIRINGS:
        return SEMIRINGS[kind].add
    return ops.logical_or if kind == "bool" else ops.add


def call(op: ops.Operator, *args: ir.Expr) -> ir.Expr:
    """``op(args)`` with NumPy's conversions written out; literals fold."""
    into, _ = op.resolve(*[a.dtype for a in args])
    cast = [convert(a, d) for a, d in zip(args, into)]
    values = [a.value for a in cast if isinstance(a, ir.Const)]
    if len(values) == len(cast):
        with np.errstate(all="ignore"):
            return ir.const(op(*values))
    return ir.Call(op, tuple(cast))


def truth(e: ir.Expr) -> ir.Expr:
    """A test: numbers hold where they are not zero."""
    return e if e.dtype == ir.BOOL else call(ops.not_equal, e, ir.const(0, e.dtype))


def widened(e: ir.Expr, kind: str) -> ir.Expr:
    """``e`` in the dtype of a kind: whole numbers in 64 bits, reals at least as reals."""
    if kind == "int":
        return convert(e, ir.INT64)
    if kind == "bool" or e.dtype.kind in "fc":
        return e
    return convert(e, ops.FLOAT64)


def arithmetic(op: ops.Operator, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """``op(a, b)``; a literal takes the dtype of a real beside it."""
    if isinstance(a, ir.Const) and a.dtype.kind in "if" and b.dtype.kind in "fc":
        a = convert(a, b.dtype)
    elif isinstance(b, ir.Const) and b.dtype.kind in "if" and a.dtype.kind in "fc":
        b = convert(b, a.dtype)
    return call(op, a, b)


def times(kind: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The product of a kind; the zero of a semiring annihilates."""
    if kind not in SEMIRINGS:
        return arithmetic(ops.logical_and if kind == "bool" else ops.multiply, a, b)
    found = arithmetic(SEMIRINGS[kind].mul, a, b)
    if SEMIRINGS[kind].mul is ops.add:
        return found
    zero = zero_of(kind, found.dtype)
    none = call(ops.logical_or, call(ops.equal, a, zero), call(ops.equal, b, zero))
    return call(ops.where, none, zero, found)


def every_second_bit(e: ir.Expr, odd: bool, bits: int = 32) -> ir.Expr:
    """Bits 0, 2, 4, ... (odd: 1, 3, 5, ...) of a whole number, side by side; so many at most."""
    if odd:
        e = call(ops.right_shift, e, as_expr(1))
    e = call(ops.bitwise_and, e, as_expr(0x5555555555555555))
    for k, mask in enumerate((*_MASKS, (1 << bits) - 1)):
        moved = call(ops.right_shift, e, as_expr(1 << k))
        e = call(ops.bitwise_and, call(ops.bitwise_or, e, moved), as_expr(mask))
    return e
