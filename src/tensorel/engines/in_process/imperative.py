"""Programs of statements on stored tensors: their kernels, and memory for their arrays.

A kernel is made for the facts that hold for a call: which indices are inside, which sums are small.
Calls with the same facts share it, whatever the extents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra import bulk
from tensorel.base import memory_regions
from tensorel.base.records import dataclass
from tensorel.config import Config
from tensorel.engines.in_process.wavefronts import Front, front_of
from tensorel.errors import EngineError, RangeError
from tensorel.kernels.imperative.checks import REPORT_WORDS
from tensorel.kernels.imperative.kernel import UnitKernel, unit_kernel
from tensorel.kernels.imperative.statements import direct_results
from tensorel.kernels.loopir.statements import Kernel, Status
from tensorel.kernels.runtime.compiled import CompiledKernel, Control, compile, is_compiled
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.types import ArrayOf, Scalar
from tensorel.loops.unit import Storage, Unit
from tensorel.storage.convert import from_dense, to_dense
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
SMALL_BYTES = 1 << 14  # programs on so few bytes without a while run in the calling thread
#: Statements that quickly made code may do before better code is made. It is made in a sixth of the
#: time, and loses up to 5 ns with each statement.
quick_work = 1 << 22
_MAX_CALLS = 64  # of a unit, whose facts are remembered


@dataclass(frozen=True, slots=True)
class Ready:
    """A call of a unit: its kernel and the machine code, the shapes of its arrays, and statements.
    ``front``: for several threads; the other code is for when something went wrong."""

    made: UnitKernel
    code: _Code
    shapes: dict[str, tuple[int, ...]]
    work: int | None
    front: Front | None


class _Code:
    """A kernel in machine code: that which is quickly made for as long as the calls so far had
    little to do, unless the other is there. ``work``: statements of these calls."""

    def __init__(self, kernel: Kernel, settings: Config) -> None:
        self.kernel = kernel
        self.settings = settings
        self.work = 0
        self.quick: CompiledKernel | None = None
        self.best: CompiledKernel | None = None

    def of(self, work: int | None) -> CompiledKernel:
        """For a call with so much work."""
        if self.best is not None:
            return self.best
        self.work += quick_work if work is None else work
        if self.settings.effort == "full" and self.work < quick_work:
            if self.quick is None and not is_compiled(
                    self.kernel, True, self.settings.disk_cache, "full", self.settings.bounds):
                self.quick = self._made("quick")
            if self.quick is not None:
                return self.quick
        self.best, self.quick = self._made(self.settings.effort), None
        return self.best

    def _made(self, effort: str) -> CompiledKernel:
        return compile(self.kernel, strict=True, disk=self.settings.disk_cache, effort=effort,
                       checked=self.settings.bounds)


class _Kernels:
    """Of one unit: kernels by facts, their code by settings, and calls by shapes and numbers."""

    def __init__(self) -> None:
        self.by_facts: dict[object, UnitKernel] = {}
        self.codes: dict[object, _Code] = {}
        self.calls: dict[object, Ready] = {}


_kernels: dict[Unit, _Kernels] = {}


def run(args: Sequence[Stored], unit: Unit, record: bulk.Record) -> Stored:
    """The record of the results."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}
    for (name, t), stored in zip(unit.parameters, args):
        if isinstance(t, ArrayOf):
            arrays[name] = to_dense(stored)
        else:
            numbers[name] = _number(to_dense(stored), t, unit, name)
    ready = prepare(unit, {n: a.shape for n, a in arrays.items()}, numbers)
    made = memory_regions.empty(bulk.record_starts(record)[-1], np.dtype(np.uint8))
    scalars = [numbers[n] for n in ready.made.numbers]
    for s in ready.made.storages:
        scalars += ready.shapes[s.name]
    report = np.zeros(REPORT_WORDS, np.int64)
    if ready.front is not None and ready.front.run(
            _memory(unit, ready, arrays, made, record), scalars, report):
        return from_dense(made)
    report[:] = 0  # in order, the first error is found
    _start(ready, [*_memory(unit, ready, arrays, made, record), report], scalars)
    if report[0]:
        check = ready.made.checks[int(report[0]) - 1]
        raise check.error(unit.origin, int(report[1]), int(report[2]))
    return from_dense(made)


def _number(value: Array, t: Scalar, unit: Unit, name: str) -> Any:
    found = value[()]
    if t.weak and t.dtype.kind == "i" and found == np.iinfo(np.int64).min:
        unit.origin.fail(RangeError, f"{name} = {found} is too large", unit.origin.first)
    return found.item() if t.weak else found


def prepare(unit: Unit, shapes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, Any]
            ) -> Ready:
    """The kernel for a call with arrays of these shapes and these numbers."""
    known = _kernels.get(unit)
    if known is None:
        if len(_kernels) >= _MAX_CALLS:
            _kernels.clear()
        known = _kernels.setdefault(unit, _Kernels())
    settings = config.current()
    key = (tuple(shapes.values()), tuple([(type(v), v) for v in numbers.values()]),
           settings.bounds, settings.effort, settings.workers)
    found = known.calls.get(key)
    if found is None:
        launch = unit.launch(shapes, numbers)
        made = _made(known, unit, launch.facts)
        about = id(made), settings.bounds, settings.effort, settings.disk_cache
        code = known.codes.setdefault(about, _Code(made.kernel, settings))
        front = front_of(unit, launch, settings)
        if len(known.calls) >= _MAX_CALLS:
            known.calls.clear()
        found = known.calls[key] = Ready(made, code, launch.shapes, launch.work, front)
    return found


def _made(known: _Kernels, unit: Unit, facts: Facts) -> UnitKernel:
    """The kernel under these facts."""
    key = frozenset(facts.items())
    found = known.by_facts.get(key)
    if found is None:
        found = known.by_facts[key] = unit_kernel(unit, facts)
    return found


def _memory(unit: Unit, ready: Ready, arrays: Mapping[str, Array], record: Array,
            layout: bulk.Record) -> list[Array]:
    """The arrays of the kernel: those lent as they are, results in the record, others new."""
    places = {name: k for k, name in direct_results(unit).items()}
    held = sum(_size(s, ready) for s in ready.made.storages if not s.lent and s.name not in places)
    require(record.nbytes + held, f"the arrays of {unit.origin.name}")
    found = []
    for s in ready.made.storages:
        if s.lent:
            found.append(np.ascontiguousarray(arrays[s.given[0]]).reshape(-1))
            continue
        if s.name in places:
            memory = bulk.record_field(record, layout, places[s.name]).reshape(-1)
        else:
            memory = memory_regions.empty(_size(s, ready) // s.type.dtype.itemsize, s.type.dtype)
        size = math.prod(ready.shapes[s.name])
        for k, name in enumerate(s.given):
            memory[k * size : (k + 1) * size] = arrays[name].reshape(-1)
        found.append(memory)
    return [*found, *[bulk.record_field(record, layout, k).reshape(-1)
                      for k in ready.made.results]]


def _size(s: Storage, ready: Ready) -> int:
    return s.slots * math.prod(ready.shapes[s.name]) * s.type.dtype.itemsize


def _start(ready: Ready, arrays: Sequence[Array], scalars: Sequence[object]) -> None:
    """Run it; another thread does, so that Ctrl-C finds this one free, unless it is soon over."""
    control, code = Control(), ready.code.of(ready.work)
    call = code.bind(arrays, (), scalars)
    status = run_ranges([partial(_call, call, control)], 1, control)
    if status is Status.CANCELLED:
        raise KeyboardInterrupt
    if status is not Status.DONE:
        raise EngineError(f"kernel {code.name} ended with {status.name}")


def _call(call: Any, control: Control, worker: int) -> Status:
    status: Status = call(0, 1, control)
    return status


def result(record: Stored, layout: bulk.Record, k: int) -> Stored:
    """One result, in the memory of the record."""
    values = record.values
    assert values is not None
    return from_dense(bulk.record_field(values.reshape(-1), layout, k))
