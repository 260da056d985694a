"""Coordinates as users give them, checked and brought into order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import check_dtype
from tensorel.errors import IndexError_, ShapeError, StorageError, TypeError_
from tensorel.storage.coo import Coo, IndexArray, ValueArray
from tensorel.storage.scalars import make_fill
from tensorel.storage.sorting import repeats, sort_coords
from tensorel.storage.stack import index_dtype

_DUPLICATES = ("error", "sum", "last")


def clean(
    coords: object,
    values: object,
    shape: Sequence[int],
    fill: object = 0,
    duplicates: str = "error",
    dtype: object = None,
    *,
    keep_width: bool = False,
) -> Coo:
    """Unique entries sorted by axes 0, 1, ...; each coordinate checked against its extent.

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
    data: ValueArray = np.broadcast_to(found.astype(wanted, copy=False), (count,))
    checked = tuple(check_axis(c, a, extents[a], keep_width) for a, c in enumerate(axes))
    return unique(checked, data, extents, make_fill(fill, wanted), duplicates)


def unique(
    coords: tuple[IndexArray, ...],
    values: ValueArray,
    shape: tuple[int, ...],
    fill: np.generic,
    duplicates: str,
) -> Coo:
    """Sort checked entries and settle those that share a cell."""
    order = tuple(range(len(shape)))
    perm = sort_coords(coords, order, shape)
    if perm is not None:
        coords, values = tuple(c[perm] for c in coords), values[perm]
    again = repeats(coords, values.size)
    if again.any():
        if duplicates == "error":
            k = int(np.argmax(again))
            cell = tuple(int(c[k]) for c in coords)
            raise StorageError(
                f"cell {cell} is given more than once",
                hint="pass duplicates='sum' to add them, or 'last' to keep the last",
            )
        coords, values = _merge(coords, values, again, duplicates)
    return Coo(coords, np.ascontiguousarray(values), shape, fill, order)


def _merge(
    coords: tuple[IndexArray, ...], values: ValueArray, again: npt.NDArray[np.bool_], how: str
) -> tuple[tuple[IndexArray, ...], ValueArray]:
    first = np.flatnonzero(np.concatenate(([True], ~again)))
    if how == "sum":
        merged = np.add.reduceat(values, first, dtype=values.dtype)
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
        if n < 0 or n > 2**63 - 1:
            raise ShapeError(f"extent {n} of axis {axis} is out of range")
        extents.append(int(n))
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
    return np.ascontiguousarray(c, dtype=width)
