"""Physical arrays from outside: nothing that native code will read is taken on trust.

They are held to the law of their format (``storage/laws.py``), and what breaks it is a StorageError
that names the file. Stacks of dense and compressed levels are looked at where they lie. All other
formats are unpacked by NumPy, which checks bounds, and their coordinates are packed anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError, TensorelError
from tensorel.io.guard import naming
from tensorel.io.npy import AnyArray
from tensorel.storage import laws
from tensorel.storage.convert import from_coo
from tensorel.storage.format import Format
from tensorel.storage.laws import Violation
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

Shape = tuple[int, ...]
Arrays = Mapping[str, AnyArray]


@contextmanager
def lawful(where: str) -> Iterator[None]:
    """What breaks the law of a format is said of ``where`` the arrays come from."""
    try:
        yield
    except Violation as violation:
        inside = "" if violation.array is None else f"[{violation.array!r}]"
        raise StorageError(f"{where}{inside}: {violation.text}") from violation


def outside(format_: Format, shape: Shape, dtype: DType, fill: np.generic, arrays: Arrays,
            where: str) -> Stored:
    """The tensor that lies in these arrays, if they are of the kinds and lengths of its format."""
    held = dict(arrays)
    with lawful(where):
        format_.check(held, shape, dtype)
    return Stored(format_, shape, dtype, fill, held)


def checked(format_: Format, shape: Shape, dtype: DType, fill: np.generic, arrays: Arrays,
            where: str) -> Stored:
    """The tensor that lies in these arrays, all of which are looked at."""
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind in "SU":
            raise StorageError(f"{where}: array {name!r} is not a list of numbers")
    held = dict(arrays)
    if type(format_) is Stack and all(
            isinstance(level, Dense) or (type(level) is Compressed and not level.runs)
            for level in format_.levels):
        with lawful(where):
            format_.check(held, shape, dtype, whole=True)
        return Stored(format_, shape, dtype, fill, held)
    values = held.get("val")
    if values is not None and values.dtype != dtype:
        raise StorageError(f"{where}: values have dtype {values.dtype}; the header says {dtype}")
    _check_segments(held, where)
    return _packed_anew(format_, shape, dtype, fill, held, where)


def check_pos(pos: AnyArray, count: int, room: int, where: str) -> None:
    """Segment bounds for ``count`` parents over ``room`` entries: they ascend and stay inside."""
    with lawful(where):
        laws.check_lengths(None, pos, count, room)
        laws.check_bounds(None, pos, room)


def check_idx(idx: AnyArray, extent: int, axis: int, where: str) -> None:
    """Indices of one axis are whole numbers in range."""
    with lawful(where):
        laws.check_kind(None, idx, f"indices of axis {axis}")
        laws.check_inside(None, idx, extent, axis)


def _check_segments(arrays: Mapping[str, AnyArray], where: str) -> None:
    """Bounds that unpacking repeats by must not grow beyond what is stored."""
    most = max((a.size for a in arrays.values()), default=0)
    for name, array in arrays.items():
        if name.startswith("pos"):
            check_pos(array, array.size - 1, most, f"{where}[{name!r}]")


def _packed_anew(format_: Format, shape: Shape, dtype: DType, fill: np.generic,
                 arrays: dict[str, AnyArray], where: str) -> Stored:
    known = {n for level in format_.levels for n in level.names}
    for name in sorted(known):
        if name.startswith(("idx", "pos")) and name not in arrays:
            raise StorageError(f"{where}: array {name!r} is missing")
    if format_.is_dense and prod(shape) == 0:
        return from_coo([()] * len(shape), np.empty(0, dtype), shape, fill=fill, format=format_)
    try:
        with naming(where):
            coo = format_.unpack(arrays, shape, fill, dtype)
            return from_coo(coo.coords, coo.values, shape, fill=fill, dtype=dtype, format=format_)
    except TensorelError:
        raise
    except (KeyError, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise StorageError(
            f"{where}: the arrays do not form a tensor of shape {shape} in format "
            f"{format_.name!r}: {error}"
        ) from error
