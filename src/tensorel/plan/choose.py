"""Physical choice: for each definition its kernel, loop order, output format, conversions."""

from __future__ import annotations

import math
from dataclasses import replace

from tensorel.algebra import ops
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Axis, Bulk, Const, Expr, Lambda, Reduce, Source
from tensorel.kernels.spec import Slot
from tensorel.plan.blas import blas_step
from tensorel.plan.decide import Option
from tensorel.plan.definitions import Definition
from tensorel.plan.indices import IndexSolver
from tensorel.plan.known import Known, level_sizes
from tensorel.plan.physical import BulkStep, Plan, ViewStep
from tensorel.plan.views import permuted, view_of
from tensorel.storage.format import Format
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack


class Chooser(IndexSolver):
    """Turns definitions into steps, one after another."""

    def run(self) -> Plan:
        inputs = [k.slot.name for k in self.known.values()]
        slots = {d.name: self.place(d).slot.name for d in self.program.definitions}
        results = [slots[n] for n in self.program.results]
        plan = Plan(self.steps, results, inputs, dict(self.program.fired), [],
                    call=self.costs.call)
        plan.plan_frees()
        return plan

    def place(self, d: Definition) -> Known:
        """The steps of a definition, and what is known of its result then."""
        known = self._define(d)
        whole = d.ref.whole
        if whole != known.slot.format.is_dense:
            slot = replace(known.slot, whole=whole)
            source = known.source
            known = replace(known, slot=slot, source=Source(
                slot, source.shape, source.dtype, source.fill))
            self.known[slot] = known
        self.known[d.ref] = known
        return known

    def _define(self, d: Definition) -> Known:
        assert d.fill is not None or not isinstance(d.tensor, Source)
        fill = d.fill if d.fill is not None else fill_of(d.tensor)
        want = None if d.format is None else resolve(d.format, d.shape, d.tensor.dtype)  # type: ignore[arg-type]
        match d.tensor:
            case Source():
                return self._stored_as(d, self.known[d.tensor.data], want)
            case Bulk():
                return self._bulk(d, d.tensor, want)
            case _:
                return self._formula(d.name, d.tensor, fill, want)

    def _stored_as(self, d: Definition, known: Known, want: Format | None) -> Known:
        """A stored tensor asked for in a format: a kernel where one can write it."""
        if want is None or want.covers(known.slot.format):
            return known
        if type(want) is not Stack or type(known.slot.format) is not Stack:
            return self.convert(known, want)
        return self._converted(d.name, known, want)

    def _bulk(self, d: Definition, b: Bulk, want: Format | None) -> Known:
        args = tuple(self.known[a.data] for a in b.args)  # type: ignore[attr-defined]
        count = max((k.count for k in args), default=0.0)
        fmt = resolve("coo" if b.shape else "dense", b.shape, b.dtype)
        slot = Slot(d.name, fmt, ())
        size = count * (b.dtype.itemsize + 8 * len(b.shape))
        fill = d.fill if d.fill is not None else fill_of(b)
        step = BulkStep(slot, b.shape, b.dtype, fill, f"{d.name} = {b.op}({b.params})", count, size,
                        3 * size, count * self.costs.list_sort, op=b.op,
                        args=tuple(k.slot.name for k in args), params=b.params)
        known = self.add_step(step, count)
        # the operator decides how its result lies: it is brought into a known format
        fixed = self._convert_dynamic(known, want)
        return fixed

    def _convert_dynamic(self, known: Known, want: Format | None) -> Known:
        shape, dtype = known.source.shape, known.source.dtype
        size = math.prod(float(n) for n in shape)
        dense = not shape or known.count > self.costs.dense_vector * size
        fmt = want or resolve("dense" if dense else "coo", shape, dtype)
        step = self.steps[-1]
        assert isinstance(step, BulkStep)
        slot = self.slot(known.slot.name, fmt, dtype, shape, known.count, wide=True)
        step.target = slot
        made = self.known[slot] = Known(
            slot, Source(slot, shape, dtype, known.source.fill), known.count,
            level_sizes(fmt, shape, known.count), known.bytes_)
        return made

    def _formula(self, name: str, lam: Lambda, fill: Const, want: Format | None) -> Known:
        body = self.bind(lam.body)
        op: ops.Operator | None = None
        reduced: tuple[Axis, ...] = ()
        if isinstance(body, Reduce):
            op, reduced, body = body.op, body.axes, body.body
        body = self.solve_indices(body, {a.name: a.extent for a in (*lam.axes, *reduced)})
        if op is None:
            view = self._view(name, lam, body, fill, want)
            if view is not None:
                return view
        product = blas_step(self, name, lam, op, reduced, body, fill, want)
        if product is not None and self.program.decisions.decide("product", name, [
                Option(product.cost, True, "BLAS"),
                Option(product.cost * self.costs.blas_speed, False, "loops")]):
            known = self.add_step(product, math.prod(float(n) for n in lam.shape))
            return self.convert(known, want)
        return self.nest(name, lam.axes, op, reduced, body, fill, want)

    def _view(self, name: str, lam: Lambda, body: Expr, fill: Const, want: Format | None
              ) -> Known | None:
        """The formula is its operand with axes permuted or rows cut off: nothing is copied."""
        found = view_of(lam.axes, body)
        if found is None:
            return None
        read, permutation, start = found
        known = self.known_of(read.tensor)  # type: ignore[arg-type]
        fmt = permuted(known.slot.format, permutation, lam.shape)
        if fmt is None or (want is not None and want != fmt):
            return None
        share = 1.0
        if start is not None:
            axis = known.slot.format.order[0]
            share = lam.shape[permutation.index(axis)] / max(known.source.shape[axis], 1)
        count = known.count * share
        slot = Slot(name, fmt, known.slot.dtypes, most=known.slot.most)
        text = f"{name} = view of {known.slot.name}"
        step = ViewStep(slot, lam.shape, lam.dtype, fill, text, count, 0.0, 0.0, 0.0,
                        source=known.slot.name, permutation=permutation, start=start)
        return self.add_step(step, count)
