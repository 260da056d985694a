"""What the loops of a nest cost under one order: walked as ``kernels.lowering`` will write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tensorel.base.records import dataclass, field
from tensorel.costs import Costs
from tensorel.ir.affine import split_affine
from tensorel.ir.given import estimate
from tensorel.ir.nodes import Read
from tensorel.kernels.lowering.bounded import Bounds
from tensorel.kernels.lowering.support import TRUE, Formula, conjunction, has, leads_alone, reaches
from tensorel.plan.loops.operands import Operand
from tensorel.plan.loops.side_by_side import dense_rate, lane_rate, lanes
from tensorel.stats.estimates.join_sampling import JoinSampler


@dataclass
class Simulation:
    """The cost of one loop order."""

    cost: float = 0.0
    cells: float = 1.0
    gallop: set[tuple[Read, int]] = field(default_factory=set)  # levels that are searched
    dense_loops: set[str] = field(default_factory=set)
    iterations: float = 1.0
    vectorized: bool = False  # the innermost loop, over neighbours in all operands

    @property
    def writes(self) -> float:
        """How often something is added to a result: sums over inner loops stay in registers, and
        nothing is added where they find nothing."""
        return min(self.cells, self.iterations)


class Wanted:
    """Where loops have to go, prepared for many of them. ``needed``: the reads that must have an
    entry; ``alone``: they are all that is asked. ``bounds``: what tests say of the
    index of the loop."""

    __slots__ = ("alone", "bounds", "formula", "needed")

    def __init__(self, formula: Formula, bounds: Bounds | None = None) -> None:
        self.formula, self.bounds = formula, bounds
        self.needed: dict[Read, None] = {}
        self.alone, stack = True, [formula]
        while stack:
            f = stack.pop()
            if f.kind == "has":
                self.needed[f.read] = None  # type: ignore[index]
            elif f.kind == "and":
                stack += reversed(f.parts)
            else:
                self.alone = False

    @property
    def where(self) -> Formula:
        """The formula with all that is needed."""
        return conjunction(list(map(has, self.needed))) if self.alone else self.formula

    def beside(self, reads: Iterable[Read]) -> Wanted:
        """Where these have entries too."""
        found = Wanted.__new__(Wanted)
        found.bounds = self.bounds
        found.needed = {**self.needed, **dict.fromkeys(reads)}
        found.alone = self.alone or self.formula.kind == "true"
        found.formula = self.formula if found.alone else conjunction(
            [self.formula, *map(has, reads)])
        return found

    def leaders(self, by_read: Mapping[Read, Operand], segments: Mapping[Operand, float]
                ) -> list[Operand]:
        """The operands whose lists together have all points, the shortest of these."""
        if not self.alone:
            return _cover(self.formula, by_read, segments)
        best: Operand | None = None
        for read in self.needed:
            o = by_read.get(read)
            if o is not None and (best is None or (o.marked, segments[o]) < (
                    best.marked, segments[best])):
                best = o
        return [] if best is None else [best]


EVERYWHERE = Wanted(TRUE)


def _cover(f: Formula, by_read: Mapping[Read, Operand], segments: Mapping[Operand, float]
           ) -> list[Operand]:
    def cost(group: list[Operand]) -> tuple[bool, float]:
        return any(o.marked for o in group), sum(segments[o] for o in group)

    def go(g: Formula) -> list[Operand] | None:
        if g.kind == "has":
            return [by_read[g.read]] if g.read in by_read else None  # type: ignore[index]
        if g.kind == "or":
            parts = [go(p) for p in g.parts]
            if any(p is None for p in parts):
                return None
            found: list[Operand] = []
            for p in parts:
                found += [o for o in p if o not in found]  # type: ignore[union-attr]
            return found
        if g.kind == "and":
            options = [p for p in map(go, g.parts) if p is not None]
            return min(options, key=cost) if options else None
        return None if g.kind == "true" else []

    return go(f) or []


class Met:
    """How many points have been visited, by sampling: those where all resolved matrices have
    entries. ``widths``: how many values were tried for each bound index; ``edges``: the resolved
    matrices, ``lead`` those before the last index was checked, as the sampler numbers them."""

    __slots__ = ("edges", "here", "lead", "sampler", "widths")

    def __init__(self, sampler: JoinSampler, widths: dict[str, float], edges: int,
                 here: float) -> None:
        self.sampler, self.widths, self.edges, self.here = sampler, widths, edges, here
        self.lead = edges

    def copy(self) -> Met:
        return Met(self.sampler, dict(self.widths), self.edges, self.here)

    def points(self, edges: int) -> float:
        found, names = self.sampler.size(edges)
        if len(names) < len(self.widths) or not names.issuperset(self.widths):
            for n, width in self.widths.items():
                if n not in names:
                    found *= width
        return found

    def length(self, edges: int) -> float:
        """How many values of the next index these matrices have at a visited point."""
        return self.points(self.edges | edges) / self.here if self.here > 0 else 0.0

    def bind(self, name: str, tried: float, lead: int) -> None:
        """An index is bound to the values that ``lead`` has, or to so many of all."""
        self.widths[name] = tried
        self.lead = self.edges | self.sampler.within(lead, self.widths) if lead else self.edges

    def searched(self, edges: int, name: str) -> float:
        """The length of a matrix's list in which an index that was bound before is searched."""
        before = self.points(self.lead)
        longer = self.sampler.renamed(edges, {name: ""})
        return self.points(self.lead | longer) / before if before > 0 else 0.0

    def resolve(self, resolved: int) -> float:
        """Which share of the values that were tried all resolved matrices have."""
        before = self.points(self.lead)
        self.edges |= resolved
        self.here = self.points(self.edges)
        return self.here / before if before > 0 else 0.0


@dataclass(eq=False)
class Fill:
    """A workspace as the simulation sees it: what fills it and under how many loops, and who
    reads it."""

    depth: int
    loops: tuple[str, ...]
    operands: list[Operand]
    support: Wanted
    readers: list[Operand]
    room: float = 0.0  # coordinates; none: a single value


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go: the place of the last loop over their cells, and the last axis of these.
    ``once``: no reduced loop stands outside of these."""

    depth: int
    axis: str | None
    once: bool = False


@estimate
def simulate(order: tuple[str, ...], operands: list[Operand], supports: Mapping[str, Wanted],
             extents: Mapping[str, int], target: Target, costs: Costs, limit: float = math.inf,
             fills: Sequence[Fill] = (), sampler: JoinSampler | None = None) -> Simulation:
    """Walk the loops and add up the work; infinite from ``limit`` on."""
    sim = Simulation()
    depth = dict.fromkeys(operands, 0)
    for f in fills:
        depth.update(dict.fromkeys(f.operands, 0))
    walk = _Loops(sim, extents, costs, depth,
                  None if sampler is None else Met(sampler, {}, 0, 1.0), order, supports)
    for o in depth:
        if o.fixed:
            walk.resolve(o, EVERYWHERE, 1.0, costs.find)  # before all loops
    for position, name in enumerate((*order, None)):
        for f in fills:
            if f.depth == position:
                walk.fill(f)
        if name is None:  # sums inside the last loop have been added
            break
        active = [*operands, *[o for f in fills if f.depth > position for o in f.operands]] \
            if fills else operands
        innermost = position == len(order) - 1
        within = target.axis if position <= target.depth else None  # a sum stays in registers
        rate = costs.dense_step
        if innermost:
            rate = lane_rate(name, operands, target.axis, costs) if walk.lanes > 1.0 \
                else dense_rate(name, operands, within, costs)
        walk.enter(name, active, supports[name], innermost, rate)
        if innermost:
            sim.vectorized = name in sim.dense_loops and rate < costs.dense_step
        if position == target.depth:
            sim.cells = walk.iters
            if name == target.axis and target.once and not innermost:
                walk.lanes = lanes(name, order[position + 1:], active, extents)
        if sim.cost >= limit:
            break
    if sim.cost >= limit:
        sim.cost = math.inf
    sim.iterations = walk.iters
    return sim


class _Loops:
    """Loops entered one after another: how far each operand is resolved, how often we are here."""

    __slots__ = (
        "bound", "costs", "depth", "extents", "iters", "lanes", "met", "order", "sim", "supports")

    def __init__(self, sim: Simulation, extents: Mapping[str, int], costs: Costs,
                 depth: dict[Operand, int], met: Met | None, order: tuple[str, ...],
                 supports: Mapping[str, Wanted]) -> None:
        self.sim, self.extents, self.costs, self.depth = sim, extents, costs, depth
        self.met, self.order, self.supports = met, order, supports
        self.bound: set[str] = set()
        self.iters = self.lanes = 1.0

    def fill(self, f: Fill) -> None:
        """The loops of a workspace, once for each time that we are here."""
        own = _Loops(self.sim, self.extents, self.costs, dict(self.depth),
                     None if self.met is None else self.met.copy(),
                     (*self.order, *f.loops),
                     {**self.supports, **dict.fromkeys(f.loops, f.support)})
        own.bound, own.iters = set(self.bound), self.iters
        for k, name in enumerate(f.loops):
            innermost = k == len(f.loops) - 1
            rate = dense_rate(name, f.operands, None, self.costs) \
                if innermost and f.room == 0.0 else self.costs.dense_step
            own.enter(name, f.operands, f.support, innermost, rate)
        if f.room == 0.0:
            return
        self.sim.cost += own.iters * self.costs.workspace_add
        points = own.iters / max(self.iters, 1e-9)
        for o in f.readers:
            o.segments = (-f.room * math.expm1(-points / f.room),)

    def enter(self, name: str, operands: list[Operand], support: Wanted, innermost: bool,
              dense_rate: float) -> None:
        sim, costs, depth, iters, met = self.sim, self.costs, self.depth, self.iters, self.met
        bound, extent = self.bound, float(self.extents[name])
        segments: dict[Operand, float] = {}
        by_read: dict[Read, Operand] = {}
        for o in operands:
            k = depth[o]
            if k < o.rank and not o.full[k] and (
                    o.names[k] == name or (not o.names[k] and self._leads(o, k, name))):
                by_read[o.read] = o
                segments[o] = met.length(o.edges) if met is not None and o.edges \
                    and k == o.rank - 1 else o.segments[k]
        leaders = support.leaders(by_read, segments) if by_read or not support.alone else []
        if leaders:
            per = min(sum([segments[o] for o in leaders]), extent)
            rate = costs.step if len(leaders) == 1 else costs.merge_step
        else:
            per, rate = extent, dense_rate
            if support.bounds is not None and bound:  # the outer loop goes through all
                per = support.bounds.share(bound, extent)
            sim.dense_loops.add(name)
        sim.cost += iters * (costs.enter + per * rate) / self.lanes
        keep = 1.0
        for o, segment in segments.items():
            if o in leaders:
                if o.runs:
                    sim.cost += iters * segment * (o.runs[depth[o]] - 1.0) * costs.dense_step
            elif o.whole_lookup and self._is_deferred(o, name):
                continue  # when all of its indices are bound
            else:
                self._follow(o, per, segment)
                if o.read in support.needed and not (met is not None and o.edges) \
                        and o.axes[depth[o]] is not o.sure:
                    keep *= min(segment / max(extent, 1.0), 1.0)
            depth[o] += 1
        bound.add(name)
        if met is not None:
            met.bind(name, per, leaders[0].edges if len(leaders) == 1 else 0)
        find, resolved = costs.find if not innermost else costs.gather if leaders else 0.0, 0
        for o in operands:
            k = depth[o]
            if k < o.rank and (o.names[k] in bound or not o.names[k]):
                keep *= self.resolve(o, support, iters * per, find)
                k = depth[o]
            if k == o.rank:
                resolved |= o.edges
        if met is not None:
            keep *= met.resolve(resolved)
        # Entries that never meet by chance may meet by nature: loops inside are paid for once.
        self.iters = max(iters * per * keep, min(iters * per, 1.0))

    def _leads(self, o: Operand, k: int, name: str) -> bool:
        """A level that is read at an affine index goes up with a loop."""
        e = o.axes[k]
        free = e.free  # type: ignore[attr-defined]
        if name not in free or not (free - {name}) <= self.bound:
            return False
        parts = split_affine(e, name)  # type: ignore[arg-type]
        return parts is not None and parts[0] > 0

    def _run(self, o: Operand) -> float:
        """Neighbouring entries of the next level that share a coordinate."""
        return o.runs[self.depth[o]] if o.runs else 1.0

    def _follow(self, o: Operand, per: float, segment: float) -> None:
        """An operand asked at each step of another."""
        sim, costs, k, run = self.sim, self.costs, self.depth[o], self._run(o)
        segment, halves = segment * run, 1.0 if run == 1.0 else 2.0
        if o.marked:
            sim.cost += self.iters * per * costs.workspace_find
        elif o.findable[k]:
            sim.cost += self.iters * per * costs.lookup
        elif segment > costs.gallop * per:
            sim.gallop.add((o.read, k))
            sim.cost += self.iters * per * halves * costs.search_step * math.log2(segment + 2.0)
        else:
            sim.cost += self.iters * (segment + per * costs.merge_step)

    def _is_deferred(self, o: Operand, now: str = "") -> bool:
        """As ``lowering.operand_reads`` decides: looked up when all of its indices are bound."""
        if self.depth[o]:
            return False
        bound = self.bound | {now}
        operands = {other.read: other for other in self.depth}

        def may_lead(read: Read, name: str, outside: frozenset[str]) -> bool:
            other = operands.get(read)
            if other is None:
                return False
            k = self.depth[other]
            if k == 0 and other.whole_lookup and other.axes[0].free <= bound:  # type: ignore[attr-defined]
                return False
            return reaches(zip(other.axes[k:], other.full[k:]), name, bound | outside)  # type: ignore[arg-type]

        return not leads_alone(o.read, {
            n: self.supports[n].where for n in self.order if n not in bound}, may_lead)

    def _look_up(self, o: Operand, support: Wanted, visits: float) -> float:
        """All levels at once."""
        self.sim.cost += visits * self.costs.lookup
        self.depth[o], keep = o.rank, 1.0
        if o.read in support.needed and not (self.met is not None and o.edges):
            for k, e in enumerate(o.axes):
                if e is not o.sure:
                    keep *= min(o.segments[k] / _extent(o, k), 1.0)
        return keep

    def resolve(self, o: Operand, support: Wanted, visits: float, find: float) -> float:
        """Levels whose index is bound now; which share of the points has them."""
        sim, costs, met, k, keep = self.sim, self.costs, self.met, self.depth[o], 1.0
        if k == 0 and o.whole_lookup:
            if all(e.free <= self.bound for e in o.axes):  # type: ignore[attr-defined]
                return self._look_up(o, support, visits)
            if self._is_deferred(o):
                return 1.0
        while k < len(o.axes) and o.axes[k].free <= self.bound:  # type: ignore[attr-defined]
            if o.full[k] or o.findable[k]:
                sim.cost += visits * find / self.lanes
            else:
                segment = o.segments[k]
                if met is not None and k and o.edges and not o.edges & (o.edges - 1):
                    segment = met.searched(o.edges, o.names[k])
                sim.cost += visits * costs.search_step * math.log2(segment + 2.0)
                if o.read in support.needed and not (met is not None and o.edges) \
                        and o.axes[k] is not o.sure:
                    keep *= min(o.segments[k] / _extent(o, k), 1.0) if o.here is None else o.here
            k += 1
        self.depth[o] = k
        return keep


def _extent(o: Operand, k: int) -> float:
    return max(float(o.read.tensor.shape[o.read.indices.index(o.axes[k])]), 1.0)
