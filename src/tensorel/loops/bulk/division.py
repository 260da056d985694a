"""A program as tensors of the calculus: bulk statements, and units for what runs in order.

If every statement is bulk, the results are formulas. Otherwise nests that gain by it (a product of
matrices, sums over tensors that are stored sparse) are bulk, and what stands between them is a unit
each; if there are none, the whole program is one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorel.algebra import bulk
from tensorel.ir import nodes as ir
from tensorel.loops import meaning, syntax
from tensorel.loops.analysis.assignment import exposed
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.bulk.accumulation import shortened
from tensorel.loops.bulk.bulk_expressions import NotBulk, Values
from tensorel.loops.bulk.to_bulk import Nest
from tensorel.loops.types import ArrayOf, Type
from tensorel.loops.unit import Launch, Unit

#: Turns of a nest that adds up that make it worth a plan of its own.
_MUCH = 1 << 17


class Division:
    """A unit with what is known of a call. ``sparse``: the parameters that are stored sparse;
    ``why``: what stands against bulk statements, by lines."""

    def __init__(self, unit: Unit, launch: Launch, facts: Facts, sparse: frozenset[str]) -> None:
        self.unit = unit
        self.launch = launch
        self.facts = facts
        self.sparse = sparse
        self.why: dict[int, str] = {}
        self.typing = unit.typing
        self.body = shortened(unit.body)
        if unit.results is not None:
            line = max([s.line for s in syntax.walk(unit.body)], default=1)
            names = tuple([syntax.Name(n, line) for n in unit.results])
            self.body += (syntax.Return(names, False, line),)
        self.runs: list[ir.Tensor] = []
        self.nest: Nest | None = None  # the last that was bulk
        self.units: dict[object, Unit] = {}  # parts of a program that is driven
        self.known_later: dict[syntax.Stmt, tuple[str, ...]] = {}
        self._gaining: dict[syntax.Stmt, bool] = {}
        self.fixed = {n: v for n, v in launch.numbers.items() if is_fixed(v)}

    @property
    def ends(self) -> bool:
        """Whether the only return is the last statement."""
        returns = [s for s in syntax.walk(self.body) if isinstance(s, syntax.Return)]
        return returns == [self.body[-1]]

    @property
    def is_possible(self) -> bool:
        """Whether parts can be told apart: one return, at the end, and no array has two names."""
        unit = self.unit
        return self.ends and not unit.assignment.unsure and all(
            len(s.names) == 1 for s in unit.storages.values())

    def nodes(self, given: Mapping[str, ir.Tensor]) -> list[ir.Tensor] | None:
        """The results over tensors for the parameters; None if the whole is one unit."""
        if not self.is_possible:
            return None
        try:
            return self._whole(self._start(given))
        except NotBulk:
            return self._parts(self._start(given))

    def _start(self, given: Mapping[str, ir.Tensor]) -> Values:
        types = dict(self.unit.parameters)
        arrays = {n: t for n, t in given.items() if isinstance(types[n], ArrayOf)}
        scalars = {n: t for n, t in given.items() if n not in arrays}
        return Values(self.fixed, scalars, arrays)

    # -- all bulk ----------------------------------------------------------------------------
    def _whole(self, values: Values) -> list[ir.Tensor]:
        body = self.body
        for k, stmt in enumerate(body[:-1]):
            values = self.statement(stmt, values, body[k + 1 :])
        end = body[-1]
        assert isinstance(end, syntax.Return)
        return self.returned(end, values)

    def statement(self, stmt: syntax.Stmt, values: Values, rest: Sequence[syntax.Stmt]) -> Values:
        """What variables hold after a statement; ``NotBulk`` if it runs in order."""
        match stmt:
            case syntax.Allocate():
                values.arrays[stmt.name] = self.new(stmt, values)
                return values
            case syntax.Copy():
                values.arrays[stmt.name] = values.arrays[stmt.source]
                return values
            case syntax.Assign(name=name, value=value):
                if name in self.fixed:
                    return values
                found = known(value, values)
                if found is not None:
                    values.numbers[name] = found
                    values.scalars.pop(name, None)
                    return values
        try:
            later = frozenset(self.later(touched([stmt]), rest))
            nest = Nest(self.typing, self.facts, values.copy(), self.launch.shapes, later)
            found = nest.run(stmt)
            self.nest = nest
            return found
        except NotBulk as error:
            self.why.setdefault(stmt.line, str(error))
            raise

    def new(self, stmt: syntax.Allocate, values: Values) -> ir.Tensor:
        t = self.typing.names[stmt.name]
        nest = Nest(self.typing, self.facts, values, self.launch.shapes)
        fill = nest.stored(stmt.fill, t.dtype)
        shape = self.launch.shapes[stmt.name]
        axes = tuple([ir.Axis(f"i{k}", n) for k, n in enumerate(shape)])
        return ir.Lambda(axes, fill)

    def returned(self, stmt: syntax.Return, values: Values) -> list[ir.Tensor]:
        found: list[ir.Tensor] = []
        for e, t in zip(stmt.values, self.unit.result_types):
            if isinstance(t, ArrayOf):
                assert isinstance(e, syntax.Name)
                found.append(values.arrays[e.name])
                continue
            nest = Nest(self.typing, self.facts, values, self.launch.shapes)
            found.append(ir.Lambda((), nest.joined(e, t)))
        return found

    # -- parts -------------------------------------------------------------------------------
    def _parts(self, values: Values) -> list[ir.Tensor] | None:
        body = self.body
        waiting: list[syntax.Stmt] = []
        self.runs = []
        bulk_found = False
        for k, stmt in enumerate(body[:-1]):
            rest = body[k + 1 :]
            if not self.gains(stmt, self.as_if_run(waiting, values), rest):
                waiting.append(stmt)
                continue
            values = self.in_order(waiting, values, body[k:])
            values = self.statement(stmt, values, rest)
            waiting, bulk_found = [], True
        if not bulk_found:
            return None
        end = body[-1]
        assert isinstance(end, syntax.Return)
        if waiting:
            values = self.in_order(waiting, values, [end])
        try:
            found = self.returned(end, values)
        except NotBulk:
            return None
        # what nobody needs would not run, and an error in it would not be seen
        reached = set(ir.postorder(*found))
        return found if reached.issuperset(self.runs) else None

    def gains(self, stmt: syntax.Stmt, values: Values, rest: Sequence[syntax.Stmt]) -> bool:
        """Whether a statement is bulk, and a plan may be better than the order that was written: it
        reads tensors that are stored sparse, or has much to add up."""
        if not isinstance(stmt, syntax.For):
            return False
        try:
            self.statement(stmt, values, rest)
        except NotBulk:
            return False
        nest = self.nest
        assert nest is not None
        read = [a for a in nest.accesses if a.array in self.sparse]
        if not all(a.is_regular for a in read or nest.accesses):
            return False
        return bool(read) or (nest.adds_up and nest.work >= _MUCH)

    @property
    def drives(self) -> bool:
        """Whether a nest inside of a loop that runs in order gains: then the loop is run turn by
        turn, and the nest is planned once."""
        return self.ends and not self.unit.assignment.unsure and any(
            self.inner_gains(s) for s in self.body if isinstance(s, syntax.For | syntax.While))

    def inner_gains(self, stmt: syntax.Stmt) -> bool:
        """Whether some nest inside of a loop gains."""
        found = self._gaining.get(stmt)
        if found is None:
            match stmt:
                case syntax.For() | syntax.While():
                    inner = stmt.body
                case syntax.If():
                    inner = (*stmt.then, *stmt.other)
                case _:
                    inner = ()
            found = self._gaining[stmt] = any(
                self.gains(s, self._anything(), ()) or self.inner_gains(s) for s in inner)
        return found

    def _anything(self) -> Values:
        """Values of which nothing is known."""
        values = self._start({})
        for name, t in self.typing.names.items():
            if name not in self.fixed:
                shape = self.launch.shapes.get(name, ())
                source = ir.Source(name, shape, t.dtype, ir.const(0, t.dtype))
                (values.arrays if isinstance(t, ArrayOf) else values.scalars)[name] = source
        return values

    def later(self, names: Iterable[str], rest: Sequence[syntax.Stmt]) -> set[str]:
        """Those of the names whose values statements may use."""
        return exposed(rest, names, self.typing.names)

    def as_if_run(self, waiting: Sequence[syntax.Stmt], values: Values) -> Values:
        """Values with places for what statements set that wait."""
        found = values.copy()
        for name in touched(waiting):
            t = self.typing.names[name]
            shape = self.launch.shapes.get(name, ())
            source = ir.Source(name, shape, t.dtype, ir.const(0, t.dtype))
            if name in self.fixed:
                continue
            found.numbers.pop(name, None)
            (found.arrays if isinstance(t, ArrayOf) else found.scalars)[name] = source
        return found

    def in_order(self, body: Sequence[syntax.Stmt], values: Values, rest: Sequence[syntax.Stmt]
                 ) -> Values:
        """What variables hold after statements that a unit runs."""
        if not body:
            return values
        later = self.later(touched(body), rest)
        names = [n for n in touched(body) if n in later and n not in self.fixed]
        # a variable that is set in some turn keeps its value where there is no turn
        end = syntax.Return(tuple([syntax.Name(n, body[-1].line) for n in names]), False,
                            body[-1].line)
        mentioned = syntax.names_used((*body, end))
        wanted = self.later(mentioned, (*body, end))
        used = [n for n in mentioned if n in wanted and (
            n in values.arrays or n in values.scalars or n in values.numbers)]
        types: list[tuple[str, Type]] = [(n, self.typing.names[n]) for n in used]
        lines = (body[0].line, body[-1].line, len(body))
        whole = tuple([(n, self.typing.names[n]) for n in syntax.assigned_names(body)])
        unit = Unit((self.unit.identity, lines), self.unit.origin, tuple(body), types,
                    tuple(names), whole)
        record: bulk.Record = tuple([
            (self.launch.shapes.get(n, ()), self.typing.names[n].dtype.name) for n in names])
        args = [self.value(n, values) for n in used] or [ir.Lambda((), ir.const(0))]
        run = ir.Bulk(bulk.run_program, tuple(args), (unit, record))
        self.runs.append(run)
        found = values.copy()
        for k, name in enumerate(names):
            t = self.typing.names[name]
            node = ir.Bulk(bulk.result_of_program, (run,), (record, k))
            found.numbers.pop(name, None)
            (found.arrays if isinstance(t, ArrayOf) else found.scalars)[name] = node
        return found

    def value(self, name: str, values: Values) -> ir.Tensor:
        if name in values.arrays:
            return values.arrays[name]
        if name in values.numbers:
            dtype = self.typing.names[name].dtype
            return ir.Lambda((), ir.const(values.numbers[name], dtype))
        return values.scalars[name]


def is_fixed(value: object) -> bool:
    """A number that a plan is made for: shapes and bounds of loops depend on it."""
    return isinstance(value, bool | int | np.integer | np.bool_)


def known(e: syntax.Expr, values: Values) -> Any:
    """The value of an expression of whole numbers that are known."""
    try:
        found = meaning.evaluate(e, values.numbers)
    except (meaning.Unknown, ArithmeticError, ValueError):
        return None
    return found if is_fixed(found) and abs(int(found)) < 2**62 else None


def touched(body: Sequence[syntax.Stmt]) -> dict[str, None]:
    """The variables and arrays that statements set."""
    return dict.fromkeys([*syntax.assigned_names(body), *sorted(syntax.stored_arrays(body))])
