"""The syntax tree of comprehensions.

Nodes are compared by value; ``at``, the place in the text, is not compared. Texts, Python functions
and loops become the same tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tensorel.base.records import dataclass, field


def _at() -> int:
    return field(default=0, compare=False, repr=False)


class Expr:
    """A scalar, a tuple, a list of such, or a tensor."""

    at: int


class Qualifier:
    """A part of a comprehension after the bar."""

    at: int


# -- patterns ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bind:
    """A name; ``_`` binds nothing."""

    name: str
    at: int = _at()


@dataclass(frozen=True)
class Pattern:
    """``(p1, ..., pn)``."""

    items: tuple[AnyPattern, ...]
    at: int = _at()


AnyPattern: TypeAlias = "Bind | Pattern"


# -- expressions -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Number(Expr):
    """A literal: 1, 1.0 and true are three."""

    value: int | float | bool
    at: int = _at()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and type(other.value) is type(self.value) and (
            other.value == self.value or self.value != self.value != other.value)

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True)
class Name(Expr):
    """What a qualifier binds, or a tensor or scalar of the environment."""

    name: str
    at: int = _at()


@dataclass(frozen=True)
class Unary(Expr):
    """op: - or !."""

    op: str
    arg: Expr
    at: int = _at()


@dataclass(frozen=True)
class Binary(Expr):
    """op: + - * / // % ** == != < <= > >= && ||, or true/, the division of reals. ``/`` and ``//``
    of whole numbers round down, and ``%`` has the sign of the divisor."""

    op: str
    left: Expr
    right: Expr
    at: int = _at()


@dataclass(frozen=True)
class Call(Expr):
    """A function of ``functions.FUNCTIONS``."""

    function: str
    args: tuple[Expr, ...]
    at: int = _at()


@dataclass(frozen=True)
class If(Expr):
    """``if (test) then e else e``."""

    test: Expr
    then: Expr
    otherwise: Expr
    at: int = _at()


@dataclass(frozen=True)
class Tuple(Expr):
    """``(e1, ..., en)``."""

    items: tuple[Expr, ...]
    at: int = _at()


@dataclass(frozen=True)
class Access(Expr):
    """``target[k1, ..., kn]``: the cell, 0 outside of the shape."""

    target: Expr
    keys: tuple[Expr, ...]
    at: int = _at()


@dataclass(frozen=True)
class Aggregate(Expr):
    """``monoid/body``. Where the body mentions what a group has lifted, over the members of the
    group; else the body is a list. monoid: a name of ``functions.MONOIDS``."""

    monoid: str
    body: Expr
    at: int = _at()


@dataclass(frozen=True)
class Range(Expr):
    """``low..high``, high included."""

    low: Expr
    high: Expr
    at: int = _at()


@dataclass(frozen=True)
class Comprehension(Expr):
    """``[ head | qualifiers ]``: a list."""

    head: Expr
    qualifiers: tuple[Qualifier, ...]
    at: int = _at()


@dataclass(frozen=True)
class Stored(Expr):
    """``tensor(dense)(sparse) body``: a list of keys and values as a tensor. ``blocks``: written
    ``tensor*``. ``mapping``: the name of a typemap in whose storage it is; ``inferred``: extents
    are those of the keys."""

    dense: tuple[Expr, ...]
    sparse: tuple[Expr, ...]
    body: Expr
    blocks: bool = False
    mapping: str = ""
    inferred: bool = False
    at: int = _at()


# -- qualifiers --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Draw(Qualifier):
    """``pattern <- source``; ``full``: ``<=``, which draws every cell of a tensor."""

    pattern: AnyPattern
    source: Expr
    full: bool = False
    at: int = _at()


@dataclass(frozen=True)
class Let(Qualifier):
    """``let pattern = value``."""

    pattern: AnyPattern
    value: Expr
    at: int = _at()


@dataclass(frozen=True)
class Test(Qualifier):
    """A condition; after a group, on the group."""

    condition: Expr
    at: int = _at()


@dataclass(frozen=True)
class Group(Qualifier):
    """``group by pattern [: key]``; without a key, the values that the names have."""

    pattern: AnyPattern
    key: Expr | None = None
    at: int = _at()


# -- statements --------------------------------------------------------------------------------
@dataclass(frozen=True)
class TypeMap:
    """``typemap name(p1: Int, ...): matrix { def view(a: Array, ...) = [...] ... }``: cells of a
    tensor by the arrays that it lies in. ``store`` is the inverse, which is derived."""

    name: str
    params: tuple[str, ...]
    arrays: tuple[str, ...]
    view: Comprehension
    at: int = _at()


@dataclass(frozen=True)
class Program:
    """Type maps, then an expression."""

    maps: tuple[TypeMap, ...]
    body: Expr


# -- walks -------------------------------------------------------------------------------------
def names_of(pattern: AnyPattern) -> list[str]:
    """The names in a pattern, in order, without ``_``.

    >>> names_of(Pattern((Bind("i"), Pattern((Bind("_"), Bind("v"))))))
    ['i', 'v']
    """
    if isinstance(pattern, Bind):
        return [] if pattern.name == "_" else [pattern.name]
    return [n for p in pattern.items for n in names_of(p)]


def as_expr(pattern: AnyPattern) -> Expr:
    """The expression that says the names of a pattern."""
    if isinstance(pattern, Bind):
        return Name(pattern.name, pattern.at)
    return Tuple(tuple(map(as_expr, pattern.items)), pattern.at)


def parts(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly below, in the order of the text."""
    match e:
        case Unary():
            return (e.arg,)
        case Binary():
            return (e.left, e.right)
        case Call():
            return e.args
        case If():
            return (e.test, e.then, e.otherwise)
        case Tuple():
            return e.items
        case Access():
            return (e.target, *e.keys)
        case Aggregate():
            return (e.body,)
        case Range():
            return (e.low, e.high)
        case Comprehension():
            return (e.head, *(x for q in e.qualifiers for x in parts_of(q)))
        case Stored():
            return (*e.dense, *e.sparse, e.body)
    return ()


def parts_of(q: Qualifier) -> tuple[Expr, ...]:
    """The expressions of a qualifier."""
    match q:
        case Draw():
            return (q.source,)
        case Let():
            return (q.value,)
        case Test():
            return (q.condition,)
        case Group():
            return () if q.key is None else (q.key,)
    return ()


def walk(root: Expr) -> Iterator[Expr]:
    """Every expression from ``root`` down."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts(node)))


def free(e: Expr) -> frozenset[str]:
    """The names that an expression takes from around it."""
    if isinstance(e, Name):
        return frozenset({e.name})
    if not isinstance(e, Comprehension):
        return frozenset().union(*map(free, parts(e)))
    found = free(e.head)
    for q in reversed(e.qualifiers):
        inside = frozenset().union(*map(free, parts_of(q)))
        if isinstance(q, (Draw, Let, Group)):
            bound = frozenset(names_of(q.pattern))
            # Without a key, a group takes the names that it binds.
            found = found | bound if isinstance(q, Group) and q.key is None else found - bound
        found |= inside
    return found
