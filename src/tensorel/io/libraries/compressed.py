"""Compressed rows as other libraries hold them: checked, canonical or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError
from tensorel.storage.entries import IndexArray, make_fill
from tensorel.storage.laws import ascends
from tensorel.storage.lending import lend
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

Array = npt.NDArray[np.generic]


def index_array(array: object, what: str) -> IndexArray:
    """Indices as a contiguous int32 or int64 array, the same memory if it is one."""
    found = lend(array)
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


def from_compressed(x: Any, layout: str, dtype: DType, fill: object, what: str) -> Stored | None:
    """The csr or csc tensor in an object's arrays, over the same memory; None where indices do not
    ascend within a row."""
    shape = (int(x.shape[0]), int(x.shape[1]))
    major, minor = shape if layout == "csr" else shape[::-1]
    pos, idx = index_array(x.indptr, "indptr"), index_array(x.indices, "indices")
    val = np.ascontiguousarray(lend(x.data), dtype=dtype)
    check_compressed(pos, idx, val.size, major, minor, what)
    if not ascends(pos, idx):
        return None
    room = min(idx.size, val.size)  # either may have capacity for more than there is
    arrays: dict[str, Array] = {"pos1": pos, "idx1": idx[:room], "val": val[:room]}
    return Stored(resolve(layout, shape, dtype), shape, dtype, make_fill(fill, dtype), arrays)


def rebased(stored: Stored, block: tuple[int, ...] = ()) -> tuple[Array, Array, Array]:
    """Bounds from 0, and the indices and values, or blocks of values, between the bounds."""
    pos, idx, val = (stored.arrays[n] for n in ("pos1", "idx1", "val"))
    start, stop = int(pos[0]), int(pos[-1])
    shifted: Array = pos if start == 0 else np.subtract(pos, start, dtype=pos.dtype)
    return shifted, idx[start:stop], (val.reshape(-1, *block) if block else val)[start:stop]


def expand_rows(pos: IndexArray, major: int) -> IndexArray:
    """The row of each stored entry."""
    return np.repeat(np.arange(major, dtype=pos.dtype), np.diff(pos))
