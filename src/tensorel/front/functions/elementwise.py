"""Elementwise operators: NumPy's and the Array API's names, broadcasting and promotion."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ValueError_
from tensorel.front.array.base import (
    Base,
    axes_of,
    broadcast,
    call,
    choose,
    formed,
    indices,
    read,
    wrap,
)
from tensorel.front.array.convert import asarray, copied, to_device_check
from tensorel.front.array.scalars import Tracer, check_cast, is_weak, literal, power_with, weak
from tensorel.front.array.scalars import where as traced_where
from tensorel.front.labels.alignment import aligned, broadcast_places
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Operand = Base | ir.Const


def _strong(x: object) -> Operand:
    """A tensor, or the literal of a NumPy scalar or 0-d array."""
    if isinstance(x, Base):
        return x
    if isinstance(x, (np.generic, np.ndarray)) and x.ndim == 0:
        return ir.const(x, ops.check_dtype(x.dtype))
    return asarray(x)


def _entry(x: Operand, at: tuple[ir.Expr, ...], shape: tuple[int, ...]) -> ir.Expr:
    return x if isinstance(x, ir.Const) else read(x, at, shape)


def unary(op: ops.Operator, x: object) -> Tensor:
    """``op`` of every entry."""
    t = x if isinstance(x, Base) else asarray(x)
    return formed((op,), partial(_mapped, op), t, takes_extents=True)


def _mapped(op: ops.Operator, t: Base) -> ir.Tensor:
    shape = t.node.shape
    return ir.Lambda(axes_of(shape), call(op, ir.Read(t.node, indices(len(shape)))))


def binary(op: ops.Operator, a: object, b: object) -> Tensor:
    """``op`` of the entries of two tensors or scalars, broadcast."""
    left = a if isinstance(a, Base) else None if is_weak(a) else _strong(a)
    right = b if isinstance(b, Base) else None if is_weak(b) else _strong(b)
    if right is None:
        if left is None:
            left = literal(a)
        elif op is ops.power and isinstance(left, Base):
            return _power(left, b)
        right = weak(b, left.dtype, op)
    elif left is None:
        left = weak(a, right.dtype, op)
    return _combine(op, left, right)


def _combine(op: ops.Operator, left: Operand, right: Operand) -> Tensor:
    if isinstance(left, ir.Const):
        if isinstance(right, ir.Const):
            return wrap(_combined(op, left, right))
        return formed((op, "left"), partial(_turned, op), right, values=(left,),
                      takes_extents=True)
    if isinstance(right, ir.Const):
        return formed((op, "right"), partial(_combined, op), left, values=(right,),
                      takes_extents=True)
    if left.program.is_labelled or right.program.is_labelled:
        left, right = aligned(op.name, op, (left, right), broadcast_places(left, right))
    return formed((op,), partial(_combined, op), left, right, takes_extents=True)


def _turned(op: ops.Operator, right: Operand, left: Operand) -> ir.Tensor:
    return _combined(op, left, right)


def _combined(op: ops.Operator, left: Operand, right: Operand) -> ir.Tensor:
    if isinstance(left, ir.Const):
        shape = () if isinstance(right, ir.Const) else right.node.shape
    elif isinstance(right, ir.Const):
        shape = left.node.shape
    else:
        shape = left.node.shape
        if shape != right.node.shape:
            shape = broadcast(op.name, shape, right.node.shape)
    at = indices(len(shape))
    return ir.Lambda(axes_of(shape), call(op, _entry(left, at, shape), _entry(right, at, shape)))


def _power(base: Base, exponent: object) -> Tensor:
    found = power_with(base.dtype, exponent)
    if isinstance(found, ir.Const):
        return _combine(ops.power, base, found)
    shape = base.node.shape
    return wrap(ir.Lambda(axes_of(shape), found(ir.Read(base.node, indices(len(shape))))))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """``x`` where the condition holds, else ``y``.

    >>> import tensorel as tr
    >>> tr.where(tr.asarray([True, False]), 1, 2).to_numpy().tolist()
    [1, 2]
    """
    if x is None and y is None:
        return asarray(condition).nonzero()
    if x is None or y is None:
        raise ValueError_("where: give both branches, or none for the places of the condition")
    if isinstance(condition, Tracer) or isinstance(x, Tracer) or isinstance(y, Tracer):
        return traced_where(condition, x, y)
    test = asarray(condition)
    a = None if is_weak(x) else _strong(x)
    b = None if is_weak(y) else _strong(y)
    if a is None and b is None:
        dtype = ops.check_dtype(np.result_type(x, y))
        a, b = ir.const(x, dtype), ir.const(y, dtype)
    elif a is None:
        assert b is not None
        a = weak(x, b.dtype, ops.where)
    elif b is None:
        b = weak(y, a.dtype, ops.where)
    assert b is not None
    test, a, b = _aligned_where(test, a, b)
    tensors = [t for t in (a, b) if isinstance(t, Base)]
    turned = isinstance(a, ir.Const) and len(tensors) == 1
    return formed((ops.where, len(tensors), turned), partial(_chosen, turned), test, *tensors,
                  values=tuple([t for t in (a, b) if isinstance(t, ir.Const)]),
                  takes_extents=True)


def _chosen(turned: bool, test: Base, *branches: Operand) -> ir.Tensor:
    """The choice between two branches, tensors first: ``turned``: they were written in the other
    order."""
    a, b = reversed(branches) if turned else branches
    shapes = [t.node.shape for t in (a, b) if not isinstance(t, ir.Const)]
    shape = broadcast("where", test.node.shape, *shapes)
    at = indices(len(shape))
    return ir.Lambda(axes_of(shape), choose(
        read(test, at, shape), _entry(a, at, shape), _entry(b, at, shape)))


def _aligned_where(test: Tensor, a: Operand, b: Operand) -> tuple[Tensor, Operand, Operand]:
    tensors = [t for t in (test, a, b) if isinstance(t, Base)]
    if any(t.program.is_labelled for t in tensors):
        found = aligned("where", ops.where, tensors, broadcast_places(*tensors))
        rest = iter(found[1:])
        a, b = (next(rest) if isinstance(t, Base) else t for t in (a, b))
        test = found[0]
    return test, a, b


def astype(x: object, dtype: object, *, copy: bool | None = None, casting: str = "unsafe",
           device: object = None) -> Tensor:
    """The entries converted to ``dtype``, where ``casting`` allows it as in NumPy; ``copy=True``:
    as they are now, whatever is written later to arrays that were handed in."""
    to_device_check(device)
    t = asarray(x)
    into = ops.check_dtype(dtype)
    if casting != "unsafe":
        check_cast("astype", t.dtype, into, casting)
    if t.dtype != into:
        shape = t.node.shape
        body = convert(ir.Read(t.node, indices(len(shape))), into)
        t = wrap(ir.Lambda(axes_of(shape), body))
    return copied(t) if copy else t  # type: ignore[return-value]


__all__ = ["astype", "where"]
