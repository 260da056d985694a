"""Dependences between the accesses of a nest of loops.

A nest becomes bulk statements by distribution: each statement is done for all turns before the
next one begins, reads before writes. That changes nothing if no access that stands later in the
text touches, in an earlier turn, a cell that one standing before touches too (one of both writing).
Places are affine in the counters; where they are not, or a counter is missing, nothing is known and
a dependence is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.base.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Counter:
    """A loop: its counter lies in [low, high], counted up or down (``sign``)."""

    name: str
    low: int
    high: int
    sign: int
    line: int


@dataclass(frozen=True, slots=True)
class Linear:
    """``constant + sum of coefficient * counter``."""

    constant: int
    terms: tuple[tuple[Counter, int], ...] = ()

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """This + times * other."""
        found = dict(self.terms)
        for v, c in other.terms:
            found[v] = found.get(v, 0) + times * c
        return Linear(self.constant + times * other.constant,
                      tuple([(v, c) for v, c in found.items() if c]))

    @property
    def span(self) -> tuple[int, int]:
        ends = [sorted((c * v.low, c * v.high)) for v, c in self.terms]
        return (self.constant + sum(e[0] for e in ends),
                self.constant + sum(e[1] for e in ends))


Place = tuple["Linear | None", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """An access of an array inside these loops, outermost first. ``combined``: it only adds to the
    cell (by the operator of this name)."""

    array: str
    place: Place
    loops: tuple[Counter, ...]
    writes: bool
    line: int
    combined: str | None = None

    @property
    def is_regular(self) -> bool:
        """Whether each index is a counter and a constant, or a constant."""
        return all(p is not None and len(p.terms) < 2 and all(abs(c) == 1 for _, c in p.terms)
                   for p in self.place)


@dataclass(frozen=True, slots=True)
class Carried:
    """What keeps a nest from being bulk."""

    array: str
    line: int
    counter: str

    def __str__(self) -> str:
        return f"{self.array} in line {self.line} carries a dependence along {self.counter}"


def carried(first: Access, second: Access) -> Carried | None:
    """The dependence that forbids to do all turns of the first access before the second, which
    stands behind it."""
    if first.array != second.array or not (first.writes or second.writes):
        return None
    if first.combined is not None and first.combined == second.combined:
        return None
    common = [a for a, b in zip(first.loops, second.loops) if a is b]
    distances = _distances(first.place, second.place, common)
    if distances is None:
        return None
    for loop in common:
        if loop.low == loop.high:
            continue
        by = distances.get(loop)
        if by is None or by * loop.sign > 0:
            return Carried(first.array, second.line, loop.name)
        if by:
            return None
    return None


def _distances(a: Place, b: Place, common: Sequence[Counter]) -> dict[Counter, int] | None:
    """By how much the counters of the first access are ahead of those of the second where both
    touch one cell; None if they never do."""
    found: dict[Counter, int] = {}
    for x, y in zip(a, b):
        if x is None or y is None:
            continue
        low, high = x.span
        other_low, other_high = y.span
        if high < other_low or other_high < low:
            return None
        if x.terms != y.terms or len(x.terms) != 1 or x.terms[0][0] not in common:
            if not x.terms and not y.terms and x.constant != y.constant:
                return None
            continue
        (counter, c), difference = x.terms[0], y.constant - x.constant
        by, rest = divmod(difference, c)
        if rest or abs(by) > counter.high - counter.low or found.get(counter, by) != by:
            return None
        found[counter] = by
    return found


def is_injective(place: Place, loops: Sequence[Counter]) -> bool:
    """Whether each turn touches a cell of its own."""
    alone = {p.terms[0][0] for p in place if p is not None and len(p.terms) == 1}
    return all(v in alone or v.low == v.high for v in loops)
