"""The kernel of a unit: its arrays, scalars and body."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.algebra.ops import BOOL, INT64
from tensorel.base.records import dataclass
from tensorel.ir.build import convert, plus, times
from tensorel.ir.nodes import Local, Source, const
from tensorel.kernels.imperative.checks import REPORT
from tensorel.kernels.imperative.statements import Statements, direct_results
from tensorel.kernels.loopir.statements import Assign, Kernel, array
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.types import Scalar
from tensorel.loops.unit import Storage, Unit
from tensorel.loops.wrong import Check, Wrong

#: The range of a call.
LOW, HIGH = Local(".lo", INT64), Local(".hi", INT64)


@dataclass(frozen=True, slots=True)
class UnitKernel:
    """storages: the classes of arrays, in the order of the call; then come the ``results`` (their
    numbers) that have memory of their own, and the report. scalars: parameters that are numbers,
    then the extents of all classes."""

    kernel: Kernel
    checks: tuple[Check, ...]
    storages: tuple[Storage, ...]
    results: tuple[int, ...]
    numbers: tuple[str, ...]


def unit_kernel(unit: Unit, facts: Facts) -> UnitKernel:
    """Loop IR of a unit under facts about its call."""
    frame = Frame(unit, Statements(unit, facts))
    frame.begin()
    frame.lowering.body(unit.body)
    frame.end()
    return frame.kernel("loops")


class Frame:
    """What stands around the statements of a unit."""

    def __init__(self, unit: Unit, lowering: Statements) -> None:
        self.unit = unit
        self.lowering = lowering
        self.storages = tuple(dict.fromkeys(unit.storages.values()))
        numbers = [(n, t) for n, t in unit.parameters if isinstance(t, Scalar)]
        self.given = {n: Local(f"{n}.given", t.dtype) for n, t in numbers}
        self.scalars = [*self.given.values(), *[
            Local(f"{s.name}.n{k}", INT64) for s in self.storages for k in range(s.type.rank)]]
        direct = direct_results(unit)
        self.results = tuple([k for k in range(len(unit.result_types)) if k not in direct])

    def begin(self) -> None:
        """Parameters in their variables; names of arrays in slots begin with those of the
        parameters."""
        lowering = self.lowering
        for name, given in self.given.items():
            own = self.unit.typing.names[name]
            lowering.emit(Assign(Local(name, own.dtype), convert(given, own.dtype)))
        for s in self.storages:
            for name in s.names if s.slots > 1 else ():
                k = s.given.index(name) if name in s.given else -1
                start = times(lowering.size(name), const(k, INT64)) if k >= 0 else const(-1, INT64)
                lowering.emit(Assign(Local(f"{name}.at", INT64), plus(start, 0)))
        for name in sorted(self.unit.assignment.unsure):
            lowering.emit(Assign(Local(f"{name}.set", BOOL), const(False)))

    def end(self) -> None:
        """Results where the caller looks for them."""
        unit, lowering = self.unit, self.lowering
        if unit.results is not None:
            line = unit.body[-1].line if unit.body else unit.origin.first
            for k, name in enumerate(unit.results):
                lowering.result(k, syntax.Name(name, line), unit.result_types[k], line)
        elif unit.assignment.ends:
            lowering.check(None, Wrong.END, unit.body[-1].line)

    def kernel(self, stem: str, more: Sequence[Source] = (), counts: Sequence[Local] = ()
               ) -> UnitKernel:
        """Of what was emitted. ``more`` arrays that it writes, ``counts`` that it is given."""
        unit, storages = self.unit, self.storages
        arrays = [array(s.name, s.type.dtype) for s in storages]
        arrays += [array(f".result{k}", unit.result_types[k].dtype) for k in self.results]
        written = {s.name for s in storages if not s.lent} | {
            str(a.data) for a in (*arrays[len(storages):], *more, REPORT)}
        kernel = Kernel(
            f"{stem}_{unit.origin.name}", (*arrays, *more, REPORT), frozenset(written), (),
            (*self.scalars, *counts), LOW, HIGH, tuple(self.lowering.out))
        return UnitKernel(kernel, tuple(self.lowering.checks.table), storages, self.results,
                          tuple(self.given))
