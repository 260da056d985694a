"""Levels that are derived from a mapping: each finds or walks the coordinates of one axis by terms
over the cursors found so far, the coordinates of the axes above, scalars and physical arrays."""

from __future__ import annotations

from functools import cache

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import as_expr, both, compare, minus
from tensorel.ir.nodes import Call as Operation
from tensorel.ir.nodes import Expr as Calculus
from tensorel.sdql.syntax import Binary, Expr, Name
from tensorel.storage.levels import Arrays, Found, Level, Position, Walk, extent_of
from tensorel.storage.mapped.polynomials import normal, polynomial
from tensorel.storage.mapped.terms import (
    ZERO,
    conjunction,
    coordinate,
    literal,
    subtract,
    translate,
)


@dataclass(frozen=True, slots=True)
class Way(Level):
    """known: the cursors in the position from above. above: the axes of the levels above.
    place: below the last level, where the value lies; None: the position goes on."""

    axis: int
    known: tuple[str, ...]
    above: tuple[int, ...]
    arrays: tuple[str, ...]
    extents: tuple[tuple[str, int], ...]  # scalars that are the extent of an axis
    test: Expr | None
    place: Expr | None

    @property
    def names(self) -> tuple[str, ...]:
        return self.arrays

    def _env(self, arrays: Arrays, parent: Position, outer: Position) -> dict[str, Calculus]:
        env = dict(zip(self.known, parent))
        env |= {coordinate(a): c for a, c in zip(self.above, outer)}
        return env | {name: extent_of(arrays, axis) for name, axis in self.extents}

    def _down(self, env: dict[str, Calculus], arrays: Arrays, position: Position) -> Position:
        return position if self.place is None else (translate(self.place, env, arrays),)


@dataclass(frozen=True, slots=True)
class Solved(Way):
    """The coordinate decides everything: found in constant time where ``test`` holds, between
    ``low`` and ``high`` (terms; None: the whole axis)."""

    low: Expr | None = None
    high: Expr | None = None

    @property
    def full(self) -> bool:
        return self.test is None and self.low is None

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        if self.full:
            return None  # a loop over the whole axis with find does the same
        env = self._env(arrays, parent, outer)
        low, high = self._clipped(env, arrays) if self.low is not None else (
            as_expr(0), extent_of(arrays, self.axis))
        here = coordinate(self.axis)

        def child(q: Calculus) -> Position:
            return self._down({**env, here: q}, arrays, parent)

        def keep(q: Calculus) -> Calculus:
            assert self.test is not None
            return translate(self.test, {**env, here: q}, arrays)

        return Walk(low, high, lambda q: q, child, keep=keep if self.test is not None else None)

    def _clipped(self, env: dict[str, Calculus], arrays: Arrays) -> tuple[Calculus, Calculus]:
        """The bounds, within the axis."""
        assert self.low is not None and self.high is not None
        low, high = translate(self.low, env, arrays), translate(self.high, env, arrays)
        return Operation(ops.maximum, (low, as_expr(0))), within(arrays, self.axis, high)

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Calculus) -> Found | None:
        env = self._env(arrays, parent, outer) | {coordinate(self.axis): i}
        conditions = [self.test] if self.test is not None else []
        if self.low is not None and self.high is not None:
            here = Name(coordinate(self.axis))
            conditions += [Binary("<=", self.low, here), Binary("<", here, self.high)]
        found = conjunction(conditions)
        ok = None if found is None else translate(found, env, arrays)
        return Found(ok, self._down(env, arrays, parent))


@dataclass(frozen=True, slots=True)
class Segment(Way):
    """A cursor runs from ``low`` to ``high``; the coordinates ascend with it. With ``runs`` it may
    stay on one coordinate, and the level below (``inside``) goes through that run. ``loose``: some
    coordinates may lie outside of the axis; there is nothing there."""

    cursor: str = ""
    low: Expr = ZERO
    high: Expr = ZERO
    coord: Expr = ZERO
    runs: bool = False
    inside: bool = False
    loose: bool = False

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        env = self._env(arrays, () if self.inside else parent, outer)
        low, high = parent if self.inside else (
            translate(self.low, env, arrays), translate(self.high, env, arrays))
        kept = () if self.inside else parent

        def coord(q: Calculus) -> Calculus:
            return translate(self.coord, {**env, self.cursor: q}, arrays)

        def child(q: Calculus) -> Position:
            below = {**env, self.cursor: q, coordinate(self.axis): coord(q)}
            return self._down(below, arrays, (*kept, q))

        def keep(q: Calculus) -> Calculus:
            c = coord(q)
            below = {**env, self.cursor: q, coordinate(self.axis): c}
            kept = both(
                compare(ops.less_equal, 0, c) if self.loose else None,
                compare(ops.less, c, extent_of(arrays, self.axis)) if self.loose else None,
                None if self.test is None else translate(self.test, below, arrays))
            assert kept is not None
            return kept

        asks = self.loose or self.test is not None
        return Walk(low, high, coord, child, self.runs, keep=keep if asks else None)


@dataclass(frozen=True, slots=True)
class Stretch(Way):
    """A cursor runs from ``low`` to ``high``; with each value go the coordinates from ``first``
    up to ``stop``, in ascending order."""

    cursor: str = ""
    low: Expr = ZERO
    high: Expr = ZERO
    first: Expr = ZERO
    stop: Expr = ZERO

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        env = self._env(arrays, parent, outer)

        def at(term: Expr, q: Calculus) -> Calculus:
            return translate(term, {**env, self.cursor: q}, arrays)

        def spread(q: Calculus, c: Calculus) -> Position:
            below = {**env, self.cursor: q, coordinate(self.axis): c}
            return self._down(below, arrays, (*parent, q))

        return Walk(
            translate(self.low, env, arrays), translate(self.high, env, arrays),
            lambda q: at(self.first, q), lambda q: spread(q, at(self.first, q)),
            last=lambda q: minus(within(arrays, self.axis, at(self.stop, q)), 1), spread=spread,
            width=width(self.first, self.stop))


@cache
def width(first: Expr, stop: Expr) -> int | None:
    """How many coordinates each stretch has, if it begins at a multiple of that."""
    found = literal(normal(subtract(stop, first)))
    if found is None or found < 2 or any(k % found for k in polynomial(first).values()):
        return None
    return found


def within(arrays: Arrays, axis: int, stop: Calculus) -> Calculus:
    """``stop``, or the end of the axis: last blocks may reach over it."""
    return Operation(ops.minimum, (stop, extent_of(arrays, axis)))
