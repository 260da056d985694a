"""Relations of reads: ``A[i, k]``, and reads at computed indices.

Each axis is read at an expression. An axis is *injective* when its coordinate determines the one
index it is read at (``i``, ``2*i + 3``); a literal fixes a coordinate; all else (``i + j``, a
gather) maps indices to a coordinate in a way that is not known. Constraints between axes become
constraints between indices: the indices of the given axes determine the given coordinates, and
the counted coordinates determine the indices of the injective counted axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np

from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import int_value
from tensorel.ir.given import estimate
from tensorel.ir.nodes import Expr, Index
from tensorel.stats.collected.count_vectors import Vector
from tensorel.stats.collected.facts import Axes, Degrees, TensorStats
from tensorel.stats.collected.grids import Grids
from tensorel.stats.estimates.bounds import NONE, Constraints, Names, tighten
from tensorel.stats.estimates.pointset import Bands, Relation, everything, nothing
from tensorel.stats.estimates.polys import Poly, flat, scaled, single, survivors, total


@dataclass(frozen=True, slots=True)
class Place:
    """One axis of a read. ``name`` with ``step`` and ``start`` for ``step * name + start``;
    no name and ``start`` for a literal; neither: unknown, over the indices ``free``."""

    axis: int
    free: Names
    name: str | None = None
    step: int = 1
    start: int | None = None

    @property
    def injective(self) -> bool:
        return self.name is not None


def place(axis: int, index: Expr | str) -> Place:
    if isinstance(index, str):
        return Place(axis, frozenset((index,)), index, 1, 0)
    if isinstance(index, Index):
        return Place(axis, index.free, index.name, 1, 0)
    if len(index.free) == 1:
        (name,) = index.free
        split = split_affine(index, name)
        start = None if split is None else int_value(split[1])
        if split is not None and split[0] and start is not None:
            return Place(axis, index.free, name, split[0], start)
    return Place(axis, index.free, None, 1, int_value(index) if not index.free else None)


@estimate
def of_read(stats: TensorStats, indices: Sequence[Expr | str], extents: Mapping[str, int]
            ) -> Relation:
    """The index tuples at which a read meets a stored entry.

    >>> of_read(TensorStats((5, 6), 7), ("i", "j"), {"i": 5, "j": 6})
    Relation(i in 5, j in 6: about 7, at most 7)
    """
    places = [place(a, e) for a, e in enumerate(indices)]
    names: dict[str, int] = {}
    for p in places:
        for n in sorted(p.free):
            names.setdefault(n, extents[n])
    if not stats.count or 0 in names.values():
        return nothing(names)
    if stats.full and _inside(stats, places, names):
        return everything(names)
    vectors = {p.axis: _vector(stats, p, names) for p in places}
    constraints = _constraints(stats, places, names, vectors)
    estimate = _estimate(stats, places, vectors, names)
    most = constraints[NONE, frozenset(names), 1.0] if names else 1.0
    estimate = min(estimate, most)
    counts: dict[str, Poly | None] = {}
    limits: dict[str, Poly | None] = {}
    distinct: dict[str, float] = {}
    exactly = all(p.injective or p.start is not None for p in places)
    for n, e in names.items():
        own = next((p for p in places if p.name == n), None)
        vector = None if own is None or not exactly else vectors[own.axis]
        if vector is None and stats.full:
            limits[n] = flat(prod(map(float, names.values())) / e)
        else:
            limits[n] = None if vector is None else single(vector)
        counts[n], distinct[n] = _spread(stats, own, limits[n], e, estimate, most)
    plain = all(p.name is not None and (p.step, p.start) == (1, 0)
                and names[p.name] == stats.shape[p.axis] for p in places)
    plain = plain and len(names) == len(places)
    made = Relation(names, estimate, distinct, counts, limits, constraints, _bands(stats, places))
    if plain:
        made.grids, made.exact = _grids(stats, places), _exact(stats, places)
    return made


@estimate
def as_stats(r: Relation, axes: Sequence[str]) -> TensorStats:
    """What the bounds of a relation say of the tensor that will hold its points."""
    place_of = {n: k for k, n in enumerate(axes)}
    degrees: dict[tuple[Axes, Axes], Degrees] = {}
    distinct: dict[Axes, float] = {}
    for (given, counted, p), value in r.constraints.items():
        x = tuple(sorted([place_of[n] for n in given]))
        y = tuple(sorted([place_of[n] for n in counted]))
        if not given:
            distinct[y] = value
        elif p == inf:
            size = prod([float(r.extents[n]) for n in given])
            l2 = min(r.constraints.get((given, counted, 2.0), inf), size**0.5 * value)
            degrees[x, y] = Degrees(size, value, size * value, l2, False)
    return TensorStats(tuple([r.extents[n] for n in axes]), int(min(r.bound, 2**62)),
                       degrees=degrees, distinct=distinct)


def _inside(stats: TensorStats, places: list[Place], names: Mapping[str, int]) -> bool:
    """All coordinates are surely in range."""
    for p in places:
        if p.name is None:
            if p.start is None or not 0 <= p.start < stats.shape[p.axis]:
                return False
            continue
        assert p.start is not None
        ends = p.start, p.start + p.step * (names[p.name] - 1)
        if min(ends) < 0 or max(ends) >= stats.shape[p.axis]:
            return False
    return True


def _names_of(places: Sequence[Place]) -> Names:
    return NONE.union(*[p.free for p in places])


def _injective_names(places: Sequence[Place]) -> Names:
    return frozenset([p.name for p in places if p.name is not None])


def _constraints(stats: TensorStats, places: list[Place], names: Mapping[str, int],
                 vectors: Mapping[int, Vector | None]) -> Constraints:
    constraints: Constraints = {}

    def add(given: list[Place], counted: list[Place], p: float, value: float) -> None:
        tighten(constraints, _names_of(given), _injective_names(counted), p, value)

    for n, e in names.items():
        tighten(constraints, NONE, frozenset((n,)), 1.0, float(e))
    add([], places, 1.0, float(stats.count))
    for axes, value in (stats.distinct or {}).items():
        add([], [places[a] for a in axes], 1.0, float(value))
    for (given, counted), d in (stats.degrees or {}).items():
        xs, ys = [places[a] for a in given], [places[a] for a in counted]
        add(xs, ys, inf, d.largest)
        add([], xs, 1.0, d.distinct)
        # Norms sum over coordinates: each must be met by one index value at most.
        if len(xs) == 1 and xs[0].injective:
            add(xs, ys, 2.0, d.l2)
    for p in places:
        if p.name is None and p.start is not None:
            _fix(stats, p, places, constraints)
        vector = vectors[p.axis]
        if vector is not None and vector is not stats.vector(p.axis):
            rest = [q for q in places if q is not p]
            add([], places, 1.0, vector.total)
            add([], [p], 1.0, vector.distinct)
            add([p], rest, inf, vector.largest)
            add([p], rest, 2.0, vector.l2)
    if names:
        _close(constraints, names)
    return constraints


def _fix(stats: TensorStats, p: Place, places: list[Place], constraints: Constraints) -> None:
    """A literal coordinate whose count is known."""
    vector = stats.vector(p.axis)
    if vector is not None and p.start is not None:
        inside = 0 <= p.start < stats.shape[p.axis]
        held = float(vector.at(p.start)) if inside else 0.0
        rest = [q for q in places if q is not p]
        tighten(constraints, NONE, _injective_names(rest), 1.0, held)
        if not rest and not held:
            constraints[NONE, NONE, 1.0] = 0.0


def _close(constraints: Constraints, names: Mapping[str, int]) -> None:
    """A bound on all indices together: what is counted, times the extents of the others."""
    everyone = frozenset(names)
    best = prod(map(float, names.values()))
    for (given, counted, _), value in list(constraints.items()):
        if not given:
            best = min(best, value * prod([float(names[n]) for n in everyone - counted]))
        elif len(given) == 1 and constraints.get((given, counted, inf)) == value:
            left = everyone - counted - given
            best = min(best, constraints[NONE, given, 1.0] * value
                       * prod([float(names[m]) for m in left]))
    tighten(constraints, NONE, everyone, 1.0, best)


def _vector(stats: TensorStats, p: Place, names: Mapping[str, int]) -> Vector | None:
    """Entries per value of the index of an injective place."""
    vector = stats.vector(p.axis)
    if vector is None or p.name is None or p.start is None:
        return None
    extent = names[p.name]
    if (p.start, p.step, extent) == (0, 1, stats.shape[p.axis]):
        return vector
    return vector.window(p.start, p.step, extent)


def _estimate(stats: TensorStats, places: list[Place], vectors: Mapping[int, Vector | None],
              names: Mapping[str, int]) -> float:
    """Stored entries, times the share that each axis keeps, times the indices per coordinate."""
    if all(p.name is not None and vectors[p.axis] is not stats.vector(p.axis) for p in places):
        found = _within_tiles(stats, places, names)
        if found is not None:
            return found
    estimate, seen = float(stats.count), dict[str, Place]()
    for p in places:
        extent = max(stats.shape[p.axis], 1)
        if p.name is not None and p.name in seen:
            estimate *= _on_diagonal(stats, seen[p.name], p, extent)
        elif p.name is not None:
            seen[p.name] = p
            vector = vectors[p.axis]
            kept = min(names[p.name] / extent, 1.0)
            estimate *= kept if vector is None else vector.total / stats.count
        elif p.start is not None:
            whole = stats.vector(p.axis)
            inside = 0 <= p.start < stats.shape[p.axis]
            estimate *= (1 / extent if whole is None else whole.at(p.start) / stats.count
                         ) if inside else 0.0
        else:
            fresh = [float(names[n]) for n in sorted(p.free) if n not in seen]
            estimate *= prod(fresh) / extent
            seen.update({n: p for n in p.free if n not in seen})
    return estimate


def _on_diagonal(stats: TensorStats, first: Place, second: Place, extent: int) -> float:
    """The chance that an entry lies where both axes have one index."""
    aligned = first.step == second.step == 1 and {first.axis, second.axis} == {0, 1}
    if aligned and first.start == second.start == 0 and stats.diagonal is not None:
        found = stats.diagonal()
        if found is not None:
            return found / max(stats.count, 1)
    if stats.bandwidth is None or not aligned or first.start is None or second.start is None:
        return 1 / extent
    lower, upper = stats.bandwidth
    offset = (second.start - first.start) * (1 if first.axis == 0 else -1)
    return 1 / (lower + upper + 1) if -lower <= offset <= upper else 0.0


def _spread(stats: TensorStats, own: Place | None, limit: Poly | None, extent: int,
            estimate: float, most: float) -> tuple[Poly | None, float]:
    """Estimated points per coordinate and number of coordinates that occur."""
    if limit is not None:
        now = total(limit, extent)
        if not now:
            return limit, 0.0
        share = min(estimate / now, 1.0)
        held = float(limit[0][1][0].distinct) if limit[0][1] else float(extent)
        return (scaled(limit, estimate / now),
                survivors(limit, extent, held, now, share))
    held = float(min(extent, most, estimate if estimate >= 1 else 1.0))
    if own is not None and stats.distinct is not None:
        known = stats.distinct.get((own.axis,))
        if known is not None:
            held = min(held, float(known))
    return None, held


def _exact(stats: TensorStats, places: list[Place]) -> frozenset[Names]:
    """The sets of indices whose number of values is known, for axes read as they are."""
    if stats.degrees is None or not all(d.exact for d in stats.degrees.values()):
        return frozenset()
    return frozenset([_names_of([places[a] for a in axes]) for axes in stats.distinct or ()])


def _grids(stats: TensorStats, places: list[Place]) -> Grids:
    tiles = stats.tiles
    if tiles is None or len(places) != 2 or min(tiles.counts.shape) < 2:
        return {}
    rows, columns = (p.name for p in places)
    assert rows is not None and columns is not None
    return {(rows, columns): tiles.grid}


def _within_tiles(stats: TensorStats, places: list[Place], names: Mapping[str, int]
                  ) -> float | None:
    """Entries of a matrix in a window of both axes, by the tiles that it covers."""
    tiles, shares = stats.tiles, []
    if tiles is None or len(places) != 2 or places[0].name == places[1].name:
        return None
    for p, size in zip(places, tiles.size):
        if p.name is None or p.start is None or p.step < 1:
            return None
        stop = min(p.start + p.step * (names[p.name] - 1) + 1, stats.shape[p.axis])
        edges = np.minimum(np.arange(tiles.counts.shape[p.axis] + 1) * size, stats.shape[p.axis])
        inside = np.diff(np.clip(edges, max(p.start, 0), max(stop, 0)))
        shares.append(inside / np.diff(edges) / p.step)
    return float(shares[0] @ tiles.counts @ shares[1])


def _bands(stats: TensorStats, places: list[Place]) -> Bands:
    if stats.bandwidth is None or len(places) != 2:
        return {}
    rows, columns = places
    if rows.name is None or columns.name is None or rows.name == columns.name:
        return {}
    if rows.step != 1 or columns.step != 1 or rows.start is None or columns.start is None:
        return {}
    lower, upper = stats.bandwidth
    if 2 * (lower + upper + 1) > min(stats.shape):  # says little and costs time
        return {}
    shift = rows.start - columns.start
    return {(rows.name, columns.name): (float(-lower + shift), float(upper + shift))}
