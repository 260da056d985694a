"""Steps that take far longer than expected are given more threads from then on.

Averages hide skew: the rows that a search reaches are the long ones. How long a step really takes
is seen when it runs, so the first runs of a plan are timed, after the one that compiles. Only steps
whose results do not depend on the number of threads are changed: a plan gives the same bits in
every run."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.config import Config
from tensorel.kernels.spec import Assembly, Nest
from tensorel.plan.physical import KernelStep, Step
from tensorel.plan.threads import bytes_read, threads_for, work_of
from tensorel.storage.stored import Stored

RUNS = 2  # that are timed; the quicker one counts
SLOWER, LONG = 3.0, 2e6  # times the expected cost, and nanoseconds, from which a step is changed


class Stopwatch:
    """Nanoseconds of each step of a plan."""

    __slots__ = ("least", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self.least: dict[int, float] = {}

    def note(self, k: int, step: Step, seconds: float, values: Mapping[str, Stored],
             config: Config) -> None:
        """Step number k took so long in this run."""
        if self.runs == 0 or type(step) is not KernelStep or step.threads > 1:
            return
        found = self.least[k] = min(self.least.get(k, seconds * 1e9), seconds * 1e9)
        if self.runs == RUNS and found > max(LONG, SLOWER * step.cost):
            assert step.nest is not None
            if _is_independent(step.nest):
                read = bytes_read([values[n].nbytes for n in step.operands], step.visits)
                work = work_of(step.nest, found, read, step.bytes_)
                step.threads = threads_for(
                    step.nest, work, config.workers, config.costs, config.strict)
                step.cost = found

    def finish(self) -> bool:
        """A run is over; whether it was the last to be timed."""
        self.runs += 1
        return self.runs > RUNS


def _is_independent(nest: Nest) -> bool:
    """Each cell of the result is computed by one thread, in the same order."""
    return bool(nest.loops) and nest.loops[0] not in nest.reduced and nest.output.assembly in (
        Assembly.DENSE, Assembly.LEVELS, Assembly.SHARED)
