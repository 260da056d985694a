"""Joins.

The side that is looked up is counted, and its keys are numbered. Where the numbers are few, a table
says which row has a key, or which rows: then the join is a step of the other side's loop. Else both
sides are counted and ``storage.key_matching`` pairs them by hashing. Tests that are no equations of
both sides are tests of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.engines.rows.compacting import Rows, clamped, is_row
from tensorel.engines.rows.equations import Equation, split
from tensorel.engines.rows.frames import (
    ROW,
    Cell,
    Each,
    Frame,
    Place,
    Step,
    Test,
    both,
    null_cell,
)
from tensorel.engines.rows.keys import Digits, comparable, digits_in
from tensorel.engines.rows.vectors import Array, Mask, Vector, concatenated
from tensorel.errors import ValueError_
from tensorel.ir.build import compare, convert, plus
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.sql.algebra import Join
from tensorel.sql.scalars import Column, Scalar
from tensorel.sql.types import Type
from tensorel.storage.key_matching import group_ids, members_of, pairs, rows_with_match
from tensorel.storage.limits import require


@dataclass(frozen=True, eq=False, slots=True)
class Lookup:
    """A table from key numbers to rows. ``rows``: the row of each number or -1, if no number has
    two; else ``members`` from ``starts`` of a number to that of the next."""

    digits: Digits
    rows: Array | None
    starts: Array | None = None
    members: Array | None = None


#: So many times fewer rows on the left, and its keys are worth a table for the right to look up.
FEWER = 2


class Joining:
    """One join of two frames."""

    def __init__(self, rows: Rows, node: Join) -> None:
        self.rows = rows
        self.arrays = rows.arrays
        self.node = node
        self.equations, self.rest = split(node)

    def run(self, left: Frame, right: Frame) -> Frame:
        """The joined frame."""
        if self.node.kind == "inner":
            return self._inner(left, right)
        if self.node.kind in ("semi", "anti", "mark"):
            return self._existence(left, right)
        return self._outer(left, right)

    # -- inner -------------------------------------------------------------------------------
    def _inner(self, left: Frame, right: Frame) -> Frame:
        left, right = self._keyed(left, right)
        flipped = left.count < right.count and not left.expands
        if flipped:
            left, right = right, left
            self.equations = [Equation(e.right, e.left, e.nulls) for e in self.equations]
        found = self._fused(left, right)
        if found is None:
            left_rows, right_rows, left, right = self._pairs(left, right)
            found = self._at(left, right, left_rows, right_rows)
        return self._tested(found, self.rest)

    def _fused(self, left: Frame, right: Frame) -> Frame | None:
        """The right side looked up in the loop of the left."""
        if not self.equations:
            return self._crossed(left, right)
        right, keys = self.rows.vectors(right, [e.right for e in self.equations])
        table = self._table(keys, left.count)
        if table is None:
            return None
        cells, tests = self._probe(left, keys)
        inside = table.digits.inside(self.arrays, cells)
        steps: list[Step] = [Test(t) for t in (*tests, inside) if t is not None]
        number = self.arrays.local("key")
        steps.append(Place(number, table.digits.number(self.arrays, cells)))
        row = self.arrays.local("match")
        if table.rows is not None:
            steps += [Place(row, self.arrays.position(table.rows, number)), Test(is_row(row))]
        else:
            assert table.starts is not None and table.members is not None
            at = self.arrays.local("member")
            steps += [Each(at, self.arrays.position(table.starts, number),
                           self.arrays.position(table.starts, plus(number, 1))),
                      Place(row, self.arrays.position(table.members, at))]
        return Frame(left.count, (*left.steps, *steps),
                     {**left.cells, **self.rows.at_place(right, row)})

    def _crossed(self, left: Frame, right: Frame) -> Frame:
        """Every pair."""
        right = self.rows.compact(right)
        row = self.arrays.local("match")
        step: Step = Each(row, const(0, INT64), self.arrays.number(right.count, INT64))
        if right.count == 1:
            step = Place(row, const(0, INT64))
        if not right.count:
            empty = {c: null_cell(cell.type) for c, cell in right.cells.items()}
            return Frame(0, (), {**left.cells, **empty})
        return Frame(left.count, (*left.steps, step),
                     {**left.cells, **self.rows.at_place(right, row)})

    def _keyed(self, left: Frame, right: Frame) -> tuple[Frame, Frame]:
        """Frames in which the keys can be computed."""
        left, lefts = self.rows.prepared(left, [e.left for e in self.equations])
        right, rights = self.rows.prepared(right, [e.right for e in self.equations])
        self.equations = [Equation(a, b, e.nulls)
                          for a, b, e in zip(lefts, rights, self.equations)]
        return left, right

    # -- tables ------------------------------------------------------------------------------
    def _digits(self, keys: Sequence[Vector], lookups: int) -> Digits | None:
        """The numbers of keys that are there, None if a table of them would be too large."""
        if any(k.type.is_real for k in keys):
            return None
        digits = digits_in([k if e.nulls else Vector(k.type, k.values, None, k.words)
                            for k, e in zip(keys, self.equations)])
        fits = digits is not None and digits.fits(len(keys[0]), lookups)
        return digits if fits else None

    def _table(self, keys: Sequence[Vector], lookups: int) -> Lookup | None:
        """The table of keys that are there, None if there are too many numbers."""
        digits, count = self._digits(keys, lookups), len(keys[0])
        if digits is None:
            return None
        numbers = digits.numbers(keys)
        members: Array = np.arange(count)
        for k, e in zip(keys, self.equations):
            if k.valid is not None and not e.nulls:
                members = members[k.valid[members]]
        if len(members) < count:
            numbers = numbers[members]
        require(8 * digits.slots + 24 * count, f"a table of {count} keys")
        table = np.full(digits.slots, -1, np.int32 if count < 2**31 else np.int64)
        table[numbers] = members
        if bool((table[numbers] == members).all()):
            return Lookup(digits, table)
        order, starts = members_of(numbers, digits.slots)
        return Lookup(digits, None, starts, members[order])

    def _probe(self, left: Frame, keys: Sequence[Vector]) -> tuple[list[Cell], list[Expr]]:
        """The keys of the left as the right has them, and tests that they can have a partner."""
        lowering = self.rows.lowering(left)
        cells: list[Cell] = []
        tests: list[Expr] = []
        for e, key in zip(self.equations, keys):
            cell = lowering.of(e.left)
            if not e.nulls and cell.valid is not None:
                tests.append(cell.valid)
                cell = Cell(cell.type, cell.value, None, cell.words, cell.vector)
            elif e.nulls and cell.valid is not None and key.valid is None:
                tests.append(cell.valid)
            if cell.words is not None and cell.words is not key.words:
                cell = self._translated(cell, key)
            cells.append(cell)
        return cells, tests

    def _translated(self, cell: Cell, key: Vector) -> Cell:
        """The numbers of the words in the other dictionary, -1 where it has none."""
        assert cell.words is not None and key.words is not None
        at = {w: k for k, w in enumerate(key.words.tolist())}
        table = np.array([at.get(w, -1) for w in cell.words.tolist()], np.int32)
        value = self.arrays.read(table, convert(cell.value, INT64), INT64)
        return Cell(cell.type, value, cell.valid, key.words)

    # -- pairs ---------------------------------------------------------------------------------
    def _pairs(self, left: Frame, right: Frame) -> tuple[Array, Array, Frame, Frame]:
        """Positions of rows whose keys are equal, and the frames that they count in."""
        left, ours = self.rows.vectors(left, [e.left for e in self.equations])
        right, others = self.rows.vectors(right, [e.right for e in self.equations])
        keys = self._comparable(ours, others)
        found = pairs(keys[0], keys[1], "inner", keys[2], keys[3])
        return found[0], found[1], left, right

    def _comparable(self, ours: Sequence[Vector], others: Sequence[Vector]
                    ) -> tuple[list[Array], list[Array], Mask | None, Mask | None]:
        """Key columns of both sides, and where none of them is null."""
        lefts, rights = list[Array](), list[Array]()
        valid: list[Mask | None] = [None, None]
        for a, b, e in zip(ours, others, self.equations):
            whole = concatenated([a, b])
            values = comparable(whole)
            if e.nulls and whole.valid is not None:
                values = group_ids([values], [~whole.valid]).ids
            elif whole.valid is not None:
                for k, part in enumerate((whole.valid[:len(a)], whole.valid[len(a):])):
                    before = valid[k]
                    valid[k] = part if before is None else before & part
            lefts.append(values[:len(a)])
            rights.append(values[len(a):])
        return lefts, rights, valid[0], valid[1]

    def _at(self, left: Frame, right: Frame, left_rows: Array, right_rows: Array,
            nullable: tuple[bool, bool] = (False, False)) -> Frame:
        """A frame of pairs of rows; -1 is none where a side is nullable."""
        cells: dict[Column, Cell] = {}
        for frame, rows, open_ in ((left, left_rows, nullable[0]), (right, right_rows,
                                                                    nullable[1])):
            if frame.count:
                cells |= self.rows.at(frame, rows, open_)
            else:
                cells |= {c: null_cell(cell.type) for c, cell in frame.cells.items()}
        return Frame(len(left_rows), (), cells)

    def _tested(self, frame: Frame, tests: Sequence[Scalar]) -> Frame:
        frame, tests = self.rows.prepared(frame, tests)
        lowering = self.rows.lowering(frame)
        return frame.tested([lowering.test(t).true for t in tests])

    # -- outer -----------------------------------------------------------------------------------
    def _outer(self, left: Frame, right: Frame) -> Frame:
        """left, full and single joins."""
        if not self.rest and self.node.kind != "full":
            found = self._fused_left(left, right)
            if found is not None:
                return found
        left, right = self._keyed(left, right)
        left, right = self.rows.compact(left), self.rows.compact(right)
        left_rows, right_rows = self._matched(left, right)
        if self.node.kind == "single" and np.bincount(left_rows).max(initial=0) > 1:
            _several()
        missing = np.ones(left.count, bool)
        missing[left_rows] = False
        alone = np.flatnonzero(missing)
        left_rows = np.concatenate([left_rows, alone])
        right_rows = np.concatenate([right_rows, np.full(len(alone), -1)])
        if self.node.kind == "full":
            missing = np.ones(right.count, bool)
            missing[right_rows[right_rows >= 0]] = False
            alone = np.flatnonzero(missing)
            left_rows = np.concatenate([left_rows, np.full(len(alone), -1)])
            right_rows = np.concatenate([right_rows, alone])
        return self._at(left, right, left_rows, right_rows, (self.node.kind == "full", True))

    def _fused_left(self, left: Frame, right: Frame) -> Frame | None:
        """Rows without a partner go on beside nulls, in the loop of the left."""
        left, right = self._keyed(left, right)
        right, keys = self.rows.vectors(right, [e.right for e in self.equations])
        if not right.count:
            empty = {c: null_cell(cell.type) for c, cell in right.cells.items()}
            return left.with_cells({**left.cells, **empty})
        if not self.equations:
            return self._crossed(left, right) if right.count == 1 else None
        table = self._table(keys, left.count)
        if table is None or (table.rows is None and self.node.kind == "single"):
            return None
        cells, tests = self._probe(left, keys)
        found = both_all([*tests, table.digits.inside(self.arrays, cells)])
        number, row = self.arrays.local("key"), self.arrays.local("match")
        value = table.digits.number(self.arrays, cells)
        none = const(-1, INT64)
        steps: list[Step] = [Place(number, value if found is None else Call(
            ops.where, (found, value, none)))]
        safe = clamped(number)
        if table.rows is not None:
            read = self.arrays.position(table.rows, safe)
            steps.append(Place(row, Call(ops.where, (is_row(number), read, none))))
        else:
            assert table.starts is not None and table.members is not None
            at, end = self.arrays.local("member"), self.arrays.local("end")
            start = self.arrays.local("start")
            first = self.arrays.position(table.starts, safe)
            last = self.arrays.position(table.starts, plus(safe, 1))
            steps += [
                Place(start, first),
                Place(end, Call(ops.where, (is_row(number), last, start))),
                Each(at, start, Call(ops.maximum, (end, plus(start, 1)))),
                Place(row, Call(ops.where, (compare(ops.less, at, end),
                                            self.arrays.position(table.members, at), none)))]
        return Frame(left.count, (*left.steps, *steps),
                     {**left.cells, **self.rows.at_place(right, row, nullable=True)})

    def _matched(self, left: Frame, right: Frame) -> tuple[Array, Array]:
        """Positions of the pairs that pass all tests."""
        if not left.count or not right.count:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        numbers = {side: self.rows.numbers.new(Type.INTEGER, side) for side in ("left", "right")}
        frames = []
        for side, frame in zip(numbers.values(), (left, right)):
            cell = Cell(Type.INTEGER, convert(ROW, INT64))
            frames.append(frame.with_cells({**frame.cells, side: cell}))
        found = self._fused(*frames)
        if found is None:
            left_rows, right_rows, _, _ = self._pairs(left, right)
            if not self.rest:
                return left_rows, right_rows
            found = self._at(frames[0], frames[1], left_rows, right_rows)
        found = self._tested(found, self.rest)
        cells = [found.cells[c].value for c in numbers.values()]
        _, (left_rows, right_rows) = self.rows.pipelines.collect(found, cells)
        return left_rows, right_rows

    # -- existence ---------------------------------------------------------------------------------
    def _existence(self, left: Frame, right: Frame) -> Frame:
        """semi, anti and mark joins."""
        left, right = self._keyed(left, right)
        if self.equations and FEWER * left.count <= right.count:
            left, right = self._reduced(left, right)
        if self.equations and not self.rest:
            right, keys = self.rows.vectors(right, [e.right for e in self.equations])
            table = self._membership(keys, left.count) if right.count else None
            if table is not None:
                return self._marked(left, self._member(left, keys, table))
            left, ours = self.rows.vectors(left, [e.left for e in self.equations])
            if left.count and right.count:
                found = self._comparable(ours, keys)
                mask = rows_with_match(found[0], found[1], found[2], found[3])
            else:
                mask = np.zeros(left.count, bool)
        else:
            left, right = self.rows.compact(left), self.rows.compact(right)
            mask = np.full(left.count, right.count > 0 and not self.equations and not self.rest)
            if self.equations or self.rest:
                mask[self._matched(left, right)[0]] = True
        return self._marked(left, self.arrays.read(mask, ROW))

    def _reduced(self, left: Frame, right: Frame) -> tuple[Frame, Frame]:
        """The left counted, and of the right only rows whose keys it has."""
        left, ours = self.rows.vectors(left, [e.left for e in self.equations])
        turned = Joining(self.rows, self.node)
        turned.equations = [Equation(e.right, e.left, e.nulls) for e in self.equations]
        table = turned._membership(ours, right.count) if left.count else None
        if table is not None:
            right = right.tested([turned._member(right, ours, table)])
        return left, right

    def _membership(self, keys: Sequence[Vector], lookups: int
                    ) -> tuple[Digits, Array] | None:
        """Which key numbers there are."""
        digits = self._digits(keys, lookups)
        if digits is None:
            return None
        there = np.ones(len(keys[0]), bool)
        for k, e in zip(keys, self.equations):
            if k.valid is not None and not e.nulls:
                there &= k.valid
        table = np.zeros(digits.slots, bool)
        table[digits.numbers(keys)[there]] = True
        return digits, table

    def _member(self, left: Frame, keys: Sequence[Vector], found: tuple[Digits, Array]) -> Expr:
        digits, table = found
        cells, tests = self._probe(left, keys)
        inside = both_all([*tests, digits.inside(self.arrays, cells)])
        number = digits.number(self.arrays, cells)
        if inside is None:
            return self.arrays.read(table, number)
        return Call(ops.logical_and, (inside, self.arrays.read(table, number)))

    def _marked(self, left: Frame, mark: Expr) -> Frame:
        if self.node.kind == "semi":
            return left.tested([mark])
        if self.node.kind == "anti":
            return left.tested([Call(ops.logical_not, (mark,))])
        assert self.node.mark is not None
        return left.with_cells({**left.cells, self.node.mark: Cell(Type.BOOLEAN, mark)})


def both_all(tests: Sequence[Expr | None]) -> Expr | None:
    found: Expr | None = None
    for t in tests:
        found = both(found, t)
    return found


def _several() -> None:
    raise ValueError_("sql: a subquery in an expression has more than one row",
                      hint="take one of them, e.g. with MAX, or say IN")

