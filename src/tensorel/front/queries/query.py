"""A text bound to relations, planned, and run when rows are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from tensorel.base.records import cached_property, dataclass
from tensorel.engines.rows.executing import execute
from tensorel.engines.rows.vectors import Vector
from tensorel.errors import ParseError
from tensorel.front.array.base import from_stored
from tensorel.front.array.tensor import Tensor
from tensorel.front.functions.relations import TensorRelation, relation
from tensorel.front.queries.given import Given, GivenVectors, given
from tensorel.front.queries.given_files import GivenParquet
from tensorel.front.queries.tensor_programs import TensorPrograms
from tensorel.front.queries.tiles import BlockPool, GivenTiles
from tensorel.front.relations.relation_result import Relation
from tensorel.io.libraries.result_columns import ResultColumn
from tensorel.io.tables.parquet import is_parquet
from tensorel.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    Sort,
    TensorProgram,
    walk,
)
from tensorel.sql.binding import bound
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.optimizer.passes import optimized
from tensorel.sql.optimizer.printing import shown
from tensorel.sql.optimizer.ranges import bounds_of
from tensorel.sql.parsing import mentioned, relations_in
from tensorel.sql.scalars import Column
from tensorel.sql.scope import Numbers
from tensorel.sql.types import Type
from tensorel.storage.convert import to_dense

SHOWN_ROWS = 20
TOO_DEEP = "an expression here is nested too deep, or too long"
_DTYPES = {Type.DATE: "M8[D]", Type.TIMESTAMP: "M8[us]"}


@dataclass(frozen=True, eq=False)
class Planned:
    """A query that is ready to run."""

    text: str
    plan: Plan
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    sources: Mapping[str, Given]
    numbers: Numbers
    pool: BlockPool

    @cached_property
    def vectors(self) -> dict[str, Vector]:
        """The columns by their names."""
        programs = TensorPrograms(self.sources, self.text)
        try:
            found = execute(self.plan, self.columns, self.sources, programs, self.numbers,
                            self.pool)
        except RecursionError:
            raise ParseError(TOO_DEEP, text=self.text) from None
        return dict(zip(self.names, found))

    def run(self) -> dict[str, ResultColumn]:
        """The same as columns of a relation."""
        return {name: self._blocks(v) if v.type is Type.MATRIX else _result(v, self._extent(c))
                for c, (name, v) in zip(self.columns, self.vectors.items())}

    def _blocks(self, v: Vector) -> ResultColumn:
        """Blocks as arrays."""
        made = np.empty(len(v), object)
        for k, number in enumerate(v.values.tolist()):
            made[k] = to_dense(self.pool.get(number)) if v.valid is None or v.valid[k] else None
        return ResultColumn(made, None if v.valid is None else ~v.valid)

    def _extent(self, column: Column) -> int | None:
        """The extent of the axis whose index a column is."""
        for p in walk(self.plan):
            match p:
                case Project():
                    inner = dict(p.items).get(column)
                case Aggregate():
                    inner = dict(p.keys).get(column)
                case TensorProgram():
                    inner = dict(p.of.keys).get(column)
                    for scan in p.scans:
                        if inner is not None:
                            found = self._of_scan(scan, inner)
                            if found is not None:
                                return found
                    continue
                case Scan():
                    return self._of_scan(p, column) or None if any(
                        c == column for c, _ in p.fields) else None
                case Filter() | Join() | Sort() | Limit():
                    continue
                case _:
                    return None
            if isinstance(inner, Column):
                column = inner
        return None

    def _of_scan(self, scan: Scan, column: object) -> int | None:
        fields = {f.name: f for f in self.sources[scan.source].fields}
        for c, name in scan.fields:
            if c == column and fields[name].is_index:
                return fields[name].distinct
        return None


class Query(Relation):
    """The result of a query: a relation, computed when rows are asked for."""

    __slots__ = ("_source", "planned")

    def __init__(self, planned: Planned) -> None:
        super().__init__(planned.names, planned.run)
        self.planned = planned
        self._source: Given | None = None

    def __sql_source__(self) -> Given:
        """What stands for it in other queries, without a detour."""
        if self._source is None:
            self._source = GivenVectors(self.planned.vectors)
        return self._source

    def to_tensor(self, keys: Sequence[str], value: str) -> Tensor:
        """The tensor with an entry for each row, or with a block for each where the value is a
        matrix."""
        column = dict(zip(self.planned.names, self.planned.columns)).get(value)
        if column is None or column.type is not Type.MATRIX or not set(keys) <= set(self.columns):
            return super().to_tensor(keys, value)
        made = self.held()
        rows = zip(*[made[k].tolist() for k in keys])
        blocks = self.planned.vectors[value].values.tolist()
        return relation([(key, from_stored(self.planned.pool.get(b)))
                         for key, b in zip(rows, blocks)]).to_tensor()

    def explain(self) -> str:
        """The plan: one line for each operator, with the rows that are expected."""
        return shown(self.planned.plan, Estimates(self.planned.sources))

    def __str__(self) -> str:
        return as_text(self)


def as_text(relation: Relation) -> str:
    """The first rows as a table."""
    made = relation.held()
    count = len(relation)
    columns = [[_cell(v) for v in islice(_head(c, SHOWN_ROWS).tolist(), SHOWN_ROWS)]
               for c in made.values()]
    widths = [max([len(n), *map(len, c)]) for n, c in zip(relation.columns, columns)]
    lines = ["  ".join(n.ljust(w) for n, w in zip(relation.columns, widths)).rstrip(),
             "  ".join("-" * w for w in widths)]
    lines += ["  ".join(v.ljust(w) for v, w in zip(row, widths)).rstrip()
              for row in zip(*columns)]
    if count > SHOWN_ROWS:
        lines.append(f"... {count} rows")
    return "\n".join(lines)


def _head(c: ResultColumn, count: int) -> ResultColumn:
    null = None if c.null is None else c.null[:count]
    return ResultColumn(c.values[:count], null, c.labels, c.extent)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def query(text: str, relations: Mapping[str, object]) -> Query:
    """The relation of a text over named relations."""
    used = relations_in(text)
    columns = mentioned(text)
    pool = BlockPool()
    sources = {name: _source(name, x, columns, pool)
               for name, x in relations.items() if name.lower() in used}
    numbers = Numbers()
    try:
        return _planned(text, sources, numbers, pool)
    except RecursionError:
        raise ParseError(TOO_DEEP, text=text) from None


def _planned(text: str, sources: Mapping[str, Given], numbers: Numbers, pool: BlockPool) -> Query:
    found = bound(text, sources, numbers)
    plan = optimized(found.plan, found.columns, sources, numbers)
    for name, source in sources.items():
        if isinstance(source, GivenParquet):
            source.limit(bounds_of(plan, name))
    return Query(Planned(text, plan, found.columns, _unique(found.names), sources,
                         numbers, pool))


def _source(name: str, x: object, columns: frozenset[str] | None, pool: BlockPool) -> Given:
    if isinstance(x, TensorRelation):
        return GivenTiles(x, pool)
    if isinstance(x, str | os.PathLike) and is_parquet(os.fspath(x)):
        return GivenParquet(name, os.fspath(x), columns)
    return given(name, x, columns)


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Each name once: others get a number."""
    found: list[str] = []
    for name in names:
        new, k = name, 0
        while new in found:
            k += 1
            new = f"{name}_{k}"
        found.append(new)
    return tuple(found)


def _result(v: Vector, extent: int | None) -> ResultColumn:
    null = None if v.valid is None else ~v.valid
    if v.words is not None:
        return ResultColumn(v.values, null, v.words)
    if v.type in _DTYPES:
        return ResultColumn(v.values.astype("i8").view(_DTYPES[v.type]), null)
    return ResultColumn(v.values, null, None, extent if v.type is Type.INTEGER else None)
