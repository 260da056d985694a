"""Guaranteed upper bounds from degree constraints.

A constraint (X, Y, p, value) says of a set of points: project it onto X and Y; for each value
of X count the values of Y; the l_p norm of these counts is at most ``value``. X empty: the
number of values of Y. Names are disjoint sets of index names. Joins only remove points of a
relation, so a constraint of a part is one of the whole.

Two bounds: the cheapest chain of constraints that binds all indices (Galley, degree constraints),
and the entropic linear program of LpBound (Zhang et al. 2025): the logarithm of the number of
points is the entropy h of the uniform distribution over them, and a constraint reads
``h(XY) - (1 - 1/p) h(X) <= log value``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from heapq import heappop, heappush
from math import exp, inf, log, sqrt

import numpy as np

from tensorel.stats.estimates.simplex import FloatArray, maximum

Names = frozenset[str]
Key = tuple[Names, Names, float]
Constraints = dict[Key, float]
NONE: Names = frozenset()
#: More indices than this: greedy chains, and no linear program above these.
MAX_CHAIN_INDICES = 12
MAX_CHAIN_WORK = 2**11  # steps times sets: beyond, the best step each time
MAX_NORMAL_INDICES = 7
MAX_SHANNON_INDICES = 4
#: Values are widened by this much before rounding can make a bound too small.
SLACK = 1e-9


def tighten(constraints: Constraints, given: Names, counted: Names, p: float, value: float
            ) -> None:
    """Add a constraint unless a tighter one stands there."""
    counted = counted - given
    if counted:
        key = (given, counted, p if given else 1.0)
        if value < constraints.get(key, inf):
            constraints[key] = value


def whole(x: float) -> float:
    """A bound of a whole number, past the rounding of its computation."""
    return float(int(x * (1 + SLACK) + SLACK)) if x < 1e15 else x * (1 + SLACK)


def is_empty(constraints: Mapping[Key, float]) -> bool:
    return any(v <= 0 for v in constraints.values())


def _mask(names: Iterable[str], bit: dict[str, int]) -> int:
    result = 0
    for n in names:
        result |= 1 << bit.setdefault(n, len(bit))
    return result


class Chains:
    """Chains over one set of constraints, prepared for many questions."""

    def __init__(self, constraints: Mapping[Key, float]) -> None:
        self.bit: dict[str, int] = {}
        self.masks: dict[Names, int] = {NONE: 0}
        self.empty = is_empty(constraints)
        best: dict[tuple[int, int], float] = {}
        for (given, counted, p), value in constraints.items():
            needs = self._mask(given)
            gives = needs | self._mask(counted)
            if p == 2:
                room = constraints.get((NONE, given, 1.0))
                if room is None:
                    continue
                needs, value = 0, whole(value * sqrt(room))
            elif p == 1:
                needs = 0
            if value < best.get((needs, gives), inf):
                best[needs, gives] = value
        # (needed, reached, factor): from any set that contains ``needed`` on to ``reached``.
        self.steps = [(needs, gives, max(v, 1.0)) for (needs, gives), v in best.items()]
        self.logs: list[float] | None = None
        self.found: dict[tuple[int, int], float] = {}

    def _mask(self, names: Names) -> int:
        found = self.masks.get(names)
        if found is None:
            found = self.masks[names] = _mask(names, self.bit)
        return found

    def bound(self, target: Names, start: Names = NONE) -> float:
        """The least product of degrees along a chain from ``start`` to all of ``target``: at
        most so many values of ``target`` occur with one of ``start``. inf: none reaches it."""
        if target <= start:
            return 1.0
        if self.empty:
            return 0.0
        asked = self._mask(target), self._mask(start)
        found = self.found.get(asked)
        if found is None:
            found = self.found[asked] = self._least(*asked)
        return found

    def _least(self, goal: int, begin: int) -> float:
        if len(self.bit) > MAX_CHAIN_INDICES or len(self.steps) << len(self.bit) > MAX_CHAIN_WORK:
            return self._greedy(goal, begin)
        best = {begin: 1.0}
        queue = [(1.0, begin)]
        while queue:
            cost, at = heappop(queue)
            if at & goal == goal:
                return cost
            if cost > best[at]:
                continue
            for needs, gives, factor in self.steps:
                if needs & at == needs and gives & ~at:
                    after = at | gives
                    price = cost * factor
                    if price < best.get(after, inf):
                        best[after] = price
                        heappush(queue, (price, after))
        return inf

    def _greedy(self, goal: int, begin: int) -> float:
        """The step each time that costs least for each index that it adds."""
        if self.logs is None:
            self.logs = [log(factor) for *_, factor in self.steps]
        cost, at = 1.0, begin
        while at & goal != goal:
            best, pick, price = inf, 0, 1.0
            for (needs, gives, factor), size in zip(self.steps, self.logs):
                fresh = gives & ~at
                if fresh and needs & at == needs and size < best * fresh.bit_count():
                    best, pick, price = size / fresh.bit_count(), gives, factor
            if not pick:
                return inf
            cost *= price
            at |= pick
        return cost


def chain_bound(constraints: Mapping[Key, float], target: Names) -> float:
    return Chains(constraints).bound(target, NONE)


def entropy_bound(constraints: Mapping[Key, float], target: Names) -> float | None:
    """The bound of the linear program on the number of values of ``target``; None: too large.

    For target = all indices and constraints given at most one index, entropies that are sums
    of step functions suffice (LpBound, theorem for simple statistics): few rows. Otherwise all
    Shannon inequalities."""
    if is_empty(constraints):
        return 0.0
    names = sorted(target.union(*[x | y for x, y, _ in constraints]))
    whole = len(target) == len(names)
    n = len(names)
    if n > (MAX_NORMAL_INDICES if whole else MAX_SHANNON_INDICES):
        return None
    bit = {name: k for k, name in enumerate(names)}
    rows: dict[tuple[int, int, float], float] = {}
    for (given, counted, p), value in constraints.items():
        if whole and len(given) > 1:
            continue
        x = _mask(given, bit)
        rows[x, x | _mask(counted, bit), p] = log(max(value, 1.0) * (1 + SLACK))
    found = solve(tuple(rows.items()), n, _mask(target, bit), whole)
    return None if found is None else exp(found) * (1 + SLACK)


@lru_cache(maxsize=512)
def solve(rows: tuple[tuple[tuple[int, int, float], float], ...], n: int, target: int,
          whole: bool) -> float | None:
    """The greatest logarithm of the size of ``target`` under these constraints."""
    sets = np.arange(1, 1 << n)
    a = np.empty((len(rows), sets.size))
    for r, ((x, xy, p), _) in enumerate(rows):
        if whole:
            a[r] = (sets & xy != 0) - (1 - 1 / p) * (sets & x != 0)
        else:
            a[r] = 0.0
            a[r, xy - 1] = 1.0
            if x:
                a[r, x - 1] -= 1 - 1 / p
    b = np.asarray([value for _, value in rows])
    if whole:
        c = (sets & target != 0).astype(np.float64)
    else:
        c = (sets == target).astype(np.float64)
        shannon = _shannon(n)
        a, b = np.concatenate([a, shannon]), np.concatenate([b, np.zeros(len(shannon))])
    return maximum(a, b, c, float(sets.size * max(b.sum(), 1.0)))


@lru_cache(maxsize=8)
def _shannon(n: int) -> FloatArray:
    """The elemental inequalities as rows <= 0: h(V - i) <= h(V), and
    h(iK) + h(jK) >= h(ijK) + h(K)."""
    everything = (1 << n) - 1
    rows: list[FloatArray] = []

    def row(*terms: tuple[int, float]) -> None:
        made = np.zeros(everything)
        for members, factor in terms:
            if members:
                made[members - 1] += factor
        rows.append(made)

    for i in range(n):
        row((everything & ~(1 << i), 1.0), (everything, -1.0))
        for j in range(i + 1, n):
            pair = 1 << i | 1 << j
            for k in range(everything + 1):
                if not k & pair:
                    row((k | 1 << i, -1.0), (k | 1 << j, -1.0), (k | pair, 1.0), (k, 1.0))
    return np.stack(rows)
