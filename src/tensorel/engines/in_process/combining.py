"""Parts of assembly outside of kernels: combining equal coordinates, repetition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.algebra.ops import Operator
from tensorel.ir.analysis import apply
from tensorel.ir.nodes import Const
from tensorel.storage.convert import pack
from tensorel.storage.entries import Coo, entry_bytes
from tensorel.storage.format import Format
from tensorel.storage.limits import require
from tensorel.storage.sorting import repeats, sort_coords
from tensorel.storage.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]


def combine_list(coords: list[Array], values: Array, shape: tuple[int, ...], fill: object,
                 op: Operator | None, target: Format) -> Stored:
    """A coordinate list in any order, equal coordinates combined by ``op``, in ``target``."""
    order = target.order
    perm = sort_coords(coords, order, shape)
    if perm is not None:
        require(perm.nbytes + entry_bytes(coords, values), f"{values.size} entries in order")
        coords = [c[perm] for c in coords]
        values = values[perm]
    same = repeats(coords, values.size)
    if op is not None and same.any():
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        values = fold_segments(op, values, starts)
        coords = [c[starts] for c in coords]
    return pack(Coo(tuple(coords), values, shape, fill, order), target)


def fold_segments(op: Operator, values: Array, starts: Array) -> Array:
    """``op`` over each segment [starts[k], starts[k+1]), in the values' dtype."""
    if isinstance(op.meaning, np.ufunc):
        with np.errstate(all="ignore"):
            dtype = None if values.dtype == bool else values.dtype
            return np.asarray(op.meaning.reduceat(values, starts, dtype=dtype)).astype(
                values.dtype, copy=False)
    # Neighbouring pairs of each segment are combined until every segment has one value.
    values = values.copy()
    lengths = np.diff(np.append(starts, values.size))
    while lengths.max(initial=0) > 1:
        number = np.repeat(np.arange(lengths.size), lengths)
        offsets = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        even = offsets % 2 == 0
        paired = even & (offsets + 1 < lengths[number])
        left = np.flatnonzero(paired)
        values[left] = apply(op, values[left], values[left + 1])
        values = values[even]
        lengths = (lengths + 1) // 2
    return values


def repeat_missing(op: Operator, values: Array, seen: Array, total: int, residual: Const) -> Array:
    """Combine each value with the ``total - seen`` points that were not visited. A residual that
    decides the result alone is not computed with: 0 of a product, whatever the others are.

    ``total`` is a Python number: shapes may have more points than any integer dtype counts."""
    at = seen < min(total, 2**63 - 1)
    dtype = values.dtype
    result = values.copy()
    if not at.any():
        return result
    decided = op.decided(1, residual.value, dtype)
    if decided is not None:
        result[at] = decided
        return result
    more = np.asarray(residual.value).astype(dtype)
    if not op.idempotent:
        times, most = op.copies(dtype, total)
        with np.errstate(all="ignore"):
            more = apply(times, more, most - seen[at].astype(most.dtype))
    result[at] = np.asarray(apply(op, values[at], more)).astype(dtype)
    return result
