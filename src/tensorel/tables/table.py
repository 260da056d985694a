"""A table: named columns of one length."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tensorel.errors import KeyError_, ShapeError
from tensorel.tables.column import Column

#: Least and largest value of a column that is asked for, None where there is no bound.
Range = tuple[object, object]


class Table(Mapping[str, Column]):
    """Columns by name, in their order. Columns lie where the table's owner has them: nothing is
    copied that one vector can show."""

    def __init__(self, columns: Mapping[str, Column], rows: int | None = None) -> None:
        """``rows``: of a table without columns."""
        self._columns = dict(columns)
        lengths = {len(c) for c in self._columns.values()}
        if len(lengths) > 1:
            raise ShapeError("the columns of a table have different lengths: " + ", ".join(
                f"{name} {len(c)}" for name, c in self._columns.items()))
        self.rows = next(iter(lengths), rows or 0)

    def __getitem__(self, name: str) -> Column:
        check_names([name], list(self._columns))
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, about."""
        return sum(c.nbytes for c in self._columns.values())

    def select(self, names: Sequence[str]) -> Table:
        """The table of some columns."""
        return Table({name: self[name] for name in names}, self.rows)

    def __repr__(self) -> str:
        columns = ", ".join(f"{n}: {c.kind}" for n, c in self._columns.items())
        return f"Table({self.rows} rows, {columns})"


class TableSource(Protocol):
    """A table of another library or file, of which what is asked for is read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, known without reading them."""

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        """The columns (None: all). ``ranges`` say which rows are asked for: others may be left out
        where that is known without reading them, or not."""


def check_names(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a column that is not there."""
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise KeyError_(
                f"the table has no column {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else
                f"its columns are {', '.join(map(repr, known))}")
