"""Blocks that come into being beside each other, at one site and for the same readers, come into
being as one: a task for each of many small blocks takes longer than the blocks do.

An edge between blocks goes where what lies on both of its sides has the same home, and where no
cell that reads the tensor ends: then the same bytes are sent as before. Blocks grow until sending
one takes much longer than its task, and some stay at each site, so that a site with several cores
makes them beside each other, and what is made first is sent while the rest is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorel.blocks.planning.along_cuts import AlongStep
from tensorel.blocks.planning.block_plan import AliasStep, AnyStep, GridStep
from tensorel.blocks.planning.cells import Rates
from tensorel.blocks.steps.layout import Edges, Layout

TIMES_A_TASK = 200.0  # of which sending a block takes longer than its task
AT_A_SITE = 4  # blocks that stay at the site that has most of them

Ends = list[set[int]]


def coarsened(steps: Sequence[AnyStep], inputs: Mapping[str, Layout], names: Iterable[str],
              rates: Rates, sites: int) -> dict[str, Layout]:
    """The layouts of the inputs, those with these names in fewer blocks."""
    most = TIMES_A_TASK * rates.task / rates.byte if rates.byte else np.inf
    wanted = set(names)
    ends = _ends(steps, {n: inputs[n] for n in wanted})
    return {n: _coarser(x, ends[n], most, sites) if n in wanted else x for n, x in inputs.items()}


def _ends(steps: Sequence[AnyStep], inputs: Mapping[str, Layout]) -> dict[str, Ends]:
    """For each axis of each tensor the places at which a cell that reads it begins or ends."""
    found: dict[str, Ends] = {n: [set() for _ in x.edges] for n, x in inputs.items()}
    of = {n: n for n in inputs}
    for step in steps:
        if isinstance(step, AliasStep):
            of[step.name] = of.get(step.of, step.of)
        elif isinstance(step, GridStep):
            for name, prints in zip(step.operands, step.step.footprints):
                if of.get(name) in found:
                    boxes = prints.of(step.placed.cuts)
                    for axis, places in enumerate(found[of[name]]):
                        places.update(boxes.low[:, axis].tolist(), boxes.high[:, axis].tolist())
        elif isinstance(step, AlongStep) and of.get(step.operand) in found:
            name = of[step.operand]
            for edges, places in zip(inputs[name].edges, found[name]):
                places.update(edges.tolist())  # blocks of the result are those of the operand
    return found


def _coarser(layout: Layout, ends: Ends, most: float, sites: int) -> Layout:
    kept = [_kept(layout, axis, places) for axis, places in enumerate(ends)]
    runs = [int(np.diff(np.flatnonzero(k)).max(initial=1)) for k in kept]
    size = float(layout.sizes().max(initial=0.0))
    here = int(np.bincount(layout.home.ravel(), minlength=sites).max(initial=0))
    times = [1] * len(runs)
    grown = True
    while grown:  # twice as many along one axis after the other, the last one first
        grown = False
        for axis in reversed(range(len(runs))):
            count = int(np.prod(times)) * 2
            if times[axis] < runs[axis] and size * count <= most and here >= AT_A_SITE * count:
                times[axis] *= 2
                grown = True
    edges = tuple([_thinned(e, k, n) for e, k, n in zip(layout.edges, kept, times)])
    if all(len(a) == len(b) for a, b in zip(edges, layout.edges)):
        return layout
    home, absent = layout.home, layout.absent
    for axis, (new, old) in enumerate(zip(edges, layout.edges)):
        first = np.searchsorted(old, new[:-1])
        home = np.take(home, first, axis)
        if absent is not None:
            absent = np.logical_and.reduceat(absent, first, axis)
    return replace(layout, edges=edges, home=home, absent=absent)


def _kept(layout: Layout, axis: int, ends: set[int]) -> npt.NDArray[np.bool_]:
    """Which edges of an axis have to stay."""
    edges = layout.edges[axis]
    home = np.moveaxis(layout.home, axis, 0)
    kept = np.ones(len(edges), bool)
    kept[1:-1] = (home[1:] != home[:-1]).any(axis=tuple(range(1, home.ndim)))
    kept[1:-1] |= np.isin(edges[1:-1], list(ends))
    return kept


def _thinned(edges: Edges, kept: npt.NDArray[np.bool_], times: int) -> Edges:
    """Of each run of parts between edges that stay so many become one."""
    at = np.flatnonzero(kept)
    begins = np.repeat(at[:-1], np.diff(at))
    stay = (np.arange(len(edges) - 1) - begins) % times == 0
    found: Edges = np.append(edges[:-1][stay], edges[-1:])
    return found
