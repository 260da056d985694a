"""Coordinates as users give them, checked and brought into order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import check_dtype
from tensorel.base.records import dataclass
from tensorel.errors import IndexError_, ShapeError, StorageError, TypeError_
from tensorel.ir.extents import check_extents
from tensorel.storage.entries import Coo, IndexArray, ValueArray, entry_bytes, make_fill
from tensorel.storage.format import Format, PhysicalArrays
from tensorel.storage.levels import Compressed, Dense, Listed
from tensorel.storage.limits import require
from tensorel.storage.sorting import RISING, Lines, ascent, native, repeats, sort_coords
from tensorel.storage.stack import INT32_MAX, Stack, index_dtype

_DUPLICATES = ("error", "sum", "last")


@dataclass(frozen=True, eq=False, slots=True)
class Given:
    """Entries as they were given: checked, in any order, perhaps with several for one cell, of
    which ``duplicates`` says what becomes: "error", "sum" or "last"."""

    coords: tuple[IndexArray, ...]
    values: ValueArray
    shape: tuple[int, ...]
    fill: np.generic
    duplicates: str


def inspect(
    coords: object,
    values: object,
    shape: Sequence[int],
    fill: object = 0,
    duplicates: str = "error",
    dtype: object = None,
    *,
    keep_width: bool = False,
) -> Given:
    """Entries with each coordinate checked against its extent.

    ``keep_width``: int64 coordinates stay int64, so that they need no copy."""
    extents = check_shape(shape)
    if duplicates not in _DUPLICATES:
        raise TypeError_(
            f"duplicates={duplicates!r} is not known", hint="choose 'error', 'sum' or 'last'"
        )
    found = np.asarray(values)
    wanted = check_dtype(found.dtype if dtype is None else dtype)
    axes = _axes(coords, extents)
    count = _count(axes, found)
    if found.dtype != wanted:
        require(count * wanted.itemsize, f"{count} values as {wanted.name}")
    data: ValueArray = found.astype(wanted, copy=False)
    if data.shape != (count,):
        data = np.broadcast_to(data, (count,))
    checked = tuple(check_axis(c, a, extents[a], keep_width) for a, c in enumerate(axes))
    return Given(checked, data, extents, make_fill(fill, wanted), duplicates)


def settle(given: Given) -> Coo:
    """The entries sorted by axes 0, 1, ..., each cell once. Values in one cell are added up in
    the order in which they were given."""
    coords, values, shape = given.coords, given.values, given.shape
    order = tuple(range(len(shape)))
    if order and ascent(coords, order) == RISING:
        return Coo(coords, np.ascontiguousarray(values), shape, given.fill, order)
    sorter = native(values.size) if order else None
    room = entry_bytes(coords, values)
    require(room, f"a sorted list of {values.size} entries")
    if sorter is not None:
        require(8 * values.size + room, f"sorting {values.size} entries")
        found = sorter.entries(coords, values, shape, given.duplicates == "sum")
        if found is not None and _may_drop(given, found[1].size):
            return Coo(*found, shape, given.fill, order)
    perm = sort_coords(coords, order, shape)
    if perm is not None:
        coords, values = tuple(c[perm] for c in coords), values[perm]
    again = repeats(coords, values.size)
    if again.any():
        if given.duplicates == "error":
            k = int(np.argmax(again))
            cell = tuple(int(c[k]) for c in coords)
            raise StorageError(
                f"cell {cell} is given more than once",
                hint="pass duplicates='sum' to add them, or 'last' to keep the last",
            )
        coords, values = _merge(coords, values, again, given.duplicates)
    return Coo(coords, np.ascontiguousarray(values), shape, given.fill, order)


def arrays_of(given: Given, format: Format) -> PhysicalArrays | None:
    """The arrays of a long list in csr, csc or coo, with no other arrays on the way; None where
    ``settle`` and the format's own packer do as well."""
    if native(given.values.size) is None or type(format) is not Stack:
        return None
    levels = format.levels
    if len(levels) == 2 and type(levels[0]) is Dense and levels[1] == Compressed(1):
        return _lines(given, format.order, levels[1].names)
    in_order = format.order == tuple(range(len(given.shape)))
    if levels and in_order and all(type(level) is Listed for level in levels):
        made = settle(given)
        listed = {f"idx{depth}": c for depth, c in enumerate(made.coords)}
        return listed | {"val": made.values}
    return None


def _lines(
    given: Given, order: tuple[int, ...], names: tuple[str, ...]
) -> PhysicalArrays | None:
    sorter = native(given.values.size)
    assert sorter is not None
    coords, shape = [given.coords[a] for a in order], [given.shape[a] for a in order]
    width = coords[1].dtype
    needed = (shape[0] + 1) * width.itemsize
    require(needed, f"the segment bounds over {shape[0]} dense positions")
    found: Lines | None
    if ascent(coords, (0, 1)) == RISING:
        wide = width if given.values.size <= INT32_MAX else np.dtype(np.int64)
        bounds = sorter.bounds(coords[0], shape[0], wide)
        found = bounds, coords[1], np.ascontiguousarray(given.values)
    else:
        needed += 8 * given.values.size + entry_bytes(coords, given.values)
        require(needed, f"sorting {given.values.size} entries")
        found = sorter.lines(coords, given.values, shape, given.duplicates == "sum")
    if found is None or not _may_drop(given, found[2].size):
        return None
    return {names[0]: found[0], names[1]: found[1], "val": found[2]}


def _may_drop(given: Given, left: int) -> bool:
    """Whether it is fine that ``left`` of the entries are left."""
    return given.duplicates != "error" or left == given.values.size


def _merge(
    coords: tuple[IndexArray, ...], values: ValueArray, again: npt.NDArray[np.bool_], how: str
) -> tuple[tuple[IndexArray, ...], ValueArray]:
    first = np.flatnonzero(np.concatenate(([True], ~again)))
    if how == "sum":
        # One after another, as native kernels do; ``reduceat`` would add in pairs.
        merged = values[first]
        cells = np.cumsum(~again)[again]
        np.add.at(merged, cells, values[1:][again])
    else:
        merged = values[np.concatenate((first[1:], [values.size])) - 1]
    return tuple(c[first] for c in coords), merged


def check_shape(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of whole numbers."""
    parts = shape if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    extents = []
    for axis, n in enumerate(parts):
        if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, np.integer)):
            raise TypeError_(f"extent {n!r} of axis {axis} is not a whole number")
        if n < 0:
            raise ShapeError(f"extent {n} of axis {axis} is out of range")
        extents.append(int(n))
    check_extents(extents)
    return tuple(extents)


def _axes(coords: object, shape: tuple[int, ...]) -> list[npt.NDArray[np.generic]]:
    given: Sequence[object]
    if isinstance(coords, np.ndarray):
        given = [coords] if coords.ndim == 1 and len(shape) == 1 else list(coords)
    elif isinstance(coords, (tuple, list)):
        flat = len(shape) == 1 and (not coords or np.ndim(coords[0]) == 0)
        given = [coords] if flat else coords
    else:
        raise TypeError_(
            f"coordinates of type {type(coords).__name__} are not supported",
            hint="pass one array per axis, or an array of shape (axes, entries)",
        )
    if len(given) != len(shape):
        raise ShapeError(
            f"{len(given)} coordinate arrays for a tensor with {len(shape)} axes, shape {shape}",
            hint="pass one array per axis, or an array of shape (axes, entries)",
        )
    axes = [np.asarray(c) for c in given]
    for axis, c in enumerate(axes):
        if c.ndim != 1:
            raise ShapeError(f"the coordinates of axis {axis} have {c.ndim} dimensions, not 1")
    return axes


def _count(axes: list[npt.NDArray[np.generic]], values: npt.NDArray[np.generic]) -> int:
    if values.ndim > 1:
        raise ShapeError(f"the values have {values.ndim} dimensions, not 1")
    if not axes:
        return int(values.size)
    sizes = {int(c.size) for c in axes}
    if len(sizes) > 1:
        listed = ", ".join(str(c.size) for c in axes)
        raise ShapeError(f"the coordinate arrays have different lengths: {listed}")
    count = sizes.pop()
    if values.ndim == 1 and values.size != count:
        raise ShapeError(f"{values.size} values for {count} coordinates")
    return count


def check_axis(
    c: npt.NDArray[np.generic], axis: int, extent: int, keep_width: bool = False
) -> IndexArray:
    """Coordinates of one axis, in range, as a contiguous int32 or int64 array."""
    if c.size == 0:
        return np.empty(0, index_dtype(extent))
    if c.dtype.kind not in "iu":
        raise TypeError_(
            f"the coordinates of axis {axis} have dtype {c.dtype}, not whole numbers",
            hint="convert them with .astype(np.int64)",
        )
    low, high = int(c.min()), int(c.max())
    if low < 0 or high >= extent:
        bad = low if low < 0 else high
        raise IndexError_(
            f"coordinate {bad} is out of range for axis {axis} with extent {extent}",
            hint=None if bad >= 0 else "negative coordinates do not count from the end here",
        )
    kept = c.dtype == np.int32 or (keep_width and c.dtype == np.int64)
    width = np.dtype(f"i{c.dtype.itemsize}") if kept else index_dtype(extent)
    if c.dtype != width or not c.flags.c_contiguous:
        require(c.size * width.itemsize, f"the coordinates of {c.size} entries as {width.name}")
    return np.ascontiguousarray(c, dtype=width)
