"""Frames of rows that are there: tests and pairs done, columns still read where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tensorel.algebra import ops
from tensorel.engines.rows.frames import (
    ROW,
    Arrays,
    Cell,
    Frame,
    locals_in,
    moved_cell,
)
from tensorel.engines.rows.matrices import Blocks, called
from tensorel.engines.rows.pipelines import Pipelines
from tensorel.engines.rows.scalars.dictionaries import (
    by_rows,
    evaluated,
    is_checked,
    pythonic,
    rounded,
)
from tensorel.engines.rows.scalars.lowering import Lowering
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.ir.build import compare, convert
from tensorel.ir.nodes import INT64, Expr, Local, Read
from tensorel.sql.scalars import Call, Column, Literal, Scalar, rebuilt
from tensorel.sql.scope import Numbers
from tensorel.sql.types import Type
from tensorel.storage.key_matching import group_ids

_INT32_ROWS = 2**31 - 1


class Rows:
    """What all operators of one query use."""

    def __init__(self, numbers: Numbers, blocks: Blocks | None = None) -> None:
        self.blocks = blocks
        self.arrays = Arrays()
        self.pipelines = Pipelines(self.arrays)
        self.numbers = numbers

    def lowering(self, frame: Frame) -> Lowering:
        return Lowering(self.arrays, frame.cells)

    # -- rows that are there -------------------------------------------------------------------
    def compact(self, frame: Frame, needed: Iterable[Column] | None = None) -> Frame:
        """The frame with its rows counted: places become arrays of positions."""
        if not frame.steps:
            return frame
        cells = dict(frame.cells) if needed is None else {c: frame.cells[c] for c in needed}
        roots = self._roots(frame, cells.values())
        narrow = max([len(a) for a in self.arrays.data.values()] + [frame.count]) <= _INT32_ROWS
        width = np.dtype(np.int32) if narrow else INT64
        values = [convert(r, width) for r in roots]
        rows, arrays = self.pipelines.collect(frame, values)
        places: dict[Expr, Expr] = {r: self.arrays.position(a, ROW)
                                    for r, a in zip(roots, arrays)}
        return Frame(rows, (), {c: moved_cell(cell, places) for c, cell in cells.items()})

    def _roots(self, frame: Frame, cells: Iterable[Cell]) -> list[Expr]:
        """The positions at which columns are read: the row, what steps set, and positions that are
        read at the row. Nothing else depends on the rows of this frame."""
        mine = {ROW, *[s.target for s in frame.steps if hasattr(s, "target")]}
        found: dict[Expr, None] = {}
        stack = [e for c in cells for e in (c.value, c.valid) if e is not None]
        seen: set[Expr] = set()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            if isinstance(e, Local):
                if e in mine:
                    found[e] = None
            elif isinstance(e, Read):
                (at,) = e.indices
                if locals_in([at]) & mine:
                    found[at] = None
            else:
                stack += getattr(e, "args", ())
        return list(found)

    def vectors(self, frame: Frame, scalars: Sequence[Scalar]) -> tuple[Frame, list[Vector]]:
        """The frame with its rows counted, and expressions over them as vectors."""
        frame, scalars = self.prepared(frame, scalars)
        frame = self.compact(frame)
        lowering = self.lowering(frame)
        return frame, self.cells_to_vectors(frame, [lowering.of(s) for s in scalars])

    def cells_to_vectors(self, frame: Frame, cells: Sequence[Cell]) -> list[Vector]:
        """Columns of a frame without tests."""
        found: dict[int, Vector] = {}
        wanted: list[Expr] = []
        for k, c in enumerate(cells):
            whole = self._whole(frame, c)
            if whole is not None:
                found[k] = whole
            else:
                wanted.append(c.value)
                if c.valid is not None:
                    wanted.append(c.valid)
        if wanted:
            _, arrays = self.pipelines.collect(frame, wanted)
            made = iter(arrays)
            for k, c in enumerate(cells):
                if k not in found:
                    values = next(made)
                    valid = None if c.valid is None else next(made)
                    found[k] = Vector(c.type, values, valid, c.words)
        return [found[k] for k in range(len(cells))]

    def _whole(self, frame: Frame, cell: Cell) -> Vector | None:
        """The vector that a column is, read row by row."""
        v = cell.vector
        if v is None or len(v) != frame.count or not frame.is_compact:
            return None
        same = self.arrays.cell(v)
        return v if same.value is cell.value and same.valid is cell.valid else None

    # -- functions of rows that are there ----------------------------------------------------------
    def prepared(self, frame: Frame, scalars: Sequence[Scalar]) -> tuple[Frame, list[Scalar]]:
        """Functions that Python computes, once for each combination of arguments that there is,
        as columns; the expressions over these."""
        found = list(scalars)
        while True:
            call = next((c for s in found for c in _innermost(s)), None)
            if call is None:
                return frame, found
            frame = self.compact(frame)
            column = self.numbers.new(call.type, call.function, True)
            vector = self._evaluated(frame, call)
            frame = frame.with_cells({**frame.cells, column: self.arrays.cell(vector)})
            found = [_with_column(s, call, column) for s in found]

    def _evaluated(self, frame: Frame, call: Call) -> Vector:
        varying = [a for a in call.args if not isinstance(a, Literal)]
        lowering = self.lowering(frame)
        if is_checked(call):
            (reals,) = self.cells_to_vectors(frame, [lowering.of(call.args[0])])
            return rounded(call, reals.values, reals.valid)
        vectors = self.cells_to_vectors(frame, [lowering.of(a) for a in varying])
        if call.type is Type.MATRIX:
            assert self.blocks is not None
            return called(self.blocks, call, vectors)
        if not frame.count:
            return evaluated(call, []).take(np.zeros(0, np.int64))
        groups = group_ids([v.values for v in vectors],
                           [None if v.valid is None else ~v.valid for v in vectors])
        firsts = [v.take(groups.first) for v in vectors]
        combinations = list(zip(*[pythonic(v.values, v.valid, v.words) for v in firsts]))
        return evaluated(call, combinations).take(groups.ids)

    # -- frames at other rows ----------------------------------------------------------------------
    def at(self, frame: Frame, positions: Array, nullable: bool = False) -> dict[Column, Cell]:
        """The columns of a compact frame at other rows; ``nullable``: -1 stands for none."""
        at = self.arrays.position(positions, ROW)
        return self.at_place(frame, at, nullable)

    def at_place(self, frame: Frame, at: Expr, nullable: bool = False) -> dict[Column, Cell]:
        from_here: dict[Expr, Expr] = {ROW: at}
        there: Expr | None = None
        if nullable:
            there = is_row(at)
            from_here = {ROW: clamped(at)}
        found = {c: moved_cell(cell, from_here, there) for c, cell in frame.cells.items()}
        if there is not None and self.arrays.overflows.marks:
            return {c: replace(cell, value=self.arrays.overflows.only_where(there, cell.value))
                    for c, cell in found.items()}
        return found


def is_row(at: Expr) -> Expr:
    """Whether a position stands for a row."""
    return compare(ops.greater_equal, at, 0)


def clamped(at: Expr) -> Expr:
    """A position that can be read, where it stands for none too."""
    return compare(ops.maximum, at, 0)


def _with_column(e: Scalar, call: Call, column: Column) -> Scalar:
    return rebuilt(e, lambda x: column if x == call else None)


def _innermost(e: Scalar) -> list[Call]:
    """Functions by rows whose arguments have none inside."""
    if not isinstance(e, Call):
        return []
    inner = [c for a in e.args for c in _innermost(a)]
    return inner or ([e] if by_rows(e) else [])
