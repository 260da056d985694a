"""One run of a kernel step: bound operands, the compiled kernel, the outer loop cut into ranges."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import field, replace
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tensorel.base import memory_regions
from tensorel.base.records import dataclass
from tensorel.config import Config
from tensorel.engines.in_process.plan_state import KernelState, UnforeseenError
from tensorel.errors import EngineError, MemoryLimitError
from tensorel.ir.given import Numbers, is_given, is_same, lifted
from tensorel.ir.nodes import Expr, GivenConst, Read, Source, stated
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.lowering.assembly import Lowered, lower_nest
from tensorel.kernels.lowering.nest import Assembly, Nest, Slot
from tensorel.kernels.lowering.workspaces import speculative, start
from tensorel.kernels.runtime.compiled import (
    Call,
    CompiledKernel,
    Control,
    GrowBuffer,
    compile,
    run_ranges,
)
from tensorel.kernels.runtime.native_pool import run_calls
from tensorel.plan.definitions import replace_exprs
from tensorel.storage.derived import Derived
from tensorel.storage.levels import Compressed, Listed
from tensorel.storage.limits import show_bytes
from tensorel.storage.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]
SMALL_COST = 1e6  # below this Python's threads do not pay: about a millisecond
NATIVE_POOL_COST = 1e7  # a process gets its native pool at the first step of this cost
PIECE_COST = 25e3  # a range of the native pool's work: the last one is waited for
CALLER_COST = 5e7  # below this the caller does its share of the work: Ctrl-C waits for it
RANGE_COST = 2e7  # a range should not take much longer than this: Ctrl-C waits for one
RANGES_PER_WORKER = 8
TAPER = 4.0  # the first range is so many times the last, which others wait for


class Blank:
    """What a dense result is before its kernel runs: nothing yet, where every cell is written;
    zeros, which the system gives to the thread that first writes there; or all the same value."""

    __slots__ = ("dtype", "is_zero", "make", "nbytes", "size")

    def __init__(self, nest: Nest, lowered: Lowered) -> None:
        out, extents = nest.output, nest.extent
        self.size, self.dtype = math.prod([extents[n] for n in out.axes]), lowered.cells
        self.nbytes = self.size * self.dtype.itemsize
        value: Any = out.fill.value
        if lowered.accumulates:
            assert nest.op is not None and nest.op.identity is not None
            value = self.dtype.type(nest.op.identity(self.dtype))
        self.is_zero = False
        if lowered.covers_all and not lowered.accumulates:
            self.make: Callable[..., Array] = memory_regions.empty
        elif lifted(is_same, value, self.dtype.type(0)):
            self.make, self.is_zero = memory_regions.zeros, True
        else:
            self.make = partial(memory_regions.full, value=value)

    def __call__(self) -> Array:
        return self.make(self.size, dtype=self.dtype)

    def room(self) -> Array:
        """Memory for it, to be filled by who uses it."""
        return memory_regions.empty(self.size, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Ready:
    """A nest bound to the formats of its operands, compiled. ``derived``: of dense results, which
    are all alike. ``ran``: on how many workers it has run; ``launches``: how it does so again."""

    nest: Nest
    lowered: Lowered
    kernel: CompiledKernel
    extents: dict[str, int]
    scalars: list[object]
    leaders: tuple[str, ...]
    blank: Blank
    derived: Derived = field(default_factory=Derived)
    ran: set[int] = field(default_factory=set)
    launches: dict[int, Any] = field(default_factory=dict)


def prepare(state: KernelState, values: dict[str, Stored], config: Config,
            counting: bool = False, careful: bool = False) -> Ready:
    """The compiled kernel for the operands as they really are stored. ``careful``: the
    speculative kernel gave a nan."""
    key = (counting, config.strict, careful, config.bounds,
           *[values[n].kind for n in state.step.operands])
    found = state.ready.get(key)
    if found is None and state.numbers is not None:
        assert state.planned is not None
        base = prepare(state.planned, values, config, counting, careful)
        if not state.numbers.hold():
            raise UnforeseenError
        found = state.ready[key] = _ready_for(base, state.numbers)
    if found is None:
        nest = _bound_nest(state.nest, values)
        if not careful and not config.strict:
            nest = speculative(nest)
        lowered = lower_nest(nest, config.strict, counting)
        loops = lowered.kernel
        if config.bounds:  # errors name it
            loops = replace(loops, name=f"of step '{state.step.text}'")
        kernel = compile(loops, config.strict, config.disk_cache, config.effort, config.bounds)
        found = state.ready[key] = Ready(nest, lowered, kernel, nest.extent, [
            v for _, v in lowered.bindings.scalars], _leaders(nest, values), Blank(nest, lowered))
    return found


def _ready_for(base: Ready, numbers: Numbers) -> Ready:
    """The same with other numbers. How it is launched again is kept for all of them."""
    nest, blank, derived = base.nest, base.blank, base.derived
    fill, rest, scalars = nest.output.fill, nest.residual, [numbers.of(v) for v in base.scalars]
    varies = any(map(is_given, base.extents.values()))
    if type(fill) is GivenConst or type(rest) is GivenConst:
        nest = replace(nest, output=replace(nest.output, fill=stated(fill, numbers)),
                       residual=rest if rest is None else stated(rest, numbers))
        blank, derived = Blank(nest, base.lowered), Derived()
    if varies:  # ranges and sizes are others
        nest = replace(nest, extents=tuple([(name, numbers.of(n)) for name, n in nest.extents]))
        blank, derived = Blank(nest, base.lowered), Derived()
        return Ready(nest, base.lowered, base.kernel, nest.extent, scalars, base.leaders, blank,
                     derived, base.ran)
    return Ready(nest, base.lowered, base.kernel, base.extents, scalars, base.leaders, blank,
                 derived, base.ran, base.launches)


def _leaders(nest: Nest, values: dict[str, Stored]) -> tuple[str, ...]:
    """Sparse operands whose first level is the outer loop."""
    found: dict[str, None] = {}
    for r, slot in nest.operands.items():
        if r.indices:
            fmt = values[slot.name].format
            first = r.indices[fmt.order[0]]
            if nest.loops and getattr(first, "name", None) == nest.loops[0] and not fmt.is_dense:
                found[slot.name] = None
    return tuple(found)


def _bound_nest(nest: Nest, values: dict[str, Stored]) -> Nest:
    table: dict[Expr, Expr] = {}
    sources: dict[Source, Source] = {}
    reads = nest.operands
    for read, slot in reads.items():
        source = read.tensor
        assert isinstance(source, Source)
        actual = Slot(slot.name, *values[slot.name].signature, slot.whole, slot.most)
        if actual != slot:
            sources[source] = Source(actual, source.shape, source.dtype, source.fill)
    if not sources:
        return nest
    for read in reads:
        if read.tensor in sources:
            table[read] = Read(sources[read.tensor], tuple(
                replace_exprs(i, table) for i in read.indices))
    residual = None if nest.residual is None else replace_exprs(nest.residual, table)
    output = nest.output
    if output.pattern in table:
        output = replace(output, pattern=table[output.pattern])  # type: ignore[arg-type]
    lets = tuple(replace(let, body=replace_exprs(let.body, table)) for let in nest.lets)
    return replace(nest, body=replace_exprs(nest.body, table), residual=residual, output=output,
                   lets=lets)


@dataclass
class Job:
    """One run of a kernel step."""

    state: KernelState
    values: dict[str, Stored]
    config: Config
    budget: int
    careful: bool = False

    def __post_init__(self) -> None:
        self.step = self.state.step
        self.ready = prepare(self.state, self.values, self.config, careful=self.careful)
        self.nest = self.ready.nest
        self.out = self.nest.output
        self.control = Control(max(self.budget, 0))
        self.extents = self.ready.extents

    def scratch(self) -> dict[str, Array]:
        """Workspaces of one thread: nothing is marked. Values that are not marked are read, and
        their products thrown away; what happens to lie in memory may be slow to multiply."""
        made: dict[str, Array] = {}
        for let in self.nest.lets:
            room = self.extents[let.axis]
            for name, dtype in let.slot.dtypes:  # one more: ``add`` writes before it counts
                made[f"{let.slot.name}.{name}"] = np.full(
                    room + 1, start(let) if name == "val" else 0, dtype)
        return made

    @property
    def scratch_bytes(self) -> int:
        """What ``scratch`` takes."""
        return sum([(self.extents[let.axis] + 1) * np.dtype(dtype).itemsize
                    for let in self.nest.lets for _, dtype in let.slot.dtypes])

    def fitting(self, workers: int, each: int, shared: int = 0) -> int:
        """So many workers that the memory of each fits beside what they share; refused where
        there is no room for one."""
        room = self.budget - shared
        if each > room:
            raise MemoryLimitError(
                f"step '{self.step.text}' would need {show_bytes(each + shared)} of working "
                f"memory; {show_bytes(max(self.budget, 0))} of the memory limit of "
                f"{show_bytes(self.config.memory)} are left",
                needed=each + shared, limit=self.config.memory, step=self.step.text,
                hint="split the axis, or raise the limit with tr.options(memory=...)")
        return min(workers, room // each) if each else workers

    @property
    def outer(self) -> str | None:
        return self.nest.loops[0] if self.nest.loops else None

    def arrays(self, own: dict[str, Array], ready: Ready | None = None) -> list[Array]:
        bindings = (ready or self.ready).lowered.bindings
        return [
            own[name] if not slot else self.values[slot].physical(name)
            for slot, name in bindings.arrays
        ]

    def scalars(self, ready: Ready | None = None) -> list[object]:
        return (ready or self.ready).scalars

    def buffers(self, parts: int) -> dict[str, GrowBuffer]:
        """Growable outputs with room for a share of the estimated result. Room is address
        space: only what is written becomes memory."""
        kernel = self.ready.lowered.kernel
        row = sum(b.dtype.itemsize for b in kernel.buffers)
        room = min(self.step.count * 1.1, self.control.budget / max(row, 1) / 2) / parts
        most = self._nodes() if self.out.assembly is Assembly.LEVELS else {}
        return {b.name: GrowBuffer(b.dtype, int(min(room, most.get(table[0].name, room))) + 16)
                for table in kernel.tables for b in table}

    def _nodes(self) -> dict[str, float]:
        """The most nodes of each level: as many as its axes have cells."""
        found, cells = {}, 1.0
        for k, name in enumerate(self.out.axes):
            cells *= self.extents[name]
            found[f"idx{k}"] = cells
        return found

    @property
    def workers(self) -> int:
        """As planned; a plan may be run with fewer."""
        planned = self.state.threads
        return planned if planned == 1 else min(planned, self.config.workers)

    def ranges(self, workers: int, most: int | None = None, each: int = RANGES_PER_WORKER,
               piece: float = 2 * SMALL_COST) -> list[tuple[int, int]]:
        """The outer loop cut into ranges of about equal work, each worth at least ``piece``
        unless there are fewer than workers."""
        extent = 1 if self.outer is None else self.extents[self.outer]
        if extent == 0 and not self.nest.serial:
            return []
        cost = self.state.cost
        count = 1 if cost < RANGE_COST else math.ceil(cost / RANGE_COST)
        if workers > 1:
            count = max(count, workers * min(max(int(cost / piece), 1), each))
        count = min(count, extent, most or 4096)
        if count <= 1 or self.nest.serial:
            return [(0, extent)]
        return self._cut(extent, count)

    def _cut(self, extent: int, count: int) -> list[tuple[int, int]]:
        """Quantiles of the stored entries of the largest operand that leads the outer loop."""
        leaders = [self.values[name] for name in self.ready.leaders]
        if not leaders:
            return _pairs([0, *(_shares(count) * extent).astype(np.int64).tolist(), extent])
        best = max(leaders, key=lambda s: s.count) if len(leaders) > 1 else leaders[0]
        known = best.derived.ranges
        if known is None:
            known = best.derived.ranges = {}
        found = known.get((extent, count))
        if found is None:
            shares = _shares(count)
            inner = _quantiles(best, shares)
            if inner is None:
                inner = (shares * extent).astype(np.int64)
            inner = np.minimum(np.sort(inner), extent)  # the operand may be read in part
            found = known[extent, count] = _pairs([0, *inner.tolist(), extent])
        return found

    def go(self, tasks: list[Callable[[int], int]], workers: int) -> None:
        self._check(run_ranges(tasks, workers, self.control, small=self.state.cost < CALLER_COST))

    def each(self, calls: list[Call], ranges: list[tuple[int, int]], workers: int) -> None:
        """All ranges, each by the call of its worker (one call: by that)."""
        status = None
        if self.state.cost < CALLER_COST:
            if len(ranges) == 1:
                status = calls[0](*ranges[0], self.control)
            elif workers > 1:
                status = run_calls(calls, packed(ranges), workers, self.control,
                                   self.config.disk_cache, self.state.cost >= NATIVE_POOL_COST)
        if status is not None:
            self._check(status)
        else:
            workers = 1 if self.state.cost < SMALL_COST else workers
            by = calls if len(calls) > 1 else calls * workers
            self.go([lambda w, lo=lo, hi=hi: by[w](lo, hi, self.control)  # type: ignore[misc]
                     for lo, hi in ranges], workers)

    def _check(self, status: Status) -> None:
        if status == Status.DONE:
            return
        if status in (Status.OVER_LIMIT, Status.NO_MEMORY):
            raise MemoryLimitError(
                f"the result of step '{self.step.text}' grew past the memory limit of "
                f"{show_bytes(self.config.memory)}; it was stopped",
                limit=self.config.memory, step=self.step.text,
                hint="ask for fewer rows, keep a sparse factor in the product, or raise the limit "
                "with tr.options(memory=...)")
        raise EngineError(f"step '{self.step.text}' was cancelled")


def packed(ranges: list[tuple[int, int]]) -> bytes:
    """Pairs of int64."""
    return struct.pack(f"{2 * len(ranges)}q", *chain.from_iterable(ranges))


@cache
def _shares(count: int) -> Array:
    """Where ranges end, as parts of the whole, but for the last: each is a little shorter than the
    one before it."""
    sizes = TAPER ** -(np.arange(count) / max(count - 1, 1))
    found: Array = np.cumsum(sizes)[:-1] / sizes.sum()
    return found


def _pairs(bounds: list[int]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in pairwise(bounds) if a < b]


def _quantiles(stored: Stored, share: Array) -> Array | None:
    level = stored.format.levels[0]
    if isinstance(level, (Compressed, Listed)):
        idx = stored.arrays[f"idx{level.depth}"]
        if idx.size == 0:
            return None
        return idx[np.minimum((share * idx.size).astype(np.int64), idx.size - 1)]
    if len(stored.format.levels) > 1 and level.full:
        second = stored.format.levels[1]
        if isinstance(second, Compressed):
            pos = stored.arrays[f"pos{second.depth}"]
            if pos.size == stored.shape[stored.format.order[0]] + 1:
                wanted = pos[0] + share * (int(pos[-1]) - int(pos[0]))
                return np.asarray(np.searchsorted(pos, wanted, side="left"))
    return None
