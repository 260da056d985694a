"""The cheapest loop order, output and conversions for one aggregate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tensorel.algebra import ops
from tensorel.base.records import cached_property
from tensorel.ir.nodes import Call, Expr, Read, Source, const, is_same_literal, postorder, reads_in
from tensorel.kernels.lowering.bounded import NOTHING, Bounds, bounds_in
from tensorel.kernels.lowering.collapse import flat_level
from tensorel.kernels.lowering.nest import Assembly
from tensorel.kernels.lowering.support import Formula
from tensorel.plan.decisions import Option
from tensorel.plan.definitions import distributing, factors_of
from tensorel.plan.loops.equal_orders import alike
from tensorel.plan.loops.fuse import Fused, fusions, pointwise_fusions
from tensorel.plan.loops.hoisted_joins import Hoisted, Hoisting, Joined, outer_reads, simulated
from tensorel.plan.loops.operands import (
    MAX_PERMUTED_LOOPS,
    Operand,
    Turn,
    along,
    converted,
    is_plain,
    is_turnable,
    orders,
)
from tensorel.plan.loops.outputs import Choice, Outputs
from tensorel.plan.loops.simulate import Simulation, Target, Wanted, simulate
from tensorel.stats.estimates.join_sampling import JoinSampler, is_worthwhile

MIN_LENGTH_RATIO = 8.0  # lists of this ratio to those the other way round are worth a look


class NoLoops(Exception):
    """No order of loops can use up the definitions that it was asked to."""


class NestSearch(Outputs):
    """Tries loop orders, with and without converting operands that do not follow them.
    ``fused``: definitions that the body reads and that are not stored; there may be no loops for
    them that cost less than ``below``."""

    fused: Mapping[Source, Fused] = MappingProxyType({})
    below = math.inf
    least, visits = math.inf, math.inf  # of the loops that were tried: their cost, their points

    def _orders(self) -> list[tuple[str, ...]]:
        """Loop orders; the reduced indices of sums whose order shows stay as they were written."""
        found = orders(list(self.extents), self.operands, self.chooser.brief, self.chooser.hurried)
        if len(self.extents) > MAX_PERMUTED_LOOPS and not any(o.sparse for o in self.operands):
            found += [c for o in found[: len(self.operands) + 1] if (c := (
                *self.names, *[n for n in o if n in self.reduced])) not in found]
        if not self.sequential:
            return found
        wanted = [n for n in self.extents if n in self.reduced]
        return [o for o in found if [n for n in o if n in self.reduced] == wanted]

    def best(self, name: str) -> Choice:
        supports = self._wanted()
        self.times = None if self.op is None else distributing(self.op, self.body)
        self.factors = [] if self.times is None else factors_of(self.body, self.times)
        self.slow = sum(isinstance(e, Call) and e.op.slow for e in postorder(self.body))
        self.joined = None if self.times is None or not self._may_hoist() else Joined(
            self.factors, self.times, self.extents)
        self.early: dict[tuple[str, ...], Hoisting] = {}
        self.outer = set(outer_reads(self.body)) if self.joined is not None else set()
        self.sampler = self._join_sampler()
        oriented = self.sampler is not None and self.sampler.oriented
        self.alike = None if self.fused or self.bounds or oriented \
            else alike(self.extents, supports, self.operands,
                       () if self.joined is None else self.joined.reads)
        self.turnable = [o for o in self.operands if o.sparse and is_turnable(o.read)
                         and all(along(e) in self.extents for e in o.axes)]
        self.turned: dict[Turn, Operand] = {}
        self.turns: dict[Turn, float] = {}
        self.made: dict[Read, Operand] = {}
        self.inside: dict[Expr, list[Read]] = {}
        decisions = self.chooser.program.decisions
        if decisions.listing and self.fused and not any(
                self._choices(order, [], supports, math.inf) for order in self._orders()):
            raise NoLoops
        if decisions.listing:
            return decisions.decide_among("loops", name, lambda: [
                Option(c.cost, c, _words(c)) for order, converts in self._ways()
                for c in map(_written, self._choices(order, converts, supports, math.inf))])
        best: Choice | None = None
        limit = self.below
        for order, converts in self._ways():
            for choice in self._choices(order, converts, supports, limit):
                if best is None or choice.cost < best.cost:
                    best, limit = choice, min(choice.cost, limit)
        if best is None and self.fused:
            raise NoLoops
        assert best is not None
        return _written(best)

    def _join_sampler(self) -> JoinSampler | None:
        """Where stored matrices that every point has to be an entry of close a cycle, sizes
        inside the loops come from a sample of their entries."""
        needed = [f.read for f in (self.support.parts if self.support.kind == "and" else ())]
        edges = {}
        for o in self.operands:
            if o.read in needed and len(o.axes) == 2 and is_plain(o.read):
                known = self.chooser.known_of(o.read.tensor)  # type: ignore[arg-type]
                rows = None if known.rows is None else known.rows()
                if rows is not None:
                    a, b = o.read.indices
                    edges[o] = rows, a.name, b.name  # type: ignore[attr-defined]
        if not is_worthwhile(edges.values()):
            return None
        sampler = JoinSampler()
        for o, e in edges.items():
            o.edges = sampler.mask([e])
        return sampler

    def _wanted(self) -> dict[str, Wanted]:
        """Where each loop has to go."""
        made: dict[Formula, Wanted] = {}
        return {n: Wanted(f, self.bounds[n]) if n in self.bounds else made.setdefault(f, Wanted(f))
                for n, f in self.supports().items()}

    def _ways(self) -> Iterator[tuple[tuple[str, ...], list[Turn]]]:
        """Orders of loops, with what is stored again first: nothing; all sparse operands whose
        levels do not follow the loops; last, matrices that follow and are searched in long lists,
        where they would be found in short ones. Which these are is known when all else was
        looked at."""
        self.searched: dict[tuple[str, ...], list[Operand]] = {}
        orders = self._orders()
        for order in orders:
            yield order, []
            if not self._converts_itself:
                place = _places(order)
                wrong = [(o, order) for o in self.turnable if not o.follows(place)]
                if wrong:
                    yield order, wrong
        for order, found in self.searched.items():
            yield order, [(o, order[::-1]) for o in found]

    @property
    def _converts_itself(self) -> bool:
        """That is the conversion, or workspaces have their own."""
        return bool(self.fused) or (self.op is None and isinstance(self.body, Read))

    def _note_searched(self, order: tuple[str, ...], sim: Simulation) -> None:
        """Matrices whose inner lists were searched though they follow the loops, and have many
        times shorter ones the other way round."""
        reads, place = {read for read, level in sim.gallop if level}, _places(order)
        found = [o for o in self.operands if o.read in reads and len(o.axes) == 2 and o.sparse
                 and is_plain(o.read) and o.follows(place)
                 and o.segments[1] * self.extents[o.names[1]] > MIN_LENGTH_RATIO * o.count]
        if found and not self._converts_itself:
            self.searched[order] = found

    def _turned(self, o: Operand, levels: tuple[str, ...]) -> Operand:
        """An operand stored again with its levels in an order."""
        key = self._levels(o, levels)
        if key not in self.turned:
            self.turned[key] = self.chooser.turned(o, levels) \
                if o.follows(_places(levels[::-1])) else converted(o, levels, self.extents)
        return self.turned[key]

    def _turning(self, o: Operand, levels: tuple[str, ...]) -> float:
        """The cost of that."""
        key = self._levels(o, levels)
        if key not in self.turns:
            self.turns[key] = self.chooser.conversion_cost(o, levels)
        return self.turns[key]

    def _levels(self, o: Operand, levels: tuple[str, ...]) -> Turn:
        return o, tuple(sorted([n or along(e) for n, e in zip(o.names, o.axes)], key=levels.index))

    def _choices(self, order: tuple[str, ...], converts: list[Turn],
                 supports: dict[str, Wanted], limit: float) -> list[Choice]:
        """The ways to assemble the result under an order, if some may cost less than
        ``limit``."""
        if self.fused:
            return self._fused(order, limit)
        first = sum([self._turning(o, levels) for o, levels in converts])
        if first >= limit:
            return []
        turned = {o: self._turned(o, levels) for o, levels in converts}
        ops_ = [turned.get(o, o) for o in self.operands] if turned else self.operands
        last = max((k for k, n in enumerate(order) if n not in self.reduced), default=-1)
        end = self.names[-1] if self.names else None
        key = () if self.alike is None else self.alike.key(order, last, end, ops_)
        if self.alike is not None and self.alike.least.get(key, 0.0) + first >= limit:
            return []
        sim = self._flat(order) if last < 0 and not converts else None
        if sim is None:
            once = self.reduced.isdisjoint(order[: last + 1])
            sim = simulate(order, ops_, supports, self.extents, Target(last, end, once), self.costs,
                           limit - first, sampler=self.sampler)
            if sim.gallop and not converts:
                self._note_searched(order, sim)
        found, least = self._assembled(order, last, sim, converts, first, sim.cost, limit), sim.cost
        hoisted = self._hoisted(order)
        if hoisted is not None:
            room = hoisted.bytes_() / 8.0 * self.costs.workspace_room
            main, fills, must = hoisted.simulated({o.read: o for o in ops_ if o.read in self.outer})
            wanted = self.bare.beside(must)
            sim = simulate(order, main, dict.fromkeys(order, wanted), self.extents,
                           Target(last, end), self.costs, limit - first - room, fills,
                           self.sampler)
            least = min(least, sim.cost + room)
            early = [c for c in self._assembled(
                order, last, sim, converts, first, sim.cost + room, limit)
                if c.output.assembly is not Assembly.SHARED]
            found += [replace(c, early=hoisted) for c in early]
        if self.alike is not None and (hoisted is None or hoisted.is_least):
            self.alike.least.setdefault(key, min(least, limit - first))
        return found

    def _assembled(self, order: tuple[str, ...], last: int, sim: Simulation,
                   converts: list[Turn], first: float, cost: float, limit: float
                   ) -> list[Choice]:
        """``first``: the cost of conversions, ``cost`` of the loops."""
        cost += sim.iterations * self.slow * self.costs.function
        if cost + first < math.inf:
            self.least, self.visits = min(self.least, cost + first), min(
                self.visits, sim.iterations)
        if cost + first >= limit:
            return []
        return [Choice(order, sim, output, cost + first + extra, converts, axes_order, first)
                for output, axes_order, extra in self._outputs(order, last, sim)]

    def _may_hoist(self) -> bool:
        return not (len(self.extents) < 3 or self.counted or self.everywhere
                    or self.whole_cells or self.chooser.strict
                    or sum([o.sparse for o in self.operands]) < 2)  # nothing to meet again

    def _hoisted(self, order: tuple[str, ...]) -> Hoisting | None:
        """Joins that can be made before the loops that need them, in workspaces."""
        if self.joined is None:
            return None
        found = self.early.get(order)
        if found is None:  # the same for operands converted or not
            found = self.early[order] = Hoisting(order, self.joined)
        return found if found.reads else None

    @cached_property
    def bounds(self) -> Mapping[str, Bounds]:
        """What tests say of indices, where the loops that they narrow leave out nothing."""
        if self.counted or self.everywhere or self.whole_cells or self.fused:
            return NOTHING
        return bounds_in(self.body, self.op, self.fill)

    @cached_property
    def bare(self) -> Wanted:
        """Where the body has entries, sums left aside."""
        return Wanted(self.chooser.analysis.cover(self.body).support)

    def _fused(self, order: tuple[str, ...], limit: float) -> list[Choice]:
        """Definitions used up here, with and without converting operands."""
        if self.op is None:
            ways = pointwise_fusions(order, self.body, self.fused)
        elif self.times is None or self.counted or self.everywhere or self.whole_cells:
            return []
        else:
            ways = [w for w in fusions(order, self.factors, self.times, self.fused)
                    if self._misses_nothing(w.body)]
        last = max((k for k, n in enumerate(order) if n not in self.reduced), default=-1)
        found: list[Choice] = []
        for way in ways:
            own = {let.slot for let in way.lets}
            operands = {r: self._operand(r) for body in (way.body, *(let.body for let in way.lets))
                        for r in self._reads(body) if r.tensor.data not in own}  # type: ignore[attr-defined]
            place = _places(way.order)
            wrong = [o for r, o in operands.items() if o.sparse and is_plain(r)
                     and not o.follows(place)]
            extents = self.extents | dict(way.extents) | {
                a.name: a.extent for s in way.sums for a in s.value.axes}
            listed = any(i.name not in self.reduced for r in outer_reads(way.body)  # type: ignore[attr-defined]
                         if r.tensor.data in own for i in r.indices)  # type: ignore[attr-defined]
            for converts in ([], wrong) if wrong else ([],):
                used = {r: converted(o, way.order, extents) if o in converts else o
                        for r, o in operands.items()}
                turns = [(o, way.order) for o in converts]
                first = sum(self.chooser.conversion_cost(o, levels) for o, levels in turns)
                if first >= limit:
                    continue
                sim = self._simulated(order, last, way, list(used.values()), limit - first)
                cost = sim.cost + way.bytes_() / 8.0 * self.costs.workspace_room
                found += [replace(c, workspaces=way) for c in self._assembled(
                    order, last, sim, turns, first, cost, limit)
                    if c.output.assembly in ((Assembly.DENSE, Assembly.LIST) if listed else (
                        Assembly.DENSE, Assembly.LIST, Assembly.LEVELS))]
        return found

    def _misses_nothing(self, body: Expr) -> bool:
        """Whether what a body with sums inside leaves out is the identity of the reduction. As a
        stored vector such a sum has a value everywhere; inside, it is there where its operands are.
        """
        assert self.op is not None and self.op.identity is not None
        cover = self.chooser.analysis.cover(body, self.op is ops.add)
        identity = const(self.op.identity(self.dtype), self.dtype)
        return cover.support.kind == "true" or is_same_literal(cover.background, identity)

    def _operand(self, r: Read) -> Operand:
        if r not in self.made:
            self.made[r] = self.chooser.operand(r)
        return self.made[r]

    def _reads(self, body: Expr) -> list[Read]:
        if body not in self.inside:
            self.inside[body] = list(reads_in(body))
        return self.inside[body]

    def _simulated(self, order: tuple[str, ...], last: int, found: Hoisted,
                   operands: list[Operand], limit: float) -> Simulation:
        support = found.supports(self.chooser.analysis)
        main, fills = simulated(found, {o.read: o for o in operands}, support, self.sampler)
        extents = self.extents | dict(found.extents) | {
            a.name: a.extent for s in found.sums for a in s.value.axes}
        return simulate(order, main, dict.fromkeys(order, Wanted(support(found.body))), extents,
                        Target(last, self.names[-1] if self.names else None), self.costs, limit,
                        fills, self.sampler)

    def _flat(self, order: tuple[str, ...]) -> Simulation | None:
        """The work of one loop over the values of an operand, where that is all; every loop is
        over a reduced index."""
        if len(order) < 2 or self.reduced_support.kind != "has":
            return None
        flat = flat_level((self.body,), order, self.extents)
        if flat is None or not flat.plain or flat.level < len(order) - 1 \
                or self.reduced_support.read is not flat.read:
            return None
        count = next(o.count for o in self.operands if o.read is flat.read)
        return Simulation(count * self.costs.vector_step, 1.0, iterations=count)


def _written(c: Choice) -> Choice:
    """With its workspaces written."""
    return c if c.early is None else replace(c, early=None, workspaces=c.early.written())


def _words(c: Choice) -> str:
    names = [o.read.tensor.data.name for o, _ in c.converts]  # type: ignore[attr-defined]
    first = f"{', '.join(names)} converted, " if names else ""
    first += "" if c.workspaces is None else f"{len(c.workspaces.lets)} workspaces, "
    return f"{first}loops {' > '.join(c.order) or 'none'} to {c.output.assembly.value}"


def _places(order: tuple[str, ...]) -> dict[str, int]:
    return {n: k for k, n in enumerate(order)}
