"""``tr.map`` and ``tr.reduce``: Python functions of scalars, traced to expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.array.base import axes_of, broadcast, indices, read, some_axes, wrap
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import Tracer, traced
from tensorel.front.functions.einsum import as_operator, find_operator
from tensorel.front.functions.reductions import AxisLike, Frame
from tensorel.front.labels.alignment import aligned, broadcast_places
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.ir.monoids import pair, traced_operator

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def map(f: Callable[..., Any], *xs: object) -> Tensor:
    """``f`` of the entries of tensors, broadcast; f is traced once with scalars.

    >>> import tensorel as tr
    >>> tr.map(lambda x, y: tr.where(x > y, x - y, 0), [1, 5], [3, 3]).to_numpy().tolist()
    [0, 2]
    """
    if not callable(f):
        raise TypeError_("map: the first argument is a function of scalars")
    if not xs:
        raise TypeError_("map: give one tensor per argument of the function")
    tensors = [asarray(x) for x in xs]
    if any(t.program.is_labelled for t in tensors):
        tensors = aligned("map", ops.where, tensors, broadcast_places(*tensors))
    shape = broadcast("map", *(t.shape for t in tensors))
    at = indices(len(shape))
    body = traced(f(*(Tracer(read(t, at, shape)) for t in tensors)))
    return wrap(ir.Lambda(axes_of(shape), body))


def reduce(f: Any, x: object, axis: AxisLike = None, identity: Any = None,
           keepdims: bool = False, *, commutative: bool = True) -> Tensor:
    """Entries along axes combined by ``f``, an associative function of two scalars.

    ``identity`` is the value with ``f(identity, x) == x``; known operators have their own.

    >>> import tensorel as tr
    >>> tr.reduce(lambda a, b: a + b - a * b, [0.5, 0.5], identity=0.0).item()
    0.75
    """
    t = asarray(x)
    frame = Frame(t.shape, some_axes(axis, t.ndim, "reduce"), keepdims)
    op, dtype = _monoid(f, t.dtype, identity, commutative)
    entry = convert(ir.Read(t.node, frame.at()), dtype)
    return frame.tensor(frame.reduce(op, entry))


def _monoid(f: Any, dtype: ops.DType, identity: Any, commutative: bool) -> tuple[
        ops.Operator, ops.DType]:
    if find_operator(f) is not None:
        return as_operator(f, ops.add, monoid=True), dtype
    if not callable(f):
        raise TypeError_("reduce: the first argument is a function of two scalars")
    body = _trace_pair(f, dtype)
    if body.dtype != dtype:
        dtype = np.result_type(dtype, body.dtype)
        body = convert(_trace_pair(f, dtype), dtype)
    known = body.op if isinstance(body, ir.Call) and body.args == pair(dtype) else None
    if known is not None and known.is_monoid:
        return known, dtype
    if identity is None:
        raise TypeError_(
            "reduce: the value that the function leaves as it is must be given",
            hint="e.g. tr.reduce(lambda a, b: a + b - a * b, T, identity=0)",
        )
    neutral = ir.const(np.asarray(identity).astype(dtype)[()], dtype)
    return traced_operator(body, neutral, commutative), dtype


def _trace_pair(f: Callable[..., Any], dtype: ops.DType) -> ir.Expr:
    a, b = pair(dtype)
    return traced(f(Tracer(a), Tracer(b)))
