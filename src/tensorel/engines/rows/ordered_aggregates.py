"""Aggregates that need the rows of a group in an order: medians, quantiles, modes, first and last,
texts put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.engines.rows.ordering import permutation, words_of_column
from tensorel.engines.rows.vectors import Array, Vector, encoded
from tensorel.sql.algebra import AggregateCall
from tensorel.sql.types import Type


def ordered(call: AggregateCall, ids: Array, values: Vector, order: Sequence[Vector], count: int
            ) -> Vector:
    """The value of each group. ``ids``: the groups of the rows."""
    name = call.function
    keep = values.valid
    if name in ("first", "last"):
        keep = None  # they see nulls
    if keep is not None:
        rows = np.flatnonzero(keep)
        ids, values = ids[rows], values.take(rows)
        order = [o.take(rows) for o in order]
        values = Vector(values.type, values.values, None, values.words)
    by = list(order)
    down = [k.descending for k in call.order]
    nulls = [k.nulls_first for k in call.order]
    if name in ("median", "quantile", "mode"):
        by, down, nulls = [values], [False], [False]
    keys = [w for v, d, n in zip(by, down, nulls) for w in words_of_column(v, d, n)]
    at = permutation([ids, *keys])
    ids, values = ids[at], values.take(at)
    counts = np.bincount(ids, minlength=count)
    starts = np.cumsum(counts) - counts
    there = counts > 0
    valid = None if there.all() else there
    if name in ("median", "quantile"):
        return Vector(Type.DOUBLE, _quantile(values.values, starts, counts, call), valid)
    if name in ("first", "last", "arg_min", "arg_max"):
        return _picked(values, starts + counts - 1 if name == "last" else starts, there)
    if name == "mode":
        return _picked(values, _modes(values, ids, at, starts, count), there)
    return _joined(str(call.detail), values, starts, counts)


def _quantile(values: Array, starts: Array, counts: Array, call: AggregateCall) -> Array:
    """Between the two nearest of the sorted values."""
    fraction = 0.5 if call.function == "median" else call.detail
    assert isinstance(fraction, float)
    if not len(values):
        return np.zeros(len(starts))
    real = values.astype(np.float64)
    place = np.maximum(counts - 1, 0) * fraction
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    last = len(real) - 1
    a = real[np.minimum(starts + low, last)]
    b = real[np.minimum(starts + high, last)]
    with np.errstate(invalid="ignore"):
        share = place - low  # of b; of an infinity, too, where the other is a number
        between: Array = np.where(place > low, a * (1 - share) + b * share, a)
    return between


def _picked(values: Vector, places: Array, there: Array) -> Vector:
    if not len(values):
        return Vector(values.type, np.zeros(len(places), values.values.dtype),
                      np.zeros(len(places), bool), values.words)
    found = values.take(np.where(there, places, 0))
    if there.all():
        return found
    valid = there if found.valid is None else found.valid & there
    return Vector(found.type, found.values, valid, found.words)


def _modes(values: Vector, ids: Array, at: Array, starts: Array, count: int) -> Array:
    """Where the value stands that is there most often, the one that came first among equals."""
    if not len(values):
        return starts
    new = np.ones(len(ids), bool)
    new[1:] = (ids[1:] != ids[:-1]) | (values.values[1:] != values.values[:-1])
    first = np.flatnonzero(new)
    lengths = np.diff(np.append(first, len(ids)))
    seen = np.minimum.reduceat(at, first)
    best = np.lexsort((seen, -lengths, ids[first]))
    groups = ids[first][best]
    found = np.zeros(count, np.int64)
    found[groups[::-1]] = first[best][::-1]
    return found


def _joined(separator: str, values: Vector, starts: Array, counts: Array) -> Vector:
    assert values.words is not None
    words = values.words[values.values].tolist()
    made = [separator.join(words[s:s + n]) if n else None
            for s, n in zip(starts.tolist(), counts.tolist())]
    return encoded(made)
