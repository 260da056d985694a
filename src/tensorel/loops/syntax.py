"""Statements and expressions of imperative programs, as both front ends write them.

    e ::= number | name | A[e, ...] | extent of an axis | f(e, ...) | e if e else e
    s ::= x = e | A[e, ...] = e | A = new array | A = copy of B | for x in range(e, e, e): s
        | while e: s | if e: s else: s | break | continue | return e, ...

Operators and functions are named by strings: those of Python by their symbols (``+``, ``and``),
others by module and name (``math.sqrt``, ``np.exp``). ``line`` is the line in the user's source.
Nodes are compared by identity: each stands for one place in the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass

Body = tuple["Stmt", ...]


class Expr:
    """Base of expressions."""

    __slots__ = ()
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Number(Expr):
    """A literal, or a number that the program found outside: a Python or NumPy number."""

    value: object
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Name(Expr):
    """A variable: a number or a whole array."""

    name: str
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Item(Expr):
    """``array[indices]``, one entry."""

    array: str
    indices: tuple[Expr, ...]
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Extent(Expr):
    """``array.shape[axis]``."""

    array: str
    axis: int
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Expr):
    """A function or operator of numbers. ``and`` and ``or`` look at the second operand only if the
    first leaves it open."""

    function: str
    args: tuple[Expr, ...]
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Choice(Expr):
    """``then if test else other``: one of both is evaluated."""

    test: Expr
    then: Expr
    other: Expr
    line: int


class Stmt:
    """Base of statements."""

    __slots__ = ()
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Stmt):
    """``name = value``; the name of an array gives it another name."""

    name: str
    value: Expr
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Store(Stmt):
    """``array[indices] = value``."""

    array: str
    indices: tuple[Expr, ...]
    value: Expr
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Allocate(Stmt):
    """A new array, with these extents or shaped ``like`` another. Its dtype is given, or that
    ``of`` an array, or that of the fill."""

    name: str
    extents: tuple[Expr, ...]
    like: str | None
    fill: Expr
    dtype: DType | None
    of: str | None
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Copy(Stmt):
    """``name = source.copy()``."""

    name: str
    source: str
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class For(Stmt):
    """``for target in range(start, stop, step): body``."""

    target: str
    start: Expr
    stop: Expr
    step: Expr
    body: Body
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class While(Stmt):
    test: Expr
    body: Body
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class If(Stmt):
    test: Expr
    then: Body
    other: Body
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Break(Stmt):
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Continue(Stmt):
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Return(Stmt):
    """``values``: numbers and names of arrays; ``single``: not a tuple."""

    values: tuple[Expr, ...]
    single: bool
    line: int


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """All statements, those inside others after these."""
    for stmt in body:
        yield stmt
        match stmt:
            case For() | While():
                yield from walk(stmt.body)
            case If():
                yield from walk(stmt.then)
                yield from walk(stmt.other)


def operands(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself."""
    match stmt:
        case Assign():
            return (stmt.value,)
        case Store():
            return (*stmt.indices, stmt.value)
        case Allocate():
            return (*stmt.extents, stmt.fill)
        case For():
            return stmt.start, stmt.stop, stmt.step
        case While() | If():
            return (stmt.test,)
        case Return():
            return stmt.values
        case _:
            return ()


def parts(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match e:
        case Item():
            return e.indices
        case Apply():
            return e.args
        case Choice():
            return e.test, e.then, e.other
        case _:
            return ()


def subexpressions(*roots: Expr) -> Iterator[Expr]:
    """All expressions, each before those inside."""
    stack = list(reversed(roots))
    while stack:
        e = stack.pop()
        yield e
        stack.extend(reversed(parts(e)))


def assigned_names(body: Sequence[Stmt]) -> dict[str, int]:
    """The variables that statements set, with how often, not counting entries of arrays."""
    found: dict[str, int] = {}
    for stmt in walk(body):
        match stmt:
            case Assign(name=name) | Allocate(name=name) | Copy(name=name) | For(target=name):
                found[name] = found.get(name, 0) + 1
    return found


def stored_arrays(body: Sequence[Stmt]) -> set[str]:
    """The names under which entries are written."""
    return {s.array for s in walk(body) if isinstance(s, Store)}


def names_used(body: Sequence[Stmt]) -> dict[str, None]:
    """The variables and arrays that statements read or write entries of, by first appearance."""
    found: dict[str, None] = {}
    for stmt in walk(body):
        if isinstance(stmt, Store):
            found[stmt.array] = None
        elif isinstance(stmt, Copy):
            found[stmt.source] = None
        elif isinstance(stmt, Allocate):
            found.update(dict.fromkeys(n for n in (stmt.like, stmt.of) if n is not None))
        found.update(names_in(*operands(stmt)))
    return found


def names_in(*roots: Expr) -> dict[str, None]:
    """The variables and arrays that expressions read."""
    found: dict[str, None] = {}
    for e in subexpressions(*roots):
        match e:
            case Name(name=name) | Item(array=name) | Extent(array=name):
                found[name] = None
    return found


def number(value: object, line: int) -> Number:
    return Number(value, line)
