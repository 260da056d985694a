"""Conversions: coordinates, dense arrays and any format to any other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel import recycling
from tensorel.algebra.ops import DType, check_dtype
from tensorel.storage.coo import Coo, IndexArray, ValueArray
from tensorel.storage.format import FormatLike
from tensorel.storage.ingest import arrays_of, inspect, settle
from tensorel.storage.limits import require
from tensorel.storage.registry import dense_bytes, resolve
from tensorel.storage.scalars import differs, distinguishable, make_fill
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stack import Stack, index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[np.generic]


def from_coo(
    coords: object,
    values: object,
    shape: Sequence[int],
    *,
    fill: object = 0,
    duplicates: str = "error",
    dtype: object = None,
    format: FormatLike | None = None,
) -> Stored:
    """A stored tensor from coordinates in any order.

    >>> t = from_coo([[0, 2], [1, 1]], [5.0, 7.0], (3, 4), format="csr")
    >>> t.arrays["pos1"].tolist(), t.arrays["idx1"].tolist()
    ([0, 1, 1, 2], [1, 1])
    """
    given = inspect(coords, values, shape, fill, duplicates, dtype)
    wanted = format if format is not None else "coo" if given.shape else "dense"
    made = resolve(wanted, given.shape, given.values.dtype)
    arrays = arrays_of(given, made)
    if arrays is None:
        return pack(settle(given), made)
    return Stored(made, given.shape, given.values.dtype, given.fill, arrays)


def pack(coo: Coo, format: FormatLike) -> Stored:
    """The tensor ``coo`` stored in ``format``."""
    dtype = coo.values.dtype
    made = resolve(format, coo.shape, dtype).fit(coo)
    arrays = made.pack(canonical(coo, made.order))
    return Stored(made, coo.shape, dtype, make_fill(coo.fill, dtype), arrays)


def canonical(coo: Coo, order: tuple[int, ...]) -> Coo:
    """``coo`` sorted by the axes in ``order``; the same arrays if it is sorted so already."""
    if coo.order == order:
        return coo
    # Sorting is stable: the axes after the first k need no sorting if they are in order already.
    leading = len(order)
    while leading and _continues(coo.order, order, leading - 1):
        leading -= 1
    perm = sort_coords(coo.coords, order[:leading], coo.shape)
    if perm is None:
        return Coo(coo.coords, coo.values, coo.shape, coo.fill, order)
    coords = tuple(c[perm] for c in coo.coords)
    return Coo(coords, coo.values[perm], coo.shape, coo.fill, order)


def _continues(old: tuple[int, ...], new: tuple[int, ...], leading: int) -> bool:
    first = set(new[:leading])
    return tuple(a for a in old if a not in first) == new[leading:]


def to_coo(stored: Stored) -> Coo:
    """The stored entries sorted by axes 0, 1, ...; dense formats give those unlike the fill."""
    return canonical(entries(stored), tuple(range(len(stored.shape))))


def entries(stored: Stored, order: tuple[int, ...] | None = None) -> Coo:
    """The stored entries sorted as the format has them; dense arrays directly in ``order``."""
    view = dense_view(stored)
    if view is not None and view.ndim:
        return _dense_entries(view, stored.fill, order or stored.format.order)
    return stored.format.unpack(stored.arrays, stored.shape, stored.fill, stored.dtype)


def _dense_entries(view: Array, fill: np.generic, order: tuple[int, ...]) -> Coo:
    turned = view.transpose(order)
    found = np.nonzero(distinguishable(turned, fill))
    values = turned[found]
    coords: list[IndexArray] = [np.empty(0, np.int32)] * view.ndim
    for axis, c in zip(order, found):
        coords[axis] = c.astype(index_dtype(view.shape[axis]))
    return Coo(tuple(coords), values, view.shape, fill, order)


def dense_view(stored: Stored) -> Array | None:
    """The tensor as an ndarray over its own memory, for formats dense and dense_f; else None."""
    order = stored.format.order
    if not isinstance(stored.format, Stack) or not stored.format.is_dense:
        return None
    val: Array = stored.arrays["val"]
    turned = val.reshape(tuple(stored.shape[a] for a in order))
    return turned.transpose(np.argsort(order)) if order else turned


def to_dense(stored: Stored) -> Array:
    """The tensor as an ndarray; a view for dense formats."""
    view = dense_view(stored)
    if view is not None:
        return view
    needed = dense_bytes(stored.shape, stored.dtype)
    require(needed, f"a dense array of shape {stored.shape}, {stored.dtype.name}")
    coo = entries(stored)
    out = np.full(stored.shape, stored.fill, dtype=stored.dtype)
    out.reshape(-1)[flat_positions(coo)] = coo.values
    return out


def flat_positions(coo: Coo) -> npt.NDArray[np.int64]:
    """Row-major positions of the entries; the caller knows that the size fits."""
    flat = np.zeros(coo.count, dtype=np.int64)
    for extent, c in zip(coo.shape, coo.coords):
        flat *= extent
        flat += c
    return flat


def from_dense(array: object, fill: object = 0) -> Stored:
    """An ndarray as it lies: no copy if it is contiguous in either order.

    >>> from_dense(np.zeros((2, 3))).format.name
    'dense'
    """
    given = np.asarray(array)
    dtype = check_dtype(given.dtype)
    native = given.astype(dtype, copy=False)
    column_major = native.flags.f_contiguous and not native.flags.c_contiguous
    turned = native.T if column_major else native
    flat = recycling.contiguous(turned).reshape(-1)
    format = resolve("dense_f" if column_major else "dense", native.shape, dtype)
    return Stored(format, native.shape, dtype, make_fill(fill, dtype), {"val": flat})


def to_format(stored: Stored, format: FormatLike) -> Stored:
    """The same tensor in another format; itself if it is in that format."""
    wanted = resolve(format, stored.shape, stored.dtype)
    if wanted == stored.format or wanted.covers(stored.format):
        return stored
    if isinstance(wanted, Stack) and wanted.is_dense:
        return _to_dense_format(stored, wanted)
    made = pack(entries(stored, wanted.order), wanted)
    return Stored(made.format, stored.shape, stored.dtype, stored.fill, made.arrays)


def _to_dense_format(stored: Stored, wanted: Stack) -> Stored:
    view = dense_view(stored)
    if view is None or not stored.shape:
        made = pack(entries(stored), wanted)
        return Stored(wanted, stored.shape, stored.dtype, stored.fill, made.arrays)
    require(view.nbytes, f"a dense tensor of shape {stored.shape}, {stored.dtype.name}")
    flat = recycling.contiguous(view.transpose(wanted.order)).reshape(-1)
    return Stored(wanted, stored.shape, stored.dtype, stored.fill, {"val": flat})


def empty_result(
    shape: tuple[int, ...], dtype: DType, fill: object, format: FormatLike
) -> Stored:
    """The tensor whose every entry is ``fill``."""
    coords = tuple(np.empty(0, index_dtype(n)) for n in shape)
    values: ValueArray = np.empty(0, dtype)
    coo = Coo(coords, values, shape, make_fill(fill, dtype), tuple(range(len(shape))))
    return pack(coo, format)


def count_nonfill(stored: Stored) -> int:
    """Number of entries that differ from the fill (nan does not differ from nan)."""
    found = stored.facts.get("nonfill")
    if found is None:
        if isinstance(stored.format, Stack):
            start, stop = stored.format.span(stored.arrays, stored.shape)
            values = stored.arrays["val"][start:stop]
        else:
            values = entries(stored).values
        found = stored.facts["nonfill"] = int(np.count_nonzero(differs(values, stored.fill)))
    return found  # type: ignore[return-value]
