"""Tasks of an operator along an axis that is cut: of each block, of what the blocks know of each
fibre together, and of each block again where the result is as large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorel.blocks.planning.along_cuts import FLOPS_OF_FIBRES, AlongStep
from tensorel.blocks.steps.layout import Box, Layout
from tensorel.engines.sites import ranking, work
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Axis, Bulk, Call, Const, Index, Lambda, Read, Source, const

if TYPE_CHECKING:
    from tensorel.engines.sites.scheduling import Scheduler

Place = tuple[int, ...]
Numbers = npt.NDArray[np.int64]


def make_along(scheduler: Scheduler, step: AlongStep) -> Numbers:
    """The tasks of a step; the numbers of the blocks of its result."""
    if step.tensor.op.running is not None:
        return _Running(scheduler, step).made()
    return _ranked(scheduler, step)


def fibres(layout: Layout, axis: int | None) -> Iterator[tuple[Place, list[Place]]]:
    """The blocks of each fibre of blocks, in order, by its place among the other axes. Blocks of no
    entries have nothing to say."""
    if axis is None:
        yield (), list(np.ndindex(layout.grid))
        return
    filled = [k for k, n in enumerate(np.diff(layout.edges[axis])) if n]
    for rest in np.ndindex(*[n for k, n in enumerate(layout.grid) if k != axis]):
        yield rest, [(*rest[:axis], k, *rest[axis:]) for k in filled]


def _flops(layout: Layout, at: Place) -> float:
    return FLOPS_OF_FIBRES * layout.density * math.prod(_extents(layout.box(at)))


def _source(bulk: Bulk) -> Source:
    first = bulk.args[0]
    assert isinstance(first, Source)
    return first


def _extents(box: Box) -> tuple[int, ...]:
    return tuple([hi - lo for lo, hi in box])


# -- running values --------------------------------------------------------------------------------
class _Running:
    """Running values of a monoid."""

    def __init__(self, scheduler: Scheduler, step: AlongStep) -> None:
        assert step.axis is not None
        self.scheduler, self.step, self.axis = scheduler, step, step.axis
        self.layout, self.numbers = scheduler.lies[step.operand]
        self.fill = fill_of(step.tensor)

    def made(self) -> Numbers:
        found = np.zeros(self.layout.grid, np.int64)
        for rest, places in fibres(self.layout, self.axis):
            self._fibre(found, int(self.step.centre[rest]), places)
        for at in zip(*np.nonzero(found == 0)):  # blocks of no entries
            shape = _extents(self.layout.box(at))
            fill = self.scheduler.fills[self.step.name]
            found[at] = self.scheduler.task(int(self.layout.home[at]), partial(
                work.finish, fill, shape, fill, None))
        return found

    def _fibre(self, found: Numbers, centre: int, places: list[Place]) -> None:
        of_blocks = [self._of_block(at) for at in places]
        before = self._before(places, of_blocks, centre) if len(places) > 1 else []
        for k, (at, own) in enumerate(zip(places, of_blocks)):
            found[at] = self._with(at, own, before[k - 1] if k else None)

    def _note(self, at: Place) -> str:
        return f"{self.step.name}, block {at}"

    def _of_block(self, at: Place) -> int:
        bulk = self.step.tensor
        operand = _source(bulk)
        shape, fill = _extents(self.layout.box(at)), operand.fill
        program = Bulk(bulk.op, (Source(0, shape, operand.dtype, fill),), bulk.params)
        given = work.Operand(shape, operand.dtype, fill, ((0,) * len(shape),))
        return self.scheduler.task(int(self.layout.home[at]), partial(
            work.compute, program, (given,), self.fill, True), (int(self.numbers[at]),),
            self._note(at), _flops(self.layout, at))

    def _cut(self, of: int, shape: tuple[int, ...], k: int, site: int) -> int:
        """The k-th entry along the axis."""
        box = tuple([(k, k + 1) if j == self.axis else (0, n) for j, n in enumerate(shape)])
        return self.scheduler.task(site, partial(work.cut, box), (of,))

    def _before(self, places: list[Place], of_blocks: list[int], centre: int) -> list[int]:
        """The running values at the end of each block but the last one."""
        bulk, axis = self.step.tensor, self.axis
        last = []
        for at, own in zip(places[:-1], of_blocks):
            shape = _extents(self.layout.box(at))
            last.append(self._cut(own, shape, shape[axis] - 1, int(self.layout.home[at])))
        rest = _extents(self.layout.box(places[0]))
        shape = tuple([len(last) if k == axis else n for k, n in enumerate(rest)])
        offsets = tuple([tuple([k if j == axis else 0 for j in range(len(shape))])
                         for k in range(len(last))])
        program = Bulk(bulk.op, (Source(0, shape, bulk.dtype, self.fill),), bulk.params)
        given = work.Operand(shape, bulk.dtype, self.fill, offsets)
        ends = self.scheduler.task(centre, partial(
            work.compute, program, (given,), fill_of(program), True), last, self.step.name)
        return [self._cut(ends, shape, k, centre) for k in range(len(last))]

    def _with(self, at: Place, own: int, before: int | None) -> int:
        """A block of the result: its own running values, and what comes before them."""
        bulk, shape = self.step.tensor, _extents(self.layout.box(at))
        op, fill = bulk.op.running, self.scheduler.fills[self.step.name]
        assert op is not None
        axes = tuple([Axis(f"i{k}", n) for k, n in enumerate(shape)])
        here = tuple([Index(a.name) for a in axes])
        sources = [Source(0, shape, bulk.dtype, self.fill)]
        entry: Read | Call = Read(sources[0], here)
        if before is not None:
            end = tuple([1 if k == self.axis else n for k, n in enumerate(shape)])
            sources.append(Source(1, end, bulk.dtype, self._fill_of_ends()))
            at_end = tuple([const(0, np.dtype(np.int64)) if k == self.axis else i
                            for k, i in enumerate(here)])
            entry = Call(op, (Read(sources[1], at_end), entry))
        elif self.fill.bits == fill.bits:
            return own
        operands = tuple([work.Operand(s.shape, s.dtype, s.fill, ((0,) * len(shape),))
                          for s in sources])
        return self.scheduler.task(int(self.layout.home[at]), partial(
            work.compute, Lambda(axes, entry), operands, fill, True),
            (own,) if before is None else (own, before), self._note(at), _flops(self.layout, at))

    def _fill_of_ends(self) -> Const:
        bulk = self.step.tensor
        return fill_of(Bulk(bulk.op, (Source(0, bulk.shape, bulk.dtype, self.fill),), bulk.params))


# -- rankings --------------------------------------------------------------------------------------
def _ranked(scheduler: Scheduler, step: AlongStep) -> Numbers:
    layout, numbers = scheduler.lies[step.operand]
    bulk, found = step.tensor, np.zeros(step.centre.shape, np.int64)
    operand = _source(bulk)
    drops = len(bulk.shape) < len(operand.shape)
    for rest, places in fibres(layout, step.axis):
        kept = []
        for at in places:
            box = layout.box(at)
            if not all(lo < hi for lo, hi in box):
                continue
            given = work.Operand(_extents(box), operand.dtype, operand.fill,
                                 ((0,) * len(box),))
            kept.append(scheduler.cell(int(layout.home[at]), partial(
                ranking.kept, bulk.op, bulk.params, given, tuple([lo for lo, _ in box]),
                operand.shape), (int(numbers[at]),), f"{step.name}, block {at}",
                _flops(layout, at)))
        found[rest] = scheduler.task(int(step.centre[rest]), partial(
            ranking.best, bulk.op, bulk.params, drops, bulk.dtype, scheduler.fills[step.name]),
            kept, f"{step.name}, block {rest}")
    return found.reshape(step.layout.grid)
