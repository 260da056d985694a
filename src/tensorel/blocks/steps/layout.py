"""How a tensor lies in blocks: where its axes are cut, and at which site each block is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass, field
from tensorel.blocks.steps.spread import Spread

Edges = npt.NDArray[np.int64]
#: Half-open ranges, one for each axis.
Box = tuple[tuple[int, int], ...]
FREE = -1  # the site of a block that comes into being where the plan says


@dataclass(frozen=True, slots=True)
class Layout:
    """``edges``: of each axis where blocks begin, and its extent. ``home``: the site of each block,
    ``FREE`` where the plan may choose. ``pinned``: the blocks exist, or the user chose them; others
    are cut as the plan likes. ``itemsize``: bytes of an entry that is stored, with its place;
    ``density``: how many are. ``spread``: where they are; None: everywhere alike. ``absent``:
    blocks of which it is known that they are all fill. ``pointers``: an axis of which
    each index takes bytes of its own, and how many."""

    edges: tuple[Edges, ...]
    home: npt.NDArray[np.int64]
    itemsize: float
    density: float = 1.0
    pinned: bool = True
    spread: Spread | None = field(default=None)
    absent: npt.NDArray[np.bool_] | None = field(default=None)
    pointers: tuple[int, float] | None = field(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([int(e[-1]) for e in self.edges])

    @property
    def grid(self) -> tuple[int, ...]:
        """How many blocks along each axis."""
        return tuple([len(e) - 1 for e in self.edges])

    @property
    def nbytes(self) -> float:
        return math.prod(self.shape) * self.density * self.itemsize

    def box(self, at: Sequence[int]) -> Box:
        """The block at a place of the grid."""
        return tuple([(int(e[k]), int(e[k + 1])) for e, k in zip(self.edges, at)])

    def sizes(self) -> npt.NDArray[np.float64]:
        """Bytes of each block, estimated."""
        at = np.indices(self.grid).reshape(len(self.edges), math.prod(self.grid))
        low, high = [np.stack([e[part][k] for e, k in zip(self.edges, at)], axis=1) if self.edges
                     else np.zeros((1, 0), np.int64)
                     for part in (slice(None, -1), slice(1, None))]
        return self.bytes_in(low, high).reshape(self.grid)

    def bytes_in(self, low: Edges, high: Edges) -> npt.NDArray[np.float64]:
        """Bytes in boxes (rows), estimated."""
        if self.spread is not None:
            bytes_ = self.spread.entries(low, high) * self.itemsize
            if self.pointers is not None:
                axis, each = self.pointers
                bytes_ += np.where(bytes_ > 0, each * (high - low)[:, axis], 0.0)
            return bytes_
        extents = (high - low).astype(np.float64)
        found: npt.NDArray[np.float64] = extents.prod(axis=1) * self.density * self.itemsize
        return found

    def held(self, sites: int) -> npt.NDArray[np.float64]:
        """Bytes at each site."""
        there = self.home != FREE
        return np.bincount(self.home[there], self.sizes()[there], sites).astype(np.float64)

    def overlapping(self, box: Box) -> list[tuple[tuple[int, ...], Box]]:
        """The blocks that a box lies in, and which part of it lies in each."""
        parts = []
        for edges, (lo, hi) in zip(self.edges, box):
            first, last = _between(edges, lo, hi)
            parts.append([(k, (max(lo, int(edges[k])), min(hi, int(edges[k + 1]))))
                          for k in range(first, last)])
        return [(tuple([k for k, _ in found]), tuple([r for _, r in found]))
                for found in product(*parts)]


def _between(edges: Edges, lo: int, hi: int) -> tuple[int, int]:
    """Which blocks a range lies in; a range of nothing lies in one."""
    first = min(int(np.searchsorted(edges, lo, "right")) - 1, len(edges) - 2)
    return first, max(int(np.searchsorted(edges, hi, "left")), first + 1)


def even(extent: int, parts: int) -> Edges:
    """An axis in parts of about the same extent."""
    return np.linspace(0, extent, max(parts, 1) + 1).round().astype(np.int64)


def equal_work(extent: int, parts: int, below: tuple[Edges, npt.NDArray[np.float64]] | None
               ) -> Edges:
    """An axis in parts with about the same share of the entries, none of them empty. ``below``:
    places of the axis, and the share that is below each."""
    if below is None or parts < 2:
        return even(extent, parts)
    places, share = below
    cuts = np.interp(np.linspace(0, 1, parts + 1), share, places)
    edges: Edges = cuts.round().astype(np.int64)
    edges[0], edges[-1] = 0, extent
    for k in range(1, parts):
        edges[k] = min(max(edges[k], edges[k - 1] + 1), extent - (parts - k))
    return edges


def nearest(edges: Edges, among: Edges) -> Edges:
    """The cuts moved to places where there are cuts already; those that fall together go."""
    found = among[np.abs(among[None, :] - edges[:, None]).argmin(axis=1)]
    return np.unique(np.concatenate(([0], found, [edges[-1]])))


def spread_over(layout: Layout, sites: int) -> Layout:
    """Free blocks, or a tensor that may be cut, over all sites."""
    edges = layout.edges
    if not layout.pinned and layout.shape:
        axis = int(np.argmax(layout.shape))
        below = None if layout.spread is None else layout.spread.below(axis)
        parts = min(sites, max(layout.shape[axis], 1))
        edges = (*edges[:axis], equal_work(layout.shape[axis], parts, below), *edges[axis + 1:])
    grid = [len(e) - 1 for e in edges]
    count = math.prod(grid)
    home = (np.arange(count) * sites // max(count, 1)).reshape(grid)
    if layout.pinned:
        home = np.where(layout.home == FREE, home, layout.home)
    return replace(layout, edges=edges, home=home, pinned=True)
