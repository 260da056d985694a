"""The stored entries of a tensor as its levels have them: degrees without visiting entries,
coordinates in chunks.

A *node* of a level is one of its stored coordinates under one parent; its *leaves* are the
stored entries below it, neighbours in memory. In a stack of levels the bounds of the leaves are
found by following the segment bounds down; nothing is sorted or expanded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import BOOL
from tensorel.base.records import cached_property, dataclass
from tensorel.storage.levels import Compressed, Dense, Level, Listed
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

IntArray = npt.NDArray[np.signedinteger]
CHUNK_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes ``start <= q < stop`` of one level. ``keys``: their coordinates, None for a
    dense level, where node q has the coordinate q % extent. ``bounds``: the leaves of node
    start + k are ``bounds[k]:bounds[k + 1]``; None: each node is one leaf."""

    axis: int
    extent: int
    start: int
    stop: int
    keys: IntArray | None
    bounds: IntArray | None
    repeated: bool  # keys of one parent may repeat: the axis of a coordinate list

    @property
    def leaves(self) -> IntArray | None:
        return None if self.bounds is None else np.diff(self.bounds)


class Levels:
    """A tensor stored as a stack of levels."""

    def __init__(self, stored: Stored) -> None:
        assert isinstance(stored.format, Stack)
        self.stored = stored
        self.format = stored.format
        self.ranges: list[tuple[int, int]] = []
        start, stop = 0, 1
        for axis, level in zip(self.format.order, self.format.levels):
            if isinstance(level, Dense):
                n = stored.shape[axis]
                start, stop = start * n, stop * n
            elif isinstance(level, Compressed):
                pos = self.pos(level)[start : stop + 1]
                start, stop = (int(pos[0]), int(pos[-1])) if pos.size else (0, 0)
            elif not self.ranges:
                start, stop = 0, int(self.idx(level).size)
            self.ranges.append((start, stop))

    def pos(self, level: Level) -> IntArray:
        return self.stored.arrays[level.names[0]]  # type: ignore[return-value]

    def idx(self, level: Level) -> IntArray:
        name = next(n for n in level.names if n.startswith("idx"))
        return self.stored.arrays[name]  # type: ignore[return-value]

    def nodes(self, depth: int) -> Nodes:
        fmt, (start, stop) = self.format, self.ranges[depth]
        axis, level = fmt.order[depth], fmt.levels[depth]
        dense = isinstance(level, Dense)
        keys = None if dense else self.idx(level)[start:stop]
        repeated = isinstance(level, Listed) or (isinstance(level, Compressed) and level.runs)
        return Nodes(axis, self.stored.shape[axis], start, stop, keys,
                     self._bounds(depth), repeated)

    @cached_property
    def outermost(self) -> Nodes:
        """The nodes of the first level; of a coordinate list, one for each run of a coordinate."""
        nodes = self.nodes(0)
        keys = nodes.keys
        if keys is None or not nodes.repeated:
            return nodes
        fresh = np.ones(keys.size, np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if fresh.all():
            return replace(nodes, repeated=False)
        starts = np.flatnonzero(fresh)
        keys = keys[starts]
        ends = np.append(starts, fresh.size)
        bounds = ends + nodes.start if nodes.bounds is None else nodes.bounds[ends]
        return Nodes(nodes.axis, nodes.extent, 0, keys.size, keys, bounds, False)

    def _bounds(self, depth: int) -> IntArray | None:
        start, stop = self.ranges[depth]
        bounds: IntArray | None = None
        for axis, level in list(zip(self.format.order, self.format.levels))[depth + 1 :]:
            if isinstance(level, Compressed):
                pos = self.pos(level)
                bounds = pos[start : stop + 1] if bounds is None else pos[bounds]
            elif isinstance(level, Dense):
                ends = np.arange(start, stop + 1) if bounds is None else bounds.astype(np.int64)
                bounds = ends * self.stored.shape[axis]
        return bounds

    def children(self, depth: int) -> IntArray | None:
        """The number of nodes one level below each node, where that level is compressed."""
        start, stop = self.ranges[depth]
        below = self.format.levels[depth + 1]
        if not isinstance(below, Compressed) or below.runs:
            return None
        return np.diff(self.pos(below)[start : stop + 1])

    def coords(self, depth: int, start: int, stop: int) -> dict[int, IntArray]:
        """By axis, the coordinates of the nodes ``start:stop`` of a level and of those above."""
        if depth < 0:
            return {}
        axis, level = self.format.order[depth], self.format.levels[depth]
        if isinstance(level, Listed):
            found = self.coords(depth - 1, start, stop)
            found[axis] = self.idx(level)[start:stop]
            return found
        if isinstance(level, Dense):
            n = self.stored.shape[axis]
            first, last = start // n, -(-stop // n)
            ends = np.arange(first, last + 1) * n
            mine: IntArray = np.arange(start, stop) % n
        else:
            low, high = self.ranges[depth - 1] if depth else (0, 1)
            pos = self.pos(level)[low : high + 1]
            first = int(np.searchsorted(pos, start, side="right")) - 1
            last = int(np.searchsorted(pos, stop, side="left"))
            ends = pos[first : last + 1]
            first, last = first + low, last + low
            mine = self.idx(level)[start:stop]
        clipped: npt.NDArray[np.int64] = np.clip(ends.astype(np.int64), start, stop)
        lengths = np.diff(clipped)
        above = self.coords(depth - 1, first, last)
        return {a: np.repeat(c, lengths) for a, c in above.items()} | {axis: mine}

    def chunks(self) -> Iterator[tuple[IntArray, ...]]:
        """All coordinates, by axis, in the order of the format."""
        start, stop = self.ranges[-1]
        for lo in range(start, stop, CHUNK_ENTRIES):
            found = self.coords(len(self.ranges) - 1, lo, min(lo + CHUNK_ENTRIES, stop))
            yield tuple([found[a] for a in range(len(found))])

    def first_axis_ranges(self, size: int) -> list[tuple[int, int]]:
        """The leaves whose coordinate of the outermost axis is in [t * size, (t + 1) * size),
        for each t."""
        nodes = self.outermost
        starts = np.minimum(np.arange(0, nodes.extent + size, size), nodes.extent)
        at = starts
        if nodes.keys is not None:  # of one dtype: else the keys would be copied
            at = np.searchsorted(nodes.keys, starts.astype(nodes.keys.dtype))
        ends = at + nodes.start if nodes.bounds is None else nodes.bounds[at]
        return [(int(a), int(b)) for a, b in pairwise(ends)]


def pattern(stored: Stored) -> tuple[IntArray, ...] | None:
    """All stored coordinates of a format that is no stack of levels: those that unpacking gives
    when every stored value is unlike the fill. None where the format computes its values."""
    name, values = stored.format.value_array, stored.values
    if name is None or values is None:
        return None
    ones = stored.arrays | {name: np.ones(values.shape, BOOL)}
    return stored.format.unpack(ones, stored.shape, np.False_, BOOL).coords


def coordinate_chunks(stored: Stored) -> Iterator[tuple[IntArray, ...]]:
    """The coordinates of all stored entries, in bounded pieces."""
    if isinstance(stored.format, Stack):
        yield from Levels(stored).chunks()
        return
    coords = pattern(stored)
    if coords is not None:
        for lo in range(0, coords[0].size, CHUNK_ENTRIES):
            yield tuple([c[lo : lo + CHUNK_ENTRIES] for c in coords])
