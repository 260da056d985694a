"""Grids of cells for a step.

A grid cuts the loops of a step into cells, one for each site. What is cut decides the algorithm:
the loops of the result alone, 1-D (a broadcast) or 2-D; the reduction alone, co-partitioning; all
of them, 2.5-D and 3-D. An operand is at as many sites as there are cells along the loops that it
lacks; a result has as many partial results as there are parts of the reduction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from tensorel.blocks.planning.cells import Copies, Placed, Rates, Step, on_cuts
from tensorel.blocks.steps.layout import FREE, Edges, Layout, equal_work, nearest

MAX_TRIED = 16  # grids of a step that are costed block by block
MAX_GRIDS = 4096  # that are counted by extents


def grids(extents: Sequence[int], sites: int) -> list[tuple[int, ...]]:
    """All ways to cut loops into as many cells as there are sites, or fewer by a divisor."""
    found: list[tuple[int, ...]] = []
    for cells in sorted((d for d in range(1, sites + 1) if sites % d == 0), reverse=True):
        found += [g for g in _factored(cells, len(extents))
                  if all(p <= max(n, 1) for p, n in zip(g, extents))]
        if len(found) > MAX_GRIDS:
            break
    return found or [(1,) * len(extents)]


@cache
def _factored(cells: int, count: int) -> tuple[tuple[int, ...], ...]:
    """All tuples of that many whole numbers whose product it is."""
    if count == 0:
        return ((),) if cells == 1 else ()
    return tuple([(d, *rest) for d in range(1, cells + 1) if cells % d == 0
                  for rest in _factored(cells // d, count - 1)])


class Placer:
    """Puts a step on grids. ``layouts``: of its operands; ``had``: their copies from earlier
    steps; ``memory``: bytes that a site may hold."""

    def __init__(self, step: Step, layouts: Sequence[Layout], had: Sequence[Sequence[Copies]],
                 sites: int, rates: Rates, memory: float) -> None:
        self.step, self.layouts, self.had = step, layouts, had
        self.sites, self.rates, self.memory = sites, rates, memory
        self.loops = step.loops
        self.walks = [self.loops.plain(s) for s in self.loops.operands]
        self.along = [self.loops.along(s) for s in self.loops.operands]

    def best(self, tried: int = MAX_TRIED) -> list[Placed]:
        """Grids by what they cost, the cheapest first: counted by extents, the first of them block
        by block."""
        found = grids([a.extent for a in self.loops.indices], self.sites)
        tiles = [self._tiles(a.name) for a in self.loops.indices]
        found += [tuple(map(min, g, tiles)) for g in found]
        if self.step.strict:
            own = len(self.loops.axes)
            found = [(*g[:own], *(1 for _ in g[own:])) for g in found]
        found = list(dict.fromkeys(found))
        estimates = self._estimates(np.array(found).reshape(len(found), -1)).tolist()
        counted = [g for _, g in sorted(zip(estimates, found))]
        return sorted([self.on(g) for g in counted[:tried]], key=lambda p: (
            max(p.held, self.memory), p.seconds))

    def _tiles(self, name: str) -> int:
        """In how many parts a loop can be cut without cutting a block that is given."""
        return min([layout.grid[walk.index(name)] for layout, walk in zip(self.layouts, self.walks)
                    if layout.pinned and name in walk], default=self.sites)

    def _estimates(self, found: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Seconds on grids (rows), by extents alone."""
        places = {a.name: k for k, a in enumerate(self.loops.indices)}
        cells = found.prod(axis=1).astype(np.float64)
        moved, flops = np.zeros((2, len(found)))
        for layout, walk in zip(self.layouts, self.along):
            wanted = np.stack([found[:, places[n]] if n is not None else np.ones_like(cells)
                               for n in walk], axis=1) if walk else np.ones((len(found), 0))
            distinct = [places[n] for n in dict.fromkeys(walk) if n is not None]
            copies = cells / found[:, distinct].prod(axis=1) - 1
            if layout.pinned:
                copies += (1 - 1 / self.sites) * ~self._fits(layout, wanted)
            moved += layout.nbytes * copies
        own = len(self.loops.axes)
        out = math.prod([a.extent for a in self.loops.axes]) * self.step.itemsize
        parts = found[:, own:].prod(axis=1)
        shares = {n: self.step.partial(n) * (n - 1) for n in set(parts.tolist())}
        moved += out * self.step.filled.density * np.array([shares[n] for n in parts.tolist()])
        for w in self.step.work:
            flops += w.flops / found[:, list(w.loops)].prod(axis=1)
        seconds: npt.NDArray[np.float64] = moved * self.rates.byte / self.sites
        return seconds + flops * self.rates.flop

    def _fits(self, layout: Layout, wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether no block has to be cut, and none that lies somewhere has to leave."""
        grid = np.array(layout.grid)
        free = bool((layout.home == FREE).all())
        found: npt.NDArray[np.bool_] = grid >= wanted if free else grid == wanted
        return np.asarray(found.all(axis=1))

    def on(self, grid: tuple[int, ...]) -> Placed:
        """The step on a grid."""
        cuts = tuple([self._cut(a.name, a.extent, p) for a, p in zip(self.loops.indices, grid)])
        free = {k: self._recut(k, x, cuts) for k, x in enumerate(self.layouts) if not x.pinned}
        return on_cuts(self.step, cuts, self.layouts, self.had, free, self.sites, self.rates)

    def _cut(self, name: str, extent: int, parts: int) -> Edges:
        """Where a loop is cut: into parts of equal work, at edges of the largest operand that has
        enough of them."""
        below, among, largest, most = None, None, 0.0, 0.0
        meeting = self.step.meeting
        if meeting is not None and meeting.work.total:
            below = meeting.work.below([a.name for a in self.loops.indices].index(name))
        for layout, walk in zip(self.layouts, self.along):
            if name in walk:
                k = walk.index(name)
                if meeting is None and layout.spread is not None and layout.nbytes > most:
                    below, most = layout.spread.below(k), layout.nbytes
                inside = layout.edges[k][layout.edges[k] < extent]
                if layout.pinned and len(inside) >= parts and layout.nbytes > largest:
                    among, largest = np.append(inside, extent), layout.nbytes
        edges = equal_work(extent, parts, below)
        return edges if among is None else nearest(edges, among)

    def _recut(self, k: int, layout: Layout, cuts: Sequence[Edges]) -> Layout:
        """An operand that the plan may cut, cut as the loops are that walk it."""
        at = {a.name: c for a, c in zip(self.loops.indices, cuts)}
        edges = tuple([_scaled(at[n], int(e[-1])) if n in at else e[[0, -1]]
                       for n, e in zip(self.along[k], layout.edges)])
        return replace(layout, edges=edges, home=np.full([len(e) - 1 for e in edges], FREE),
                       pinned=True)


def _scaled(cuts: Edges, extent: int) -> Edges:
    """The cuts of a loop on an axis that it walks shifted, which is longer or shorter."""
    if cuts[-1] == extent:
        return cuts
    if not extent:
        return cuts[[0, 0]]
    moved = (cuts * (extent / max(int(cuts[-1]), 1))).round().astype(np.int64)
    return np.unique(np.concatenate((moved, [extent])))
