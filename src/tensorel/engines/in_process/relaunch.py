"""Dense results of steps that have run before, on operands that are stored alike.

What ``Job`` works out for each run (ranges, checks, tables of arguments) is the same for all
operands of a kind; only where their arrays lie is not. A kernel that reads tens of megabytes
empties the processor's caches, so that each function and object that a step touches afterwards is
fetched from memory. A launch keeps what stays the same, and touches little."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.config import Config
from tensorel.engines.in_process.kernel_job import (
    CALLER_COST,
    PIECE_COST,
    RANGE_COST,
    Job,
    Ready,
    packed,
)
from tensorel.engines.in_process.plan_state import KernelState
from tensorel.errors import EngineError
from tensorel.ir.nodes import INT64, Call, Local, Read
from tensorel.kernels.loopir.statements import For, Kernel, Status, Store, array
from tensorel.kernels.lowering.nest import Assembly, Nest
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.compiled import CompiledKernel, Control, compile, pointers
from tensorel.storage.stored import COUNT, Stored

Array = np.ndarray[Any, np.dtype[Any]]
RUNS_BEFORE_SUM_KERNEL = 3  # then copies of a result are added up by a kernel that is made for it
MAX_SERIAL_CELLS = 1 << 14  # cells that one thread adds up quicker than two
RANGE_BYTES = 16  # bytes of a range
MAX_CUTS = 256  # of an operand: ways to cut its loop that are remembered
_control = Control()  # nobody cancels what runs in the caller's thread


class Launch:
    """How a step runs on so many workers. Each has a copy of the result if they add to the same
    cells."""

    __slots__ = ("_adder", "_cells", "_copies", "_cut", "_fixed", "_own", "_ranges", "_ready",
                 "_runs", "_scalars", "_slots", "_state", "_workers")

    def __init__(self, state: KernelState, ready: Ready, workers: int) -> None:
        nest, names = ready.nest, ready.lowered.bindings.arrays
        self._state, self._ready, self._workers = state, ready, workers
        self._own = next(k for k, (slot, _) in enumerate(names) if not slot)
        self._slots = tuple([n for n in names if n[0]])
        self._fixed: dict[str, Array] = {}  # the shapes of operands, which a step fixes
        self._copies = workers if is_private(nest, ready) else 1
        self._scalars = ready.kernel.pack(ready.scalars)
        self._cut = (workers, state.cost, *nest.extent.values())
        self._ranges: bytes | None = None
        self._adder: CompiledKernel | None = None
        self._cells = b""
        self._runs = 0

    def __call__(self, ready: Ready, values: dict[str, Stored], config: Config) -> Array | None:
        """The cells of the result; None if it has to be made in the general way this time.
        ``ready``: the kernel with the numbers of this call."""
        own, kernel = self._own, ready.kernel
        scalars = self._scalars if ready is self._ready else kernel.pack(ready.scalars)
        ranges = self._cuts(values, config)
        operands = []
        for slot, name in self._slots:
            stored = values[slot]
            if not stored.sound:
                return None
            if name in stored.arrays:
                operands.append(stored.arrays[name])
            else:
                if slot not in self._fixed:
                    self._fixed[slot] = stored.physical(name)
                operands.append(self._fixed[slot])
        copies = min(self._copies, len(ranges) // RANGE_BYTES)
        blank = ready.blank
        if copies < 2:
            out = blank()
            operands.insert(own, out)
            done = self._run(kernel, ranges, [kernel.table(operands)], scalars)
            return None if done is None else out
        outs = [blank.room() if blank.is_zero else blank() for _ in range(copies)]
        operands.insert(own, outs[0])
        table = kernel.table(operands)
        tables = [[*table[:own], at, *table[own + 1 :]] for at in pointers(outs)]
        done = self._run(kernel, ranges, tables, scalars,
                         outs[0].nbytes if blank.is_zero else 0)
        if done is None:
            return None
        used = [a for a, begun in zip(outs, done) if begun] if blank.is_zero else outs
        for other in used[1:]:
            self._add(used[0], other, config)
        self._runs += 1
        return used[0]

    def _run(self, kernel: CompiledKernel, ranges: bytes, tables: list[list[int]],
             scalars: bytes, cleared: int = 0) -> list[int] | None:
        """Which workers began; None if the threads are busy with something else."""
        status, begun = Status.DONE, [1]
        if len(ranges) > RANGE_BYTES:
            found = native_pool.launch(
                kernel, ranges, tables, scalars, self._workers, cleared, self._own)
            if found is None:
                return None
            status, begun = found
        elif ranges:
            status = kernel.whole(tables[0], scalars, ranges, _control)
        if status:
            raise EngineError(f"step '{self._state.step.text}' was cancelled")
        return begun

    def _cuts(self, values: dict[str, Stored], config: Config) -> bytes:
        """The outer loop cut into ranges, which depend on the operand that leads it."""
        if self._workers == 1 and self._state.cost < RANGE_COST:
            if self._ranges is None:  # as ``Job.ranges`` has them
                nest = self._ready.nest
                extent = self._ready.extents[nest.loops[0]] if nest.loops else 1
                self._ranges = packed([(0, extent)] if extent or nest.serial else [])
            return self._ranges
        leaders = self._ready.leaders
        derived = values[leaders[0]].derived if leaders else None
        if derived is not None and derived.packed is None:
            derived.packed = {}
        known = None if derived is None else derived.packed
        found = self._ranges if known is None else known.get(self._cut)
        if found is None:
            job = Job(self._state, values, config, 0)
            found = packed(job.ranges(self._workers, piece=self._workers * PIECE_COST))
            if known is None:
                self._ranges = found
            else:
                if len(known) >= MAX_CUTS:
                    known.clear()
                known[self._cut] = found
        return found

    def _add(self, to: Array, other: Array, config: Config) -> None:
        """Both copies together in the first."""
        if self._adder is None:
            nest, cells, parts = self._ready.nest, to.size, self._workers
            if self._runs < RUNS_BEFORE_SUM_KERNEL or not keeps_dtype(nest, to.dtype):
                to[...] = combined(nest, to, other)
                return
            self._adder = compile(_adder(nest, to.dtype), False, config.disk_cache, config.effort,
                                  config.bounds)
            self._cells = packed([(0, cells)] if cells < MAX_SERIAL_CELLS else [
                (cells * k // parts, cells * (k + 1) // parts) for k in range(parts)])
        if self._run(self._adder, self._cells, [self._adder.table([to, other])], b"") is None:
            to[...] = combined(self._ready.nest, to, other)


def launch_for(state: KernelState, ready: Ready, workers: int) -> Launch | None:
    """None for steps that need more than operands and the cells of a result."""
    nest, lowered = ready.nest, ready.lowered
    plain = nest.output.assembly is Assembly.DENSE and not nest.lets and not nest.speculative \
        and not (nest.counted and lowered.accumulates) and not lowered.kernel.tables
    stored = all(name != COUNT for slot, name in lowered.bindings.arrays if slot)
    if plain and stored and len(ready.leaders) <= 1 and state.cost < CALLER_COST:
        return Launch(state, ready, workers)
    return None


def is_private(nest: Nest, ready: Ready) -> bool:
    """Whether several ranges add to the same cells."""
    return ready.lowered.accumulates and (not nest.loops or nest.loops[0] in nest.reduced)


def combined(nest: Nest, a: Array, b: Array) -> Array:
    """Both together, in the memory of the first where the operator can."""
    assert nest.op is not None
    meaning = nest.op.meaning
    with np.errstate(all="ignore"):
        if keeps_dtype(nest, a.dtype):
            return meaning(a, b, out=a)  # type: ignore[return-value]
        return np.asarray(meaning(a, b)).astype(a.dtype, copy=False)


def keeps_dtype(nest: Nest, dtype: DType) -> bool:
    """Whether the operator makes of two values a third of the same dtype."""
    assert nest.op is not None
    return isinstance(nest.op.meaning, np.ufunc) and _gives(nest.op.meaning, dtype) == dtype


@cache
def _gives(function: np.ufunc, dtype: DType) -> DType:
    """The dtype of a function of two such values."""
    return function.resolve_dtypes((dtype, dtype, None))[-1]


def _adder(nest: Nest, dtype: DType) -> Kernel:
    """to[k] = op(to[k], other[k])"""
    assert nest.op is not None
    to, other = array("to", dtype), array("other", dtype)
    k, lo, hi = (Local(n, INT64) for n in ("k", "lo", "hi"))
    both = Call(nest.op, (Read(to, (k,)), Read(other, (k,))))
    return Kernel("add", (to, other), frozenset({"to"}), (), (), lo, hi,
                  (For(k, lo, hi, (Store(to, k, both),)),))
