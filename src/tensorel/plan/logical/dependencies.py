"""Indices that stored tensors make equal.

Law: if a tensor has at most one entry for each value of some axes (a key, as one-hot matrices have
one column a row), two factors that read it at the same key have entries together only where they
are the same entry. In a sum of products their other indices are therefore one index:
``sum(k, b) K[k, a] * K[k, b] * R[b, j] = sum(k) K[k, a]**2 * R[a, j]``. Query optimizers chase
functional dependencies in the same way.

That a tensor has keys is a property of its data, not of its class: what was asked is part of the
plan (``Plan.asked``), and the plan is found again only for tensors that give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import prod

from tensorel.ir.nodes import Axis, Expr, Index, Lambda, Read, Reduce, Source
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.definitions import Definition, Program, distributing, factors_of, product
from tensorel.rewrite.names import bound_names
from tensorel.stats.collected.facts import Axes, TensorStats, others


def has_key(facts: Callable[[bool], TensorStats], axes: Axes) -> bool:
    """At most one entry is stored for each value of the axes."""
    stats = facts(False)
    if stats.full or stats.count > prod([stats.shape[a] for a in axes]):
        return False
    wanted = axes, others(stats.rank, axes)
    found = (stats.degrees or {}).get(wanted)
    if found is None:
        found = (facts(True).degrees or {}).get(wanted)
    return found is not None and found.largest <= 1


def identify_indices(program: Program) -> None:
    """Write one index for those that keys make equal, below each reduction."""
    program.map_formulas(_identified)


def _identified(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    r = lam.body
    times = distributing(r.op, r.body) if isinstance(r, Reduce) else None
    if not isinstance(r, Reduce) or times is None or r.op.identity is None:
        return [d]
    nothing = r.op.identity(r.body.dtype)
    if not times.annihilators or any(z is None or z != nothing for z in times.annihilators):
        return [d]  # entries that are not there would count
    factors, axes = factors_of(r.body, times), r.axes
    while (found := _equal(program, lam.axes, axes, factors, nothing)) is not None:
        gone, stays = found
        axes = tuple([a for a in axes if a.name != gone])
        factors = [substitute(f, {gone: Index(stays)}) for f in factors]
        program.fire("identify: indices that a key makes equal are one")
    if axes is r.axes:
        return [d]
    body = product(factors, times)
    return [d.rewritten(Lambda(lam.axes, Reduce(r.op, axes, body) if axes else body))]


def _equal(program: Program, kept: tuple[Axis, ...], reduced: tuple[Axis, ...],
           factors: list[Expr], nothing: object) -> tuple[str, str] | None:
    """A reduced index and another one that it equals wherever there is something to add."""
    extents = dict((*kept, *reduced))
    sums = {a.name for a in reduced}
    reads = [f for f in dict.fromkeys(factors) if isinstance(f, Read)]
    for f, g in combinations(reads, 2):
        if f.tensor is not g.tensor or not isinstance(f.tensor, Source) \
                or f.tensor.fill.value != nothing:
            continue
        for a, b in _apart(f, g):
            gone, stays = (b, a) if b in sums else (a, b)
            if gone in sums and extents.get(gone) == extents.get(stays) \
                    and not any(stays in bound_names(x) for x in factors) \
                    and _determined(program, f, g):
                return gone, stays
    return None


def _apart(f: Read, g: Read) -> Iterator[tuple[str, str]]:
    """The indices in which two reads of one tensor differ, if they agree in some."""
    pairs = list(zip(f.indices, g.indices))
    if any(i is j for i, j in pairs):
        for i, j in pairs:
            if i is not j and isinstance(i, Index) and isinstance(j, Index):
                yield i.name, j.name


def _determined(program: Program, f: Read, g: Read) -> bool:
    """The axes at which two reads agree, or one of them alone, are a key of their tensor."""
    assert isinstance(f.tensor, Source)
    slot, stats = f.tensor.data, program.stats.get(f.tensor.data)
    if not isinstance(slot, Slot) or stats is None or stats.facts is None:
        return False
    same = tuple([k for k, (i, j) in enumerate(zip(f.indices, g.indices)) if i is j])
    for axes in (same, *([(a,) for a in same] if len(same) > 1 else ())):
        question = slot.name, axes
        if question not in program.asked:
            program.asked[question] = has_key(stats.facts, axes)
        if program.asked[question]:
            return True
    return False
