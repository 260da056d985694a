"""Sorting of coordinates: the one place. NumPy sorts short lists; for long ones a native sorter
(``kernels.native.sorter``) is installed by the engine that has a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.storage.entries import IndexArray, ValueArray
from tensorel.storage.limits import require

Permutation = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
#: Segment bounds, indices and values of a matrix with compressed lines.
Lines = tuple[IndexArray, IndexArray, ValueArray]

UNSORTED, REPEATING, RISING = 0, 1, 2
#: Shorter lists take NumPy a few milliseconds: less than to make or load a kernel.
MIN_NATIVE_ENTRIES = 1 << 16
#: Keys or words, numbers of entries, and the order of each entry of a longer list.
SORT_BYTES = 24
_BLOCK_ENTRIES = 1 << 15


class Sorter(Protocol):
    """Coordinates are given most significant first, as ``shape`` is, in range. Methods give None
    where they do not apply; then NumPy sorts."""

    def permutation(
        self, coords: Sequence[IndexArray], shape: Sequence[int]
    ) -> Permutation | None:
        """The stable permutation that sorts the entries."""

    def entries(
        self, coords: Sequence[IndexArray], values: ValueArray, shape: Sequence[int], add: bool
    ) -> tuple[tuple[IndexArray, ...], ValueArray] | None:
        """The entries sorted, each cell once: its values are added up in the order in which they
        were given, or the last one stays."""

    def lines(
        self, coords: Sequence[IndexArray], values: ValueArray, shape: Sequence[int], add: bool
    ) -> Lines | None:
        """The same for a matrix, with compressed lines."""

    def bounds(self, major: IndexArray, lines: int, width: DType) -> IndexArray:
        """Segment bounds of ``lines`` lines; ``major`` ascends."""


_native: Sorter | None = None


def install(sorter: Sorter | None) -> None:
    """Long lists are sorted by ``sorter`` from now on."""
    global _native
    _native = sorter


def native(count: int) -> Sorter | None:
    """What sorts ``count`` entries, if not NumPy."""
    return _native if count >= MIN_NATIVE_ENTRIES else None


def ascent(coords: Sequence[IndexArray], order: Sequence[int]) -> int:
    """How the entries lie by the axes in ``order``: RISING strictly, REPEATING (sorted, but some
    are equal) or UNSORTED. Blocks stay in the cache, and the first descent ends it."""
    count = int(coords[order[0]].size) if order else 0
    found = RISING
    for start in range(0, count - 1, _BLOCK_ENTRIES):
        stop = min(start + _BLOCK_ENTRIES, count - 1)
        tied: BoolArray | None = None
        for axis in order:
            c = coords[axis]
            before, after = c[start:stop], c[start + 1 : stop + 1]
            falls, same = after < before, after == before
            if tied is not None:
                falls &= tied
                same &= tied
            if falls.any():
                return UNSORTED
            tied = same
        if tied is not None and tied.any():
            found = REPEATING
    return found


def is_sorted(coords: Sequence[IndexArray], order: Sequence[int]) -> bool:
    """Whether the entries ascend lexicographically by the axes in ``order`` (ties allowed)."""
    return ascent(coords, order) != UNSORTED


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
    if count >= MIN_NATIVE_ENTRIES:
        require(SORT_BYTES * count, f"sorting {count} entries")
    sorter = native(count)
    if sorter is not None:
        found = sorter.permutation([coords[a] for a in order], [shape[a] for a in order])
        if found is not None:
            return found
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
