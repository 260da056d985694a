"""Index expressions as a*v + b in one index v."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.algebra import ops
from tensorel.ir.build import as_expr, int_value, minus, plus, times
from tensorel.ir.nodes import Call, Expr, Index


def determined(coordinates: Sequence[Expr], given: frozenset[str]) -> frozenset[str]:
    """The indices that follow from the values of affine coordinates and of the given ones."""
    known, before = set(given), -1
    while len(known) != before:
        before = len(known)
        for e in coordinates:
            left = e.free - known
            if len(left) == 1:
                parts = split_affine(e, *left)
                if parts is not None and parts[0] != 0:
                    known |= left
    return frozenset(known)


def split_affine(e: Expr, name: str) -> tuple[int, Expr] | None:
    """(a, b) with ``e == a*name + b`` and b free of ``name``, or None if e is not of that form."""
    if name not in e.free:
        return 0, e
    match e:
        case Index():
            return 1, as_expr(0)
        case Call() if e.op in (ops.add, ops.subtract):
            left, right = (split_affine(x, name) for x in e.args)
            if left is None or right is None:
                return None
            if e.op is ops.add:
                return left[0] + right[0], plus(left[1], right[1])
            return left[0] - right[0], minus(left[1], right[1])
        case Call() if e.op is ops.multiply:
            for factor, other in (e.args, e.args[::-1]):
                k = int_value(factor)
                rest = split_affine(other, name)
                if k is not None and rest is not None:
                    return k * rest[0], times(k, rest[1])
            return None
        case _:
            return None
