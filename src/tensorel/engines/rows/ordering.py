"""ORDER BY and LIMIT: columns as whole numbers in the same order, and the permutation that sorts
them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import Frame
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.sql.algebra import Sort
from tensorel.storage.sorting import sort_coords


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
    lows = [int(w.min()) for w in words]
    spans = [int(w.max()) - low + 1 for w, low in zip(words, lows)]
    if all(s < 2**62 for s in spans):
        coords = [w - low for w, low in zip(words, lows)]
        found = sort_coords(coords, range(len(coords)), spans)
        return np.arange(len(words[0])) if found is None else found
    return np.lexsort(tuple(reversed(words)))


def sorted_frame(rows: Rows, node: Sort, frame: Frame, limit: int | None) -> Frame:
    """The frame in order; ``limit``: only the first so many rows are wanted."""
    frame, vectors = rows.vectors(frame, [k.value for k in node.keys])
    words = [w for k, v in zip(node.keys, vectors)
             for w in words_of_column(v, k.descending, k.nulls_first)]
    if limit is not None and limit < frame.count // 8:
        at = _first(words, limit)
    else:
        at = permutation(words)
    return Frame(len(at), (), rows.at(frame, at))


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
