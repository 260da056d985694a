"""GROUP BY: groups numbered, aggregates in the loop that visits the rows.

Where keys have few possible values the number of a group is computed from them; else rows are
counted and grouped by hashing (``storage.key_matching``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.base.records import dataclass
from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import ROW, Cell, Frame, both, from_vectors
from tensorel.engines.rows.keys import Digits, comparable, digits_in, digits_of
from tensorel.engines.rows.matrices import is_matrix_sum, leaves_of, summed
from tensorel.engines.rows.ordered_aggregates import ordered
from tensorel.engines.rows.overflows import sum_overflow
from tensorel.engines.rows.updates import Update
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.sql.aggregates import ORDERED
from tensorel.sql.algebra import Aggregate, AggregateCall, SortKey
from tensorel.sql.intervals import WHOLE
from tensorel.sql.scalars import Call as SqlCall
from tensorel.sql.scalars import Scalar, is_null, negated
from tensorel.sql.scalars import both as conjunction
from tensorel.sql.types import Type
from tensorel.storage.key_matching import group_ids
from tensorel.storage.limits import require

_SUMS = ("sum", "avg", "stddev", "variance", "stddev_pop", "var_pop")
_SQUARES = _SUMS[2:]
#: More rows than a join makes.
MANY = 2**40
#: Sums of reals that are as large show that the whole numbers have more than 64 bits.
LARGEST_SUM = 9.22e18


@dataclass(frozen=True, eq=False, slots=True)
class Groups:
    """The frame of the rows, the number of the group of each (None: one group), how many numbers
    there are, and the keys of all groups. ``some``: numbers without rows are no groups."""

    frame: Frame
    number: Expr | None
    count: int
    digits: Digits | None
    like: Sequence[Cell]
    keys: Sequence[Vector]

    @property
    def some(self) -> bool:
        return self.digits is not None


class Grouping:
    """One aggregation."""

    def __init__(self, rows: Rows, node: Aggregate) -> None:
        self.rows = rows
        self.node = node
        self.calls = [c for _, c in node.calls]

    def run(self, frame: Frame) -> Frame:
        """One row for each group."""
        # Sums of matrices are made block by block, so that their terms are never all there.
        scalars = [*[e for _, e in self.node.keys], *[
            s for c in self.calls if not is_matrix_sum(c) for s in c.scalars]]
        frame, scalars = self.rows.prepared(frame, scalars)
        keys, scalars = scalars[:len(self.node.keys)], scalars[len(self.node.keys):]
        self._take(iter(scalars))
        if any(c.distinct or c.function in ORDERED or c.function == "any_value"
               or is_matrix_sum(c) for c in self.calls):
            frame = self.rows.compact(frame)
        groups = self._grouped(frame, keys)
        if not self.calls and not groups.some:
            return self._framed(groups.keys, [])
        return self._aggregated(groups)

    def _take(self, scalars: Iterator[Scalar]) -> None:
        """The calls over prepared scalars."""
        made = []
        for c in self.calls:
            if is_matrix_sum(c):
                made.append(c)
                continue
            args = tuple([next(scalars) for _ in c.args])
            where = None if c.where is None else next(scalars)
            order = tuple([SortKey(next(scalars), k.descending, k.nulls_first) for k in c.order])
            made.append(AggregateCall(c.function, args, c.distinct, where, order, c.detail))
        self.calls = made

    # -- groups ------------------------------------------------------------------------------
    def _grouped(self, frame: Frame, keys: Sequence[Scalar]) -> Groups:
        if not keys:
            return Groups(frame, None, 1, None, [], [])
        cells = [self.rows.lowering(frame).of(k) for k in keys]
        digits = digits_of(cells)
        if digits is not None and digits.fits(frame.count):
            number = digits.number(self.rows.arrays, cells)
            return Groups(frame, number, digits.slots, digits, cells, [])
        # The rows that are needed further, with their keys.
        frame, vectors = self.rows.vectors(frame, keys)
        digits = digits_in(vectors) if frame.count else None
        if digits is not None and digits.fits(frame.count):
            cells = [self.rows.arrays.cell(v) for v in vectors]
            number = digits.number(self.rows.arrays, cells)
            return Groups(frame, number, digits.slots, digits, cells, [])
        require((56 + 16 * len(keys) + 8 * len(self.calls)) * frame.count,
                f"groups of {frame.count} rows")
        found = group_ids([comparable(v) for v in vectors],
                          [None if v.valid is None else ~v.valid for v in vectors])
        at = self.rows.arrays.position(found.ids, ROW)
        return Groups(frame, at, len(found.first), None, [], [v.take(found.first) for v in vectors])

    def _aggregated(self, groups: Groups) -> Frame:
        updates = _Updates(self.rows, groups.frame)
        counted: dict[int, Vector] = {}
        makers: list[_Maker | None] = []
        for k, c in enumerate(self.calls):
            if c.function in ORDERED or c.distinct or is_matrix_sum(c):
                counted[k] = self._by_rows(groups, c, self.node.calls[k][0].type)
                makers.append(None)
            else:
                makers.append(updates.of(c))
        there = updates.count(None) if groups.some else None
        arrays = updates.run(groups.number, groups.count)
        vectors = []
        for k, (maker, (column, _)) in enumerate(zip(makers, self.node.calls)):
            found = counted[k] if maker is None else maker.vector(
                column.type, arrays, self.rows, groups.frame)
            vectors.append(found)
        keys = list(groups.keys)
        if there is not None:
            assert groups.digits is not None
            numbers = np.flatnonzero(arrays[there])
            keys = groups.digits.vectors(numbers, groups.like)
            if len(numbers) < groups.count:
                vectors = [v.take(numbers) for v in vectors]
        return self._framed(keys, vectors)

    def _framed(self, keys: Sequence[Vector], values: Sequence[Vector]) -> Frame:
        columns = self.node.columns
        found = [*keys, *values]
        rows = len(found[0]) if found else 1
        return from_vectors(self.rows.arrays, rows, dict(zip(columns, found)))

    # -- aggregates that see the rows of a group together ------------------------------------------
    def _by_rows(self, groups: Groups, c: AggregateCall, result: Type) -> Vector:
        if is_matrix_sum(c):
            return self._sum_of_matrices(groups, c)
        frame, c = groups.frame, _by_order(c)
        number = Cell(Type.INTEGER, const(0, INT64) if groups.number is None else groups.number)
        column = self.rows.numbers.new(Type.INTEGER, "group")
        frame = frame.with_cells({**frame.cells, column: number})
        if c.where is not None:
            frame = frame.tested([self.rows.lowering(frame).test(c.where).true])
        frame, vectors = self.rows.vectors(
            frame, [column, *c.args, *[k.value for k in c.order]])
        ids, values, order = vectors[0].values, vectors[1], vectors[1 + len(c.args):]
        if c.distinct and frame.count:
            values, ids, order = _distinct(values, ids, order)
        if c.function in ORDERED:
            return ordered(c, ids, values, order, groups.count)
        return self._again(c, ids, values, groups.count, result)

    def _sum_of_matrices(self, groups: Groups, c: AggregateCall) -> Vector:
        assert self.rows.blocks is not None
        frame, leaves = groups.frame, leaves_of(c.args[0])
        column = self.rows.numbers.new(Type.INTEGER, "group")
        number = Cell(Type.INTEGER, const(0, INT64) if groups.number is None else groups.number)
        frame = frame.with_cells({**frame.cells, column: number})
        if c.where is not None:
            frame = frame.tested([self.rows.lowering(frame).test(c.where).true])
        _, vectors = self.rows.vectors(frame, [column, *leaves])
        return summed(self.rows.blocks, c.args[0], vectors[0].values, leaves, vectors[1:],
                      groups.count)

    def _again(self, c: AggregateCall, ids: Array, values: Vector, count: int, result: Type
               ) -> Vector:
        """A plain aggregate of rows that were chosen."""
        column = self.rows.numbers.new(values.type, "value", values.valid is not None)
        frame = from_vectors(self.rows.arrays, len(ids), {column: values})
        updates = _Updates(self.rows, frame)
        maker = updates.of(AggregateCall(c.function, (column,)))
        number = self.rows.arrays.position(ids, ROW)
        return maker.vector(result, updates.run(number, count), self.rows, frame)


def _by_order(c: AggregateCall) -> AggregateCall:
    """``arg_min(x, y)`` is the first x in the order of y."""
    if c.function not in ("arg_min", "arg_max"):
        return c
    value, by = c.args
    tests = [*([] if c.where is None else [c.where]), negated(is_null(by))]
    return AggregateCall(c.function, (value,), c.distinct, conjunction(tests),
                         (SortKey(by, c.function == "arg_max"),))


def _distinct(values: Vector, ids: Array, order: Sequence[Vector]
              ) -> tuple[Vector, Array, list[Vector]]:
    """Each value once in each group."""
    nulls = None if values.valid is None else ~values.valid
    first = group_ids([ids, comparable(values)], [None, nulls]).first
    return values.take(first), ids[first], [o.take(first) for o in order]


@dataclass(frozen=True, eq=False, slots=True)
class _Maker:
    """A call from the updates at these places: ``count`` of values, and others."""

    call: AggregateCall
    count: int | None
    parts: tuple[int, ...]
    like: Cell | None
    squares: int = 0  # of deviations from the mean, counted from the last on

    def vector(self, result: Type, arrays: Sequence[Array], rows: Rows, frame: Frame) -> Vector:
        """The values of all groups."""
        name = self.call.function
        counts = None if self.count is None else arrays[self.count]
        if name in ("count", "count_if"):
            assert counts is not None
            return Vector(Type.INTEGER, counts)
        there = None if counts is None else counts > 0
        if there is not None and there.all():
            there = None
        found = [arrays[p] for p in self.parts]
        if name == "any_value":
            return self._picked(found[0], there, rows, frame)
        if name == "sum":
            if len(found) > 1 and bool((np.abs(found[1]) > LARGEST_SUM).any()):
                raise sum_overflow()
            return Vector(result, found[0], there)
        if name in ("avg", *_SQUARES):
            assert counts is not None
            squares = arrays[len(arrays) - 1 - self.squares] if name != "avg" else None
            return _moments(name, counts, found[0], squares)
        if name in ("bool_and", "bool_or"):
            return Vector(Type.BOOLEAN, found[0] > 0, there)
        if name == "product":
            return Vector(result, found[0], there)
        assert self.like is not None
        values = found[0]
        if self.like.words is not None:
            values = np.where(values < 0, 0, values) if there is None else np.where(
                there, values, 0)
        elif result is Type.BOOLEAN:
            values = values > 0
        if there is not None and result.is_real:
            values = np.where(there, values, 0.0)
        return Vector(result, values, there, self.like.words)

    def _picked(self, places: Array, there: Array | None, rows: Rows, frame: Frame) -> Vector:
        """The value at the row that was found for each group."""
        assert self.like is not None
        safe = places if there is None else np.where(there, places, 0)
        if not frame.count:
            return Vector(self.like.type, np.zeros(len(places), self.like.type.dtype),
                          np.zeros(len(places), bool), self.like.words)
        (vector,) = rows.cells_to_vectors(frame, [self.like])
        found = vector.take(safe)
        if there is None:
            return found
        valid = there if found.valid is None else found.valid & there
        return Vector(found.type, found.values, valid, found.words)


class _Updates:
    """The updates of all calls over one frame; equal ones are made once."""

    def __init__(self, rows: Rows, frame: Frame) -> None:
        self.rows = rows
        self.frame = frame
        self.lowering = rows.lowering(frame)
        self.made: list[Update] = []
        self._known: dict[object, int] = {}
        self._squares: dict[tuple[int, int, Expr, Expr | None], int] = {}

    def add(self, op: ops.Operator, value: Expr, condition: Expr | None) -> int:
        key = (op, value, condition)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.made)
            self.made.append(Update(op, value, condition))
        return found

    def count(self, condition: Expr | None) -> int:
        return self.add(ops.add, const(1, INT64), condition)

    def run(self, number: Expr | None, groups: int) -> list[Array]:
        """The value of each update in each group, and behind them the sums of squares: these are of
        deviations from means, which have to be known before. Sums of the squares themselves lose
        all digits where the mean is far from zero."""
        pipelines, arrays = self.rows.pipelines, self.rows.arrays
        found = pipelines.aggregate(self.frame, number, groups, self.made)
        if not self._squares:
            return found
        at = const(0, INT64) if number is None else number
        second = []
        for total, count, value, condition in self._squares:
            with np.errstate(all="ignore"):
                mean = found[total] / np.maximum(found[count], 1)
            apart = Call(ops.subtract, (value, arrays.read(mean, at)))
            second.append(Update(ops.add, Call(ops.multiply, (apart, apart)), condition))
        squares = pipelines.aggregate(self.frame, number, groups, second)
        return [*found, *reversed(squares)]

    def of(self, c: AggregateCall) -> _Maker:
        """The updates of one call."""
        where = None if c.where is None else self.lowering.test(c.where).true
        if not c.args:
            return _Maker(c, self.count(where), (), None)
        if c.function in ("count_if", "bool_and", "bool_or"):
            return self._of_test(c, where)
        cell = self.lowering.of(c.args[0])
        there = both(where, cell.valid)
        if c.function == "count":
            return _Maker(c, self.count(there), (), cell)
        if c.function == "any_value":
            return self._position(c, cell, where)
        count = self.count(there)
        value = cell.value
        if c.function in _SUMS:
            return self._of_sum(c, cell, count, there)
        if c.function == "product":
            product = self.add(ops.multiply, convert(value, FLOAT64), there)
            return _Maker(c, count, (product,), cell)
        op = ops.minimum if c.function == "min" else ops.maximum
        return _Maker(c, count, (self.add(op, value, there),), cell)

    def _of_test(self, c: AggregateCall, where: Expr | None) -> _Maker:
        truth = self.lowering.test(c.args[0])
        if c.function == "count_if":
            return _Maker(c, self.count(both(where, truth.true)), (), None)
        known = where if truth.false is None else both(
            where, Call(ops.logical_or, (truth.true, truth.fails)))
        op = ops.minimum if c.function == "bool_and" else ops.maximum
        return _Maker(c, self.count(known), (self.add(op, convert(truth.true, INT64), known),),
                      None)

    def _of_sum(self, c: AggregateCall, cell: Cell, count: int, there: Expr | None) -> _Maker:
        if c.function == "sum":
            into = FLOAT64 if cell.value.dtype.kind == "f" else INT64
            parts = [self.add(ops.add, convert(cell.value, into), there)]
            if into is INT64 and not self._is_small(c.args[0]):
                parts.append(self.add(ops.add, self.lowering.of(_as_real(c.args[0])).value, there))
            return _Maker(c, count, tuple(parts), cell)
        real = convert(cell.value, FLOAT64)
        total, squares = self.add(ops.add, real, there), 0
        if c.function in _SQUARES:
            squares = self._squares.setdefault((total, count, real, there), len(self._squares))
        return _Maker(c, count, (total,), cell, squares)

    def _is_small(self, e: Scalar) -> bool:
        """Whether a sum of values surely has 64 bits."""
        known = self.lowering.of(e).span if e.type is Type.INTEGER else (0, 1)
        rows = MANY if self.frame.expands else self.frame.count
        return max(map(abs, known)) * rows < WHOLE

    def _position(self, c: AggregateCall, cell: Cell, where: Expr | None) -> _Maker:
        """The first row that has a value."""
        there = both(where, cell.valid)
        return _Maker(c, self.count(there), (self.add(ops.minimum, ROW, there),), cell)


def _as_real(e: Scalar) -> Scalar:
    """The same in reals, which do not wrap around."""
    if isinstance(e, SqlCall) and e.function in ("+", "-", "*", "negative"):
        return SqlCall(e.function, tuple(map(_as_real, e.args)), Type.DOUBLE, e.nullable)
    return SqlCall("cast", (e,), Type.DOUBLE, e.nullable)


def _moments(name: str, counts: Array, sums: Array, squares: Array | None) -> Vector:
    """Means from sums, and variances from the sums of squared deviations."""
    n = np.maximum(counts, 1).astype(np.float64)
    with np.errstate(all="ignore"):
        there = counts > 0
        if squares is None:
            return Vector(Type.DOUBLE, sums / n, None if there.all() else there)
        least = 1 if name.endswith("pop") else 2
        values = squares / (n if least == 1 else np.maximum(n - 1, 1))
        there = counts >= least
        if name.startswith("std"):
            values = np.sqrt(values)
    return Vector(Type.DOUBLE, values, None if there.all() else there)
