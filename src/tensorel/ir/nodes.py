"""The calculus: expressions over named indices.

    e ::= literal | index | T[e, ...] | op(e, ...) | reduce(op, i in extent, e) | where(p, e, z)

A tensor ``T`` is a ``Source`` (stored data), a ``Lambda`` (a total function from its axes to
scalars) or a ``Bulk`` operator whose meaning is not a formula per entry (sort, top-k, ...).
A Lambda is closed: its body's free indices are its own axes. Nodes are frozen and interned, so
equality is identity and a common subexpression is one object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensorel.algebra.bulk import BulkOperator
from tensorel.algebra.ops import BOOL, DTYPES, INT64, DType, Operator, Scalar
from tensorel.errors import RangeError
from tensorel.ir.extents import check_extents
from tensorel.ir.given import Given, Numbers, is_same, lifted
from tensorel.ir.interning import Memo, Node


class Axis(NamedTuple):
    """A named index with its extent."""

    name: str
    extent: int


class Expr(Node):
    """A scalar for each assignment of its free indices. ``reads``: the tensors read below, by
    first appearance; they are closed, so what they read is their own."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...
        @property
        def free(self) -> frozenset[str]: ...
        @property
        def reads(self) -> tuple[Tensor, ...]: ...


class Tensor(Node):
    """A total function from index tuples to scalars."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...
        @property
        def shape(self) -> tuple[int, ...]: ...


_set = object.__setattr__
_NONE: frozenset[str] = frozenset()


class Const(Expr):
    """A literal; made by ``const`` so that -0.0, nan, True and 1 stay different. ``value`` is
    the literal as a NumPy scalar."""

    __slots__ = ("bits", "dtype", "value")
    __match_args__ = ("bits", "dtype")
    bits: bytes
    dtype: DType
    value: Any
    free = _NONE
    reads: tuple[Tensor, ...] = ()

    def __init__(self, bits: bytes, dtype: DType) -> None:
        _set(self, "bits", bits)
        _set(self, "dtype", dtype)
        _set(self, "value", np.frombuffer(bits, dtype)[0])


class GivenConst(Const):
    """A literal in a plan that holds for other numbers, too: ``value`` notes who looks at it."""

    __slots__ = ()
    __match_args__ = ("bits", "dtype", "value")

    def __init__(self, bits: bytes, dtype: DType, value: Given) -> None:
        _set(self, "bits", bits)
        _set(self, "dtype", dtype)
        _set(self, "value", value)


def const(value: object, dtype: DType | None = None) -> Const:
    """The literal ``value``, in its own NumPy dtype unless one is given."""
    if type(value) is Given:
        if not isinstance(value.raw, np.generic) or (dtype is not None and value.dtype != dtype):
            value = value.record.lifted(_converted, value, dtype)
        if value.raw.dtype == BOOL:  # there are two, and plans depend on which
            return const(np.bool_(bool(value)))
        return GivenConst(value.raw.tobytes(), value.raw.dtype, value)
    if type(value) is int:
        if dtype is INT64:
            return _whole(value)
        if dtype is not None:
            _check_range(value, dtype)
    if isinstance(value, np.generic) and value.dtype == dtype:
        return Const(value.tobytes(), value.dtype)
    array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    return Const(array.tobytes(), array.dtype)


def is_same_literal(a: Const | None, b: Const | None) -> bool:
    """Whether both are known and the same bit by bit. A plan for other numbers, too, depends on the
    answer."""
    if type(a) is not GivenConst and type(b) is not GivenConst:
        return a is b and a is not None
    return a is not None and b is not None and bool(lifted(is_same, a.value, b.value))


def _converted(value: object, dtype: DType | None) -> np.generic:
    return const(value, dtype).value  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _whole(value: int) -> Const:
    """Places and extents, which programs are full of."""
    _check_range(value, INT64)
    return Const(np.asarray(value).astype(INT64).tobytes(), INT64)


def stated(e: Expr, numbers: Numbers) -> Any:
    """A literal of a plan with the number that stands there in another call; others as they are."""
    return const(numbers.of(e.value), e.dtype) if type(e) is GivenConst else e


def _check_range(value: int, dtype: DType) -> None:
    """NumPy takes whole numbers of up to 64 bits, and floats. What fewer bits make of them is
    modular arithmetic, which rules use."""
    whole = dtype.kind in "iu"
    if not (-(2**63) <= value < 2**64 if whole else abs(value) <= sys.float_info.max) or (
            dtype is INT64 and value >= 2**63):
        raise RangeError(f"{value} does not fit in {dtype.name}",
                         hint="use a float dtype" if whole else None)


class Index(Expr):
    """An index variable; its value is an int64."""

    __slots__ = ("free", "name")
    __match_args__ = ("name",)
    name: str
    free: frozenset[str]
    dtype = INT64
    reads: tuple[Tensor, ...] = ()

    def __init__(self, name: str) -> None:
        _set(self, "name", name)
        _set(self, "free", frozenset((name,)))


class Local(Expr):
    """A scalar variable of a kernel, with its dtype."""

    __slots__ = ("dtype", "name")
    __match_args__ = ("name", "dtype")
    name: str
    dtype: DType
    free = _NONE
    reads: tuple[Tensor, ...] = ()

    def __init__(self, name: str, dtype: DType) -> None:
        _set(self, "name", name)
        _set(self, "dtype", dtype)


class Read(Expr):
    """``tensor[e, ...]``: indices are in range by construction of the program."""

    __slots__ = ("dtype", "free", "indices", "reads", "tensor")
    __match_args__ = ("tensor", "indices")
    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: DType
    free: frozenset[str]
    reads: tuple[Tensor, ...]

    def __init__(self, tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        rank = len(tensor.shape)
        if len(indices) != rank:
            raise ValueError(f"{len(indices)} indices for a tensor of rank {rank}")
        _set(self, "tensor", tensor)
        _set(self, "indices", indices)
        _set(self, "dtype", tensor.dtype)
        _set(self, "free", _free(indices))
        _set(self, "reads", _reads((tensor,), indices))


class Call(Expr):
    """A pointwise operator on expressions."""

    __slots__ = ("args", "dtype", "free", "op", "reads")
    __match_args__ = ("op", "args")
    op: Operator
    args: tuple[Expr, ...]
    dtype: DType
    free: frozenset[str]
    reads: tuple[Tensor, ...]

    def __init__(self, op: Operator, args: tuple[Expr, ...]) -> None:
        if len(args) != op.arity:
            raise ValueError(f"{op.name} takes {op.arity} arguments")
        _set(self, "op", op)
        _set(self, "args", args)
        _set(self, "dtype", op.resolve(*[a.dtype for a in args])[1])
        _set(self, "free", _free(args))
        _set(self, "reads", _reads((), args))


class Reduce(Expr):
    """The monoid ``op`` over all values of ``axes`` applied to ``body``, in body's dtype."""

    __slots__ = ("axes", "body", "dtype", "free", "op", "reads")
    __match_args__ = ("op", "axes", "body")
    op: Operator
    axes: tuple[Axis, ...]
    body: Expr
    dtype: DType
    free: frozenset[str]
    reads: tuple[Tensor, ...]

    def __init__(self, op: Operator, axes: tuple[Axis, ...], body: Expr) -> None:
        if not op.is_monoid:
            raise ValueError(f"{op.name} is not a monoid")
        check_extents([a.extent for a in axes])
        _set(self, "op", op)
        _set(self, "axes", axes)
        _set(self, "body", body)
        _set(self, "dtype", body.dtype)
        _set(self, "free", body.free.difference([a.name for a in axes]))
        _set(self, "reads", body.reads)


class Source(Tensor):
    """Stored data, or a slot of a plan that data is bound to."""

    holds_data = True
    __slots__ = ("data", "dtype", "fill", "shape")
    __match_args__ = ("data", "shape", "dtype", "fill")
    data: object
    shape: tuple[int, ...]
    dtype: DType
    fill: Const

    def __init__(self, data: object, shape: tuple[int, ...], dtype: DType, fill: Const) -> None:
        check_extents(shape)
        _set(self, "data", data)
        _set(self, "shape", shape)
        _set(self, "dtype", dtype)
        _set(self, "fill", fill)


class Lambda(Tensor):
    """``[axes] -> body``, closed."""

    __slots__ = ("axes", "body", "dtype", "shape")
    __match_args__ = ("axes", "body")
    axes: tuple[Axis, ...]
    body: Expr
    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, axes: tuple[Axis, ...], body: Expr) -> None:
        extra = body.free.difference([a.name for a in axes])
        if extra:
            raise ValueError(f"indices {sorted(extra)} are not bound")
        shape = tuple([a.extent for a in axes])
        check_extents(shape)
        _set(self, "axes", axes)
        _set(self, "body", body)
        _set(self, "shape", shape)
        _set(self, "dtype", body.dtype)


class Bulk(Tensor):
    """A whole-tensor operator that is no formula per entry; ``params`` are hashable."""

    __slots__ = ("args", "dtype", "op", "params", "shape")
    __match_args__ = ("op", "args", "params")
    op: BulkOperator
    args: tuple[Tensor, ...]
    params: tuple[object, ...]
    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, op: BulkOperator, args: tuple[Tensor, ...],
                 params: tuple[object, ...]) -> None:
        op.check(args, params)
        shape = op.shape(*[a.shape for a in args], *params)
        check_extents(shape)
        _set(self, "op", op)
        _set(self, "args", args)
        _set(self, "params", params)
        _set(self, "shape", shape)
        _set(self, "dtype", op.dtype(*[a.dtype for a in args], *params))


def _free(exprs: tuple[Expr, ...]) -> frozenset[str]:
    free = _NONE
    for e in exprs:
        if e.free:
            free = free | e.free if free else e.free
    return free


def _reads(first: tuple[Tensor, ...], exprs: tuple[Expr, ...]) -> tuple[Tensor, ...]:
    found = first
    for e in exprs:
        if e.reads and e.reads != found:
            found = tuple(dict.fromkeys(found + e.reads)) if found else e.reads
    return found


#: The nodes directly below, by class; a look-up is quicker than a match for what is asked most.
_BELOW: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Read: lambda node: (node.tensor, *node.indices),
    Call: attrgetter("args"),
    Reduce: lambda node: (node.body,),
    Lambda: lambda node: (node.body,),
    Bulk: attrgetter("args"),
}


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, tensors included."""
    below = _BELOW.get(type(node))
    return () if below is None else below(node)


def postorder(*roots: Node) -> list[Node]:
    """Every node below the roots once, children first; iterative. None on the stack: what is below
    the node under it has been done."""
    done: dict[Node, None] = {}
    stack: list[Node | None] = list(reversed(roots))
    pop, below_of = stack.pop, _BELOW.get
    while stack:
        node = pop()
        if node is None:
            done[pop()] = None  # type: ignore[index]
        elif node not in done:
            below = below_of(type(node))
            if below is None:
                done[node] = None
            else:
                stack += (node, None, *reversed(below(node)))
    return list(done)


def is_gather(node: Node) -> bool:
    """A read at places that are read themselves."""
    return type(node) is Read and len(node.reads) > 1


def below_calls(*roots: Expr) -> list[Expr]:
    """What the calls of formulas lead to: reads, reductions, indices, constants, each once."""
    found: list[Expr] = []
    stack, seen = list(roots), set(roots)
    while stack:
        e = stack.pop()
        if isinstance(e, Call):
            for a in e.args:
                if a not in seen:
                    seen.add(a)
                    stack.append(a)
        else:
            found.append(e)
    return found


_inside = Memo[tuple[Read, ...]]("_inside")


def reads_in(e: Expr) -> tuple[Read, ...]:
    """The reads below, each once, in the order of ``postorder``; looked for once."""
    found = _inside.get(e)
    if found is None:
        found = _inside[e] = tuple([x for x in postorder(e) if type(x) is Read])
    return found


__all__ = [
    "BOOL", "DTYPES", "INT64", "Axis", "Bulk", "Call", "Const", "DType", "Expr", "GivenConst",
    "Index", "Lambda", "Local", "Node", "Operator", "Read", "Reduce", "Scalar", "Source", "Tensor",
    "children", "const", "postorder", "reads_in", "stated",
]
