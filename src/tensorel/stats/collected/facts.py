"""What is known of a stored tensor. Every field may be None: not known.

Statistics describe the *stored* entries, explicit fills and padding included: these are what a
kernel visits. ``nnz`` alone counts the entries that differ from the fill. Norms and distinct
counts are upper bounds; with ``exact`` they are equalities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property, dataclass
from tensorel.stats.collected.count_vectors import Vector
from tensorel.stats.collected.grids import Grid, widths

Axes = tuple[int, ...]
NOTHING: Mapping[Axes, float] = {}


@dataclass(frozen=True, slots=True)
class Degrees:
    """The degree sequence deg(Y|X): for each value of the axes X that occurs, how many values
    of the axes Y occur with it. ``largest`` is its l_inf, ``l1`` its sum, ``l2`` its Euclidean
    norm, ``distinct`` its length."""

    distinct: float
    largest: float
    l1: float
    l2: float
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Values:
    """Of the stored values: least and greatest finite one (None: no finite one, or complex),
    and whether nan or an infinity occurs. ``constant``: all are equal (nan alone is not)."""

    least: float | int | None
    greatest: float | int | None
    has_nan: bool
    has_inf: bool
    constant: complex | None = None

    @property
    def all_ones(self) -> bool:
        return self.constant == 1


@dataclass(frozen=True, eq=False)
class Tiles:
    """Stored entries per tile of a coarse grid: tile t of axis a holds the coordinates
    t * size[a] <= x < (t + 1) * size[a]."""

    shape: tuple[int, ...]
    size: tuple[int, ...]
    counts: npt.NDArray[np.int64]

    @cached_property
    def grid(self) -> Grid:
        """Of a matrix, for estimates."""
        rows, columns = (widths(n, s) for n, s in zip(self.shape, self.size))
        return Grid(self.counts.astype(np.float64), (rows, columns))


@dataclass(frozen=True, slots=True, eq=False)
class TensorStats:
    """Statistics of one stored tensor.

    ``vectors[a]``: entries per coordinate of axis a. ``degrees[X, Y]`` for tuples of axes: for
    each axis alone with all others; for rank above 2 pairs where they are cheap. ``distinct[X]``
    counts the different projections onto X. ``spans[a]``: least and greatest coordinate.
    ``bandwidth``: (lower, upper), each entry has -lower <= j - i <= upper. ``diagonal`` counts
    the entries of a matrix on its diagonal when asked; None if the matrix is gone.
    """

    shape: tuple[int, ...]
    count: int
    nnz: int | None = None
    full: bool = False
    vectors: tuple[Vector | None, ...] = ()
    degrees: Mapping[tuple[Axes, Axes], Degrees] | None = None
    distinct: Mapping[Axes, float] | None = None
    spans: tuple[tuple[int, int] | None, ...] | None = None
    values: Values | None = None
    sorted: bool | None = None
    unique: bool | None = None
    bandwidth: tuple[int, int] | None = None
    tiles: Tiles | None = None
    diagonal: Callable[[], int | None] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def density(self) -> float:
        return self.count / self.size if self.size else 0.0

    @property
    def all_ones(self) -> bool | None:
        return None if self.values is None else self.values.all_ones

    @property
    def has_nan(self) -> bool | None:
        return None if self.values is None else self.values.has_nan

    @property
    def has_inf(self) -> bool | None:
        return None if self.values is None else self.values.has_inf

    @property
    def constant(self) -> complex | None:
        return None if self.values is None else self.values.constant

    def vector(self, axis: int) -> Vector | None:
        return self.vectors[axis] if self.vectors else None

    def degrees_of(self, axis: int) -> Degrees | None:
        """deg(all other axes | axis)."""
        if self.degrees is None:
            return None
        return self.degrees.get(((axis,), others(self.rank, (axis,))))

    def one_hot(self, axis: int) -> bool | None:
        """Each coordinate of ``axis`` has exactly one stored entry, and it is 1."""
        degrees, ones = self.degrees_of(axis), self.all_ones
        if degrees is None or ones is None or not degrees.exact:
            return False if ones is False else None
        return ones and degrees.largest == 1 and degrees.distinct == self.shape[axis]


def others(rank: int, axes: Axes) -> Axes:
    return tuple([a for a in range(rank) if a not in axes])


def degrees_from(vector: Vector) -> Degrees:
    return Degrees(vector.distinct, vector.largest, vector.total, vector.l2)


def dense_degrees(distinct: float, each: float) -> Degrees:
    """``distinct`` values with ``each`` partners."""
    return Degrees(distinct, each, distinct * each, sqrt(distinct) * each)
