"""From the plan of a program over sites to tasks: each waits for the blocks that it needs alone."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.blocks.planning.along_cuts import AlongStep
from tensorel.blocks.planning.block_plan import AliasStep, BlockPlan, GridStep, WholeStep
from tensorel.blocks.planning.cells import NOWHERE, Copies
from tensorel.blocks.planning.streaming import AT_ONCE
from tensorel.blocks.steps.access import Loops
from tensorel.blocks.steps.layout import Box, Layout
from tensorel.config import Config
from tensorel.engines.sites import work
from tensorel.engines.sites.along import make_along
from tensorel.engines.sites.blocked import Blocked
from tensorel.engines.sites.cluster import Cluster, Shared, Task, size_of
from tensorel.engines.sites.fusing import fused
from tensorel.ir.nodes import Const, Source, Tensor, const
from tensorel.ir.replacing import replaced
from tensorel.storage.stored import Stored

Numbers = npt.NDArray[np.int64]


class Scheduler:
    """Makes the tasks of one plan. ``fills``: of the definitions, by name."""

    def __init__(self, cluster: Cluster, plan: BlockPlan, operands: Mapping[str, Stored | Blocked],
                 fills: Mapping[str, Const], config: Config) -> None:
        self.cluster, self.plan, self.fills = cluster, plan, fills
        self._config = replace(config, engine=None, check=False, threads=cluster.threads)
        self.tasks: list[Task] = []
        self._cells: set[int] = set()
        self._light: set[int] = set()
        self.made: list[int] = []  # all that this plan makes, results included
        self.lies: dict[str, tuple[Layout, Numbers]] = {}
        self._pieces: dict[tuple[int, Box, int], int] = {}
        self._sent: dict[tuple[int, int], list[tuple[Box, int]]] = {}  # of a block, to a site
        self._laid: dict[str, Blocked] = {}
        self._keeps = {name for name, data in operands.items() if isinstance(data, Blocked)
                       and not plan.streamed
                       and fits(plan.kept.get(name, ()), plan.inputs[name], cluster)}
        self._parts: dict[str, list[int]] = {name: [] for name in self._keeps}
        for name, data in operands.items():
            self._lay(name, data)
        for step in plan.steps:
            match step:
                case GridStep():
                    self._on_grid(step)
                case WholeStep():
                    self._at_one_site(step)
                case AlongStep():
                    self.lies[step.name] = step.layout, make_along(self, step)
                case AliasStep():
                    self.lies[step.name] = self.lies[step.of]

    def task(self, site: int, call: Any, needs: Sequence[int] = (), note: str = "",
             flops: float = 0.0, shared: tuple[Shared, ...] = (), light: bool = False) -> int:
        number = self.cluster.number()
        if light:
            self._light.add(number)
        call = partial(work.under, self._config, call)
        self.tasks.append(Task(number, site, call, tuple(needs), flops, note, shared))
        self.made.append(number)
        return number

    def cell(self, site: int, call: Any, needs: Sequence[int], note: str, flops: float) -> int:
        """A task that operands come into being for, and go after."""
        number = self.task(site, call, needs, note, flops)
        self._cells.add(number)
        return number

    # -- operands -------------------------------------------------------------------------------
    def _lay(self, name: str, data: Stored | Blocked) -> None:
        layout = self.plan.inputs[name]
        if isinstance(data, Blocked):
            self._laid[name] = data
            if data.numbers is not None:
                self.lies[name] = data.layout, data.numbers
                self._sent.update({k: list(found) for k, found in data.sent.items()})
                return
        numbers = np.zeros(layout.grid, np.int64)
        shared = (Shared(data.make),) if isinstance(data, Blocked) else ()
        for at in np.ndindex(layout.grid):
            box = layout.box(at)
            shape = tuple([hi - lo for lo, hi in box])
            if isinstance(data, Blocked):
                call: Any = partial(work.part_of, box, data.dtype, data.fill) if data.whole \
                    else _making(data, box, shape)
            else:
                whole = all(n == m for n, m in zip(shape, data.shape))
                block = work.with_fill(data, data.fill_const) if whole else \
                    work.under(self._config, work.cut, box, data)  # here, whatever engine is set
                self.cluster.count_driver(size_of(block))
                call = partial(work.given, block)
            site = int(layout.home[at])
            numbers[at] = self.task(site, call, (), f"block {at} of {name}", 0.0, shared)
        self.lies[name] = layout, numbers

    def in_order(self, wanted: Container[int]) -> list[Task]:
        """The tasks, each after those that it alone needs: what comes into being for one cell is
        used before what comes for the next. ``wanted``: results that are asked for."""
        tasks = {t.number: t for t in self.tasks}
        needed = {n for t in self.tasks for n in t.needs}
        found: dict[int, Task] = {}
        stack = [t.number for t in reversed(self.tasks) if t.number not in needed]
        while stack:
            n = stack[-1]
            missing = [m for m in tasks[n].needs if m in tasks and m not in found]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            found[n] = tasks[n]
        if self.plan.streamed:
            return self._paced(list(found.values()))
        return fused(list(found.values()), self._light, wanted)

    def _paced(self, tasks: Sequence[Task]) -> list[Task]:
        """What comes into being for a cell waits until the cell before the one before it is done:
        a site that waits for others does not go ahead."""
        done: dict[int, list[int]] = {}  # cells of each site, in order
        found = []
        for t in tasks:
            before = done.setdefault(t.site, [])
            if t.number in self._cells:
                before.append(t.number)
            elif not t.needs and len(before) >= AT_ONCE:
                t = replace(t, call=partial(work.after, t.call), needs=(before[-AT_ONCE],))
            found.append(t)
        return found

    @property
    def kept(self) -> list[int]:
        """What stays at the sites with the operands: their blocks, and parts of them."""
        fresh = [n for name, data in self._laid.items()
                 if data.numbers is None and not self.plan.streamed
                 for n in self.lies[name][1].ravel().tolist()]
        return [*fresh, *[n for parts in self._parts.values() for n in parts]]

    def own(self, numbers: Numbers) -> list[int]:
        """Which of these blocks the plan made, and nobody has."""
        made = set(self.made)
        return [n for n in numbers.ravel().tolist() if n in made]

    def settle(self) -> None:
        """All went well: operands that came into being belong to their tensors from now on, and
        parts of them that sites were sent."""
        owned = set(self.kept)
        for name, data in self._laid.items():
            layout, numbers = self.lies[name]
            own = set(numbers.ravel().tolist())
            if data.numbers is None:
                if self.plan.streamed:  # there is no room for them
                    continue
                data.lie(layout, numbers)
            if name in self._keeps:
                data.remember(self.plan.kept.get(name, ()), {
                    at: found for at, found in self._sent.items() if at[0] in own},
                    self._parts[name])
            else:
                data.forget()
        self.made = [n for n in self.made if n not in owned]

    # -- steps ----------------------------------------------------------------------------------
    def _piece(self, name: str, at: tuple[int, ...], part: Box, site: int) -> int:
        """A part of a block for a site: of what the site was sent before if it has it, else cut
        where the block lies."""
        layout, numbers = self.lies[name]
        number, home = int(numbers[at]), int(layout.home[at])
        if home != site:
            for known, other in self._sent.get((number, site), ()):
                if all(a <= lo and hi <= b for (lo, hi), (a, b) in zip(part, known)):
                    return self._cut(other, known, part, site, name)
        found = self._cut(number, layout.box(at), part, home, name)
        if home != site:
            if name in self._keeps and found != number:  # it stays where it was sent
                found = self.task(site, work.given, (found,), f"a part of {name}")
                self._parts[name].append(found)
            self._sent.setdefault((number, site), []).append((part, found))
        return found

    def _cut(self, number: int, box: Box, part: Box, site: int, name: str) -> int:
        """A part of what lies at a site."""
        if part == box:
            return number
        inside = tuple([(lo - low, hi - low) for (lo, hi), (low, _) in zip(part, box)])
        found = self._pieces.get((number, inside, site))
        if found is None:
            found = self._pieces[number, inside, site] = self.task(
                site, partial(work.cut, inside), (number,), f"a part of {name}", light=True)
        return found

    def _on_grid(self, step: GridStep) -> None:
        loops, placed = step.step.loops, step.placed
        own, layout = len(loops.axes), placed.layout
        parts = math.prod(placed.grid[own:])
        fill = self.fills[step.name]
        neutral = _identity(loops) if parts > 1 else None
        partials: dict[tuple[int, ...], list[tuple[int, int, Box]]] = {}
        read = [f.of(placed.cuts) for f in step.step.footprints]
        for c, at in enumerate(np.ndindex(*placed.grid)):
            ranges = [(int(e[k]), int(e[k + 1])) for e, k in zip(placed.cuts, at)]
            cell = dict(zip([a.name for a in loops.indices], ranges))
            site = placed.sites[c]
            if site == NOWHERE:
                continue
            boxes = [f.box(c) for f in read]
            operands, needs = self._operands(step, boxes, site)
            program = loops.over(cell, boxes)
            flops = placed.work
            call = partial(work.compute, program, operands, neutral or fill, neutral is None)
            number = self.cell(site, call, needs, f"{step.name}, cell {at}", flops)
            partials.setdefault(at[:own], []).append((number, site, loops.box(ranges)))
        numbers = np.zeros(layout.grid, np.int64)
        for found in partials.values():
            made = self._summed(step, found, neutral)
            for place, part in layout.overlapping(made[0][2]):
                numbers[place] = self._finished(step, made, part, int(layout.home[place]), neutral)
        for place in zip(*np.nonzero(numbers == 0)) if numbers.ndim else ():  # of no cell
            shape = tuple([hi - lo for lo, hi in layout.box(place)])
            numbers[place] = self.task(int(layout.home[place]), partial(
                work.finish, fill, shape, _identity(loops) if loops.op is not None else fill, None))
        self.lies[step.name] = layout, numbers

    def _summed(self, step: GridStep, made: Sequence[tuple[int, int, Box]], neutral: Const | None
                ) -> list[tuple[int, int, Box]]:
        """Partial results of one cell of the result, those of a site added up there."""
        sums: dict[int, tuple[int, int, Box]] = {}
        for number, site, box in made:
            if site in sums:
                op = step.step.loops.op
                assert op is not None and neutral is not None
                number = self.task(site, partial(work.add, op, neutral), (sums[site][0], number),
                                   f"{step.name}, block {box}")
            sums[site] = number, site, box
        return list(sums.values())

    def _finished(self, step: GridStep, made: Sequence[tuple[int, int, Box]], part: Box, home: int,
                  neutral: Const | None) -> int:
        """A block of the result, of the partial results that there are of it."""
        op, note = step.step.loops.op, f"{step.name}, block {part}"
        sums = []
        for number, site, box in made:
            if part != box:
                inside = tuple([(lo - low, hi - low) for (lo, hi), (low, _) in zip(part, box)])
                call = work.cut if neutral is None else work.cut_partial
                number = self.task(site, partial(call, inside), (number,), light=True)
            sums.append(number)
        total, *others = sums
        if neutral is None:
            return total
        assert op is not None
        for other in others:
            total = self.task(home, partial(work.add, op, neutral), (total, other), note)
        shape = tuple([hi - lo for lo, hi in part])
        return self.task(home, partial(work.finish, self.fills[step.name], shape, neutral),
                         (total,), note, light=True)

    def _operands(self, step: GridStep, boxes: Sequence[Box], site: int
                  ) -> tuple[tuple[work.Operand, ...], list[int]]:
        operands: list[work.Operand] = []
        needs: list[int] = []
        for name, source, box in zip(step.operands, step.step.loops.operands, boxes):
            offsets = []
            if all(lo < hi for lo, hi in box):
                for at, part in self.lies[name][0].overlapping(box):
                    needs.append(self._piece(name, at, part, site))
                    offsets.append(tuple([lo - low for (lo, _), (low, _) in zip(part, box)]))
            operands.append(work.Operand(tuple([hi - lo for lo, hi in box]), source.dtype,
                                         source.fill, tuple(offsets)))
        return tuple(operands), needs

    def _at_one_site(self, step: WholeStep) -> None:
        sources = step.tensor.args
        operands: list[work.Operand] = []
        needs: list[int] = []
        numbered: dict[Tensor, Tensor] = {}
        for k, (name, source) in enumerate(zip(step.operands, sources)):
            assert isinstance(source, Source)
            layout, numbers = self.lies[name]
            places = list(np.ndindex(layout.grid))
            needs += [int(numbers[at]) for at in places]
            offsets = tuple([tuple([lo for lo, _ in layout.box(at)]) for at in places])
            operands.append(work.Operand(source.shape, source.dtype, source.fill, offsets))
            numbered[source] = Source(k, source.shape, source.dtype, source.fill)
        program = replaced([step.tensor], numbered)[0]
        number = self.task(step.site, partial(
            work.compute, program, tuple(operands), self.fills[step.name], True), needs, step.name)
        self.lies[step.name] = step.layout, np.full(step.layout.grid, number, np.int64)

    # -- results --------------------------------------------------------------------------------
    def gathered(self, name: str, dtype: Any) -> Stored:
        """A result, brought to the driver block by block and put together there."""
        layout, numbers = self.lies[name]
        places = list(np.ndindex(layout.grid))
        offsets = tuple([tuple([lo for lo, _ in layout.box(at)]) for at in places])
        operand = work.Operand(layout.shape, dtype, self.fills[name], offsets)
        return work.together(operand, [self.cluster.fetched(int(numbers[at])) for at in places])

    def written(self, name: str, edges: Sequence[Numbers], put: Any, dtype: Any) -> list[int]:
        """Tasks that call ``put`` with the blocks of a result, cut so: each at the site that has
        most of it."""
        found = []
        layout = self.lies[name][0]
        for at in np.ndindex(*[len(e) - 1 for e in edges]):
            box = tuple([(int(e[k]), int(e[k + 1])) for e, k in zip(edges, at)])
            parts = layout.overlapping(box) if all(lo < hi for lo, hi in box) else []
            here = np.zeros(self.cluster.sites)
            for place, part in parts:
                here[layout.home[place]] += math.prod([hi - lo for lo, hi in part])
            site = int(here.argmax())
            needs = [self._piece(name, place, part, site) for place, part in parts]
            offsets = tuple([tuple([lo - low for (lo, _), (low, _) in zip(part, box)])
                             for _, part in parts])
            operand = work.Operand(tuple([hi - lo for lo, hi in box]), dtype, self.fills[name],
                                   offsets)
            found.append(self.task(site, partial(put, at, operand), needs,
                                   f"writing block {at}"))
        return found


def _making(data: Blocked, box: Box, shape: tuple[int, ...]) -> Any:
    """What makes a box of a tensor: one of its blocks, or several beside each other."""
    tiles = data.layout.overlapping(box)
    if len(tiles) == 1:
        return partial(work.made, tiles[0][0], shape, data.dtype, data.fill)
    offsets = [tuple([lo - low for (lo, _), (low, _) in zip(part, box)]) for _, part in tiles]
    shapes = [tuple([hi - lo for lo, hi in part]) for _, part in tiles]
    operand = work.Operand(shape, data.dtype, data.fill, tuple(offsets))
    return partial(work.made_together, operand, tuple(
        zip([key for key, _ in tiles], shapes)))


def _identity(loops: Loops) -> Const:
    """What a reduction over nothing gives."""
    assert loops.op is not None and loops.op.identity is not None
    dtype = loops.entry.dtype
    return const(loops.op.identity(dtype), dtype)


def fits(kept: Sequence[Copies], layout: Layout, cluster: Cluster) -> bool:
    """Whether the copies of a tensor may stay at the sites: they take a share of the memory that
    each has."""
    each = np.zeros(cluster.sites)
    for c in kept:
        each += (c.high - c.low).prod(axis=1) * c.there
    return float(each.max(initial=0)) * layout.density * layout.itemsize <= cluster.room_for_copies
