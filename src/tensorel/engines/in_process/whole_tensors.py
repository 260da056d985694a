"""Whole-tensor operators, which have no formula for one entry: reshape, take, sort, top-k, ...

Dense tensors go to NumPy. On sparse ones the cost grows with the stored entries (and, where the
result is dense by nature, with the result, which is refused above the limits)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra import bulk, matrices
from tensorel.algebra.bulk import BulkOperator, order
from tensorel.algebra.ops import DType
from tensorel.engines.in_process import imperative
from tensorel.engines.in_process.entry_joins.pairs import join
from tensorel.engines.in_process.fibers import before_fill, fibers
from tensorel.engines.in_process.iterations.eigenvalues import some_parts
from tensorel.engines.in_process.iterations.equations import solved
from tensorel.engines.in_process.iterations.matrix import Evaluate
from tensorel.engines.in_process.rearrange import one_hot, reshape, take
from tensorel.errors import MemoryLimitError, UnsupportedError
from tensorel.ir.nodes import Bulk
from tensorel.storage.convert import from_dense, pack, to_coo, to_dense
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require, show_bytes
from tensorel.storage.stack import index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Params = tuple[Any, ...]
Native = Callable[[BulkOperator, list[Stored], Params, Shape], Stored]
Held = Callable[[Stored, Params, int], int]  # of the operand, the parameters, bytes of the result
MIN_ITERATED_ORDER = 256  # of sparse matrices; smaller ones are decomposed whole
RANKED_ELEMENTS = 2**20  # elements that are ranked at a time: their copies stay in the cache


def run(op: BulkOperator, args: list[Stored], params: Params,
        evaluate: Evaluate | None = None) -> Stored:
    """The result of a whole-tensor operator, its meaning for the dense equivalent. ``evaluate``
    runs programs, for operators that iterate over sparse matrices.

    >>> a = from_dense(np.array([3, 1, 2]))
    >>> run(bulk.sort, [a], (0, False)).arrays["val"].tolist()
    [1, 2, 3]
    """
    shape = op.shape(*[a.shape for a in args], *params)
    if evaluate is not None and op.effort is not None and _stays_sparse(op, args[0], params):
        dtype = op.dtype(*[a.dtype for a in args], *params)
        if op is matrices.solve:
            return from_dense(solved(args, params[0], dtype, evaluate))
        return from_dense(some_parts(op, args[0], params, dtype, evaluate))
    native = NATIVE.get(op, _RUNNING if op.running else _by_meaning)
    return native(op, args, params, shape)


def _stays_sparse(op: BulkOperator, matrix: Stored, params: Params) -> bool:
    if op is matrices.solve:
        return params[0] in ("superlu", "krylov")
    return op in (matrices.eigh_some, matrices.svd_some) and not matrix.format.is_dense \
        and not matrix.fill and min(matrix.shape) > MIN_ITERATED_ORDER


def run_together(rankings: list[Bulk], first: Stored) -> list[Stored]:
    """Several operators on one operand; values and places of the same ranking are found once."""
    found: dict[tuple[BulkOperator, Params], Stored] = {}
    for b in rankings:
        op = (b.op.places if first.format.is_dense else None) or b.op
        if (op, b.params) not in found:
            found[op, b.params] = run(op, [first], b.params)
        if op is not b.op:
            at: Any = to_dense(found[op, b.params])
            values = np.take_along_axis(to_dense(first), at, op.axis(b.params))
            found[b.op, b.params] = from_dense(values, first.fill)
    return [found[b.op, b.params] for b in rankings]


def _by_meaning(op: BulkOperator, args: list[Stored], params: Params, shape: Shape,
                held: Held = lambda first, params, made: made,
                meaning: Callable[..., Array] | None = None) -> Stored:
    """NumPy on dense arrays. ``held``: bytes of the result and of copies on the way. ``meaning``: a
    quicker function than the declared one."""
    dtype = op.dtype(*[a.dtype for a in args], *params)
    if not all([a.format.is_dense for a in args]):  # noqa: C419
        _allow_dense(op, args, max(shape, *[a.shape for a in args], key=prod), dtype)
    require(held(args[0], params, prod(shape) * dtype.itemsize),
            f"{op.name} of shape {args[0].shape}")
    result = op.apply([to_dense(a) for a in args], params, meaning)
    return from_dense(result, op.fill(args[0].fill))


def _along(sparse: Callable[[BulkOperator, Stored, Params, Shape], Stored], each: int,
           **dense: Any) -> Native:
    """By its meaning on a dense operand; ``sparse`` on stored entries, which take ``each`` bytes
    more."""

    def native(op: BulkOperator, args: list[Stored], params: Params, shape: Shape) -> Stored:
        first = args[0]
        if first.format.is_dense:
            return _by_meaning(op, args, params, shape, **dense)
        require(each * first.count, f"{op.name}: {first.count} entries by fiber and value")
        return sparse(op, first, params, shape)

    return native


def _allow_dense(op: BulkOperator, args: list[Stored], shape: Shape, dtype: DType) -> None:
    """Refuse a result that is dense by nature and too large to be made unasked."""
    needed, settings = prod(shape) * dtype.itemsize, config.current()
    limit = min(settings.memory, settings.densify)
    if needed > limit:
        held = sum(a.nbytes for a in args)
        raise MemoryLimitError(
            f"{op.name} would make a dense result of shape {shape}, {dtype.name}, "
            f"{show_bytes(needed)}, from {show_bytes(held)} of sparse operands; "
            f"the limit is {show_bytes(limit)}",
            needed=needed, limit=limit, step=op.name,
            hint="raise tr.options(densify=...) and memory, or reduce or slice first",
        )


# -- dense: the first k ---------------------------------------------------------------------------
def _dense_topk_indices(a: Array, k: int, axis: int, largest: bool) -> Array:
    if 0 < 4 * k < a.shape[axis] and a.dtype.kind in "iuf":
        rows = np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
        found = np.empty((rows.shape[0], k), np.int64)
        step = max(RANKED_ELEMENTS // rows.shape[1], 1)
        for at in range(0, rows.shape[0], step):
            found[at : at + step] = _first(rows[at : at + step], k, largest)
        others = tuple(n for j, n in enumerate(a.shape) if j != axis)
        return np.moveaxis(found.reshape(*others, k), -1, axis)
    return bulk.topk_indices.apply([a], (k, axis, largest))


def _first(rows: Array, k: int, largest: bool) -> Array:
    """Positions of the first k of each row in sorted order. All values beyond the k-th belong to
    them, and of those that equal it as many as are missing, by position."""
    if rows.dtype.kind == "f" and np.isnan(rows).any():
        return order(rows, 1, largest)[:, :k]
    last = rows.shape[1] - k if largest else k - 1
    bound = np.partition(rows, last, axis=1)[:, [last]]
    beyond = rows > bound if largest else rows < bound
    equal = rows == bound
    missing = k - np.count_nonzero(beyond, axis=1)
    chosen = beyond | (equal & (np.cumsum(equal, axis=1) <= missing[:, None]))
    places = np.nonzero(chosen)[1].reshape(-1, k)
    ranked = order(np.take_along_axis(rows, places, axis=1), 1, largest)
    return np.take_along_axis(places, ranked, axis=1)


def _dense_topk_values(a: Array, k: int, axis: int, largest: bool) -> Array:
    return np.take_along_axis(a, _dense_topk_indices(a, k, axis, largest), axis=axis)


def _argsort_held(first: Stored, params: Params, made: int) -> int:
    return (3 if params[1] else 2) * made


def _topk_held(first: Stored, params: Params, made: int) -> int:
    k, axis, _ = params
    in_parts = 0 < 4 * k < first.shape[axis]
    return 3 * made + (40 * min(first.count, RANKED_ELEMENTS) if in_parts else 24 * first.count)


# -- sparse: sorted, top-k -------------------------------------------------------------------------
def _ranked(op: BulkOperator, stored: Stored, params: Params, shape: Shape) -> Stored:
    """The first k of each fiber in sorted order: the fills of a fiber are one block, after the
    entries that sort before them."""
    axis, descending = params[-2:]
    k = shape[axis]
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


def _ranked_positions(op: BulkOperator, stored: Stored, params: Params, shape: Shape) -> Stored:
    """The coordinates of the first k of each fiber in sorted order, ties by lower coordinate."""
    axis, descending = params[-2:]
    k = shape[axis]
    _allow_dense(op, [stored], shape, np.dtype(np.int64))
    require(2 * 8 * prod(shape), f"{op.name}: the positions")
    f = fibers(stored, axis)
    require(16 * prod(shape) + 56 * k * f.count, f"{op.name}: the positions in {f.count} fibers")
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


# -- sparse: first smallest or largest -------------------------------------------------------------
def _same(a: Array, b: Array) -> Array:
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _extreme(ufunc: np.ufunc, op: BulkOperator, stored: Stored, params: Params,
             shape: Shape) -> Stored:
    """argmin for np.minimum, argmax for np.maximum. nan counts as the most extreme; of equal
    entries the first is taken."""
    (axis,) = params
    if axis is None:
        return _extreme_of_all(ufunc, stored)
    f = fibers(stored, axis)
    found = np.empty(0, dtype=np.int64)
    if f.count:
        found = _first_extremes(ufunc, f.coo.values, f.coo.coords[axis], f.starts, f.fiber,
                                stored.fill, f.missing(1)[:, 0], f.length)
    coo = Coo(tuple(f.fiber_coords()), found, shape, np.int64(0), tuple(range(len(shape))))
    return pack(coo, "coo" if shape else "dense")


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
def _cumulative(op: BulkOperator, stored: Stored, params: Params, shape: Shape) -> Stored:
    """Fibers with entries become dense rows. Fibers of fill alone stay out if the running value
    of the fill is the fill itself (0 under +, 0 and 1 under *)."""
    (axis,), dtype = params, stored.dtype
    if not _same(np.asarray(op.fill(stored.fill)), np.asarray(stored.fill)):
        return _by_meaning(op, [stored], params, shape)
    f = fibers(stored, axis)
    _allow_dense(op, [stored], (f.count, f.length), dtype)
    wide = 2 * dtype.itemsize + 9 + sum([index_dtype(n).itemsize for n in shape])
    require(f.count * f.length * wide, f"{op.name}: {f.count} fibers of {f.length} entries")
    rows = np.full((f.count, f.length), stored.fill, dtype=dtype)
    rows[f.fiber, f.coo.coords[axis]] = f.coo.values
    rows = op.apply([rows], (1,))
    made = [np.repeat(c, f.length) for c in f.fiber_coords()]
    inner = np.tile(np.arange(f.length, dtype=index_dtype(f.length)), f.count)
    made.insert(axis, inner)
    return pack(Coo(tuple(made), rows.reshape(-1), shape, stored.fill, f.coo.order), "coo")


_RUNNING = _along(_cumulative, 24)
#: How operators run on stored tensors. Of the others, running values of a monoid run as
#: ``_RUNNING``, all others by their meaning on dense arrays.
NATIVE: dict[BulkOperator, Native] = {
    bulk.reshape: lambda op, args, params, shape: reshape(args[0], shape),
    bulk.take: lambda op, args, params, shape: take(args[0], to_dense(args[1]), params[0], shape),
    bulk.one_hot: lambda op, args, params, shape: one_hot(to_dense(args[0]), shape),
    bulk.join: join,
    bulk.sort: _along(_ranked, 40, held=lambda first, params, made: 2 * made),
    bulk.argsort: _along(_ranked_positions, 24, held=_argsort_held),
    bulk.argmin: _along(partial(_extreme, np.minimum), 24),
    bulk.argmax: _along(partial(_extreme, np.maximum), 24),
    bulk.topk_values: _along(_ranked, 40, held=_topk_held, meaning=_dense_topk_values),
    bulk.topk_indices: _along(_ranked_positions, 40, held=_topk_held, meaning=_dense_topk_indices),
    bulk.run_program: lambda op, args, params, shape: imperative.run(args, *params),
    bulk.result_of_program: lambda op, args, params, shape: imperative.result(args[0], *params),
}
