"""Text files with one row a line, read by pyarrow: types are found out from what is in them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from tensorel.errors import FileError, StorageError, UnsupportedError
from tensorel.io.tables.arrow_import import ArrowTable
from tensorel.tables.table import Range, Table, check_names

#: What stands between the values of a row, by the ending of the file.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}


class DelimitedTable:
    """A ``TableSource`` of a file whose first line has the names of the columns."""

    def __init__(self, path: str) -> None:
        try:
            self._library: Any = importlib.import_module("pyarrow.csv")
        except ImportError as error:
            raise UnsupportedError("CSV files are read by pyarrow, which is not installed",
                                   hint="pip install 'tensorel[arrow]'") from error
        self.path = path
        separator = next(s for end, s in SEPARATORS.items() if path.endswith(end))
        self._parsing = self._library.ParseOptions(delimiter=separator)
        self._names = tuple(self._of_library(self._library.open_csv).schema.names)
        if len(set(self._names)) < len(self._names):
            raise StorageError(f"{path}: two columns have one name", hint="rename one of them")

    def _of_library(self, function: Any, **options: Any) -> Any:
        try:
            return function(self.path, parse_options=self._parsing, **options)
        except OSError as error:
            raise FileError.of(error, f"{self.path}: {error}") from error
        except ValueError as error:  # what Arrow raises for rows that are no table
            raise StorageError(f"{self.path}: {error}") from error

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        names = self.names if columns is None else tuple(columns)
        check_names(names, self.names)
        wanted = self._library.ConvertOptions(include_columns=list(names))
        return ArrowTable(self._of_library(
            self._library.read_csv, convert_options=wanted)).read(names)
