"""Elementwise operators: NumPy's and the Array API's names, broadcasting and promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.base import (
    Base,
    axes_of,
    broadcast,
    call,
    choose,
    indices,
    read,
    wrap,
)
from tensorel.front.convert import asarray
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

_COMPARISONS = frozenset(
    (ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal)
)
#: Results that keep the entries' dtype under a weak Python scalar, whatever their kind.
_HALF_POWERS = {2: ops.square, 0.5: ops.sqrt, -1: ops.reciprocal}


class RangeError(TypeError_, OverflowError):
    """A Python number that does not fit the dtype of the tensor it meets."""


def weak(value: bool | int | float | complex, dtype: ops.DType, op: ops.Operator) -> ir.Const:
    """A Python scalar beside entries of ``dtype`` (NEP 50: it takes their dtype if it can)."""
    into = np.result_type(dtype, value)
    if type(value) is int and into.kind in "iu":
        info = np.iinfo(into)
        if not info.min <= value <= info.max:
            return _out_of_range(value, into, op)
    return ir.const(value, into)


def _out_of_range(value: int, dtype: ops.DType, op: ops.Operator) -> ir.Const:
    # Comparisons are exact in NumPy whatever the size of the number.
    if op in _COMPARISONS:
        for wide in (np.dtype("int64"), np.dtype("uint64")):
            if np.iinfo(wide).min <= value <= np.iinfo(wide).max:
                return ir.const(value, wide)
        return ir.const(float("inf") if value > 0 else float("-inf"), ops.FLOAT64)
    raise RangeError(
        f"{op.name}: {value} does not fit in {dtype.name}",
        hint="convert the tensor first, e.g. T.astype(tr.int64)",
    )


def _is_weak(x: object) -> bool:
    kind = type(x)
    return kind is float or kind is int or kind is bool or kind is complex


def _strong(x: object) -> Tensor | ir.Const:
    """A tensor, or the literal of a NumPy scalar or 0-d array."""
    if isinstance(x, Base):
        return x  # type: ignore[return-value]
    if isinstance(x, (np.generic, np.ndarray)) and x.ndim == 0:
        return ir.const(x, ops.check_dtype(x.dtype))
    return asarray(x)


def _entry(x: Tensor | ir.Const, at: tuple[ir.Expr, ...], shape: tuple[int, ...]) -> ir.Expr:
    return x if isinstance(x, ir.Const) else read(x, at, shape)


def unary(op: ops.Operator, x: object) -> Tensor:
    """``op`` of every entry."""
    t = asarray(x)
    shape = t.node.shape
    body = call(op, ir.Read(t.node, indices(len(shape))))
    return wrap(ir.Lambda(axes_of(shape), body))


def binary(op: ops.Operator, a: object, b: object) -> Tensor:
    """``op`` of the entries of two tensors or scalars, broadcast."""
    if _is_weak(b):
        left: Tensor | ir.Const = _strong(a) if not _is_weak(a) else asarray(a)
        if op is ops.power:
            return _power_scalar(left, b)  # type: ignore[arg-type]
        right: Tensor | ir.Const = weak(b, left.dtype, op)  # type: ignore[arg-type]
    elif _is_weak(a):
        right = _strong(b)
        left = weak(a, right.dtype, op)  # type: ignore[arg-type]
    else:
        left, right = _strong(a), _strong(b)
    return _combine(op, left, right)


def _combine(op: ops.Operator, left: Tensor | ir.Const, right: Tensor | ir.Const) -> Tensor:
    if isinstance(left, ir.Const):
        shape = () if isinstance(right, ir.Const) else right.node.shape
    elif isinstance(right, ir.Const):
        shape = left.node.shape
    else:
        shape = broadcast(op.name, left.node.shape, right.node.shape)
    at = indices(len(shape))
    body = call(op, _entry(left, at, shape), _entry(right, at, shape))
    return wrap(ir.Lambda(axes_of(shape), body))


def _power_scalar(base: Tensor | ir.Const, exponent: bool | int | float | complex) -> Tensor:
    literal = weak(exponent, base.dtype, ops.power)
    dtype = np.result_type(base.dtype, literal.dtype)
    if dtype.kind in "iu" and isinstance(exponent, int) and exponent < 0:
        raise TypeError_(
            f"power: integers of dtype {dtype.name} have no negative powers",
            hint="convert to a float dtype first, or write the exponent as a float",
        )
    op = None if isinstance(exponent, bool) else _HALF_POWERS.get(exponent)  # type: ignore[arg-type]
    if op is None or (dtype.kind in "iub" and exponent != 2) or isinstance(base, ir.Const):
        return _combine(ops.power, base, literal)
    shape = base.node.shape
    entry = convert(ir.Read(base.node, indices(len(shape))), dtype)
    return wrap(ir.Lambda(axes_of(shape), ir.Call(op, (entry,))))


def where(condition: object, x: object, y: object) -> Tensor:
    """``x`` where the condition holds, else ``y``.

    >>> import tensorel as tr
    >>> tr.where(tr.asarray([True, False]), 1, 2).to_numpy().tolist()
    [1, 2]
    """
    test = asarray(condition)
    if _is_weak(x) and _is_weak(y):
        dtype = ops.check_dtype(np.result_type(x, y))  # type: ignore[arg-type]
        a: Tensor | ir.Const = ir.const(x, dtype)
        b: Tensor | ir.Const = ir.const(y, dtype)
    elif _is_weak(x):
        b = _strong(y)
        a = weak(x, b.dtype, ops.where)  # type: ignore[arg-type]
    elif _is_weak(y):
        a = _strong(x)
        b = weak(y, a.dtype, ops.where)  # type: ignore[arg-type]
    else:
        a, b = _strong(x), _strong(y)
    shapes = [t.shape for t in (a, b) if not isinstance(t, ir.Const)]
    shape = broadcast("where", test.shape, *shapes)
    at = indices(len(shape))
    body = choose(read(test, at, shape), _entry(a, at, shape), _entry(b, at, shape))
    return wrap(ir.Lambda(axes_of(shape), body))


def astype(x: object, dtype: object, *, copy: bool = True) -> Tensor:
    """The entries converted to ``dtype``."""
    t = asarray(x)
    into = ops.check_dtype(dtype)
    if t.dtype == into:
        return t
    shape = t.node.shape
    body = convert(ir.Read(t.node, indices(len(shape))), into)
    return wrap(ir.Lambda(axes_of(shape), body))
