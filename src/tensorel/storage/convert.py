"""Conversions: coordinates, dense arrays and any format to any other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra.ops import DType, check_dtype
from tensorel.base import memory_regions
from tensorel.storage.entries import (
    Coo,
    IndexArray,
    ValueArray,
    differs,
    distinguishable,
    flat_positions,
    make_fill,
)
from tensorel.storage.format import FormatLike
from tensorel.storage.ingest import arrays_of, inspect, settle
from tensorel.storage.limits import Holding, require
from tensorel.storage.registry import dense_bytes, resolve
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stack import Stack, index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[np.generic]
_IN_ORDER = tuple(range(64))


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
    return _verified(Stored(made, given.shape, given.values.dtype, given.fill, arrays))


def pack(coo: Coo, format: FormatLike) -> Stored:
    """The tensor ``coo`` stored in ``format``."""
    dtype = coo.values.dtype
    made = resolve(format, coo.shape, dtype).fit(coo)
    if not isinstance(made, Stack):  # places of the entries, worked out in int64
        require(24 * coo.count, f"packing {coo.count} entries as {made.name!r}")
    arrays = made.pack(canonical(coo, made.order))
    return _verified(Stored(made, coo.shape, dtype, make_fill(coo.fill, dtype), arrays))


def _verified(stored: Stored) -> Stored:
    """The tensor, wholly looked at where that is asked for."""
    if config.current().verify:
        stored.check(whole=True)
    return stored


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
    require(perm.nbytes + coo.nbytes, f"{coo.count} entries in another order")
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
    require(2 * view.size, f"a mask of the {view.size} cells of a dense tensor")
    unlike = distinguishable(turned, fill)
    count = int(np.count_nonzero(unlike))
    wide = view.ndim * 8 + sum([index_dtype(n).itemsize for n in view.shape])
    require(view.size + count * (wide + view.itemsize), f"a list of {count} entries")
    found = np.nonzero(unlike)
    values = turned[found]
    coords: list[IndexArray] = [np.empty(0, np.int32)] * view.ndim
    for axis, c in zip(order, found):
        coords[axis] = c.astype(index_dtype(view.shape[axis]))
    return Coo(tuple(coords), values, view.shape, fill, order)


def dense_view(stored: Stored) -> Array | None:
    """The tensor as an ndarray over its own memory, for formats dense and dense_f; else None."""
    form = stored.format
    if not isinstance(form, Stack) or not form.is_dense:
        return None
    val: Array = stored.arrays["val"]
    order = form.order
    if order == _IN_ORDER[: len(order)]:
        return val.reshape(stored.shape)
    return val.reshape(tuple([stored.shape[a] for a in order])).transpose(np.argsort(order))


def to_dense(stored: Stored) -> Array:
    """The tensor as an ndarray; a view for dense formats."""
    view = dense_view(stored)
    if view is not None:
        return view
    needed = dense_bytes(stored.shape, stored.dtype)
    require(needed, f"a dense array of shape {stored.shape}, {stored.dtype.name}")
    coo = entries(stored)
    require(needed + 16 * coo.count, f"a dense array of shape {stored.shape}")
    out = np.full(stored.shape, stored.fill, dtype=stored.dtype)
    out.reshape(-1)[flat_positions(coo.shape, coo.coords, coo.count)] = coo.values
    return out


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
    flat = memory_regions.contiguous(turned).reshape(-1)
    format = resolve("dense_f" if column_major else "dense", native.shape, dtype)
    return Stored(format, native.shape, dtype, make_fill(fill, dtype), {"val": flat})


def to_format(stored: Stored, format: FormatLike) -> Stored:
    """The same tensor in another format; itself if it is in that format."""
    wanted = resolve(format, stored.shape, stored.dtype)
    if wanted == stored.format or wanted.covers(stored.format):
        return stored
    if isinstance(wanted, Stack) and wanted.is_dense:
        return _to_dense_format(stored, wanted)
    coo = entries(stored, wanted.order)
    with Holding(_unshared(coo, stored)):
        made = pack(coo, wanted)
    return Stored(made.format, stored.shape, stored.dtype, stored.fill, made.arrays)


def _unshared(coo: Coo, stored: Stored) -> int:
    """Bytes of entries that are no views of the tensor's own arrays."""
    own = list(stored.arrays.values())
    return sum([a.nbytes for a in (*coo.coords, coo.values)
                if not any(np.may_share_memory(a, b) for b in own)])


def _to_dense_format(stored: Stored, wanted: Stack) -> Stored:
    view = dense_view(stored)
    if view is None or not stored.shape:
        require(dense_bytes(stored.shape, stored.dtype),
                f"a dense tensor of shape {stored.shape}, {stored.dtype.name}")
        coo = entries(stored)
        with Holding(_unshared(coo, stored)):
            made = pack(coo, wanted)
        return Stored(wanted, stored.shape, stored.dtype, stored.fill, made.arrays)
    require(view.nbytes, f"a dense tensor of shape {stored.shape}, {stored.dtype.name}")
    flat = memory_regions.contiguous(view.transpose(wanted.order)).reshape(-1)
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
    if stored.shared:
        return _count_nonfill(stored)
    found = stored.derived.nonfill
    if found is None:
        found = stored.derived.nonfill = _count_nonfill(stored)
    return found


def _count_nonfill(stored: Stored) -> int:
    if isinstance(stored.format, Stack):
        start, stop = stored.format.span(stored.arrays, stored.shape)
        values = stored.arrays["val"][start:stop]
    else:
        values = entries(stored).values
    return int(np.count_nonzero(differs(values, stored.fill)))
