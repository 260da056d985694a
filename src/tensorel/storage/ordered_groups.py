"""Groups of rows in ascending order of their keys.

Whole numbers that lie close together are numbers of groups already: what is left to do is counting,
without a table and without sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.storage.key_matching import Groups, group_ids
from tensorel.storage.limits import require

Column = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
#: Places for each row, and at least so many, that keys may be spread over.
_ROOM, _LEAST_PLACES = 4, 1 << 16


def ordered_groups(columns: Sequence[Column]) -> Groups:
    """Groups of rows that agree in all columns, numbered by their keys: by the first column, and
    then by the next ones. nan is one value, and the last.

    >>> found = ordered_groups([np.array([3, 1, 3]), np.array([0.5, 2.0, 0.5])])
    >>> found.ids.tolist(), found.first.tolist()
    ([1, 0, 1], [1, 0])
    """
    count = columns[0].size
    packed = _packed(columns, count)
    if packed is None:
        groups = group_ids(columns)
        order = np.lexsort([c[groups.first] for c in columns][::-1])
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        return Groups(rank[groups.ids], groups.first[order])
    places, size = packed
    first: Positions = np.full(size, -1, np.int64)
    first[places[::-1]] = np.arange(count - 1, -1, -1)  # the first row is written last
    used = np.flatnonzero(first >= 0)
    if used.size == size:
        return Groups(places, first)
    rank = np.empty(size, np.int64)
    rank[used] = np.arange(used.size)
    return Groups(rank[places], first[used])


def _packed(columns: Sequence[Column], count: int) -> tuple[Positions, int] | None:
    """A place for each combination of keys, ascending like them, and how many there are; None
    where keys are no whole numbers or lie far apart."""
    if not count or any(c.dtype.kind not in "biu" for c in columns):
        return None
    bounds = [(int(c.min()), int(c.max())) for c in columns]
    spans = [high - low + 1 for low, high in bounds]
    size = prod(spans)
    if size > max(_ROOM * count, _LEAST_PLACES):
        return None
    require(24 * count + 24 * size, f"grouping {count} rows")
    places: Positions | None = None
    for c, (low, _), span in zip(columns, bounds, spans):
        own: Positions = (c - np.uint64(low)).astype(np.int64) if c.dtype == np.uint64 \
            else c.astype(np.int64) - low
        places = own if places is None else places * span + own
    assert places is not None
    return places, size
