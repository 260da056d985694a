"""The calculus: expressions over named indices.

    e ::= literal | index | T[e, ...] | op(e, ...) | reduce(op, i in extent, e) | where(p, e, z)

A tensor ``T`` is a ``Source`` (stored data), a ``Lambda`` (a total function from its axes to
scalars) or a ``Bulk`` operator whose meaning is not a formula per entry (sort, top-k, ...).
A Lambda is closed: its body's free indices are its own axes. Nodes are frozen and interned, so
equality is identity and a common subexpression is one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np

from tensorel.algebra.ops import BOOL, DTYPES, INT64, DType, Operator, Scalar

_interned: WeakValueDictionary[tuple[object, ...], object] = WeakValueDictionary()
T = TypeVar("T")


class _Interned(type):
    """Calling a node class gives the one node with these fields."""

    def __call__(cls: type[T], *args: object) -> T:
        key = (cls, args)
        found = _interned.get(key)
        if found is None:
            found = super().__call__(*args)  # type: ignore[misc]
            found = _interned.setdefault(key, found)
        return cast(T, found)


class Axis(NamedTuple):
    """A named index with its extent."""

    name: str
    extent: int


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Node(metaclass=_Interned):
    """Base of all nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class Expr(Node):
    """A scalar for each assignment of its free indices."""

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...
        @property
        def free(self) -> frozenset[str]: ...


@dataclass(frozen=True, eq=False, slots=True)
class Tensor(Node):
    """A total function from index tuples to scalars."""

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...
        @property
        def shape(self) -> tuple[int, ...]: ...


def _set(node: object, **facts: object) -> None:
    for name, value in facts.items():
        object.__setattr__(node, name, value)


_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class Const(Expr):
    """A literal; made by ``const`` so that -0.0, nan, True and 1 stay different."""

    bits: bytes
    dtype: DType
    free: frozenset[str] = field(init=False, default=_NONE)

    @property
    def value(self) -> Any:
        """The literal as a NumPy scalar."""
        return np.frombuffer(self.bits, self.dtype)[0]


def const(value: object, dtype: DType | None = None) -> Const:
    """The literal ``value``, in its own NumPy dtype unless one is given."""
    array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    return Const(array.tobytes(), array.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Index(Expr):
    """An index variable; its value is an int64."""

    name: str
    dtype: DType = field(init=False, default=INT64)
    free: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        _set(self, free=frozenset((self.name,)))


@dataclass(frozen=True, eq=False, slots=True)
class Local(Expr):
    """A scalar variable of a kernel, with its dtype."""

    name: str
    dtype: DType
    free: frozenset[str] = field(init=False, default=_NONE)


@dataclass(frozen=True, eq=False, slots=True)
class Read(Expr):
    """``tensor[e, ...]``: indices are in range by construction of the program."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: DType = field(init=False)
    free: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        shape: tuple[int, ...] = self.tensor.shape
        if len(self.indices) != len(shape):
            raise ValueError(f"{len(self.indices)} indices for a tensor of rank {len(shape)}")
        _set(self, dtype=self.tensor.dtype, free=_free(self.indices))


@dataclass(frozen=True, eq=False, slots=True)
class Call(Expr):
    """A pointwise operator on expressions."""

    op: Operator
    args: tuple[Expr, ...]
    dtype: DType = field(init=False)
    free: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.args) != self.op.arity:
            raise ValueError(f"{self.op.name} takes {self.op.arity} arguments")
        dtypes = tuple(a.dtype for a in self.args)
        _set(self, dtype=self.op.resolve(*dtypes)[1], free=_free(self.args))


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(Expr):
    """The monoid ``op`` over all values of ``axes`` applied to ``body``, in body's dtype."""

    op: Operator
    axes: tuple[Axis, ...]
    body: Expr
    dtype: DType = field(init=False)
    free: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if not self.op.is_monoid:
            raise ValueError(f"{self.op.name} is not a monoid")
        names = frozenset(a.name for a in self.axes)
        _set(self, dtype=self.body.dtype, free=self.body.free - names)


@dataclass(frozen=True, eq=False, slots=True)
class Source(Tensor):
    """Stored data, or a slot of a plan that data is bound to."""

    data: object
    shape: tuple[int, ...]
    dtype: DType
    fill: Const


@dataclass(frozen=True, eq=False, slots=True)
class Lambda(Tensor):
    """``[axes] -> body``, closed."""

    axes: tuple[Axis, ...]
    body: Expr
    shape: tuple[int, ...] = field(init=False)
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        extra = self.body.free - {a.name for a in self.axes}
        if extra:
            raise ValueError(f"indices {sorted(extra)} are not bound")
        shape = tuple(a.extent for a in self.axes)
        _set(self, shape=shape, dtype=self.body.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Bulk(Tensor):
    """A whole-tensor operator that is no formula per entry; ``params`` are hashable."""

    op: str
    args: tuple[Tensor, ...]
    params: tuple[object, ...]
    shape: tuple[int, ...]
    dtype: DType


def _free(exprs: Iterable[Expr]) -> frozenset[str]:
    found = [e.free for e in exprs if e.free]
    if not found:
        return _NONE
    return found[0] if len(found) == 1 else found[0].union(*found[1:])


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, tensors included."""
    match node:
        case Read():
            return (node.tensor, *node.indices)
        case Call():
            return node.args
        case Reduce() | Lambda():
            return (node.body,)
        case Bulk():
            return node.args
        case _:
            return ()


def rebuild(node: Node, kids: tuple[Node, ...]) -> Node:
    """``node`` with other children."""
    match node:
        case Read():
            return Read(kids[0], kids[1:])
        case Call():
            return Call(node.op, kids)
        case Reduce():
            return Reduce(node.op, node.axes, kids[0])
        case Lambda():
            return Lambda(node.axes, kids[0])
        case Bulk():
            return Bulk(node.op, kids, node.params, node.shape, node.dtype)
        case _:
            return node


def postorder(*roots: Node) -> list[Node]:
    """Every node below the roots once, children first; iterative."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((k, False) for k in reversed(children(node)) if k not in seen)
    return order


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expr`` with free indices replaced. Bound names must not clash with free names of values.

    Lambdas are closed, so substitution never enters a tensor.
    """
    if not values or values.keys().isdisjoint(expr.free):
        return expr
    memo: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        if values.keys().isdisjoint(e.free):
            return e
        found = memo.get(e)
        if found is None:
            match e:
                case Index():
                    found = values[e.name]
                case Read():
                    found = Read(e.tensor, tuple(go(i) for i in e.indices))
                case Call():
                    found = Call(e.op, tuple(go(a) for a in e.args))
                case Reduce():
                    found = Reduce(e.op, e.axes, go(e.body))
                case _:
                    found = e
            memo[e] = found
        return found

    return go(expr)


__all__ = [
    "BOOL", "DTYPES", "INT64", "Axis", "Bulk", "Call", "Const", "DType", "Expr", "Index", "Lambda",
    "Local", "Node", "Operator", "Read", "Reduce", "Scalar", "Source", "Tensor", "children",
    "const", "postorder", "rebuild", "substitute",
]
