"""Nodes that are equal are one object: calling a node class gives the one that is there already.

Facts of a node are kept in slots of its own, so they live as long as it does."""

from __future__ import annotations

from functools import partial
from threading import RLock
from types import FunctionType
from typing import Generic, TypeVar
from weakref import ref

from tensorel.base.forks import renewed

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
    if node.holds_data and isinstance(type(key[1][0]).__hash__, FunctionType):  # type: ignore[index]
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


class Node(metaclass=_Interned):
    """Base of all nodes. ``__match_args__`` names the fields that a node is made of; the other
    slots are facts that follow from them. Classes are written out, not made by ``dataclass``:
    they are a tenth of the time of importing the package, and nodes of the time of small calls.
    """

    __slots__ = ("__weakref__", "_axes", "_fill", "_inside", "_program", "_text", "_whole")
    __match_args__: tuple[str, ...] = ()
    holds_data = False  # its first field is data, or a slot that data is bound to

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __repr__(self) -> str:
        fields = ", ".join(f"{f}={getattr(self, f)!r}" for f in self.__match_args__)
        return f"{type(self).__name__}({fields})"


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
