"""What the loops over a join of factors cost.

The loops bind one index after another. Whoever has the index leads with its shortest list; the
others are walked beside it, searched, or marked in a workspace. So the cost is the number of points
of each prefix of the loops, *before* the last index is checked against all factors: a cycle of four
factors visits all paths of three, however few of them close. A factor is asked from its outermost
level inwards: an index below a level that is not bound yet says nothing. Sums that are not finished
before the next begins are scattered into the result.

What a loop costs depends on how far those factors are asked that have its index or one that is
bound, and is worked out once for all joins that have these. Loops that scatter nothing and may ask
every factor as they like cost least; most joins end there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from tensorel.plan.contraction.join_sizes import (
    MAX_PAIRED_FACTORS,
    NO_WAY,
    Factor,
    Group,
    Reach,
    Sizes,
    State,
    Way,
    bits,
)

MAX_PERMUTED_INDICES = 5  # so many indices have all their orders tried


def cheapest_loops(sizes: Sizes, factors: Sequence[Factor], made: Factor,
                   limit: float = math.inf) -> float:
    """The cost of the cheapest loops over the join; infinite where it is not below the
    limit. A factor whose storage is in the way may be stored again first: looked at only
    where loops that ask all factors as they like leave room for it."""
    group = sizes.group(factors)
    key = made.free & group.names, made.dense
    cost, sought = group.known.get(key, (math.inf, 0.0))
    if cost == math.inf and sought < limit:
        cost = _cheapest(group, made, limit)
        group.known[key] = cost, limit
    return cost if cost < limit else math.inf


def _cheapest(group: Group, made: Factor, limit: float) -> float:
    walk = Loops(group, made)
    if not group.sparse:
        return walk.dense()
    if group.names.bit_count() > MAX_PERMUTED_INDICES:
        return walk.one_by_one(limit)
    least, order = least_loops(group, limit) if group.is_large else NO_WAY
    if not group.is_large or (least < limit and walk.scatters(order)):
        least, order = Loops(group, made, group.nested).cheapest(limit)
    if least >= limit:
        return math.inf
    if all([_follows(f, order) for f in group.nested]):  # noqa: C419
        return least
    best = walk.cheapest(limit)[0]
    for f in group.nested:
        cost = group.sizes.stored_again(f)
        room = min(best, limit) - cost
        if room > least:
            best = min(best, cost + Loops(group, made, [f]).cheapest(room)[0])
    return best


def _follows(f: Factor, order: Sequence[int]) -> bool:
    """The levels of a factor are in the order of the loops."""
    return list(f.order) == [b for b in order if b & f.free]


def least_loops(group: Group, limit: float) -> Way:
    """The cheapest loops that scatter nothing and ask all factors as they like: others cost no
    less. Infinite where they are not below the limit."""
    way, sought = group.least
    if way[0] == math.inf and sought < limit:
        nothing = Factor(0, 0, None, False, False)
        way = Loops(group, nothing, group.nested).cheapest(limit)
        group.least = way, limit
    return way if way[0] < limit else NO_WAY


class Loops:
    """The loops over one join that make a factor."""

    def __init__(self, group: Group, made: Factor, turned: Sequence[Factor] = ()) -> None:
        """``turned`` have been stored again in the order that suits the loops."""
        self.group, self.made = group, made
        self.sizes, self.names, self.sparse = group.sizes, group.names, group.sparse
        self.kept = made.free & self.names
        self.nested = [f.nested and f not in turned for f in self.sparse]
        self.states: dict[int, State] = {}

    def dense(self) -> float:
        """Of loops over dense factors: they differ by the innermost one and by what is
        entered."""
        costs, extent = self.sizes.costs, self.sizes.extent
        short = sorted(self.group.singles, key=lambda b: extent[b])
        found = [0.0] if not short else []
        for last in short:
            total, outside = 0.0, 1.0
            for b in short:
                if b != last:
                    total += outside * (costs.enter + extent[b] * costs.dense_step)
                    outside *= extent[b]
            each = self.along(last)
            if last & self.kept and self.names & ~self.kept:
                each += self.added(last)
            found.append(total + outside * (costs.enter + extent[last] * each))
        return min(found)

    def cheapest(self, limit: float) -> Way:
        """The shortest way between no index bound and all of them (Dijkstra, 1959), from the end:
        inner loops cost most, so that most ways are given up after one step."""
        best, after = {self.names: 0.0}, dict[int, int]()
        heap = [(0.0, self.names)]
        while heap:
            cost, bound = heappop(heap)
            if not bound:
                order: list[int] = []
                while bound != self.names:
                    order.append(after[bound])
                    bound |= order[-1]
                return cost, order
            if cost > best[bound]:
                continue
            for v in self.group.singles:
                if v & bound:
                    less = bound ^ v
                    step = cost + self.step(less, v)
                    if step < best.get(less, limit):
                        best[less], after[less] = step, v
                        heappush(heap, (step, less))
        return NO_WAY

    def one_by_one(self, limit: float) -> float:
        """Indices bound by the cheapest step each time; infinite from the limit on. Nothing is
        stored again: how far factors are asked follows from what is bound."""
        group, loops, many = self.group, self.sizes.loops, len(self.sparse) > MAX_PAIRED_FACTORS
        bound, total, left, apart = 0, 0.0, list(group.singles), dict[int, float]()
        beside = dict.fromkeys(left, 0)
        for f in self.sparse:
            for v in bits(f.free):
                beside[v] |= f.free
        while left and total < limit:
            outside, having, last = self.visited(bound), self.at(bound).having, len(left) == 1
            least, chosen = math.inf, left[0]
            for v in left:
                if last or not bound or beside[v] & bound:
                    key = bound, v, having | group.touched[v], many, last
                    cost = loops.get(key)
                    if cost is None:
                        cost = loops[key] = self._step(bound, v)
                    if not bound:
                        apart[v] = cost
                else:
                    cost = outside * apart[v]
                if v & self.kept:
                    cost += self.scattered(bound, v)
                if cost < least:
                    least, chosen = cost, v
            total += least
            bound |= chosen
            left.remove(chosen)
        return total if total < limit else math.inf

    def at(self, bound: int) -> State:
        """How far each sparse factor is asked: below a level that is not bound it gives
        nothing."""
        found = self.states.get(bound)
        if found is None:
            late = having = 0
            reach = []
            for f, nested in zip(self.sparse, self.nested):
                own = f.free & bound
                if own:
                    having |= f.bit
                    if nested:
                        given = f.reached(own)
                        if given != own:
                            late |= f.bit
                            own = given
                reach.append(own)
            for f in self.group.full:
                if f.free & bound:
                    having |= f.bit
            found = self.states[bound] = State(tuple(reach), late, having)
        return found

    def visited(self, bound: int) -> float:
        """Points over the bound indices."""
        return self.group.points(bound, self.at(bound)) if bound else 1.0

    def step(self, bound: int, v: int) -> float:
        """One loop over ``v`` inside those over ``bound``."""
        before, after = self.at(bound), self.at(bound | v)
        late: tuple[int, ...] = (before.late, after.late)
        for k, _ in self.group.having[v]:  # what is marked some loops before
            held = before.reach[k]
            if held and held != bound:
                late += (self.at(held).late,)
        many = len(self.sparse) > MAX_PAIRED_FACTORS
        key = bound, v, after.having, many, bound | v == self.names, late
        found = self.sizes.loops.get(key)
        if found is None:
            found = self.sizes.loops[key] = self._step(bound, v)
        return found + self.scattered(bound, v) if v & self.kept else found

    def _step(self, bound: int, v: int) -> float:
        """The shortest list leads, the others are walked beside it or searched. Where no factor
        with the index has been asked, each point outside costs the same."""
        sizes, costs, before = self.sizes, self.sizes.costs, self.at(bound).reach
        outside, last = self.visited(bound), bound | v == self.names
        points, leader, lists = math.inf, -1, list[tuple[int, Factor]]()
        each = 0.0  # at every point
        for k, f in self.group.having[v]:
            held, own = before[k], f.free & bound
            after = f.reached(own | v) if self.nested[k] else own | v
            if not after & v:
                continue
            if own != held or len(f.order) > f.free.bit_count():
                each += self.late(f, held | v, after)
            if self.is_found(f, held, v):
                each += costs.find
                continue
            lists.append((k, f))
            led = self.led(k, f, v, outside, before)
            if led < points:
                points, leader = led, k
        if leader < 0:
            points = outside * sizes.extent[v]
            rate = self.along(v) if last else costs.dense_step
        else:
            rate = costs.step
        if leader >= 0 or not last:
            for f in self.group.full:
                if f.free & v:
                    each += costs.gather if last else costs.find
        total = outside * costs.enter + points * (rate + each)
        if len(lists) < 2:
            return total
        others = [self.followed(f, before[k], bound, v, outside, points)
                  for k, f in lists if k != leader]
        if len(others) > 1:  # the next one is asked only where one was found
            most = max(others)
            share = min(self.visited(bound | v) / max(points, 1e-9), 1.0)
            return total + most + (sum(others) - most) * share
        return total + others[0]

    def is_found(self, f: Factor, held: int, v: int) -> bool:
        """An index that a factor finds by its place: where the storage is not known yet, the
        first of several that has most of its values."""
        if f.order:
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
        ends = 2.0 if f.runs & v else 1.0  # of a run both are searched
        best = min(outside * segment * costs.step + points * costs.merge_step,
                   points * ends * costs.search_step * math.log2(segment + 2.0))
        if held and held != bound:
            best = min(best, self.visited(held) * segment * costs.workspace_add
                       + points * costs.workspace_find)
        return best

    def scatters(self, order: Sequence[int]) -> bool:
        """Some loop scatters."""
        return any(self.scattered(sum(order[:k]), v) for k, v in enumerate(order))

    def scattered(self, bound: int, v: int) -> float:
        """What stays is bound inside of what is summed: a sum is not finished before the next
        begins, and goes to a dense result, a row of it, or a list."""
        if not v & self.kept or not bound & ~self.kept:
            return 0.0
        left, costs = (self.kept & ~bound).bit_count(), self.sizes.costs
        if left == 1:  # sums over what is bound further inside stay in registers
            return min(self.visited(bound | v), self.visited(self.names)) * (
                self.added(v) if self.made.dense else costs.workspace_add)
        if left == 2 and not self.made.dense:
            return self.visited(self.names) * costs.list_sort + costs.list_start
        return 0.0

    def added(self, v: int) -> float:
        """One value added to a dense result, in the innermost loop mostly."""
        costs = self.sizes.costs
        sparse = any([f.free & v for f in self.sparse])  # noqa: C419
        return costs.dense_scatter if sparse or not self.is_near(v) else costs.vector_step

    def is_near(self, v: int) -> bool:
        """All factors that have an index have its values side by side."""
        return not any([f.free & v and f.order and f.order[-1] != v  # noqa: C419
                        for f in self.group.factors])

    def along(self, v: int) -> float:
        """One element of an innermost loop that is dense: neighbours in all that have it, or
        not."""
        costs, own = self.sizes.costs, sum([bool(f.free & v) for f in self.group.factors])
        if not self.is_near(v):
            return costs.dense_step + costs.gather * own
        return costs.vector_step * max(own, 1)

    def led(self, k: int, f: Factor, v: int, outside: float, before: Reach) -> float:
        """Points when one factor goes on to ``v`` and the others stay where they are."""
        sizes, held = self.sizes, before[k]
        fewer = sizes.count(f, held)
        if not fewer:
            return 0.0
        found = outside * sizes.count(f, held | v) / fewer
        if not held:
            return found
        if f.edge is not None:
            others = [g for g, own in zip(self.sparse, before)
                      if g.edge is not None and own == g.free]
            met = sizes.met(others)
            after = None if met is None else sizes.met([*others, f])
            if met is not None and after is not None:
                return outside * after[0] / max(met[0], 1.0)
        if len(before) <= MAX_PAIRED_FACTORS:
            for g, other in zip(self.sparse, before):
                if other & held and g is not f:
                    lift = sizes.lift(f, held, g, other)
                    if lift:
                        found *= sizes.lift(f, held | v, g, other) / lift
        return found
