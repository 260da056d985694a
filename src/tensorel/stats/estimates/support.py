"""Sizes of support formulas: how many points of the loops a kernel visits, how many cells of
its result it can touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorel.ir.given import estimate
from tensorel.ir.nodes import Read, Source
from tensorel.kernels.lowering.support import Formula
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.joins import extend, join, union
from tensorel.stats.estimates.pointset import Relation, everything, nothing
from tensorel.stats.estimates.reads import of_read


@estimate
def points(formula: Formula, extents: Mapping[str, int], of_read: Callable[[Read], Relation]
           ) -> Relation:
    """The points of the loops over ``extents`` at which ``formula`` holds. Its projection onto
    some indices is ``reduction.project(points(...), names)``."""
    return extend(_points(formula, extents, of_read), dict(extents))


def _points(f: Formula, extents: Mapping[str, int], of_read: Callable[[Read], Relation]
            ) -> Relation:
    match f.kind:
        case "has":
            assert f.read is not None
            return of_read(f.read)
        case "and":
            return join(*[_points(p, extents, of_read) for p in f.parts])
        case "or":
            return union(*[_points(p, extents, of_read) for p in f.parts])
        case "true":
            return everything({})
        case _:
            return nothing(extents)


def reader(stats_of: Callable[[Source], TensorStats | None], extents: Mapping[str, int]
           ) -> Callable[[Read], Relation]:
    """``of_read`` for ``points``, from the statistics of sources; what has none is dense. Reads
    are looked up once."""
    seen: dict[Read, Relation] = {}

    def relation(read: Read) -> Relation:
        found = seen.get(read)
        if found is None:
            assert isinstance(read.tensor, Source)
            stats = stats_of(read.tensor)
            if stats is None:
                found = everything({n: extents[n] for n in sorted(read.free)})
            else:
                found = of_read(stats, read.indices, extents)
            seen[read] = found
        return found

    return relation
