"""Reductions along axes, with NumPy's dtypes and corner cases."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, TypeError_
from tensorel.front.base import (
    Base,
    Exprs,
    Shape,
    axes_of,
    call,
    formed,
    indices,
    one_axis,
    reduce_axes,
    some_axes,
    summed,
    wrap,
    zero_of,
)
from tensorel.front.convert import asarray
from tensorel.front.einsum import FUNCTIONS
from tensorel.front.elementwise import unary
from tensorel.ir import analysis
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

AxisLike = int | tuple[int, ...] | list[int] | None
_INT64, _UINT64 = np.dtype("int64"), np.dtype("uint64")


class Frame:
    """The indices of a reduction: of the operand, of the result, and reduced ones."""

    __slots__ = ("axes", "kept", "over", "place", "result", "shape")

    def __init__(self, shape: Shape, axes: Shape, keepdims: bool) -> None:
        self.shape = shape
        self.axes = axes
        dropped = set(axes)
        self.over = reduce_axes([shape[k] for k in axes])
        result: list[int] = []
        place: dict[int, int] = {}
        for k, n in enumerate(shape):
            if k not in dropped:
                place[k] = len(result)
                result.append(n)
            elif keepdims:
                result.append(1)
        self.result: Shape = tuple(result)
        self.place = place
        self.kept: Exprs = indices(len(result))

    @property
    def count(self) -> int:
        """Entries reduced to one."""
        return math.prod(self.shape[k] for k in self.axes)

    def at(self) -> Exprs:
        """The operand's indices under the reduction."""
        reduced = dict(zip(self.axes, summed(len(self.axes))))
        return tuple([
            reduced[k] if k in reduced else self.kept[self.place[k]]
            for k in range(len(self.shape))
        ])

    def reduce(self, op: ops.Operator, body: ir.Expr) -> ir.Expr:
        return ir.Reduce(op, self.over, body) if self.over else body

    def tensor(self, body: ir.Expr) -> Tensor:
        return wrap(ir.Lambda(axes_of(self.result), body))


def _fold(
    op: ops.Operator, x: object, axis: AxisLike, keepdims: bool, dtype: ops.DType | None,
    initial: object, name: str,
) -> Tensor:
    t: Tensor = x if isinstance(x, Base) else asarray(x)  # type: ignore[assignment]
    axes = some_axes(axis, t.ndim, name)
    if initial is None:
        return formed((op, axes, keepdims, dtype), partial(_folded, op, axes, keepdims, dtype), t)
    whole = _folded(op, axes, keepdims, dtype, t)
    assert isinstance(whole, ir.Lambda)
    return wrap(ir.Lambda(whole.axes, call(op, whole.body, ir.const(initial, whole.body.dtype))))


def _folded(op: ops.Operator, axes: Shape, keepdims: bool, dtype: ops.DType | None, t: Base
            ) -> ir.Tensor:
    frame = Frame(t.node.shape, axes, keepdims)
    entry = ir.Read(t.node, frame.at())
    body = frame.reduce(op, entry if dtype is None else convert(entry, dtype))
    return ir.Lambda(axes_of(frame.result), body)


def accumulator(dtype: ops.DType, given: object) -> ops.DType:
    """The dtype that sums and products run in: small integers are widened."""
    if given is not None:
        return ops.check_dtype(given)
    if dtype.kind in "bi":
        return _INT64
    return _UINT64 if dtype.kind == "u" else dtype


def sum(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
        initial: object = None) -> Tensor:
    """Sum along axes (None: all).

    >>> import tensorel as tr
    >>> int(tr.sum([[1, 2], [3, 4]]))
    10
    """
    t = asarray(x)
    return _fold(ops.add, t, axis, keepdims, accumulator(t.dtype, dtype), initial, "sum")


def prod(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
         initial: object = None) -> Tensor:
    """Product along axes."""
    t = asarray(x)
    return _fold(ops.multiply, t, axis, keepdims, accumulator(t.dtype, dtype), initial, "prod")


def _extreme(
    op: ops.Operator, x: object, axis: AxisLike, keepdims: bool, initial: object, name: str
) -> Tensor:
    t = asarray(x)
    if initial is None:
        _refuse_empty(t.shape, some_axes(axis, t.ndim, name), name)
    return _fold(op, t, axis, keepdims, None, initial, name)


def _refuse_empty(shape: Shape, axes: Shape, name: str) -> None:
    for k in axes:
        if shape[k] == 0:
            raise ShapeError(
                f"{name}: axis {k} of shape {shape} has no entries",
                hint=f"the {name} of nothing is not defined",
            )


def min(x: object, axis: AxisLike = None, keepdims: bool = False,
        initial: object = None) -> Tensor:
    """Smallest entry along axes."""
    return _extreme(ops.minimum, x, axis, keepdims, initial, "min")


def max(x: object, axis: AxisLike = None, keepdims: bool = False,
        initial: object = None) -> Tensor:
    """Largest entry along axes."""
    return _extreme(ops.maximum, x, axis, keepdims, initial, "max")


def any(x: object, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether some entry along axes is true."""
    return _fold(ops.logical_or, x, axis, keepdims, ir.BOOL, None, "any")


def all(x: object, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether each entry along axes is true."""
    return _fold(ops.logical_and, x, axis, keepdims, ir.BOOL, None, "all")


def count_nonzero(x: object, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Number of entries that are not zero."""
    t = asarray(x)
    frame = Frame(t.shape, some_axes(axis, t.ndim, "count_nonzero"), keepdims)
    entry = ir.Read(t.node, frame.at())
    test = entry if entry.dtype == ir.BOOL else call(ops.not_equal, entry, zero_of(entry.dtype))
    return frame.tensor(frame.reduce(ops.add, convert(test, _INT64)))


def _mean_dtype(dtype: ops.DType, given: object) -> ops.DType:
    if given is not None:
        return ops.check_dtype(given)
    return ops.FLOAT64 if dtype.kind in "biu" else dtype


def mean(x: object, axis: AxisLike = None, dtype: object = None,
         keepdims: bool = False) -> Tensor:
    """Arithmetic mean along axes."""
    t = asarray(x)
    into = _mean_dtype(t.dtype, dtype)
    work = into if into.kind in "fc" else ops.FLOAT64
    frame = Frame(t.shape, some_axes(axis, t.ndim, "mean"), keepdims)
    total = frame.reduce(ops.add, convert(ir.Read(t.node, frame.at()), work))
    body = ir.Call(ops.divide, (total, ir.const(frame.count, work)))
    return frame.tensor(convert(body, into))


def var(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
        correction: float | None = None, ddof: float | None = None) -> Tensor:
    """Variance along axes; the divisor is the number of entries less ``correction``."""
    less = _correction(correction, ddof)
    t = asarray(x)
    into = _mean_dtype(t.dtype, dtype)
    work = into if into.kind in "fc" else ops.FLOAT64
    frame = Frame(t.shape, some_axes(axis, t.ndim, "var"), keepdims)
    center = mean(t, frame.axes, work)
    middle = ir.Read(center.node, tuple(frame.kept[p] for p in frame.place.values()))
    total = _squares(t, frame, middle, work)
    real = total.dtype
    body = ir.Call(ops.divide, (total, ir.const(np.maximum(frame.count - less, 0), real)))
    return frame.tensor(body)


def _squares(t: Tensor, frame: Frame, middle: ir.Expr, work: ops.DType) -> ir.Expr:
    """The sum of |x - middle|^2. Entries equal to the fill are counted, not visited: with n of
    them the sum is sum(x != fill: |x - m|^2) + n * |fill - m|^2, without cancellation."""
    raw = ir.Read(t.node, frame.at())
    spread = _square(call(ops.subtract, convert(raw, work), middle))
    if not frame.over or _is_dense(t):
        return frame.reduce(ops.add, spread)
    fill = analysis.fill(t.node)
    differs = call(ops.not_equal, raw, fill)
    zero = zero_of(spread.dtype)
    visited = frame.reduce(ops.add, ir.Call(ops.where, (differs, spread, zero)))
    found = frame.reduce(ops.add, convert(differs, _INT64))
    absent = call(ops.subtract, ir.const(frame.count, _INT64), found)
    rest = _square(call(ops.subtract, convert(fill, work), middle))
    counted = ir.Call(ops.multiply, (convert(absent, rest.dtype), rest))
    # Guarded: with no absent entries, 0 * inf must not make a nan.
    none = call(ops.equal, absent, zero_of(_INT64))
    return ir.Call(ops.add, (visited, ir.Call(ops.where, (none, zero, counted))))


def _square(e: ir.Expr) -> ir.Expr:
    if e.dtype.kind == "c":
        return ir.Call(ops.square, (call(ops.absolute, e),))
    return ir.Call(ops.square, (e,))


def _is_dense(t: Tensor) -> bool:
    data = t.node.data if isinstance(t.node, ir.Source) else None
    return isinstance(data, Stored) and data.format.is_dense


def _correction(correction: float | None, ddof: float | None) -> float:
    if correction is not None and ddof is not None:
        raise TypeError_("give correction or ddof, not both")
    given = correction if correction is not None else ddof
    return 0 if given is None else given


def std(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
        correction: float | None = None, ddof: float | None = None) -> Tensor:
    """Standard deviation along axes."""
    return unary(ops.sqrt, var(x, axis, dtype, keepdims, correction=correction, ddof=ddof))


def _arg(op: str, x: object, axis: int | None, keepdims: bool) -> Tensor:
    t = asarray(x)
    shape = t.shape
    k = None if axis is None else one_axis(axis, t.ndim, op)
    axes = tuple(range(t.ndim)) if k is None else (k,)
    _refuse_empty(shape, axes, op)
    result = tuple(n for j, n in enumerate(shape) if j not in axes)
    found = wrap(ir.Bulk(op, (t.node,), (k,), result, _INT64))
    if not keepdims:
        return found
    frame = Frame(shape, axes, True)
    return frame.tensor(ir.Read(found.node, tuple(frame.kept[p] for p in frame.place.values())))


def argmin(x: object, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first smallest entry (None: in the flattened tensor)."""
    return _arg("argmin", x, axis, keepdims)


def argmax(x: object, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first largest entry (None: in the flattened tensor)."""
    return _arg("argmax", x, axis, keepdims)


FUNCTIONS.update({
    sum: ops.add, prod: ops.multiply, min: ops.minimum, max: ops.maximum,
    any: ops.logical_or, all: ops.logical_and,
})
FUNCTIONS.update({
    np.sum: ops.add, np.prod: ops.multiply, np.min: ops.minimum, np.max: ops.maximum,
    np.any: ops.logical_or, np.all: ops.logical_and,
})


class Reductions(Base):
    """The methods of this chapter."""

    __slots__ = ()

    def sum(self, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
            initial: object = None) -> Tensor:
        """Sum along axes (None: all)."""
        return sum(self, axis, dtype, keepdims, initial)

    def prod(self, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
             initial: object = None) -> Tensor:
        """Product along axes."""
        return prod(self, axis, dtype, keepdims, initial)

    def min(self, axis: AxisLike = None, keepdims: bool = False,
            initial: object = None) -> Tensor:
        """Smallest entry along axes."""
        return min(self, axis, keepdims, initial)

    def max(self, axis: AxisLike = None, keepdims: bool = False,
            initial: object = None) -> Tensor:
        """Largest entry along axes."""
        return max(self, axis, keepdims, initial)

    def any(self, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
        """Whether some entry along axes is true."""
        return any(self, axis, keepdims)

    def all(self, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
        """Whether each entry along axes is true."""
        return all(self, axis, keepdims)

    def mean(self, axis: AxisLike = None, dtype: object = None,
             keepdims: bool = False) -> Tensor:
        """Arithmetic mean along axes."""
        return mean(self, axis, dtype, keepdims)

    def var(self, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
            correction: float | None = None, ddof: float | None = None) -> Tensor:
        """Variance along axes."""
        return var(self, axis, dtype, keepdims, correction=correction, ddof=ddof)

    def std(self, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
            correction: float | None = None, ddof: float | None = None) -> Tensor:
        """Standard deviation along axes."""
        return std(self, axis, dtype, keepdims, correction=correction, ddof=ddof)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first smallest entry."""
        return argmin(self, axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first largest entry."""
        return argmax(self, axis, keepdims)

    def count_nonzero(self, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
        """Number of entries that are not zero."""
        return count_nonzero(self, axis, keepdims)
