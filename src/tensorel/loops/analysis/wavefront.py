"""Nests whose outer turns may overlap in time, on several threads.

Turns of the outer loop are begun in their order. A turn may use cells that earlier ones write, and
write cells that these use, if it stays behind them: before it takes inner turn i, all earlier ones
have finished their inner turns up to ``i + ahead``. Then every two accesses of one cell, one of
them writing, come in the order of the program, and the results are the same to the last bit.

Each pair of accesses is judged on two copies of the nest, whose counters are symbols: that both
touch one cell and that the one turn is later than the other are constraints, and the question is
how far ahead the inner counter of the earlier may be. Where it has no bound, or where a variable
carries a value from turn to turn, the nest runs in order, and ``Refused`` has the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorel.base.records import dataclass
from tensorel.loops.analysis.affine import ONE, Bounds, Form
from tensorel.loops.analysis.assignment import exposed
from tensorel.loops.analysis.bounds import Analysis
from tensorel.loops.analysis.facts import counters
from tensorel.loops.syntax import (
    Allocate,
    Assign,
    Body,
    Break,
    Copy,
    Expr,
    For,
    If,
    Item,
    Number,
    Return,
    Stmt,
    Store,
    assigned_names,
    names_in,
    stored_arrays,
    walk,
)
from tensorel.loops.types import ArrayOf
from tensorel.loops.unit import Launch, Unit

_MAX_PAIRS = 400


class Refused(Exception):
    """The reason why a nest runs in order."""


@dataclass(frozen=True, eq=False, slots=True)
class Wavefront:
    """Statement number ``at`` of a unit. ``inner``: its loop, behind which later turns stay, None
    if the turns are independent; ``grouped``: turns next to each other may be taken together, block
    by block; ``turns``: of the outer loop; ``work``: turns of the innermost loop altogether."""

    at: int
    outer: For
    inner: For | None
    ahead: int
    grouped: bool
    turns: int
    work: int
    each: int


@dataclass(frozen=True, slots=True)
class _Access:
    storage: str
    place: tuple[Form | None, ...]
    writes: bool
    outer: Form
    inner: Form | None
    constraints: tuple[Form, ...]
    array: str
    line: int


class _Accesses(Analysis):
    """What a nest touches, with what is known where it does."""

    nest: For | None = None
    inner: For | None = None

    def __init__(self, unit: Unit, launch: Launch) -> None:
        super().__init__(unit.typing, launch.numbers, launch.shapes)
        self.unit = unit
        self.counters = counters(unit.body, set(self.numbers), self.typing)
        self.touched: dict[_Access, None] = {}

    def visit(self, nest: For, inner: For | None) -> list[_Access]:
        self.nest, self.inner, self.touched, self.work = nest, inner, {}, 0
        self.statement(nest)
        return list(self.touched)

    def statement(self, stmt: Stmt) -> None:
        super().statement(stmt)
        if isinstance(stmt, Store):
            self.touch(stmt.array, stmt.indices, True, stmt.line)

    def _form(self, e: Expr) -> Form | None:
        found = super()._form(e)
        if isinstance(e, Item):
            self.touch(e.array, e.indices, False, e.line)
        return found

    def touch(self, array: str, indices: Sequence[Expr], writes: bool, line: int) -> None:
        if self.nest is None:
            return
        outer = self.env.get(self.nest.target)
        inner = None if self.inner is None else self.env.get(self.inner.target)
        if outer is not None:
            place = tuple([self.places.get(i) for i in indices])
            access = _Access(self.unit.storages[array].name, place, writes, outer, inner,
                             tuple(self.constraints), array, line)
            self.touched[access] = None


def wavefront(unit: Unit, launch: Launch, least: int) -> Wavefront | None:
    """The first nest of a unit with so much work that can run in a wavefront."""
    returns = [s for s in walk(unit.body) if isinstance(s, Return)]
    if unit.assignment.unsure or returns[:-1] or (returns and returns[0] is not unit.body[-1]):
        return None
    for k, stmt in enumerate(unit.body):
        if isinstance(stmt, For):
            try:
                found = _judged(unit, launch, k, stmt, least)
            except Refused:
                continue
            return found
    return None


def _judged(unit: Unit, launch: Launch, at: int, nest: For, least: int) -> Wavefront:
    _check_variables(unit, at, nest)
    inner = nest.body[-1] if isinstance(nest.body[-1], For) and _step(nest.body[-1]) else None
    if inner is not None and inner.target in (
            nest.target, *assigned_names(inner.body), *assigned_names(nest.body[:-1])):
        inner = None
    accesses = _Accesses(unit, launch)
    for stmt in unit.body[:at]:
        accesses.statement(stmt)
    first, work = accesses.visit(nest, inner), accesses.work
    if work < least:
        raise Refused(f"{work} statements are few")
    second = accesses.visit(nest, inner)
    ahead = _ahead(nest, inner, first, second)
    count = accesses.turns_in[nest]
    if not count or accesses.most_turns(*[
            accesses.value(e) for e in (nest.start, nest.stop, nest.step)]) is None:
        raise Refused("how many turns there are is not known")
    if ahead is None:
        return Wavefront(at, nest, None, 0, True, count, work, 1)
    assert inner is not None
    rows = accesses.turns_in[inner]
    if 2 * ahead * count > rows * abs(_step(inner)):
        raise Refused("turns need too much of the turns before")
    if any(isinstance(s, Break) for s in _own(inner.body)):
        raise Refused("its inner loop may be left before its end")
    grouped = ahead == 0 and len(nest.body) == 1 and not exposed(
        inner.body, assigned_names(inner.body), unit.typing.names) and not (
        names_in(inner.start, inner.stop).keys()
        & {nest.target, *assigned_names(nest.body), *stored_arrays(nest.body)})
    return Wavefront(at, nest, inner, ahead, grouped, count, work,
                     max(work // max(rows, 1), 1))


def _step(loop: For) -> int:
    """The step, 0 if it is not a literal."""
    return int(loop.step.value) if isinstance(loop.step, Number) and isinstance(
        loop.step.value, int) else 0


def _check_variables(unit: Unit, at: int, nest: For) -> None:
    """Variables of the nest begin anew in each turn, and nobody asks for them afterwards."""
    inner = list(walk(nest.body))
    if not _step(nest) or nest.target in assigned_names(nest.body):
        raise Refused("its counter is no plain one")
    if any(isinstance(s, Allocate | Copy | Return) for s in inner) or any(
            isinstance(s, Assign) and isinstance(unit.typing.names[s.name], ArrayOf)
            for s in inner):
        raise Refused("arrays are made or change their names")
    if any(isinstance(s, Break) for s in _own(nest.body)):
        raise Refused("it may be left before its end")
    names, known = assigned_names(nest.body), unit.typing.names
    kept = exposed(nest.body, names, known)
    if kept:
        raise Refused(f"{min(kept)} carries a value from turn to turn")
    results = {*(unit.results or ())}
    asked = exposed(unit.body[at + 1 :], {*names, nest.target}, known) | (
        results & {*names, nest.target})
    if asked:
        raise Refused(f"{min(asked)} is used afterwards")


def _own(body: Body) -> Iterator[Stmt]:
    """Statements that are not inside of another loop."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, If):
            yield from _own(stmt.then)
            yield from _own(stmt.other)


def _ahead(nest: For, inner: For | None, first: Sequence[_Access], second: Sequence[_Access]
           ) -> int | None:
    """How far ahead earlier turns must be; None if the turns are independent."""
    found: int | None = None
    written = {a.storage for a in first if a.writes}
    pairs = [(a, b) for a in first for b in second
             if a.storage == b.storage and a.storage in written and (a.writes or b.writes)]
    if len(pairs) > _MAX_PAIRS:
        raise Refused("there are too many accesses")
    outward = 1 if _step(nest) > 0 else -1
    for later, earlier in pairs:
        by = later.outer.plus(earlier.outer, -1).times(outward)
        constraints = [*dict.fromkeys((*later.constraints, *earlier.constraints)),
                       by.plus(ONE, -1)]
        apart = [x.plus(y, -1) for x, y in zip(later.place, earlier.place)
                 if x is not None and y is not None]
        bounds = Bounds(constraints)
        if any((bounds.lower(a) or 0) > 0 or (bounds.upper(a) or 0) < 0 for a in apart):
            continue
        constraints += [*apart, *[a.times(-1) for a in apart]]
        bounds = Bounds(constraints)
        most = bounds.upper(by)
        if most is not None and most < 1:
            continue  # no two turns touch one cell
        if later.inner is None or earlier.inner is None or inner is None:
            raise Refused(f"{later.array} in line {later.line} carries a dependence")
        inward = 1 if _step(inner) > 0 else -1
        far = bounds.upper(earlier.inner.plus(later.inner, -1).times(inward))
        if far is None:
            raise Refused(f"{later.array} in line {later.line} needs cells that are far ahead")
        found = max(found or 0, far)
    return found


__all__ = ["Refused", "Wavefront", "wavefront"]
