"""The calculus: expressions over named indices.

    e ::= literal | index | T[e, ...] | op(e, ...) | reduce(op, i in extent, e) | where(p, e, z)

A tensor ``T`` is a ``Source`` (stored data), a ``Lambda`` (a total function from its axes to
scalars) or a ``Bulk`` operator whose meaning is not a formula per entry (sort, top-k, ...).
A Lambda is closed: its body's free indices are its own axes. Nodes are frozen and interned, so
equality is identity and a common subexpression is one object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from operator import attrgetter
from threading import RLock
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from tensorel.algebra.ops import BOOL, DTYPES, INT64, DType, Operator, Scalar, add, subtract
from tensorel.forks import renewed

T = TypeVar("T")


_interned: dict[tuple[object, ...], ref[Node]] = {}
#: Re-entrant: a collection of garbage makes and drops nodes at any point.
_guard = renewed(RLock())


class _Interned(type):
    """Calling a node class gives the one node with these fields."""

    def __call__(cls: type[T], *args: object) -> T:
        key = (cls, args)
        weak = _interned.get(key)
        found = None if weak is None else weak()
        if found is None:
            found = _keep(key, type.__call__(cls, *args))
        return found  # type: ignore[return-value]


class _Kept(ref["Node"]):
    """A weak reference that knows its key."""

    __slots__ = ("key",)
    key: tuple[object, ...]


_dead: list[_Kept] = []


def _keep(key: tuple[object, ...], node: Node) -> Node:
    """Intern a new node, unless another thread was first. A dead node leaves the table by a
    callback without Python code, ``pop(key, dead)``: Ctrl-C inside one would be swallowed. Slots
    and references of plans have a hash in Python: their keys, which hold no data, wait in a list.
    """
    if key[0] is Source and isinstance(type(key[1][0]).__hash__, FunctionType):  # type: ignore[index]
        new: ref[Node] = _Kept(node, _dead.append)
        new.key = key  # type: ignore[attr-defined]
    else:
        new = ref(node, partial(_interned.pop, key))
    with _guard:
        while _dead:
            gone = _dead.pop()
            if _interned.get(gone.key) is gone:
                del _interned[gone.key]
        weak = _interned.get(key)
        first = None if weak is None else weak()
        if first is not None:
            del new  # before ``node``: it would take the first one out of the table
            return first
        _interned[key] = new
    return node


class Axis(NamedTuple):
    """A named index with its extent."""

    name: str
    extent: int


class Node(metaclass=_Interned):
    """Base of all nodes. ``__match_args__`` names the fields that a node is made of; the other
    slots are facts that follow from them. Classes are written out, not made by ``dataclass``:
    they are a tenth of the time of importing the package, and nodes of the time of small calls.
    """

    __slots__ = ("__weakref__", "_fill", "_inside", "_text", "_whole")
    __match_args__: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __repr__(self) -> str:
        fields = ", ".join(f"{f}={getattr(self, f)!r}" for f in self.__match_args__)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, f) for f in self.__match_args__)


class Memo(Generic[T]):
    """Facts that are worked out once for each node, kept in a slot of the node: callbacks of weak
    references would swallow Ctrl-C.

    >>> text = Memo[str]("_text")
    >>> text[Index("i")] = "i"
    >>> Index("j") in text, text.get(Index("j"))
    (False, None)
    """

    def __init__(self, slot: str) -> None:
        self._get, self._set = Node.__dict__[slot].__get__, Node.__dict__[slot].__set__

    def __contains__(self, node: Node) -> bool:
        try:
            self._get(node)
        except AttributeError:
            return False
        return True

    def __getitem__(self, node: Node) -> T:
        return self._get(node)  # type: ignore[no-any-return]

    def get(self, node: Node) -> T | None:
        """None if it is not known."""
        try:
            return self._get(node)  # type: ignore[no-any-return]
        except AttributeError:
            return None

    def __setitem__(self, node: Node, fact: T) -> None:
        self._set(node, fact)


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


def const(value: object, dtype: DType | None = None) -> Const:
    """The literal ``value``, in its own NumPy dtype unless one is given."""
    if dtype is INT64 and type(value) is int:
        return _whole(value)
    if isinstance(value, np.generic) and value.dtype == dtype:
        return Const(value.tobytes(), value.dtype)
    array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    return Const(array.tobytes(), array.dtype)


@lru_cache(maxsize=1024)
def _whole(value: int) -> Const:
    """Places and extents, which programs are full of."""
    return Const(np.asarray(value).astype(INT64).tobytes(), INT64)


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
        _set(self, "op", op)
        _set(self, "axes", axes)
        _set(self, "body", body)
        _set(self, "dtype", body.dtype)
        _set(self, "free", body.free.difference([a.name for a in axes]))
        _set(self, "reads", body.reads)


class Source(Tensor):
    """Stored data, or a slot of a plan that data is bound to."""

    __slots__ = ("data", "dtype", "fill", "shape")
    __match_args__ = ("data", "shape", "dtype", "fill")
    data: object
    shape: tuple[int, ...]
    dtype: DType
    fill: Const

    def __init__(self, data: object, shape: tuple[int, ...], dtype: DType, fill: Const) -> None:
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
        _set(self, "axes", axes)
        _set(self, "body", body)
        _set(self, "shape", tuple([a.extent for a in axes]))
        _set(self, "dtype", body.dtype)


class Bulk(Tensor):
    """A whole-tensor operator that is no formula per entry; ``params`` are hashable."""

    __slots__ = ("args", "dtype", "op", "params", "shape")
    __match_args__ = ("op", "args", "params", "shape", "dtype")
    op: str
    args: tuple[Tensor, ...]
    params: tuple[object, ...]
    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, op: str, args: tuple[Tensor, ...], params: tuple[object, ...],
                 shape: tuple[int, ...], dtype: DType) -> None:
        _set(self, "op", op)
        _set(self, "args", args)
        _set(self, "params", params)
        _set(self, "shape", shape)
        _set(self, "dtype", dtype)


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


def rebuild(node: Node, kids: tuple[Node, ...]) -> Node:
    """``node`` with other children, of the kinds that it had."""
    new: Any = kids
    match node:
        case Read():
            return Read(new[0], new[1:])
        case Call():
            return Call(node.op, new)
        case Reduce():
            return Reduce(node.op, node.axes, new[0])
        case Lambda():
            return Lambda(node.axes, new[0])
        case Bulk():
            return Bulk(node.op, new, node.params, node.shape, node.dtype)
        case _:
            return node


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


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expr`` with free indices replaced. Bound names must not clash with free names of values.

    Lambdas are closed, so substitution never enters a tensor.
    """
    apart = values.keys().isdisjoint
    if apart(expr.free):
        return expr
    memo: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            match e:
                case Index():
                    found = values[e.name]
                case Read():
                    found = Read(e.tensor, tuple([
                        i if apart(i.free) else go(i) for i in e.indices]))
                case Call():
                    args = tuple([a if apart(a.free) else go(a) for a in e.args])
                    found = Call(e.op, args) if e.dtype is not INT64 else _moved(e.op, args)
                case Reduce():
                    found = Reduce(e.op, e.axes, go(e.body))
                case _:
                    found = e
            memo[e] = found
        return found

    return go(expr)


def _moved(op: Operator, args: tuple[Expr, ...]) -> Expr:
    """``op(args)``; of places that are moved twice, (x + a) + b or b - (x + a), with one constant:
    slices of slices read as one does, and ways to the same place are the same formula."""
    outer = _move(op, args)
    if outer is not None:
        sign, inner, by = outer
        whole = type(inner) is Call and inner.dtype is INT64
        below = _move(inner.op, inner.args) if whole else None  # type: ignore[attr-defined]
        if below is not None:
            by += sign * below[2]
            if -(2**63) <= by < 2**63:
                x = below[1]
                if sign != below[0]:
                    return Call(subtract, (const(by, INT64), x))
                return Call(add, (x, const(by, INT64))) if by else x
    return Call(op, args)


def _move(op: Operator, args: tuple[Expr, ...]) -> tuple[int, Expr, int] | None:
    """Sign, x and a of a + x, x - a and a - x; None of others."""
    if op is add or op is subtract:
        a, b = args
        if type(b) is Const and b.dtype is INT64:
            return 1, a, int(b.value) if op is add else -int(b.value)
        if type(a) is Const and a.dtype is INT64:
            return 1 if op is add else -1, b, int(a.value)
    return None


__all__ = [
    "BOOL", "DTYPES", "INT64", "Axis", "Bulk", "Call", "Const", "DType", "Expr", "Index", "Lambda",
    "Local", "Node", "Operator", "Read", "Reduce", "Scalar", "Source", "Tensor", "children",
    "const", "postorder", "reads_in", "rebuild", "substitute",
]
