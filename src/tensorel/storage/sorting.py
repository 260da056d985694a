"""Sorting of coordinates: the one place, so that a native sort can replace it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.storage.coo import IndexArray

Permutation = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def is_sorted(coords: Sequence[IndexArray], order: Sequence[int]) -> bool:
    """Whether the entries ascend lexicographically by the axes in ``order`` (ties allowed)."""
    tied: BoolArray | None = None
    for axis in order:
        c = coords[axis]
        before, after = (c[:-1], c[1:]) if tied is None else (c[:-1][tied], c[1:][tied])
        if bool((after < before).any()):
            return False
        same = after == before
        if tied is None:
            tied = same
        else:
            narrowed = np.zeros_like(tied)
            narrowed[tied] = same
            tied = narrowed
        if not tied.any():
            return True
    return True


def repeats(coords: Sequence[IndexArray], count: int) -> BoolArray:
    """For sorted entries: whether entry k+1 has the coordinates of entry k."""
    same = np.ones(max(count - 1, 0), dtype=bool)
    for c in coords:
        same &= c[1:] == c[:-1]
    return same


def distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The different numbers, ascending. Sorting beats the hashing of ``np.unique`` by far."""
    ordered = np.sort(numbers)
    fresh = np.ones(ordered.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


def _keys(
    coords: Sequence[IndexArray], order: Sequence[int], shape: Sequence[int]
) -> list[npt.NDArray[np.int64]]:
    """As few int64 keys as hold all axes, most significant first. Axes share a key only while
    the product of their extents fits, so no shape overflows."""
    keys: list[npt.NDArray[np.int64]] = []
    room = 0
    for axis in order:
        extent = max(int(shape[axis]), 1)
        if keys and extent <= room:
            keys[-1] *= extent
            keys[-1] += coords[axis]
            room //= extent
        else:
            keys.append(coords[axis].astype(np.int64))
            room = (2**63 - 1) // extent
    return keys


def sort_coords(
    coords: Sequence[IndexArray], order: Sequence[int], shape: Sequence[int]
) -> Permutation | None:
    """The stable permutation that sorts entries by the axes in ``order``, most significant
    first; None when they are sorted already."""
    count = int(coords[order[0]].size) if order else 0
    if count < 2 or is_sorted(coords, order):
        return None
    keys = _keys(coords, order, shape)
    if len(keys) > 1:
        return np.lexsort(keys[::-1])
    span = 1
    for axis in order:
        span *= max(int(shape[axis]), 1)
    shift = (count - 1).bit_length()
    if (span - 1).bit_length() + shift > 63:
        return np.argsort(keys[0], kind="stable")
    # Key and entry number in one word: a plain sort of words is stable and uses SIMD.
    words = keys[0]
    words <<= shift
    words |= np.arange(count)
    words.sort()
    words &= (1 << shift) - 1
    return words
