"""``tr.map`` and ``tr.reduce``: Python functions of scalars, traced to expressions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.base import axes_of, broadcast, indices, read, some_axes, wrap
from tensorel.front.convert import asarray
from tensorel.front.einsum import as_operator, find_operator
from tensorel.front.reductions import AxisLike, Frame
from tensorel.front.scalars import Tracer, traced
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

if TYPE_CHECKING:
    from tensorel.front.array import Tensor


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
    known = body.op if isinstance(body, ir.Call) and body.args == _pair(dtype) else None
    if known is not None and known.is_monoid:
        return known, dtype
    if identity is None:
        raise TypeError_(
            "reduce: the value that the function leaves as it is must be given",
            hint="e.g. tr.reduce(lambda a, b: a + b - a * b, T, identity=0)",
        )
    return _operator(body, np.asarray(identity).astype(dtype).item(), commutative), dtype


def _pair(dtype: ops.DType) -> tuple[ir.Local, ir.Local]:
    return ir.Local("a", dtype), ir.Local("b", dtype)


def _trace_pair(f: Callable[..., Any], dtype: ops.DType) -> ir.Expr:
    a, b = _pair(dtype)
    return traced(f(Tracer(a), Tracer(b)))


@lru_cache(maxsize=1024)
def _operator(body: ir.Expr, identity: Any, commutative: bool) -> ops.Operator:
    """The monoid of a traced body over a and b. Equal bodies are one node, hence one operator;
    its name is made from its content, so that kernel caches never mistake it."""
    text = f"{describe(body)};{identity!r};{commutative}"
    name = "user_" + hashlib.sha256(text.encode()).hexdigest()[:16]

    def expand(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        return _replace(body, {"a": a, "b": b})

    def meaning(a: Any, b: Any) -> Any:
        return _numpy(body, {"a": np.asarray(a), "b": np.asarray(b)})

    return ops.user_monoid(name, expand, meaning, identity, commutative=commutative)


def _fold(root: ir.Expr, leaf: Callable[[ir.Expr], Any],
          inner: Callable[[ir.Call, list[Any]], Any]) -> Any:
    """A fold over the expression of a traced function: calls over literals and variables."""
    memo: dict[ir.Node, Any] = {}
    for node in ir.postorder(root):
        if isinstance(node, ir.Call):
            memo[node] = inner(node, [memo[a] for a in node.args])
        else:
            memo[node] = leaf(node)  # type: ignore[arg-type]
    return memo[root]


def _replace(body: ir.Expr, values: dict[str, ir.Expr]) -> ir.Expr:
    found: ir.Expr = _fold(
        body,
        lambda e: values[e.name] if isinstance(e, ir.Local) else e,
        lambda e, args: ir.Call(e.op, tuple(args)),
    )
    return found


def _numpy(body: ir.Expr, values: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):
        return _fold(
            body,
            lambda e: values[e.name] if isinstance(e, ir.Local) else _value(e),
            lambda e, args: np.asarray(e.op.meaning(*args)).astype(e.dtype, copy=False),
        )


def _value(e: ir.Expr) -> Any:
    if isinstance(e, ir.Const):
        return e.value
    raise TypeError_("reduce: the function may use its two arguments and numbers only",
                     hint="it must not close over other traced values")


def describe(body: ir.Expr) -> str:
    """The content of a traced expression as text, the same in every process."""
    def leaf(e: ir.Expr) -> str:
        if isinstance(e, ir.Const):
            return f"{e.bits.hex()}:{e.dtype.name}"
        return f"{e.name}:{e.dtype.name}" if isinstance(e, ir.Local) else repr(e)

    text: str = _fold(body, leaf, lambda e, args: f"{e.op.name}({','.join(args)})")
    return text
