"""How many points joins of factors have, and what the loops over them cost.

The loops of a join bind one index after another. Whoever has the index leads with its shortest
list; the others are looked up. So the cost is the number of points of each prefix of the loops,
*before* the last index is checked against all factors: a cycle of four factors visits all paths of
three, however few of them close. Sizes of prefixes multiply projected counts, corrected for each
pair of factors by how much more often their coordinates meet than chance would have it.

Sets of indices are bits of an integer: bit k is the k-th name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush

from tensorel.costs import Costs
from tensorel.records import dataclass, field
from tensorel.stats.combine import extend, join, matches
from tensorel.stats.pilot import Edge, is_worthwhile, join_size
from tensorel.stats.pointset import Relation
from tensorel.stats.reduction import project

SEARCHED = 7  # so many indices have all their orders tried
PAIRED = 8  # up to so many factors are compared each with each


@dataclass(eq=False, slots=True)
class Factor:
    """A factor of a product: given, or made by eliminating indices from others (``parts`` are the
    given ones below it). ``relation``: where it has entries; None: everywhere. ``plain``: a whole
    dense tensor that BLAS can take. ``order``: its indices as a sparse storage nests them, where
    that is known. ``edge``: the stored matrix that it is, for pilots."""

    parts: int
    free: int
    relation: Relation | None
    dense: bool
    plain: bool
    order: tuple[int, ...] = ()
    edge: Edge | None = None
    counts: dict[int, float] = field(default_factory=dict)
    views: dict[int, Relation] = field(default_factory=dict)


@lru_cache(maxsize=1 << 14)
def bits(mask: int) -> tuple[int, ...]:
    """The single bits of a set, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low)
        mask ^= low
    return tuple(found)


class Sizes:
    """Sizes of joins over indices with these extents; everything is worked out once."""

    def __init__(self, extents: Mapping[str, int], costs: Costs) -> None:
        self.extents, self.costs = extents, costs
        self.names = sorted(extents)
        self.bit = {n: 1 << k for k, n in enumerate(self.names)}
        self.extent = {1 << k: float(extents[n]) for k, n in enumerate(self.names)}
        self._rooms: dict[int, float] = {0: 1.0}
        self._lifts: dict[tuple[Factor, int, Factor, int], float] = {}
        self._met: dict[int, float | None] = {}

    def mask(self, names: Iterable[str]) -> int:
        found = 0
        for n in names:
            found |= self.bit[n]
        return found

    def named(self, mask: int) -> list[str]:
        return [self.names[b.bit_length() - 1] for b in bits(mask)]

    def room(self, mask: int) -> float:
        """The number of all index tuples."""
        found = self._rooms.get(mask)
        if found is None:
            low = mask & -mask
            found = self._rooms[mask] = self.extent[low] * self.room(mask ^ low)
        return found

    def entries(self, f: Factor) -> float:
        """What is stored of a factor."""
        return self.room(f.free) if f.dense or f.relation is None else f.relation.estimate

    def scattered(self, group: Iterable[Factor], kept: int) -> float:
        """The cost of sums that are not finished one by one: a sparse operand is walked as it is
        stored, and what stays is not what its outer levels hold."""
        found = 0.0
        for f in group:
            if f.order:
                gone = False
                for b in f.order:
                    if not b & kept:
                        gone = True
                    elif gone:
                        found = max(found, self.costs.join_scatter * self.entries(f))
        return found

    def collected(self, group: Sequence[Factor], made: Factor, indices: int) -> float:
        """The cost of sums whose cells are many and sparse: every point of the join is added to
        a row or appended to a list."""
        if made.dense or not indices or not made.free & (made.free - 1):
            return 0.0
        return self.costs.workspace_add * self.points(group, made.free | indices)

    # -- relations -----------------------------------------------------------------------------

    def result(self, group: Sequence[Factor], kept: int) -> Relation | None:
        """The cells of the join reduced to the indices that stay; None: all of them."""
        sparse = [f.relation for f in group if not f.dense and f.relation is not None]
        if not sparse:
            return None
        names = dict.fromkeys(n for f in group for n in self.named(f.free))
        met = extend(join(*sparse), {n: self.extents[n] for n in names})
        return project(met, self.named(kept))

    def projection(self, f: Factor, mask: int) -> Relation:
        assert f.relation is not None, "a sparse factor has its points"
        if mask == f.free:
            return f.relation
        found = f.views.get(mask)
        if found is None:
            found = f.views[mask] = project(f.relation, self.named(mask))
        return found

    # -- numbers -------------------------------------------------------------------------------

    def count(self, f: Factor, mask: int) -> float:
        """The different values of some indices of a factor."""
        found = f.counts.get(mask)
        if found is None:
            if f.dense or f.relation is None:
                found = self.room(mask)
            elif mask & (mask - 1):
                found = self.projection(f, mask).estimate
            else:
                found = f.relation.distinct[self.names[mask.bit_length() - 1]] if mask else 1.0
            f.counts[mask] = found
        return found

    def lift(self, f: Factor, a: int, g: Factor, b: int) -> float:
        """How much more often two projected factors meet than independent ones."""
        shared = a & b
        if not shared & (shared - 1):  # one index: other indices change how often it counts
            a = shared if a == shared else f.free
            b = shared if b == shared else g.free
        key = (f, a, g, b)
        found = self._lifts.get(key)
        if found is None:
            chance = self.count(f, a) * self.count(g, b) / self.room(shared)
            met = matches(self.projection(f, a), self.projection(g, b),
                          frozenset(self.named(shared)))
            found = self._lifts[key] = met / chance if chance > 0 else 1.0
        return found

    def points(self, factors: Sequence[Factor], bound: int) -> float:
        """Points over the bound indices at which all factors agree, each projected on them."""
        closed = [f for f in factors if f.edge is not None and not f.free & ~bound]
        met = self.met(closed)
        if met is None:
            total, once, closed = 1.0, 0, []
        else:
            total, once = met
        sparse: list[tuple[Factor, int]] = []
        for f in factors:
            mask = f.free & bound
            if f in closed or (met is not None and f.edge is not None and not mask & ~once):
                sparse += [(f, mask)] if f in closed else []
            elif mask:
                total *= self.count(f, mask) / self.room(mask & once)
                once |= mask
                if not f.dense:
                    sparse.append((f, mask))
        far = 1 if len(sparse) > PAIRED else len(sparse)
        for k, (f, a) in enumerate(sparse):
            for g, b in sparse[k + 1 : k + 1 + far]:
                if a & b and not (f in closed and g in closed):
                    total *= self.lift(f, a, g, b)
        return total

    def met(self, factors: Sequence[Factor]) -> tuple[float, int] | None:
        """Points at which stored matrices that close a cycle meet, by a pilot, and their indices;
        None where none is closed."""
        if len(factors) < 2:
            return None
        key = free = 0
        for f in factors:
            key |= f.parts
            free |= f.free
        if key not in self._met:
            edges = [f.edge for f in factors if f.edge is not None]
            self._met[key] = join_size(edges) if is_worthwhile(edges) else None
        found = self._met[key]
        return None if found is None else (found, free)

    def loops(self, factors: Sequence[Factor], limit: float = math.inf) -> float:
        """The cost of the cheapest loops over the join; infinite where it is not below the
        limit."""
        names = 0
        for f in factors:
            names |= f.free
        walk = _Loops(self, factors, names)
        if all([f.dense for f in factors]):  # noqa: C419
            return walk.dense()
        return walk.cheapest(limit) if names.bit_count() <= SEARCHED else walk.one_by_one()


class _Loops:
    """The loops over one join."""

    def __init__(self, sizes: Sizes, factors: Sequence[Factor], names: int) -> None:
        self.sizes, self.factors, self.names = sizes, factors, names
        self.sparse = [f for f in factors if not f.dense]
        self.near = self.sparse if len(self.sparse) <= PAIRED else []
        self.inside: dict[int, float] = {0: 1.0}

    def dense(self) -> float:
        """Of loops over dense factors: they differ by what is entered alone."""
        total, costs = 0.0, self.sizes.costs
        outside, left = 1.0, sorted(bits(self.names), key=lambda b: self.sizes.extent[b])
        for k, b in enumerate(left):
            extent = self.sizes.extent[b]
            last = k == len(left) - 1
            total += outside * (
                costs.enter + extent * (costs.vector_step if last else costs.dense_step))
            outside *= extent
        return total

    def cheapest(self, limit: float) -> float:
        """The shortest way from no index bound to all of them (Dijkstra, 1959)."""
        best = {0: 0.0}
        heap = [(0.0, 0)]
        singles = bits(self.names)
        while heap:
            cost, bound = heappop(heap)
            if bound == self.names:
                return cost
            if cost > best[bound]:
                continue
            outside = self.visited(bound)
            for v in singles:
                if not v & bound:
                    more = bound | v
                    step = cost + self.step(bound, v, outside, more == self.names)
                    if step < best.get(more, limit):
                        best[more] = step
                        heappush(heap, (step, more))
        return math.inf

    def one_by_one(self) -> float:
        """Indices bound by the cheapest step each time."""
        bound, total, left = 0, 0.0, list(bits(self.names))
        while left:
            outside = self.visited(bound)
            cost, v = min([(self.step(bound, v, outside, len(left) == 1), v) for v in left])
            total += cost
            bound |= v
            left.remove(v)
        return total

    def visited(self, bound: int) -> float:
        found = self.inside.get(bound)
        if found is None:
            found = self.inside[bound] = self.sizes.points(self.factors, bound)
        return found

    def step(self, bound: int, v: int, outside: float, last: bool) -> float:
        """One loop over ``v`` inside those over ``bound``."""
        sizes, costs = self.sizes, self.sizes.costs
        leaders = [f for f in self.sparse if f.free & v]
        if not leaders:
            return outside * (costs.enter + sizes.extent[v] * (
                costs.vector_step if last else costs.dense_step))
        best = min([self.led(f, bound, v, outside) for f in leaders])
        dense = sum([1 for f in self.factors if f.dense and f.free & v])
        return outside * costs.enter + self.asked(best, len(leaders) - 1, bound | v) \
            * costs.join_lookup + best * (costs.step + dense * costs.join_find)

    def asked(self, visits: float, others: int, bound: int) -> float:
        """How often other sparse factors are looked up: the next one only where the one before
        was found."""
        if others < 2:
            return visits * others
        return visits + min(self.visited(bound), visits) * (others - 1)

    def led(self, f: Factor, bound: int, v: int, outside: float) -> float:
        """Points when one factor goes on to ``v`` and the others stay where they are."""
        sizes, held = self.sizes, f.free & bound
        fewer = sizes.count(f, held)
        if not fewer:
            return 0.0
        found = outside * sizes.count(f, held | v) / fewer
        if held and f.edge is not None:
            others = [g for g in self.sparse if g.edge is not None and not g.free & ~bound]
            met, after = sizes.met(others), sizes.met([*others, f])
            if met is not None and after is not None:
                return outside * after[0] / max(met[0], 1.0)
        if held:
            for g in self.near:
                if g is not f and g.free & held:
                    other = g.free & bound
                    before = sizes.lift(f, held, g, other)
                    if before:
                        found *= sizes.lift(f, held | v, g, other) / before
        return found
