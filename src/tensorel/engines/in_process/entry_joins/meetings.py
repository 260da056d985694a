"""Which entries of two sides meet: those with equal keys, or those whose key lies in a range.

A meeting knows its pairs as runs, and sums over the entries that each entry meets without looking
at the pairs. A sum over a range of sorted entries is one of few nodes of a binary tree of sums:
nothing is ever subtracted, so digits are kept as in any other sum, and infinite values stay where
they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tensorel.algebra.joins import Condition, Join, holds
from tensorel.algebra.steps import arguments
from tensorel.engines.in_process.entry_joins.sides import Side
from tensorel.storage import key_matching
from tensorel.storage.limits import require

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
_LOWER, _UPPER = ("greater", "greater_equal"), ("less", "less_equal")


class Runs(NamedTuple):
    """Entry ``k`` of the outer side meets ``members[start[k] : start[k] + counts[k]]`` of the
    other. ``turned``: the outer side is B."""

    turned: bool
    start: Positions
    counts: Positions
    members: Positions

    def blocks(self, pairs: int) -> Iterator[tuple[Positions, Positions]]:
        """Positions on both sides, the outer one first; so many pairs at a time, or those of one
        entry."""
        ends = np.cumsum(self.counts)
        lo = 0
        while lo < self.counts.size:
            done = int(ends[lo - 1]) if lo else 0
            hi = max(int(np.searchsorted(ends, done + pairs, side="right")), lo + 1)
            counts = self.counts[lo:hi]
            outer = np.repeat(np.arange(lo, hi), counts)
            shift = self.start[lo:hi] - (ends[lo:hi] - counts - done)
            yield outer, self.members[np.repeat(shift, counts) + np.arange(outer.size)]
            lo = hi


class Meeting(Protocol):
    """Entries that meet. Weights are numbers of the entries of one side."""

    def over_a(self, weights: Array) -> Array:
        """For each entry of B the sum of the weights of those of A that it meets."""

    def over_b(self, weights: Array) -> Array:
        """For each entry of A the sum of the weights of those of B that it meets."""

    def runs(self) -> Runs: ...


def added(ids: Positions, weights: Array, groups: int) -> Array:
    """Sums of weights by group; those of no group (-1) are left out."""
    made: Array = np.zeros(groups + 1, weights.dtype)  # the last is of no group
    with np.errstate(all="ignore"):
        if weights.dtype == np.float64 and ids.size:
            made[:] = np.bincount(ids + 1, weights, groups + 1)
            made = np.roll(made, -1)
        else:
            np.add.at(made, ids, weights)
    made[-1] = 0
    return made


class Equal:
    """Entries whose keys have the same number; -1 is met by none."""

    def __init__(self, ours: Positions, others: Positions, groups: int) -> None:
        self.ours, self.others, self.groups = ours, others, groups

    def over_a(self, weights: Array) -> Array:
        return added(self.ours, weights, self.groups)[self.others]

    def over_b(self, weights: Array) -> Array:
        return added(self.others, weights, self.groups)[self.ours]

    def runs(self) -> Runs:
        members, starts = key_matching.members_of(self.others, self.groups)
        sizes = np.append(starts[1:] - starts[:-1], 0)  # the last is of no group
        return Runs(False, starts[self.ours], sizes[self.ours], members)


class Ranged:
    """Each entry of B meets those of A whose keys stand in a range of a list of different keys.
    ``members``: the entries of A by key; those of key ``k`` begin at ``starts[k]``, and the last
    ones end at the last start. Entries of B that stand side by side and ask for the same are one
    asker: they begin at ``askers``."""

    def __init__(self, members: Positions, starts: Positions, askers: Positions, low: Positions,
                 high: Positions, counts: tuple[int, int]) -> None:
        self.members, self.starts, self.low, self.counts = members, starts, low, counts
        self.high = np.maximum(low, high)
        self.askers = askers
        self.asking = np.diff(askers, append=counts[1])

    def over_a(self, weights: Array) -> Array:
        sums = np.zeros(self.low.size, weights.dtype)
        with np.errstate(all="ignore"):
            level = _by_run(weights[self.members], self.starts[:-1])
            for who, low, high in self._levels():
                left, right = (low & 1).astype(bool), (high & 1).astype(bool)
                sums[who[left]] += level[low[left]]
                sums[who[right]] += level[high[right] - 1]
                level = _halved(level)
        return np.repeat(sums, self.asking)

    def over_b(self, weights: Array) -> Array:
        """Each weight goes to the few nodes that are its range; a leaf has those of all nodes
        above it."""
        nodes: list[Array] = []
        size = self.starts.size - 1
        with np.errstate(all="ignore"):
            weights = _by_run(weights, self.askers)
            for who, low, high in self._levels():
                left, right = (low & 1).astype(bool), (high & 1).astype(bool)
                places = np.concatenate([low[left], high[right] - 1])
                nodes.append(added(places, weights[np.concatenate([who[left], who[right]])],
                                   size)[:-1])
                size = (size + 1) // 2
            below = np.zeros(size, weights.dtype)
            for level in reversed(nodes):
                below = np.repeat(below, 2)[: level.size] + level
        sums = np.zeros(self.counts[0], weights.dtype)
        sums[self.members] = np.repeat(below[: self.starts.size - 1], np.diff(self.starts))
        return sums

    def _levels(self) -> Iterator[tuple[Positions, Positions, Positions]]:
        """From the leaves up: askers that have nodes to take still, and their ranges of nodes. An
        odd one at either end is taken, the others are pairs of the next level."""
        who = np.flatnonzero(self.low < self.high)
        low, high = self.low[who], self.high[who]
        while who.size:
            yield who, low, high
            low, high = (low + 1) >> 1, high >> 1
            left = np.flatnonzero(low < high)
            who, low, high = who[left], low[left], high[left]

    def runs(self) -> Runs:
        start = self.starts[self.low]
        return Runs(True, np.repeat(start, self.asking),
                    np.repeat(self.starts[self.high] - start, self.asking), self.members)


def _by_run(weights: Array, starts: Positions) -> Array:
    """Sums of weights that stand side by side; no run is empty."""
    if starts.size == weights.size:
        return weights
    return np.asarray(np.add.reduceat(weights, starts, dtype=weights.dtype))


def _halved(level: Array) -> Array:
    """Sums of neighbours; the last of an odd number stays."""
    pairs = level.size // 2
    above = level[: 2 * pairs : 2] + level[1 : 2 * pairs : 2]
    return np.append(above, level[-1:]) if level.size % 2 else above


def meeting(how: Join, a: Side, b: Side) -> tuple[Meeting, list[Condition]]:
    """The entries that meet, by as many conditions as can be looked up, and the others."""
    equal = [c for c in how.conditions if c.op == "equal"]
    rest = [c for c in how.conditions if c.op != "equal"]
    if equal:
        numbers = key_matching.matches([a.column(c.left) for c in equal],
                                       [b.column(c.right) for c in equal])
        return Equal(*numbers), rest
    bounds = _bounds(rest)
    return _ranged(bounds, a, b), [c for c in rest if c not in bounds]


def all_hold(conditions: Sequence[Condition], a: Side, b: Side, left: Positions, right: Positions
             ) -> npt.NDArray[np.bool_]:
    """Which pairs meet conditions."""
    met = np.ones(left.size, bool)
    for c in conditions:
        given = {n: a.argument(n)[left] for n in arguments(c.left)}
        given |= {n: b.argument(n)[right] for n in arguments(c.right)}
        met &= holds(c, given)
    return met


def _bounds(conditions: Sequence[Condition]) -> list[Condition]:
    """Conditions that bound one formula of A by formulas of B; the first, and those that bound the
    same formula from the other side."""
    found = [c for c in conditions if c.op in _LOWER + _UPPER]
    if not found:
        return []
    first = found[0]
    other = _UPPER if first.op in _LOWER else _LOWER
    return [first, *[c for c in found if c.op in other and c.left == first.left][:1]]


def _ranged(conditions: list[Condition], a: Side, b: Side) -> Ranged:
    """Entries of A sorted by their key: those that an entry of B asks for lie side by side. With
    no condition these are all."""
    require(48 * (a.count + b.count), f"ranges of {a.count} and {b.count} entries")
    keys = a.column(conditions[0].left) if conditions else np.zeros(a.count)
    numbers = np.flatnonzero(keys == keys)
    order = np.argsort(keys[numbers], kind="stable")
    members = numbers[order]
    ranked = keys[members]
    starts = _starts([ranked])
    bounds = [b.column(c.right) for c in conditions] or [np.zeros(b.count)]
    askers = _starts(bounds)
    distinct = ranked[starts]
    low, high = np.zeros(askers.size, np.int64), np.full(askers.size, distinct.size)
    for c, column in zip(conditions, bounds):
        bound = column[askers]
        first, second = _comparable(distinct, bound)
        at = np.searchsorted(
            first, second, side="left" if c.op in ("greater_equal", "less") else "right")
        if c.op in _LOWER:
            low = at
        else:
            high = at
        missing = bound != bound
        high = np.where(missing, 0, high)
        low = np.where(missing, 0, low)
    return Ranged(members, np.append(starts, members.size), askers, low, high,
                  (a.count, b.count))


def _starts(columns: Sequence[Array]) -> Positions:
    """Where runs of equal rows begin."""
    size = columns[0].size
    new = np.zeros(size, bool)
    new[:1] = True
    for c in columns:
        new[1:] |= c[1:] != c[:-1]
    return np.flatnonzero(new)


def _comparable(a: Array, b: Array) -> tuple[Array, Array]:
    dtype = np.result_type(a, b)
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)
