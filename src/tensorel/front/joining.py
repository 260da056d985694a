"""Tensors put together, moved and masked: choices between reads, by conditions on indices."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, UnsupportedError
from tensorel.front.base import (
    Exprs,
    Shape,
    axes_of,
    choose,
    indices,
    lift,
    one_axis,
    whole,
    wrap,
    zero_of,
)
from tensorel.front.convert import asarray, to_numpy
from tensorel.front.create import eye
from tensorel.front.indexing import gather, positions
from tensorel.front.scalars import weak
from tensorel.front.shaping import broadcast_to, expand_dims, ravel, reshape
from tensorel.ir import nodes as ir
from tensorel.ir.build import both, compare, convert, minus, plus

if TYPE_CHECKING:
    from tensorel.front.array import Tensor


def _many(xs: object, name: str) -> list[Tensor]:
    tensors = [asarray(x) for x in xs]  # type: ignore[attr-defined]
    if not tensors:
        raise ShapeError(f"{name}: no tensors given")
    return tensors


def concat(xs: object, axis: int | None = 0, dtype: object = None) -> Tensor:
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
    for p, t in enumerate(tensors):
        if t.shape[:k] + t.shape[k + 1:] != first[:k] + first[k + 1:] or t.ndim != len(first):
            raise ShapeError(
                f"concat: shapes {first} and {t.shape} (tensor {p}) differ beside axis {k}",
                hint="all extents but that of the joined axis must be equal",
            )
    into = ops.check_dtype(dtype) if dtype is not None else np.result_type(
        *(t.dtype for t in tensors))
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


def stack(xs: object, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    tensors = _many(xs, "stack")
    for p, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise ShapeError(f"stack: shapes {tensors[0].shape} and {t.shape} (tensor {p}) differ")
    k = one_axis(axis, tensors[0].ndim + 1, "stack")
    return concat([expand_dims(t, k) for t in tensors], axis=k)


def unstack(x: object, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    t = asarray(x)
    k = one_axis(axis, t.ndim, "unstack")
    before = (slice(None),) * k
    return tuple(t[(*before, p)] for p in range(t.shape[k]))


def vstack(xs: object) -> Tensor:
    """Tensors below each other; vectors are rows."""
    rows = [reshape(t, (1, -1)) if t.ndim < 2 else t for t in _many(xs, "vstack")]
    return concat(rows, axis=0)


def hstack(xs: object) -> Tensor:
    """Tensors beside each other."""
    tensors = [reshape(t, (1,)) if t.ndim == 0 else t for t in _many(xs, "hstack")]
    return concat(tensors, axis=0 if tensors[0].ndim == 1 else 1)


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
        cuts = [n // count * p for p in range(count + 1)]
    before = (slice(None),) * k
    return [t[(*before, slice(a, b))] for a, b in pairwise(cuts)]


def roll(x: object, shift: object, axis: object = None) -> Tensor:
    """Entries moved along axes, those that leave at the end coming back at the start."""
    t = asarray(x)
    if axis is None:
        return reshape(_rolled(ravel(t), {0: whole(shift, "roll: shift")}), t.shape)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
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
            order = np.pad(np.arange(t.shape[k]), (lo, hi), mode=mode)  # type: ignore[call-overload]
            t = take(t, order, axis=k)
    return t


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
    if each.ndim != 1 or each.size not in (1, t.shape[k]) or each.dtype.kind not in "iu":
        raise ShapeError(f"repeat: {each.size} counts for {t.shape[k]} entries of axis {k}")
    return take(t, np.repeat(np.arange(t.shape[k]), each), axis=k)


def _triangle(x: object, k: int, lower: bool, name: str) -> Tensor:
    t = asarray(x)
    if t.ndim < 2:
        raise ShapeError(f"{name}: shape {t.shape} has no two axes")
    offset = whole(k, f"{name}: k")
    op = ops.less_equal if lower else ops.greater_equal
    return lift(t.shape, lambda at: choose(
        compare(op, at[-1], plus(at[-2], offset)), ir.Read(t.node, at), zero_of(t.dtype)
    ))


def tril(x: object, k: int = 0) -> Tensor:
    """Entries on and below the k-th diagonal, zero above."""
    return _triangle(x, k, True, "tril")


def triu(x: object, k: int = 0) -> Tensor:
    """Entries on and above the k-th diagonal, zero below."""
    return _triangle(x, k, False, "triu")


def diag(x: object, k: int = 0) -> Tensor:
    """The matrix with a vector on its k-th diagonal, or the diagonal of a matrix."""
    t = asarray(x)
    if t.ndim == 2:
        return t.diagonal(k)
    if t.ndim != 1:
        raise ShapeError(f"diag: shape {t.shape} is neither a vector nor a matrix")
    n, down = t.shape[0] + abs(k), max(-k, 0)
    # a stored pattern, so that the zeros beside it are structural: loops visit the diagonal alone
    pattern = eye(n, k=k, dtype=ops.BOOL).node
    return lift((n, n), lambda at: choose(
        _on_diagonal(pattern, at, down, t.shape[0]),
        ir.Read(t.node, (minus(at[0], down),)), zero_of(t.dtype),
    ))


def _on_diagonal(pattern: ir.Tensor, at: Exprs, down: int, n: int) -> ir.Expr:
    """On the diagonal; the bounds say that the vector is read within its extent."""
    test = both(
        ir.Read(pattern, tuple(at)),
        compare(ops.greater_equal, at[0], down) if down else None,
        compare(ops.less, minus(at[0], down), n),
    )
    assert test is not None
    return test


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
    found = positions(where.astype(np.int64), k, t.shape)
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
    for _ in range(whole(n, "diff: n")):
        later, earlier = t[(*before, slice(1, None))], t[(*before, slice(None, -1))]
        t = later != earlier if t.dtype.kind == "b" else later - earlier
    return t
