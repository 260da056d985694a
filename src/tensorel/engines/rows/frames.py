"""Rows that are not made yet.

A frame visits ``count`` rows; ``steps`` say for each row where its parts lie, which tests it
passes, and with what other rows it is paired. Columns are expressions over the places that the
steps set. So filters, projections and joins with small relations cost no pass of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TypeAlias

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.engines.rows.overflows import Overflows, parts_first
from tensorel.engines.rows.vectors import Array, Vector, Words
from tensorel.ir.build import convert
from tensorel.ir.nodes import BOOL, INT64, Call, DType, Expr, Local, Read, Source, const
from tensorel.ir.replacing import with_parts
from tensorel.kernels.loopir import statements
from tensorel.sql.intervals import LIMITS, Interval
from tensorel.sql.scalars import Column
from tensorel.sql.types import Type

#: The number of the row that is visited.
ROW = Local("row", INT64)


@dataclass(frozen=True, slots=True)
class Place:
    """``target`` is set to an expression."""

    target: Local
    value: Expr


@dataclass(frozen=True, slots=True)
class Test:
    """Only rows for which this holds go on."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Each:
    """The row goes on once for each number from ``low`` to before ``high``."""

    target: Local
    low: Expr
    high: Expr


Step: TypeAlias = Place | Test | Each


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """A column of a frame. ``valid``: None where it is never null. ``vector``: where it comes from
    as it is, with its bounds. ``known``: the bounds of a whole number that is computed."""

    type: Type
    value: Expr
    valid: Expr | None = None
    words: Words | None = None
    vector: Vector | None = None
    known: Interval | None = None

    @property
    def span(self) -> Interval:
        """Between which numbers whole values lie."""
        found = self.known
        if found is None and self.vector is not None:
            found = self.vector.bounds
        return LIMITS if found is None else found


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """See the module."""

    count: int
    steps: tuple[Step, ...]
    cells: Mapping[Column, Cell]

    @property
    def is_compact(self) -> bool:
        """Whether all rows that are visited are there, each once."""
        return all(isinstance(s, Place) for s in self.steps)

    @property
    def expands(self) -> bool:
        return any(isinstance(s, Each) for s in self.steps)

    def tested(self, conditions: Iterable[Expr]) -> Frame:
        return Frame(self.count, (*self.steps, *map(Test, conditions)), self.cells)

    def with_cells(self, cells: Mapping[Column, Cell]) -> Frame:
        return Frame(self.count, self.steps, cells)


class Arrays:
    """The physical arrays and the numbers that kernels of one query get, by their names."""

    def __init__(self) -> None:
        self._known: dict[int, Source] = {}
        self.data: dict[Source, Array] = {}
        self.numbers: dict[Local, object] = {}
        self.overflows = Overflows()
        self._fresh = count()
        self._alive: list[Array] = []  # those whose numbers are known

    def source(self, array: Array) -> Source:
        found = self._known.get(id(array))
        if found is None:
            plain = np.ascontiguousarray(array)
            found = statements.array(f"a{next(self._fresh)}", plain.dtype)
            self._known[id(array)] = found
            self.data[found] = plain
            self._alive.append(array)
        return found

    def read(self, array: Array, at: Expr, into: DType | None = None) -> Expr:
        """An element, in the dtype that kernels compute with."""
        found = Read(self.source(array), (at,))
        return found if into is None else convert(found, into)

    def position(self, array: Array, at: Expr) -> Expr:
        """An element of an array of positions."""
        return convert(Read(self.source(array), (at,)), INT64)

    def number(self, value: object, dtype: DType) -> Expr:
        """A number of the query: kernels get it with each call, so that they serve other ones."""
        wide = np.dtype(np.float64) if dtype.kind == "f" else INT64
        local = Local(f"n{next(self._fresh)}", wide)
        self.numbers[local] = value
        return convert(local, dtype)

    def checked(self, value: Expr, bad: Expr, text: str) -> Expr:
        """A value that is an error where ``bad`` holds in a row that wants it."""
        return self.overflows.marked(value, bad, text)

    def local(self, name: str, dtype: DType = INT64) -> Local:
        return Local(f"{name}{next(self._fresh)}", dtype)

    def cell(self, vector: Vector, at: Expr = ROW) -> Cell:
        """A column that lies in memory, at a position."""
        value = self.read(vector.values, at, vector.type.dtype)
        valid = None if vector.valid is None else self.read(vector.valid, at)
        return Cell(vector.type, value, valid, vector.words, vector)


def moved(e: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """``e`` with other expressions in place of locals."""
    memo: dict[Expr, Expr] = dict(values)
    for x in parts_first(e, memo):
        memo[x] = with_parts(x, memo.__getitem__)
    return memo[e]


def moved_cell(cell: Cell, values: Mapping[Expr, Expr], valid: Expr | None = None) -> Cell:
    """A cell at another place; ``valid``: where there is a row at all."""
    inner = None if cell.valid is None else moved(cell.valid, values)
    return Cell(cell.type, moved(cell.value, values), both(valid, inner), cell.words, cell.vector,
                cell.known)


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """Two conditions; None is true."""
    if a is None or b is None:
        return b if a is None else a
    return Call(ops.logical_and, (a, b))


def locals_in(expressions: Iterable[Expr]) -> set[Expr]:
    """The locals and sources that expressions read."""
    seen: set[Expr] = set()
    stack = list(expressions)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Call):
            stack += e.args
        elif isinstance(e, Read):
            stack += e.indices
    return seen


def step_parts(step: Step) -> tuple[Expr, ...]:
    match step:
        case Place():
            return (step.value,)
        case Test():
            return (step.condition,)
        case Each():
            return (step.low, step.high)


def moved_step(step: Step, values: Mapping[Expr, Expr]) -> Step:
    match step:
        case Place():
            return Place(step.target, moved(step.value, values))
        case Test():
            return Test(moved(step.condition, values))
        case Each():
            return Each(step.target, moved(step.low, values), moved(step.high, values))


def from_vectors(arrays: Arrays, rows: int, columns: Mapping[Column, Vector]) -> Frame:
    """A frame of columns that are there."""
    return Frame(rows, (), {c: arrays.cell(v) for c, v in columns.items()})


def null_cell(type_: Type) -> Cell:
    """Null in each row."""
    words = np.array([""], object) if type_ is Type.TEXT else None
    return Cell(type_, const(0, type_.dtype), const(False, BOOL), words, None, (0, 0))
