"""Physical arrays from outside: nothing that native code will read is taken on trust.

Stacks of dense and compressed levels are checked where they lie. All other formats are unpacked
by NumPy, which checks bounds, and their coordinates are packed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from tensorel.errors import MemoryLimitError, StorageError, TensorelError
from tensorel.io.npy import AnyArray
from tensorel.storage.convert import from_coo
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

_INDEX = (np.dtype(np.int32), np.dtype(np.int64))


def checked(stored: Stored, where: str) -> Stored:
    """``stored`` if its arrays form a valid tensor, else a StorageError that says why not."""
    for name, array in stored.arrays.items():
        if array.ndim != 1 or array.dtype.kind in "SU":
            raise StorageError(f"{where}: array {name!r} is not a list of numbers")
    check_values(stored.arrays.get("val"), stored, where)
    levels = stored.format.levels
    if type(stored.format) is Stack and all(type(v) in (Dense, Compressed) for v in levels):
        _check_stack(stored, where)
        return stored
    _check_segments(stored.arrays, where)
    return _packed_anew(stored, where)


def check_values(values: AnyArray | None, stored: Stored, where: str) -> None:
    if values is not None and values.dtype != stored.dtype:
        raise StorageError(
            f"{where}: values have dtype {values.dtype}; the header says {stored.dtype}"
        )


def check_pos(pos: AnyArray, count: int, room: int, where: str) -> None:
    """Segment bounds for ``count`` parents over ``room`` entries: they ascend and stay inside."""
    if pos.ndim != 1 or pos.dtype not in _INDEX:
        raise StorageError(f"{where}: segment bounds are not a list of int32 or int64")
    if pos.size != count + 1:
        raise StorageError(
            f"{where}: {pos.size:,} segment bounds where {count + 1:,} are needed"
        )
    if int(pos[0]) < 0 or int(pos[-1]) > room:
        raise StorageError(f"{where}: segment bounds reach outside the {room:,} entries")
    if bool((pos[1:] < pos[:-1]).any()):  # type: ignore[operator]
        raise StorageError(f"{where}: segment bounds descend")


def check_idx(idx: AnyArray, extent: int, axis: int, where: str) -> None:
    """Indices of one axis are whole numbers in range."""
    if idx.ndim != 1 or idx.dtype not in _INDEX:
        raise StorageError(f"{where}: indices of axis {axis} are not a list of int32 or int64")
    if idx.size and (int(idx.min()) < 0 or int(idx.max()) >= extent):
        bad = int(idx.min()) if int(idx.min()) < 0 else int(idx.max())
        raise StorageError(f"{where}: index {bad} is outside axis {axis} with extent {extent}")


def ascends(pos: AnyArray, idx: AnyArray) -> bool:
    """Whether the indices ascend strictly within each segment."""
    if idx.size < 2:
        return True
    fresh = np.zeros(idx.size + 1, dtype=bool)
    fresh[pos] = True
    rising = idx[1:] > idx[:-1]  # type: ignore[operator]
    return bool((rising | fresh[1 : idx.size]).all())


def _need(arrays: Mapping[str, AnyArray], name: str, where: str) -> AnyArray:
    if name not in arrays:
        raise StorageError(f"{where}: array {name!r} is missing")
    return arrays[name]


def _check_stack(stored: Stored, where: str) -> None:
    arrays, count = stored.arrays, 1
    for axis, level in zip(stored.format.order, stored.format.levels):
        extent = stored.shape[axis]
        if isinstance(level, Dense):
            count *= extent
            continue
        assert isinstance(level, Compressed)
        pos, idx = (_need(arrays, n, where) for n in level.names)
        check_pos(pos, count, idx.size, f"{where}[{level.names[0]!r}]")
        check_idx(idx, extent, axis, f"{where}[{level.names[1]!r}]")
        if level.runs or not ascends(pos, idx):
            raise StorageError(f"{where}[{level.names[1]!r}]: indices do not ascend")
        count = idx.size
    if _need(arrays, "val", where).size != count:
        raise StorageError(f"{where}: {arrays['val'].size:,} values where {count:,} are needed")


def _check_segments(arrays: Mapping[str, AnyArray], where: str) -> None:
    """Bounds that unpacking repeats by must not grow beyond what is stored."""
    most = max((a.size for a in arrays.values()), default=0)
    for name, array in arrays.items():
        if name.startswith("pos"):
            check_pos(array, array.size - 1, most, f"{where}[{name!r}]")


def _packed_anew(stored: Stored, where: str) -> Stored:
    format_, shape = stored.format, stored.shape
    known = {n for level in format_.levels for n in level.names}
    for name in sorted(known):
        if name.startswith(("idx", "pos")):
            _need(stored.arrays, name, where)
    if format_.is_dense and prod(shape) == 0:
        return from_coo([()] * len(shape), np.empty(0, stored.dtype), shape, fill=stored.fill,
                        format=format_)
    try:
        coo = format_.unpack(stored.arrays, shape, stored.fill, stored.dtype)
        return from_coo(coo.coords, coo.values, shape, fill=stored.fill, dtype=stored.dtype,
                        format=format_)
    except MemoryLimitError:
        raise
    except TensorelError as error:
        raise StorageError(f"{where}: {error.message}", hint=error.hint) from error
    except (KeyError, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise StorageError(
            f"{where}: the arrays do not form a tensor of shape {shape} in format "
            f"{format_.name!r}: {error}"
        ) from error
