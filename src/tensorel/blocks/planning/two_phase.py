"""Two-phase planning of a step: its lineage by a pilot run on keys, each join group placed by
itself.

It is tried where blocks are given: a grid of cells, one for each site, cannot do better where all
blocks are alike and free, but knows nothing of blocks that lie anywhere, or are as large as they
are. Both plans are compared by one cost (``blocks/join_groups/cost.py``); a grid that is given as
a start is never made worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.blocks.join_groups import cost
from tensorel.blocks.join_groups.lineage import JoinGroups, Placement
from tensorel.blocks.join_groups.pilot import Join, Lineage, Scan, Tree, pilot
from tensorel.blocks.join_groups.placement import place
from tensorel.blocks.planning.cells import NOWHERE, Placed, ends_of
from tensorel.blocks.planning.grids import Placer
from tensorel.blocks.steps.layout import FREE, Edges, Layout

Numbers = npt.NDArray[np.int64]
MAX_GROUPS = 200_000
MAX_SHARE = 0.01  # of the time of a step that its planning may take
MIN_GAIN = 1.02  # so many times less must the plan cost


@dataclass(frozen=True, slots=True)
class Rival:
    """What two-phase planning of a step found. ``placed``: a plan that costs less than the grid;
    ``gain``: how many times less, where it was tried; ``why``: why it was not."""

    placed: Placed | None = None
    gain: float = 0.0
    why: str = ""


def by_lineage(placer: Placer, grid: Placed, always: bool = False) -> Rival:
    """The step with every join group placed by itself, where that costs less than the grid;
    ``always``: however long planning takes."""
    cuts = _tiles(placer)
    if cuts is None:
        return Rival(why="blocks are not given, or are not cut alike")
    if any(placer.had):
        return Rival(why="sites have copies, which grids alone know")
    count = math.prod([len(c) - 1 for c in cuts])
    seconds = 1e-3 * min(count, 500) + 2e-5 * count
    if not 1 < count <= MAX_GROUPS:
        return Rival(why=f"{count} join groups")
    if not (always or seconds <= MAX_SHARE * grid.seconds):
        share = seconds / grid.seconds if grid.seconds else math.inf
        return Rival(why="its pilot run takes longer than the work" if share > 1
                     else f"its pilot run takes {share:.0%} of the work")
    there = [_there(x, v) for x, v in zip(placer.layouts, placer.step.vanishing)]
    lineage, columns = _lineage(placer, there)
    if not len(lineage.target):
        return Rival(why="no blocks meet")
    cells = np.stack([lineage.keys[:, c] if c is not None else np.zeros(len(lineage.keys), np.int64)
                      for c in columns], axis=1) if columns else lineage.keys[:, :0]
    groups = _groups(placer, lineage, cells, cuts, there)
    start = _as_grid(grid, lineage, cells, cuts, placer.layouts, there)
    rates = cost.Rates(placer.rates.byte, placer.rates.flop, placer.rates.send, placer.rates.task)
    memory = None if math.isinf(placer.memory) else placer.memory
    found = place(groups, placer.sites, rates, memory, starts=[start])
    before = cost.cost_of(groups, start, placer.sites, rates)
    after = cost.cost_of(groups, found, placer.sites, rates)
    gain = before.seconds / after.seconds if after.seconds else 1.0
    if gain <= MIN_GAIN:
        return Rival(gain=gain)
    return Rival(_placed(placer, grid, cuts, lineage, cells, found, after, gain, there), gain)


def _placed(placer: Placer, grid: Placed, cuts: tuple[Edges, ...], lineage: Lineage,
            cells: Numbers, found: Placement, after: cost.Cost, gain: float,
            there: Sequence[Numbers]) -> Placed:
    """The placement of join groups as the plan of a step: each is a cell."""
    shape = [len(c) - 1 for c in cuts]
    sites = np.full(math.prod(shape), NOWHERE)
    sites[np.ravel_multi_index(tuple(cells.T), tuple(shape)) if shape else 0] = found.group_site
    own = len(placer.loops.axes)
    home = _by_turns(shape[:own], placer.sites)
    targets = cells[np.unique(lineage.target, return_index=True)[1], :own]
    home[tuple(targets.T)] = found.target_site if own else found.target_site[0]
    homes = {}
    for k, layout in enumerate(placer.layouts):
        if (layout.home == FREE).any():
            part = np.where(layout.home == FREE, _by_turns(layout.grid, placer.sites), layout.home)
            part.ravel()[there[k]] = found.home[lineage.first[k]:lineage.first[k + 1]]
            homes[k] = replace(layout, home=part)
    most = max((after.received + after.gathered).max(), (after.sent + after.scattered).max())
    return Placed(
        cuts, tuple(sites.tolist()),
        placer.step.laid(cuts[:own], home), homes, {},
        after.moved, float(most), float(after.held.max()), grid.work, grid.seconds / gain,
        after.received, gain)


def _tiles(placer: Placer) -> tuple[Edges, ...] | None:
    """Where the blocks of operands cut the loops; None where a cell of these cuts needs more than
    one block of an operand."""
    found: dict[str, Edges] = {}
    for layout, walk in zip(placer.layouts, placer.walks):
        for name, edges in zip(walk, layout.edges):
            if not layout.pinned or name is None or not np.array_equal(
                    found.setdefault(name, edges), edges):
                return None
    loops = placer.loops.indices
    if any(a.name in found and found[a.name][-1] != a.extent for a in loops):
        return None
    return tuple([found.get(a.name, np.array([0, a.extent])) for a in loops])


def _there(layout: Layout, vanishing: bool) -> Numbers:
    """The blocks that take part, by their places in the flat grid."""
    if layout.absent is None or not vanishing:
        return np.arange(layout.home.size)
    return np.flatnonzero(~layout.absent.ravel())


def _by_turns(grid: Sequence[int], sites: int) -> Numbers:
    return (np.arange(math.prod(grid)) % sites).reshape(tuple(grid))


def _lineage(placer: Placer, there: Sequence[Numbers]
             ) -> tuple[Lineage, list[int | None]]:
    """The pilot run over the keys of blocks, and the column of each loop."""
    names: list[str | None] = []
    tree: Tree | None = None
    for k, walk in enumerate(placer.walks):
        on = tuple([(names.index(n), axis) for axis, n in enumerate(walk) if n in names])
        tree = Scan(k) if tree is None else Join(tree, Scan(k), on)
        names += walk
    assert tree is not None
    columns = [names.index(a.name) if a.name in names else None for a in placer.loops.indices]
    relations = [np.stack([i.ravel()[t] for i in np.indices(x.grid)], axis=1) if x.grid
                 else np.zeros((1, 0), np.int64) for x, t in zip(placer.layouts, there)]
    own = columns[:len(placer.loops.axes)]
    return pilot(relations, tree, [c for c in own if c is not None]), columns


def _groups(placer: Placer, lineage: Lineage, cells: Numbers,
            cuts: Sequence[Edges], there: Sequence[Numbers]) -> JoinGroups:
    """Sizes and work. A join group has as much work as there is where its blocks meet."""
    low, high = ends_of(cuts, cells)
    step, layouts, own = placer.step, placer.layouts, len(placer.loops.axes)
    volume = (high - low).prod(axis=1).astype(np.float64)
    if step.meeting is not None:
        volume = step.meeting.work.entries(low, high)
    first = np.unique(lineage.target, return_index=True)[1]
    made = (high - low)[first, :own].prod(axis=1).astype(np.float64) * step.filled.density
    if step.filled.spread is not None:
        made = step.filled.spread.entries(low[first, :own], high[first, :own])
    sizes = np.concatenate([x.sizes().ravel()[t] for x, t in zip(layouts, there)])
    return lineage.groups(
        np.concatenate([x.home.ravel()[t] for x, t in zip(layouts, there)]), sizes,
        step.flops([1] * len(cuts)) * volume / max(float(volume.sum()), 1e-300),
        made * step.itemsize, made)


def _as_grid(grid: Placed, lineage: Lineage, cells: Numbers,
             cuts: Sequence[Edges], layouts: Sequence[Layout],
             there: Sequence[Numbers]) -> Placement:
    """The grid as a placement of the join groups: each where the middle of its cell is."""
    middle = [((c[:-1] + c[1:]) // 2)[cells[:, k]] for k, c in enumerate(cuts)]
    at = [_place(c, m) for c, m in zip(grid.cuts, middle)]
    cell = np.ravel_multi_index(tuple(at), grid.grid) if at else np.zeros(len(cells), np.int64)
    own = len(grid.layout.edges)
    first = np.unique(lineage.target, return_index=True)[1]
    places = tuple([_place(e, m[first]) for e, m in zip(grid.layout.edges, middle[:own])])
    home = np.concatenate([grid.homes.get(k, x).home.ravel()[t]
                           for k, (x, t) in enumerate(zip(layouts, there))])
    return Placement(np.asarray(grid.sites)[cell], np.asarray(grid.layout.home[places]).reshape(
        len(first)), home)


def _place(edges: Edges, at: Numbers) -> Numbers:
    """In which part of an axis places are; the one part of an axis of nothing has none."""
    return np.minimum(np.searchsorted(edges, at, "right") - 1, len(edges) - 2)
