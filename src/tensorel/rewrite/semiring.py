"""Which two operators of an expression are the sum and the product of a semiring.

Operators say over what they distribute; nothing here goes by name. Only + and - and * have
numbers for coefficients: there n copies of a are n*a, and subtraction is part of the ring.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, DType, Operator
from tensorel.ir.nodes import Call, Const, Expr, Reduce, const


class Semiring(NamedTuple):
    """``times`` distributes over ``plus`` in ``dtype``; None if only sums occur."""

    plus: Operator
    times: Operator | None
    dtype: DType

    @property
    def is_ring(self) -> bool:
        return self.plus is ops.add and self.dtype != BOOL

    @property
    def plus_idempotent(self) -> bool:
        return _is_idempotent(self.plus, self.dtype)

    @property
    def times_idempotent(self) -> bool:
        return self.times is not None and _is_idempotent(self.times, self.dtype)

    @property
    def one(self) -> Const | None:
        if self.times is None or self.times.identity is None:
            return None
        return const(self.times.identity(self.dtype), self.dtype)

    @property
    def zero(self) -> Const | None:
        return None if self.plus.identity is None else const(
            self.plus.identity(self.dtype), self.dtype)


@cache
def _is_idempotent(op: Operator, dtype: DType) -> bool:
    """By declaration, or on truth values by the table: there + is "or" and * is "and"."""
    if dtype == BOOL:
        return all(bool(op.meaning(v, v)) is v for v in (False, True))
    return op.idempotent


@cache
def _pairs(op: Operator, dtype: DType) -> tuple[tuple[Operator, Operator], ...]:
    """Every (times, plus) that ``op`` is part of: those first where it is the sum."""
    every = [(t, p) for t in ops.operators() for p in ops.operators()
             if op in (t, p) and _is_abelian(t) and _is_abelian(p) and t.distributes(p, dtype)]
    seen: list[tuple[Operator, Operator]] = []
    for t, p in every:
        if (p, t) not in seen:  # a lattice: each distributes over the other; one reading is kept
            seen.append((t, p))
    return tuple(sorted(seen, key=lambda tp: tp[1] is not op))


def _is_abelian(op: Operator) -> bool:
    return op.associative and op.commutative


def semiring_of(e: Expr) -> Semiring | None:
    """The semiring of the operator at the root of ``e``, read with what stands below it."""
    if not isinstance(e, (Call, Reduce)):
        return None
    dtype = e.dtype
    op = ops.add if e.op in (ops.subtract, ops.negative) else e.op
    if e.op in (ops.square, ops.power) or (e.op is ops.divide and dtype.kind == "f"):
        op = ops.multiply
    if not _is_abelian(op) or op.resolve(dtype, dtype)[1] != dtype:
        return None
    if isinstance(e, Call) and any(a.dtype != dtype for a in e.args if e.op is not ops.power):
        return None
    pairs = _pairs(op, dtype)
    below = _below(e, op) if len(pairs) > 1 else frozenset()
    for t, p in pairs:
        if (t if p is op else p) in below:
            return Semiring(p, t, dtype)
    for t, p in pairs:
        if p is op or len(pairs) == 1:
            return Semiring(p, t, dtype)
    return Semiring(op, None, dtype)


def _below(e: Expr, op: Operator) -> frozenset[Operator]:
    """The operators next below a cluster of ``op``."""
    found: set[Operator] = set()
    stack: list[Expr] = [e]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen or x.dtype != e.dtype or not isinstance(x, (Call, Reduce)):
            continue
        seen.add(x)
        inner = ops.add if x.op in (ops.subtract, ops.negative) else x.op
        found.add(inner)
        if inner is op:
            stack.extend(x.args if isinstance(x, Call) else (x.body,))
    return frozenset(found - {op})


__all__ = ["Semiring", "semiring_of"]
