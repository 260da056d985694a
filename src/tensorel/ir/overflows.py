"""Conditions that tell where whole numbers of 64 bits have wrapped around."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, const

_LAST = 2**63 - 1


def is_lowest(e: Expr) -> Expr:
    """The lowest int64, which alone has no opposite."""
    return Call(ops.less, (e, const(-_LAST, INT64)))


def wrapped(op: ops.Operator, a: Expr, b: Expr, result: Expr) -> Expr:
    """A sum or difference of int64 has overflowed: its sign is impossible."""
    first = Call(ops.bitwise_xor, (a, b if op is ops.subtract else result))
    second = Call(ops.bitwise_xor, (b if op is ops.add else a, result))
    return Call(ops.less, (Call(ops.bitwise_and, (first, second)), const(0, INT64)))


def wrapped_product(a: Expr, b: Expr, result: Expr) -> Expr:
    """A product of int64 has overflowed: it is a multiple of 2^64 away from that of the reals,
    whose rounding is far less."""
    real = Call(ops.multiply, (convert(a, FLOAT64), convert(b, FLOAT64)))
    apart = Call(ops.absolute, (Call(ops.subtract, (real, convert(result, FLOAT64))),))
    return Call(ops.greater, (apart, const(2.0**62)))
