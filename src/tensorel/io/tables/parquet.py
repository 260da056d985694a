"""Parquet files: only the columns and the groups of rows that are asked for are read."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorel.errors import FileError, StorageError, UnsupportedError
from tensorel.io.tables.arrow_import import ArrowTable
from tensorel.tables.table import Range, Table, check_names

ENDINGS = (".parquet", ".pq")


def is_parquet(path: str) -> bool:
    """Whether a path means Parquet files: by its ending, or those in the folder."""
    return path.endswith(ENDINGS) or (os.path.isdir(path) and any(
        n.endswith(ENDINGS) for n in os.listdir(path)))


class ParquetTable:
    """A ``TableSource`` of a file, of a folder of files with the same columns, or of those that a
    pattern like ``parts/*.parquet`` means. Rows are read
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
                           if n.endswith(ENDINGS))
        elif not os.path.exists(path) and glob.has_magic(path):
            paths = sorted(glob.glob(path, recursive=True))
        self._stamps = {p: _stamp(p) for p in paths}
        self._files = [_opened(self._library, p) for p in paths]
        if not self._files:
            raise FileError(f"{path}: there is no Parquet file here")
        self.path = path
        self.groups_read = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files[0].schema_arrow.names)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(f.metadata.num_rows for f in self._files)

    def bounds(self, name: str) -> tuple[Any, Any] | None:
        """The least and the largest value of a column, None where not all groups of rows say so."""
        found: list[tuple[Any, Any]] = []
        for group in self._groups():
            if not group.num_rows:
                continue
            known = next((c.statistics for c in map(group.column, range(group.num_columns))
                          if c.path_in_schema == name), None)
            if known is None or not known.has_min_max:
                return None
            found.append((known.min, known.max))
        return (min(f[0] for f in found), max(f[1] for f in found)) if found else None

    def _groups(self) -> Iterator[Any]:
        for file in self._files:
            for g in range(file.metadata.num_row_groups):
                yield file.metadata.row_group(g)

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
        for path, stamp in self._stamps.items():
            now = _stamp(path)
            if stamp and now and now[:2] == stamp[:2] and now != stamp:
                raise FileError(f"{path} was written to since it was opened",
                                hint="make the query again")
        for file in self._files:
            wanted = [g for g in range(file.metadata.num_row_groups)
                      if _may_hold(file.metadata.row_group(g), ranges or {})]
            self.groups_read += len(wanted)
            parts.append(_of_library(self.path, file.read_row_groups, wanted, list(names)))
        return ArrowTable(_of_library(self.path, arrow.concat_tables, parts)).read(names)

    def empty(self, columns: Sequence[str]) -> Table:
        """The columns without rows: their types."""
        check_names(columns, self.names)
        schema = self._files[0].schema_arrow
        arrow: Any = importlib.import_module("pyarrow")
        kept = arrow.schema([schema.field(n) for n in columns])
        return ArrowTable(kept.empty_table()).read(list(columns))


def _stamp(path: str) -> tuple[int, ...]:
    """What changes when a file is written to in its place; the first two say which file it is. A
    file that is gone, or is another one by now, is read as it was opened."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _opened(library: Any, path: str) -> Any:
    return _of_library(path, library.ParquetFile, path)


def _of_library(path: str, function: Any, *args: Any) -> Any:
    """What pyarrow gives, its errors as ours."""
    try:
        return function(*args)
    except OSError as error:
        raise FileError.of(error, f"{path}: {error}") from error
    except ValueError as error:  # Arrow's own: no Parquet, or files with different columns
        raise StorageError(f"{path}: {error}") from error


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
