"""What the cells of a grid read of an operand, for all cells at once.

Cells that differ only along loops that an operand lacks read the same box of it. So a grid has few
distinct boxes of an operand, and what is counted of an operand is counted by box."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.blocks.steps.access import Loops, range_of
from tensorel.blocks.steps.layout import Box, Edges, Layout
from tensorel.ir.nodes import Expr, Read, Source
from tensorel.ir.ranges import Affine, is_affine

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The distinct boxes (a row each) of an operand; ``of_cell``: which of them each cell reads."""

    low: Numbers
    high: Numbers
    of_cell: Numbers

    def box(self, cell: int) -> Box:
        """What a cell reads; nothing where it is empty."""
        row = self.of_cell[cell]
        return tuple(zip(self.low[row].tolist(), self.high[row].tolist()))


@dataclass(frozen=True, slots=True)
class Parts:
    """Where boxes and blocks overlap: pairs of a box and a block (by its place in the flat grid),
    and the bytes that they have in common."""

    box: Numbers
    block: Numbers
    size: Bytes


class Footprints:
    """Finds the boxes of an operand for any cuts of a step's loops. ``reads``: those of them that
    count; None: all."""

    def __init__(self, loops: Loops, operand: Source, reads: Sequence[Read] | None = None) -> None:
        self.loops, self.shape = loops, operand.shape
        self.places = {a.name: k for k, a in enumerate(loops.indices)}
        self.inner = loops.inner
        self.reads: list[list[tuple[Expr, Affine | None]]] = [[] for _ in operand.shape]
        moving: set[int] = set()
        for r in loops.reads(operand) if reads is None else reads:
            for mine, e in zip(self.reads, r.indices):
                if not any(e is x for x, _ in mine):
                    mine.append((e, is_affine(e)))
                moving |= {self.places[n] for n in e.free if n in self.places}
        self.moving = sorted(moving)
        self._boxes: dict[tuple[bytes, ...], Footprint] = {}
        self._parts: dict[tuple[int, int], tuple[Layout, Footprint, Parts, Bytes]] = {}

    def of(self, cuts: Sequence[Edges]) -> Footprint:
        """The boxes where the loops are cut so."""
        key = tuple([c.tobytes() for c in cuts])
        found = self._boxes.get(key)
        if found is None:
            found = self._boxes[key] = self._of(cuts)
        return found

    def parts(self, layout: Layout, boxes: Footprint) -> tuple[Parts, Bytes]:
        """The parts of boxes that the blocks of the operand have, and the bytes of each box. They
        do not depend on where blocks are."""
        key = id(layout.edges), id(boxes)
        found = self._parts.get(key)
        if found is None:
            parts = parts_of(layout, boxes.low, boxes.high)
            total = np.bincount(parts.box, parts.size, len(boxes.low)).astype(np.float64)
            found = self._parts[key] = layout, boxes, parts, total
        return found[2:]

    def forget(self) -> None:
        """What was found out for the cuts that a planner tried."""
        self._boxes.clear()
        self._parts.clear()

    def _of(self, cuts: Sequence[Edges]) -> Footprint:
        grid = tuple([len(c) - 1 for c in cuts])
        own = tuple([grid[k] for k in self.moving])
        at = places(own)
        count = at.shape[1] if own else 1
        starts = {k: cuts[k][:-1][at[m]] for m, k in enumerate(self.moving)}
        ends = {k: cuts[k][1:][at[m]] for m, k in enumerate(self.moving)}
        low, high = np.empty((2, count, len(self.shape)), np.int64)
        for axis, extent in enumerate(self.shape):
            low[:, axis], high[:, axis] = extent, 0
            for e, affine in self.reads[axis]:
                lo, hi = self._range(e, affine, extent, starts, ends, count)
                there = lo < hi  # else the cell never comes there
                low[there, axis] = np.minimum(low[there, axis], lo[there])
                high[there, axis] = np.maximum(high[there, axis], hi[there])
        nothing = low >= high
        low[nothing] = high[nothing] = 0
        of_cell = np.ravel_multi_index(tuple(places(grid)[self.moving]), own) if own \
            else np.zeros(math.prod(grid), np.int64)
        return Footprint(low, high, of_cell)

    def _range(self, e: Expr, affine: Affine | None, extent: int, starts: dict[int, Numbers],
               ends: dict[int, Numbers], count: int) -> tuple[Numbers, Numbers]:
        if affine is None:
            return self._one_by_one(e, extent, starts, ends, count)
        lo = np.full(count, affine.constant, np.int64)
        hi = lo.copy()
        for name, factor in affine.coefficients.items():
            if name in self.places:
                first, last = starts[self.places[name]], ends[self.places[name]] - 1
            elif name in self.inner:
                first, last = np.zeros(1, np.int64), np.array([self.inner[name][1] - 1])
            else:
                return np.zeros(count, np.int64), np.full(count, extent)
            lo += factor * (first if factor > 0 else last)
            hi += factor * (last if factor > 0 else first)
        lo = np.minimum(np.maximum(lo, 0), extent)
        return lo, np.maximum(np.minimum(hi + 1, extent), lo)

    def _one_by_one(self, e: Expr, extent: int, starts: dict[int, Numbers],
                    ends: dict[int, Numbers], count: int) -> tuple[Numbers, Numbers]:
        used = [k for k in self.moving if self.loops.indices[k].name in e.free]
        known: dict[tuple[int, ...], tuple[int, int]] = {}
        lo, hi = np.empty((2, count), np.int64)
        for c in range(count):
            key = tuple([int(x[k][c]) for k in used for x in (starts, ends)])
            if key not in known:
                cell = {self.loops.indices[k].name: (int(starts[k][c]), int(ends[k][c]))
                        for k in used}
                known[key] = range_of(e, self.inner | cell, extent)
            lo[c], hi[c] = known[key]
        return lo, hi


def places(grid: Sequence[int]) -> Numbers:
    """The places of a grid in C order, a row for each axis."""
    return np.indices(tuple(grid)).reshape(len(grid), math.prod(grid))


def parts_of(layout: Layout, low: Numbers, high: Numbers) -> Parts:
    """The blocks that boxes lie in, with estimated bytes of what each has of each."""
    box = np.flatnonzero((low < high).all(axis=1)) if low.shape[1] else np.arange(len(low))
    block = np.zeros(len(box), np.int64)
    begin, end = low[box], high[box]
    for k, edges in enumerate(layout.edges):
        first = np.searchsorted(edges, low[:, k], "right") - 1
        last = np.searchsorted(edges, high[:, k], "left")
        count = np.maximum(last - first, 0)[box]
        rows = np.repeat(np.arange(len(box)), count)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        box = box[rows]
        at = first[box] + offset
        begin, end = begin[rows], end[rows]
        begin[:, k] = np.maximum(edges[at], begin[:, k])
        end[:, k] = np.minimum(edges[at + 1], end[:, k])
        block = block[rows] * (len(edges) - 1) + at
    return Parts(box, block, layout.bytes_in(begin, end))
