"""Host-side pieces of assembly: combining equal coordinates, repetition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.algebra.ops import Operator
from tensorel.ir.analysis import apply, repeat
from tensorel.ir.nodes import Const
from tensorel.storage.convert import pack
from tensorel.storage.coo import Coo
from tensorel.storage.format import Format
from tensorel.storage.sorting import repeats, sort_coords
from tensorel.storage.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]


def combine_list(coords: list[Array], values: Array, shape: tuple[int, ...], fill: object,
                 op: Operator | None, target: Format) -> Stored:
    """A coordinate list in any order, equal coordinates combined by ``op``, in ``target``."""
    order = target.order
    perm = sort_coords(coords, order, shape)
    if perm is not None:
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
    """Combine each value with the ``total - seen`` points that were not visited.

    ``total`` is a Python number: shapes may have more points than any integer dtype counts."""
    at = seen < min(total, 2**63 - 1)
    dtype = values.dtype
    result = values.copy()
    if not at.any():
        return result
    more: Array | np.generic = residual.value
    if not op.idempotent:
        assert op.repeat is not None
        exact = dtype.kind in "fc"
        missing = float(total) - seen[at] if exact else wrapped(total) - seen[at]
        base = np.full(missing.shape, residual.value)
        with np.errstate(all="ignore"):
            if op.repeat == "multiply":
                more = base * missing.astype(dtype)
            elif exact:
                more = base**missing
            else:
                more = np.array([repeat(op, residual.value, total - int(s)) for s in seen[at]])
    result[at] = np.asarray(apply(op, values[at], np.asarray(more).astype(dtype))).astype(dtype)
    return result


def wrapped(number: int) -> int:
    """The int64 that equals ``number`` modulo 2**64."""
    return (number + 2**63) % 2**64 - 2**63
