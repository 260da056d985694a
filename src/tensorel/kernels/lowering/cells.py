"""Loops around the cells of a result, and what all assemblies share."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.ir.build import convert, plus
from tensorel.ir.nodes import INT64, Axis, Call, Expr, const
from tensorel.kernels.loopir.statements import Assign, If
from tensorel.kernels.lowering.lower import Lowering
from tensorel.kernels.lowering.nest import Nest
from tensorel.kernels.lowering.support import TRUE, Analysis, Formula


def cell_loops(nest: Nest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Loops around a cell, and the reductions inside it."""
    last = max((k for k, n in enumerate(nest.loops) if n not in nest.reduced), default=-1)
    return nest.loops[: last + 1], nest.loops[last + 1 :]


class Assembler:
    """Base: loops around cells; subclasses deliver cells."""

    #: something is done where an output loop's body begins and ends
    marks_rows = False

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.nest = low.nest
        self.out = low.nest.output
        self.outer, self.tail = cell_loops(low.nest)
        self.accumulates = self.nest.op is not None and not self.nest.serial and (
            not self.outer or any(n in self.nest.reduced for n in self.outer))
        self.cells = self.out.dtype  # of what the kernel writes to dense cells

    def run(self) -> None:
        self.prepare()
        self.low.loops_inside = bool(self.tail)
        self.low.may_repeat_body = not self.tail and not self.low.inner_reductions()
        enter, leave = (self.enter, self.leave) if self.marks_rows else (None, None)
        self.low.loops(self.outer, self._support, self._cell, enter, leave,
                       depth=0 if self.outer else 1)
        self.finish()

    def _support(self, name: str) -> Formula:
        if name in self.nest.reduced and self.nest.whole_cells:
            return TRUE
        if name in self.nest.reduced and self.nest.counted:
            return self._reduced_support()
        return self.low.support

    def _reduced_support(self) -> Formula:
        """In counted reductions, reads without reduced indices are constants of the loop."""
        reduced = self.nest.reduced
        analysis = Analysis(self.low.strict, lambda r: r.free.isdisjoint(reduced),
                            summed=self.nest.op is ops.add)
        return analysis.cover(self.nest.body).support

    def prepare(self) -> None:
        """Declare outputs."""

    def finish(self) -> None:
        """After all loops."""

    def enter(self, name: str) -> None:
        """Before the body of an output loop."""

    def leave(self, name: str) -> None:
        """After the body of an output loop."""

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        """One cell's value; ``seen`` counts the visited points of a counted reduction."""
        raise AssertionError

    def _cell(self) -> None:
        low, nest = self.low, self.nest
        if not self.tail and nest.op is None:
            self._guarded(lambda: self.deliver(low.value(nest.body), None))
            return
        assert nest.op is not None
        op, dtype = nest.op, self.out.dtype
        if not self.tail:
            one = const(1, INT64) if nest.counted else None
            self._guarded(lambda: self.deliver(convert(low.value(nest.body), dtype), one))
            return
        acc = low.accumulator(op, dtype)
        seen = low.fresh("seen") if nest.counted else None
        if seen is not None:
            low.emit(Assign(seen, const(0, INT64)))

        def inner() -> None:
            low.accumulate(op, acc, nest.body)
            if seen is not None:
                low.emit(Assign(seen, plus(seen, 1)))

        low.loops_inside = False
        low.in_cell, low.selects = True, seen is None
        low.summing(op, acc, self.tail, lambda: low.loops(
            self.tail, self._support, inner, depth=len(self.outer)))
        low.in_cell = low.selects = False
        low.loops_inside = True
        self._guarded(lambda: self.deliver(acc, seen))

    def _guarded(self, action: Callable[[], None]) -> None:
        if self.out.guard is None:
            action()
            return
        with self.low.block() as then:
            action()
        self.low.emit(If(self.low.value(self.out.guard), tuple(then)))

    def complete(self, value: Expr, seen: Expr | None) -> Expr:
        """``value`` combined with the points of its reduction that were not visited."""
        if seen is None:
            return value
        low, nest = self.low, self.nest
        assert nest.op is not None and nest.residual is not None
        axes = [Axis(n, low.extents[n]) for n in sorted(nest.reduced)]
        whole = low.fresh("whole", value.dtype)
        low.emit(Assign(whole, value))
        low.add_missing(nest.op, whole, nest.residual, axes, seen)
        return whole

    def coordinate(self, axis: int) -> Expr:
        value = self.low.value(self.out.coords[axis])
        return convert(value, self.out.index_dtypes[axis])

    def differs(self, value: Expr) -> Expr:
        """The value is not the fill."""
        fill = self.out.fill
        if fill.value != fill.value:
            return Call(ops.logical_not, (Call(ops.isnan, (value,)),))
        return Call(ops.not_equal, (value, fill))
