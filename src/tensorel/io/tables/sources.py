"""What a user hands in as a table: found out without importing a library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tensorel.errors import TypeError_
from tensorel.io.tables.arrow_import import ArrowTable
from tensorel.io.tables.delimited import SEPARATORS, DelimitedTable
from tensorel.io.tables.frames import ArrayTable, PandasTable
from tensorel.io.tables.parquet import ParquetTable, is_parquet
from tensorel.tables.table import Range, Table, TableSource, check_names


class _Known:
    """A ``TableSource`` of a table that is there."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        return self.table if columns is None else self.table.select(columns)


class _Selecting:
    """A ``TableSource`` of an object that selects columns itself, so that others are not made:
    relations of DuckDB, frames of polars."""

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.given.columns)

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        if columns is None or not columns:
            return ArrowTable(self.given).read(columns)
        check_names(columns, self.names)
        quoted = [f'"{c.replace(chr(34), 2 * chr(34))}"' for c in columns] \
            if _package(self.given).startswith(("duckdb", "_duckdb")) else list(columns)
        return ArrowTable(self.given.select(*quoted)).read(columns)


def _package(x: object) -> str:
    return type(x).__module__.partition(".")[0]


def is_table(x: object) -> bool:
    """Whether ``open_table`` takes it: a frame, a table of Arrow, a relation, a file."""
    if isinstance(x, str | os.PathLike):
        path = os.fspath(x)
        return is_parquet(path) or path.endswith(tuple(SEPARATORS))
    return isinstance(x, Table | Mapping) or hasattr(x, "__arrow_c_stream__") \
        or hasattr(x, "to_arrow") or _package(x) in ("pandas", "polars")


def open_table(given: Any) -> TableSource:
    """The table of a data frame of pandas or polars, a table or stream of Arrow, a relation of
    DuckDB, the path of a CSV or Parquet file or of a folder of these, a pattern of such paths, a
    mapping from names to arrays, or an object with ``to_arrow``."""
    if isinstance(given, Table):
        return _Known(given)
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        return DelimitedTable(path) if path.endswith(tuple(SEPARATORS)) else ParquetTable(path)
    package = _package(given)
    if package == "pandas" and hasattr(given, "columns"):
        return PandasTable(given)
    if package == "polars" and hasattr(given, "collect"):
        return _Selecting(given.collect())
    if package in ("polars", "duckdb", "_duckdb") and hasattr(given, "columns"):
        return _Selecting(given)
    if hasattr(given, "__arrow_c_stream__"):
        return ArrowTable(given)
    if isinstance(given, Mapping):
        return ArrayTable(given)
    if hasattr(given, "to_arrow"):
        return ArrowTable(given.to_arrow())
    raise TypeError_(
        f"{type(given).__name__} is no table that is known here",
        hint="pass a data frame of pandas or polars, an Arrow table, a relation of DuckDB, the "
             "path of a Parquet or CSV file, or a dict of arrays")
