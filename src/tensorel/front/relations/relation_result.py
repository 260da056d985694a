"""``Relation``: the rows that a grouping or a query gives, as named columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.errors import KeyError_, TypeError_
from tensorel.front.array.convert import from_coo
from tensorel.io.libraries.result_columns import (
    ResultColumn,
    to_arrow,
    to_pandas,
    to_polars,
)

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Made = Mapping[str, ResultColumn]


class Relation:
    """Named columns of one length, computed when rows are asked for, and once.

    >>> import tensorel as tr
    >>> found = tr.asarray([[1, 0], [2, 3]]).group_by("rid").agg("sum")
    >>> found.columns, found.rows()
    (['rid', 'sum'], [(0, 1), (1, 5)])
    """

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: Sequence[str], make: Callable[[], Made]) -> None:
        """``make`` gives the columns by these names."""
        self._names = list(names)
        self._make = make
        self._made: Made | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self._names)

    def held(self) -> Made:
        """The columns, computed now if nobody asked before."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's values, None for null."""
        made = self.held()
        return list(zip(*(made[name].tolist() for name in self._names)))

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        return to_arrow(self.held())

    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
        return to_pandas(self.held())

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        return to_polars(self.held())

    def to_tensor(self, keys: Sequence[str], value: str) -> Tensor:
        """The tensor with an entry for each row, at the whole numbers in the columns ``keys``; rows
        without a key or a value are no entry."""
        made = self.held()
        for name in (*keys, value):
            if name not in made:
                raise KeyError_(f"to_tensor: there is no column {name!r}",
                                hint=f"the columns are {', '.join(map(repr, self._names))}")
        there = np.ones(len(self), bool)
        for name in (*keys, value):
            null = made[name].null
            if null is not None:
                there &= ~null
        coords, shape = [], []
        for name in keys:
            column = made[name]
            if column.values.dtype.kind not in "iub" and column.labels is None:
                raise TypeError_(f"to_tensor: keys {name!r} of dtype {column.values.dtype} are no "
                                 "whole numbers", hint="cast them first")
            found = column.values[there].astype(np.int64)
            coords.append(found)
            shape.append(column.extent if column.extent is not None
                         else int(found.max(initial=-1)) + 1)
        return from_coo(coords, made[value].decoded()[there], tuple(shape))

    def __len__(self) -> int:
        made = self.held()
        return int(made[self._names[0]].values.size) if self._names else 0

    def __repr__(self) -> str:
        names = ", ".join(self._names)
        known = "not computed yet" if self._made is None else f"{len(self)} rows"
        return f"Relation({names}; {known})"
