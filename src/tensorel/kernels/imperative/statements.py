"""Statements of programs as statements of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, INT64
from tensorel.ir.build import convert, floordiv, minus, plus, times
from tensorel.ir.nodes import Expr, Local, Read, const
from tensorel.kernels.imperative.hoisting import Hoisting
from tensorel.kernels.imperative.numbers import Numbers
from tensorel.kernels.loopir import statements as ir
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.types import ArrayOf, Scalar
from tensorel.loops.unit import Unit
from tensorel.loops.wrong import Wrong, call, is_zero

ZERO, ONE = const(0, INT64), const(1, INT64)
#: Loops inside so many others look at whether they are to stop.
_CHECKED_DEPTH = 2


class Statements(Numbers):
    """Lowers the statements of one unit."""

    def __init__(self, unit: Unit, facts: Facts) -> None:
        super().__init__(unit, facts)
        self.depth = 0

    def body(self, body: Sequence[syntax.Stmt]) -> None:
        for stmt in body:
            self.statement(stmt)

    def inside(self, body: Sequence[syntax.Stmt]) -> list[ir.Stmt]:
        with self.block() as found:
            self.body(body)
        return found

    def statement(self, stmt: syntax.Stmt) -> None:
        match stmt:
            case syntax.Assign():
                self.assign(stmt)
            case syntax.Store():
                self.store(stmt)
            case syntax.Allocate() | syntax.Copy():
                self.make(stmt)
            case syntax.For():
                self.for_(stmt)
            case syntax.While():
                self.while_(stmt)
            case syntax.If():
                test = self.truth(stmt.test)
                then, other = self.inside(stmt.then), self.inside(stmt.other)
                self.emit(ir.If(test, tuple(then), tuple(other)))
            case syntax.Break():
                self.emit(ir.Break())
            case syntax.Continue():
                self.emit(ir.Continue())
            case syntax.Return():
                for k, (e, t) in enumerate(zip(stmt.values, self.unit.result_types)):
                    self.result(k, e, t, stmt.line)
                self.emit(ir.Return())

    # -- variables and entries ---------------------------------------------------------------
    def assign(self, stmt: syntax.Assign) -> None:
        t = self.typing.names[stmt.name]
        if isinstance(t, Scalar):
            self.emit(ir.Assign(self.local(stmt.name), self.joined(stmt.value, t)))
        else:
            assert isinstance(stmt.value, syntax.Name)
            self.require_set(stmt.value.name, stmt.line)
            if self.storage(stmt.name).slots > 1:
                self.emit(ir.Assign(Local(f"{stmt.name}.at", INT64),
                                    self.offset(stmt.value.name)))
        self.mark_set(stmt.name)

    def mark_set(self, name: str) -> None:
        if name in self.unit.assignment.unsure:
            self.emit(ir.Assign(Local(f"{name}.set", BOOL), const(True)))

    def store(self, stmt: syntax.Store) -> None:
        memory = self.memory(stmt.array)
        value = self.stored(stmt.value, memory.dtype)
        position = self.position(stmt.array, stmt.indices, stmt.line)
        self.emit(ir.Store(memory, position, value))

    def result(self, k: int, e: syntax.Expr, t: object, line: int) -> None:
        """Write a result where the caller looks for it."""
        if isinstance(t, ArrayOf):
            assert isinstance(e, syntax.Name)
            self.require_set(e.name, line)
            if not self.is_direct(k):
                self.copy(ir.array(f".result{k}", t.dtype), ZERO, e.name)
            return
        assert isinstance(t, Scalar)
        self.emit(ir.Store(ir.array(f".result{k}", t.dtype), ZERO, self.joined(e, t)))

    def is_direct(self, k: int) -> bool:
        """Whether the memory of an array is where its result is expected."""
        return k in direct_results(self.unit)

    def copy(self, into: object, start: Expr, name: str) -> None:
        source = self.memory(name)
        at = self.fresh_counter()
        value = Read(source, (plus(self.offset(name), at),))
        self.emit(ir.For(at, ZERO, self.size(name), (
            ir.Store(into, plus(start, at), value),)))  # type: ignore[arg-type]

    def fresh_counter(self) -> Local:
        self._count += 1
        return Local(f".k{self._count}", INT64)

    def make(self, stmt: syntax.Allocate | syntax.Copy) -> None:
        """A new array: in a slot that no other name holds."""
        storage, memory = self.storage(stmt.name), self.memory(stmt.name)
        if isinstance(stmt, syntax.Copy):
            self.require_set(stmt.source, stmt.line)
        elif stmt.like is not None:
            self.require_set(stmt.like, stmt.line)
        start: Expr = ZERO
        if storage.slots > 1:
            start = self.free_slot(stmt.name)
        at = self.fresh_counter()
        if isinstance(stmt, syntax.Copy):
            if stmt.source != stmt.name or storage.slots > 1:
                self.copy(memory, start, stmt.source)
        else:
            value = self.hold(self.stored(stmt.fill, memory.dtype))
            self.emit(ir.For(at, ZERO, self.size(stmt.name), (
                ir.Store(memory, plus(start, at), value),)))
        if storage.slots > 1:
            self.emit(ir.Assign(Local(f"{stmt.name}.at", INT64), start))
        self.mark_set(stmt.name)

    def free_slot(self, name: str) -> Expr:
        storage = self.storage(name)
        self._count += 1
        slot = Local(f".s{self._count}", INT64)
        size = self.hold(self.size(name))
        self.emit(ir.Assign(slot, ZERO))
        taken: Expr | None = None
        for other in storage.names:
            if other != name:
                same = call(ops.equal, slot, Local(f"{other}.at", INT64))
                taken = same if taken is None else call(ops.logical_or, taken, same)
        if taken is not None:
            bound = times(size, const(storage.slots - 1, INT64))
            self.emit(ir.While(call(ops.logical_and, taken, call(ops.less, slot, bound)),
                               (ir.Assign(slot, plus(slot, size)),)))
        return slot

    # -- loops -------------------------------------------------------------------------------
    def for_(self, stmt: syntax.For) -> None:
        start, stop = [self.hold(convert(self.value(e), INT64)) for e in (stmt.start, stmt.stop)]
        target, checked = self.local(stmt.target), self.depth < _CHECKED_DEPTH
        step = stmt.step.value if isinstance(stmt.step, syntax.Number) else None
        at = self.fresh_counter()
        first: list[ir.Stmt] = []
        by: Expr = ONE
        low: Expr = start
        high: Expr = stop
        if step == 1:
            value: Expr = at
        else:
            start = self.own(start)
            low, (high, by) = ZERO, self.turns(stmt, start, stop)
            value = plus(start, times(at, by))
        simple = step == 1 and target.dtype == INT64 and \
            stmt.target not in syntax.assigned_names(stmt.body)
        if not simple:
            first.append(ir.Assign(target, convert(value, target.dtype)))
        if stmt.target in self.unit.assignment.unsure:
            first.append(ir.Assign(Local(f"{stmt.target}.set", BOOL), const(True)))
        counter, depth = target if simple else at, self.depth
        self.depth += 1

        def loop() -> ir.For:
            return ir.For(counter, low, high, (*first, *self.inside(stmt.body)), checked)

        hoisting = Hoisting(stmt, self.typing, self.facts, self.unit.storages)
        if hoisting.places:
            ends = [start, minus(stop, 1)] if step == 1 else [
                start, plus(start, times(minus(high, 1), by))]
            test = hoisting.test(self.hold(ends[0]), self.hold(ends[1]), self.value, self.extent)
            facts, self.facts = self.facts, hoisting.facts()
            quick = loop()
            self.facts = facts
            self.emit(ir.If(self.hold(test), (quick,), (loop(),)))
        else:
            self.emit(loop())
        self.depth = depth

    def own(self, e: Expr) -> Expr:
        """A value that the statements inside do not change."""
        if isinstance(e, Local) and not e.name.startswith(".t"):
            self._count += 1
            local = Local(f".t{self._count}", e.dtype)
            self.emit(ir.Assign(local, e))
            return local
        return e

    def turns(self, stmt: syntax.For, start: Expr, stop: Expr) -> tuple[Expr, Expr]:
        """How many turns a range with a step has, and the step."""
        by = self.own(convert(self.value(stmt.step), INT64))
        if isinstance(stmt.step, syntax.Number) and int(stmt.step.value):  # type: ignore[call-overload]
            step = int(stmt.step.value)  # type: ignore[call-overload]
            length = minus(stop, start) if step > 0 else minus(start, stop)
            return self.hold(floordiv(plus(length, abs(step) - 1), abs(step))), by
        if not self.has(stmt.step, Fact.POSITIVE) and not self.has(stmt.step, Fact.NEGATIVE):
            self.check(is_zero(by), Wrong.STEP, stmt.line)
        up = call(ops.greater, by, ZERO)
        size = self.hold(call(ops.absolute, by))
        length = call(ops.where, up, minus(stop, start), minus(start, stop))
        return self.hold(floordiv(plus(length, minus(size, 1)), size)), by

    def while_(self, stmt: syntax.While) -> None:
        checked = self.depth < _CHECKED_DEPTH
        self.depth += 1
        with self.block() as before:
            test = self.truth(stmt.test)
        body = self.inside(stmt.body)
        self.depth -= 1
        if before:
            leave = ir.If(call(ops.logical_not, test), (ir.Break(),))
            self.emit(ir.While(const(True), (*before, leave, *body), checked))
        else:
            self.emit(ir.While(test, tuple(body), checked))


def direct_results(unit: Unit) -> dict[int, str]:
    """Results that are the whole memory of an array, by the class of its names: the program has one
    place where it ends, and nobody else gets this memory."""
    if unit.results is not None:
        names: list[str | None] = list(unit.results)
    elif len(unit.returns) == 1:
        names = [v.name if isinstance(v, syntax.Name) else None for v in unit.returns[0].values]
    else:
        return {}
    found: dict[int, str] = {}
    for k, name in enumerate(names):
        if name in unit.storages:
            storage = unit.storages[name]
            if not storage.lent and storage.slots == 1 and storage.name not in found.values():
                found[k] = storage.name
    return found
