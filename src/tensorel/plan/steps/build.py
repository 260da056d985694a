"""Building steps: slots, sizes, conversions and kernels of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.ir.given import about, plain
from tensorel.ir.nodes import Axis, Expr, Index, Read, Source, postorder, reads_in
from tensorel.ir.replacing import with_parts
from tensorel.kernels.lowering.magnitude import Magnitudes, rounded
from tensorel.kernels.lowering.nest import Nest, Slot
from tensorel.kernels.lowering.support import Analysis
from tensorel.plan.decisions import Option
from tensorel.plan.definitions import Program, Ref, inner_reductions, replace_exprs
from tensorel.plan.loops.aggregate import Assignment
from tensorel.plan.loops.fuse import Fused
from tensorel.plan.loops.nests import NestSearch
from tensorel.plan.loops.operands import Operand, along, is_diagonal, operand
from tensorel.plan.loops.outputs import Choice
from tensorel.plan.physical import ConvertStep, KernelStep, Step
from tensorel.plan.slot_facts import Known, index_dtype, index_dtypes, level_sizes
from tensorel.plan.steps.conversions import by_kernel, conversion_cost
from tensorel.plan.steps.prefetching import fetched
from tensorel.plan.steps.threads import bytes_read, threads_for, work_of
from tensorel.stats.estimates.reads import of_read
from tensorel.storage.format import Format
from tensorel.storage.registry import resolve

_TURNED = {"dense": "dense_f", "dense_f": "dense"}


#: Programs of more definitions have fewer ways tried for each, and then fewer still.
MAX_UNHURRIED_DEFINITIONS = 12, 24


class StepBuilder:
    """Steps so far, and what is known of every slot."""

    def __init__(self, program: Program, known: dict[object, Known]) -> None:
        self.program = program
        self.known = known  # by Slot or Ref
        self.steps: list[Step] = []
        self.conversions: dict[tuple[str, object], Known] = {}
        self.counter = 0
        self.looped: dict[str, tuple[float, float]] = {}  # least cost of loops, points visited
        self.strict = program.config.strict
        self.analysis = Analysis(self.strict)
        self.brief, self.hurried = (len(program.definitions) > n for n in MAX_UNHURRIED_DEFINITIONS)
        self.costs = program.config.costs

    def add_step(self, step: Step, count: float) -> Known:
        self.steps.append(step)
        source = Source(step.target, step.shape, step.dtype, step.fill)
        levels = level_sizes(step.target.format, step.shape, count)
        made = self.known[step.target] = Known(step.target, source, count, levels, step.bytes_)
        return made

    def convert(self, known: Known, want: Format | None) -> Known:
        if want is None or want == known.slot.format:
            return known
        key = (known.slot.name, want)
        if key not in self.conversions:
            self.counter += 1
            name = f"{known.slot.name}_{self.counter}"
            made = self._converted(name, known, want) if by_kernel(known, want, self.costs) \
                else self._stored_again(name, known, want)
            self.conversions[key] = made
        return self.conversions[key]

    def _converted(self, name: str, known: Known, want: Format) -> Known:
        """A conversion as a kernel."""
        source = known.source
        axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(source.shape))
        body = Read(source, tuple(Index(a.name) for a in axes))
        return self.nest(Assignment(name, axes, None, (), body, source.fill, want), keep_fill=True)

    def _stored_again(self, name: str, known: Known, want: Format) -> Known:
        """A conversion as a step of its own kind."""
        source = known.source
        slot = replace(self.slot(name, want, source.dtype, source.shape, known.count),
                       most=known.slot.most)
        stored = want in known.alternatives
        size = 0.0 if stored else self.bytes_of(want, source.shape, source.dtype, known.count)
        step = ConvertStep(
            slot, source.shape, source.dtype, source.fill, known.count, size, 2 * size,
            conversion_cost(known, want, self.costs), source=known.slot.name, format=want,
            stored=stored)
        return self.add_step(step, known.count)

    def slot(self, name: str, fmt: Format, dtype: DType, shape: tuple[int, ...], count: float,
              wide: bool = False) -> Slot:
        """The slot of a result: index widths follow from the extents and the count."""
        return Slot(name, fmt, index_dtypes(fmt, dtype, shape, count))

    def bytes_of(self, fmt: Format, shape: tuple[int, ...], dtype: DType, count: float) -> float:
        size = about(shape)
        if fmt.is_dense:
            return size * dtype.itemsize
        last = max(k for k, level in enumerate(fmt.levels) if not level.full)
        nodes = level_sizes(fmt, shape, count)
        total = count * dtype.itemsize
        for k in range(last + 1):
            total += nodes[k] * (8.0 if fmt.levels[k].full else index_dtype(
                shape[fmt.order[k]]).itemsize + (4.0 if k < last else 0.0))
        return total

    def bound_of(self, known: Known) -> float:
        """At most so many bytes are stored of it."""
        made = [s.bound for s in self.steps if s.target.name == known.slot.name]
        return made[-1] if made else known.bytes_

    def bind(self, e: Expr) -> Expr:
        """Reads of definitions become reads of their slots."""
        memo: dict[Expr, Expr] = {}

        def go(x: Expr) -> Expr:
            found = memo.get(x)
            if found is None:
                if isinstance(x, Read):
                    assert isinstance(x.tensor, Source)
                    found = Read(self.known[x.tensor.data].source, tuple(map(go, x.indices)))
                else:
                    found = with_parts(x, go)
                memo[x] = found
            return found

        return go(e)

    def known_of(self, source: Source) -> Known:
        return self.known[source.data]

    def operand(self, read: Read) -> Operand:
        """A read as it is stored."""
        known = self.known_of(read.tensor)  # type: ignore[arg-type]
        made = operand(read, known.levels, known.count, restricted=known.restricted)
        if made.sparse and known.facts is not None and is_diagonal(read):
            extent = min(read.tensor.shape)
            met = of_read(known.facts(True), read.indices, dict.fromkeys(read.free, extent))
            made.here = min(met.estimate / max(extent, 1), 1.0)
        return made

    def nest(self, made: Assignment, keep_fill: bool = False,
             fused: Mapping[Source, Fused] | None = None, below: float = math.inf) -> Known:
        """The kernel of an assignment; ``fused`` and ``below`` as ``NestSearch`` has them."""
        name, op, body = made.name, made.op, made.body
        search = NestSearch(self, made)
        search.fused, search.below = fused or search.fused, below
        planned = self.program.stats.get(Ref(name))
        search.fills_up = planned is not None and planned.dense and planned.facts is not None
        made = replace(made, fill=search.fill)
        choice = search.best(name)
        self.looped[name] = search.least, search.visits
        signed = self.strict and op is not ops.add and body.dtype.kind in "fc"
        if keep_fill or isinstance(body, Read) or signed:  # moved, not made; or -0 is not +0
            choice = replace(choice, output=replace(choice.output, keep_fill=True))
        table: dict[Expr, Expr] = {}
        for o, levels in choice.converts:
            table[o.read] = self._reorder(o, levels)
        if table:
            body = replace_exprs(body, table)
            if choice.output.pattern in table:
                return self.nest(replace(made, body=body))
        found = choice.workspaces
        if found is not None:
            found = found.converted(table)
            body = found.body
        body = self._along_sums(body, choice.simulation.iterations)
        gallop = self._searched(name, choice, body, table)
        nest = Nest(
            choice.order, tuple(made.extents.items()),
            search.reduced, op, body, choice.output, gallop,
            search.residual, search.counted, search.everywhere, search.whole_cells)
        if found is not None:
            nest = replace(nest, lets=found.lets, extents=(*nest.extents, *found.extents))
        nest = replace(nest, fetch=fetched(nest, {
            r: self.known_of(r.tensor) for r in nest.operands if r.indices}, self.costs))  # type: ignore[arg-type]
        return self._kernel(made, nest, choice, search)

    def _along_sums(self, body: Expr, times: float) -> Expr:
        """Dense matrices that a sum inside the body walks across their rows are stored the other
        way round first, where the sum is evaluated often enough."""
        table: dict[Expr, Expr] = {}
        for e in inner_reductions(body):
            along, turns = e.axes[-1], times * plain(e.axes[-1].extent)
            for r in reads_in(e.body):
                if len(r.indices) != 2 or r in table:
                    continue
                known = self.known_of(r.tensor)  # type: ignore[arg-type]
                fmt = known.slot.format
                other = _TURNED.get(fmt.name)
                far = self.costs.across if known.bytes_ > self.costs.far_bytes else 1.0
                if other is None or r.indices[fmt.order[0]] != Index(along.name) \
                        or along.name in r.indices[fmt.order[1]].free \
                        or not self.program.decisions.decide("matrix", known.slot.name, [
                            Option(turns * far, False, "read across its rows"),
                            Option(self.costs.turn * known.count, True, "turned first")]):
                    continue
                made = self.convert(known, resolve(other, known.source.shape, r.dtype))
                table[r] = Read(made.source, r.indices)
        return replace_exprs(body, table) if table else body

    def _searched(self, name: str, choice: Choice, body: Expr, table: Mapping[Expr, Expr]
                  ) -> frozenset[tuple[str, int]]:
        """Levels of operands that are searched where they follow, not merged. ``table``: reads
        of operands that are stored again."""
        origins = {} if choice.workspaces is None else choice.workspaces.origins
        found = set()
        for read, level in choice.simulation.gallop:
            first = origins[read][0] if read in origins else read
            found.add((table.get(first, read).tensor.data.name, level))  # type: ignore[attr-defined]
        chosen = frozenset(found)
        if self.program.decisions.listing:
            sparse = {r.tensor.data for r in postorder(body)  # type: ignore[attr-defined]
                      if isinstance(r, Read) and not r.tensor.data.format.is_dense}  # type: ignore[attr-defined]
            levels = frozenset((s.name, k) for s in sparse for k in range(s.format.rank))
            ways = dict.fromkeys((chosen, frozenset[tuple[str, int]](), levels))
            if len(sparse) > 1:
                chosen = self.program.decisions.decide("lookups", name, [
                    Option(math.inf if k else 0.0, way, f"{_levels(way) or 'none'} searched")
                    for k, way in enumerate(ways)])
        return chosen

    def threads(self, nest: Nest, cost: float, operands: tuple[str, ...], written: float,
                visits: float) -> int:
        """On how many threads a kernel runs that reads these slots and writes so many bytes."""
        by_name = {k.slot.name: k.bytes_ for k in self.known.values()}
        read = bytes_read([by_name[n] for n in operands], visits)
        config = self.program.config
        return threads_for(nest, work_of(nest, cost, read, written), config.workers, self.costs,
                           config.strict)

    def _reorder(self, o: Operand, order: tuple[str, ...]) -> Expr:
        """The operand stored again with its levels in this order."""
        read = o.read
        made = self.convert(self.known_of(read.tensor), self._reordered(o, order))  # type: ignore[arg-type]
        return Read(made.source, read.indices)

    def turned(self, o: Operand, order: tuple[str, ...]) -> Operand:
        """The operand as it will be when it is stored again in this order."""
        known = self.known_of(o.read.tensor)  # type: ignore[arg-type]
        fmt = self._reordered(o, order)
        made = operand(o.read, level_sizes(fmt, known.source.shape, known.count), o.count, fmt,
                       known.restricted)
        made.edges = o.edges
        return made

    def conversion_cost(self, o: Operand, order: tuple[str, ...]) -> float:
        """Of storing an operand again with its levels in this order, if no step did so yet."""
        known = self.known_of(o.read.tensor)  # type: ignore[arg-type]
        want = self._reordered(o, order)
        if (known.slot.name, want) in self.conversions:
            return 0.0
        return conversion_cost(known, want, self.costs)

    def _reordered(self, o: Operand, order: tuple[str, ...]) -> Format:
        read = o.read
        assert isinstance(read.tensor, Source)
        known = self.known_of(read.tensor)
        rank = len(read.indices)
        axis_order = tuple(sorted(range(rank), key=lambda k: order.index(along(read.indices[k]))))
        names = {(0, 1): "csr", (1, 0): "csc"}
        rows = plain(read.tensor.shape[axis_order[0]]) if rank else 1
        if axis_order in names and rows <= 4 * max(known.count, 1.0):
            return resolve(names[axis_order], read.tensor.shape, read.dtype)
        return resolve(f"csf({','.join(map(str, axis_order))})", read.tensor.shape, read.dtype)

    def _kernel(self, assigned: Assignment, nest: Nest, choice: Choice, search: NestSearch
                ) -> Known:
        name, shape, dtype = assigned.name, assigned.shape, nest.output.dtype
        direct = search.direct_format(choice)
        final = assigned.want if assigned.want is not None else direct
        count = min(search.cells(choice), about(shape))
        planned = self.program.stats.get(Ref(name))
        if planned is not None and planned.facts is not None and not direct.is_dense:
            count = min(planned.count, about(shape))
        size = self.bytes_of(final, shape, dtype, count)
        bound = self.bytes_of(direct, shape, dtype, search.bound(choice)) + search.working(choice)
        operands = tuple(dict.fromkeys(slot.name for slot in nest.operands.values()))
        slot = self.slot(name, final, dtype, shape, count)
        if self.strict:
            slot = replace(slot, most=rounded(Magnitudes().of(nest.whole)))
        visits = choice.simulation.iterations
        step = KernelStep(
            slot, shape, dtype, assigned.fill, count, size, max(bound, size),
            choice.cost - choice.first, nest=nest,
            operands=operands, order=choice.axes_order,
            direct=direct, finish=None if final == direct else final,
            threads=self.threads(nest, choice.cost - choice.first, operands, size, visits),
            visits=visits)
        made = self.add_step(step, count)
        if planned is not None:
            made.facts = planned.facts
        return made


def _levels(found: frozenset[tuple[str, int]]) -> str:
    return ", ".join(f"{name} at level {k}" for name, k in sorted(found))
