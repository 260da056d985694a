"""What operators are told to compute of several rows: keys of orders, aggregates, window functions.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.base.records import dataclass
from tensorel.sql.scalars import Column, Scalar


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value to sort by."""

    value: Scalar
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return (f"{self.value}{' desc' if self.descending else ''}"
                f"{' nulls first' if self.nulls_first else ''}")


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function of the rows of a group for which ``where`` is true. ``order``: the
    order of the rows where it matters."""

    function: str
    args: tuple[Scalar, ...] = ()
    distinct: bool = False
    where: Scalar | None = None
    order: tuple[SortKey, ...] = ()
    detail: object = None

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        more = () if self.where is None else (self.where,)
        return (*self.args, *more, *[k.value for k in self.order])

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.args)) or "*"
        shown = f"{self.function}({'distinct ' if self.distinct else ''}{inner})"
        return shown if self.where is None else f"{shown} filter ({self.where})"


@dataclass(frozen=True, slots=True)
class Bound:
    """Where the rows begin or end that a window function sees: so many rows behind the current one,
    or where its peers begin or end; None: at the bound of the partition."""

    offset: int | None
    peers: bool = False


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A function of the rows of a partition in an order, ``offset``: a number among its
    arguments."""

    function: str
    args: tuple[Scalar, ...]
    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...]
    start: Bound
    end: Bound
    where: Scalar | None = None
    offset: int = 1

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        more = () if self.where is None else (self.where,)
        return (*self.args, *self.partition, *[k.value for k in self.order], *more)

    def changed(self, change: Callable[[Scalar], Scalar], more: tuple[Column, ...] = ()
                ) -> WindowCall:
        """The call over other expressions, with more columns to part the rows by."""
        order = tuple([SortKey(change(k.value), k.descending, k.nulls_first) for k in self.order])
        return WindowCall(
            self.function, tuple(map(change, self.args)), (*map(change, self.partition), *more),
            order, self.start, self.end, None if self.where is None else change(self.where),
            self.offset)

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.args))
        over = " by ".join([", ".join(map(str, self.partition)) or "all",
                            ", ".join(map(str, self.order))]) if self.order else ", ".join(
            map(str, self.partition)) or "all"
        return f"{self.function}({inner}) over {over}"
