"""Products that are read under another shape are not made: the indices that read them are split.

``kron(A, B) @ x`` is ``sum(r) K[i, r] * x[r]`` where ``K`` is the formula
``[i1, i2, r1, r2] -> A[i1, r1] * B[i2, r2]`` under the shape of a matrix. With ``r`` as the pair of
``r1`` and ``r2`` in all that it reads, and ``i`` as that of ``i1`` and ``i2``, this is a sum of
products of A, B and x as a matrix: the order of contraction is free, and K is never there. Operands
that are read at a split index, and the result, are seen under other shapes, which moves no entry.

It is done where the formula has more entries than all that it reads, as products of different
indices have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from tensorel.algebra import bulk
from tensorel.base.records import dataclass
from tensorel.ir.build import floordiv, int_value, modulo, plus, times
from tensorel.ir.extents import regrouped
from tensorel.ir.given import about
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Bulk,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    const,
    postorder,
    reads_in,
)
from tensorel.ir.replacing import substitute, with_parts
from tensorel.plan.definitions import Definition, Program, inner_reductions, sources_of
from tensorel.plan.estimate import Estimator

#: A formula with so many times the entries of its operands is not to be stored.
_GROWTH = 2.0
Shape = tuple[int, ...]


def split_indices(program: Program) -> None:
    """Write formulas over the axes of the products that they read under another shape."""
    made: list[Definition] = []
    known: dict[object, Definition] = {}
    fired = 0
    for d in program.definitions:
        found = _Splitter(program, known, d.tensor).run(d) if isinstance(d.tensor, Lambda) else None
        for new in found or [d]:
            known[new.ref] = new
            made.append(new)
        fired += found is not None
    if fired:
        program.definitions = _used(made, program.results)
        program.fire("split-indices: a product under another shape is not made", fired)


def _used(definitions: list[Definition], results: list[str]) -> list[Definition]:
    """Those that lead to a result."""
    kept: list[Definition] = []
    wanted: set[object] = set()
    for d in reversed(definitions):
        if d.name in results or d.ref in wanted:
            kept.append(d)
            wanted.update(s.data for s in sources_of(d.tensor))
    return kept[::-1]


@dataclass(frozen=True, slots=True)
class _View:
    """A read of a formula under another shape; ``groups``: the axes of the formula that each axis
    of that shape stands for."""

    read: Read
    formula: Lambda
    groups: tuple[tuple[int, ...], ...]


class _Splitter:
    """One formula."""

    def __init__(self, program: Program, known: Mapping[object, Definition], lam: Lambda) -> None:
        self.program, self.known, self.lam = program, known, lam
        self.radices: dict[str, Shape] = {}
        self.extents = {a.name: a.extent for a in lam.axes}
        for x in postorder(lam.body):
            if isinstance(x, Reduce):
                self.extents |= {a.name: a.extent for a in x.axes}
        self.views: list[Definition] = []
        self.seen: dict[tuple[Source, Shape], Source] = {}
        self.counter = 0

    def run(self, d: Definition) -> list[Definition] | None:
        """The definitions in place of one; None where nothing is to be split."""
        views = [v for r in reads_in(self.lam.body) if (v := self._view(r)) and self._fits(v)]
        if not views:
            return None
        self.instead = {v.read: v for v in views}
        self.parts = {n: [Axis(f"{n}_{k}", e) for k, e in enumerate(radix)]
                      for n, radix in self.radices.items()}
        formula = Lambda(tuple(self._axes(self.lam.axes)), self._rewritten(self.lam.body))
        if formula.shape == d.shape:
            return [*self.views, d.rewritten(formula)]
        whole, fill = d.ref.whole, d.source().fill
        inner = Definition(self.program.fresh(), formula, None, fill, whole)
        return [*self.views, inner, replace(
            d, tensor=Bulk(bulk.reshape, (inner.source(),), (d.shape,)), fill=fill, whole=whole)]

    # -- what is split ----------------------------------------------------------------------------
    def _view(self, read: Read) -> _View | None:
        source = read.tensor
        assert isinstance(source, Source)
        d = self.known.get(source.data)
        if d is None or not isinstance(d.tensor, Bulk):
            return None
        while d is not None and isinstance(d.tensor, Bulk) and d.tensor.op is bulk.reshape \
                and d.name not in self.program.results:
            (arg,) = d.tensor.args
            d = self.known.get(arg.data) if isinstance(arg, Source) else None
        if d is None or not isinstance(d.tensor, Lambda) or d.name in self.program.results \
                or 0 in d.shape or not self._grows(d.tensor):
            return None
        groups: list[tuple[int, ...]] = []
        for old, new in regrouped(d.shape, source.shape):
            if len(new) != 1:
                return None  # an axis of the formula is cut, or axes of one value stand alone
            groups.append(tuple(old))
        return _View(read, d.tensor, tuple(groups))

    def _grows(self, lam: Lambda) -> bool:
        """Whether the formula has many more entries than what it reads."""
        if isinstance(lam.body, Reduce):
            return False
        estimator = Estimator(self.program.stats)
        held = sum(estimator.of(s).count for s in {r.tensor for r in reads_in(lam.body)}
                   if isinstance(s, Source))
        support = estimator.analysis(False).cover(lam.body).support
        count = about(lam.shape)
        if not inner_reductions(lam.body):
            count = estimator.relation(
                support, {a.name: a.extent for a in lam.axes}, False).estimate
        return count > _GROWTH * held

    def _fits(self, view: _View) -> bool:
        """Whether its indices can be split; then they are to be."""
        wanted: dict[str, Shape] = {}
        for index, group, extent in zip(view.read.indices, view.groups, view.read.tensor.shape):
            long = tuple([n for k in group if (n := view.formula.axes[k].extent) != 1])
            if len(long) < 2 or int_value(index) is not None:
                continue
            if not isinstance(index, Index) or self.extents.get(index.name) != extent:
                return False
            if wanted.get(index.name, self.radices.get(index.name, long)) != long:
                return False
            wanted[index.name] = long
        self.radices |= wanted
        return True

    # -- how it is written then -------------------------------------------------------------------
    def _axes(self, axes: tuple[Axis, ...]) -> list[Axis]:
        return [part for a in axes for part in self.parts.get(a.name, [a])]

    def _rewritten(self, body: Expr) -> Expr:
        whole = {n: self._together(n) for n in self.parts}
        memo: dict[Expr, Expr] = {}

        def go(e: Expr) -> Expr:
            found = memo.get(e)
            if found is None:
                match e:
                    case Index():
                        found = whole.get(e.name, e)
                    case Read():
                        found = self._read(e, go)
                    case Reduce():
                        found = Reduce(e.op, tuple(self._axes(e.axes)), go(e.body))
                    case _:
                        found = with_parts(e, go)
                memo[e] = found
            return found

        return go(body)

    def _together(self, name: str) -> Expr:
        """The index that was split."""
        found: Expr = const(0, INT64)
        for a in self.parts[name]:
            found = plus(times(found, a.extent), Index(a.name))
        return found

    def _read(self, e: Read, go: Callable[[Expr], Expr]) -> Expr:
        view = self.instead.get(e)
        if view is not None:
            return self._inlined(view)
        assert isinstance(e.tensor, Source)
        shape: list[int] = []
        indices: list[Expr] = []
        for index, extent in zip(e.indices, e.tensor.shape):
            parts = self.parts.get(index.name) if isinstance(index, Index) else None
            if parts and prod(a.extent for a in parts) == extent:
                shape += [a.extent for a in parts]
                indices += [Index(a.name) for a in parts]
            else:
                shape.append(extent)
                indices.append(go(index))
        if len(shape) == len(e.indices):
            return Read(e.tensor, tuple(indices))
        return Read(self._reshaped(e.tensor, tuple(shape)), tuple(indices))

    def _reshaped(self, source: Source, shape: Shape) -> Source:
        found = self.seen.get((source, shape))
        if found is None:
            d = Definition(self.program.fresh(), Bulk(bulk.reshape, (source,), (shape,)))
            self.views.append(d)
            stats = self.program.stats.get(source.data)
            if stats is not None:
                self.program.stats[d.ref] = replace(stats, facts=None, rows=None)
            found = self.seen[source, shape] = d.source()
        return found

    def _inlined(self, view: _View) -> Expr:
        """The formula at the places that the split indices name."""
        values: dict[str, Expr] = {}
        for index, group in zip(view.read.indices, view.groups):
            axes = [view.formula.axes[k] for k in group]
            places = self._places(index, [a.extent for a in axes])
            values.update(zip([a.name for a in axes], places))
        return substitute(self._own_names(view.formula.body), values)

    def _places(self, index: Expr, extents: list[int]) -> list[Expr]:
        zero: Expr = const(0, INT64)
        long = [n for n in extents if n != 1]
        if len(long) < 2:
            return [index if n != 1 else zero for n in extents]
        if isinstance(index, Index):
            parts = iter(Index(a.name) for a in self.parts[index.name])
            return [next(parts) if n != 1 else zero for n in extents]
        found: list[Expr] = []
        for n in reversed(extents):
            found.append(modulo(index, n))
            index = floordiv(index, n)
        return found[::-1]

    def _own_names(self, body: Expr) -> Expr:
        """New names for what the formula binds: it may be written several times."""
        memo: dict[Expr, Expr] = {}
        for x in postorder(body):
            if not isinstance(x, Expr):
                continue
            made = with_parts(x, lambda p: memo.get(p, p))
            if isinstance(made, Reduce):
                axes = []
                for a in made.axes:
                    self.counter += 1
                    axes.append(Axis(f"s{self.counter}_{self.program.counter}", a.extent))
                inside = substitute(made.body, {
                    old.name: Index(new.name) for old, new in zip(made.axes, axes)})
                made = Reduce(made.op, tuple(axes), inside)
            memo[x] = made
        return memo[body]

