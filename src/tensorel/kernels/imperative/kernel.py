"""The kernel of a unit: its arrays, scalars and body."""

from __future__ import annotations

from tensorel.algebra.ops import BOOL, INT64
from tensorel.base.records import dataclass
from tensorel.ir.build import convert, plus, times
from tensorel.ir.nodes import Local, const
from tensorel.kernels.imperative.checks import REPORT
from tensorel.kernels.imperative.statements import Statements, direct_results
from tensorel.kernels.loopir.statements import Assign, Kernel, array
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.types import Scalar
from tensorel.loops.unit import Storage, Unit
from tensorel.loops.wrong import Check, Wrong


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
    lowering = Statements(unit, facts)
    storages = tuple(dict.fromkeys(unit.storages.values()))
    scalars: list[Local] = []
    for name, t in unit.parameters:
        if isinstance(t, Scalar):
            given = Local(f"{name}.given", t.dtype)
            scalars.append(given)
            own = unit.typing.names[name]
            lowering.emit(Assign(Local(name, own.dtype), convert(given, own.dtype)))
    _name_arrays(unit, lowering, storages, scalars)
    for name in sorted(lowering.unit.assignment.unsure):
        lowering.emit(Assign(Local(f"{name}.set", BOOL), const(False)))
    lowering.body(unit.body)
    if unit.results is not None:
        line = unit.body[-1].line if unit.body else unit.origin.first
        for k, name in enumerate(unit.results):
            lowering.result(k, syntax.Name(name, line), unit.result_types[k], line)
    elif unit.assignment.ends:
        lowering.check(None, Wrong.END, unit.body[-1].line)
    direct = direct_results(unit)
    results = tuple([k for k in range(len(unit.result_types)) if k not in direct])
    arrays = [array(s.name, s.type.dtype) for s in storages]
    arrays += [array(f".result{k}", unit.result_types[k].dtype) for k in results]
    written = {s.name for s in storages if not s.lent} | {f".result{k}" for k in results}
    kernel = Kernel(
        f"loops_{unit.origin.name}", (*arrays, REPORT), frozenset({*written, str(REPORT.data)}),
        (), tuple(scalars), Local(".lo", INT64), Local(".hi", INT64), tuple(lowering.out))
    return UnitKernel(kernel, tuple(lowering.checks.table), storages, results, tuple(
        [n for n, t in unit.parameters if isinstance(t, Scalar)]))


def _name_arrays(unit: Unit, lowering: Statements, storages: tuple[Storage, ...],
                 scalars: list[Local]) -> None:
    """Extents are parameters; names of arrays in slots begin with those of the parameters."""
    for s in storages:
        scalars += [Local(f"{s.name}.n{k}", INT64) for k in range(s.type.rank)]
        if s.slots > 1:
            for name in s.names:
                k = s.given.index(name) if name in s.given else -1
                start = times(lowering.size(name), const(max(k, 0), INT64))
                if k < 0:
                    start = const(-1, INT64)
                lowering.emit(Assign(Local(f"{name}.at", INT64), plus(start, 0)))
