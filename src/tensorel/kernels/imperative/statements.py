"""Statements of programs as statements of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, INT64
from tensorel.base.records import dataclass
from tensorel.ir.build import convert, floordiv, minus, plus, times
from tensorel.ir.nodes import Expr, Local, Read, const
from tensorel.kernels.imperative.hoisting import Hoisting
from tensorel.kernels.imperative.numbers import Numbers
from tensorel.kernels.loopir import statements as ir
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.analysis.reuse import split_axis
from tensorel.loops.types import ArrayOf, Scalar
from tensorel.loops.unit import Unit
from tensorel.loops.wrong import Wrong, call, is_zero

ZERO, ONE = const(0, INT64), const(1, INT64)
#: Loops that count look at whether they are to stop inside of less others than that; a while, which
#: may never end, always does.
_CHECKED_DEPTH = 2
_KEPT = Fact.STILL | Fact.PREVIOUS | Fact.SPLIT


@dataclass(frozen=True, slots=True)
class Counted:
    """The counter of a loop is ``start + by * count``, for counts from ``low`` below ``high``."""

    start: Expr
    by: Expr
    low: Expr
    high: Expr

    def value(self, count: Expr) -> Expr:
        return count if self.by is ONE else plus(self.start, times(count, self.by))


class Statements(Numbers):
    """Lowers the statements of one unit."""

    def __init__(self, unit: Unit, facts: Facts) -> None:
        super().__init__(unit, facts)
        self.depth = 0
        self.was_split = False  # the last loop: the one around it is for each turn alone
        self.carried: dict[syntax.Stmt, list[Local]] = {}  # variables for what a store leaves

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
        kept = self.carried.get(stmt, ())
        if kept:
            value = self.hold(value)
        self.emit(ir.Store(memory, position, value))
        for local in kept:
            self.emit(ir.Assign(local, value))

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
        counted = self.counted(stmt)
        self.loop(stmt, counted, counted.low, counted.high)

    def counted(self, stmt: syntax.For) -> Counted:
        """How a loop counts, evaluated here."""
        start, stop = [self.hold(convert(self.value(e), INT64)) for e in (stmt.start, stmt.stop)]
        start, stop = [self.own(e) if e is self.local(stmt.target) else e for e in (start, stop)]
        if isinstance(stmt.step, syntax.Number) and stmt.step.value == 1:
            return Counted(ZERO, ONE, start, stop)
        start = self.own(start)
        turns, by = self.turns(stmt, start, stop)
        return Counted(start, by, ZERO, turns)

    def loop(self, stmt: syntax.For, counted: Counted, low: Expr, high: Expr,
             body: Callable[[], None] | None = None) -> None:
        """The turns of a loop whose counts lie between; ``body``: what each does, if not what is
        written."""
        target = self.local(stmt.target)
        simple = counted.by is ONE and target.dtype == INT64 and \
            stmt.target not in syntax.assigned_names(stmt.body)
        counter = target if simple else self.fresh_counter()
        first: list[ir.Stmt] = []
        if not simple:
            first.append(ir.Assign(target, convert(counted.value(counter), target.dtype)))
        if stmt.target in self.unit.assignment.unsure:
            first.append(ir.Assign(Local(f"{stmt.target}.set", BOOL), const(True)))
        depth = self.depth
        self.depth += 1
        known, at = self.kept_entries(stmt)
        pieces = [(low, high, known)]
        if at is not None:
            middle, behind = [self.hold(call(ops.minimum, call(ops.maximum, x, low), high))
                              for x in (at, plus(at, 1))]
            still = [e for e in known if not self.has(e, Fact.SPLIT)]
            pieces = [(low, middle, known), (middle, behind, still), (behind, high, known)]
        for start, end, entries in pieces:
            self.keep(stmt, entries, counted.value(start), call(ops.less, start, end))
            self.piece(stmt, Counted(counted.start, counted.by, start, end), counter, first, body)
            for e in entries:
                del self.kept[e]
            self.carried.clear()
        self.was_split, self.depth = at is not None, depth

    def piece(self, stmt: syntax.For, counted: Counted, counter: Local, first: list[ir.Stmt],
              body: Callable[[], None] | None) -> None:
        """Some turns of a loop."""
        low, high, checked = counted.low, counted.high, self.depth <= _CHECKED_DEPTH

        def written() -> ir.For:
            self.was_split = False
            with self.block() as inside:
                self.body(stmt.body) if body is None else body()
            return ir.For(counter, low, high, (*first, *inside), checked, self.was_split)

        hoisting = Hoisting(stmt, self.typing, self.facts, self.unit.storages)
        if hoisting.places:
            begin, end = [self.hold(counted.value(at)) for at in (low, minus(high, 1))]
            test = hoisting.test(begin, end, self.value, self.extent)
            facts, self.facts = self.facts, hoisting.facts()
            quick = written()
            self.facts = facts
            self.emit(ir.If(self.hold(test), (quick,), (written(),)))
        else:
            self.emit(written())

    def kept_entries(self, stmt: syntax.For) -> tuple[list[syntax.Item], Expr | None]:
        """Entries that the turns of an innermost loop need not read, and the count of the turn
        that alone may change some of them."""
        if any(isinstance(s, syntax.For | syntax.While) for s in syntax.walk(stmt.body)):
            return [], None
        unsure = self.unit.assignment.unsure
        entries = dict.fromkeys(
            e for s in syntax.walk(stmt.body) for e in syntax.subexpressions(*syntax.operands(s))
            if isinstance(e, syntax.Item) and self.facts.get(e, Fact(0)) & _KEPT
            and unsure.isdisjoint({e.array, *syntax.names_in(*e.indices)} - {stmt.target}))
        turns: dict[Expr, None] = {}
        for e in [e for e in entries if self.has(e, Fact.SPLIT)]:
            name = self.storage(e.array).name
            stores = [s for s in syntax.walk(stmt.body)
                      if isinstance(s, syntax.Store) and self.storage(s.array).name == name]
            axis = split_axis(e, stores, stmt)
            assert axis is not None
            at = self.index(e.indices[axis], self.extent(e.array, axis), e.array, e.line)
            if turns and at not in turns:
                del entries[e]
            turns.setdefault(at)
        return list(entries), next(iter(turns), None)

    def keep(self, stmt: syntax.For, entries: Sequence[syntax.Item], first: Expr, starts: Expr
             ) -> None:
        """Entries in variables, before the turns that begin with a value of the counter."""
        if not entries:
            return
        target = self.local(stmt.target)
        with self.block() as inside:
            self.emit(ir.Assign(target, convert(first, target.dtype)))
            known: dict[Expr, Local] = {}
            for e in entries:
                read = self.read(e)
                if read not in known:
                    self._count += 1
                    known[read] = Local(f".p{self._count}", read.dtype)
                    self.emit(ir.Assign(known[read], read))
                local = self.kept[e] = known[read]
                if self.has(e, Fact.PREVIOUS):
                    store = next(s for s in syntax.walk(stmt.body)
                                 if isinstance(s, syntax.Store) and s.array == e.array)
                    self.carried.setdefault(store, []).append(local)
        self.emit(ir.If(starts, tuple(inside)))

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
        self.depth += 1
        with self.block() as before:
            test = self.truth(stmt.test)
        body = self.inside(stmt.body)
        self.depth -= 1
        if before:
            leave = ir.If(call(ops.logical_not, test), (ir.Break(),))
            self.emit(ir.While(const(True), (*before, leave, *body), True))
        else:
            self.emit(ir.While(test, tuple(body), True))


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
