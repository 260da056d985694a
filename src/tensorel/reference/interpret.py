"""Evaluation of tensors: each expression becomes an array with one named axis per free index."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorel.errors import EngineError, TypeError_
from tensorel.ir.analysis import apply, tensors
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Bulk,
    Call,
    Const,
    DType,
    Expr,
    Index,
    Lambda,
    Node,
    Operator,
    Read,
    Reduce,
    Source,
    Tensor,
    children,
)

Array = npt.NDArray[Any]
Data = Callable[[Source], Array]

#: A reduction whose body has more entries than this is evaluated piece by piece.
MAX_ENTRIES = 2**20


class Span(NamedTuple):
    """The values lo, lo+1, ..., lo+size-1 that an index takes."""

    lo: int
    size: int


class Named(NamedTuple):
    """An array whose axes are named; absent names are constant directions."""

    names: tuple[str, ...]
    array: Array


Scope = Mapping[str, Span]
Values = Mapping[Tensor, Array]


def evaluate(tensor: Tensor, data: Data | None = None) -> Array:
    """The dense value of ``tensor``; ``data`` gives the dense array of a Source.

    >>> evaluate(Lambda((Axis("i", 3),), Index("i"))).tolist()
    [0, 1, 2]
    """
    return evaluate_all([tensor], data)[0]


def evaluate_all(roots: Sequence[Tensor], data: Data | None = None) -> list[Array]:
    """Several tensors with shared work."""
    values: dict[Tensor, Array] = {}
    with np.errstate(all="ignore"):
        for tensor in tensors(*roots):
            values[tensor] = _tensor(tensor, values, data or dense_data)
    return [values[r] for r in roots]


def evaluate_expr(
    expr: Expr, extents: Mapping[str, int], data: Data | None = None
) -> Array:
    """``expr`` for all values of the indices, an axis for each in the order of ``extents``."""
    return evaluate(Lambda(tuple(Axis(n, e) for n, e in extents.items()), expr), data)


def dense_data(source: Source) -> Array:
    """The dense array of a Source that holds an ndarray or offers ``to_dense()``."""
    found = source.data
    if isinstance(found, np.ndarray):
        return found
    convert = getattr(found, "to_dense", None)
    if convert is None:
        raise TypeError_(
            f"the reference interpreter has no data for a source of shape {source.shape}",
            hint="pass data=, a function from Source to ndarray",
        )
    return np.asarray(convert())


def _tensor(tensor: Tensor, values: Values, data: Data) -> Array:
    match tensor:
        case Source():
            found = np.asarray(data(tensor))
            if found.shape != tensor.shape or found.dtype != tensor.dtype:
                raise EngineError(
                    f"source is {tensor.dtype}{tensor.shape}, its data {found.dtype}{found.shape}"
                )
            return found
        case Lambda():
            scope = {a.name: Span(0, a.extent) for a in tensor.axes}
            names = tuple(a.name for a in tensor.axes)
            body = _expr(tensor.body, scope, values)
            return np.ascontiguousarray(_spread(body, names, scope)).reshape(tensor.shape)
        case Bulk():
            return tensor.op.apply([values[a] for a in tensor.args], tensor.params)
        case _:
            raise EngineError(f"no meaning for {type(tensor).__name__}")


# -- expressions -----------------------------------------------------------------------------
def _expr(root: Expr, scope: Scope, values: Values) -> Named:
    memo: dict[Node, Named] = {}
    stack: list[Expr] = [root]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        kids = [] if isinstance(node, Reduce) else [
            k for k in children(node) if isinstance(k, Expr) and k not in memo
        ]
        if kids:
            stack.extend(kids)
            continue
        memo[node] = _step(node, memo, scope, values)
        stack.pop()
    return memo[root]


def _step(node: Expr, memo: Mapping[Node, Named], scope: Scope, values: Values) -> Named:
    match node:
        case Const():
            return Named((), np.asarray(node.value))
        case Index():
            span = scope[node.name]
            return Named((node.name,), np.arange(span.lo, span.lo + span.size, dtype=INT64))
        case Read():
            return _read(values[node.tensor], [memo[i] for i in node.indices])
        case Call():
            names, arrays = _align([memo[a] for a in node.args])
            return Named(names, np.asarray(apply(node.op, *arrays)))
        case Reduce():
            return _reduce(node.op, node.axes, node.body, scope, values)
        case _:
            raise EngineError(f"no meaning for {type(node).__name__} in a program")


def _align(parts: Sequence[Named]) -> tuple[tuple[str, ...], list[Array]]:
    """The arrays with one axis for each name that any of them has."""
    names = tuple(sorted({n for p in parts for n in p.names}))
    return names, [_place(p, names) for p in parts]


def _place(part: Named, names: tuple[str, ...]) -> Array:
    order = [part.names.index(n) for n in names if n in part.names]
    moved = part.array.transpose(order)
    return moved[tuple(slice(None) if n in part.names else None for n in names)]


def _spread(part: Named, names: tuple[str, ...], scope: Scope) -> Array:
    """The array with exactly these axes in full extent."""
    return np.broadcast_to(_place(part, names), tuple(scope[n].size for n in names))


def _read(array: Array, indices: Sequence[Named]) -> Named:
    """Out-of-range reads only occur where the program does not look: any value will do."""
    if not indices:
        return Named((), array)
    names, parts = _align(indices)
    shape = np.broadcast_shapes(*(p.shape for p in parts))
    if array.size == 0:
        return Named(names, np.zeros(shape, array.dtype))
    clipped = tuple(np.clip(p.astype(np.intp), 0, n - 1) for p, n in zip(parts, array.shape))
    return Named(names, np.broadcast_to(array[clipped], shape))


# -- reductions ------------------------------------------------------------------------------
def _reduce(
    op: Operator, axes: tuple[Axis, ...], body: Expr, scope: Scope, values: Values
) -> Named:
    inner = dict(scope) | {a.name: Span(0, a.extent) for a in axes}
    kept = tuple(sorted(body.free - {a.name for a in axes}))
    return Named(kept, _pieces(op, tuple(a.name for a in axes), kept, body, inner, values))


def _pieces(
    op: Operator, over: tuple[str, ...], kept: tuple[str, ...], body: Expr, scope: Scope,
    values: Values,
) -> Array:
    size = math.prod(scope[n].size for n in {*body.free, *over})
    wide = next((n for n in over if scope[n].size > 1), None)
    if size <= MAX_ENTRIES or wide is None:
        # An axis that the body does not see is still folded over: sum(k in 3) 1 is 3.
        full = _spread(_expr(body, scope, values), kept + over, scope)
        return fold(op, full, len(kept))
    # The first wide axis is cut, so that the pieces follow each other in index order.
    lo, count = scope[wide]
    half = count // 2
    parts = [
        _pieces(op, over, kept, body, {**scope, wide: span}, values)
        for span in (Span(lo, half), Span(lo + half, count - half))
    ]
    return _apply_in(op, body.dtype, *parts)


def _apply_in(op: Operator, dtype: DType, left: Array, right: Array) -> Array:
    return np.asarray(apply(op, left, right)).astype(dtype)


def fold(op: Operator, array: Array, kept: int) -> Array:
    """The monoid over all axes from ``kept`` on, in index order, in the array's dtype."""
    dtype: DType = array.dtype
    shape = array.shape[:kept]
    count = math.prod(array.shape[kept:])
    if count == 0:
        assert op.identity is not None
        return np.full(shape, np.asarray(op.identity(dtype)).astype(dtype))
    if isinstance(op.meaning, np.ufunc):
        into, out = op.resolve(dtype, dtype)
        axes = tuple(range(kept, array.ndim))
        kind = out if into[0] == out else None
        return np.asarray(op.meaning.reduce(array, axis=axes, dtype=kind)).astype(dtype)
    flat = array.reshape(*shape, count)
    result = flat[..., 0]
    for k in range(1, count):
        result = _apply_in(op, dtype, result, flat[..., k])
    return result
