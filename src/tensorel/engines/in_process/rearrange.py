"""reshape and take on stored tensors: coordinates change, values are moved."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.ir.extents import regrouped
from tensorel.plan.slot_facts import has_few_empty
from tensorel.storage.convert import empty_result, entries, from_dense, pack, to_coo, to_dense
from tensorel.storage.entries import Coo, IndexArray
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.limits import require
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stack import Stack, index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def reshape(stored: Stored, shape: Shape) -> Stored:
    """Row-major reshape. Dense tensors become views; for others flat positions are formed only over
    axes that merge or split."""
    if stored.format.is_dense:
        return from_dense(to_dense(stored).reshape(shape), stored.fill)
    layout = _layout(stored, shape)
    if 0 in shape:
        return empty_result(shape, stored.dtype, stored.fill, layout)
    require(24 * stored.count * max(len(shape), 1), f"{stored.count} entries in shape {shape}")
    coo = to_coo(stored)
    coords: list[IndexArray] = []
    for old, new in regrouped(coo.shape, shape):
        coords += _regroup([coo.coords[a] for a in old], [coo.shape[a] for a in old],
                           [shape[a] for a in new], coo.count)
    made = Coo(tuple(coords), coo.values, shape, stored.fill, tuple(range(len(shape))))
    return pack(made, layout)


def _layout(stored: Stored, shape: Shape) -> str:
    """The format of the result: as it was, if there is such a format for the new shape, and if its
    array with a cell for each row is in proportion to the entries or to the old array."""
    name, rank = stored.format.name, len(shape)
    if name not in ("csr", "csc", "dcsr", "dcsc") or rank != 2:
        return "dense" if rank == 0 else "coo"
    outer = stored.format.order[0]
    if name.startswith("d") or shape[outer] <= stored.shape[outer] \
            or has_few_empty(shape[outer], stored.count):
        return name
    return f"d{name}"


def _regroup(
    coords: list[IndexArray], old: list[int], new: list[int], count: int
) -> list[IndexArray]:
    """Coordinates of one group in its new axes. Python's whole numbers where int64 is too short."""
    if old == new:
        return coords
    if len(new) == 1 and coords:
        return [_merged(coords, old)]
    wide = prod(old) > 2**63 - 1
    flat: Array = np.zeros(count, dtype=object if wide else np.int64)
    for extent, c in zip(old, coords):
        flat = flat * extent + (c.astype(object) if wide else c)
    parts: list[IndexArray] = []
    for extent in reversed(new[1:]):
        parts.append((flat % extent).astype(index_dtype(extent)))
        flat = flat // extent
    return [*(flat.astype(index_dtype(n)) for n in new[:1]), *parts[::-1]]


def _merged(coords: list[IndexArray], extents: list[int]) -> IndexArray:
    """Coordinates of several axes as one, in the width of the result."""
    width = index_dtype(prod(extents))
    flat: IndexArray = coords[0].astype(width)
    for extent, c in zip(extents[1:], coords[1:]):
        flat *= width.type(extent)
        flat += c.astype(width, copy=False)
    return flat


def take(stored: Stored, indices: Array, axis: int, shape: Shape) -> Stored:
    """The entries at indices along an axis; repeated indices repeat entries."""
    require(24 * indices.size, f"take: {indices.size} positions")
    wanted = np.clip(indices, 0, max(stored.shape[axis] - 1, 0)).astype(np.int64)
    if stored.format.is_dense:
        require(prod(shape) * stored.dtype.itemsize, f"a dense result of shape {shape}")
        return from_dense(np.take(to_dense(stored), wanted, axis=axis), stored.fill)
    levels = stored.format.levels
    if isinstance(stored.format, Stack) and stored.format.order[0] == axis and len(levels) == 2:
        if isinstance(levels[0], Dense) and type(levels[1]) is Compressed:
            return _take_segments(stored, wanted, shape)
    return _take_entries(stored, wanted, axis, shape)


def _take_segments(stored: Stored, wanted: Array, shape: Shape) -> Stored:
    """Rows of csr, columns of csc: whole segments are copied."""
    pos, idx, val = (stored.arrays[n] for n in ("pos1", "idx1", "val"))
    begins = pos[wanted].astype(np.int64)
    lengths = pos[wanted + 1].astype(np.int64) - begins
    bounds = np.zeros(wanted.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    total = int(bounds[-1])
    require(total * (24 + idx.itemsize + val.itemsize), f"take: {total} entries")
    where = np.arange(total) + np.repeat(begins - bounds[:-1], lengths)
    width = idx.dtype if total <= 2**31 - 1 or idx.dtype.itemsize == 8 else np.dtype(np.int64)
    arrays = {"pos1": bounds.astype(width), "idx1": idx[where], "val": val[where]}
    return Stored(stored.format, shape, stored.dtype, stored.fill, arrays)


def _uses(ranked: Array, coords: IndexArray, extent: int) -> tuple[Array, Array]:
    """Where each coordinate begins in the ascending list ``ranked``, and how often it occurs."""
    if extent <= 4 * (coords.size + ranked.size):
        counts = np.bincount(ranked, minlength=extent)
        return (np.cumsum(counts) - counts)[coords], counts[coords]
    first = np.searchsorted(ranked, coords, side="left")
    return first, np.searchsorted(ranked, coords, side="right") - first


def _take_entries(stored: Stored, wanted: Array, axis: int, shape: Shape) -> Stored:
    coo = entries(stored)
    order = np.argsort(wanted, kind="stable")
    first, lengths = _uses(wanted[order], coo.coords[axis], stored.shape[axis])
    total = int(lengths.sum())
    width = 48 + coo.values.itemsize + sum([c.itemsize for c in coo.coords])
    require(total * width, f"take: {total} entries")
    source = np.repeat(np.arange(coo.count), lengths)
    # The k-th copy of an entry goes to the k-th place that asks for its coordinate.
    place = np.arange(source.size) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    made = [c[source] for c in coo.coords]
    made[axis] = order[place].astype(index_dtype(shape[axis]))
    coords, values = tuple(made), coo.values[source]
    perm = sort_coords(coords, coo.order, shape)
    if perm is not None:
        coords, values = tuple(c[perm] for c in coords), values[perm]
    layout = stored.format if type(stored.format) is Stack else "coo"
    return pack(Coo(coords, values, shape, stored.fill, coo.order), layout)


def one_hot(idx: Array, shape: Shape) -> Stored:
    """The boolean matrix S[j, k] = (idx[k] == j)."""
    rows, columns = shape
    require(26 * idx.size, f"the places of {idx.size} indices in {rows} rows")
    places = np.argsort(idx, kind="stable").astype(index_dtype(columns))
    inside = (idx >= 0) & (idx < rows)
    if not inside.all():  # places that are read only under a condition that is false
        places = places[inside[places]]
    coords = (idx[places].astype(index_dtype(rows)), places)
    return pack(Coo(coords, np.ones(places.size, bool), shape, False, (0, 1)), "coo")
