"""How many points joins of factors have, and what the loops over them cost.

The loops of a join bind one index after another. Whoever has the index leads with its shortest
list; the others are looked up. So the cost is the number of points of each prefix of the loops,
*before* the last index is checked against all factors: a cycle of four factors visits all paths of
three, however few of them close. Sizes of prefixes multiply projected counts, corrected for each
pair of factors by how much more often their coordinates meet than chance would have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tensorel.costs import Costs
from tensorel.records import dataclass
from tensorel.stats.combine import extend, join, matches
from tensorel.stats.pointset import Relation
from tensorel.stats.reduction import project

SEARCHED = 7  # so many indices have all their orders tried


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product: given, or made by eliminating indices from others (``parts`` are the
    given ones below it). ``plain``: a whole dense tensor that BLAS can take. ``order``: its
    indices as a sparse storage nests them, where that is known."""

    parts: frozenset[int]
    free: frozenset[str]
    relation: Relation
    dense: bool
    plain: bool
    order: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.parts == other.parts and self.free == other.free

    def __hash__(self) -> int:
        return hash((self.parts, self.free))


Group = frozenset[Factor]
Names = frozenset[str]


class Sizes:
    """Sizes of joins over indices with these extents; everything is worked out once."""

    def __init__(self, extents: Mapping[str, int], costs: Costs) -> None:
        self.extents, self.costs = extents, costs
        self._projections: dict[tuple[Factor, Names], Relation] = {}
        self._lifts: dict[tuple[Factor, Names, Factor, Names], float] = {}
        self._joins: dict[Group, Relation] = {}
        self._costs: dict[Group, float] = {}

    def room(self, names: Iterable[str]) -> float:
        return math.prod(float(self.extents[n]) for n in names)

    def scattered(self, group: Group, kept: Names) -> float:
        """The cost of sums that are not finished one by one: a sparse operand is walked as it is
        stored, and what stays is not what its outer levels hold."""
        found = 0.0
        for f in group:
            held = [n for n in f.order if n in kept]
            if f.order and tuple(held) != f.order[: len(held)]:
                found = max(found, self.costs.join_scatter * f.relation.estimate)
        return found

    # -- relations -----------------------------------------------------------------------------

    def joined(self, group: Group) -> Relation:
        """The points where all factors have entries."""
        found = self._joins.get(group)
        if found is None:
            ordered = sorted(group, key=lambda f: sorted(f.parts))
            names = dict.fromkeys(n for f in ordered for n in sorted(f.free))
            sparse = [f.relation for f in ordered if not f.dense]
            found = extend(join(*sparse), {n: self.extents[n] for n in names})
            self._joins[group] = found
        return found

    def result(self, group: Group, kept: Names) -> Relation:
        """The cells of the join reduced to the indices that stay."""
        return project(self.joined(group), kept)

    def projection(self, f: Factor, names: Names) -> Relation:
        if names == f.free:
            return f.relation
        found = self._projections.get((f, names))
        if found is None:
            found = self._projections[f, names] = project(f.relation, names)
        return found

    # -- numbers -------------------------------------------------------------------------------

    def _count(self, f: Factor, names: Names) -> float:
        if f.dense:
            return self.room(names)
        if len(names) == 1:
            (name,) = names
            return f.relation.distinct[name]
        return self.projection(f, names).estimate

    def _lift(self, f: Factor, a: Names, g: Factor, b: Names) -> float:
        """How much more often two projected factors meet than independent ones."""
        key = (f, a, g, b)
        found = self._lifts.get(key)
        if found is None:
            shared = a & b
            chance = self._count(f, a) * self._count(g, b) / self.room(shared)
            met = matches(self.projection(f, a), self.projection(g, b), shared)
            found = self._lifts[key] = met / chance if chance > 0 else 1.0
        return found

    def points(self, views: list[tuple[Factor, Names]]) -> float:
        """Points at which projected factors agree."""
        total, seen = 1.0, dict[str, int]()
        for f, names in views:
            total *= self._count(f, names)
            for n in names:
                seen[n] = seen.get(n, 0) + 1
        for n, times in seen.items():
            if times > 1:
                total /= max(float(self.extents[n]), 1.0) ** (times - 1)
        sparse = [(f, names) for f, names in views if not f.dense]
        for k, (f, a) in enumerate(sparse):
            for g, b in sparse[k + 1 :]:
                if not a.isdisjoint(b):
                    total *= self._lift(f, a, g, b)
        return total

    def cost(self, group: Group) -> float:
        """Of the cheapest loops over the join."""
        found = self._costs.get(group)
        if found is None:
            factors = sorted(group, key=lambda f: sorted(f.parts))
            found = self._costs[group] = self._loops(factors)
        return found

    def _loops(self, factors: list[Factor]) -> float:
        names = sorted(frozenset().union(*(f.free for f in factors)))
        if len(names) > SEARCHED:
            return self._one_order(factors, names)
        best: dict[Names, float] = {frozenset(): 0.0}
        layer: list[Names] = [frozenset()]
        for _ in names:
            following: dict[Names, float] = {}
            for bound in layer:
                outside = self._valid(factors, bound)
                for v in names:
                    if v not in bound:
                        step = best[bound] + self._step(factors, bound, v, outside,
                                                        len(bound) + 1 == len(names))
                        more = bound | {v}
                        if step < following.get(more, math.inf):
                            following[more] = step
            best.update(following)
            layer = sorted(following, key=sorted)
        return best[frozenset(names)]

    def _one_order(self, factors: list[Factor], names: list[str]) -> float:
        """Indices bound by the cheapest step each time."""
        bound: Names = frozenset()
        total = 0.0
        while len(bound) < len(names):
            outside = self._valid(factors, bound)
            last = len(bound) + 1 == len(names)
            cost, v = min((self._step(factors, bound, v, outside, last), v)
                          for v in names if v not in bound)
            total += cost
            bound |= {v}
        return total

    def _valid(self, factors: list[Factor], bound: Names) -> float:
        return self.points([(f, f.free & bound) for f in factors if not f.free.isdisjoint(bound)])

    def _step(self, factors: list[Factor], bound: Names, v: str, outside: float, last: bool
              ) -> float:
        """One loop over ``v`` inside those over ``bound``."""
        costs = self.costs
        leaders = [f for f in factors if v in f.free and not f.dense]
        if not leaders:
            return outside * (
                costs.enter + self.extents[v] * (costs.vector_step if last else costs.dense_step))
        rest = [(f, f.free & bound) for f in factors]
        best = math.inf
        for leader in leaders:
            views = [(f, names | {v} if f is leader else names) for f, names in rest
                     if names or f is leader]
            best = min(best, self.points(views))
        lookups = (len(leaders) - 1) * costs.join_lookup + costs.join_find * sum(
            v in f.free for f in factors if f.dense)
        return outside * costs.enter + best * (costs.step + lookups)
