"""Operators along an axis that is cut: each block gives what it knows of its part of a fibre, and
the parts are combined.

- *Running values* of a monoid: the running values of each block; of the last ones of each block the
  running values again, which are what comes before the next block; and both combined.
- *Rankings* that keep few entries of a fibre (the first k, the smallest, the largest): the ranking
  of the entries that the rankings of the blocks kept, in the order of the blocks. Of equal entries
  the first in a block, and then that of the first block, is the first of all.

Blocks stay where they lie; what is sent is as small as a cut through the tensor, or as the result.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorel.algebra.bulk import Kind
from tensorel.base.records import dataclass
from tensorel.blocks.planning.cells import WEIGHT_OF_ALL, Rates
from tensorel.blocks.steps.layout import FREE, Layout, spread_over
from tensorel.ir.nodes import Bulk, Source

FLOPS_OF_FIBRES = 20.0  # of an entry that is sorted or ranked
MAX_SPARSE = 0.5  # of the entries of a tensor, stored; with more of them it counts as dense
PLACE_BYTES = 8.0  # of where an entry stands that a ranking keeps
Sites = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AlongStep:
    """An operator along an axis that is cut, or along all of them (``axis`` None). ``centre``: the
    site at which the parts of each fibre are combined, by its place among the blocks of the other
    axes. ``held``: bytes at each site of what is made on the way."""

    name: str
    tensor: Bulk
    operand: str
    axis: int | None
    centre: Sites
    layout: Layout
    moved: float
    held: Bytes

    @property
    def operands(self) -> tuple[str, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Along:
    """A way to run an operator: the step, where its operand lies, and what it costs."""

    step: AlongStep
    operand: Layout
    seconds: float


def can_run_along(bulk: Bulk, strict: bool) -> bool:
    """Whether the operator has parts that can be combined. Sums that keep their order have none."""
    op, first = bulk.op, bulk.args[0]
    if len(bulk.args) != 1 or not isinstance(first, Source) or not first.shape \
            or 0 in first.shape or 0 in bulk.shape:
        return False
    if op.running is not None:
        return not (strict and bulk.dtype.kind in "fc")
    return op.ranks and (op.axis(bulk.params) is not None or Kind.AXIS_OR_ALL in op.params)


def along_cuts(name: str, bulk: Bulk, operand: str, layout: Layout, stored: tuple[float, float],
               sites: int, rates: Rates, densify: float) -> Along | None:
    """The operator on the blocks as they lie, or as they are best cut; None where what the blocks
    keep may be more than they hold. ``stored``: bytes of an entry of the result with its place, and
    the share of entries that is stored; ``densify``: bytes of a result that running values of a
    sparse tensor may make, at all sites together."""
    if bulk.op.running is not None and layout.density < MAX_SPARSE \
            and math.prod(bulk.shape) * bulk.dtype.itemsize > densify:
        return None
    axis = bulk.op.axis(bulk.params)
    free = bool((layout.home == FREE).any())
    if free:
        layout = spread_over(layout, sites)
    home, sizes = layout.home, layout.sizes()
    count = home.size if axis is None else layout.grid[axis]
    centre: Sites
    if axis is None:
        centre = np.asarray(np.bincount(home.ravel(), sizes.ravel()).argmax(), np.int64)
        away = home != centre
    else:
        centre = np.asarray(home.take(0, axis))
        away = home != np.expand_dims(centre, axis)
    size = math.prod(layout.shape) * layout.density
    if bulk.op.running is not None:
        assert axis is not None
        extents: Sites = np.diff(layout.edges[axis])
        each = sizes / extents.reshape([-1 if k == axis else 1 for k in range(len(layout.shape))])
        ends, inner = each * away, np.arange(1, count)  # from all but the last one, and to others
        sent = float(ends.take(inner - 1, axis).sum() + ends.take(inner, axis).sum())
        held = layout.held(sites)
        made = replace(layout, itemsize=stored[0], density=stored[1], spread=None, absent=None,
                       pointers=None, pinned=True)
    else:
        if math.prod(bulk.shape) * count > size and axis is not None:
            return None
        kept = _kept(bulk, layout, axis) * (stored[0] + PLACE_BYTES)
        sent = float((kept * away).sum())
        held = np.bincount(home.ravel(), kept.ravel(), sites).astype(np.float64)
        held += np.bincount(centre.ravel(), minlength=sites) * float(kept.max()) * count
        made = _combined(bulk, layout, axis, centre, stored)
    step = AlongStep(name, bulk, operand, axis, centre, made, sent, held)
    again = bulk.op.running is not None
    return Along(step, layout, _seconds(layout, free, sent, again, sites, rates))


def _kept(bulk: Bulk, layout: Layout, axis: int | None) -> Bytes:
    """How many entries each block keeps."""
    found = np.ones(layout.grid)
    if axis is None:
        return found
    most = bulk.shape[axis] if len(bulk.shape) == len(layout.shape) else 1
    for k, edges in enumerate(layout.edges):
        extents = np.minimum(np.diff(edges), most) if k == axis else np.diff(edges)
        found = found * extents.reshape([-1 if k == j else 1 for j in range(len(layout.shape))])
    return found


def _combined(bulk: Bulk, layout: Layout, axis: int | None, centre: Sites,
              stored: tuple[float, float]) -> Layout:
    """Where the result of a ranking lies."""
    if axis is None:
        return Layout((), centre, *stored)
    edges = [e for k, e in enumerate(layout.edges) if k != axis]
    if len(bulk.shape) == len(layout.shape):
        edges.insert(axis, np.array([0, bulk.shape[axis]]))
        centre = np.expand_dims(centre, axis)
    return Layout(tuple(edges), centre, *stored)


def _seconds(layout: Layout, free: bool, moved: float, again: bool, sites: int, rates: Rates
             ) -> float:
    """``again``: each block is walked twice."""
    held = layout.held(sites)
    work = FLOPS_OF_FIBRES * float(held.max()) / layout.itemsize * (1 + again)
    tasks = (4 if again else 2) * layout.home.size * rates.task
    busiest = float(held.max()) if free else 0.0  # what comes into being at a site comes in there
    return busiest * rates.byte + work * rates.flop + (
        tasks + WEIGHT_OF_ALL * moved * rates.byte) / sites


def seconds_at_one(layout: Layout, moved: float, entries: float, rates: Rates) -> float:
    """What the operator costs where all of its operand comes to one site."""
    comes = layout.nbytes if (layout.home == FREE).all() else moved
    return comes * rates.byte + FLOPS_OF_FIBRES * entries * rates.flop + 2 * rates.task
