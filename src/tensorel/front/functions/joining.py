"""Tensors put together, moved and masked: choices between reads, by conditions on indices."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, UnsupportedError
from tensorel.front.array.base import (
    Exprs,
    Shape,
    axes_of,
    choose,
    indices,
    lift,
    one_axis,
    whole,
    wrap,
)
from tensorel.front.array.convert import asarray, to_numpy
from tensorel.front.array.indexing import gather, positions
from tensorel.front.array.scalars import check_cast, weak
from tensorel.front.functions.shaping import broadcast_to, expand_dims, ravel, reshape
from tensorel.front.labels.alignment import aligned
from tensorel.ir import nodes as ir
from tensorel.ir.build import both, compare, convert, minus, plus
from tensorel.ir.extents import check_extents
from tensorel.storage.limits import require

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


MIN_JOINED_POSITIONS = 2**20  # from so many on slices are joined instead of taken one by one
_LAZY_TENSOR_BYTES = 1000  # bytes of a tensor that is a program of one read
_LISTS = (tuple, list, np.ndarray)
MAX_JOINED_TENSORS = 64  # tensors in one formula: more are joined in groups, and these then


def _many(xs: object, name: str) -> list[Tensor]:
    tensors = [asarray(x) for x in xs]  # type: ignore[attr-defined]
    if not tensors:
        raise ShapeError(f"{name}: no tensors given")
    return tensors


def concat(xs: object, axis: int | None = 0, dtype: object = None,
           casting: str = "same_kind") -> Tensor:
    """Tensors one after the other along an axis (None: all flattened first).

    >>> import tensorel as tr
    >>> tr.concat([[1, 2], [3]]).to_numpy().tolist()
    [1, 2, 3]
    """
    tensors = _many(xs, "concat")
    if axis is None:
        tensors, axis = [ravel(t) for t in tensors], 0
    first = tensors[0].shape
    k = one_axis(axis, len(first), "concat")
    if any(t.program.is_labelled for t in tensors):
        tensors = aligned("concat", ops.where, tensors, [
            [(p, a) if a == k else a for a in range(t.ndim)] for p, t in enumerate(tensors)])
        first = tensors[0].shape
    for p, t in enumerate(tensors):
        if t.shape[:k] + t.shape[k + 1:] != first[:k] + first[k + 1:] or t.ndim != len(first):
            raise ShapeError(
                f"concat: shapes {first} and {t.shape} (tensor {p}) differ beside axis {k}",
                hint="all extents but that of the joined axis must be equal",
            )
    into = ops.check_dtype(dtype) if dtype is not None else np.result_type(
        *(t.dtype for t in tensors))
    if dtype is not None or casting != "same_kind":
        for t in tensors:
            check_cast("concat", t.dtype, into, casting)
    if len(tensors) > MAX_JOINED_TENSORS:
        return concat([concat(tensors[p : p + MAX_JOINED_TENSORS], k, into, casting)
                       for p in range(0, len(tensors), MAX_JOINED_TENSORS)], k, into)
    starts = [0]
    for t in tensors:
        starts.append(starts[-1] + t.shape[k])
    shape = first[:k] + (starts[-1],) + first[k + 1:]

    def part(at: Exprs, lo: int, hi: int) -> ir.Expr:
        # A balanced tree of choices, so that many tensors nest only log(n) deep.
        if hi - lo == 1:
            where = at[:k] + (minus(at[k], starts[lo]),) + at[k + 1:]
            return convert(ir.Read(tensors[lo].node, where), into)
        mid = (lo + hi) // 2
        left = compare(ops.less, at[k], starts[mid])
        return choose(left, part(at, lo, mid), part(at, mid, hi))

    return lift(shape, lambda at: part(at, 0, len(tensors)))


def stack(xs: object, axis: int = 0, *, dtype: object = None,
          casting: str = "same_kind") -> Tensor:
    """Tensors of one shape along a new axis."""
    tensors = _many(xs, "stack")
    if any(t.program.is_labelled for t in tensors):
        tensors = aligned("stack", ops.where, tensors, [range(t.ndim) for t in tensors])
    for p, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise ShapeError(f"stack: shapes {tensors[0].shape} and {t.shape} (tensor {p}) differ")
    k = one_axis(axis, tensors[0].ndim + 1, "stack")
    return concat([expand_dims(t, k) for t in tensors], k, dtype, casting)


def unstack(x: object, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    t = asarray(x)
    k = one_axis(axis, t.ndim, "unstack")
    before = (slice(None),) * k
    require(t.shape[k] * _LAZY_TENSOR_BYTES, f"unstack: {t.shape[k]} tensors")
    return tuple(t[(*before, p)] for p in range(t.shape[k]))


def vstack(xs: object, *, dtype: object = None, casting: str = "same_kind") -> Tensor:
    """Tensors below each other; vectors are rows."""
    rows = [reshape(t, (1, -1)) if t.ndim < 2 else t for t in _many(xs, "vstack")]
    return concat(rows, 0, dtype, casting)


def hstack(xs: object, *, dtype: object = None, casting: str = "same_kind") -> Tensor:
    """Tensors beside each other."""
    tensors = [reshape(t, (1,)) if t.ndim == 0 else t for t in _many(xs, "hstack")]
    return concat(tensors, 0 if tensors[0].ndim == 1 else 1, dtype, casting)


def split(x: object, sections: object, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: a number of equal ones, or the places to cut."""
    t = asarray(x)
    k = one_axis(axis, t.ndim, "split")
    n = t.shape[k]
    if isinstance(sections, (list, tuple, np.ndarray)):
        cuts = [0, *(whole(c, "split: place") for c in sections), n]
    else:
        count = whole(sections, "split: sections")
        if count <= 0 or n % count:
            raise ShapeError(f"split: {n} entries do not divide into {count} equal parts")
        require(count * _LAZY_TENSOR_BYTES, f"split: {count} tensors")
        cuts = [n // count * p for p in range(count + 1)]
    before = (slice(None),) * k
    return [t[(*before, slice(a, b))] for a, b in pairwise(cuts)]


def roll(x: object, shift: object, axis: object = None) -> Tensor:
    """Entries moved along axes, those that leave at the end coming back at the start."""
    t = asarray(x)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts = list(shift) if isinstance(shift, _LISTS) else [shift] * len(axes)
    if any(isinstance(s, _LISTS) for s in (*axes, *shifts)):
        raise ShapeError(f"roll: shift {shift!r} and axis {axis!r} are numbers or lists of them")
    if axis is None:
        move = sum(whole(s, "roll: shift") for s in shifts)
        return reshape(_rolled(ravel(t), {0: move}), t.shape)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    moves: dict[int, int] = {}
    for a, s in zip(axes, shifts):
        k = one_axis(a, t.ndim, "roll")
        moves[k] = moves.get(k, 0) + whole(s, "roll: shift")
    return _rolled(t, moves)


def _rolled(t: Tensor, moves: dict[int, int]) -> Tensor:
    for k, move in moves.items():
        n = t.shape[k]
        s = move % n if n else 0
        if s:
            t = _rolled_axis(t, k, s, n)
    return t


def _rolled_axis(t: Tensor, k: int, s: int, n: int) -> Tensor:
    def entry(at: Exprs, start: int) -> ir.Expr:
        return ir.Read(t.node, at[:k] + (plus(at[k], start),) + at[k + 1:])

    return lift(t.shape, lambda at: choose(
        compare(ops.less, at[k], s), entry(at, n - s), entry(at, -s)
    ))


def _pairs(given: Any, rank: int, name: str) -> list[tuple[Any, Any]]:
    """NumPy's forms of pad widths: one number, a pair, or a pair for each axis."""
    if isinstance(given, dict):
        found = [(0, 0)] * rank
        for a, pair in given.items():
            found[one_axis(a, rank, name)] = pair if isinstance(pair, tuple) else (pair, pair)
        return found
    array = np.asarray(given)
    try:
        pairs = np.broadcast_to(array, (rank, 2))
    except ValueError as error:
        raise ShapeError(f"{name}: {given!r} is no width for {rank} axes") from error
    return [(a, b) for a, b in pairs.tolist()]


def pad(x: object, pad_width: object, mode: str = "constant",
        constant_values: object = 0) -> Tensor:
    """With more entries at the ends: a constant, or "edge", "wrap", "reflect", "symmetric"."""
    t = asarray(x)
    widths = [(whole(a, "pad: width"), whole(b, "pad: width"))
              for a, b in _pairs(pad_width, t.ndim, "pad")]
    if any(a < 0 or b < 0 for a, b in widths):
        raise ShapeError(f"pad: negative width in {pad_width!r}")
    if mode != "constant":
        return _pad_index(t, widths, mode)
    values = _pairs(constant_values, t.ndim, "pad")
    for k, ((lo, hi), (first, last)) in enumerate(zip(widths, values)):
        if lo or hi:
            t = _padded_axis(t, k, lo, hi, first, last)
    return t


def _padded_axis(t: Tensor, k: int, lo: int, hi: int, first: Any, last: Any) -> Tensor:
    n, dtype = t.shape[k], t.dtype
    before, after = (
        convert(weak(v, dtype, ops.where), dtype) for v in (first, last)
    )
    shape = t.shape[:k] + (lo + n + hi,) + t.shape[k + 1:]

    def body(at: Exprs) -> ir.Expr:
        entry: ir.Expr = ir.Read(t.node, at[:k] + (minus(at[k], lo),) + at[k + 1:])
        low = compare(ops.greater_equal, at[k], lo) if lo else None
        high = compare(ops.less, at[k], lo + n) if hi else None
        if before is after or low is None or high is None:
            inside = both(low, high)
            assert inside is not None
            return choose(inside, entry, before if high is None else after)
        return choose(low, choose(high, entry, after), before)

    return lift(shape, body)


def _pad_index(t: Tensor, widths: list[tuple[int, int]], mode: str) -> Tensor:
    if mode not in ("edge", "wrap", "reflect", "symmetric"):
        raise UnsupportedError(f"pad: mode {mode!r} is not known",
                               hint="modes are constant, edge, wrap, reflect, symmetric")
    for k, (lo, hi) in enumerate(widths):
        if lo or hi:
            if t.shape[k] == 0:
                raise ShapeError(f"pad: axis {k} has no entries to repeat")
            t = _pad_axis(t, k, lo, hi, mode)
    return t


def _pad_axis(t: Tensor, k: int, lo: int, hi: int, mode: str) -> Tensor:
    """Pieces beside the tensor where they are slices of it; else positions, one by one."""
    n = t.shape[k]
    before = (slice(None),) * k
    if mode == "edge":
        shape = t.shape[:k], t.shape[k + 1:]
        parts = [broadcast_to(t[(*before, slice(0, 1))], (*shape[0], lo, *shape[1])), t,
                 broadcast_to(t[(*before, slice(n - 1, n))], (*shape[0], hi, *shape[1]))]
        return concat([p for p in parts if p.shape[k]], axis=k)
    skip = 1 if mode == "reflect" else 0
    if n < MIN_JOINED_POSITIONS or max(lo, hi) > n - skip:
        total = lo + n + hi
        check_extents((total,), "pad")
        require(3 * 8 * total, f"pad: the {total} positions of mode {mode!r}")
        order = np.pad(np.arange(n), (lo, hi), mode=mode)  # type: ignore[call-overload]
        return take(t, order, axis=k)
    turn = slice(None, None, 1 if mode == "wrap" else -1)
    first = slice(n - lo, n) if mode == "wrap" else slice(skip, lo + skip)
    last = slice(0, hi) if mode == "wrap" else slice(n - hi - skip, n - skip)
    parts = [t[(*before, first)][(*before, turn)], t, t[(*before, last)][(*before, turn)]]
    return concat([p for p in parts if p.shape[k]], axis=k)


def tile(x: object, reps: object) -> Tensor:
    """The tensor repeated along axes, as a whole."""
    t = asarray(x)
    counts = [whole(r, "tile: count") for r in (
        reps if isinstance(reps, (tuple, list, np.ndarray)) else (reps,))]
    rank = max(t.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    t = reshape(t, (1,) * (rank - t.ndim) + t.shape)
    shape = t.shape
    spread = expand_dims(t, tuple(range(0, 2 * rank, 2)))
    full = tuple(n for pair in zip(counts, shape) for n in pair)
    return reshape(broadcast_to(spread, full), tuple(c * n for c, n in zip(counts, shape)))


def repeat(x: object, repeats: object, axis: int | None = None) -> Tensor:
    """Each entry repeated, along an axis (None: flattened)."""
    t = asarray(x)
    if axis is None:
        t, axis = ravel(t), 0
    k = one_axis(axis, t.ndim, "repeat")
    if isinstance(repeats, (int, np.integer)):
        count, n = int(repeats), t.shape[k]
        if count < 0:
            raise ShapeError(f"repeat: {count} times is not possible")
        spread = expand_dims(t, k + 1)
        full = broadcast_to(spread, t.shape[:k + 1] + (count,) + t.shape[k + 1:])
        return reshape(full, t.shape[:k] + (n * count,) + t.shape[k + 1:])
    each = to_numpy(asarray(repeats))
    each = each if each.size else each.astype(np.int64)  # no counts have any dtype
    if each.ndim != 1 or each.size not in (1, t.shape[k]) or each.dtype.kind not in "iu":
        raise ShapeError(f"repeat: {each.size} counts for {t.shape[k]} entries of axis {k}")
    if each.size and int(each.min()) < 0:
        raise ShapeError(f"repeat: {int(each.min())} times is not possible")
    total = sum(each.tolist()) * (t.shape[k] if each.size == 1 else 1)
    check_extents((total,), "repeat")
    require(8 * (2 * total + 2 * t.shape[k]), f"repeat: the {total} positions")
    return take(t, np.repeat(np.arange(t.shape[k]), each), axis=k)


# -- gathering ------------------------------------------------------------------------------------
def take(x: object, at: object, axis: int | None = None) -> Tensor:
    """The entries at the given positions along an axis (None: of the flattened tensor)."""
    t = asarray(x)
    if axis is None:
        t, axis = ravel(t), 0
    k = one_axis(axis, t.ndim, "take")
    return t[(*(slice(None),) * k, at)]


def take_along_axis(x: object, at: object, axis: int | None = -1) -> Tensor:
    """Entries at positions along one axis, given for each place of the others."""
    t, where = asarray(x), to_numpy(asarray(at))
    if axis is None:
        t, axis = ravel(t), 0
    k = one_axis(axis, t.ndim, "take_along_axis")
    if where.ndim != t.ndim or where.dtype.kind not in "iu":
        raise ShapeError(
            f"take_along_axis: positions of shape {where.shape} and dtype {where.dtype} do not "
            f"fit shape {t.shape}", hint="they are integers with one axis per axis of the tensor")
    found = positions(where, k, t.shape)
    shape = _along_shape(t.shape, found.shape, k)
    names = indices(len(shape))
    own = tuple(
        ir.const(0, ir.INT64) if t.shape[j] == 1 and j != k else names[j]
        for j in range(t.ndim)
    )
    index = gather(found, names)
    body = ir.Read(t.node, own[:k] + (index,) + own[k + 1:])
    return wrap(ir.Lambda(axes_of(shape), body))


def _along_shape(own: Shape, other: Shape, k: int) -> Shape:
    shape = []
    for j, (m, n) in enumerate(zip(own, other)):
        if j != k and m != n and 1 not in (m, n):
            raise ShapeError(f"take_along_axis: shapes {own} and {other} differ at axis {j}")
        shape.append(n if j == k or m == 1 else m)
    return tuple(shape)


def meshgrid(*xs: object, indexing: str = "xy") -> list[Tensor]:
    """Coordinate matrices from vectors of coordinates."""
    vectors = [ravel(x) for x in xs]
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid: indexing {indexing!r} is not known", hint="'xy' or 'ij'")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = tuple(vectors[k].shape[0] for k in order)
    at = indices(len(shape))
    return [
        wrap(ir.Lambda(axes_of(shape), ir.Read(v.node, (at[order.index(k)],))))
        for k, v in enumerate(vectors)
    ]


def diff(x: object, n: int = 1, axis: int = -1, prepend: object = None,
         append: object = None) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    t = asarray(x)
    parts = [p if p is t else asarray(p) for p in (prepend, t, append) if p is not None]
    if len(parts) > 1:
        k = one_axis(axis, t.ndim, "diff")
        edge = t.shape[:k] + (1,) + t.shape[k + 1:]
        t = concat([broadcast_to(p, edge) if p.ndim == 0 else p for p in parts], axis=k)
    k = one_axis(axis, t.ndim, "diff")
    before = (slice(None),) * k
    for _ in range(min(whole(n, "diff: n"), t.shape[k])):
        later, earlier = t[(*before, slice(1, None))], t[(*before, slice(None, -1))]
        t = later != earlier if t.dtype.kind == "b" else later - earlier
    return t


__all__ = [
    "concat", "diff", "hstack", "meshgrid", "pad", "repeat", "roll", "split", "stack", "take",
    "take_along_axis", "tile", "unstack", "vstack",
]
