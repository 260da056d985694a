"""Order along an axis, running sums, sets: operators on whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tensorel.algebra import bulk, ops
from tensorel.errors import ShapeError, TypeError_, ValueError_
from tensorel.front.array.base import Base, one_axis, whole, wrap
from tensorel.front.array.convert import asarray, stored_of, to_numpy
from tensorel.front.array.create import zeros
from tensorel.front.functions.joining import concat, stack
from tensorel.front.functions.reductions import accumulator
from tensorel.front.functions.shaping import broadcast_to, ravel
from tensorel.ir import nodes as ir
from tensorel.ir.extents import check_count
from tensorel.storage import convert as storage
from tensorel.storage.limits import Holding, require

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def _bulk(op: bulk.BulkOperator, t: Tensor, *params: object) -> Tensor:
    return wrap(ir.Bulk(op, (t.node,), params))


#: NumPy's names of algorithms: all of them give what ours gives, which is stable.
_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _ordered(op: bulk.BulkOperator, x: object, axis: int | None, descending: bool, kind: object
             ) -> Tensor:
    if kind not in _KINDS:
        raise ValueError_(f"sort: kind {kind!r} is not known", hint="leave it out")
    t = asarray(x)
    if axis is None:
        t, axis = ravel(t), 0
    return _bulk(op, t, one_axis(axis, t.ndim, op.name), bool(descending))


def sort(x: object, axis: int | None = -1, *, descending: bool = False,
         stable: bool = True, kind: object = None) -> Tensor:
    """The entries in ascending (or descending) order along an axis (None: flattened)."""
    return _ordered(bulk.sort, x, axis, descending, kind)


def argsort(x: object, axis: int | None = -1, *, descending: bool = False,
            stable: bool = True, kind: object = None) -> Tensor:
    """Positions that put the entries in order along an axis."""
    return _ordered(bulk.argsort, x, axis, descending, kind)


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
    params = count, axis, bool(largest)
    return TopK(_bulk(bulk.topk_values, t, *params), _bulk(bulk.topk_indices, t, *params))


def running(op: bulk.BulkOperator, x: object, axis: int | None, dtype: object,
            include_initial: bool = False, first: int = 0) -> Tensor:
    """Running values of the monoid of ``op``; sums and products in their wide dtypes."""
    t = asarray(x)
    if axis is None:
        if t.ndim > 1:
            raise ShapeError(f"{op.name}: give the axis of a tensor of shape {t.shape}")
        axis = 0
        t = ravel(t)
    k = one_axis(axis, t.ndim, op.name)
    if dtype is not None or op.running in (ops.add, ops.multiply):
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
    return running(bulk.cumulative_sum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x: object, *, axis: int | None = None, dtype: object = None,
                    include_initial: bool = False) -> Tensor:
    """Running products along an axis."""
    return running(bulk.cumulative_prod, x, axis, dtype, include_initial, 1)


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


def argwhere(x: object) -> Tensor:
    """Positions of entries that are not zero, one row each; computes."""
    t = asarray(x)
    if t.ndim == 0:
        return zeros((int(bool(t)), 0), dtype=ops.INT64)
    return stack(nonzero(t), axis=1)


def flatnonzero(x: object) -> Tensor:
    """Positions of entries that are not zero in the flattened tensor; computes."""
    return nonzero(ravel(x))[0]


def searchsorted(x1: object, x2: object, /, *, side: Literal["left", "right"] = "left",
                 sorter: object = None) -> Tensor:
    """Places where entries of ``x2`` would go in the sorted ``x1``; computes."""
    if side not in ("left", "right"):
        raise TypeError_(f"searchsorted: side {side!r} is not known", hint="'left' or 'right'")
    order = None if sorter is None else to_numpy(asarray(sorter))
    require(asarray(x2).size * 8, "searchsorted: a place for each entry")
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
    """Distinct entries in order, and how often each occurs. Entries that are not stored are counted
    without a visit."""
    t = asarray(x)
    values, counts, place, absent = _distinct(t)
    check_count(absent, f"unique_counts: the number of entries that are {t.fill}")
    if place < 0:
        counts = np.concatenate([counts, np.ones(absent, counts.dtype)])
    else:
        counts[place] += absent
    return UniqueCounts(_dense(values), _dense(counts.astype(np.int64)))


def _distinct(t: Tensor) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Distinct entries in order; how often each is stored; the place of the fill among them, or -1
    for nan, which differs from itself, so that each absent one is listed at the end; how many
    entries are absent."""
    stored = stored_of(t)
    with Holding(stored.nbytes):
        coo = storage.to_coo(stored)
        # sorted entries, a mask, distinct ones, their places and counts
        require(coo.count * (2 * t.dtype.itemsize + 17), "unique: the entries in order")
        values, counts = np.unique(coo.values, return_counts=True, equal_nan=False)
        absent = t.size - coo.count
        if absent and stored.fill != stored.fill:
            require(2 * absent * (t.dtype.itemsize + 8), f"unique: {absent} nans, each different")
            nans = np.full(absent, stored.fill, t.dtype)
            return np.concatenate([values, nans]), counts, -1, absent
    place = int(np.searchsorted(values, stored.fill))
    if absent and not (place < values.size and values[place] == stored.fill):
        values, counts = np.insert(values, place, stored.fill), np.insert(counts, place, 0)
    return values, counts, min(place, values.size - 1), absent


def unique_values(x: object) -> Tensor:
    """Distinct entries in order; computes."""
    return _dense(_distinct(asarray(x))[0])


def unique_inverse(x: object) -> UniqueInverse:
    """Distinct entries, and where each entry is among them; computes."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: object) -> UniqueAll:
    """Distinct entries with first positions, inverse and counts; computes, dense."""
    array = to_numpy(asarray(x))
    # NumPy's order, its inverse, sorted entries, masks, and the four results
    require(array.size * (3 * array.dtype.itemsize + 7 * 8), "unique: positions of the entries")
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

    def searchsorted(self, v: object, side: Literal["left", "right"] = "left",
                     sorter: object = None) -> Tensor:
        """Places where entries of ``v`` would go in this sorted tensor; computes."""
        return searchsorted(self, v, side=side, sorter=sorter)

    cumsum, cumprod = cumsum, cumprod


__all__ = [
    "argsort", "argwhere", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "flatnonzero", "nonzero", "searchsorted", "sort", "topk", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]
