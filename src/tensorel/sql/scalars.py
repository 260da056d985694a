"""Typed scalar expressions over the columns of a relation. Equal expressions compare equal, so
that a grouping finds its keys in what is selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from tensorel.base.records import dataclass
from tensorel.sql.types import Type


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a plan. No two columns of a plan share a number."""

    number: int
    type: Type = field(compare=False)
    nullable: bool = field(compare=False)
    name: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is null. An interval is months, days and microseconds."""

    value: object
    type: Type

    @property
    def nullable(self) -> bool:
        return self.value is None

    def __str__(self) -> str:
        return repr(self.value) if self.type is Type.TEXT else str(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of scalars. ``detail``: what is fixed by the text, such as a pattern."""

    function: str
    args: tuple[Scalar, ...]
    type: Type
    nullable: bool
    detail: object = None

    def __str__(self) -> str:
        shown = [str(a) for a in self.args]
        if self.detail is not None:
            shown.append(repr(self.detail))
        if not self.function[0].isalpha() and len(shown) == 2:
            return f"({shown[0]} {self.function} {shown[1]})"
        return f"{self.function}({', '.join(shown)})"


Scalar: TypeAlias = Column | Literal | Call
TRUE = Literal(True, Type.BOOLEAN)


def walk(e: Scalar) -> Iterator[Scalar]:
    """The expression and all inside, parents first."""
    stack = [e]
    while stack:
        e = stack.pop()
        yield e
        if isinstance(e, Call):
            stack += e.args


def columns_of(*expressions: Scalar) -> set[Column]:
    return {x for e in expressions for x in walk(e) if isinstance(x, Column)}


def rebuilt(e: Scalar, change: Callable[[Scalar], Scalar | None]) -> Scalar:
    """``e`` with what ``change`` gives for parts of it, outermost first; None leaves a part."""
    new = change(e)
    if new is not None:
        return new
    if not isinstance(e, Call):
        return e
    args = tuple([rebuilt(a, change) for a in e.args])
    if all(a is b for a, b in zip(args, e.args)):
        return e
    return Call(e.function, args, e.type, e.nullable, e.detail)


def replaced(e: Scalar, values: Mapping[Column, Scalar]) -> Scalar:
    """``e`` with other expressions in place of columns."""
    if not values:
        return e
    return rebuilt(e, lambda x: values.get(x) if isinstance(x, Column) else None)


def conjuncts(e: Scalar) -> list[Scalar]:
    """The tests whose conjunction it is."""
    if isinstance(e, Call) and e.function == "and":
        return [c for a in e.args for c in conjuncts(a)]
    return [] if e == TRUE else [e]


def both(tests: list[Scalar]) -> Scalar:
    """The conjunction of tests."""
    if not tests:
        return TRUE
    if len(tests) == 1:
        return tests[0]
    return Call("and", tuple(tests), Type.BOOLEAN, any(t.nullable for t in tests))


def compare(function: str, a: Scalar, b: Scalar) -> Scalar:
    """A comparison of two scalars of one type."""
    nullable = function not in ("is", "is not") and (a.nullable or b.nullable)
    return Call(function, (a, b), Type.BOOLEAN, nullable)


def negated(e: Scalar) -> Scalar:
    if isinstance(e, Call) and e.function == "not":
        return e.args[0]
    return Call("not", (e,), Type.BOOLEAN, e.nullable)


def is_null(e: Scalar) -> Scalar:
    return Call("is null", (e,), Type.BOOLEAN, False)
