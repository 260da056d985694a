"""Definitions that are used up in the nest that reads them.

A definition with one reader need not be stored: under a loop order of the reader that binds all but
one of its indices, a row of it is filled in a workspace, used and forgotten (a row of A @ A in
4-cycles); a vector's entry is one sum (A.T @ (A @ x) reads each row of A once), which any formula
over vectors may contain (A @ x + B @ y - z is one loop over rows)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tensorel.algebra import ops
from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.ir.nodes import (
    Axis,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    const,
    is_same_literal,
    reads_in,
)
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.nest import Let
from tensorel.kernels.lowering.support import Analysis
from tensorel.kernels.lowering.workspaces import workspace
from tensorel.plan.definitions import (
    Definition,
    Program,
    inner_reductions,
    product,
    replace_exprs,
    sources_of,
)
from tensorel.plan.loops.hoisted_joins import Hoisted, Sum
from tensorel.plan.loops.operands import is_plain

MAX_FUSED_LOOPS = 3


@dataclass(frozen=True, slots=True)
class Fused:
    """``[axes] -> reduce(op, reduced, body)`` over slots: a definition to be used up."""

    name: str
    axes: tuple[Axis, ...]
    op: Operator
    reduced: tuple[Axis, ...]
    body: Expr

    def is_possible(self, analysis: Analysis, summed: bool) -> bool:
        """Nothing but its entries matters: what is not visited is the identity. ``summed``: a sum
        reads it; there is nothing to use up of what has an entry everywhere."""
        assert self.op.identity is not None
        cover = analysis.cover(self.body)
        identity = const(self.op.identity(self.body.dtype), self.body.dtype)
        reads = reads_in(self.body)
        sparse = cover.support.kind not in ("true", "false") \
            and is_same_literal(cover.background, identity)
        return (sparse or (cover.support.kind == "true" and not summed)) \
            and not inner_reductions(self.body) and all(map(is_plain, reads)) \
            and 0 < len(self.reduced) < MAX_FUSED_LOOPS and all(
                r.tensor.shape[k] == self._extent(i.name)  # type: ignore[attr-defined]
                for r in reads if not r.tensor.data.format.is_dense  # type: ignore[attr-defined]
                for k, i in enumerate(r.indices))

    def _extent(self, name: str) -> int:
        return next(a.extent for a in (*self.axes, *self.reduced) if a.name == name)


def find_fusable(program: Program) -> None:
    """Mark what may be used up where it is read: sums that one other definition reads, if that is
    a sum, or any formula over vectors."""
    readers: dict[object, list[Definition]] = {}
    for d in program.definitions:
        for read in dict.fromkeys(s.data for s in sources_of(d.tensor)):
            readers.setdefault(read, []).append(d)
    program.fusable = frozenset(
        d.name for d in program.definitions
        if _is_sum(d) and d.shape and d.format is None and d.name not in program.results
        and [_is_sum(r) or _is_beside(d, r) for r in readers.get(d.ref, ())] == [True])


def _is_sum(d: Definition) -> bool:
    return isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Reduce)


def _is_beside(d: Definition, reader: Definition) -> bool:
    """A vector that a formula over vectors reads."""
    return isinstance(reader.tensor, Lambda) and len(d.shape) == len(reader.shape) == 1


def fusions(order: tuple[str, ...], factors: list[Expr], times: Operator,
            fused: Mapping[Source, Fused]) -> list[Hoisted]:
    """The ways to use up definitions under a loop order; none where a row of one would be filled
    for points that are not its own."""
    read = dict.fromkeys(f for f in factors if isinstance(f, Read) and f.tensor in fused)
    left = [f for f in factors if f not in read]
    if not read or any(t in fused for f in left for t in f.reads):
        return []
    parts = [_ways(order, f, fused[f.tensor], times, k)  # type: ignore[index]
             for k, f in enumerate(read)]
    again = [factors.count(f) for f in read]
    found = []
    for chosen in itertools.product(*parts):
        values = [p.value for p, times_ in zip(chosen, again) for _ in range(times_)]
        body = product([*left, *values], times)
        lets = sorted((p.let for p in chosen if p.let is not None), key=lambda let: let.depth)
        sums = tuple(p.sum for p in chosen if p.sum is not None)
        extents = tuple(e for p in chosen for e in p.extents)
        inner = tuple(n for p in chosen for n in p.loops)
        depth = max(p.depth for p in chosen)
        found.append(Hoisted(body, tuple(lets), extents, {}, sums,
                            (*order[:depth], *inner, *order[depth:])))
    return found


def pointwise_fusions(order: tuple[str, ...], body: Expr, fused: Mapping[Source, Fused]
                      ) -> list[Hoisted]:
    """The formula over vectors with each of those that are used up as a sum inside."""
    table: dict[Expr, Expr] = {}
    sums: list[Sum] = []
    for r in reads_in(body):
        if r.tensor in fused:
            (part,) = _ways(order, r, fused[r.tensor], ops.add, len(sums))  # type: ignore[index]
            assert part.sum is not None
            table[r] = part.value
            sums.append(part.sum)
    loops = tuple([a.name for s in sums for a in s.value.axes])
    return [Hoisted(replace_exprs(body, table), (), (), {}, tuple(sums), (*order, *loops))]


@dataclass(frozen=True, slots=True)
class _Part:
    """One read of a definition: what takes its place."""

    value: Expr
    let: Let | None
    sum: Sum | None
    depth: int
    loops: tuple[str, ...]
    extents: tuple[tuple[str, int], ...]


def _ways(order: tuple[str, ...], f: Read, d: Fused, times: Operator, number: int
          ) -> list[_Part]:
    names = [i.name for i in f.indices]  # type: ignore[attr-defined]
    inner = {a.name: Axis(f"{a.name}_{number}", a.extent) for a in d.reduced}
    values: dict[str, Expr] = {n: Index(a.name) for n, a in inner.items()}
    if len(names) == 1:
        if order[0] != names[0]:
            return []
        values[d.axes[0].name] = Index(names[0])
        total = Reduce(d.op, tuple(inner.values()), substitute(d.body, values))
        loops = tuple(a.name for a in inner.values())
        return [_Part(total, None, Sum(1, total), 1, loops, ())]
    assert d.op.identity is not None
    zero = d.op.identity(d.body.dtype)
    if not times.annihilators or any(z is None or z != zero for z in times.annihilators):
        return []  # entries that are not there would count
    axis = max(names, key=order.index)
    if set(order[: len(names) - 1]) != set(names) - {axis}:
        return []
    depth = len(names) - 1
    own = next(a for a, n in zip(d.axes, names) if n == axis)
    inner[own.name] = Axis(f"{own.name}_{number}", own.extent)
    for a, n in zip(d.axes, names):
        values[a.name] = Index(inner[own.name].name if a is own else n)
    body = substitute(d.body, values)
    slot = workspace(f"{d.name}_{number}" if number else d.name, own.extent, body.dtype, False)
    source = Source(slot, (own.extent,), body.dtype, const(zero, body.dtype))
    extents = tuple((a.name, a.extent) for a in inner.values())
    return [
        _Part(Read(source, (Index(axis),)),
              Let(slot, depth, inner[own.name].name, loops, d.op, body), None, depth, loops,
              extents)
        for loops in itertools.permutations(a.name for a in inner.values())]
