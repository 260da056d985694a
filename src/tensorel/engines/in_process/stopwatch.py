"""Steps that take far longer than expected are given more threads from then on.

Estimates rest on averages, which hide skew: the rows that a search along edges reaches are longer
than others. So the first runs of a plan are timed, after the one that compiles. Only steps whose
results do not depend on the number of threads are changed: a plan gives the same bits in every
run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorel.config import Config
from tensorel.kernels.lowering.nest import Assembly, Nest
from tensorel.plan.steps.threads import bytes_read, threads_for, work_of
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.engines.in_process.plan_state import KernelState

TIMED_RUNS = 2  # that are timed; the quicker one counts
MIN_SLOWDOWN, MIN_NANOSECONDS = 3.0, 2e6  # a step is changed from these on


class Stopwatch:
    """Counts the runs of a plan that are timed."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs = 0

    def note(self, state: KernelState, seconds: float, values: Mapping[str, Stored],
             config: Config) -> None:
        """Note how long a step took in this run."""
        if self.runs == 0 or state.threads > 1:
            return
        found = state.least = min(state.least, seconds * 1e9)
        if self.runs == TIMED_RUNS and found > max(MIN_NANOSECONDS, MIN_SLOWDOWN * state.cost):
            step, nest = state.step, state.nest
            if _is_independent(nest):
                read = bytes_read([values[n].nbytes for n in step.operands], step.visits)
                work = work_of(nest, found, read, step.bytes_)
                state.threads = threads_for(
                    nest, work, config.workers, config.costs, config.strict)
                state.cost = found

    def finish(self) -> bool:
        """Note the end of a run; whether it was the last to be timed."""
        self.runs += 1
        return self.runs > TIMED_RUNS


def _is_independent(nest: Nest) -> bool:
    """Whether one thread computes each cell of the result, always in the same order."""
    return bool(nest.loops) and nest.loops[0] not in nest.reduced and nest.output.assembly in (
        Assembly.DENSE, Assembly.LEVELS, Assembly.SHARED)
