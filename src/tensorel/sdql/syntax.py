"""The syntax tree of SDQLite, as it is written; ``desugar`` makes the core of it.

Nodes are compared by value; ``at``, the place in the text, is not compared. The core has the same
nodes, each in its smallest form: one generator with one key in a Sum, one key in an Apply, one
entry with one key in a Dict, one binding in a Let, no Merge.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorel.records import dataclass, field


def _at() -> int:
    return field(default=0, compare=False, repr=False)


class Expr:
    """A scalar or a dictionary."""

    __slots__ = ()
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


def parts(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly below, in the order of the text."""
    match node:
        case Unary(arg=one) | Promote(body=one):
            return (one,)
        case Binary(left=a, right=b) | Range(low=a, high=b):
            return (a, b)
        case Call(args=args):
            return args
        case Apply():
            return (node.target, *node.keys)
        case Slice():
            return (node.target, node.low, node.high)
        case If():
            return (node.test, node.then, *([] if node.otherwise is None else [node.otherwise]))
        case Let():
            return (*(e for _, e in node.bindings), node.body)
        case Sum():
            return (*(g.source for g in node.generators), node.body)
        case Merge():
            return (node.left, node.right, node.body)
        case Dict():
            return tuple(e for entry in node.entries for e in (*entry.keys, entry.value))
        case _:
            return ()


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


def free(root: Expr) -> set[str]:
    """The names that ``root`` takes from its environment."""
    match root:
        case Name():
            return {root.name}
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
            return set().union(*(free(p) for p in parts(root)))
