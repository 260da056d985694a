"""A whole plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tensorel.engines.rows.combining import combined
from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import Cell, Frame, from_vectors
from tensorel.engines.rows.grouping import Grouping
from tensorel.engines.rows.joining import Joining
from tensorel.engines.rows.matrices import Blocks
from tensorel.engines.rows.ordering import limited, sorted_frame
from tensorel.engines.rows.vectors import Vector, concatenated
from tensorel.engines.rows.windows import windowed
from tensorel.errors import EngineError
from tensorel.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    TensorProgram,
    Values,
    Window,
    postorder,
)
from tensorel.sql.scalars import Column
from tensorel.sql.scope import Numbers


class RelationData(Protocol):
    """The data of a relation."""

    @property
    def rows(self) -> int: ...

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        """Fields by name, all at once."""


#: Runs a program of the calculus: the columns of its groups, None where only rows tell these.
RunProgram = Callable[[TensorProgram], "list[Vector] | None"]


def execute(plan: Plan, columns: Sequence[Column], sources: Mapping[str, RelationData],
            program: RunProgram, numbers: Numbers, blocks: Blocks) -> list[Vector]:
    """The columns of a plan. ``blocks``: those that columns of matrices are numbers of."""
    return _Execution(sources, program, Rows(numbers, blocks)).run(plan, columns)


class _Execution:
    def __init__(self, sources: Mapping[str, RelationData], program: RunProgram,
                 rows: Rows) -> None:
        self.sources = sources
        self.program = program
        self.rows = rows
        self.read: dict[tuple[str, str], Vector] = {}
        self.made: dict[int, Frame] = {}
        self.first: dict[int, int] = {}

    def run(self, plan: Plan, columns: Sequence[Column]) -> list[Vector]:
        parts = postorder(plan)
        self._read_all(parts)
        uses: dict[int, int] = {}
        for p in parts:
            for i in p.inputs:
                uses[id(i)] = uses.get(id(i), 0) + 1
        self.first = _first_rows(parts, uses)
        for p in parts:
            frame = self._frame(p)
            if uses.get(id(p), 0) > 1:  # computed once for all that use it
                frame = self.rows.compact(frame)
            self.made[id(p)] = frame
        _, vectors = self.rows.vectors(self.made[id(plan)], columns)
        return vectors

    def _read_all(self, parts: Sequence[Plan]) -> None:
        """Each source is read once, with all its fields that the plan uses."""
        wanted: dict[str, dict[str, None]] = {}
        for p in parts:
            if isinstance(p, Scan):
                wanted.setdefault(p.source, {}).update(dict.fromkeys(n for _, n in p.fields))
        for source, names in wanted.items():
            for name, vector in self.sources[source].read(list(names)).items():
                self.read[source, name] = vector

    def _frame(self, plan: Plan) -> Frame:
        inputs = [self.made[id(i)] for i in plan.inputs]
        match plan:
            case Scan():
                columns = {c: self.read[plan.source, n] for c, n in plan.fields}
                rows = self.sources[plan.source].rows
                return from_vectors(self.rows.arrays, rows, columns)
            case Values():
                return self._values(plan)
            case Filter():
                return self._filter(plan, inputs[0])
            case Project():
                return self._project(plan, inputs[0])
            case Join():
                return Joining(self.rows, plan).run(inputs[0], inputs[1])
            case Aggregate():
                return Grouping(self.rows, plan).run(inputs[0])
            case Window():
                return windowed(self.rows, plan, inputs[0])
            case Sort():
                return sorted_frame(self.rows, plan, inputs[0], self.first.get(id(plan)))
            case Limit():
                return self._limit(plan, inputs[0])
            case SetOperation():
                return combined(self.rows, plan, inputs[0], inputs[1])
            case TensorProgram():
                vectors = self.program(plan)
                if vectors is None:
                    by_rows = _Execution(self.sources, self.program, self.rows)
                    vectors = by_rows.run(plan.by_rows, plan.columns)
                return from_vectors(self.rows.arrays, len(vectors[0]),
                                    dict(zip(plan.columns, vectors)))
        raise EngineError(f"no operator runs {type(plan).__name__}")

    def _values(self, plan: Values) -> Frame:
        if not plan.made:
            return Frame(len(plan.rows), (), {})
        columns = []
        for k in range(len(plan.made)):
            parts = []
            for row in plan.rows:
                _, (vector,) = self.rows.vectors(Frame(1, (), {}), [row[k]])
                parts.append(vector)
            columns.append(concatenated(parts))
        return from_vectors(self.rows.arrays, len(plan.rows), dict(zip(plan.made, columns)))

    def _filter(self, plan: Filter, frame: Frame) -> Frame:
        frame, tests = self.rows.prepared(frame, plan.tests)
        lowering = self.rows.lowering(frame)
        return frame.tested([lowering.test(t).true for t in tests])

    def _project(self, plan: Project, frame: Frame) -> Frame:
        frame, values = self.rows.prepared(frame, [e for _, e in plan.items])
        lowering = self.rows.lowering(frame)
        cells: dict[Column, Cell] = {
            c: lowering.of(e) for (c, _), e in zip(plan.items, values)}
        return frame.with_cells(cells)

    def _limit(self, plan: Limit, frame: Frame) -> Frame:
        return limited(self.rows, frame, plan.count, plan.offset)




def _first_rows(parts: Sequence[Plan], uses: Mapping[int, int]) -> dict[int, int]:
    """Sorts of which only the first rows are wanted, by a limit above."""
    found: dict[int, int] = {}
    for p in parts:
        if isinstance(p, Limit) and p.count is not None:
            inner = p.input
            while isinstance(inner, Project) and uses[id(inner)] == 1:
                inner = inner.input
            if isinstance(inner, Sort) and uses[id(inner)] == 1:
                found[id(inner)] = p.count + p.offset
    return found
