"""Parquet files: only the columns and the groups of rows that are asked for are read."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tensorel.errors import FileError, UnsupportedError
from tensorel.io.tables.arrow_import import ArrowTable
from tensorel.tables.table import Range, Table, check_names


class ParquetTable:
    """A ``TableSource`` of a file, or of a folder of files with the same columns. Rows are read
    when they are asked for; ``groups_read`` counts the groups of rows that were."""

    def __init__(self, path: str) -> None:
        try:
            self._library: Any = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise UnsupportedError("Parquet files are read by pyarrow, which is not installed",
                                   hint="pip install 'tensorel[arrow]'") from error
        paths = [path]
        if os.path.isdir(path):
            paths = sorted(os.path.join(path, n) for n in os.listdir(path)
                           if n.endswith((".parquet", ".pq")))
        try:
            self._files = [self._library.ParquetFile(p) for p in paths]
        except OSError as error:
            raise FileError.of(error, f"{path}: {error}") from error
        if not self._files:
            raise FileError(f"{path}: there is no Parquet file in this folder")
        self.path = path
        self.groups_read = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files[0].schema_arrow.names)

    @property
    def groups(self) -> int:
        """How many groups of rows there are."""
        return sum(f.metadata.num_row_groups for f in self._files)

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        names = self.names if columns is None else tuple(columns)
        check_names((*names, *(ranges or {})), self.names)
        arrow: Any = importlib.import_module("pyarrow")
        parts = []
        for file in self._files:
            wanted = [g for g in range(file.metadata.num_row_groups)
                      if _may_hold(file.metadata.row_group(g), ranges or {})]
            self.groups_read += len(wanted)
            parts.append(file.read_row_groups(wanted, list(names)))
        return ArrowTable(arrow.concat_tables(parts)).read(names)


def _may_hold(group: Any, ranges: Mapping[str, Range]) -> bool:
    """Whether a group may have rows in these ranges: its statistics do not say otherwise."""
    for k in range(group.num_columns if ranges else 0):
        column = group.column(k)
        low, high = ranges.get(column.path_in_schema, (None, None))
        known = column.statistics
        if (low is None and high is None) or known is None or not known.has_min_max:
            continue
        try:
            if (low is not None and known.max < low) or (high is not None and known.min > high):
                return False
        except TypeError:  # a bound of another kind says nothing
            continue
    return True
