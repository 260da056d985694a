"""Order along an axis, running sums, sets: operators on whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, TypeError_
from tensorel.front.base import Base, one_axis, whole, wrap
from tensorel.front.convert import asarray, stored_of, to_numpy
from tensorel.front.joining import concat
from tensorel.front.reductions import accumulator
from tensorel.front.shaping import broadcast_to, ravel
from tensorel.ir import nodes as ir
from tensorel.storage import convert as storage

if TYPE_CHECKING:
    from tensorel.front.array import Tensor


def _bulk(op: str, t: Tensor, *params: object, dtype: ops.DType | None = None) -> Tensor:
    return wrap(ir.Bulk(op, (t.node,), params, t.shape, dtype or t.dtype))


def sort(x: object, axis: int | None = -1, *, descending: bool = False,
         stable: bool = True) -> Tensor:
    """The entries in ascending (or descending) order along an axis (None: flattened)."""
    t = asarray(x)
    if axis is None:
        t, axis = ravel(t), 0
    return _bulk("sort", t, one_axis(axis, t.ndim, "sort"), bool(descending))


def argsort(x: object, axis: int | None = -1, *, descending: bool = False,
            stable: bool = True) -> Tensor:
    """Positions that put the entries in order along an axis."""
    t = asarray(x)
    if axis is None:
        t, axis = ravel(t), 0
    k = one_axis(axis, t.ndim, "argsort")
    return _bulk("argsort", t, k, bool(descending), True, dtype=ops.INT64)


class TopK(NamedTuple):
    """Values in order, and where they were."""

    values: Tensor
    indices: Tensor


def topk(x: object, k: int, axis: int = -1, largest: bool = True) -> TopK:
    """The k largest (or smallest) entries along an axis, in order; ties by position.

    >>> import tensorel as tr
    >>> tr.topk([3, 1, 2], 2).values.to_numpy().tolist()
    [3, 2]
    """
    t = asarray(x)
    axis = one_axis(axis, t.ndim, "topk")
    count = whole(k, "topk: k")
    if not 0 <= count <= t.shape[axis]:
        raise ShapeError(f"topk: k={count} of {t.shape[axis]} entries along axis {axis}")
    shape = t.shape[:axis] + (count,) + t.shape[axis + 1:]
    params = (count, axis, bool(largest))
    return TopK(
        wrap(ir.Bulk("topk_values", (t.node,), params, shape, t.dtype)),
        wrap(ir.Bulk("topk_indices", (t.node,), params, shape, ops.INT64)),
    )


def _cumulative(op: str, x: object, axis: int | None, dtype: object, include_initial: bool,
                first: int) -> Tensor:
    t = asarray(x)
    if axis is None:
        if t.ndim > 1:
            raise ShapeError(f"{op}: give the axis of a tensor of shape {t.shape}")
        axis = 0
        t = ravel(t)
    k = one_axis(axis, t.ndim, op)
    t = t.astype(accumulator(t.dtype, dtype))
    found = _bulk(op, t, k)
    if not include_initial:
        return found
    shape = t.shape[:k] + (1,) + t.shape[k + 1:]
    start = broadcast_to(asarray(np.asarray(first, t.dtype)), shape)
    return concat([start, found], axis=k)


def cumulative_sum(x: object, *, axis: int | None = None, dtype: object = None,
                   include_initial: bool = False) -> Tensor:
    """Running sums along an axis."""
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, 0)


def cumulative_prod(x: object, *, axis: int | None = None, dtype: object = None,
                    include_initial: bool = False) -> Tensor:
    """Running products along an axis."""
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, 1)


def cumsum(x: object, axis: int | None = None, dtype: object = None) -> Tensor:
    """NumPy's running sums (axis None: flattened)."""
    t = asarray(x)
    return cumulative_sum(ravel(t) if axis is None else t, axis=axis or 0, dtype=dtype)


def cumprod(x: object, axis: int | None = None, dtype: object = None) -> Tensor:
    """NumPy's running products (axis None: flattened)."""
    t = asarray(x)
    return cumulative_prod(ravel(t) if axis is None else t, axis=axis or 0, dtype=dtype)


# -- positions and sets: their sizes depend on the data, so they are computed at once -------------
def nonzero(x: object) -> tuple[Tensor, ...]:
    """Positions of entries that are not zero, one tensor per axis; computes."""
    t = asarray(x)
    if t.ndim == 0:
        raise ShapeError("nonzero: a scalar has no positions")
    return t.nonzero()


def searchsorted(x1: object, x2: object, /, *, side: Literal["left", "right"] = "left",
                 sorter: object = None) -> Tensor:
    """Places where entries of ``x2`` would go in the sorted ``x1``; computes."""
    if side not in ("left", "right"):
        raise TypeError_(f"searchsorted: side {side!r} is not known", hint="'left' or 'right'")
    order = None if sorter is None else to_numpy(asarray(sorter))
    found = np.searchsorted(to_numpy(asarray(x1)), to_numpy(asarray(x2)), side, order)
    return asarray(np.asarray(found, np.int64))


class UniqueAll(NamedTuple):
    """All that is known of distinct entries."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct entries and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct entries and where each entry is among them."""

    values: Tensor
    inverse_indices: Tensor


def unique_counts(x: object) -> UniqueCounts:
    """Distinct entries in order, and how often each occurs; entries not stored are counted,
    never visited."""
    t = asarray(x)
    stored = stored_of(t)
    coo = storage.to_coo(stored)
    values, counts = np.unique(coo.values, return_counts=True, equal_nan=False)
    absent = t.size - coo.count
    if absent and stored.fill != stored.fill:  # nan differs from itself: each one is distinct
        values = np.concatenate([values, np.full(absent, stored.fill, t.dtype)])
        counts = np.concatenate([counts, np.ones(absent, counts.dtype)])
    elif absent:
        place = int(np.searchsorted(values, stored.fill))
        if place < values.size and values[place] == stored.fill:
            counts[place] += absent
        else:
            values = np.insert(values, place, stored.fill)
            counts = np.insert(counts, place, absent)
    return UniqueCounts(_dense(values), _dense(counts.astype(np.int64)))


def unique_values(x: object) -> Tensor:
    """Distinct entries in order; computes."""
    return unique_counts(x).values


def unique_inverse(x: object) -> UniqueInverse:
    """Distinct entries, and where each entry is among them; computes."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: object) -> UniqueAll:
    """Distinct entries with first positions, inverse and counts; computes, dense."""
    array = to_numpy(asarray(x))
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return UniqueAll(_dense(values), _dense(first), _dense(inverse.reshape(array.shape)),
                     _dense(counts))


def _dense(array: Any) -> Tensor:
    return asarray(np.asarray(array))


class Sorting(Base):
    """The methods of this chapter."""

    __slots__ = ()

    def sort(self, axis: int | None = -1, *, descending: bool = False) -> Tensor:
        """The entries in order along an axis, as a new tensor."""
        return sort(self, axis, descending=descending)

    def argsort(self, axis: int | None = -1, *, descending: bool = False) -> Tensor:
        """Positions that put the entries in order along an axis."""
        return argsort(self, axis, descending=descending)

    def cumsum(self, axis: int | None = None, dtype: object = None) -> Tensor:
        """Running sums along an axis (None: flattened)."""
        return cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: object = None) -> Tensor:
        """Running products along an axis (None: flattened)."""
        return cumprod(self, axis, dtype)
