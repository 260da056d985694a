"""Expressions of programs in kernels: with statements before them where something may go wrong, or
where only one of two values may be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, INT64
from tensorel.ir.build import convert, plus, times
from tensorel.ir.nodes import Call, Const, Expr, Local, Read, Source, const, postorder
from tensorel.kernels.imperative.checks import Checks
from tensorel.kernels.loopir.statements import Assign, If, Return, Stmt, array
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.arithmetic import Arithmetic
from tensorel.loops.unit import Storage, Unit
from tensorel.loops.wrong import Check, Wrong, call, negative


class Numbers(Arithmetic):
    """Lowers expressions into the block that is open."""

    def __init__(self, unit: Unit, facts: Facts) -> None:
        super().__init__(unit.typing, facts)
        self.unit = unit
        self.checks = Checks()
        self.out: list[Stmt] = []
        self.kept: dict[syntax.Expr, Local] = {}  # entries that a loop has in variables
        self._count = 0

    # -- statements --------------------------------------------------------------------------
    def emit(self, stmt: Stmt) -> None:
        self.out.append(stmt)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """What is emitted inside is collected."""
        before, self.out = self.out, []
        yield self.out
        self.out = before

    def hold(self, e: Expr) -> Expr:
        """The value in a variable of its own."""
        if isinstance(e, Const | Local):
            return e
        self._count += 1
        local = Local(f".t{self._count}", e.dtype)
        self.emit(Assign(local, e))
        return local

    def stop(self, fails: Expr | None, wrong: Wrong, line: int, what: str,
             a: Expr | None, b: Expr | None) -> None:
        self.emit(self.checks.unless(fails, Check(wrong, line, what), a, b))

    # -- variables and arrays ----------------------------------------------------------------
    def local(self, name: str) -> Local:
        t = self.typing.names[name]
        return Local(name, t.dtype)

    def storage(self, name: str) -> Storage:
        return self.unit.storages[name]

    def memory(self, name: str) -> Source:
        s = self.storage(name)
        return array(s.name, s.type.dtype)

    def extent(self, name: str, axis: int) -> Local:
        s = self.storage(name)
        return Local(f"{s.name}.n{axis % s.type.rank}", INT64)

    def offset(self, name: str) -> Expr:
        """Where the array of this name begins in the memory of its class."""
        return Local(f"{name}.at", INT64) if self.storage(name).slots > 1 else const(0, INT64)

    def size(self, name: str) -> Expr:
        found: Expr = const(1, INT64)
        for k in range(self.storage(name).type.rank):
            found = times(found, self.extent(name, k))
        return found

    def require_set(self, name: str, line: int) -> None:
        if name in self.unit.assignment.unsure:
            flag = Local(f"{name}.set", BOOL)
            self.check(call(ops.logical_not, flag), Wrong.UNSET, line,
                       name if name[0] != "." else "a value")

    def position(self, name: str, indices: tuple[syntax.Expr, ...], line: int) -> Expr:
        """The place of an entry in memory, checked."""
        self.require_set(name, line)
        found: Expr = const(0, INT64)
        for k, e in enumerate(indices):
            n = self.extent(name, k)
            found = plus(times(found, n) if k else found, self.index(e, n, name, line))
        return plus(self.offset(name), found)

    def index(self, e: syntax.Expr, n: Expr, name: str, line: int) -> Expr:
        given = convert(self.value(e), INT64)
        if self.has(e, Fact.INSIDE):
            return given
        if self.has(e, Fact.BEHIND):
            return plus(n, given)
        at = self.hold(given)
        inside: Expr = at
        if not self.has(e, Fact.NATURAL):
            inside = self.hold(call(ops.where, negative(at), plus(at, n), at))
        as_unsigned = [convert(x, np.dtype("uint64")) for x in (inside, n)]
        self.check(call(ops.greater_equal, *as_unsigned), Wrong.INDEX, line,
                   name if name[0] != "." else "an array", at, n)
        return inside

    def variable(self, e: syntax.Name) -> Expr:
        self.require_set(e.name, e.line)
        return self.local(e.name)

    def entry(self, e: syntax.Item) -> Expr:
        return self.kept.get(e) or self.read(e)

    def read(self, e: syntax.Item) -> Expr:
        return Read(self.memory(e.array), (self.position(e.array, e.indices, e.line),))

    def extent_of(self, name: str, axis: int, line: int) -> Expr:
        self.require_set(name, line)
        return self.extent(name, axis)

    # -- branches ----------------------------------------------------------------------------
    def either(self, test: Expr, then: Callable[[], Expr], other: Callable[[], Expr]) -> Expr:
        """One of two values; a branch where one needs statements that are not cheap. Cheap ones run
        in any case, and only their checks ask for the test: a test that goes now this way, now that
        way costs more than they do."""
        with self.block() as first:
            yes = then()
        with self.block() as second:
            no = other()
        if not first and not second:
            return call(ops.where, test, yes, no)
        if is_cheap((*first, *second), yes, no):
            test = self.hold(test)
            self.out += [*guarded(test, first), *guarded(call(ops.logical_not, test), second)]
            return call(ops.where, test, yes, no)
        self._count += 1
        found = Local(f".t{self._count}", yes.dtype)
        first.append(Assign(found, yes))
        second.append(Assign(found, no))
        self.emit(If(test, tuple(first), tuple(second)))
        return found

    def connected(self, first: Expr, later: Callable[[], Expr], both: bool) -> Expr:
        with self.block() as inside:
            second = later()
        if not inside:
            return call(ops.logical_and if both else ops.logical_or, first, second)
        self._count += 1
        found = Local(f".t{self._count}", BOOL)
        self.emit(Assign(found, first))
        inside.append(Assign(found, second))
        self.emit(If(found if both else call(ops.logical_not, found), tuple(inside)))
        return found


#: So many operations are rather done in vain than asked for by a branch.
_MAX_STRAIGHT = 12
_CHEAP = frozenset((
    ops.add, ops.subtract, ops.multiply, ops.negative, ops.absolute, ops.minimum, ops.maximum,
    ops.where, ops.logical_and, ops.logical_or, ops.logical_not, ops.equal, ops.not_equal, ops.less,
    ops.less_equal, ops.greater, ops.greater_equal, ops.bitwise_and, ops.bitwise_or,
    ops.bitwise_xor))
_CHEAP_BY_CONSTANTS = frozenset((
    ops.floor_divide, ops.remainder, ops.left_shift, ops.right_shift))


def is_cheap(body: Sequence[Stmt], *values: Expr) -> bool:
    """Whether statements, and values that they prepare, may be computed in vain: whole numbers, and
    checks of them."""
    roots = list(values)
    for stmt in body:
        match stmt:
            case Assign(target=target, value=value) if target.name.startswith(".t"):
                roots.append(value)
            case If(condition=fails, then=(*_, Return()), otherwise=()):
                roots.append(fails)
            case _:
                return False
    calls = [e for e in postorder(*roots) if isinstance(e, Call | Read)]
    return len(calls) <= _MAX_STRAIGHT and all(
        isinstance(e, Call) and e.dtype.kind in "biu" and (
            e.op in _CHEAP or e.op.name.startswith("cast_") or (
                e.op in _CHEAP_BY_CONSTANTS and isinstance(e.args[1], Const)))
        for e in calls)


def guarded(test: Expr, body: Sequence[Stmt]) -> list[Stmt]:
    """The same where the test holds, and no harm where it does not."""
    return [If(call(ops.logical_and, s.condition, test), s.then) if isinstance(s, If) else s
            for s in body]
