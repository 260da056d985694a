"""Programs of statements on several threads: nests in wavefronts, in blocks of outer turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.config import Config
from tensorel.errors import EngineError
from tensorel.kernels.imperative.front import STRIDE, FrontKernels, front_kernels
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.compiled import CompiledKernel, Control, compile
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.loops.analysis.wavefront import Wavefront, wavefront
from tensorel.loops.unit import Launch, Unit

Array = npt.NDArray[Any]
#: Statements after which one thread is soon done, and of a block on average that pays.
least_work = 1 << 20
_LEAST_SHARE = 4
#: Of one outer turn between two looks at the progress of other threads.
STRIP_WORK = 1 << 11
_MAX_GROUP = 64
_BLOCKS_PER_WORKER = 8


@dataclass(frozen=True, slots=True)
class Front:
    """The three kernels of a call; ``group`` outer turns are a block, in ``strip`` inner turns."""

    made: FrontKernels
    codes: tuple[CompiledKernel, ...]
    blocks: int
    group: int
    strip: int
    workers: int

    def run(self, arrays: Sequence[Array], scalars: Sequence[object], report: Array) -> bool:
        """Run all; whether nothing went wrong."""
        state = [np.zeros(n, dtype) for dtype, n in self.made.state]
        progress = np.full((self.blocks + 1) * STRIDE, np.iinfo(np.int64).min, np.int64)
        progress[0] = np.iinfo(np.int64).max
        control = Control()
        calls = [code.bind([*arrays, *state, progress, report], (),
                           [*scalars, self.group, self.strip]) for code in self.codes]

        def task(call: Any, low: int, worker: int) -> Status:
            status: Status = Status.DONE if report[0] else call(low, low + 1, control)
            return status

        def go(call: Any, count: int) -> None:
            tasks: list[Callable[[int], Status]] = [
                partial(task, call, k) for k in range(count)]
            status = run_ranges(tasks, self.workers if count > 1 else 1, control)
            if status is Status.CANCELLED:
                raise KeyboardInterrupt
            if status is not Status.DONE:
                raise EngineError(f"a wavefront ended with {status.name}")

        for call, count in zip(calls, (1, self.blocks, 1)):
            go(call, count)
        return not report[0]


def front_of(unit: Unit, launch: Launch, settings: Config) -> Front | None:
    """How a call runs on several threads, if it can and has enough to do."""
    if settings.workers < 2:
        return None
    found = wavefront(unit, launch, least_work)
    if found is None or found.turns < 2:
        return None
    group = _group(found, settings.workers)
    blocks = -(-found.turns // group)
    if found.work < blocks * (least_work // _LEAST_SHARE):
        return None
    made = front_kernels(unit, launch.facts, found)
    codes = [compile(k.kernel, strict=True, disk=settings.disk_cache, effort=settings.effort,
                     checked=settings.bounds) for k in (made.before, made.nest, made.after)]
    return Front(made, tuple(codes), blocks, group,
                 max(1, STRIP_WORK // found.each), settings.workers)


def _group(found: Wavefront, workers: int) -> int:
    """Outer turns of a block."""
    if not found.grouped:
        return 1
    most = found.turns // (_BLOCKS_PER_WORKER * workers)
    return max(1, most if found.inner is None else min(most, _MAX_GROUP))
