"""Whole-tensor operators that are no formula per entry: reshape, take, sort, top-k, ...

Dense tensors go to NumPy. On sparse ones the cost grows with the stored entries (and, where the
result is dense by nature, with the result, which is refused above the limits)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra.ops import DType
from tensorel.engines.fibers import before_fill, fibers
from tensorel.engines.rearrange import reshape, take
from tensorel.errors import MemoryLimitError, ShapeError, UnsupportedError
from tensorel.ir.nodes import Bulk
from tensorel.storage.convert import from_dense, pack, to_coo, to_dense
from tensorel.storage.coo import Coo
from tensorel.storage.limits import show_bytes
from tensorel.storage.scalars import make_fill
from tensorel.storage.stack import index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
PARTITION = 2**20  # elements that are ranked at a time: their copies stay in the cache


def run(op: str, args: list[Stored], params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
    """The result of a whole-tensor operator, NumPy's for the dense equivalent.

    >>> a = from_dense(np.array([3, 1, 2]))
    >>> run("sort", [a], (0, False), (3,), np.dtype("int64")).arrays["val"].tolist()
    [1, 2, 3]
    """
    if op == "reshape":
        return reshape(args[0], shape)
    if op == "take":
        return take(args[0], to_dense(args[1]), params[0])
    first = args[0]
    if first.format.is_dense:
        with np.errstate(all="ignore"):
            result = np.asarray(_DENSE[op](to_dense(first), params, dtype))
        keeps = op in ("sort", "topk_values")
        return from_dense(result.astype(dtype, copy=False), first.fill if keeps else 0)
    return _SPARSE[op](first, params, shape, dtype)


def run_together(rankings: list[Bulk], first: Stored, shapes: list[Shape]) -> list[Stored]:
    """Several operators on one operand; values and places of the same top-k are found once."""
    places: dict[tuple[Any, ...], Array] = {}
    results = []
    for b, shape in zip(rankings, shapes):
        if not first.format.is_dense or not b.op.startswith("topk"):
            results.append(run(b.op, [first], b.params, shape, b.dtype))
            continue
        dense = to_dense(first)
        if b.params not in places:
            places[b.params] = _dense_topk_indices(dense, b.params, b.dtype)
        found = places[b.params]
        if b.op == "topk_values":
            found = np.take_along_axis(dense, found, axis=b.params[1])  # type: ignore[arg-type]
        results.append(from_dense(found.astype(b.dtype, copy=False), 0))
    return results


def _allow_dense(op: str, args: list[Stored], shape: Shape, dtype: DType) -> None:
    """Refuse a result that is dense by nature and too large to be made unasked."""
    needed, settings = prod(shape) * dtype.itemsize, config.current()
    limit = min(settings.memory, settings.densify)
    if needed > limit:
        held = sum(a.nbytes for a in args)
        raise MemoryLimitError(
            f"{op} would make a dense result of shape {shape}, {dtype.name}, "
            f"{show_bytes(needed)}, from {show_bytes(held)} of sparse operands; "
            f"the limit is {show_bytes(limit)}",
            needed=needed, limit=limit, step=op,
            hint="raise tr.options(densify=...) and memory, or reduce or slice first",
        )


# -- dense: NumPy ----------------------------------------------------------------------------------
def _order(array: Array, axis: int, descending: bool) -> Array:
    """Positions in sorted order, nan last (first when descending), ties by lower position."""
    if not descending:
        return np.argsort(array, axis=axis, kind="stable")
    turned = np.argsort(np.flip(array, axis), axis=axis, kind="stable")
    return np.flip(array.shape[axis] - 1 - turned, axis)


def _dense_sort(a: Array, params: tuple[Any, ...], dtype: DType) -> Array:
    axis, descending = params[:2]
    ascending = np.sort(a, axis=axis)
    return np.flip(ascending, axis) if descending else ascending


def _dense_topk_indices(a: Array, params: tuple[Any, ...], dtype: DType) -> Array:
    k, axis, largest = params
    if 0 < 4 * k < a.shape[axis] and a.dtype.kind in "iuf":
        rows = np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
        found = np.empty((rows.shape[0], k), np.int64)
        step = max(PARTITION // rows.shape[1], 1)
        for at in range(0, rows.shape[0], step):
            found[at : at + step] = _first(rows[at : at + step], k, largest)
        others = tuple(n for j, n in enumerate(a.shape) if j != axis)
        return np.moveaxis(found.reshape(*others, k), -1, axis)
    return np.take(_order(a, axis, largest), np.arange(k), axis=axis)


def _first(rows: Array, k: int, largest: bool) -> Array:
    """Positions of the first k of each row in sorted order. The k-th value decides: what is
    beyond it is in, and of those that equal it as many as are missing, by position."""
    if rows.dtype.kind == "f" and np.isnan(rows).any():
        return _order(rows, 1, largest)[:, :k]
    last = rows.shape[1] - k if largest else k - 1
    bound = np.partition(rows, last, axis=1)[:, [last]]
    beyond = rows > bound if largest else rows < bound
    equal = rows == bound
    missing = k - np.count_nonzero(beyond, axis=1)
    chosen = beyond | (equal & (np.cumsum(equal, axis=1) <= missing[:, None]))
    places = np.nonzero(chosen)[1].reshape(-1, k)
    ranked = _order(np.take_along_axis(rows, places, axis=1), 1, largest)
    return np.take_along_axis(places, ranked, axis=1)


def _dense_topk_values(a: Array, params: tuple[Any, ...], dtype: DType) -> Array:
    return np.take_along_axis(a, _dense_topk_indices(a, params, dtype), axis=params[1])


_DENSE: dict[str, Callable[[Array, tuple[Any, ...], DType], Any]] = {
    "sort": _dense_sort,
    "argsort": lambda a, p, d: _order(a, p[0], p[1]),
    "argmin": lambda a, p, d: np.argmin(a, axis=p[0]),
    "argmax": lambda a, p, d: np.argmax(a, axis=p[0]),
    "cumulative_sum": lambda a, p, d: np.cumsum(a, axis=p[0], dtype=d),
    "cumulative_prod": lambda a, p, d: np.cumprod(a, axis=p[0], dtype=d),
    "topk_values": _dense_topk_values,
    "topk_indices": _dense_topk_indices,
}


# -- sparse: sorted, top-k -------------------------------------------------------------------------
def _ranked(stored: Stored, axis: int, descending: bool, k: int, shape: Shape) -> Stored:
    """The first k of each fiber in sorted order: the fills of a fiber are one block, after the
    entries that sort before them."""
    f = fibers(stored, axis)
    chosen = f.by_value(descending)
    values = f.coo.values[chosen]
    rank = f.local.copy()
    behind = ~before_fill(values, stored.fill, descending)
    rank[behind] += (f.length - f.sizes[f.fiber])[behind]
    keep = rank < k
    coords = [c[chosen][keep] for c in f.coo.coords]
    coords[axis] = rank[keep].astype(index_dtype(k))
    return pack(Coo(tuple(coords), values[keep], shape, stored.fill, f.coo.order), "coo")


def _ranked_positions(
    op: str, stored: Stored, axis: int, descending: bool, k: int, shape: Shape
) -> Stored:
    """The coordinates of the first k of each fiber in sorted order, ties by lower coordinate."""
    _allow_dense(op, [stored], shape, np.dtype(np.int64))
    f = fibers(stored, axis)
    others = tuple(stored.shape[a] for a in f.others)
    table = np.empty((prod(others), k), dtype=np.int64)
    table[:] = np.arange(k)
    chosen = f.by_value(descending)
    first = before_fill(f.coo.values[chosen], stored.fill, descending)
    ahead = np.bincount(f.fiber[first], minlength=f.count)
    unstored = f.length - f.sizes
    rank = f.local + np.where(first, 0, unstored[f.fiber])
    rows = np.full((f.count, k), -1, dtype=np.int64)
    keep = rank < k
    rows[f.fiber[keep], rank[keep]] = f.coo.coords[axis][chosen][keep]
    place = np.arange(k) - ahead[:, None]
    filled = (place >= 0) & (place < unstored[:, None])
    rows[filled] = np.take_along_axis(f.missing(k), np.maximum(place, 0), axis=1)[filled]
    table[f.flat()] = rows
    result = np.moveaxis(table.reshape(*others, k), -1, axis)
    return from_dense(np.ascontiguousarray(result))


def _sort(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
    return _ranked(stored, params[0], params[1], shape[params[0]], shape)


def _argsort(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
    axis, descending = params[:2]
    return _ranked_positions("argsort", stored, axis, descending, shape[axis], shape)


def _topk_values(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
    k, axis, largest = params
    return _ranked(stored, axis, largest, k, shape)


def _topk_indices(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
    k, axis, largest = params
    return _ranked_positions("topk", stored, axis, largest, k, shape)


# -- sparse: first smallest or largest -------------------------------------------------------------
def _same(a: Array, b: Array) -> Array:
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _extreme(ufunc: np.ufunc) -> Callable[[Stored, tuple[Any, ...], Shape, DType], Stored]:
    """argmin for np.minimum, argmax for np.maximum: nan is the most extreme, the first wins."""

    def along(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
        axis = params[0]
        if axis is None:
            return _extreme_of_all(ufunc, stored)
        if stored.shape[axis] == 0 and prod(shape):
            raise ShapeError(f"axis {axis} is empty: it has no smallest or largest entry")
        f = fibers(stored, axis)
        found = np.empty(0, dtype=np.int64)
        if f.count:
            found = _first_extremes(ufunc, f.coo.values, f.coo.coords[axis], f.starts, f.fiber,
                                    stored.fill, f.missing(1)[:, 0], f.length)
        coo = Coo(tuple(f.fiber_coords()), found, shape, np.int64(0), tuple(range(len(shape))))
        return pack(coo, "coo" if shape else "dense")

    return along


def _first_extremes(
    ufunc: np.ufunc, values: Array, coords: Array, starts: Array, fiber: Array,
    fill: np.generic, missing: Array, length: int,
) -> Array:
    best = ufunc.reduceat(values, starts)
    has_fill = missing < length
    over = np.where(has_fill, ufunc(best, fill), best)
    among = _same(values, over[fiber])
    at = np.minimum.reduceat(np.where(among, coords, length).astype(np.int64), starts)
    fills = has_fill & _same(np.asarray(fill), over)
    return np.where(fills, np.minimum(at, missing), at)


def _extreme_of_all(ufunc: np.ufunc, stored: Stored) -> Stored:
    if 0 in stored.shape:
        raise ShapeError(f"a tensor of shape {stored.shape} has no smallest or largest entry")
    coo = to_coo(stored)
    rest, expected = np.arange(coo.count), np.ones(coo.count, dtype=bool)
    for extent, c in zip(reversed(coo.shape), reversed(coo.coords)):
        expected &= c == rest % extent
        rest //= extent
    first_unstored = coo.count if expected.all() else int(np.argmin(expected))
    fill = np.asarray(stored.fill)
    best = ufunc.reduce(coo.values) if coo.count else fill
    if first_unstored < prod(stored.shape):
        best = ufunc(best, fill)
    candidates = []
    if first_unstored < prod(stored.shape) and bool(_same(fill, best)):
        candidates.append(first_unstored)
    among = _same(coo.values, best)
    if among.any():
        k, flat = int(np.argmax(among)), 0
        for extent, c in zip(coo.shape, coo.coords):
            flat = flat * extent + int(c[k])
        candidates.append(flat)
    at = min(candidates)
    if at > 2**63 - 1:
        raise UnsupportedError(
            f"the position {at} in the flattened tensor is above 2**63 - 1",
            hint="give an axis",
        )
    return from_dense(np.asarray(at, dtype=np.int64))


# -- sparse: running sums and products -------------------------------------------------------------
def _cumulative(
    op: str, ufunc: np.ufunc
) -> Callable[[Stored, tuple[Any, ...], Shape, DType], Stored]:
    """Fibers with entries become dense rows. Fibers of fill alone stay out if the running value
    of the fill is the fill itself (0 under +, 0 and 1 under *)."""

    def along(stored: Stored, params: tuple[Any, ...], shape: Shape, dtype: DType) -> Stored:
        axis = params[0]
        with np.errstate(all="ignore"):
            fill = np.asarray(stored.fill).astype(dtype)
            idle = bool(_same(ufunc(fill, fill, dtype=dtype), fill))
        if not idle:
            _allow_dense(op, [stored], shape, dtype)
            with np.errstate(all="ignore"):
                result = ufunc.accumulate(to_dense(stored), axis=axis, dtype=dtype)
            return from_dense(np.ascontiguousarray(result))
        f = fibers(stored, axis)
        _allow_dense(op, [stored], (f.count, f.length), dtype)
        rows = np.full((f.count, f.length), fill, dtype=dtype)
        rows[f.fiber, f.coo.coords[axis]] = f.coo.values
        with np.errstate(all="ignore"):
            rows = ufunc.accumulate(rows, axis=1, dtype=dtype)
        made = [np.repeat(c, f.length) for c in f.fiber_coords()]
        inner = np.tile(np.arange(f.length, dtype=index_dtype(f.length)), f.count)
        made.insert(axis, inner)
        coo = Coo(tuple(made), rows.reshape(-1), shape, make_fill(fill[()], dtype), f.coo.order)
        return pack(coo, "coo")

    return along


_SPARSE: dict[str, Callable[[Stored, tuple[Any, ...], Shape, DType], Stored]] = {
    "sort": _sort,
    "argsort": _argsort,
    "argmin": _extreme(np.minimum),
    "argmax": _extreme(np.maximum),
    "cumulative_sum": _cumulative("cumulative_sum", np.add),
    "cumulative_prod": _cumulative("cumulative_prod", np.multiply),
    "topk_values": _topk_values,
    "topk_indices": _topk_indices,
}
