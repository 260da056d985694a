"""Reductions along axes, with NumPy's dtypes and corner cases."""

from __future__ import annotations

import builtins
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import bulk, ops
from tensorel.errors import ShapeError, TypeError_, UnsupportedError, ValueError_
from tensorel.front.array.base import (
    Base,
    Exprs,
    Shape,
    axes_of,
    broadcast,
    call,
    formed,
    indices,
    one_axis,
    read,
    reduce_axes,
    some_axes,
    summed,
    wrap,
    zero_of,
)
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import entry_of
from tensorel.front.functions.einsum import FUNCTIONS
from tensorel.front.functions.elementwise import unary
from tensorel.front.functions.elementwise import where as choose_entries
from tensorel.ir import analysis
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.ir.extents import MAX_COUNT, check_count
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

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
    initial: object, name: str, where: object = True,
) -> Tensor:
    t: Tensor = x if isinstance(x, Base) else asarray(x)  # type: ignore[assignment]
    axes = some_axes(axis, t.ndim, name)
    if where is not True:
        assert op.identity is not None
        nothing = np.asarray(op.identity(t.dtype)).astype(t.dtype)[()]
        t = choose_entries(_mask(where, t, name), t, nothing)
    if initial is None:
        return formed((op, axes, keepdims, dtype), partial(_folded, op, axes, keepdims, dtype), t,
                      takes_extents=True)
    whole = _folded(op, axes, keepdims, dtype, t)
    assert isinstance(whole, ir.Lambda)
    first = entry_of(initial, whole.body.dtype, name)
    return wrap(ir.Lambda(whole.axes, call(op, whole.body, first)))


def _folded(op: ops.Operator, axes: Shape, keepdims: bool, dtype: ops.DType | None, t: Base
            ) -> ir.Tensor:
    node = t.node
    frame = Frame(node.shape, axes, keepdims)
    if op is ops.add and node.dtype == ir.BOOL and dtype == _INT64 and frame.count > MAX_COUNT \
            and bool(analysis.fill(node).value):
        check_count(frame.count, f"sum of shape {node.shape}, whose fill is true")
    entry = ir.Read(node, frame.at())
    body = frame.reduce(op, entry if dtype is None else convert(entry, dtype))
    return ir.Lambda(axes_of(frame.result), body)


def _mask(where: object, t: Tensor, name: str) -> Tensor:
    """Which entries a reduction sees."""
    mask = asarray(where)
    if mask.dtype.kind != "b":
        raise TypeError_(f"{name}: where= is a mask of booleans, not of {mask.dtype}")
    if broadcast(name, t.shape, mask.shape) != t.shape:
        raise ShapeError(f"{name}: the mask of shape {mask.shape} does not fit shape {t.shape}")
    return mask


def accumulator(dtype: ops.DType, given: object) -> ops.DType:
    """The dtype in which sums and products are computed: small integers are widened."""
    if given is not None:
        return ops.check_dtype(given)
    if dtype.kind in "bi":
        return _INT64
    return _UINT64 if dtype.kind == "u" else dtype


def sum(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
        initial: object = None, where: object = True) -> Tensor:
    """Sum along axes (None: all), of the entries where a mask holds if one is given.

    >>> import tensorel as tr
    >>> int(tr.sum([[1, 2], [3, 4]]))
    10
    """
    t = asarray(x)
    return _fold(ops.add, t, axis, keepdims, accumulator(t.dtype, dtype), initial, "sum", where)


def prod(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
         initial: object = None, where: object = True) -> Tensor:
    """Product along axes."""
    t = asarray(x)
    return _fold(ops.multiply, t, axis, keepdims, accumulator(t.dtype, dtype), initial, "prod",
                 where)


def _extreme(
    op: ops.Operator, x: object, axis: AxisLike, keepdims: bool, initial: object, where: object,
    name: str,
) -> Tensor:
    t = asarray(x)
    if initial is None:
        if where is not True:
            raise ValueError_(f"{name} of what where= leaves, which may be nothing",
                              hint="give initial= as well")
        _refuse_empty(t.shape, some_axes(axis, t.ndim, name), name)
    return _fold(op, t, axis, keepdims, None, initial, name, where)


def _refuse_empty(shape: Shape, axes: Shape, name: str) -> None:
    for k in axes:
        if shape[k] == 0:
            raise ShapeError(
                f"{name}: axis {k} of shape {shape} has no entries",
                hint=f"the {name} of nothing is not defined",
            )


def min(x: object, axis: AxisLike = None, keepdims: bool = False,
        initial: object = None, where: object = True) -> Tensor:
    """Smallest entry along axes."""
    return _extreme(ops.minimum, x, axis, keepdims, initial, where, "min")


def max(x: object, axis: AxisLike = None, keepdims: bool = False,
        initial: object = None, where: object = True) -> Tensor:
    """Largest entry along axes."""
    return _extreme(ops.maximum, x, axis, keepdims, initial, where, "max")


def any(x: object, axis: AxisLike = None, keepdims: bool = False, where: object = True) -> Tensor:
    """Whether some entry along axes is true."""
    return _fold(ops.logical_or, x, axis, keepdims, ir.BOOL, None, "any", where)


def all(x: object, axis: AxisLike = None, keepdims: bool = False, where: object = True) -> Tensor:
    """Whether each entry along axes is true."""
    return _fold(ops.logical_and, x, axis, keepdims, ir.BOOL, None, "all", where)


def count_nonzero(x: object, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Number of entries that are not zero."""
    t = asarray(x)
    frame = Frame(t.shape, some_axes(axis, t.ndim, "count_nonzero"), keepdims)
    entry = ir.Read(t.node, frame.at())
    test = entry if entry.dtype == ir.BOOL else call(ops.not_equal, entry, zero_of(entry.dtype))
    if bool(analysis.fill(t.node).value):
        check_count(frame.count, f"count_nonzero of shape {t.shape}, whose fill is not zero")
    return frame.tensor(frame.reduce(ops.add, convert(test, _INT64)))


def _mean_dtype(dtype: ops.DType, given: object) -> ops.DType:
    if given is not None:
        return ops.check_dtype(given)
    return ops.FLOAT64 if dtype.kind in "biu" else dtype


def mean(x: object, axis: AxisLike = None, dtype: object = None,
         keepdims: bool = False, where: object = True) -> Tensor:
    """Arithmetic mean along axes; as in NumPy, a given dtype is that of the sum."""
    t = asarray(x)
    into = _mean_dtype(t.dtype, dtype)
    if into.kind == "b":
        raise UnsupportedError("mean in bool is not known", hint="use any")
    work = into if into.kind in "fc" else ops.FLOAT64
    frame = Frame(t.shape, some_axes(axis, t.ndim, "mean"), keepdims)
    entry = convert(ir.Read(t.node, frame.at()), into)
    if where is True:
        total = convert(frame.reduce(ops.add, entry), work)
        return frame.tensor(convert(
            ir.Call(ops.divide, (total, _number(frame.count, work))), into))
    test = read(_mask(where, t, "mean"), frame.at(), t.shape)
    total = frame.reduce(ops.add, ir.Call(ops.where, (test, entry, zero_of(into))))
    count = frame.reduce(ops.add, convert(test, _INT64))
    body = ir.Call(ops.divide, (convert(total, work), convert(count, work)))
    # The mean of no entries is nan, also where no entry is stored, which would annihilate 0 / 0.
    none = call(ops.equal, count, zero_of(_INT64))
    return frame.tensor(convert(ir.Call(ops.where, (none, ir.const(math.nan, work), body)), into))


def _number(count: float, dtype: ops.DType) -> ir.Const:
    return ir.const(analysis.as_float(count), dtype)


def var(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
        correction: float | None = None, ddof: float | None = None) -> Tensor:
    """Variance along axes; the divisor is the number of entries less ``correction``."""
    less = _correction(correction, ddof)
    t = asarray(x)
    work = _mean_dtype(t.dtype, dtype)
    if dtype is not None and (work.kind != "f" or t.dtype.kind == "c"):
        raise UnsupportedError(f"a variance of {t.dtype} in {work} is not known",
                               hint="name none, or a float dtype for real entries")
    frame = Frame(t.shape, some_axes(axis, t.ndim, "var"), keepdims)
    center = mean(t, frame.axes, work)
    middle = ir.Read(center.node, tuple(frame.kept[p] for p in frame.place.values()))
    total = _squares(t, frame, middle, work)
    real = total.dtype
    left = builtins.max(frame.count - less, 0)
    body = ir.Call(ops.divide, (total, _number(left, real)))
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
    fits = frame.count <= MAX_COUNT
    found = frame.reduce(ops.add, convert(differs, _INT64))
    absent = call(ops.subtract, ir.const(frame.count, _INT64), found) if fits else call(
        ops.subtract, _number(frame.count, ops.FLOAT64), convert(found, ops.FLOAT64))
    rest = _square(call(ops.subtract, convert(fill, work), middle))
    counted = ir.Call(ops.multiply, (convert(absent, rest.dtype), rest))
    # Under a condition: without absent entries, 0 * inf must not make a nan.
    none = call(ops.equal, absent, zero_of(absent.dtype))
    return ir.Call(ops.add, (visited, ir.Call(ops.where, (none, zero, counted))))


def _square(e: ir.Expr) -> ir.Expr:
    if e.dtype.kind == "c":
        return ir.Call(ops.square, (call(ops.absolute, e),))
    return ir.Call(ops.square, (e,))


def _is_dense(t: Tensor) -> bool:
    data = t.node.data if isinstance(t.node, ir.Source) else None
    return isinstance(data, Stored) and data.format.is_dense


def _correction(correction: float | None, ddof: float | None) -> float:
    if correction is not None and ddof:
        raise ValueError_("give correction or ddof, not both")
    return (ddof or 0) if correction is None else correction


def std(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False, *,
        correction: float | None = None, ddof: float | None = None) -> Tensor:
    """Standard deviation along axes."""
    return unary(ops.sqrt, var(x, axis, dtype, keepdims, correction=correction, ddof=ddof))


def _arg(op: bulk.BulkOperator, x: object, axis: int | None, keepdims: bool) -> Tensor:
    t = asarray(x)
    shape = t.shape
    k = None if axis is None else one_axis(axis, t.ndim, op.name)
    axes = tuple(range(t.ndim)) if k is None else (k,)
    _refuse_empty(shape, axes, op.name)
    found = wrap(ir.Bulk(op, (t.node,), (k,)))
    if not keepdims:
        return found
    frame = Frame(shape, axes, True)
    return frame.tensor(ir.Read(found.node, tuple(frame.kept[p] for p in frame.place.values())))


def argmin(x: object, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first smallest entry (None: in the flattened tensor)."""
    return _arg(bulk.argmin, x, axis, keepdims)


def argmax(x: object, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first largest entry (None: in the flattened tensor)."""
    return _arg(bulk.argmax, x, axis, keepdims)


FUNCTIONS.update({
    sum: ops.add, prod: ops.multiply, min: ops.minimum, max: ops.maximum,
    any: ops.logical_or, all: ops.logical_and,
})
FUNCTIONS.update({
    np.sum: ops.add, np.prod: ops.multiply, np.min: ops.minimum, np.max: ops.maximum,
    np.any: ops.logical_or, np.all: ops.logical_and,
})


class Reductions(Base):
    """The methods of this chapter: its functions, of a tensor."""

    __slots__ = ()

    sum, prod, min, max, any, all = sum, prod, min, max, any, all
    mean, var, std, count_nonzero = mean, var, std, count_nonzero
    argmin, argmax = argmin, argmax


__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std",
    "sum", "var",
]
