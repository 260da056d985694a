"""The syntax tree of SDQLite, as it is written; ``desugar`` makes the core of it.

Nodes are compared by value; ``at``, the place in the text, is not compared. The core has the same
nodes, each in its smallest form: one generator with one key in a Sum, one key in an Apply, one
entry with one key in a Dict, one binding in a Let, no Merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tensorel.base.records import dataclass, field


def _at() -> int:
    return field(default=0, compare=False, repr=False)


class Expr:
    """A scalar or a dictionary."""

    at: int


@dataclass(frozen=True)
class Number(Expr):
    """A literal, not negative. kind: int, real or bool; 1, 1.0 and true are three literals."""

    value: int | float
    kind: str
    at: int = _at()


@dataclass(frozen=True)
class Name(Expr):
    """A variable, or a scalar, array or tensor of the environment."""

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
    """op: + - * / % == != < <= > >= && ||."""

    op: str
    left: Expr
    right: Expr
    at: int = _at()


@dataclass(frozen=True)
class Call(Expr):
    """A scalar function of ``functions.FUNCTIONS``."""

    function: str
    args: tuple[Expr, ...]
    at: int = _at()


@dataclass(frozen=True)
class Range(Expr):
    """``low:high``, the dictionary {low -> low, ..., high - 1 -> high - 1}."""

    low: Expr
    high: Expr
    at: int = _at()


@dataclass(frozen=True)
class Apply(Expr):
    """``target(k1, k2, ...)``: the value at a key; zero where there is none."""

    target: Expr
    keys: tuple[Expr, ...]
    at: int = _at()


@dataclass(frozen=True)
class Slice(Expr):
    """``target(low:high)``, the sub-array {low -> target(low), ...} with the keys of target."""

    target: Expr
    low: Expr
    high: Expr
    at: int = _at()


@dataclass(frozen=True)
class If(Expr):
    """``if (test) then e [else e]``; without else, zero."""

    test: Expr
    then: Expr
    otherwise: Expr | None = None
    at: int = _at()


@dataclass(frozen=True)
class Let(Expr):
    """``let v1 = e1, v2 = e2 in e``; later bindings see the earlier ones."""

    bindings: tuple[tuple[str, Expr], ...]
    body: Expr
    at: int = _at()


@dataclass(frozen=True)
class Generator:
    """``<(k1, k2), v> in source``. A name ``_`` is not bound; no key at all: a scalar source."""

    keys: tuple[str, ...]
    value: str
    source: Expr
    at: int = _at()


@dataclass(frozen=True)
class Sum(Expr):
    """``sum(g1, g2, ...) body``; a key that two generators of it name is a join."""

    generators: tuple[Generator, ...]
    body: Expr
    at: int = _at()


@dataclass(frozen=True)
class Merge(Expr):
    """``merge(<k1, k2, v> in <left, right>) body``: the pairs of keys that have one value."""

    keys: tuple[str, str]
    value: str
    left: Expr
    right: Expr
    body: Expr
    at: int = _at()


@dataclass(frozen=True)
class Entry:
    """``@marks (k1, k2) -> value``; marks are unique, dense, hash, shared in this order."""

    keys: tuple[Expr, ...]
    value: Expr
    marks: tuple[str, ...] = ()
    at: int = _at()


@dataclass(frozen=True)
class Dict(Expr):
    """``{ entry, ... }``, the sum of its entries; ``{ () -> e }`` is the scalar e."""

    entries: tuple[Entry, ...]
    at: int = _at()


@dataclass(frozen=True)
class Promote(Expr):
    """``promote[semiring](body)``: the scalars of body as values of another semiring."""

    semiring: str
    body: Expr
    at: int = _at()


# -- statements ------------------------------------------------------------------------------
class Statement:
    """One CREATE."""

    __slots__ = ()
    at: int


@dataclass(frozen=True)
class Declaration:
    """A physical value: its name and the extents of its keys (none for a scalar)."""

    name: str
    extents: tuple[Expr, ...] = ()
    at: int = _at()


@dataclass(frozen=True)
class CreatePhysical(Statement):
    """``CREATE [kind] form a(n), b(m)``; kind: real, int; form: SCALAR, ARRAY, HASHMAP, TRIE."""

    kind: str
    form: str
    declared: tuple[Declaration, ...]
    at: int = _at()


@dataclass(frozen=True)
class CreateTensor(Statement):
    """``CREATE TENSOR name [(extents)] AS definition``: a tensor by its storage mapping."""

    name: str
    definition: Expr
    extents: tuple[Expr, ...] | None = None
    at: int = _at()


@dataclass(frozen=True)
class Script:
    """Statements, then the expression whose value the script has, if any."""

    statements: tuple[Statement, ...]
    result: Expr | None = None


MARKS = ("unique", "dense", "hash", "shared")
FORMS = ("SCALAR", "ARRAY", "HASHMAP", "TRIE")
KINDS = ("real", "int")


#: The fields that hold the parts of expressions which bind no names, in the order of the text.
_FIELDS: dict[type[Expr], tuple[str, ...]] = {
    Unary: ("arg",), Promote: ("body",), Binary: ("left", "right"), Range: ("low", "high"),
    Call: ("args",), Apply: ("target", "keys"), Slice: ("target", "low", "high"),
    If: ("test", "then", "otherwise"),
}


def parts(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly below, in the order of the text."""
    match node:
        case Name() | Number():
            return ()
        case Let():
            return (*(e for _, e in node.bindings), node.body)
        case Sum():
            return (*(g.source for g in node.generators), node.body)
        case Merge():
            return (node.left, node.right, node.body)
        case Dict():
            return tuple(e for entry in node.entries for e in (*entry.keys, entry.value))
    found: list[Expr] = []
    for part in map(node.__getattribute__, _FIELDS[type(node)]):
        if isinstance(part, tuple):
            found += part
        elif part is not None:
            found.append(part)
    return tuple(found)


def mapped(node: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression with other parts; one that binds names, or has no parts, is itself."""
    held = {name: getattr(node, name) for name in _FIELDS.get(type(node), ())}
    made: Expr = replace(node, **{  # type: ignore[type-var]
        name: tuple(map(f, part)) if isinstance(part, tuple) else part and f(part)
        for name, part in held.items()}) if held else node
    return made


def walk(root: Expr) -> Iterator[Expr]:
    """Every expression from ``root`` down."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts(node)))


def names(root: Expr) -> set[str]:
    """Every name that occurs in ``root``, bound or not."""
    found: set[str] = set()
    for node in walk(root):
        match node:
            case Name():
                found.add(node.name)
            case Let():
                found.update(name for name, _ in node.bindings)
            case Sum():
                found.update(n for g in node.generators for n in (*g.keys, g.value))
            case Merge():
                found.update((*node.keys, node.value))
            case _:
                pass
    return found


def free(root: Expr) -> frozenset[str]:
    """The names that ``root`` takes from its environment. They stay with the node, which stays
    with its text: programs are lowered many times."""
    found = root.__dict__.get("_free")
    if found is None:
        found = root.__dict__["_free"] = _free(root)
    return found


def _free(root: Expr) -> frozenset[str]:
    match root:
        case Name():
            return frozenset({root.name})
        case Let():
            inner = free(root.body)
            for name, value in reversed(root.bindings):
                inner = (inner - {name}) | free(value)
            return inner
        case Sum():
            inner = free(root.body)
            for g in reversed(root.generators):
                inner = (inner - {*g.keys, g.value}) | free(g.source)
            return inner
        case Merge():
            inner = free(root.body) - {*root.keys, root.value}
            return inner | free(root.left) | free(root.right)
        case _:
            return frozenset().union(*map(free, parts(root)))
