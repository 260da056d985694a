"""What is known of all programs that are written the same way over tensors of the same kinds, and
the numbers in which they differ.

Most numbers are no part of a formula: of each it knows dtype and sign. Of an extent it knows the
power of two that it is below, so that what is cheap for one of them is cheap for all. Programs of
one extent alone are planned for it; plans for others hold for all that pass the guards of their
record (``ir/given.py``)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tensorel.ir.given import Numbers, Record
from tensorel.ir.nodes import INT64, Const, Tensor, const

Shape = tuple[int, ...]
MAX_RECORDS = 8  # of a formula: ways in which numbers decide its plans
MAX_SHAPES = 256  # of a formula: shapes that are remembered, by extents
MAX_EXTENTS = 3  # of a program, that are not part of its plan
#: Numbers that decide how a formula is computed.
SPECIAL = frozenset((0, 1, -1, 2, -2, 0.5, -0.5))
MAX_SPECIAL_EXTENT = 2  # shorter axes are broadcast, or empty: they decide, too
PLANS_FIRST_ALONE = True  # the extents that are met first are planned for themselves


class Extent(Const):
    """How many entries a slice takes, among the numbers of a formula."""

    __slots__ = ()


def extent(count: int) -> Extent:
    """An extent that plans may hold for beside others."""
    return Extent(count.to_bytes(8, sys.byteorder, signed=True), INT64)


def kind_of(value: Const) -> Const | tuple[str, int]:
    """All that formulas know of a number in them: its dtype and sign, of an extent its size; those
    that rules and planners know by value are of a kind of their own."""
    number = value.value
    if type(value) is Extent:
        return value if number <= MAX_SPECIAL_EXTENT else ("extent", int(number).bit_length())
    if value.dtype.kind in "bc" or number in SPECIAL or not -math.inf < number < math.inf:
        return value
    return value.dtype.str, bool(number > 0)


def planned_for(value: Const) -> Any:
    """The number that a plan is made for, which holds for others then."""
    return value.value


def _intervals(given: Sequence[Const]) -> dict[int, tuple[int, int]]:
    """Where the extents of all programs of a formula lie, by their places among its numbers."""
    bits = {k: int(v.value).bit_length() for k, v in enumerate(given) if type(v) is Extent}
    return {k: (2 ** (n - 1), 2**n - 1) for k, n in bits.items()}


class Formula:
    """``first``: the extents of the program that was met first. ``rigid``: plans for other extents
    hold for these alone. ``whole``: whether its results have a value everywhere, if that is known
    and depends on no number. ``plans``: what the engine knows; ``records``: of numbers that
    programs were planned with, with those of extents among them or not."""

    __slots__ = ("_given", "_rules", "_shapes", "dtype", "first", "plans", "records", "rigid",
                 "whole")

    def __init__(self, node: Tensor, extents: tuple[Const, ...], values: tuple[Const, ...]) -> None:
        self.dtype, self.rigid = node.dtype, len(set(extents)) > MAX_EXTENTS
        self.first = extents if PLANS_FIRST_ALONE or not extents else None
        every = [k for k, v in enumerate(values) if kind_of(v) is not v and values.index(v) == k]
        fixed = [k for k in every if type(values[k]) is not Extent]
        self._given = fixed, every  # the same places in all programs
        self._shapes: dict[tuple[Const, ...], Shape] = {extents: node.shape}
        self._rules: list[tuple[Record, Shape]] = []
        self.whole: bool | None = None
        self.plans: dict[Hashable, Any] = {}
        self.records: tuple[list[Record], list[Record]] = ([], [])

    def shape(self, extents: tuple[Const, ...], values: tuple[Const, ...],
              build: Callable[[Mapping[Const, Const]], Tensor]) -> Shape:
        """The shape of the result with these numbers, the extents among them: as it followed from
        others whose guards hold for these, else from the node. ``build``: the node, with given
        numbers in place of some."""
        found = self._shapes.get(extents)
        if found is not None:
            return found
        given = [values[k] for k in self._given[1]]
        bare = [v.value for v in given]
        for record, rule in self._rules:
            numbers = Numbers(record, bare)
            if numbers.hold():
                found = tuple(map(numbers.of, rule))
                break
        else:
            found = build({}).shape  # refuses what does not fit
            if len(self._rules) < MAX_RECORDS and not self.rigid:
                self._add_rule(given, bare, build)
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        self._shapes[extents] = found
        return found

    def _add_rule(self, given: list[Const], bare: list[Any],
                  build: Callable[[Mapping[Const, Const]], Tensor]) -> None:
        record = Record(bare, _intervals(given))
        try:
            rule = build(dict(zip(given, map(const, record.numbers)))).shape
        except Exception:  # a function that wants to know its extents
            self.rigid = True
        else:
            self._rules.append((record, rule))

    def given(self, values: tuple[Const, ...], extents: tuple[Const, ...]) -> list[Const]:
        """The numbers that plans are given: with the extents met first, all but these."""
        return [values[k] for k in self._given[extents != self.first]]

    def numbers(self, values: tuple[Const, ...], extents: tuple[Const, ...]) -> Numbers | None:
        """The numbers of a program beside a record whose guards hold for them, a new one where
        there is none; None where no more records are kept, or no number is given."""
        varies = extents != self.first
        given = self.given(values, extents)
        if not given or (varies and self.rigid):
            return None
        bare = [v.value for v in given]
        records = self.records[varies]
        for record in records:
            found = Numbers(record, bare)
            if found.hold():
                return found
        if len(records) >= MAX_RECORDS:
            return None
        record = Record([planned_for(v) for v in given], _intervals(given))
        records.append(record)
        return Numbers(record, bare)
