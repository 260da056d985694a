"""Running a kernel step: what each kind of assembly allocates, and how its parts make a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.base import memory_regions
from tensorel.config import Config
from tensorel.engines.in_process.appending import Collector
from tensorel.engines.in_process.combining import combine_list, repeat_missing
from tensorel.engines.in_process.kernel_job import PIECE_COST, SMALL_COST, Job, Ready, prepare
from tensorel.engines.in_process.plan_state import KernelState
from tensorel.engines.in_process.relaunch import combined, is_private, launch_for
from tensorel.ir.nodes import Const
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.lowering.cells import cell_loops
from tensorel.kernels.lowering.compressed_rows import MAX_LISTED_COLUMNS
from tensorel.kernels.lowering.nest import Assembly
from tensorel.kernels.runtime.buffers import GrowBuffer
from tensorel.plan.physical import KernelStep
from tensorel.plan.slot_facts import index_dtype
from tensorel.storage.convert import to_format
from tensorel.storage.derived import Derived
from tensorel.storage.format import PhysicalArrays
from tensorel.storage.sorting import MIN_NATIVE_ENTRIES, SORT_BYTES
from tensorel.storage.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]
PIECES_PER_WORKER = 24  # where ranges are collected: those that wait are memory beside the result


def run_kernel(state: KernelState, values: dict[str, Stored], config: Config, budget: int
               ) -> Stored:
    """The result of a kernel step."""
    assembly = state.nest.output.assembly
    if assembly is Assembly.DENSE:
        found = _launched(state, values, config, budget)
        if found is not None:
            return found
    run = _RUNNERS[assembly.value]
    job = Job(state, values, config, budget)
    found = run(job)
    if job.nest.speculative and any(np.isnan(a).any() for a in found.arrays.values()):
        return run(Job(state, values, config, budget, careful=True))
    return found


def make_ready(state: KernelState, values: dict[str, Stored], config: Config) -> None:
    """Lower and compile, or load, before the clock of the step starts."""
    prepare(state, values, config)
    if state.nest.output.assembly is Assembly.BUCKET:
        prepare(state, values, config, counting=True)


# -- dense ------------------------------------------------------------------------------------


def _launched(state: KernelState, values: dict[str, Stored], config: Config, budget: int
              ) -> Stored | None:
    """The result by a launch kept from earlier runs; None where there is none."""
    ready = prepare(state, values, config)
    workers = 1 if state.threads == 1 else min(state.threads, config.workers)
    if workers > 1 and workers * ready.blank.nbytes > budget and is_private(ready.nest, ready):
        return None  # copies of the result do not fit for so many
    if workers not in ready.ran:  # the first run may be the last
        ready.ran.add(workers)
        return None
    if workers not in ready.launches:
        ready.launches[workers] = launch_for(state, ready, workers)
    launch = ready.launches[workers]
    if launch is None:
        return None
    cells = launch(ready, values, config)
    return None if cells is None else _finish_dense(state.step, cells, ready)


def _finish_dense(step: KernelStep, cells: Array, ready: Ready) -> Stored:
    """The result; what was added up in double precision is rounded."""
    if cells.dtype != step.dtype:
        with np.errstate(all="ignore"):
            cells = cells.astype(step.dtype)
    return _finish(step, {"val": cells}, ready.derived)


def _run_dense(job: Job) -> Stored:
    nest, ready = job.nest, job.ready
    accumulates = ready.lowered.accumulates
    private = is_private(nest, ready)
    workers, counted = job.workers, nest.counted and accumulates
    if workers > 1 or counted or nest.lets:  # there is more than the result, which was asked for
        made = ready.blank.nbytes + (8 * ready.blank.size if counted else 0)
        workers = job.fitting(workers, job.scratch_bytes + (made if private else 0),
                              0 if private else made)
    ranges = job.ranges(workers, piece=workers * PIECE_COST)
    sets = workers if private or nest.lets else 1
    owned: list[dict[str, Array]] = []
    for k in range(max(min(sets, len(ranges)), 1)):
        if k and not private:
            owned.append(owned[0] | job.scratch())
            continue
        own = {"out": ready.blank()}
        if counted:
            own["seen"] = np.zeros(ready.blank.size, np.int64)
        owned.append(own | job.scratch() if nest.lets else own)
    calls = [ready.kernel.bind(job.arrays(own), (), ready.scalars) for own in owned]

    job.each(calls, ranges, workers)
    result = owned[0]
    for other in owned[1:] if private else ():
        assert nest.op is not None
        result["out"] = combined(nest, result["out"], other["out"])
        if "seen" in result:
            result["seen"] += other["seen"]
    values = result["out"]
    if "seen" in result:
        assert isinstance(nest.residual, Const) and nest.op is not None
        total = math.prod(job.extents[n] for n in nest.reduced)
        values = repeat_missing(nest.op, values, result["seen"], total, nest.residual)
    return _finish_dense(job.step, values, ready)


def _finish(step: KernelStep, arrays: PhysicalArrays,
            alike: Derived | None = None) -> Stored:
    """The kernel's arrays as a stored tensor, converted if another format is wanted. ``alike``:
    what such results have in common, to be noted at the first."""
    fmt = step.direct if step.direct is not None else step.target.format
    made = Stored(fmt, step.shape, step.dtype, step.fill.value, arrays,
                  alike.copy() if alike else Derived())
    if not alike:
        made.derived.fill = step.fill
    if alike is not None and not alike:
        alike.fill, alike.signature, alike.kind = step.fill, made.signature, made.kind
        alike.nbytes, alike.sound = made.nbytes, made.sound
    return made if step.finish is None else to_format(made, step.finish)


# -- shared patterns ----------------------------------------------------------------------------


def _run_shared(job: Job) -> Stored:
    """New values beside the index arrays of an operand."""
    assert job.out.pattern is not None
    operand = job.values[job.out.pattern.tensor.data.name]  # type: ignore[attr-defined]
    values = memory_regions.empty(operand.arrays["val"].size, job.out.dtype)
    workers = job.workers
    ranges = job.ranges(workers, piece=workers * PIECE_COST)
    calls = [job.ready.kernel.bind(job.arrays({"val": values} | job.scratch()), (), job.scalars())
             for _ in range(max(min(workers, len(ranges)), 1) if job.nest.lets else 1)]
    job.each(calls, ranges, workers)
    made = Stored(operand.format, job.step.shape, job.step.dtype, job.step.fill.value,
                  operand.arrays | {"val": values})
    return made if job.step.finish is None else to_format(made, job.step.finish)


# -- levels -----------------------------------------------------------------------------------


def _run_levels(job: Job) -> Stored:
    nest, out = job.nest, job.out
    parallel = job.outer is not None and job.outer not in nest.reduced
    rows = math.prod(job.extents[n] for n in out.axes[: out.dense])
    workers = job.fitting(
        job.workers if parallel else 1, _workspace_bytes(job) + job.scratch_bytes,
        (rows + 1) * out.place_dtype.itemsize)
    ranges = job.ranges(workers, each=PIECES_PER_WORKER) if parallel else job.ranges(1, most=1)
    pos: Array = np.zeros(rows + 1, out.place_dtype)
    stride = rows // job.extents[out.axes[0]] if out.dense and ranges else 0

    def place(k: int, before: dict[str, int]) -> None:
        """Sums over a range become sums from the start."""
        if stride:
            lo, hi = ranges[k]
            pos[lo * stride + 1 : hi * stride + 1] += before[f"idx{out.dense}"]

    joined = _appended(job, ranges, workers,
                       lambda: _workspace(job) | job.scratch() | {"pos": pos}, place)
    return _finish(job.step, _level_arrays(job, joined, pos))


def _appended(job: Job, ranges: list[tuple[int, int]], workers: int,
              own: Callable[[], dict[str, Array]],
              place: Callable[[int, dict[str, int]], None]) -> dict[str, Array]:
    """Run a kernel with growable outputs; the pieces of all ranges, joined in order."""
    kernel, scalars = job.ready.kernel, job.scalars()
    whole = job.buffers(1)
    if workers == 1:
        call = kernel.bind(job.arrays(own()), list(whole.values()), scalars)
        job.each([call], ranges, 1)
        return _taken(whole)
    spaces: list[dict[str, Array] | None] = [None] * workers
    collector = Collector(whole, lambda: job.buffers(len(ranges)), job.control, place,
                          _starts(whole))

    def task(k: int, lo: int, hi: int) -> Callable[[int], int]:
        def run(worker: int) -> int:
            space = spaces[worker]
            if space is None:
                space = spaces[worker] = own()
            buffers = collector.lend()
            status = kernel.run(job.arrays(space), list(buffers.values()), scalars, lo, hi,
                                job.control)
            if status == Status.DONE and not collector.give(k, buffers):
                return Status.OVER_LIMIT
            return status

        return run

    job.go([task(k, lo, hi) for k, (lo, hi) in enumerate(ranges)], workers)
    return _taken(whole)


def _starts(buffers: dict[str, GrowBuffer]) -> dict[str, str]:
    """Of the buffers that say where the nodes below begin: which buffer holds these."""
    return {name: f"idx{name[3:]}" for name in buffers if name.startswith("pos")}


def _taken(buffers: dict[str, GrowBuffer]) -> dict[str, Array]:
    """Where the nodes below begin, and at last where they end."""
    below = _starts(buffers)
    ends = {name: buffers[below[name]].length for name in below}
    return {name: b.close(ends[name]) if name in below else b.take()
            for name, b in buffers.items()}


def _has_workspace(job: Job) -> bool:
    return any(n == "w_val" and not slot for slot, n in job.ready.lowered.bindings.arrays)


def _workspace_bytes(job: Job) -> int:
    """What ``_workspace`` takes, bits included."""
    room = job.extents[job.out.axes[-1]] if _has_workspace(job) else 0
    return room * (job.out.dtype.itemsize + (8 if job.nest.counted else 0)) + room // 7


def _workspace(job: Job) -> dict[str, Array]:
    out, nest = job.out, job.nest
    if not _has_workspace(job):
        return {}
    assert nest.op is not None and nest.op.identity is not None
    room = job.extents[out.axes[-1]]
    space: dict[str, Array] = {
        "w_val": np.full(room, nest.op.identity(out.dtype), out.dtype),
        "w_seen": np.zeros(room if nest.counted else 0, np.int64),
        "w_list": np.empty(MAX_LISTED_COLUMNS, np.int64),
    }
    words = room
    for k in range(0 if out.dense_tail else out.bitmap_levels):
        words = (words + 63) // 64
        space[f"w_bits{k}"] = np.zeros(max(words, 1), np.uint64)
    return space


def _level_arrays(job: Job, joined: dict[str, Array], pos: Array) -> PhysicalArrays:
    out = job.out
    rank = len(out.axes) - out.dense_tail
    arrays: PhysicalArrays = {}
    for level in range(out.dense, rank):
        if level > out.dense:
            arrays[f"pos{level}"] = unwrapped(joined[f"pos{level}"], joined["val"].size)
        elif out.dense:
            arrays[f"pos{level}"] = unwrapped(pos, joined[f"idx{level}"].size)
        elif rank > 1 or out.dense_tail:
            arrays["pos0"] = np.array([0, joined["idx0"].size], index_dtype(joined["val"].size))
        arrays[f"idx{level}"] = joined[f"idx{level}"]
    arrays["val"] = joined["val"]
    return arrays


def unwrapped(pos: Array, total: int) -> Array:
    """Running sums in the width of their total. A plan's bound may be passed when it runs again
    on more data; then 32 bits wrapped around, but the differences are still right."""
    if pos.dtype.itemsize == 4 and total >= 2**31:
        return _bounds_of(np.diff(pos).view(np.uint32), total)
    return pos.astype(index_dtype(total), copy=False)


def _bounds_of(counts: Array, total: int) -> Array:
    pos = np.empty(counts.size + 1, dtype=index_dtype(total))
    pos[0] = 0
    np.cumsum(counts, dtype=pos.dtype, out=pos[1:])
    return pos


# -- lists ------------------------------------------------------------------------------------


def _set_aside(job: Job) -> None:
    """Leave room for sorting a list whose cells are come to again, so that what cannot be sorted
    is not collected."""
    row = sum([b.dtype.itemsize for b in job.ready.lowered.kernel.buffers])
    room = job.control.budget
    if room // row >= MIN_NATIVE_ENTRIES:
        job.control.budget = max(room * row // (row + SORT_BYTES), MIN_NATIVE_ENTRIES * row)


def _run_list(job: Job) -> Stored:
    nest, out, step = job.nest, job.out, job.step
    workers = job.workers
    if not nest.reduced.isdisjoint(cell_loops(nest)[0]):
        _set_aside(job)
    joined = _appended(job, job.ranges(workers), workers, job.scratch, lambda k, before: None)
    order = step.order or tuple(range(len(step.shape)))
    coords = [joined[f"idx{k}"] for k in range(len(out.axes))]
    by_axis = [coords[order.index(a)] for a in range(len(order))]
    target = step.finish or step.target.format
    return combine_list(by_axis, joined["val"], step.shape, step.fill.value, nest.op, target)


# -- buckets ----------------------------------------------------------------------------------


def _run_bucket(job: Job) -> Stored:
    """Count, turn counts into places, scatter. Each worker has a part of the outer loop, in both:
    the entries of its part follow those of the parts before in every bucket."""
    workers = 1 if job.state.cost < 2 * SMALL_COST else job.workers
    parts = [job.ranges(1)] if workers == 1 else [
        [r] for r in job.ranges(workers, most=workers, each=1)]

    def run(ready: Ready, own: list[dict[str, Array]]) -> None:
        calls = [ready.kernel.bind(job.arrays(o | job.scratch(), ready), (), job.scalars(ready))
                 for o in own]
        if len(calls) == 1:
            job.each(calls, parts[0], 1)
        else:
            job.go([lambda w, c=c, r=r: c(*r[0], job.control)  # type: ignore[misc]
                    for c, r in zip(calls, parts)], workers)

    places = job.out.place_dtype
    rows = job.extents[job.out.axes[0]]
    job.fitting(1, len(parts) * job.scratch_bytes + rows * (
        2 * (len(parts) + 1) * places.itemsize + 8))
    counts: Array = np.zeros((max(len(parts), 1), rows), places)
    run(prepare(job.state, job.values, job.config, counting=True),
        [{"counts": counts[k]} for k in range(len(parts))])
    whole = counts.sum(axis=0, dtype=np.int64) if len(counts) > 1 else counts[0]
    total = int(whole.sum(dtype=np.int64))
    pos = _bounds_of(whole, total)
    job.fitting(1, total * (job.out.index_dtypes[1].itemsize + job.out.dtype.itemsize), (
        rows * (len(parts) + 2) * places.itemsize))
    made: dict[str, Array] = {
        "idx1": memory_regions.empty(total, job.out.index_dtypes[1]),
        "val": memory_regions.empty(total, job.out.dtype)}
    counts[1:] = np.cumsum(counts[:-1], axis=0)
    counts[0] = 0
    counts += pos[:-1].astype(places)
    run(job.ready, [made | {"next": counts[k]} for k in range(len(parts))])
    return _finish(job.step, {"pos1": pos} | made)


_RUNNERS: dict[str, Callable[[Job], Stored]] = {
    Assembly.DENSE.value: _run_dense, Assembly.LEVELS.value: _run_levels,
    Assembly.LIST.value: _run_list, Assembly.BUCKET.value: _run_bucket,
    Assembly.SHARED.value: _run_shared,
}
