"""Estimated sizes under uniform independence: densities multiply, unite, and fill up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tensorel.ir.given import about, estimate
from tensorel.ir.nodes import Expr, Read, Reduce, Source
from tensorel.kernels.lowering.support import Analysis, Formula
from tensorel.plan.definitions import Stats
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.pointset import Relation, everything
from tensorel.stats.estimates.reads import of_read
from tensorel.stats.estimates.support import points


class Estimator:
    """Densities of support formulas and of reductions."""

    def __init__(self, stats: Mapping[object, Stats]) -> None:
        self.stats = stats

    def of(self, source: Source) -> Stats:
        found = self.stats.get(source.data)
        if found is None:
            size = about(source.shape)
            found = Stats(size, size, True)
        return found

    def analysis(self, strict: bool) -> Analysis:
        """Supports as far as the estimates know which tensors are dense."""
        return Analysis(strict, sparse=self._sparse)

    def _sparse(self, read: Read) -> bool:
        assert isinstance(read.tensor, Source)
        return not self.of(read.tensor).dense

    def density(self, f: Formula) -> float:
        """The share of index tuples inside the support."""

        def of_read(read: Read) -> float:
            assert isinstance(read.tensor, Source)
            return self.of(read.tensor).density

        return formula_density(f, of_read)

    @estimate
    def relation(self, f: Formula, extents: Mapping[str, int], exact: bool) -> Relation:
        """The points of a support over indices, from statistics; ``exact``: also from those that
        need a pass over the entries."""

        def of(read: Read) -> Relation:
            assert isinstance(read.tensor, Source)
            stats = self.of(read.tensor)
            own = {n: extents[n] for n in sorted(read.free)}
            if stats.dense:
                return everything(own)
            facts = stats.facts(exact) if stats.facts is not None else TensorStats(
                read.tensor.shape, int(min(stats.count, 2.0**62)))
            return _expected(of_read(facts, read.indices, own), stats.count / max(facts.count, 1))

        return points(f, extents, of)

    def is_dense(self, e: Expr) -> bool:
        """Every read below is of a dense tensor."""
        return all([self.of(t).dense for t in e.reads if isinstance(t, Source)])  # noqa: C419


def _expected(r: Relation, share: float) -> Relation:
    """Statistics of an intermediate are bounds; only a share of it is expected to be there."""
    if share < 1.0:
        r.estimate *= share
        r.distinct = {n: min(x, r.estimate) for n, x in r.distinct.items()}
    return r


def formula_density(f: Formula, of_read: Callable[[Read], float]) -> float:
    """The share of index tuples in a formula, its reads being independent."""
    if f.kind == "has":
        assert f.read is not None
        return of_read(f.read)
    shares = [formula_density(p, of_read) for p in f.parts]
    if f.kind == "and":
        return math.prod(shares)
    if f.kind == "or":
        return 1.0 - math.prod(1.0 - s for s in shares)
    return 1.0 if f.kind == "true" else 0.0


def filled(density: float, count: float) -> float:
    """The chance that at least one of ``count`` independent points is stored."""
    if density >= 1.0:
        return 1.0
    if density <= 0.0 or count == 0:
        return 0.0
    return -math.expm1(count * math.log1p(-density))


def loops_inside(e: Expr) -> float:
    """Work per point: nodes, with inner reductions counted by their extents."""
    if isinstance(e, Reduce):
        return about([a.extent for a in e.axes]) * loops_inside(e.body)
    kids = getattr(e, "args", ())
    return 1.0 + sum(loops_inside(k) for k in kids)
