"""Loop orders by simulated cost: who leads, who is looked up, what is converted first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tensorel.costs import Costs
from tensorel.ir.affine import split_affine
from tensorel.ir.nodes import Index, Read, Source
from tensorel.kernels.spec import Slot
from tensorel.kernels.support import Formula
from tensorel.records import dataclass, field
from tensorel.stats.pilot import Edge, Pilot
from tensorel.storage.format import Format
from tensorel.storage.levels import Level

MAX_PERMUTED, HURRIED_PERMUTED = 5, 3


@dataclass(eq=False)
class Operand:
    """A read as the simulation sees it: its levels with average segment lengths."""

    read: Read
    axes: tuple[object, ...]  # index expression per level
    full: tuple[bool, ...]
    segments: tuple[float, ...]
    findable: tuple[bool, ...]
    count: float
    sparse: bool
    whole_lookup: bool
    marked: bool = False  # a workspace
    edges: frozenset[Edge] = frozenset()  # stored matrices that it has the entries of
    runs: tuple[float, ...] = ()  # entries that a walk over a level passes for each coordinate


#: An operand that is stored again first, and the order of indices that its levels have then.
Turn = tuple[Operand, tuple[str, ...]]


def operand(read: Read, levels: tuple[float, ...], count: float, fmt: Format | None = None
            ) -> Operand:
    """``levels``: number of nodes of each level of the operand's format, or of ``fmt``."""
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    fmt = fmt or slot.format
    axes = tuple(read.indices[a] for a in fmt.order)
    nodes = (1.0, *levels)
    segments = tuple(nodes[k + 1] / max(nodes[k], 1.0) for k in range(fmt.rank))
    full = tuple(level.full for level in fmt.levels)
    direct = tuple(findable(level) for level in fmt.levels)
    lookup = type(fmt).lookup is not Format.lookup
    runs = tuple(count / max(n, 1.0) if getattr(level, "runs", False) else 1.0
                 for level, n in zip(fmt.levels, levels))
    return Operand(read, axes, full, segments, direct, count, not fmt.is_dense, lookup, runs=runs)


def findable(level: Level) -> bool:
    """A coordinate is found without walking or searching."""
    return type(level).find is not Level.find or type(level).probe is not Level.probe


def converted(o: Operand, order: tuple[str, ...], extents: dict[str, int]) -> Operand:
    """The operand stored again with its levels in loop order, all compressed."""
    axes = tuple(sorted(o.axes, key=lambda e: order.index(along(e))))
    segments, nodes, size = [], 1.0, 1.0
    for e in axes:
        size *= extents[along(e)]
        here = min(size, o.count)
        segments.append(here / max(nodes, 1.0))
        nodes = max(here, 1.0)
    rank = len(axes)
    return Operand(o.read, axes, (False,) * rank, tuple(segments), (False,) * rank, o.count,
                   True, False, edges=o.edges)


@dataclass
class Simulation:
    """The cost of one loop order."""

    cost: float = 0.0
    cells: float = 1.0
    gallop: set[tuple[Read, int]] = field(default_factory=set)  # levels that are searched
    dense_loops: set[str] = field(default_factory=set)
    iterations: float = 1.0


class Met:
    """How many points have been visited, by a pilot: those where all resolved matrices have
    entries. ``widths``: how many values were tried for each bound index."""

    def __init__(self, pilot: Pilot, widths: dict[str, float],
                 edges: frozenset[Edge] = frozenset()) -> None:
        self.pilot, self.widths, self.edges = pilot, widths, edges
        self.lead = edges

    def copy(self) -> Met:
        return Met(self.pilot, dict(self.widths), self.edges)

    def points(self, edges: frozenset[Edge]) -> float:
        found, names = self.pilot.size(edges)
        for n, width in self.widths.items():
            if n not in names:
                found *= width
        return found

    def length(self, name: str, edges: frozenset[Edge]) -> float:
        """How many values of an index these matrices have at a visited point."""
        before = self.points(self.edges)
        self.widths[name] = 1.0
        found = self.points(self.edges | edges) / before if before > 0 else 0.0
        del self.widths[name]
        return found

    def bind(self, name: str, tried: float, lead: frozenset[Edge]) -> None:
        """An index is bound to the values that ``lead`` has, or to so many of all."""
        self.widths[name] = tried
        self.lead = self.edges.union(
            [e for e in lead if e[1] in self.widths and e[2] in self.widths])

    def searched(self, edges: frozenset[Edge], name: str) -> float:
        """The length of a matrix's list in which an index that was bound before is searched."""
        before = self.points(self.lead)
        longer = {(r, "" if a == name else a, "" if b == name else b) for r, a, b in edges}
        return self.points(self.lead | longer) / before if before > 0 else 0.0

    def resolve(self, resolved: Sequence[frozenset[Edge]]) -> float:
        """Which share of the values that were tried all resolved matrices have."""
        before = self.points(self.lead)
        self.edges = self.edges.union(*resolved)
        return self.points(self.edges) / before if before > 0 else 0.0


@dataclass(eq=False)
class Fill:
    """A workspace as the simulation sees it: what fills it and under how many loops, and who
    reads it."""

    depth: int
    loops: tuple[str, ...]
    operands: list[Operand]
    support: Formula
    readers: list[Operand]
    room: float = 0.0  # coordinates; none: a single value


def simulate(order: tuple[str, ...], operands: list[Operand], supports: dict[str, Formula],
             extents: dict[str, int], last_output: int, out_last: str | None,
             costs: Costs, limit: float = math.inf, fills: Sequence[Fill] = (),
             pilot: Pilot | None = None) -> Simulation:
    """Walk the loops as ``kernels.lower`` will and add up the work; infinite from ``limit`` on."""
    sim = Simulation()
    inside = [o for f in fills for o in f.operands]
    walk = _Loops(sim, extents, costs, dict.fromkeys((o.read for o in (*operands, *inside)), 0),
                  None if pilot is None else Met(pilot, {}))
    for position, name in enumerate((*order, None)):
        for f in fills:
            if f.depth == position:
                walk.fill(f)
        if name is None:  # sums inside the last loop have been added
            break
        active = [*operands, *(o for f in fills if f.depth > position for o in f.operands)]
        innermost = position == len(order) - 1
        within = out_last if position <= last_output else None  # a sum stays in registers
        rate = _dense_rate(name, operands, innermost, within, costs)
        walk.enter(name, active, supports[name], innermost, rate)
        if position == last_output:
            sim.cells = walk.iters
        if sim.cost >= limit:
            break
    if sim.cost >= limit:
        sim.cost = math.inf
    sim.iterations = walk.iters
    return sim


class _Loops:
    """Loops entered one after another: how far each read is resolved, how often we are here."""

    def __init__(self, sim: Simulation, extents: dict[str, int], costs: Costs,
                 depth: dict[Read, int], met: Met | None) -> None:
        self.sim, self.extents, self.costs, self.depth = sim, extents, costs, depth
        self.met = met
        self.bound: set[str] = set()
        self.iters = 1.0

    def fill(self, f: Fill) -> None:
        """The loops of a workspace, once for each time that we are here."""
        own = _Loops(self.sim, self.extents, self.costs, dict(self.depth),
                     None if self.met is None else self.met.copy())
        own.bound, own.iters = set(self.bound), self.iters
        for k, name in enumerate(f.loops):
            innermost = k == len(f.loops) - 1
            own.enter(name, f.operands, f.support, innermost, self.costs.dense_step)
        if f.room == 0.0:
            return
        self.sim.cost += own.iters * self.costs.workspace_add
        points = own.iters / max(self.iters, 1e-9)
        for o in f.readers:
            o.segments = (-f.room * math.expm1(-points / f.room),)

    def enter(self, name: str, operands: list[Operand], support: Formula, innermost: bool,
              dense_rate: float) -> None:
        sim, costs, depth, iters = self.sim, self.costs, self.depth, self.iters
        extent = float(self.extents[name])
        candidates = [o for o in operands if _leads(o, depth[o.read], name, self.bound)]
        by_read = {o.read: o for o in candidates}
        segments = {o: self._segment(o, name) for o in candidates}
        leaders = _cover(support, set(by_read), by_read, segments)
        if leaders:
            per = min(sum(segments[o] for o in leaders), extent)
            rate = costs.step if len(leaders) == 1 else costs.merge_step
        else:
            per, rate = extent, dense_rate
            sim.dense_loops.add(name)
        sim.cost += iters * (costs.enter + per * rate)
        for o in leaders:
            sim.cost += iters * segments[o] * (self._run(o) - 1.0) * costs.dense_step
        keep = 1.0
        for o in candidates:
            if o not in leaders:
                self._follow(o, per, segments[o])
                if _required(support, o.read) and not self._is_met(o):
                    keep *= min(segments[o] / max(extent, 1.0), 1.0)
        self.bound.add(name)
        for o in candidates:
            depth[o.read] += 1
        if self.met is not None:
            self.met.bind(name, per, leaders[0].edges if len(leaders) == 1 else frozenset())
        for o in operands:
            keep *= self._resolve(o, support, iters * per,
                                  costs.find if not innermost else costs.gather if leaders else 0.0)
        if self.met is not None:
            keep *= self.met.resolve([o.edges for o in operands if depth[o.read] == len(o.axes)])
        self.iters = iters * per * keep

    def _is_met(self, o: Operand) -> bool:
        """The pilot knows which points have it."""
        return self.met is not None and bool(o.edges)

    def _segment(self, o: Operand, name: str) -> float:
        """The length of an operand's list for an index that is bound next."""
        k = self.depth[o.read]
        if self.met is not None and o.edges and k == len(o.axes) - 1:
            return self.met.length(name, o.edges)
        return o.segments[k]

    def _run(self, o: Operand) -> float:
        """Neighbouring entries of the next level that share a coordinate."""
        return o.runs[self.depth[o.read]] if o.runs else 1.0

    def _follow(self, o: Operand, per: float, segment: float) -> None:
        """An operand asked at each step of another."""
        sim, costs, k = self.sim, self.costs, self.depth[o.read]
        run = self._run(o)
        segment, halves = segment * run, 1.0 if run == 1.0 else 2.0
        if o.marked:
            sim.cost += self.iters * per * costs.workspace_find
        elif o.findable[k] or o.whole_lookup:
            sim.cost += self.iters * per * costs.lookup
        elif segment > costs.gallop * per:
            sim.gallop.add((o.read, k))
            sim.cost += self.iters * per * halves * costs.search_step * math.log2(segment + 2.0)
        else:
            sim.cost += self.iters * (segment + per * costs.merge_step)

    def _resolve(self, o: Operand, support: Formula, visits: float, find: float) -> float:
        """Levels whose index is bound now; which share of the points has them."""
        sim, costs, k, keep = self.sim, self.costs, self.depth[o.read], 1.0
        while k < len(o.axes) and _bound(o.axes[k], self.bound):
            if o.full[k] or o.findable[k]:
                sim.cost += visits * find
            elif not o.whole_lookup:
                segment = o.segments[k] if self.met is None or len(o.edges) != 1 or not k \
                    else self.met.searched(o.edges, o.axes[k].name)  # type: ignore[attr-defined]
                sim.cost += visits * costs.search_step * math.log2(segment + 2.0)
                if _required(support, o.read) and not self._is_met(o):
                    keep *= min(o.segments[k] / _extent(o, k), 1.0)
            k += 1
        self.depth[o.read] = k
        return keep


def _extent(o: Operand, k: int) -> float:
    return max(float(o.read.tensor.shape[o.read.indices.index(o.axes[k])]), 1.0)


def _bound(e: object, bound: set[str]) -> bool:
    return e.free <= bound  # type: ignore[attr-defined,no-any-return]


def _leads(o: Operand, k: int, name: str, bound: set[str]) -> bool:
    if k >= len(o.axes) or o.full[k]:
        return False
    e = o.axes[k]
    if isinstance(e, Index):
        return e.name == name
    free = e.free  # type: ignore[attr-defined]
    if name not in free or not (free - {name}) <= bound:
        return False
    parts = split_affine(e, name)  # type: ignore[arg-type]
    return parts is not None and parts[0] > 0


def _cover(f: Formula, reads: set[Read], by_read: dict[Read, Operand],
           segments: dict[Operand, float]) -> list[Operand]:
    def cost(group: list[Operand]) -> tuple[bool, float]:
        return any(o.marked for o in group), sum(segments[o] for o in group)

    def go(g: Formula) -> list[Operand] | None:
        if g.kind == "has":
            return [by_read[g.read]] if g.read in reads else None
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


def _required(f: Formula, read: Read) -> bool:
    if f.kind == "has":
        return f.read is read
    return f.kind == "and" and any(_required(p, read) for p in f.parts)


def _dense_rate(name: str, operands: list[Operand], innermost: bool, out_last: str | None,
                costs: Costs) -> float:
    """A dense innermost loop over neighbouring elements is vectorized; each operand is read."""
    if not innermost:
        return costs.dense_step
    near, number = out_last is None or out_last == name, 0
    for o in operands:
        uses = [k for k, e in enumerate(o.axes) if name in e.free]  # type: ignore[attr-defined]
        number += bool(uses)
        if uses and (uses != [len(o.axes) - 1] or not o.full[-1]):
            near = False
    if near:
        return costs.vector_step * max(number, 1)
    return costs.dense_step + costs.gather * number


def orders(names: list[str], operands: list[Operand], hurried: bool = False
           ) -> list[tuple[str, ...]]:
    """Candidate loop orders: all of them, or those that follow one operand's levels."""
    if len(names) <= (HURRIED_PERMUTED if hurried else MAX_PERMUTED):
        return list(itertools.permutations(names))
    found: dict[tuple[str, ...], None] = {tuple(names): None}
    for group in itertools.permutations(operands[: 2 if hurried else 4]):
        order: list[str] = []
        for o in group:
            for e in o.axes:
                for n in sorted(e.free):  # type: ignore[attr-defined]
                    if n not in order and n in names:  # others are bound inside the body
                        order.append(n)
        found[(*order, *(n for n in names if n not in order))] = None
    improved: dict[tuple[str, ...], None] = dict(found)
    for order_ in found:
        for k in range(len(order_) - 1):
            swapped = list(order_)
            swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
            improved[tuple(swapped)] = None
    return list(improved)


def along(e: object) -> str:
    """The one index that an axis is read along, upwards; empty if there is none such."""
    if isinstance(e, Index):
        return e.name
    free = e.free  # type: ignore[attr-defined]
    parts = split_affine(e, *free) if len(free) == 1 else None  # type: ignore[arg-type]
    return next(iter(free)) if parts is not None and parts[0] > 0 else ""


def is_turnable(read: Read) -> bool:
    """Each axis is read along an index of its own: stored in another order, it can lead there."""
    names = [along(i) for i in read.indices]
    return all(names) and len(names) == len(set(names)) and isinstance(read.tensor, Source)


def is_plain(read: Read) -> bool:
    """Each axis is read at an index of its own."""
    names = [i.name for i in read.indices if isinstance(i, Index)]
    return len(names) == len(read.indices) == len(set(names)) and isinstance(read.tensor, Source)
