"""Sets of points over named indices, known by their sizes.

A ``Relation`` stands for the index tuples where something is stored. Joins intersect (a product
of tensors), unions unite (a sum), reductions project. Each carries an *estimate* of the number
of points, for costs, and a *bound* that always holds, for memory.

Estimates follow count vectors: how many points each coordinate of each index has. For A[i,k] *
B[k,j] the number of points is exact. ``limits`` are such vectors that no coordinate exceeds.
Bands (j - i within a range) become degree constraints, also through joins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, prod
from typing import NamedTuple

from tensorel.base.records import cached_property
from tensorel.ir.given import estimate
from tensorel.stats.collected.grids import Grids
from tensorel.stats.estimates.bounds import (
    NONE,
    Chains,
    Constraints,
    Names,
    chain_bound,
    entropy_bound,
    tighten,
    whole,
)
from tensorel.stats.estimates.polys import Poly, flat
from tensorel.stats.estimates.stars import part_bounds

Bands = dict[tuple[str, str], tuple[float, float]]
Limits = dict[str, Poly | None]


class Later(NamedTuple):
    """Constraints that are worked out when they are asked for. ``most``: the bound that will stand
    among them."""

    most: float
    work_out: Callable[[], Constraints]


class Relation:
    """Immutable once handed out. ``names`` in a fixed order, ``extents`` of each; ``distinct``:
    estimated number of coordinates that occur; ``counts`` and ``limits``: estimated and greatest
    number of points of each coordinate, None where not known; ``bands[x, y]``: y - x lies within;
    ``grids[x, y]``: points per tile; ``larger``: gives the relation that this one is a projection
    of; ``exact``: sets of indices whose constraint is the true number of values; ``parts``: the
    relations that were joined to this one, none for others. Many relations are asked for estimates
    alone: limits may be given as a function, constraints as ``Later``."""

    def __init__(
        self, extents: Mapping[str, int], estimate: float, distinct: dict[str, float],
        counts: dict[str, Poly | None], limits: Limits | Callable[[Relation], Limits],
        constraints: Constraints | Later, bands: Bands, grids: Grids | None = None,
    ) -> None:
        self.extents = extents
        self.names = tuple(extents)
        self.all = frozenset(extents)
        self.distinct = distinct
        self.counts = counts
        self._limits = limits
        self._constraints = constraints
        self.bands = bands
        self.grids: Grids = {} if grids is None else grids
        self.larger: Callable[[], Relation] | None = None
        self.exact: frozenset[Names] = frozenset()
        self.parts: tuple[Relation, ...] = ()
        self.estimate = max(min(estimate, self.cardinality), 0.0)

    def __repr__(self) -> str:
        names = ", ".join(f"{n} in {e}" for n, e in self.extents.items())
        return f"Relation({names}: about {self.estimate:.4g}, at most {self.bound:.4g})"

    @property
    @estimate
    def room(self) -> float:
        """The number of all index tuples."""
        return prod(map(float, self.extents.values()))

    @property
    @estimate
    def cardinality(self) -> float:
        """The bound that stands among the constraints; ``bound`` is tighter."""
        if isinstance(self._constraints, Later):
            return self._constraints.most
        if not self.all:
            return self.constraints.get((NONE, NONE, 1.0), 1.0)
        return self.constraints[NONE, self.all, 1.0]

    @cached_property
    @estimate
    def limits(self) -> Limits:
        return self._limits(self) if callable(self._limits) else self._limits

    @cached_property
    @estimate
    def constraints(self) -> Constraints:
        held = self._constraints
        return held.work_out() if isinstance(held, Later) else held

    @cached_property
    def chains(self) -> Chains:
        return Chains(with_bands(self))

    @cached_property
    @estimate
    def bound(self) -> float:
        """At most so many points, always."""
        if not self.all:
            return self.cardinality
        constraints = dict(with_bands(self))
        for names, most in part_bounds(self.parts):
            tighten(constraints, NONE, names, 1.0, most)
        best = min(chain_bound(constraints, self.all), self.room)
        if best > 1 and self._pays():
            best = min(best, entropy_bound(constraints, self.all) or inf)
        if best > 1 and self.larger is not None:
            best = min(best, self.larger().bound)
        return whole(best)

    def _pays(self) -> bool:
        """At least three relations of two or more indices were joined: else chains, with the
        exact sizes of pairs, are best."""
        return sum(not x and 1 < len(y) < len(self.all) for x, y, _ in self.constraints) > 2

    @estimate
    def degree_bound(self, given: Names) -> float:
        """At most so many values of all other indices occur with one value of ``given``."""
        return min(self.chains.bound(self.all, given),
                   prod([float(self.extents[n]) for n in self.all - given]))


@estimate
def everything(extents: Mapping[str, int]) -> Relation:
    """All index tuples.

    >>> everything({"i": 3, "j": 4})
    Relation(i in 3, j in 4: about 12, at most 12)
    """
    size = prod(map(float, extents.values()))
    constraints: Constraints = {}
    polys: dict[str, Poly | None] = {}
    for n, e in extents.items():
        tighten(constraints, NONE, frozenset((n,)), 1.0, float(e))
        polys[n] = flat(size / e if e else 0.0)
    if extents:
        tighten(constraints, NONE, frozenset(extents), 1.0, size)
    distinct = {n: float(e) if size else 0.0 for n, e in extents.items()}
    return Relation(dict(extents), size, distinct, polys, polys, constraints, {})


@estimate
def nothing(extents: Mapping[str, int]) -> Relation:
    """No index tuple."""
    constraints: Constraints = {(NONE, frozenset((n,)), 1.0): 0.0 for n in extents}
    constraints[NONE, frozenset(extents), 1.0] = 0.0
    polys: dict[str, Poly | None] = {n: flat(0.0) for n in extents}
    return Relation(dict(extents), 0.0, dict.fromkeys(extents, 0.0), polys, polys, constraints, {})


@estimate
def rename(r: Relation, names: Mapping[str, str]) -> Relation:
    """With other names of indices; no two may become one."""

    def new(n: str) -> str:
        return names.get(n, n)

    def all_new(ns: Names) -> Names:
        return frozenset([new(n) for n in ns])

    made = Relation(
        {new(n): e for n, e in r.extents.items()}, r.estimate,
        {new(n): d for n, d in r.distinct.items()}, {new(n): c for n, c in r.counts.items()},
        {new(n): c for n, c in r.limits.items()},
        {(all_new(x), all_new(y), p): v for (x, y, p), v in r.constraints.items()},
        {(new(x), new(y)): b for (x, y), b in r.bands.items()},
        {(new(x), new(y)): g for (x, y), g in r.grids.items()})
    made.larger = None if r.larger is None else lambda: renamed_larger(r, names)
    made.exact = frozenset([all_new(ns) for ns in r.exact])
    made.parts = tuple([rename(p, names) for p in r.parts])
    return made


@estimate
def renamed_larger(r: Relation, names: Mapping[str, str]) -> Relation:
    """What ``r`` is a projection of, with new names for r's indices; those that were reduced
    step aside from them."""
    assert r.larger is not None
    wide = r.larger()
    taken = {names.get(n, n) for n in r.all}
    mapping = {n: names.get(n, n) for n in r.all}
    for n in sorted(wide.all - r.all):
        fresh = n
        while fresh in taken:
            fresh += "'"
        mapping[n] = fresh
        taken.add(fresh)
    return rename(wide, mapping)


def with_bands(r: Relation) -> Constraints:
    """The constraints, with those that follow from the bands between any two indices."""
    if not r.bands:
        return r.constraints
    constraints = dict(r.constraints)
    for (x, y), (low, high) in closed(r.bands).items():
        width = max(high - low + 1, 0.0)
        tighten(constraints, frozenset((x,)), frozenset((y,)), inf, width)
        tighten(constraints, frozenset((y,)), frozenset((x,)), inf, width)
    return constraints


def closed(bands: Bands) -> Bands:
    """The bands that follow: differences add along paths."""
    if len(bands) < 2:
        return bands
    names = sorted({n for pair in bands for n in pair})
    most: dict[tuple[str, str], float] = {}  # y - x <= most[x, y]
    for (x, y), (low, high) in bands.items():
        most[x, y] = min(most.get((x, y), inf), high)
        most[y, x] = min(most.get((y, x), inf), -low)
    for k in names:
        for x in names:
            first = most.get((x, k))
            if first is None:
                continue
            for y in names:
                second = most.get((k, y))
                if second is not None and x != y and first + second < most.get((x, y), inf):
                    most[x, y] = first + second
    return {(x, y): (-most[y, x], high) for (x, y), high in most.items()
            if x < y and (y, x) in most}


def merged_bands(a: Bands, b: Bands) -> Bands:
    """Both hold."""
    if not a or not b:
        return a or b
    bands = dict(a)
    for (x, y), (low, high) in b.items():
        if (y, x) in bands:
            x, y, low, high = y, x, -high, -low
        held = bands.get((x, y))
        bands[x, y] = (low, high) if held is None else (max(low, held[0]), min(high, held[1]))
    return bands


def hull(a: Bands, b: Bands) -> Bands:
    """One or the other holds."""
    bands: Bands = {}
    for (x, y), (low, high) in b.items():
        if (y, x) in a:
            x, y, low, high = y, x, -high, -low
        held = a.get((x, y))
        if held is not None:
            bands[x, y] = min(low, held[0]), max(high, held[1])
    return bands
