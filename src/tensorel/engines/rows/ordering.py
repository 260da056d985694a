"""ORDER BY and LIMIT: columns as whole numbers in the same order, and the permutation that sorts
them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import Frame
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.sql.algebra import Sort, SortKey
from tensorel.sql.scalars import Call, Literal, Scalar, compare, is_null
from tensorel.sql.types import Type
from tensorel.storage.limits import require
from tensorel.storage.sorting import sort_coords

#: Rows that are looked at to guess where the first ones end.
SAMPLE = 1 << 13


def words_of_column(v: Vector, descending: bool, nulls_first: bool) -> list[Array]:
    """Whole numbers that are ordered as the column is; those before the others count more."""
    if v.type.is_real:
        values = v.values.astype(np.float64) + 0.0
        bits = values.view(np.int64)
        bits = np.where(np.isnan(values), np.int64(0x7FF8000000000000), bits)
        words = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    else:
        words = v.values.astype(np.int64)
    if descending:
        words = ~words
    if v.valid is None:
        return [words]
    rank = v.valid if nulls_first else ~v.valid
    return [rank.astype(np.int64), np.where(v.valid, words, 0)]


def permutation(words: Sequence[Array]) -> Array:
    """The order of rows by words, the first counting most; equal rows keep theirs."""
    words = [w for w in words if len(w)]
    if not words:
        return np.empty(0, np.int64)
    require((24 * len(words) + 24) * len(words[0]), f"the order of {len(words[0])} rows")
    lows = [int(w.min()) for w in words]
    spans = [int(w.max()) - low + 1 for w, low in zip(words, lows)]
    if all(s < 2**62 for s in spans):
        coords = [w - low for w, low in zip(words, lows)]
        found = sort_coords(coords, range(len(coords)), spans)
        return np.arange(len(words[0])) if found is None else found
    return np.lexsort(tuple(reversed(words)))


def sorted_frame(rows: Rows, node: Sort, frame: Frame, limit: int | None) -> Frame:
    """The frame in order; ``limit``: only the first so many rows are wanted."""
    frame, scalars = rows.prepared(frame, [k.value for k in node.keys])
    keys = [SortKey(s, k.descending, k.nulls_first) for s, k in zip(scalars, node.keys)]
    if limit is not None:
        frame = _likely_first(rows, keys[0], frame, limit)
    frame, vectors = rows.vectors(frame, [k.value for k in keys])
    words = [w for k, v in zip(keys, vectors)
             for w in words_of_column(v, k.descending, k.nulls_first)]
    if limit is not None and limit < frame.count // 8:
        at = _first(words, limit)
    else:
        at = permutation(words)
    return Frame(len(at), (), rows.at(frame, at))


def _likely_first(rows: Rows, key: SortKey, frame: Frame, limit: int) -> Frame:
    """Without the rows that lie behind so many others by the first key. Where to cut is guessed
    from a sample; if too few rows lie before, all stay."""
    frame = rows.compact(frame)
    rank = limit * SAMPLE / max(frame.count, 1)
    rank = int(rank + 4 * rank ** 0.5 + 4)
    if frame.count < 4 * SAMPLE or rank > SAMPLE // 4 or key.value.type is Type.INTERVAL:
        return frame
    at = np.linspace(0, frame.count - 1, SAMPLE).astype(np.int64)
    _, (sample,) = rows.vectors(Frame(SAMPLE, (), rows.at(frame, at)), [key.value])
    place = permutation(words_of_column(sample, key.descending, key.nulls_first))[rank]
    test = _not_behind(key, sample, int(place))
    if test is None:
        return frame
    found = rows.compact(frame.tested([rows.lowering(frame).test(test).true]))
    return found if found.count >= limit else frame


def _not_behind(key: SortKey, sample: Vector, place: int) -> Scalar | None:
    """That a row does not come after one of the sample; None where that says nothing."""
    if sample.valid is not None and not sample.valid[place]:
        return is_null(key.value) if key.nulls_first else None
    value = sample.values[place].item()
    bound = Literal(value if sample.words is None else sample.words[value], sample.type)
    test = compare(">=" if key.descending else "<=", key.value, bound)
    if key.nulls_first and key.value.nullable:
        return Call("or", (is_null(key.value), test), Type.BOOLEAN, True)
    return test


def _first(words: Sequence[Array], limit: int) -> Array:
    """The first rows of the order: those above the bound of the first word need no sorting."""
    if limit == 0:
        return np.empty(0, np.int64)
    bound = np.partition(words[0], limit - 1)[limit - 1]
    near = np.flatnonzero(words[0] <= bound)
    return near[permutation([w[near] for w in words])][:limit]


def limited(rows: Rows, frame: Frame, count: int | None, offset: int) -> Frame:
    """Some rows behind the first ones."""
    frame = rows.compact(frame)
    stop = frame.count if count is None else min(offset + count, frame.count)
    if offset == 0 and stop == frame.count:
        return frame
    at = np.arange(min(offset, stop), stop)
    return Frame(len(at), (), rows.at(frame, at))
