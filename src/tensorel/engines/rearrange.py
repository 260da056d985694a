"""reshape and take on stored tensors: coordinates change, values are moved."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.errors import IndexError_, ShapeError
from tensorel.storage.convert import (
    empty_result,
    entries,
    from_dense,
    pack,
    to_coo,
    to_dense,
)
from tensorel.storage.coo import Coo, IndexArray
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stack import Stack, index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def reshape(stored: Stored, shape: Shape) -> Stored:
    """Row-major reshape; a view of dense tensors, and no flat position is ever formed beyond
    the axes that really merge or split."""
    if prod(shape) != prod(stored.shape):
        raise ShapeError(f"a tensor of shape {stored.shape} cannot be reshaped to {shape}")
    if stored.format.is_dense:
        return from_dense(to_dense(stored).reshape(shape), stored.fill)
    layout = _layout(stored, len(shape))
    if 0 in shape:
        return empty_result(shape, stored.dtype, stored.fill, layout)
    coo = to_coo(stored)
    coords: list[IndexArray] = []
    for old, new in _groups(coo.shape, shape):
        coords += _regroup([coo.coords[a] for a in old], [coo.shape[a] for a in old],
                           [shape[a] for a in new], coo.count)
    made = Coo(tuple(coords), coo.values, shape, stored.fill, tuple(range(len(shape))))
    return pack(made, layout)


def _layout(stored: Stored, rank: int) -> str:
    name = stored.format.name
    same = name in ("csr", "csc", "dcsr", "dcsc") and rank == 2
    return "dense" if rank == 0 else name if same or name == "csf" else "coo"


def _groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Axes of ``old`` and ``new`` in the smallest groups of equal size, in order."""
    result: list[tuple[list[int], list[int]]] = []
    a = b = 0
    while a < len(old) or b < len(new):
        left, right = list(range(a, min(a + 1, len(old)))), list(range(b, min(b + 1, len(new))))
        sizes = [prod(old[k] for k in left), prod(new[k] for k in right)]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(a + len(left))
                sizes[0] *= old[left[-1]]
            else:
                right.append(b + len(right))
                sizes[1] *= new[right[-1]]
        a, b = a + len(left), b + len(right)
        result.append((left, right))
    return result


def _regroup(
    coords: list[IndexArray], old: list[int], new: list[int], count: int
) -> list[IndexArray]:
    """Coordinates of one group in its new axes. Python's whole numbers where int64 is short."""
    if old == new:
        return coords
    wide = prod(old) > 2**63 - 1
    flat: Array = np.zeros(count, dtype=object if wide else np.int64)
    for extent, c in zip(old, coords):
        flat = flat * extent + (c.astype(object) if wide else c)
    parts: list[IndexArray] = []
    for extent in reversed(new):
        parts.append((flat % extent).astype(index_dtype(extent)))
        flat = flat // extent
    return parts[::-1]


def take(stored: Stored, indices: Array, axis: int) -> Stored:
    """``stored.take(indices, axis)``; repeated indices repeat entries."""
    extent = stored.shape[axis]
    wanted = np.where(indices < 0, indices + extent, indices).astype(np.int64)
    if wanted.size and (int(wanted.min()) < 0 or int(wanted.max()) >= extent):
        low = int(wanted.min()) < 0
        bad = int(indices.min()) if low else int(indices.max())
        raise IndexError_(f"index {bad} is out of range for axis {axis} with extent {extent}")
    shape = (*stored.shape[:axis], int(wanted.size), *stored.shape[axis + 1 :])
    if stored.format.is_dense:
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
    where = np.arange(total) + np.repeat(begins - bounds[:-1], lengths)
    width = idx.dtype if total <= 2**31 - 1 or idx.dtype.itemsize == 8 else np.dtype(np.int64)
    arrays = {"pos1": bounds.astype(width), "idx1": idx[where], "val": val[where]}
    return Stored(stored.format, shape, stored.dtype, stored.fill, arrays)


def _uses(ranked: Array, coords: IndexArray, extent: int) -> tuple[Array, Array]:
    """Per coordinate where it begins in ``ranked``, which ascends, and how often it occurs."""
    if extent <= 4 * (coords.size + ranked.size):
        counts = np.bincount(ranked, minlength=extent)
        return (np.cumsum(counts) - counts)[coords], counts[coords]
    first = np.searchsorted(ranked, coords, side="left")
    return first, np.searchsorted(ranked, coords, side="right") - first


def _take_entries(stored: Stored, wanted: Array, axis: int, shape: Shape) -> Stored:
    coo = entries(stored)
    order = np.argsort(wanted, kind="stable")
    first, lengths = _uses(wanted[order], coo.coords[axis], stored.shape[axis])
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
