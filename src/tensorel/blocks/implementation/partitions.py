"""Partitions: at which site a tuple lies, as a function of its key.

Sites are the cells of a grid. Each axis of the grid cuts one key dimension into equal ranges, or
cuts the ranges of another axis again. Sites are numbered with the first axis as the most
significant digit. ``()`` has one cell: all tuples lie at site 0. A relation that is replicated at
all sites has the partition None."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.implementation.functions import Array, Dims, Shape
from tensorel.errors import ValueError_

#: An axis whose cells hold partial aggregates of the same keys.
SPREAD = -1


def again(dim: int) -> int:
    """The name of an axis that cuts the ranges of a dimension again, wherever it stands."""
    return -2 - dim


def _dim(axis: int) -> int:
    return -2 - axis if axis < SPREAD else axis


@dataclass(frozen=True, slots=True)
class Partition:
    """What each axis of a grid of sites cuts, and into how many cells: a dimension, ``again(dim)``
    or SPREAD.

    grid None: each key lies at one site, but which function says where is not known; then ``axes``
    are all dimensions, or SPREAD alone for partial aggregates at unknown sites."""

    axes: Dims
    grid: Shape | None

    @staticmethod
    def of(axes: Iterable[int], grid: Iterable[int]) -> Partition:
        """In normal form: axes of one cell decide nothing, an axis that goes on where its neighbour
        ends is one with it, and a dimension is cut before it is cut again.

        >>> Partition.of((0, 1, again(1), 2), (2, 4, 2, 1))
        Partition(axes=(0, 1), grid=(2, 8))
        """
        cut = [(a, g) for a, g in zip(axes, grid, strict=True) if g != 1]
        if any(g < 1 for _, g in cut):
            raise ValueError_(f"a grid of sites with {min(g for _, g in cut)} cells along an axis")
        made: list[tuple[int, int]] = []
        for axis, cells in cut:
            dim = _dim(axis)
            if axis < SPREAD and dim not in [a for a, _ in cut + made]:
                axis = dim
            elif axis > SPREAD and axis in [a for a, _ in made]:
                axis = again(axis)
            names = [a for a, _ in made]
            first = dim in names[-1:] and again(dim) not in names[:-1]
            if axis in names[-1:] or (axis == again(dim) and first):
                made[-1] = (names[-1], made[-1][1] * cells)
            else:
                made.append((axis, cells))
        return Partition(tuple(a for a, _ in made), tuple(g for _, g in made))

    @staticmethod
    def scattered(arity: int) -> Partition:
        """Each key at one site, which one is not known."""
        return Partition(tuple(range(arity)), None)

    @property
    def dims(self) -> frozenset[int]:
        """The partition dims: what decides about the site, with SPREAD for what is no key."""
        return frozenset(map(_dim, self.axes))

    @property
    def sites(self) -> int:
        """The number of cells; 1 where it is not known."""
        return math.prod(self.grid or ())

    def cells(self, dim: int) -> int:
        """Into how many ranges a dimension is cut."""
        return math.prod(g for a, g in zip(self.axes, self.grid or ()) if _dim(a) == dim)

    def renamed(self, names: dict[int, int], arity: int) -> Partition:
        """The partition where dimensions have other numbers; if one is gone, all that can be said
        is that each key lies at one site."""
        if not self.dims - {SPREAD} <= set(names) or self.grid is None:
            return Partition((SPREAD,), None) if SPREAD in self.dims else Partition.scattered(arity)
        return Partition.of(self._renamed(names), self.grid)

    def summed(self, names: dict[int, int]) -> Partition:
        """The partition of aggregates by some dimensions: along all others they are partial."""
        if self.grid is None:
            return Partition((SPREAD,), None)
        return Partition.of(self._renamed({d: names.get(d, SPREAD) for d in self.dims}), self.grid)

    def _renamed(self, names: dict[int, int]) -> list[int]:
        to = [names.get(_dim(a), SPREAD) for a in self.axes]
        return [again(d) if a < SPREAD and d != SPREAD else d for a, d in zip(self.axes, to)]

    def digits(self, dim: int, extent: int) -> Array:
        """What the keys of one dimension add to the number of the site."""
        assert self.grid is not None
        below, stride = self.cells(dim), self.sites
        cell = np.arange(extent) * below // max(extent, 1)
        cuts = []
        for axis, cells in zip(self.axes, self.grid):
            stride //= cells
            if _dim(axis) == dim:
                cuts.append((axis < SPREAD, cells, stride))
        site = np.zeros(extent, np.int64)
        for _, cells, stride in sorted(cuts, key=lambda cut: cut[0]):
            below //= cells
            site += cell // below % cells * stride
        return site

    def spread(self) -> Array:
        """What the cells along SPREAD axes add to the number of the site."""
        return self.digits(SPREAD, self.cells(SPREAD))

    def __str__(self) -> str:
        if self.grid is None:
            return "partial, anywhere" if SPREAD in self.axes else "anywhere"
        if not self.axes:
            return "at one site"
        names = [f"again {_dim(a)}" if a < SPREAD else "partial" if a == SPREAD else str(a)
                 for a in self.axes]
        return "by " + ", ".join(f"{name}/{g}" for name, g in zip(names, self.grid))


@cache
def grids(extents: Shape, sites: int, limit: int = 256) -> tuple[Shape, ...]:
    """The grids that use most of the sites, with no more cells than keys along a dimension; also
    those of the largest power of two, where the number of sites has few divisors."""
    for most in range(sites, 0, -1):
        if found := list(_factors(extents, most)):
            break
    power = 1 << (most.bit_length() - 1)
    if power != most:
        found += _factors(extents, power)
    return tuple(found[:limit])


def _factors(extents: Shape, product: int) -> Iterator[Shape]:
    if not extents:
        if product == 1:
            yield ()
        return
    for first in range(1, min(extents[0], product) + 1):
        if product % first == 0:
            for rest in _factors(extents[1:], product // first):
                yield (first, *rest)
