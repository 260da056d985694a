"""One aggregate: where it has entries, what is missing from its reductions, how large it gets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensorel.algebra import ops
from tensorel.base.records import cached_property, dataclass
from tensorel.ir.affine import determined
from tensorel.ir.given import about
from tensorel.ir.nodes import (
    Axis,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    const,
    is_same_literal,
    reads_in,
)
from tensorel.kernels.lowering.support import Analysis, Formula, absent, repeat_constant, rounds
from tensorel.plan.estimate import filled, formula_density
from tensorel.plan.loops.simulate import Simulation
from tensorel.stats.estimates.pointset import Relation, everything
from tensorel.stats.estimates.reads import of_read
from tensorel.stats.estimates.reduction import project
from tensorel.stats.estimates.support import points
from tensorel.storage.format import Format

if TYPE_CHECKING:
    from tensorel.plan.steps.build import StepBuilder


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name[axes] = reduce(op, reduced, body)`` over slots, to be stored as ``want`` if that is
    given."""

    name: str
    axes: tuple[Axis, ...]
    op: ops.Operator | None
    reduced: tuple[Axis, ...]
    body: Expr
    fill: Const
    want: Format | None = None

    @classmethod
    def of(cls, name: str, axes: tuple[Axis, ...], body: Expr, fill: Const, want: Format | None
           ) -> Assignment:
        """The assignment of a formula."""
        if isinstance(body, Reduce):
            return cls(name, axes, body.op, body.axes, body.body, fill, want)
        return cls(name, axes, None, (), body, fill, want)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([a.extent for a in self.axes])

    @property
    def extents(self) -> dict[str, int]:
        return {a.name: a.extent for a in (*self.axes, *self.reduced)}


class Aggregate:
    """An assignment with its support and sizes."""

    def __init__(self, chooser: StepBuilder, assigned: Assignment) -> None:
        self.chooser = chooser
        axes, op, reduced, body = assigned.axes, assigned.op, assigned.reduced, assigned.body
        self.op, self.body, self.fill, self.want = op, body, assigned.fill, assigned.want
        self.costs = chooser.costs
        self.names = [a.name for a in axes]
        self.reduced = frozenset(a.name for a in reduced)
        self.extents = assigned.extents
        self.dtype = body.dtype
        strict = chooser.strict
        summed = op is ops.add
        self.sequential = strict and op is not None and rounds(op, self.dtype)
        cover = chooser.analysis.cover(body, summed)
        self.support = cover.support
        if cover.support.kind != "true" and cover.background is not None:
            # what the kernel leaves out equals the background, so that is the fill
            background: Const | None = cover.background
            if op is not None:
                count = math.prod(a.extent for a in reduced)
                background = repeat_constant(op, cover.background, count)
            if background is not None:
                self.fill = background
        self._count_missing(op, strict)
        self.operands = [self.chooser.operand(r) for r in reads_in(body)]

    def _count_missing(self, op: ops.Operator | None, strict: bool) -> None:
        """Does the reduction meet points that are not stored and do not equal its identity?"""
        self.counted, self.everywhere, self.residual = False, False, None
        self.whole_cells = False
        self.reduced_support = self.support
        if op is None or not self.reduced:
            return
        reduced = self.reduced
        summed = op is ops.add
        analysis = Analysis(strict, lambda r: r.free.isdisjoint(reduced), summed=summed)
        cover = analysis.cover(self.body)
        assert op.identity is not None
        identity = const(op.identity(self.dtype), self.dtype)
        plain = self.chooser.analysis.cover(self.body, summed)
        if is_same_literal(plain.background, identity):
            return
        if cover.support.kind == "true":
            # a visited cell sees all its points, others keep the fill: which is not the identity,
            # so no cell may be delivered in parts
            if plain.support.kind != "true":
                self.whole_cells = bool(self.names)
                self.reduced_support = Formula("true")
                if not self.names:
                    self._dense_support()
            return
        if self.sequential or (op.repeat is None and not op.idempotent):
            self._dense_support()
            return
        residual: Expr | None = cover.background  # outside the support, by its law
        if residual is None:
            residual = absent(self.body, lambda r: not r.free.isdisjoint(reduced))
        if not residual.free.isdisjoint(reduced):
            self._dense_support()
            return
        self.counted = True
        self.residual = residual
        if not residual.reads:
            self.residual = self.chooser.analysis.cover(residual).background or residual
        self.reduced_support = cover.support

    def _dense_support(self) -> None:
        """Every point counts: loops visit all of them."""
        self.everywhere = True
        self.support = self.reduced_support = Formula("true")

    def supports(self) -> dict[str, Formula]:
        return {n: self.reduced_support if n in self.reduced else self.support
                for n in self.extents}

    def cell_count(self, sim: Simulation) -> float:
        """Entries of the result: delivered cells, with repeated ones counted once."""
        size = about([self.extents[n] for n in self.names])
        if not self.reduced:
            return min(sim.cells, size)
        density = formula_density(self.support, self._density)
        points = about([self.extents[n] for n in self.reduced])
        return min(size * filled(density, points), size, max(sim.cells, 1.0), self._cells_below)

    @cached_property
    def _cells_below(self) -> float:
        """A result has no more rows than an operand that it must meet: the nodes of the
        operand's outer levels, times the room of the axes that these do not have."""
        return min((nodes * about([self.extents[n] for n in self.names if n not in held])
                    for held, nodes in self._required_rows()), default=math.inf)

    def rows_below(self, name: str) -> float:
        """At most so many coordinates of an axis are expected to occur."""
        return min((nodes for held, nodes in self._required_rows() if held == {name}),
                   default=about([self.extents[name]]))

    def _required_rows(self) -> Iterator[tuple[set[str], float]]:
        """Axes and nodes of the outer levels of the operands that have to have an entry."""
        for f in self.support.parts if self.support.kind == "and" else (self.support,):
            if f.kind != "has" or f.read is None:
                continue
            known = self.chooser.known_of(f.read.tensor)  # type: ignore[arg-type]
            held: set[str] = set()
            for axis, nodes in zip(known.slot.format.order, known.levels):
                index = f.read.indices[axis]
                if not isinstance(index, Index) or index.name not in self.names:
                    break
                held.add(index.name)
                yield set(held), nodes

    def _density(self, read: Read) -> float:
        known = self.chooser.known_of(read.tensor)  # type: ignore[arg-type]
        size = about(known.source.shape)
        if known.restricted is not None:  # where somebody asks
            size *= known.restricted[1]
        return min(known.count / size, 1.0) if size else 0.0

    @cached_property
    def most(self) -> float:
        """At most so many output cells have a point of the support, by longest segments."""
        return self._points_bound(self.support)

    @cached_property
    def most_by_statistics(self) -> float:
        """The same from all statistics, which may take a pass over the operands."""

        def of(read: Read) -> Relation:
            known = self.chooser.known_of(read.tensor)  # type: ignore[arg-type]
            own = {n: self.extents[n] for n in sorted(read.free)}
            if known.facts is None:
                return everything(own)
            return of_read(known.facts(True), read.indices, own)

        return project(points(self.support, self.extents, of), self.names).bound

    def _points_bound(self, f: Formula) -> float:
        """At most so many output cells have a point of the support."""
        everything = about([self.extents[n] for n in self.names])
        if f.kind == "has":
            assert f.read is not None
            return min(self._read_bound(f.read), everything)
        if f.kind == "and":
            reads = [p.read for p in f.parts if p.kind == "has" and p.read is not None]
            joins = [self._join_bound(r, reads) for r in reads]
            return min([everything, *joins, *(self._points_bound(p) for p in f.parts)])
        if f.kind == "or":
            return min(sum(self._points_bound(p) for p in f.parts), everything)
        return everything if f.kind == "true" else 0.0

    def _read_bound(self, read: Read) -> float:
        """Output cells with a stored entry of a read. An entry fixes the indices that its
        coordinates determine, not those of a gather: A[rows[i], j] may show a row many times, but
        at most as many entries of it as the longest row has."""
        known = self.chooser.known_of(read.tensor)  # type: ignore[arg-type]
        order = known.slot.format.order
        found = math.inf
        for depth in range(len(order) + 1):
            if depth and known.degrees is None:
                break
            given = frozenset().union(*(read.indices[a].free for a in order[:depth]))
            below = known.count if depth == 0 else math.prod(known.degrees[depth:])  # type: ignore[index]
            fixed = determined([read.indices[a] for a in order[depth:]], given)
            free = (given | frozenset(self.names)) - (fixed - given)
            found = min(found, below * about([self.extents[n] for n in free if n in self.extents]))
        return found

    def _join_bound(self, first: Read, reads: list[Read]) -> float:
        """Entries of ``first`` times the longest segments of the others below what is bound."""
        points = self.chooser.known_of(first.tensor).count  # type: ignore[arg-type]
        if not determined(first.indices, frozenset()) >= first.free:
            return math.inf
        bound = set(first.free)
        left = [r for r in reads if r is not first]
        while True:
            best: tuple[float, Read] | None = None
            for r in left:
                known = self.chooser.known_of(r.tensor)  # type: ignore[arg-type]
                if known.degrees is None:
                    continue
                order = known.slot.format.order
                inside = 0
                while inside < len(order) and r.indices[order[inside]].free <= bound:
                    inside += 1
                if inside == 0 or not determined(r.indices, frozenset(bound)) >= r.free:
                    continue
                most = math.prod(known.degrees[inside:])
                if best is None or most < best[0]:
                    best = most, r
            if best is None:
                break
            points *= best[0]
            bound |= best[1].free
            left.remove(best[1])
        return points * about([self.extents[n] for n in self.names if n not in bound])
