"""Loop orders by simulated cost: who leads, who is looked up, what is converted first."""

from __future__ import annotations

import itertools
import math

from tensorel.costs import Costs
from tensorel.ir.affine import split_affine
from tensorel.ir.nodes import Index, Read, Source
from tensorel.kernels.spec import Slot
from tensorel.kernels.support import Formula
from tensorel.records import dataclass, field
from tensorel.storage.format import Format
from tensorel.storage.levels import Level

MAX_PERMUTED = 5


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
    converted: bool = False


def operand(read: Read, levels: tuple[float, ...], count: float) -> Operand:
    """``levels``: number of nodes of each level of the operand's format."""
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    fmt = slot.format
    axes = tuple(read.indices[a] for a in fmt.order)
    nodes = (1.0, *levels)
    segments = tuple(nodes[k + 1] / max(nodes[k], 1.0) for k in range(fmt.rank))
    full = tuple(level.full for level in fmt.levels)
    findable = tuple(
        type(level).find is not Level.find or type(level).probe is not Level.probe
        for level in fmt.levels
    )
    lookup = type(fmt).lookup is not Format.lookup
    return Operand(read, axes, full, segments, findable, count, not fmt.is_dense, lookup)


def converted(o: Operand, order: tuple[str, ...], extents: dict[str, int]) -> Operand:
    """The operand stored again with its levels in loop order, all compressed."""
    axes = tuple(sorted(o.axes, key=lambda e: order.index(e.name)))  # type: ignore[attr-defined]
    segments, nodes, size = [], 1.0, 1.0
    for e in axes:
        size *= extents[e.name]  # type: ignore[attr-defined]
        here = min(size, o.count)
        segments.append(here / max(nodes, 1.0))
        nodes = max(here, 1.0)
    rank = len(axes)
    return Operand(o.read, axes, (False,) * rank, tuple(segments), (False,) * rank, o.count,
                   True, False, True)


@dataclass
class Simulation:
    """The cost of one loop order."""

    cost: float = 0.0
    cells: float = 1.0
    gallop: set[str] = field(default_factory=set)
    dense_loops: set[str] = field(default_factory=set)
    iterations: float = 1.0


def simulate(order: tuple[str, ...], operands: list[Operand], supports: dict[str, Formula],
             extents: dict[str, int], last_output: int, out_last: str | None,
             costs: Costs, limit: float = math.inf) -> Simulation:
    """Walk the loops as ``kernels.lower`` will and add up the work; infinite from ``limit`` on."""
    sim = Simulation()
    depth = dict.fromkeys((o.read for o in operands), 0)
    bound: set[str] = set()
    by_read = {o.read: o for o in operands}
    iters = 1.0
    if last_output < 0:
        sim.cells = 1.0
    for position, name in enumerate(order):
        extent = float(extents[name])
        candidates = [o for o in operands if _leads(o, depth[o.read], name, bound)]
        reads = {o.read for o in candidates}
        leaders = _cover(supports[name], reads, by_read, depth)
        innermost = position == len(order) - 1
        if leaders:
            per = min(sum(o.segments[depth[o.read]] for o in leaders), extent)
            rate = costs.step if len(leaders) == 1 else costs.merge_step
        else:
            per = extent
            inside = out_last if position <= last_output else None  # a sum stays in registers
            rate = _dense_rate(name, operands, innermost, inside, costs)
            sim.dense_loops.add(name)
        sim.cost += iters * (costs.enter + per * rate)
        keep = 1.0
        for o in candidates:
            if o in leaders:
                continue
            segment = o.segments[depth[o.read]]
            if o.findable[depth[o.read]] or o.whole_lookup:
                sim.cost += iters * per * costs.lookup
            elif segment > costs.gallop * per:
                slot = o.read.tensor.data.name  # type: ignore[attr-defined]
                sim.gallop.add(slot)
                sim.cost += iters * per * costs.search_step * math.log2(segment + 2.0)
            else:
                sim.cost += iters * (segment + per * costs.merge_step)
            if _required(supports[name], o.read):
                keep *= min(segment / max(extent, 1.0), 1.0)
        bound.add(name)
        visits = iters * per
        for o in operands:
            k = depth[o.read] + (o.read in reads)
            while k < len(o.axes) and _bound(o.axes[k], bound):
                if o.full[k] or o.findable[k]:
                    sim.cost += visits * (
                        costs.find if not innermost else costs.gather if leaders else 0.0)
                elif not o.whole_lookup:
                    sim.cost += visits * costs.search_step * math.log2(o.segments[k] + 2.0)
                    if _required(supports[name], o.read):
                        keep *= min(o.segments[k] / _extent(o, k), 1.0)
                k += 1
            depth[o.read] = k
        iters = visits * keep
        if position == last_output:
            sim.cells = iters
        if sim.cost >= limit:
            sim.cost = math.inf
            break
    sim.iterations = iters
    return sim


def _extent(o: Operand, k: int) -> float:
    axis = o.read.tensor.data.format.order[k] if not o.converted else k  # type: ignore[attr-defined]
    return max(float(o.read.tensor.shape[axis]), 1.0)


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


def _cover(f: Formula, reads: set[Read], by_read: dict[Read, Operand], depth: dict[Read, int]
           ) -> list[Operand]:
    def cost(group: list[Operand]) -> float:
        return sum(o.segments[depth[o.read]] for o in group)

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
    """A dense innermost loop over neighbouring elements is vectorized."""
    if not innermost:
        return costs.dense_step
    for o in operands:
        uses = [k for k, e in enumerate(o.axes) if name in e.free]  # type: ignore[attr-defined]
        if uses and (uses != [len(o.axes) - 1] or not o.full[-1]):
            return costs.step
    return costs.vector_step if out_last is None or out_last == name else costs.step


def orders(names: list[str], operands: list[Operand]) -> list[tuple[str, ...]]:
    """Candidate loop orders: all of them, or those that follow one operand's levels."""
    if len(names) <= MAX_PERMUTED:
        return list(itertools.permutations(names))
    found: dict[tuple[str, ...], None] = {tuple(names): None}
    for group in itertools.permutations(operands[:4]):
        order: list[str] = []
        for o in group:
            for e in o.axes:
                for n in sorted(e.free):  # type: ignore[attr-defined]
                    if n not in order:
                        order.append(n)
        found[(*order, *(n for n in names if n not in order))] = None
    improved: dict[tuple[str, ...], None] = dict(found)
    for order_ in found:
        for k in range(len(order_) - 1):
            swapped = list(order_)
            swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
            improved[tuple(swapped)] = None
    return list(improved)


def is_plain(read: Read) -> bool:
    """Each axis is read at an index of its own."""
    names = [i.name for i in read.indices if isinstance(i, Index)]
    return len(names) == len(read.indices) == len(set(names)) and isinstance(read.tensor, Source)
