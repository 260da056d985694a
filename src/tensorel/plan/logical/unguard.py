"""Conditions that say what storage says already.

``where(A[i, j] != 0, A[i, j] * B[j, k], 0)`` is ``A[i, j] * B[j, k]`` if A stores no zeros: where A
has no entry, both are 0, because what is not stored annihilates. It is also if B stores finite
numbers alone: 0 times them is 0. Joins of relations are written with such conditions. Without them
they are products, which can be ordered, factored and summed apart.

What a tensor stores is a property of its data, like its keys: what was asked is part of the plan
(``Plan.asked``).
"""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.build import both
from tensorel.ir.nodes import Call, Const, Expr, Lambda, Read, Source, is_same_literal, postorder
from tensorel.ir.replacing import with_parts
from tensorel.kernels.lowering.nest import Slot
from tensorel.kernels.lowering.support import FALSE, Analysis, has, restrict
from tensorel.plan.definitions import FINITE, NO_FILLS, Program, factors_of


def drop_conditions(program: Program) -> None:
    """Leave out conditions that an operand is there, where the value says so itself."""

    def change(lam: Lambda) -> Expr:
        memo: dict[Expr, Expr] = {}
        for e in postorder(lam.body):
            if isinstance(e, Expr):
                made = with_parts(e, lambda p: memo.get(p, p))
                memo[e] = _plain(program, made) if isinstance(made, Call) else made
        return memo[lam.body]

    program.map_bodies(change)


def _plain(program: Program, e: Call) -> Expr:
    if e.op is not ops.where or not isinstance(e.args[2], Const):
        return e
    condition, value, other = e.args
    assert isinstance(other, Const)
    parts = _conjuncts(condition)
    kept = [p for p in parts if not _is_said(program, p, value, other)]
    if len(kept) == len(parts):
        return e
    program.fire("drop-condition: where(a != 0, a*b, 0) -> a*b", len(parts) - len(kept))
    rest = both(*kept)
    return value if rest is None else Call(ops.where, (rest, value, other))


def _conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Call) and e.op is ops.logical_and:
        return [p for a in e.args for p in _conjuncts(a)]
    return [e]


def _is_said(program: Program, condition: Expr, value: Expr, other: Const) -> bool:
    """The condition is that something is not 0, or that a tensor without stored fills has an entry,
    and where it does not hold the value is the other one anyway."""
    if not isinstance(condition, Call) or condition.op is not ops.not_equal:
        return False
    read, fill = condition.args
    if not isinstance(fill, Const):
        return False
    return _is_stored(program, read, fill, value, other) or bool(
        fill.value == 0 and other.value == 0 and _vanishes(program, read, value))


def _is_stored(program: Program, read: Expr, fill: Const, value: Expr, other: Const) -> bool:
    """A tensor without stored fills is read, and where it has no entry the value is the other."""
    if not isinstance(read, Read) or not isinstance(read.tensor, Source) \
            or not is_same_literal(fill, read.tensor.fill):
        return False
    cover = Analysis(False, sparse=lambda r: r is read).cover(value)
    absent = restrict(cover.support, lambda r: FALSE if r is read else has(r))
    if absent.kind != "false" or not is_same_literal(cover.background, other):
        return False
    return holds(program, read.tensor, NO_FILLS)


def _vanishes(program: Program, factor: Expr, value: Expr) -> bool:
    """Where the factor is 0, so is the value: a product of it with finite numbers."""
    factors = factors_of(value, ops.multiply)
    return factor in factors and all(_is_finite(program, f) for f in factors if f is not factor)


def _is_finite(program: Program, e: Expr) -> bool:
    if e.dtype.kind in "biu":
        return True
    if isinstance(e, Const):
        return bool(np.isfinite(e.value))
    if isinstance(e, Read) and isinstance(e.tensor, Source):
        return bool(np.isfinite(e.tensor.fill.value)) and holds(program, e.tensor, FINITE)
    return False


def holds(program: Program, source: Source, what: tuple[int, ...]) -> bool:
    """What is asked of the data of a tensor."""
    slot, stats = source.data, program.stats.get(source.data)
    if not isinstance(slot, Slot) or stats is None or stats.stores is None:
        return False
    question = slot.name, what
    if question not in program.asked:
        program.asked[question] = stats.stores(what)
    return program.asked[question]
