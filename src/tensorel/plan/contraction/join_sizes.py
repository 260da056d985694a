"""How many points joins of factors have.

Sizes multiply projected counts, corrected for each pair of factors by how much more often their
coordinates meet than chance would have it.

Sets of indices are bits of an integer: bit k is the k-th name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple

from tensorel.base.records import cached_property, dataclass, field
from tensorel.costs import Costs
from tensorel.ir.given import about
from tensorel.stats.estimates.join_sampling import Edge, is_worthwhile, join_size
from tensorel.stats.estimates.joins import extend, join, matches
from tensorel.stats.estimates.pointset import Relation
from tensorel.stats.estimates.reduction import asked_for, project, projected_estimate

MAX_PAIRED_FACTORS = 8  # up to so many factors are compared each with each
MIN_BOUNDED_INDICES = 4  # from so many on, a bound for all results is looked for first

Reach = tuple[int, ...]  # the indices that each sparse factor has given
Way = tuple[float, list[int]]  # the cost of loops and their order
NO_WAY: Way = (inf, [])


@dataclass(eq=False, slots=True)
class Factor:
    """A factor of a product: given, or made by eliminating indices from others.

    parts: the given factors that it is made of.
    where: its entries; None: everywhere; a function: worked out when more is asked than ``size``.
    plain: a whole dense tensor that BLAS can take.
    order: its indices as its storage nests them, where that is known.
    found: the indices whose levels find a coordinate by its place, without walking.
    runs: the indices whose list repeats a coordinate for every entry below it.
    edge: the stored matrix that it is, for join sampling.
    tensor, axes: what it reads, at which indices; those whose order does not matter together.
    tail: of a sparse factor, an index that it has in full below each of its positions.
    sure: an index at which it has all coordinates that others ask for.
    open: its outer indices whose levels hold all coordinates, and so restrict nothing alone.
    """

    parts: int
    free: int
    where: Relation | Callable[[], Relation | None] | None
    dense: bool
    plain: bool
    order: tuple[int, ...] = ()
    found: int = 0
    runs: int = 0
    edge: Edge | None = None
    tensor: object = None
    axes: tuple[int, ...] = ()
    bit: int = 0  # among all that are joined
    reaches: dict[int, int] = field(default_factory=dict)
    counts: dict[int, float] = field(default_factory=dict)
    views: dict[int, Relation] = field(default_factory=dict)
    size: float | None = None
    tail: int = 0
    sure: int = 0
    open: int = 0

    @property
    def relation(self) -> Relation | None:
        """Where it has entries; None: everywhere."""
        if callable(self.where):
            self.where = self.where()
        return self.where

    @property
    def nested(self) -> bool:
        """Its inner indices are found below the outer ones alone."""
        return len(self.order) > 1 and not self.dense

    def reached(self, bound: int) -> int:
        """The bound indices that its levels give from the outside."""
        found = self.reaches.get(bound)
        if found is None:
            found = 0
            for b in self.order:
                if not b & bound:
                    break
                found |= b
            self.reaches[bound] = found
        return found


@lru_cache(maxsize=1 << 14)
def bits(mask: int) -> tuple[int, ...]:
    """The single bits of a set, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low)
        mask ^= low
    return tuple(found)


def _points_of(f: Factor) -> Relation:
    """Of a sparse factor, which has its points."""
    found = f.relation
    assert found is not None
    return found


class Sizes:
    """Sizes of joins over indices with these extents; everything is worked out once. ``actual``
    knows how many entries given factors had, reduced to some indices, when last computed."""

    def __init__(self, extents: Mapping[str, int], costs: Costs) -> None:
        self.extents, self.costs = extents, costs
        self.names = sorted(extents)
        self.bit = {n: 1 << k for k, n in enumerate(self.names)}
        self.extent = {1 << k: about([extents[n]]) for k, n in enumerate(self.names)}
        self.actual: Callable[[int, int], float | None] | None = None
        # what is known of the loops over joins, and over what many joins have in common
        self.groups: dict[frozenset[Factor], Group] = {}
        self.prefixes: dict[tuple[int, int, int], float] = {}
        self.loops: dict[tuple[object, ...], float] = {}
        self._joined = 0
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

    def forget(self) -> None:
        """Drop what is known of loops, which refers back to these sizes: no cycle is left."""
        self.groups.clear()
        self.actual = None

    def number(self, factors: Iterable[Factor]) -> None:
        """Give each factor a bit of its own."""
        for f in factors:
            if not f.bit:
                f.bit = 1 << self._joined
                self._joined += 1

    def group(self, factors: Sequence[Factor]) -> Group:
        key = frozenset(factors)
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Group(self, factors)
        return found

    def room(self, mask: int) -> float:
        """The number of all index tuples."""
        found = self._rooms.get(mask)
        if found is None:
            low = mask & -mask
            found = self._rooms[mask] = self.extent[low] * self.room(mask ^ low)
        return found

    def entries(self, f: Factor) -> float:
        """What is stored of a factor."""
        if f.dense or f.where is None:
            return self.room(f.free)
        return f.size if f.size is not None else f.relation.estimate  # type: ignore[union-attr]

    def stored_again(self, f: Factor) -> float:
        """The cost of a sparse factor in another order of its levels."""
        return self.costs.convert_sort * self.entries(f) + self.costs.convert_start

    # -- relations -----------------------------------------------------------------------------

    def result(self, group: Sequence[Factor], kept: int) -> Relation | None:
        """The cells of the join reduced to the indices that stay; None: all of them."""
        listed = [f for f in group if not f.dense and f.relation is not None]
        if not listed:
            return None
        sparse = [_points_of(f) if not any(f.sure & g.free for g in listed if g is not f)
                  else asked_for(_points_of(f), *self.named(f.sure)) for f in listed]
        names = dict.fromkeys(n for f in group for n in self.named(f.free))
        met = extend(join(*sparse), {n: self.extents[n] for n in names})
        return project(met, self.named(kept))

    def projection(self, f: Factor, mask: int) -> Relation:
        if mask == f.free:
            return _points_of(f)
        found = f.views.get(mask)
        if found is None:
            found = f.views[mask] = project(_points_of(f), self.named(mask))
        return found

    # -- numbers -------------------------------------------------------------------------------

    def count(self, f: Factor, mask: int) -> float:
        """The different values of some indices of a factor."""
        found = f.counts.get(mask)
        if found is None:
            if f.dense or f.where is None or not mask & ~f.open:
                found = self.room(mask)
            elif mask == f.free:
                found = self.entries(f)
            elif mask & (mask - 1):
                view = f.views.get(mask)
                found = projected_estimate(_points_of(f), self.named(mask)) if view is None \
                    else view.estimate
            else:
                found = _points_of(f).distinct[self.names[mask.bit_length() - 1]] if mask else 1.0
            f.counts[mask] = found
        return found

    def lift(self, f: Factor, a: int, g: Factor, b: int) -> float:
        """How much more often two projected factors meet than independent ones."""
        shared = a & b
        if not shared & (shared - 1):  # one index: other indices change how often it counts
            a = shared if a == shared else f.free
            b = shared if b == shared else g.free
        if not a & ~f.open or not b & ~g.open:
            return 1.0
        key = (f, a, g, b)
        found = self._lifts.get(key)
        if found is None:
            chance = self.count(f, a) * self.count(g, b) / self.room(shared)
            met = matches(self.projection(f, a), self.projection(g, b),
                          frozenset(self.named(shared)))
            if f.sure == shared:  # whatever g asks for is there
                met = max(met, chance * self.room(shared) / max(self.count(f, shared), 1.0))
            if g.sure == shared:
                met = max(met, chance * self.room(shared) / max(self.count(g, shared), 1.0))
            found = self._lifts[key] = met / chance if chance > 0 else 1.0
        return found

    def points(self, factors: Sequence[Factor], bound: int) -> float:
        """Points over the bound indices at which all factors agree, each projected on them."""
        return self.agreed([(f, f.free & bound) for f in factors], bound)

    def agreed(self, asked: Sequence[tuple[Factor, int]], bound: int) -> float:
        """Points over the bound indices at which factors agree that are asked for some."""
        closed = [f for f, mask in asked if f.edge is not None and mask == f.free]
        met = self.met(closed)
        if met is None:
            total, once, closed = 1.0, 0, []
        else:
            total, once = met
        sparse: list[tuple[Factor, int]] = []
        for pair in asked:
            f, mask = pair
            if met is not None and (f in closed or (f.edge is not None and not mask & ~once)):
                if f in closed:
                    sparse.append(pair)
            elif mask:
                total *= self.count(f, mask)
                if mask & once:
                    total /= self.room(mask & once)
                once |= mask
                if not f.dense:
                    sparse.append(pair)
        far = 1 if len(sparse) > MAX_PAIRED_FACTORS else len(sparse)
        for k, (f, a) in enumerate(sparse):
            for g, b in sparse[k + 1 : k + 1 + far]:
                if a & b and not (closed and f in closed and g in closed):
                    total *= self.lift(f, a, g, b)
        return total * self.room(bound & ~once)

    def met(self, factors: Sequence[Factor]) -> tuple[float, int] | None:
        """Points at which stored matrices that close a cycle meet, by sampling, and their indices;
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


class State(NamedTuple):
    """Where loops are. ``late``: the factors below a level that is not bound; ``having``: those
    with an index that is. With the bound indices these say how far each is asked."""

    reach: Reach
    late: int
    having: int


class Group:
    """Factors that are joined. ``known``: by the indices of the result and whether it is dense,
    the cost of the cheapest loops, and the limit below which they were looked for; ``least``: the
    same of the cheapest of all."""

    def __init__(self, sizes: Sizes, factors: Sequence[Factor]) -> None:
        self.sizes, self.factors, self.names = sizes, factors, 0
        sizes.number(factors)
        for f in factors:
            self.names |= f.free
        self.singles = bits(self.names)
        self.is_large = len(self.singles) >= MIN_BOUNDED_INDICES
        self.sparse = [f for f in factors if not f.dense]
        self.full = [f for f in factors if f.dense]
        self.nested = [f for f in self.sparse if f.nested]
        self.known: dict[tuple[int, bool], tuple[float, float]] = {}
        self.least: tuple[Way, float] = NO_WAY, 0.0

    @cached_property
    def having(self) -> dict[int, list[tuple[int, Factor]]]:
        """The sparse factors that have each index, with their places."""
        return {v: [(k, f) for k, f in enumerate(self.sparse) if f.free & v]
                for v in self.singles}

    @cached_property
    def touched(self) -> dict[int, int]:
        """All factors that have each index."""
        found = dict.fromkeys(self.singles, 0)
        for f in self.factors:
            for v in bits(f.free):
                found[v] |= f.bit
        return found

    @cached_property
    def all_points(self) -> float:
        """Points of the whole join."""
        having = sum([f.bit for f in self.factors if f.free])
        return self.points(self.names, State(tuple([f.free for f in self.sparse]), 0, having))

    def points(self, bound: int, at: State) -> float:
        """Points over the bound indices, as far as the factors can be asked."""
        key = bound, at.having, at.late
        found = self.sizes.prefixes.get(key)
        if found is None:
            asked = list(zip(self.sparse, at.reach))
            asked += [(f, f.free & bound) for f in self.full]
            found = self.sizes.prefixes[key] = self.sizes.agreed(asked, bound)
        return found
