"""Loops that run in order around nests that are bulk: turn by turn, with the nests planned once.

The driver follows the statements as Python does. Statements of numbers are computed here; every
nest, and every statement that looks at entries, is a unit of its own. Its plan is found again in
the next turn, so a turn costs what its nests cost. A name stands for a box that holds a tensor:
names that share an array share the box, so they see what is written under either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.errors import (
    ArithmeticError_,
    NameError_,
    RangeError,
    TensorelError,
    ValueError_,
    ZeroDivisionError_,
)
from tensorel.loops import meaning, syntax
from tensorel.loops.bulk.division import Division, touched
from tensorel.loops.syntax import Body, Stmt
from tensorel.loops.types import ArrayOf, Scalar, Type
from tensorel.loops.unit import Unit

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Step = Callable[[Unit, Mapping[str, Any]], "list[Tensor]"]


_LEAVING = (syntax.Break, syntax.Continue, syntax.Return)


class _Box:
    """An array that names stand for."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.tensor.shape
        return found

    def __getitem__(self, at: object) -> Any:
        raise meaning.Unknown(str(at))


class _Leave(Exception):
    def __init__(self, kind: type[Stmt], values: tuple[Any, ...] = ()) -> None:
        self.kind = kind
        self.values = values


class Driver:
    """One run of a unit. ``step`` computes the results of a part."""

    def __init__(self, unit: Unit, division: Division, given: Mapping[str, Any], step: Step
                 ) -> None:
        self.unit = unit
        self.typing = unit.typing
        self.division = division
        self.step = step
        self.env: dict[str, Any] = {}
        self.rest: list[Sequence[Stmt]] = []  # what follows, from outside in
        for name, t in unit.parameters:
            value = given[name]
            self.env[name] = _Box(value) if isinstance(t, ArrayOf) else self.number(name, value)

    def run(self) -> list[Any]:
        """What is returned: tensors and numbers."""
        try:
            self.block(self.division.body)
        except _Leave as found:
            return [v.tensor if isinstance(v, _Box) else v for v in found.values]
        raise AssertionError("a program that is driven ends with a return")

    def number(self, name: str, value: Any) -> Any:
        """A number as a variable holds it."""
        t = self.typing.names[name]
        assert isinstance(t, Scalar)
        if not isinstance(value, bool | int | float | complex | np.generic):
            value = value.to_numpy()[()]  # a tensor without axes
        made = np.asarray(value).astype(t.dtype)[()]
        return made.item() if t.weak else made

    # -- statements --------------------------------------------------------------------------
    def block(self, body: Sequence[Stmt]) -> None:
        for k, stmt in enumerate(body):
            self.rest.append(body[k + 1 :])
            self.statement(stmt)
            self.rest.pop()

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case syntax.Break() | syntax.Continue():
                raise _Leave(type(stmt))
            case syntax.Return():
                raise _Leave(syntax.Return, tuple([self.value(v) for v in stmt.values]))
            case syntax.While() if self.is_driven(stmt):
                self.loop(stmt, self.tests(stmt))
            case syntax.For() if self.is_driven(stmt):
                self.loop(stmt, self.counts(stmt))
            case syntax.If() if self.is_known(stmt.test) or any(
                    isinstance(s, _LEAVING) for s in syntax.walk([stmt])):
                self.block(stmt.then if self.value(stmt.test) else stmt.other)
            case syntax.Assign(value=syntax.Name(name=name)) if isinstance(
                    self.typing.names[stmt.name], ArrayOf):
                self.env[stmt.name] = self.env[name]
            case syntax.Assign() if self.is_known(stmt.value):
                self.env[stmt.name] = self.number(stmt.name, self.value(stmt.value))
            case syntax.Copy():
                self.env[stmt.name] = _Box(self.env[stmt.source].tensor)
            case _:
                self.part(stmt)

    def is_driven(self, loop: syntax.For | syntax.While) -> bool:
        """Whether the turns are taken one by one: nests inside gain by it, or it is left from
        inside."""
        return self.division.inner_gains(loop)

    def tests(self, stmt: syntax.While) -> Any:
        while self.value(stmt.test):
            yield None

    def counts(self, stmt: syntax.For) -> Any:
        for k in range(*[int(self.value(e)) for e in (stmt.start, stmt.stop, stmt.step)]):
            self.env[stmt.target] = k
            yield k

    def loop(self, stmt: syntax.For | syntax.While, turns: Any) -> None:
        self.rest.append((stmt,))
        depth = len(self.rest)
        for _ in turns:
            try:
                self.block(stmt.body)
            except _Leave as found:
                if found.kind is syntax.Return:
                    raise
                del self.rest[depth:]
                if found.kind is syntax.Break:
                    break
        self.rest.pop()

    # -- numbers -----------------------------------------------------------------------------
    def is_known(self, e: syntax.Expr) -> bool:
        """Whether an expression looks at no entry."""
        return not any(isinstance(x, syntax.Item) for x in syntax.subexpressions(e))

    def value(self, e: syntax.Expr) -> Any:
        try:
            with np.errstate(all="ignore"):
                return meaning.evaluate(e, self.env)
        except meaning.Unknown as error:
            if self.is_known(e):
                self.fail(NameError_, f"{error} is used before it is set", e)
            return self.entry(e)
        except ZeroDivisionError as error:
            self.fail(ZeroDivisionError_, str(error), e)
        except OverflowError as error:
            self.fail(ArithmeticError_, str(error), e)
        except (ValueError, RangeError) as error:
            self.fail(ValueError_, str(error), e)

    def fail(self, kind: type[TensorelError], message: str, e: syntax.Expr) -> Any:
        self.unit.origin.fail(kind, message, e.line)

    def entry(self, e: syntax.Expr) -> Any:
        """A number that is made of entries."""
        stmt = syntax.Assign(".value", e, e.line)
        t = self.typing.number(e)
        unit = self.unit_of((stmt,), (".value",), ((".value", t),), id(e))
        found = self.step(unit, self.given(unit))[0].to_numpy()[()]
        return found.item() if t.weak else found

    # -- parts -------------------------------------------------------------------------------
    def part(self, stmt: Stmt) -> None:
        """A statement as a unit of its own."""
        types, order = self.typing.names, self.division.known_later.get(stmt)
        if order is None:
            names = {n for rest in self.rest for n in self.division.later(touched([stmt]), rest)}
            order = tuple([n for n in touched([stmt]) if n in names])
            self.division.known_later[stmt] = order
        if isinstance(stmt, syntax.Allocate):
            self.env.pop(stmt.name, None)
        unit = self.unit_of((stmt,), order, tuple([
            (n, types[n]) for n in touched([stmt])]), id(stmt))
        for name, found in zip(order, self.step(unit, self.given(unit))):
            if not isinstance(types[name], ArrayOf):
                self.env[name] = self.number(name, found)
            elif name in self.env:
                self.env[name].tensor = found
            else:
                self.env[name] = _Box(found)

    def unit_of(self, body: Body, results: tuple[str, ...], whole: tuple[tuple[str, Type], ...],
                at: int) -> Unit:
        # a result that no turn sets keeps its value
        used = tuple([n for n in dict.fromkeys((*syntax.names_used(body), *results))
                      if n in self.env])
        key = at, results, used
        units = self.division.units
        found = units.get(key)
        if found is None:
            names = self.typing.names
            numbered = [k for k, s in enumerate(syntax.walk(self.division.body)) if s is body[0]]
            about = (self.unit.identity, body[0].line, tuple(numbered), at if not numbered else 0)
            found = units[key] = Unit(about, self.unit.origin, body, [
                (n, names[n]) for n in used], results, whole)
        return found

    def given(self, unit: Unit) -> dict[str, Any]:
        return {n: v.tensor if isinstance(v, _Box) else v
                for n, v in ((n, self.env[n]) for n, _ in unit.parameters)}
