"""Plans that need more memory than sites have, as plans in rounds: operands come into being for a
cell, and go after it.

The cells of a step are cut further, along the loop that walks most of what comes and goes. All
cells of a site run there one after the other, in an order in which each follows what it alone
needs. What stays is what lay at the sites before, what later steps read, and results that are
kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.planning.along_cuts import AlongStep
from tensorel.blocks.planning.block_plan import AliasStep, AnyStep, GridStep
from tensorel.blocks.planning.cells import NOWHERE, Placed
from tensorel.blocks.steps.access import Loops
from tensorel.blocks.steps.footprints import Bytes, parts_of
from tensorel.blocks.steps.layout import FREE, Edges, Layout, nearest

AT_ONCE = 2  # cells of a site of which the operands may be there
MAX_ROUNDS = 1024


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of the site that needs most, and in which step."""

    most: float
    step: str


class Memory:
    """What a plan holds at each site. ``stays``: operands that lie at the sites anyway; ``kept``:
    whether results stay, too; ``sites``: how many there are."""

    def __init__(self, steps: Sequence[AnyStep], known: Mapping[str, Layout],
                 inputs: Sequence[str], stays: Sequence[str], results: Sequence[str], kept: bool,
                 sites: int) -> None:
        self.steps, self.known, self.inputs, self.sites = steps, known, inputs, sites
        self.stays, self.kept = set(stays), kept
        self.last: dict[str, int] = {}
        for s, step in enumerate(steps):
            for n in (step.of,) if isinstance(step, AliasStep) else step.operands:
                self.last[n] = s
        for n in results:
            self.last[n] = len(steps) if kept else max(self.last.get(n, 0), len(steps) - 1)
        self.results = set(results)

    def whole(self) -> Need:
        """Where all operands stay once they are there."""
        stay = sum([self.known[n].held(self.sites) for n in self.inputs], np.zeros(self.sites))
        return self._most(self.steps, stay, streamed=False)

    def rounds(self, limit: float) -> tuple[Sequence[AnyStep], Need]:
        """The steps in as few rounds as fit, or in as many as there can be."""
        stay = sum([self.known[n].held(self.sites) for n in self.inputs if n in self.stays],
                   np.zeros(self.sites))
        count, steps = 1, self.steps
        need = self._most(steps, stay, streamed=True)
        while need.most > limit and count < MAX_ROUNDS:
            count *= 2
            steps = [self._refined(s, count) if isinstance(s, GridStep) else s for s in self.steps]
            need = self._most(steps, stay, streamed=True)
        return steps, need

    def _most(self, steps: Sequence[AnyStep], stay: Bytes, streamed: bool) -> Need:
        found = Need(0.0, steps[0].name if steps else "")
        made: dict[str, Bytes] = {}
        arrived = np.zeros(self.sites)
        for s, step in enumerate(steps):
            if isinstance(step, AliasStep):
                continue
            layout = step.placed.layout if isinstance(step, GridStep) else step.layout
            held = layout.held(self.sites)
            now = stay + sum([h for n, h in made.items() if self.last.get(n, -1) >= s],
                             np.zeros(self.sites))
            if isinstance(step, GridStep):
                cells, cut = self._cells(step)
                now += self._partials(step)
                if streamed:
                    now += AT_ONCE * cells
                    if not self.kept and step.name in self.results:
                        held = np.minimum(held, AT_ONCE * layout.sizes().max(initial=0))
                    now += sum([np.full(self.sites, self.known[n].nbytes)
                                for n in self.stays.intersection(step.operands)
                                if step.placed.moved], np.zeros(self.sites))
                else:  # what arrives of operands stays as long as the plan
                    arrived += step.placed.received
                    now += arrived + cut
            elif isinstance(step, AlongStep):
                now += step.held
                if streamed and step.operand in self.inputs and step.operand not in self.stays:
                    now += AT_ONCE * self._largest(self.known[step.operand])
            elif streamed:
                now[step.site] += sum([self.known[n].nbytes for n in step.operands])
            else:
                now[step.site] += step.moved
            now += held
            made[step.name] = held
            if now.max() > found.most:
                found = Need(float(now.max()), step.name)
        return found

    def _largest(self, layout: Layout) -> Bytes:
        """Bytes of the largest block of each site."""
        found = np.zeros(self.sites)
        np.maximum.at(found, layout.home.ravel(), layout.sizes().ravel())
        return found

    def _cells(self, step: GridStep) -> tuple[Bytes, Bytes]:
        """Bytes of the operands of the largest cell of each site, and of all parts that are cut out
        of blocks there."""
        sites = np.asarray(step.placed.sites)
        need, cut = np.zeros(len(sites)), np.zeros(self.sites)
        for name, prints in zip(step.operands, step.step.footprints):
            boxes = prints.of(step.placed.cuts)
            layout = self.known[name]
            parts = parts_of(layout, boxes.low, boxes.high)
            blocks = layout.sizes().ravel()[parts.block]
            pieces = parts.size * (parts.size < blocks)
            home = layout.home.ravel()[parts.block]
            cut += np.bincount(home[home != FREE], pieces[home != FREE], self.sites)
            comes = name in self.inputs and name not in self.stays  # whole, and then it is cut
            size = blocks + pieces if comes else parts.size + pieces
            need += np.bincount(parts.box, size, len(boxes.low))[boxes.of_cell]
        found = np.zeros(self.sites)
        there = sites != NOWHERE
        np.maximum.at(found, sites[there], need[there])
        return found, cut

    def _partials(self, step: GridStep) -> Bytes:
        """Bytes of partial results: a sum for each cell of the result at a site, its parts for
        those who finish them, and what is added next."""
        own, found = len(step.step.loops.axes), np.zeros(self.sites)
        placed = step.placed
        grid = placed.grid
        if math.prod(grid[own:]) == 1:
            return found
        size = np.full(grid[:own], step.step.itemsize * step.step.filled.density)
        for k, cuts in enumerate(placed.cuts[:own]):
            size = size * np.diff(cuts).reshape([-1 if d == k else 1 for d in range(own)])
        at = np.asarray(placed.sites).reshape(size.size, -1)
        for k in range(self.sites):
            here = (at == k).any(axis=1)
            mine = size.ravel()[here]
            found[k] = max(mine.sum() + 2 * mine.max(initial=0), 2 * mine.sum())
        most = max([len(set(row.tolist())) for row in at], default=1)
        return found + (most - 1) * placed.layout.held(self.sites)

    # -- cutting further ------------------------------------------------------------------------
    def _refined(self, step: GridStep, count: int) -> GridStep:
        """Each part of one loop in so many."""
        loops = step.step.loops
        own = [a.name for a in loops.axes]
        found: dict[str, tuple[float, int, Edges]] = {}
        for name, source in zip(step.operands, loops.operands):
            layout = self.known[name]
            for k, n in enumerate(loops.along(source)):
                at = (layout.nbytes, len(layout.edges[k]))
                if n is not None and name not in self.stays and at[1] > 2 and (
                        n in own or not step.step.strict) and at > found.get(n, (0.0, 0))[:2]:
                    found[n] = (*at, layout.edges[k])
        if not found:
            return step
        name = max(found, key=lambda n: found[n][:2])
        axis = [a.name for a in loops.indices].index(name)
        cuts = _finer(step.placed.cuts[axis], found[name][2], count)
        return replace(step, placed=_cut_further(step.placed, axis, cuts, loops))


def _finer(cuts: Edges, blocks: Edges, count: int) -> Edges:
    """Each part cut into so many, where blocks are cut."""
    wanted = np.concatenate([np.linspace(lo, hi, count + 1)[:-1].round().astype(np.int64)
                             for lo, hi in pairwise(cuts)] + [cuts[-1:]])
    inside = blocks[(blocks > 0) & (blocks < cuts[-1])]
    return np.unique(np.concatenate((cuts, nearest(wanted, np.concatenate((inside, cuts))))))


def _cut_further(placed: Placed, axis: int, cuts: Edges, loops: Loops) -> Placed:
    old = placed.cuts[axis]
    of_old = np.searchsorted(old, cuts[:-1], "right") - 1
    sites = np.take(np.asarray(placed.sites).reshape(placed.grid), of_old, axis)
    layout = placed.layout
    if axis < len(loops.axes):
        at = loops.of_result(axis)
        finer = np.unique(np.concatenate((layout.edges[at], cuts)))
        home = np.take(layout.home, np.searchsorted(
            layout.edges[at], finer[:-1], "right") - 1, at)
        layout = replace(layout, home=home, edges=(
            *layout.edges[:at], finer, *layout.edges[at + 1:]))
    return replace(placed, cuts=(*placed.cuts[:axis], cuts, *placed.cuts[axis + 1:]),
                   sites=tuple(sites.ravel().tolist()), layout=layout)
