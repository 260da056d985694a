"""Aggregates over rows, columns, the diagonal, all cells, or any axes.

``sum mean max min argmax argmin median quantile(q)`` see every cell, ``nnz`` counts cells that are
not zero; ``count avg count_distinct first last`` see the entries, cells that differ from the fill.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tensorel.algebra import ops
from tensorel.errors import ShapeError, ValueError_
from tensorel.front.array.base import (
    Base,
    axes_of,
    call,
    formed,
    indices,
    one_axis,
    reduce_axes,
    summed,
    wrap,
)
from tensorel.front.array.convert import asarray
from tensorel.front.functions import reductions
from tensorel.front.functions.shaping import permute_dims, reshape
from tensorel.front.functions.sorting import sort
from tensorel.front.relations.attributes import differs, present
from tensorel.ir import nodes as ir
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.build import convert, minus

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Axes = tuple[int, ...]
_QUANTILE = re.compile(r"quantile\s*\(\s*([0-9.eE+-]+)\s*\)")


def aggregate(x: object, fn: str, dim: object = "all") -> Tensor:
    """See ``Tensor.aggregate``."""
    t = asarray(x)
    t, axes = _reduced(t, dim)
    quantile = _QUANTILE.fullmatch(fn.strip())
    if quantile:
        return _quantile(t, axes, float(quantile.group(1)))
    found = AGGREGATES.get(re.sub(r"[\s_]+", "_", fn.strip().lower()))
    if found is None:
        raise ValueError_(f"aggregate: {fn!r} is not known",
                          hint=f"one of {', '.join(AGGREGATES)}, quantile(0.9)")
    return found(t, axes)


def _reduced(t: Tensor, dim: object) -> tuple[Tensor, Axes]:
    """The tensor to reduce, and the axes of it that go."""
    if dim == "all":
        return t, tuple(range(t.ndim))
    if isinstance(dim, str):
        if dim not in ("row", "col", "diag"):
            raise ValueError_(f"aggregate: dim {dim!r} is not known",
                              hint="'row', 'col', 'diag', 'all', or a tuple of axes")
        if t.ndim != 2:
            raise ShapeError(f"aggregate: {dim!r} is of matrices, and this has shape {t.shape}",
                             hint="give the axes to reduce as a tuple, e.g. dim=(1, 2)")
        if dim == "diag":
            return formed((_diagonal,), _diagonal, t), (0,)
        return t, ((1,) if dim == "row" else (0,))
    axes = dim if isinstance(dim, (tuple, list)) else (dim,)
    found = tuple(sorted(one_axis(a, t.ndim, "aggregate") for a in axes))
    if len(set(found)) < len(found):
        raise ShapeError(f"aggregate: dim {dim} names an axis twice")
    return t, found


def _diagonal(t: Base) -> ir.Tensor:
    (i,) = indices(1)
    return ir.Lambda(axes_of((min(t.node.shape),)), ir.Read(t.node, (i, i)))


# -- over entries --------------------------------------------------------------------------------
def _entries(t: Tensor) -> Tensor:
    """Which cells are entries."""
    return formed((_entries,), _present, t)


def _present(t: Base) -> ir.Tensor:
    shape = t.node.shape
    return ir.Lambda(axes_of(shape), present(t, ir.Read(t.node, indices(len(shape)))))


def _count(t: Tensor, axes: Axes) -> Tensor:
    return reductions.sum(_entries(t), axes)


def _average(t: Tensor, axes: Axes) -> Tensor:
    return reductions.mean(t, axes, where=_entries(t))


def _nonzero(t: Tensor, axes: Axes) -> Tensor:
    return reductions.count_nonzero(t, axes)


def _arg(op: Callable[..., Tensor]) -> Callable[[Tensor, Axes], Tensor]:
    """Positions along the reduced axes together, in C order."""

    def found(t: Tensor, axes: Axes) -> Tensor:
        return op(*_one_axis(t, axes))

    return found


def _one_axis(t: Tensor, axes: Axes) -> tuple[Tensor, int]:
    """The tensor with the reduced axes as one, the last."""
    if len(axes) == 1:
        return t, axes[0]
    kept = [k for k in range(t.ndim) if k not in axes]
    turned = permute_dims(t, (*kept, *axes)) if kept else t
    shape = (*(t.shape[k] for k in kept), prod(t.shape[k] for k in axes))
    return reshape(turned, shape), len(kept)


def _end(op: ops.Operator) -> Callable[[Tensor, Axes], Tensor]:
    """The entry at the least (``minimum``) or largest position, in C order; fill where there is
    none."""

    def found(t: Tensor, axes: Axes) -> Tensor:
        flat, axis = _one_axis(t, axes)
        none = flat.shape[axis] if op is ops.minimum else -1
        kept = indices(flat.ndim - 1)
        (r,) = summed(1)
        at = (*kept[:axis], r, *kept[axis:])
        entry = ir.Read(flat.node, at)
        place = ir.Call(ops.where, (present(t, entry), r, ir.const(none, ir.INT64)))
        shape = (*flat.shape[:axis], *flat.shape[axis + 1 :])
        over = reduce_axes((flat.shape[axis],))
        first = wrap(ir.Lambda(axes_of(shape), ir.Reduce(op, over, place)))
        p = ir.Read(first.node, kept)
        there = ir.Call(ops.not_equal, (p, ir.const(none, ir.INT64)))
        value = ir.Read(flat.node, (*kept[:axis], p, *kept[axis:]))
        return wrap(ir.Lambda(axes_of(shape), ir.Call(
            ops.where, (there, value, fill_of(t.node)))))

    return found


def _distinct(t: Tensor, axes: Axes) -> Tensor:
    """Entries that differ from the one before them in sorted order; nan is one value."""
    flat, axis = _one_axis(t, axes)
    if not flat.shape[axis]:
        return _count(t, axes)
    ranked = sort(flat, axis)
    kept = indices(flat.ndim)
    here = ir.Read(ranked.node, kept)
    before = ir.Read(ranked.node, (*kept[:axis], minus(kept[axis], 1), *kept[axis + 1 :]))
    new = call(ops.not_equal, here, before)
    if t.dtype.kind in "fc":
        both_nan = ir.Call(ops.logical_and, (_nan(here), _nan(before)))
        new = ir.Call(ops.logical_and, (new, ir.Call(ops.logical_not, (both_nan,))))
    start = ir.Call(ops.equal, (kept[axis], ir.const(0, ir.INT64)))
    counted = ir.Call(ops.logical_and, (
        differs(here, fill_of(t.node)), ir.Call(ops.logical_or, (start, new))))
    cells = wrap(ir.Lambda(axes_of(flat.shape), counted))
    return reductions.sum(cells, axis)


def _nan(e: ir.Expr) -> ir.Expr:
    return ir.Call(ops.not_equal, (e, e))


# -- over sorted cells ---------------------------------------------------------------------------
def _median(t: Tensor, axes: Axes) -> Tensor:
    return _quantile(t, axes, 0.5)


def _quantile(t: Tensor, axes: Axes, q: float) -> Tensor:
    """Between the two nearest cells in sorted order, as NumPy has it; nan if a cell is nan."""
    if not 0.0 <= q <= 1.0:
        raise ValueError_(f"aggregate: the quantile {q} is not between 0 and 1")
    if t.dtype.kind == "c":
        raise ValueError_("aggregate: complex numbers have no quantiles", hint="take abs first")
    flat, axis = _one_axis(t, axes)
    count = flat.shape[axis]
    if not count:
        raise ShapeError(f"aggregate: no cells of shape {t.shape} have a quantile")
    ranked = sort(flat, axis)
    kept = indices(flat.ndim - 1)
    place = q * (count - 1)
    low = int(place)
    share = place - low

    def at(k: int) -> ir.Expr:
        read = ir.Read(ranked.node, (*kept[:axis], ir.const(k, ir.INT64), *kept[axis:]))
        return convert(read, ops.FLOAT64) if t.dtype.kind in "biu" else read

    body = at(low)
    if share:
        above = at(min(low + 1, count - 1))
        weight = ir.const(share, body.dtype)
        gap = ir.Call(ops.multiply, (ir.Call(ops.subtract, (above, body)), weight))
        same = ir.Call(ops.equal, (above, body))  # inf - inf is nan
        body = ir.Call(ops.where, (same, body, ir.Call(ops.add, (body, gap))))
    if body.dtype.kind == "f" and t.dtype.kind == "f":
        last = at(count - 1)
        body = ir.Call(ops.where, (_nan(last), last, body))
    shape = (*flat.shape[:axis], *flat.shape[axis + 1 :])
    return wrap(ir.Lambda(axes_of(shape), body))


AGGREGATES: dict[str, Callable[[Tensor, Axes], Tensor]] = {
    "sum": reductions.sum, "mean": reductions.mean, "max": reductions.max, "min": reductions.min,
    "argmax": _arg(reductions.argmax), "argmin": _arg(reductions.argmin), "median": _median,
    "nnz": _nonzero, "count": _count, "avg": _average, "count_distinct": _distinct,
    "first": _end(ops.minimum), "last": _end(ops.maximum),
}
