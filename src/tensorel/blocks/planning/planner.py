"""The search for the plan of a program over sites.

Steps are planned in order. The cheapest plans so far are kept, several of them: a step that leaves
its result where a later one needs it may move more itself. Costs of a step depend on where its
operands lie, so plans that agree on that share them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.planning.along_cuts import (
    FLOPS_OF_FIBRES,
    along_cuts,
    can_run_along,
    seconds_at_one,
)
from tensorel.blocks.planning.block_plan import AliasStep, AnyStep, BlockPlan, GridStep, WholeStep
from tensorel.blocks.planning.cells import Copies, Placed, Rates, Step, Work
from tensorel.blocks.planning.coarsening import coarsened
from tensorel.blocks.planning.grids import MAX_TRIED, Placer
from tensorel.blocks.planning.streaming import Memory
from tensorel.blocks.planning.two_phase import Rival, by_lineage
from tensorel.blocks.steps.absent import vanishes
from tensorel.blocks.steps.access import Loops, loops_of
from tensorel.blocks.steps.fibres import Fibres, fibres_of
from tensorel.blocks.steps.footprints import Footprints
from tensorel.blocks.steps.layout import FREE, Layout, spread_over
from tensorel.blocks.steps.meeting import Filled, meeting_of
from tensorel.errors import MemoryLimitError
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Bulk, Lambda, Source
from tensorel.plan.definitions import (
    Definition,
    Program,
    Ref,
    inner_reductions,
    product_of,
)
from tensorel.storage.limits import show_bytes

MAX_PLANS = 12  # that are kept after each step
MAX_ALIKE = 3  # of them, with one choice for the step that costs most
MAX_ALTERNATIVES = 6  # grids of a step that each of them goes on with
MANY_SITES = 4096  # sites of all grids that are tried: with more sites there are fewer grids
MAX_COPIES = 4  # of a tensor, by the steps that made them, that are remembered
INDEX_BYTES = 4.0  # of the place of an entry that is stored

Held = tuple[Copies, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """The plan of the first steps. ``known``: where all lies that they read and made; ``copies``:
    what sites were sent of it."""

    steps: tuple[AnyStep, ...]
    known: Mapping[str, Layout]
    copies: Mapping[str, Held]
    seconds: float

    @property
    def dearest(self) -> tuple[str, tuple[int, ...]] | None:
        """The step that costs most, and its grid."""
        steps = [s for s in self.steps if isinstance(s, GridStep)]
        most = max(steps, key=lambda s: s.placed.seconds, default=None)
        return None if most is None else (most.name, most.placed.grid)

    def then(self, step: AnyStep, known: Mapping[str, Layout], copies: Mapping[str, Held],
             seconds: float) -> Partial:
        return Partial((*self.steps, step), {**self.known, **known}, {**self.copies, **copies},
                       self.seconds + seconds)


class Planner:
    """``layouts``: of the operands of the program, by their names; ``copies``: what sites have of
    them beside that; ``keep``: whether results stay at the sites."""

    def __init__(self, program: Program, layouts: Mapping[str, Layout], sites: int,
                 memory: int | None, planner: str, rates: Rates,
                 copies: Mapping[str, Held], keep: bool) -> None:
        self.planner, self.copies, self.keep = planner, dict(copies), keep
        self.program, self.layouts, self.sites = program, dict(layouts), sites
        self.memory, self.rates = math.inf if memory is None else memory, rates
        self.filled = {n: Filled(x.density, x.spread) for n, x in self.layouts.items()}
        self.steps = dict[str, Step]()
        for d in program.definitions:
            loops = _loops(d)
            if loops is not None:
                self.steps[d.name] = self._step(d, loops)
                self.filled[d.name] = self.steps[d.name].filled
            else:
                self.filled[d.name] = self.filled[name_of(d.tensor)] if isinstance(
                    d.tensor, Source) else Filled(self._stored(d)[1], None)
        self.rivals: dict[str, Rival] = {}
        self._tried: dict[tuple[object, ...], tuple[Placer, list[Placed]]] = {}

    def plan(self) -> BlockPlan:
        found = [Partial((), self.layouts, self.copies, 0.0)]
        for d in self.program.definitions:
            found = _kept([r for k, p in enumerate(found) for r in self._after(p, d, k > 2)])
        best = found[0]
        lost = None
        if self.planner != "grids":
            other = self._one_by_one(best)
            if other.seconds < best.seconds or self.planner == "lineage":
                best = other
            elif any(r.placed is not None for r in self.rivals.values()):
                lost = other
        steps, streamed = self._within_memory(best)
        inputs = self._inputs(best, steps, streamed)
        for step in self.steps.values():
            for prints in step.footprints:
                prints.forget()
        kept = {n: best.copies.get(n, ()) for n in self.layouts}
        return BlockPlan(steps, inputs, tuple(self.program.results), self.sites, kept,
                         self._verdict(lost), streamed)

    def _within_memory(self, best: Partial) -> tuple[tuple[AnyStep, ...], bool]:
        """The steps as they are if all fits, or in rounds, of operands that come and go."""
        if math.isinf(self.memory):
            return best.steps, False
        stays = [n for n, x in self.layouts.items() if x.pinned and (x.home != FREE).all()]
        memory = Memory(best.steps, best.known, list(self.layouts), stays, self.program.results,
                        self.keep, self.sites)
        if memory.whole().most <= self.memory:
            return best.steps, False
        steps, need = memory.rounds(self.memory)
        if need.most > self.memory:
            raise MemoryLimitError(
                f"{need.step} needs {show_bytes(int(need.most))} at a site; each may hold "
                f"{show_bytes(int(self.memory))}",
                needed=int(need.most), limit=int(self.memory), step=need.step,
                hint="use more sites, sites with more memory, or smaller blocks")
        return tuple(steps), True

    def _inputs(self, best: Partial, steps: Sequence[AnyStep], streamed: bool
                ) -> dict[str, Layout]:
        """Where the blocks of the operands lie. Those that come into being do so in fewer blocks,
        unless they are asked for as they are, come and go, or are to be placed one by one."""
        inputs = {n: best.known[n] for n in self.layouts}
        if streamed or self.planner == "lineage":
            return inputs
        asked = {s.of for s in steps if isinstance(s, AliasStep)}
        fresh = [n for n, x in self.layouts.items()
                 if x.pinned and n not in asked and (x.home == FREE).any()
                 and (inputs[n].home != FREE).all()]
        return coarsened(steps, inputs, fresh, self.rates, self.sites)

    def _after(self, plan: Partial, d: Definition, few: bool = False) -> list[Partial]:
        """The plan with one step more, in several ways; in ``few`` for those that are behind."""
        if d.name in self.steps:
            step = self.steps[d.name]
            found = [_with_step(plan, step, p) for p in self._best(plan, step, few)[1]]
            if math.isinf(self.memory):  # else fibres may come and go
                found += self._along_cuts(plan, d)
            return sorted(found, key=lambda p: p.seconds)
        if isinstance(d.tensor, Source):
            return [self._alias(plan, d.name, name_of(d.tensor))]
        found = [self._at_one_site(plan, d), *self._along_cuts(plan, d)]
        return sorted(found, key=lambda p: p.seconds)

    def _along_cuts(self, plan: Partial, d: Definition) -> list[Partial]:
        """The plan with an operator along an axis that is cut, if it can be run so."""
        strict = self.program.config.strict
        if not isinstance(d.tensor, Bulk) or not can_run_along(d.tensor, strict):
            return []
        name = name_of(d.tensor.args[0])
        found = along_cuts(d.name, d.tensor, name, plan.known[name], self._stored(d), self.sites,
                           self.rates, self.program.config.densify)
        return [] if found is None else [plan.then(
            found.step, {name: found.operand, d.name: found.step.layout}, {}, found.seconds)]

    def _alias(self, plan: Partial, name: str, of: str) -> Partial:
        layout = plan.known[of]
        if (layout.home == FREE).any():
            layout = spread_over(layout, self.sites)
        return plan.then(AliasStep(name, of), {of: layout, name: layout},
                         {name: plan.copies.get(of, ())}, 0.0)

    def _best(self, plan: Partial, step: Step, few: bool) -> tuple[Placer, list[Placed]]:
        """Ways to place a step, the cheapest first. They depend on where its operands lie."""
        layouts = [plan.known[n] for n in step.operands]
        had = [plan.copies.get(n, ()) for n in step.operands]
        key = (step.name, few, *map(id, layouts), *[id(c) for held in had for c in held])
        found = self._tried.get(key)
        if found is None:
            placer = Placer(step, layouts, had, self.sites, self.rates, self.memory)
            tried = max(min(MAX_TRIED, MANY_SITES // self.sites), MAX_TRIED // 4)
            placed = placer.best(MAX_TRIED // 4 if few else tried)[:MAX_ALTERNATIVES]
            found = self._tried[key] = placer, placed
        return found

    def _one_by_one(self, best: Partial) -> Partial:
        """The plan with join groups placed by themselves where that pays."""
        plan = Partial((), self.layouts, self.copies, 0.0)
        for d, chosen in zip(self.program.definitions, best.steps):
            if not isinstance(chosen, GridStep):
                plan = self._after(plan, d)[0]
                continue
            layouts = [plan.known[n] for n in chosen.operands]
            had = [plan.copies.get(n, ()) for n in chosen.operands]
            placer = Placer(chosen.step, layouts, had, self.sites, self.rates, self.memory)
            grid = placer.on(chosen.placed.grid)
            rival = by_lineage(placer, grid, self.planner == "lineage")
            self.rivals[chosen.name] = rival
            plan = _with_step(plan, chosen.step, rival.placed or grid)
        return plan

    def _verdict(self, lost: Partial | None) -> str:
        """Which planner won, and by how much. ``lost``: the plan by join groups, if it costs
        more."""
        if self.planner == "grids" or not self.rivals:
            return "algebraic"
        better = {n: r.gain for n, r in self.rivals.items() if r.placed is not None}
        if better and lost is None:
            gains = ", ".join(f"{n} {gain:.2f} times cheaper" for n, gain in better.items())
            return f"two-phase ({gains} than algebraic)"
        if better:
            return "algebraic (two-phase: later steps cost more than it saves)"
        name, rival = max(self.rivals.items(), key=lambda pair: pair[1].gain)
        if rival.why:
            return f"algebraic (two-phase not tried: {rival.why})"
        if not rival.gain:
            return "algebraic (two-phase: nothing to save)"
        return f"algebraic (two-phase: {1 / rival.gain:.2f} times its cost for {name})"

    # -- steps ----------------------------------------------------------------------------------
    def _step(self, d: Definition, loops: Loops) -> Step:
        names = tuple([name_of(s) for s in loops.operands])
        strict = self.program.config.strict
        itemsize, stored = self._stored(d)
        vanishing = tuple([isinstance(d.tensor, Lambda) and vanishes(
            loops, s, d.fill or fill_of(d.tensor)) for s in loops.operands])
        filled, meeting, density = Filled(stored, None), None, 1.0
        places = {a.name: k for k, a in enumerate(loops.indices)}
        if isinstance(loops, Fibres):
            density = min([self.filled[n].density for n in names], default=1.0)
            each = FLOPS_OF_FIBRES * max(loops.inner["r0"][1], 1)
        else:
            each = 2.0
            meeting = meeting_of(
                loops, {s: self.filled[n] for s, n in zip(loops.operands, names)}, strict)
        size = product_of(loops.indices)
        work = [Work(tuple(places.values()), each * density * size)]
        if meeting is not None:
            filled = meeting.filled
            itemsize = d.tensor.dtype.itemsize + (INDEX_BYTES if filled.density < 1.0 else 0.0)
            work = [Work(tuple(places.values()), meeting.work.total)]
            density = min(float(meeting.points.sum()) / max(size, 1.0), 1.0)
        for r in inner_reductions(loops.entry):
            mine = tuple(sorted([places[n] for n in r.free if n in places]))
            extents = [loops.indices[k].extent for k in mine]
            work.append(Work(mine, 2.0 * density * math.prod(extents) * product_of(r.axes)))
        return Step(d.name, loops, names, tuple([Footprints(loops, s) for s in loops.operands]),
                    tuple(work), itemsize, filled, strict,
                    tuple([v and not strict for v in vanishing]), meeting)

    def _stored(self, d: Definition) -> tuple[float, float]:
        """Bytes of an entry of a result with its place, and the share that is stored."""
        stats = self.program.stats.get(d.ref)
        if stats is None or stats.density > 0.5:
            return float(d.tensor.dtype.itemsize), 1.0
        return d.tensor.dtype.itemsize + INDEX_BYTES, stats.density

    def _at_one_site(self, plan: Partial, d: Definition) -> Partial:
        assert isinstance(d.tensor, Bulk)
        names = tuple([name_of(s) for s in d.tensor.args])
        here = np.zeros(self.sites)
        for n in names:
            here += plan.known[n].held(self.sites)
        site = int(here.argmax())
        itemsize, density = self._stored(d)
        layout = Layout(tuple([np.array([0, n]) for n in d.tensor.shape]),
                        np.full([1] * len(d.tensor.shape), site), itemsize, density)
        moved = float(here.sum() - here[site])
        step = WholeStep(d.name, d.tensor, site, names, layout, moved)
        settled = {n: _settled(plan.known[n], site) for n in names}
        seconds = moved * self.rates.byte
        if can_run_along(d.tensor, self.program.config.strict):
            first = plan.known[names[0]]
            seconds = seconds_at_one(first, moved, math.prod(first.shape) * first.density,
                                     self.rates)
        return plan.then(step, {**settled, d.name: layout}, {}, seconds)


def _loops(d: Definition) -> Loops | None:
    """The loops of a step; None where it is run whole, or is another name for a tensor."""
    if isinstance(d.tensor, Lambda):
        return loops_of(d.tensor)
    return fibres_of(d.tensor) if isinstance(d.tensor, Bulk) else None


def _kept(rivals: list[Partial]) -> list[Partial]:
    """The cheapest plans. Those that differ in the step that costs most are kept beside each other:
    what it costs may come back later."""
    alike = Counter[object]()
    found: list[Partial] = []
    for plan in sorted(rivals, key=lambda p: p.seconds):
        alike[plan.dearest] += 1
        if alike[plan.dearest] <= MAX_ALIKE:
            found.append(plan)
            if len(found) == MAX_PLANS:
                break
    return found


def _with_step(plan: Partial, step: Step, placed: Placed) -> Partial:
    known = {step.operands[k]: layout for k, layout in placed.homes.items()}
    copies = {step.operands[k]: (*plan.copies.get(step.operands[k], ()), c)[-MAX_COPIES:]
              for k, c in placed.copies.items()}
    return plan.then(GridStep(step, placed), {**known, step.name: placed.layout}, copies,
                     placed.seconds)


def _settled(layout: Layout, site: int) -> Layout:
    home = np.where(layout.home < 0, site, layout.home)
    return replace(layout, home=home, pinned=True)


def name_of(source: object) -> str:
    """By which name a step reads a slot or an earlier definition."""
    data = source.data if isinstance(source, Source) else source
    return data.name if isinstance(data, Ref) else str(getattr(data, "name", data))


def plan_blocks(program: Program, layouts: Mapping[str, Layout], sites: int,
                memory: int | None = None, planner: str = "both", rates: Rates | None = None,
                copies: Mapping[str, Held] | None = None, keep: bool = True) -> BlockPlan:
    """The plan of a program whose operands lie as ``layouts`` say. ``memory``: bytes that a site
    may hold. ``planner``: "grids", "lineage" or "both", as it pays. ``rates``: of the machines.
    ``copies``: what sites have of the operands beside the blocks that lie there, from earlier
    programs. ``keep``: whether results stay at the sites."""
    return Planner(program, layouts, sites, memory, planner, rates or Rates(),
                   copies or {}, keep).plan()
