"""On how many threads a kernel runs: where its predicted time is least.

Threads divide the work; they do not divide the traffic with the memory, nor the system's work of
giving out fresh pages, nor what they cost themselves: a start each, and a copy of a dense result
each where all of them add to all of it. So kernels that mostly write stay on one."""

from __future__ import annotations

from collections.abc import Iterable

from tensorel.base.records import dataclass
from tensorel.costs import Costs
from tensorel.ir.given import about, plain
from tensorel.kernels.lowering.nest import Assembly, Nest


@dataclass(frozen=True, slots=True)
class Work:
    """Of one kernel: steps, bytes that it reads and writes, cells of a result that every thread
    needs a copy of; whether its parts are collected by Python's threads."""

    cost: float
    read: float
    written: float
    copied: float = 0.0
    collected: bool = False

    def time(self, threads: int, costs: Costs) -> float:
        """Predicted nanoseconds."""
        if threads == 1:
            return self.cost
        start = costs.thread_collect if self.collected else costs.thread
        written = self.written * (2.0 if self.collected else 1.0)  # pieces, then the whole
        serial = self.read * costs.memory + written * costs.fresh
        own = self.copied * (costs.dense_write + costs.write_dense)
        return max(self.cost / threads, serial) + (threads - 1) * (start + own)


def bytes_read(sizes: Iterable[float], visits: float) -> float:
    """Of operands with so many bytes: of each no more than a value and a coordinate a visit."""
    return sum([min(size, 16.0 * visits) for size in sizes])


def work_of(nest: Nest, cost: float, read: float, written: float) -> Work:
    """The work of a nest that reads and writes so many bytes."""
    out = nest.output
    outer = nest.loops[0] if nest.loops else None
    shared = out.assembly is Assembly.DENSE and (outer is None or outer in nest.reduced)
    cells = about([nest.extent[n] for n in out.axes]) if shared else 0.0
    if out.assembly is Assembly.BUCKET:  # each thread counts its own part
        cells = about([nest.extent[out.axes[0]]])
    return Work(cost, read, written, cells, out.assembly in (Assembly.LEVELS, Assembly.LIST))


def threads_for(nest: Nest, work: Work, workers: int, costs: Costs, strict: bool) -> int:
    """The number of threads, at most ``workers``; one, unless more are clearly better."""
    outer = nest.loops[0] if nest.loops else None
    assembly = nest.output.assembly
    across = outer is not None and outer in nest.reduced
    if workers == 1 or nest.serial or (across and (assembly is Assembly.LEVELS or strict)):
        return 1
    most = min(workers, 1 if outer is None else plain(nest.extent[outer]))
    counts = sorted({*range(2, min(most, 8) + 1), *(most * k // 8 for k in range(1, 9))} - {0, 1})
    best = min(counts, key=lambda t: work.time(t, costs), default=1)
    return best if work.time(best, costs) * costs.thread_gain < work.time(1, costs) else 1
