"""Checks of indices that one look before an innermost loop can answer for all its turns.

An index that is a sum of the counter and of numbers that the loop leaves alone is inside in every
turn if it is inside in the first and in the last. The loop is written twice: without these checks
where that holds, and as it is, so that an error comes in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import INT64
from tensorel.base.records import dataclass
from tensorel.ir.build import both, minus, plus, times
from tensorel.ir.nodes import Const, Expr, const
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.types import Scalar
from tensorel.loops.typing import Typing
from tensorel.loops.unit import Storage
from tensorel.loops.wrong import call, outside

#: Sums of a few numbers below this, times small literals, do not overflow.
_LARGE = 2**40
_MAX_FACTOR = 2**16


@dataclass(frozen=True, slots=True)
class Place:
    """An index that is to be answered for all turns."""

    index: syntax.Expr
    array: str
    axis: int


class Hoisting:
    """Of one loop. ``known``: facts that hold anyway."""

    def __init__(self, loop: syntax.For, typing: Typing, known: Facts,
                 storages: dict[str, Storage]) -> None:
        self.loop = loop
        self.typing = typing
        self.known = known
        names = {n for a in syntax.stored_arrays(loop.body) for n in storages[a].names}
        self.changed = {*syntax.assigned_names(loop.body), *names}
        self.places: list[Place] = []
        inner = list(syntax.walk(loop.body))
        if loop.target not in self.changed and not any(
                isinstance(s, syntax.For | syntax.While | syntax.Allocate | syntax.Copy)
                for s in inner):
            for stmt in inner:
                if isinstance(stmt, syntax.Store):
                    self._collect(stmt.array, stmt.indices)
                for e in syntax.subexpressions(*syntax.operands(stmt)):
                    if isinstance(e, syntax.Item):
                        self._collect(e.array, e.indices)

    def _collect(self, array: str, indices: Sequence[syntax.Expr]) -> None:
        for k, e in enumerate(indices):
            fact = self.known.get(e, Fact(0))
            if not fact & (Fact.INSIDE | Fact.BEHIND) and self._is_linear(e):
                self.places.append(Place(e, array, k))

    def _is_linear(self, e: syntax.Expr) -> bool:
        t = self.typing.of(e)
        if not isinstance(t, Scalar) or t.dtype != INT64:
            return False
        match e:
            case syntax.Name(name=name) if name == self.loop.target:
                return True
            case syntax.Apply(function="+" | "-", args=args):
                return all(map(self._is_linear, args))
            case syntax.Apply(function="neg", args=(a,)):
                return self._is_linear(a)
            case syntax.Apply(function="*", args=(a, b)):
                return (_is_factor(a) and self._is_linear(b)) or (
                    _is_factor(b) and self._is_linear(a))
        return self._is_fixed(e)

    def _is_fixed(self, e: syntax.Expr) -> bool:
        """Whether it is one number in all turns, which can be looked at before."""
        match e:
            case syntax.Number():
                return _is_factor(e)
            case syntax.Name(name=name):
                return name not in self.changed
            case syntax.Extent():
                return e.array not in self.changed
            case syntax.Item():
                return e.array not in self.changed and all(
                    Fact.INSIDE in self.known.get(i, Fact(0)) and i is not None
                    and not _mentions(i, self.loop.target) and self._is_still(i)
                    for i in e.indices)
        return False

    def _is_still(self, e: syntax.Expr) -> bool:
        return not (syntax.names_in(e).keys() & self.changed) and not any(
            isinstance(x, syntax.Choice) for x in syntax.subexpressions(e))

    def facts(self) -> Facts:
        """What holds in the loop without checks."""
        found = dict(self.known)
        for place in self.places:
            for e in syntax.subexpressions(place.index):
                found[e] = found.get(e, Fact(0)) | Fact.FITS
            found[place.index] |= Fact.INSIDE
        return found

    def test(self, first: Expr, last: Expr, value: Callable[[syntax.Expr], Expr],
             extent: Callable[[str, int], Expr]) -> Expr:
        """All indices are inside in the first and in the last turn."""
        tests: dict[Expr, None] = {}
        for place in self.places:
            for counter in (first, last):
                at = self._at(place.index, counter, value, tests)
                n = extent(place.array, place.axis)
                tests[call(ops.greater_equal, at, const(0, INT64))] = None
                tests[call(ops.less, at, n)] = None
        found = both(*tests)
        assert found is not None
        return found

    def _at(self, e: syntax.Expr, counter: Expr, value: Callable[[syntax.Expr], Expr],
            tests: dict[Expr, None]) -> Expr:
        match e:
            case syntax.Name(name=name) if name == self.loop.target:
                leaf = counter
            case syntax.Apply(function="+", args=(a, b)):
                return plus(self._at(a, counter, value, tests), self._at(b, counter, value, tests))
            case syntax.Apply(function="-", args=(a, b)):
                return minus(self._at(a, counter, value, tests),
                             self._at(b, counter, value, tests))
            case syntax.Apply(function="neg", args=(a,)):
                return minus(0, self._at(a, counter, value, tests))
            case syntax.Apply(function="*", args=(a, b)):
                return times(self._at(a, counter, value, tests),
                             self._at(b, counter, value, tests))
            case _:
                leaf = value(e)
        if not isinstance(leaf, Const):
            tests[call(ops.logical_not, outside(leaf, -_LARGE, _LARGE))] = None
        return leaf


def _is_factor(e: syntax.Expr) -> bool:
    return isinstance(e, syntax.Number) and type(e.value) is int and abs(e.value) < _MAX_FACTOR


def _mentions(e: syntax.Expr, name: str) -> bool:
    return name in syntax.names_in(e)
