"""Compressed rows as other libraries hold them: checked, canonical or not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.errors import StorageError
from tensorel.storage.coo import IndexArray

Array = npt.NDArray[np.generic]


def index_array(array: object, what: str) -> IndexArray:
    """Indices as a contiguous int32 or int64 array, the same memory if it is one."""
    found = np.asarray(array)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise StorageError(f"{what} must be a one-dimensional array of whole numbers")
    width = found.dtype if found.dtype in (np.int32, np.int64) else np.dtype(np.int64)
    return np.ascontiguousarray(found, dtype=width)


def check_compressed(
    pos: IndexArray, idx: IndexArray, values: int, major: int, minor: int, what: str
) -> None:
    """Refuse arrays that would send a kernel out of bounds."""
    if pos.size != major + 1:
        raise StorageError(f"{what} has {pos.size} row bounds for {major} rows")
    if bool((pos[1:] < pos[:-1]).any()) or int(pos[0]) < 0:
        raise StorageError(f"{what} has row bounds that are not ascending")
    stored = int(pos[-1])
    if stored > idx.size or stored > values:
        raise StorageError(
            f"{what} has bounds up to {stored}, but {idx.size} indices and {values} values"
        )
    used = idx[int(pos[0]) : stored]
    if used.size and (int(used.min()) < 0 or int(used.max()) >= minor):
        bad = int(used.min()) if int(used.min()) < 0 else int(used.max())
        raise StorageError(f"{what} has an index {bad} outside 0..{minor - 1}")


def is_canonical(pos: IndexArray, idx: IndexArray) -> bool:
    """Whether indices ascend strictly in each row. A descent is legal where a row begins."""
    start, stop = int(pos[0]), int(pos[-1])
    used = idx[start:stop]
    descents = np.flatnonzero(used[1:] <= used[:-1]) + 1
    if not descents.size:
        return True
    begins = np.zeros(stop - start + 1, dtype=bool)
    begins[pos - pos[0]] = True
    return bool(begins[descents].all())


def expand_rows(pos: IndexArray, major: int) -> IndexArray:
    """The row of each stored entry."""
    return np.repeat(np.arange(major, dtype=pos.dtype), np.diff(pos))
