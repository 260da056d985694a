"""What the loops over a join of factors cost.

The loops bind one index after another. Whoever has the index leads with its shortest list; the
others are walked beside it, searched, or marked in a workspace. So the cost is the number of points
of each prefix of the loops, *before* the last index is checked against all factors: a cycle of four
factors visits all paths of three, however few of them close. A factor is asked from its outermost
level inwards: an index below a level that is not bound yet says nothing. Sums that are not finished
before the next begins are scattered into the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from tensorel.plan.sizes import PAIRED, Factor, Sizes, bits

SEARCHED = 5  # so many indices have all their orders tried


def cheapest_loops(sizes: Sizes, factors: Sequence[Factor], made: Factor,
                   limit: float = math.inf) -> float:
    """The cost of the cheapest loops over the join; infinite where it is not below the
    limit. A factor whose storage is in the way may be stored again first: looked at only
    where loops that ask all factors as they like leave room for it."""
    walk = _Loops(sizes, factors, made)
    if all([f.dense for f in factors]):  # noqa: C419
        return walk.dense()
    if walk.names.bit_count() > SEARCHED:
        return walk.one_by_one()
    nested = [f for f in factors if f.nested]
    least, order = _Loops(sizes, factors, made, nested).cheapest(limit)
    if least == math.inf or all([_follows(f, order) for f in nested]):  # noqa: C419
        return least
    best = walk.cheapest(limit)[0]
    for f in nested:
        cost = sizes.stored_again(f)
        room = min(best, limit) - cost
        if room > least:
            best = min(best, cost + _Loops(sizes, factors, made, [f]).cheapest(room)[0])
    return best


def _follows(f: Factor, order: Sequence[int]) -> bool:
    """The levels of a factor are in the order of the loops."""
    return list(f.order) == [b for b in order if b & f.free]


class _Loops:
    """The loops over one join that make a factor."""

    def __init__(self, sizes: Sizes, factors: Sequence[Factor], made: Factor,
                 turned: Sequence[Factor] = ()) -> None:
        """``turned`` have been stored again in the order that suits the loops."""
        self.sizes, self.factors, self.made = sizes, factors, made
        self.names = 0
        for f in factors:
            self.names |= f.free
        self.kept = made.free & self.names
        self.sparse = [f for f in factors if not f.dense]
        self.full = [f for f in factors if f.dense]
        self.nested = {f for f in self.sparse if f.nested and f not in turned}
        self.near = self.sparse if len(self.sparse) <= PAIRED else []
        self.inside: dict[int, float] = {0: 1.0}

    def dense(self) -> float:
        """Of loops over dense factors: they differ by the innermost one and by what is
        entered."""
        costs, extent = self.sizes.costs, self.sizes.extent
        short = sorted(bits(self.names), key=lambda b: extent[b])
        found = [0.0] if not short else []
        for last in short:
            total, outside = 0.0, 1.0
            for b in short:
                if b != last:
                    total += outside * (costs.enter + extent[b] * costs.dense_step)
                    outside *= extent[b]
            each = self.along(last)
            if last & self.kept and self.names & ~self.kept:
                each += costs.dense_scatter
            found.append(total + outside * (costs.enter + extent[last] * each))
        return min(found)

    def cheapest(self, limit: float) -> tuple[float, list[int]]:
        """The shortest way from no index bound to all of them (Dijkstra, 1959)."""
        best, came = {0: 0.0}, dict[int, int]()
        heap = [(0.0, 0)]
        singles = bits(self.names)
        while heap:
            cost, bound = heappop(heap)
            if bound == self.names:
                order: list[int] = []
                while bound:
                    order.append(came[bound])
                    bound ^= order[-1]
                return cost, order[::-1]
            if cost > best[bound]:
                continue
            outside = self.visited(bound)
            for v in singles:
                if not v & bound:
                    more = bound | v
                    step = cost + self.step(bound, v, outside, more == self.names)
                    if step < best.get(more, limit):
                        best[more], came[more] = step, v
                        heappush(heap, (step, more))
        return math.inf, []

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
        """Points over the bound indices, as far as the factors can be asked: one whose outer
        levels are not bound cannot."""
        found = self.inside.get(bound)
        if found is None:
            found = self.inside[bound] = self.sizes.agreed(
                [(f, self.reached(f, bound)) for f in self.factors], bound)
        return found

    def reached(self, f: Factor, bound: int) -> int:
        """The bound indices of a factor that its levels give from the outside."""
        own = f.free & bound
        return f.reached(own) if f in self.nested else own

    def step(self, bound: int, v: int, outside: float, last: bool) -> float:
        """One loop over ``v`` inside those over ``bound``: the shortest list leads, the others
        are walked beside it or searched."""
        sizes, costs = self.sizes, self.sizes.costs
        points, leader, lists = math.inf, None, list[tuple[Factor, int]]()
        each = 0.0  # at every point
        for f in self.sparse:
            if f.free & v:
                held, after = self.reached(f, bound), self.reached(f, bound | v)
                if not after & v:
                    continue
                if f.free & bound != held or len(f.order) > f.free.bit_count():
                    each += self.late(f, held | v, after)
                if self.is_found(f, held, v):
                    each += costs.find
                    continue
                lists.append((f, held))
                led = self.led(f, held, bound, v, outside)
                if led < points:
                    points, leader = led, f
        if leader is None:
            points = outside * sizes.extent[v]
            rate = self.along(v) if last else costs.dense_step
        else:
            rate = costs.step
        for f in self.full:
            if f.free & v and not (last and leader is None):
                each += costs.gather if last else costs.find
        total = outside * costs.enter + points * (rate + each) + self.scattered(bound, v)
        others = [self.followed(f, held, bound, v, outside, points)
                  for f, held in lists if f is not leader]
        if len(others) > 1:  # the next one is asked only where one was found
            most = max(others)
            share = min(self.visited(bound | v) / max(points, 1e-9), 1.0)
            return total + most + (sum(others) - most) * share
        return total + sum(others)

    def is_found(self, f: Factor, held: int, v: int) -> bool:
        """An index that a factor finds by its place: where the storage is not known yet, the
        first of several that has most of its values."""
        if f in self.nested or f.order:
            return bool(f.found & v)
        return not held and f.free != v \
            and self.sizes.extent[v] <= 4.0 * self.sizes.count(f, v) + 1024.0

    def late(self, f: Factor, first: int, after: int) -> float:
        """Searches for indices that were bound before the levels above them were."""
        sizes, total = self.sizes, 0.0
        for b in f.order:
            if not b & first and b & after:
                longest = sizes.count(f, first | b) / max(sizes.count(f, first), 1e-9)
                total += sizes.costs.search_step * math.log2(longest + 2.0)
                first |= b
        if len(f.order) > f.free.bit_count():  # a diagonal
            total += sizes.costs.search_step * math.log2(sizes.entries(f) + 2.0)
        return total

    def followed(self, f: Factor, held: int, bound: int, v: int, outside: float, points: float
                 ) -> float:
        """A list beside the one that leads: walked, or searched at each point, or marked in a
        workspace where it was reached some loops before."""
        sizes, costs = self.sizes, self.sizes.costs
        below = sizes.entries(f) if f.runs & v else sizes.count(f, held | v)
        segment = below / max(sizes.count(f, held), 1e-9)
        best = min(outside * segment * costs.step + points * costs.merge_step,
                   points * costs.search_step * math.log2(segment + 2.0))
        if held and held != bound:
            best = min(best, self.visited(held) * segment * costs.workspace_add
                       + points * costs.workspace_find)
        return best

    def scattered(self, bound: int, v: int) -> float:
        """What stays is bound inside of what is summed: a sum is not finished before the next
        begins, and goes to a dense result, a row of it, or a list."""
        if not v & self.kept or not bound & ~self.kept:
            return 0.0
        left, costs = (self.kept & ~bound).bit_count(), self.sizes.costs
        if left == 1:
            return self.visited(self.names) * (
                costs.dense_scatter if self.made.dense else costs.workspace_add)
        if left == 2 and not self.made.dense:
            return self.visited(self.names) * costs.list_sort + costs.list_start
        return 0.0

    def along(self, v: int) -> float:
        """One element of an innermost loop that is dense: neighbours in all that have it, or
        not."""
        costs = self.sizes.costs
        own = [f for f in self.factors if f.free & v]
        if any([f.order and f.order[-1] != v for f in own]):  # noqa: C419
            return costs.dense_step + costs.gather * len(own)
        return costs.vector_step * max(len(own), 1)

    def led(self, f: Factor, held: int, bound: int, v: int, outside: float) -> float:
        """Points when one factor goes on to ``v`` and the others stay where they are."""
        sizes = self.sizes
        fewer = sizes.count(f, held)
        if not fewer:
            return 0.0
        found = outside * sizes.count(f, held | v) / fewer
        if held and f.edge is not None:
            others = [g for g in self.sparse if g.edge is not None
                      and self.reached(g, bound) == g.free]
            met = sizes.met(others)
            after = None if met is None else sizes.met([*others, f])
            if met is not None and after is not None:
                return outside * after[0] / max(met[0], 1.0)
        if held:
            for g in self.near:
                other = self.reached(g, bound)
                if g is not f and other & held:
                    before = sizes.lift(f, held, g, other)
                    if before:
                        found *= sizes.lift(f, held | v, g, other) / before
        return found
