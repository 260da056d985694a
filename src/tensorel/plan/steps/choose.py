"""Physical choice: for each definition its kernel, loop order, output format, conversions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.given import about, plain
from tensorel.ir.nodes import Bulk, Const, Lambda, Reduce, Source, reads_in
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.decisions import Option
from tensorel.plan.definitions import Definition, Ref, inner_reductions, sources_of
from tensorel.plan.loops.aggregate import Assignment
from tensorel.plan.loops.fuse import Fused
from tensorel.plan.loops.nests import NoLoops
from tensorel.plan.loops.operands import is_plain
from tensorel.plan.physical import BulkStep, Plan, ViewStep
from tensorel.plan.slot_facts import Known, level_sizes
from tensorel.plan.steps.blas import blas_step
from tensorel.plan.steps.rankings import RANKED_ELEMENTS, is_ranking
from tensorel.plan.steps.rekey import IndexSolver
from tensorel.plan.steps.solvers import mixing_step
from tensorel.plan.steps.views import permuted, view_of
from tensorel.storage.format import Format
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack


def _refs(d: Definition) -> list[str]:
    return [s.data.name for s in sources_of(d.tensor) if isinstance(s.data, Ref)]


def _asked_as(d: Definition) -> tuple[Const, Format | None]:
    """The fill of a definition, and the format that it is asked for in."""
    fill = d.fill if d.fill is not None else fill_of(d.tensor)
    return fill, None if d.format is None else resolve(d.format, d.shape, d.tensor.dtype)  # type: ignore[arg-type]


class Chooser(IndexSolver):
    """Turns definitions into steps, one after another."""

    def run(self) -> Plan:
        inputs = [k.slot.name for k in self.known.values()]
        slots: dict[str, str] = {}
        fusable = () if self.hurried else self.program.fusable
        waiting: dict[str, Definition] = {}
        for d in self.program.definitions:
            asked = [waiting.pop(n) for n in dict.fromkeys(_refs(d)) if n in waiting]
            stored = [t for t in asked if not self._can_use_up(d, t)]
            for t in stored:
                self.place(t)
                asked.remove(t)
            if d.name in fusable and not asked:
                waiting[d.name] = d
            else:
                slots[d.name] = self._with(d, asked).slot.name
        results = [slots[n] for n in self.program.results]
        return Plan(tuple(self.steps), tuple(results), tuple(inputs),
                    tuple(self.program.fired.items()), tuple(self.program.definitions),
                    tuple(self.program.asked.items()), call=self.costs.call)

    def _can_use_up(self, d: Definition, t: Definition) -> bool:
        """Nothing but the entries of ``t`` matters to a definition, which reads all at indices."""
        assert isinstance(d.tensor, Lambda)
        body, summed = d.tensor.body, False
        if isinstance(body, Reduce):
            body, summed = body.body, True
        return all(map(is_plain, reads_in(body))) and not inner_reductions(body) \
            and self._fused(t).is_possible(self.analysis, summed)

    def _fused(self, t: Definition) -> Fused:
        assert isinstance(t.tensor, Lambda)
        body = self.bind(t.tensor.body)
        assert isinstance(body, Reduce)
        return Fused(t.name, t.tensor.axes, body.op, body.axes, body.body)

    def place(self, d: Definition) -> Known:
        """The steps of a definition, and what is known of its result then."""
        return self._keep(d, self._define(d))

    def _keep(self, d: Definition, known: Known) -> Known:
        whole = d.ref.whole
        if whole != known.slot.format.is_dense:
            slot = replace(known.slot, whole=whole)
            source = known.source
            known = replace(known, slot=slot, source=Source(
                slot, source.shape, source.dtype, source.fill))
            self.known[slot] = known
        known.restricted = self.program.restricted.get(d.ref)
        self.known[d.ref] = known
        return known

    def _with(self, d: Definition, asked: list[Definition]) -> Known:
        """A definition and those that it alone reads: stored before, or used up in its loops."""
        if not asked:
            return self.place(d)
        start, before = self._state(), len(self.steps)

        def spent() -> float:
            return sum(s.cost + self.costs.call for s in self.steps[before:])

        for t in asked:
            self.place(t)
        ways = [Option(0.0, (self.place(d), self._state()), "stored")]
        ways[0] = replace(ways[0], cost=spent())
        self._restore(start)
        below = ways[0].cost - self.costs.call
        known = self._used_up(d, asked, below) if self._may_pay(d, asked, below) else None
        if known is not None:
            known = self._keep(d, known)
            ways.append(Option(spent(), (known, self._state()), "used up"))
        known, state = self.program.decisions.decide(
            "intermediates", ", ".join(t.name for t in asked), ways)
        self._restore(state)
        if state is not ways[0].value[1]:
            self.program.fire("fuse: an intermediate is used up where it is made", len(asked))
        return known

    def _may_pay(self, d: Definition, asked: list[Definition], below: float) -> bool:
        """Intermediates may cost less where they are used up. A row of one is filled by the loops
        that would have stored it, point by point, all of it where no sparse operand of the reader
        asks for less; what is saved is what storing and reading it takes."""
        if self.program.decisions.listing:
            return True
        names = {t.name for t in asked}
        least = 0.0
        for t in asked:
            cost, visits = self.looped.get(t.name, (0.0, 0.0))
            least += cost + (visits * self.costs.workspace_add if len(t.shape) > 1 else 0.0)
        return least < below or any(
            not self.known[s.data].slot.format.is_dense for s in sources_of(d.tensor)
            if getattr(s.data, "name", "") not in names)

    def _state(self) -> tuple[Any, ...]:
        return (list(self.steps), dict(self.known), dict(self.conversions), self.counter,
                dict(self.program.fired))

    def _restore(self, state: tuple[Any, ...]) -> None:
        steps, known, conversions, self.counter, fired = state
        self.steps, self.known, self.conversions = list(steps), dict(known), dict(conversions)
        self.program.fired = dict(fired)

    def _used_up(self, d: Definition, asked: list[Definition], below: float) -> Known | None:
        """One nest for a definition and those that it reads, where that is possible and costs
        less than ``below``."""
        fused: dict[Source, Fused] = {}
        for t in asked:
            made = self._fused(t)
            known = self.known[t.ref] = self._imagined(t)
            self.known[known.slot] = known
            fused[known.source] = made
        assert isinstance(d.tensor, Lambda)
        wanted = Assignment.of(d.name, d.tensor.axes, self.bind(d.tensor.body), *_asked_as(d))
        try:
            return self.nest(wanted, fused=fused, below=below)
        except NoLoops:
            return None

    def _imagined(self, t: Definition) -> Known:
        """What is known of a definition that will not be stored."""
        stats, source = self.program.stats.get(t.ref), t.source()
        size = about(t.shape)
        count = size if stats is None else stats.count
        fmt = resolve("dense" if len(t.shape) == 1 else "csf", t.shape, source.dtype)
        slot = Slot(t.name, fmt, (), t.ref.whole)
        return Known(slot, Source(slot, t.shape, source.dtype, source.fill), count,
                     level_sizes(fmt, t.shape, count), 0.0,
                     facts=None if stats is None else stats.facts)

    def _define(self, d: Definition) -> Known:
        assert d.fill is not None or not isinstance(d.tensor, Source)
        fill, want = _asked_as(d)
        match d.tensor:
            case Source():
                return self._stored_as(d, self.known[d.tensor.data], want)
            case Bulk():
                return self._bulk(d, d.tensor, fill, want)
            case _:
                return self._formula(d.name, d.tensor, fill, want)

    def _stored_as(self, d: Definition, known: Known, want: Format | None) -> Known:
        """A stored tensor asked for in a format: a kernel where one can write it."""
        if want is None or want.covers(known.slot.format):
            return known
        if type(want) is not Stack or type(known.slot.format) is not Stack:
            return self.convert(known, want)
        return self._converted(d.name, known, want)

    def _bulk(self, d: Definition, b: Bulk, fill: Const, want: Format | None) -> Known:
        args = tuple(self.known[a.data] for a in b.args)  # type: ignore[attr-defined]
        if b.op.effort is not None:
            mixing, count = mixing_step(self, d.name, b, args, fill)
            return self._convert_dynamic(self.add_step(mixing, count), want)
        work = max((k.count for k in args), default=0.0)
        size = about(b.shape)
        count = size if b.op.whole else min(work, size)
        fmt = resolve("coo" if b.shape else "dense", b.shape, b.dtype)
        slot = Slot(d.name, fmt, ())
        each = b.dtype.itemsize + (0 if b.op.whole else 8 * len(b.shape))
        in_blocks = is_ranking(b) and args[0].slot.format.is_dense
        held = min(work, RANKED_ELEMENTS) if in_blocks else work
        step = BulkStep(slot, b.shape, b.dtype, fill, count, count * each,
                        (count + 2 * held) * each, work * self.costs.list_sort,
                        op=b.op, args=tuple(k.slot.name for k in args), params=b.params)
        # the operator decides how its result lies: it is brought into a known format
        return self._convert_dynamic(self.add_step(step, count), want)

    def _convert_dynamic(self, known: Known, want: Format | None) -> Known:
        shape, dtype = known.source.shape, known.source.dtype
        size = about(shape)
        dense = not shape or known.count > self.costs.dense_vector * size
        fmt = want or resolve("dense" if dense else "coo", shape, dtype)
        step = self.steps[-1]
        assert isinstance(step, BulkStep)
        slot = self.slot(known.slot.name, fmt, dtype, shape, known.count, wide=True)
        self.steps[-1] = replace(step, target=slot)
        made = self.known[slot] = Known(
            slot, Source(slot, shape, dtype, known.source.fill), known.count,
            level_sizes(fmt, shape, known.count), known.bytes_)
        return made

    def _formula(self, name: str, lam: Lambda, fill: Const, want: Format | None) -> Known:
        made = Assignment.of(name, lam.axes, self.bind(lam.body), fill, want)
        made = replace(made, body=self.solve_indices(made.body, made.extents))
        view = self._view(made) if made.op is None else None
        if view is not None:
            return view
        product = blas_step(self, made)
        if product is not None and self.program.decisions.decide("product", name, [
                Option(product.cost, True, "BLAS"),
                Option(product.cost * self.costs.blas_speed, False, "loops")]):
            known = self.add_step(product, product.count)
            planned = self.program.stats.get(Ref(name))
            if planned is not None and product.listed:
                known.facts = planned.facts
            return self.convert(known, want)
        return self.nest(made)

    def _view(self, made: Assignment) -> Known | None:
        """The formula is its operand with axes permuted or rows cut off: nothing is copied."""
        found = view_of(made.axes, made.body)
        if found is None:
            return None
        (read, permutation, start), shape = found, made.shape
        known = self.known_of(read.tensor)  # type: ignore[arg-type]
        fmt = permuted(known.slot.format, permutation, shape)
        if fmt is None or made.want not in (None, fmt):
            return None
        share = 1.0
        if start is not None:
            axis = known.slot.format.order[0]
            share = plain(shape[permutation.index(axis)]) / max(plain(known.source.shape[axis]), 1)
        count = known.count * share
        slot = Slot(made.name, fmt, known.slot.dtypes, most=known.slot.most)
        step = ViewStep(slot, shape, made.body.dtype, made.fill, count, 0.0, 0.0, 0.0,
                        source=known.slot.name, permutation=permutation, start=start)
        return self.add_step(step, count)
