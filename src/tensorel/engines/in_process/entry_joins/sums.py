"""Sums of merged pairs, which are not made.

Where the merge function is a sum of products ``f(a) * g(b)`` and what meets is found by keys or by
one range alone, an entry adds ``f(a)`` times the sum of ``g`` over the entries that it meets. For
others the pairs are looked at in blocks, and none is kept. Values that are not finite are looked at
pair by pair, too: inf * 0 is nan, and no sum of factors knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import joins
from tensorel.algebra.joins import Condition, Join
from tensorel.algebra.separation import Term, separated
from tensorel.engines.in_process.entry_joins.meetings import (
    Equal,
    Meeting,
    added,
    all_hold,
    meeting,
)
from tensorel.engines.in_process.entry_joins.sides import Side
from tensorel.storage.convert import from_coo, from_dense, to_coo
from tensorel.storage.entries import flat_positions
from tensorel.storage.key_matching import group_ids
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Shape = tuple[int, ...]
#: Pairs that are looked at at a time, and those that wait until they are added up.
_BLOCK_PAIRS, _WAITING_PAIRS = 1 << 16, 1 << 22
#: Sums are added up in an array of all cells where these are at most so many.
_CELLS_FOR_EACH, _MIN_CELLS = 4, 1 << 16


def summed(how: Join, a: Side, b: Side, shape: Shape, dtype: np.dtype[Any]) -> Stored:
    """The sums at the coordinates that are kept."""
    require(48 * (a.count + b.count), f"joining {a.count} and {b.count} entries")
    met, rest = meeting(how, a, b)
    terms = None if rest else _terms(how, a, b, dtype)
    ours = how.kept_of_a(a.rank)
    if ours and how.kept:
        return _of_both(how, _Pairs(how, met, rest, a, b), terms, shape, dtype)
    is_a = bool(ours) or (not how.kept and isinstance(met, Equal))
    side, kept = (a, ours) if is_a else (b, how.kept)
    found: Array = np.zeros(side.count, dtype)
    with np.errstate(all="ignore"):
        for f, g in terms or ():
            found += f * met.over_b(g) if is_a else met.over_a(f) * g
        if terms is None or not np.isfinite(found).all():
            found[:] = 0
            for left, right, values in _Pairs(how, met, rest, a, b).merged():
                np.add.at(found, left if is_a else right, values)
        if not kept:
            return from_dense(np.asarray(np.add.reduce(found, dtype=dtype)))
    coords, cells = [side.coords[k] for k in kept], prod(shape)
    if cells <= max(_CELLS_FOR_EACH * side.count, _MIN_CELLS):
        require(2 * cells * dtype.itemsize, f"{cells} sums")
        flat = flat_positions(shape, coords, side.count)
        return from_dense(added(flat, found, cells)[:-1].reshape(shape))
    there = np.flatnonzero(found != 0)
    return from_coo([c[there] for c in coords], found[there], shape, duplicates="sum")


def _terms(how: Join, a: Side, b: Side, dtype: np.dtype[Any]) -> list[Term] | None:
    """What is added up for pairs as products; None where that could be told from the sum of the
    pairs."""
    if isinstance(how.merge, joins.Untraced) or dtype.kind == "b":
        return None
    found = separated(how.merge, {"a": a.values}, {"b": b.values}, dtype)
    if found is None or (dtype.kind in "fc" and not all(
            np.isfinite(w).all() for term in found for w in term)):
        return None
    return [(np.broadcast_to(f, a.count), np.broadcast_to(g, b.count)) for f, g in found]


class _Pairs:
    """The pairs that meet, in blocks."""

    def __init__(self, how: Join, met: Meeting, rest: Sequence[Condition], a: Side, b: Side
                 ) -> None:
        self.how, self.met, self.rest, self.a, self.b = how, met, rest, a, b

    def blocks(self, met: Meeting) -> Iterator[tuple[Positions, Positions]]:
        """Positions of A and B."""
        runs = met.runs()
        for outer, inner in runs.blocks(_BLOCK_PAIRS):
            yield (inner, outer) if runs.turned else (outer, inner)

    def merged(self) -> Iterator[tuple[Positions, Positions, Array]]:
        """The same with their values."""
        for left, right in self.blocks(self.met):
            if self.rest:
                kept = all_hold(self.rest, self.a, self.b, left, right)
                left, right = left[kept], right[kept]
            yield left, right, joins.merged(self.how, self.a.values[left], self.b.values[right])


def _of_both(how: Join, pairs: _Pairs, terms: Sequence[Term] | None, shape: Shape,
             dtype: np.dtype[Any]) -> Stored:
    """Sums at coordinates of both sides: of the entries of one side with one key and the same
    coordinates only their sum is met with the other side."""
    coords = ([pairs.a.coords[k] for k in how.kept_of_a(pairs.a.rank)],
              [pairs.b.coords[k] for k in how.kept])
    sums = _Sums(shape, dtype)
    met = pairs.met
    if terms is None or not isinstance(met, Equal):
        for left, right, values in pairs.merged():
            sums.add([*[c[left] for c in coords[0]], *[c[right] for c in coords[1]]], values)
        return sums.result()
    ours, at_a, f = _together(met.ours, coords[0], [f for f, _ in terms])
    others, at_b, g = _together(met.others, coords[1], [g for _, g in terms])
    for left, right in pairs.blocks(Equal(ours, others, met.groups)):
        with np.errstate(all="ignore"):
            values = np.zeros(left.size, dtype)
            for x, y in zip(f, g):
                values += x[left] * y[right]
        sums.add([*[c[left] for c in at_a], *[c[right] for c in at_b]], values)
    return sums.result()


def _together(ids: Positions, coords: Sequence[Array], weights: Sequence[Array]
              ) -> tuple[Positions, list[Array], list[Array]]:
    """Entries that have the same number and coordinates as one, with the sum of their weights."""
    used = np.flatnonzero(ids >= 0)
    groups = group_ids([ids[used], *[c[used] for c in coords]])
    first = used[groups.first]
    return ids[first], [c[first] for c in coords], [
        added(groups.ids, w[used], groups.count)[:-1] for w in weights]


class _Sums:
    """Values added up by coordinates, some millions at a time."""

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.waiting: list[tuple[Sequence[Array], Array]] = []
        self.count, self.most = 0, _WAITING_PAIRS

    def add(self, coords: Sequence[Array], values: Array) -> None:
        self.waiting.append((coords, values))
        self.count += values.size
        if self.count > self.most:
            done = to_coo(self.result())
            self.waiting, self.count = [(done.coords, done.values)], done.count
            self.most = max(_WAITING_PAIRS, 2 * done.count)

    def result(self) -> Stored:
        require((24 + 16 * len(self.shape)) * self.count, f"adding up {self.count} pairs")
        coords = [np.concatenate([np.empty(0, np.int64), *[c[k] for c, _ in self.waiting]])
                  for k in range(len(self.shape))]
        values = np.concatenate([np.empty(0, self.dtype), *[v for _, v in self.waiting]])
        return from_coo(coords, values, self.shape, duplicates="sum")
