"""Parquet files as relations: read when the query runs, and only what it may need."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from tensorel.base.records import cached_property
from tensorel.engines.rows.vectors import Vector
from tensorel.front.queries.given import Given, vector_of_column
from tensorel.io.tables.parquet import ParquetTable
from tensorel.sql.catalog import Field
from tensorel.sql.optimizer.ranges import Bounds
from tensorel.sql.types import Type
from tensorel.tables.table import Range, Table

_EPOCH = dt.datetime(1970, 1, 1)


class GivenParquet(Given):
    """The columns of Parquet files whose names a text mentions. Groups of rows of which the files
    say that the query wants none are not read."""

    def __init__(self, name: str, path: str, mentioned: frozenset[str] | None) -> None:
        self.name = name
        self.source = ParquetTable(path)
        self.ranges: dict[str, Range] = {}
        self._table: Table | None = None
        names = [n for n in self.source.names if mentioned is None or n.lower() in mentioned]
        self.names = names or list(self.source.names[:1])

    @property
    def rows(self) -> int:
        """What was read, or what there is."""
        return self.source.rows if self._table is None else self._table.rows

    @cached_property
    def fields(self) -> Sequence[Field]:
        empty = self.source.empty(self.names)
        found = []
        for n, column in empty.items():
            of = vector_of_column(f"{self.name}.{n}", column).type
            found.append(Field(n, of, True, self._distinct(n) if of is Type.INTEGER else None))
        return found

    def _distinct(self, name: str) -> int | None:
        known = self.source.bounds(name)
        if known is None or not isinstance(known[0], int):
            return None
        return min(int(known[1]) - int(known[0]) + 1, max(self.source.rows, 1))

    def limit(self, bounds: Mapping[str, Bounds]) -> None:
        """Only rows in these bounds will be asked for."""
        types = {f.name: f.type for f in self.fields}
        for name, (low, high) in bounds.items():
            of = types[name]
            # nan is above all numbers, and no statistics tell of it.
            self.ranges[name] = (
                None if of.is_real else _as_told(low, of, -1), _as_told(high, of, 1))

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        self._table = self.source.read(list(names) or self.names[:1], self.ranges)
        return {n: vector_of_column(f"{self.name}.{n}", self._table[n]) for n in names}


def _as_told(value: object, of: Type, aside: int) -> object:
    """A bound as the statistics of files have it. They may tell nanoseconds, of which rows keep
    microseconds: bounds of times are one of these ``aside``."""
    if not isinstance(value, int):
        return value
    try:
        if of is Type.DATE:
            return (_EPOCH + dt.timedelta(days=value)).date()
        if of is Type.TIMESTAMP:
            return _EPOCH + dt.timedelta(microseconds=value + aside)
    except OverflowError:  # after the last year of calendars: no bound
        return None
    return value
