"""Expressions of a nest of loops as formulas of its counters, and the accesses that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorel.algebra import ops
from tensorel.algebra.ops import INT64
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert, plus, times
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.arithmetic import Arithmetic
from tensorel.loops.bulk.dependences import Access, Counter, Linear, carried
from tensorel.loops.typing import Typing
from tensorel.loops.wrong import Wrong, call


class NotBulk(Exception):
    """Why statements run in order."""


class Values:
    """What variables hold between statements: ``numbers`` are known, ``scalars`` and ``arrays``
    are tensors."""

    def __init__(self, numbers: Mapping[str, object], scalars: Mapping[str, ir.Tensor],
                 arrays: Mapping[str, ir.Tensor]) -> None:
        self.numbers = dict(numbers)
        self.scalars = dict(scalars)
        self.arrays = dict(arrays)

    def copy(self) -> Values:
        return Values(self.numbers, self.scalars, self.arrays)


class BulkExpressions(Arithmetic):
    """``counters``: the loops at this place, by the names of their counters; ``locals``: formulas
    of variables, None where one holds what another turn left; ``forms``: those that are affine."""

    def __init__(self, typing: Typing, facts: Facts, values: Values,
                 shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(typing, facts)
        self.values = values
        self.shapes = shapes
        self.accesses: list[Access] = []
        self.loops: tuple[Counter, ...] = ()
        self.counters: dict[str, Counter] = {}
        self.locals: dict[str, ir.Expr | None] = {}
        self.forms: dict[str, Linear] = {}

    # -- variables ---------------------------------------------------------------------------
    def variable(self, e: syntax.Name) -> ir.Expr:
        if e.name in self.counters:
            return self.position(self.counters[e.name])
        return self.held(e.name, e.line)

    def held(self, name: str, line: int) -> ir.Expr:
        found = self.locals[name] if name in self.locals else self.outside(name)
        if found is None:
            raise NotBulk(f"{name} in line {line} may hold what another turn left")
        return found

    def outside(self, name: str) -> ir.Expr | None:
        """What a variable holds before the nest; None if it may not be set."""
        dtype = self.typing.names[name].dtype
        if name in self.values.numbers:
            return convert(ir.const(self.values.numbers[name]), dtype)
        if name in self.values.scalars:
            return convert(ir.Read(self.values.scalars[name], ()), dtype)
        return None

    @staticmethod
    def position(counter: Counter) -> ir.Expr:
        return plus(ir.Index(counter.name), counter.low)

    # -- entries -----------------------------------------------------------------------------
    def entry(self, e: syntax.Item) -> ir.Expr:
        node = self.array(e.array, e.line)
        at = self.place(e.array, e.indices)
        place = self.linears(e.array, e.indices)
        self.access(Access(e.array, place, self.loops, False, e.line))
        return ir.Read(node, at)

    def array(self, name: str, line: int) -> ir.Tensor:
        if name not in self.values.arrays:
            raise NotBulk(f"{name} in line {line} may not be set")
        return self.values.arrays[name]

    def place(self, name: str, indices: tuple[syntax.Expr, ...]) -> tuple[ir.Expr, ...]:
        found = []
        for e, n in zip(indices, self.shapes[name]):
            given = convert(self.value(e), INT64)
            if self.has(e, Fact.BEHIND):
                given = plus(given, n)
            elif not self.has(e, Fact.INSIDE):
                raise NotBulk(f"an index of {name} in line {e.line} may be outside")
            found.append(given)
        return tuple(found)

    def access(self, access: Access) -> None:
        for before in self.accesses:
            found = carried(before, access)
            if found is not None:
                raise NotBulk(str(found))
        self.accesses.append(access)

    def extent_of(self, name: str, axis: int, line: int) -> ir.Expr:
        return ir.const(self.shapes[name][axis], INT64)

    def size(self, name: str) -> ir.Expr:
        found: ir.Expr = ir.const(1, INT64)
        for n in self.shapes[name]:
            found = times(found, n)
        return found

    # -- affine places -----------------------------------------------------------------------
    def linears(self, name: str, indices: tuple[syntax.Expr, ...]) -> tuple[Linear | None, ...]:
        found = []
        for e, n in zip(indices, self.shapes[name]):
            form = self.linear(e)
            if form is not None and self.has(e, Fact.BEHIND):
                form = form.plus(Linear(n))
            found.append(form)
        return tuple(found)

    def linear(self, e: syntax.Expr) -> Linear | None:
        """An affine whole number, None if it is none."""
        match e:
            case syntax.Number(value=int() as value):
                return Linear(int(value))
            case syntax.Extent():
                return Linear(self.shapes[e.array][e.axis])
            case syntax.Name(name=name):
                return self._named(name)
            case syntax.Apply(function="+" | "-" as op, args=(a, b)):
                x, y = self.linear(a), self.linear(b)
                return None if x is None or y is None else x.plus(y, 1 if op == "+" else -1)
            case syntax.Apply(function="*", args=(a, b)):
                x, y = self.linear(a), self.linear(b)
                if x is None or y is None or (x.terms and y.terms):
                    return None
                x, y = (y, x) if x.terms else (x, y)
                return Linear(0).plus(y, x.constant)
            case syntax.Apply(function="neg", args=(a,)):
                x = self.linear(a)
                return None if x is None else Linear(0).plus(x, -1)
            case syntax.Apply(function="//" | "text./", args=(a, b)):
                x, y = self.linear(a), self.linear(b)
                if x is not None and y is not None and not x.terms and not y.terms and y.constant:
                    return Linear(x.constant // y.constant)
        return None

    def _named(self, name: str) -> Linear | None:
        if name in self.counters:
            return Linear(0, ((self.counters[name], 1),))
        if name in self.locals:
            return self.forms.get(name)
        known = self.values.numbers.get(name)
        return Linear(known) if isinstance(known, int) else None

    # -- nothing is done before --------------------------------------------------------------
    def hold(self, e: ir.Expr) -> ir.Expr:
        return e

    def stop(self, fails: ir.Expr | None, wrong: Wrong, line: int, what: str,
             a: ir.Expr | None, b: ir.Expr | None) -> None:
        raise NotBulk(f"line {line} may stop with an error ({wrong.name.lower()})")

    def either(self, test: ir.Expr, then: Callable[[], ir.Expr], other: Callable[[], ir.Expr]
               ) -> ir.Expr:
        return ir.Call(ops.where, (test, then(), other()))

    def connected(self, first: ir.Expr, later: Callable[[], ir.Expr], both: bool) -> ir.Expr:
        return call(ops.logical_and if both else ops.logical_or, first, later())
