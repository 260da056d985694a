"""One kernel that visits the rows of a frame: it makes columns of them, or aggregates of groups.

Threads share ranges of rows. What a range writes is its own: rows go behind the start of the range
or into buffers of its own, groups into accumulators of the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from tensorel import config
from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.base import memory_regions
from tensorel.engines.rows.frames import (
    ROW,
    Arrays,
    Each,
    Frame,
    Place,
    Step,
    Test,
    locals_in,
    moved_step,
    step_parts,
)
from tensorel.engines.rows.updates import Update, merged, parts_of, reduced
from tensorel.engines.rows.vectors import Array
from tensorel.errors import MemoryLimitError
from tensorel.ir.build import plus, times
from tensorel.ir.nodes import INT64, Call, DType, Expr, Local, Read, Source, const
from tensorel.kernels.loopir import statements
from tensorel.kernels.loopir.statements import (
    Append,
    Assign,
    Buffer,
    For,
    If,
    Kernel,
    Status,
    Stmt,
    Store,
)
from tensorel.kernels.runtime.buffers import Control, GrowBuffer
from tensorel.kernels.runtime.compiled import CompiledKernel, compile
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage.limits import require

_LO, _HI = Local("lo", INT64), Local("hi", INT64)
_COUNT = Local("count", INT64)
_WRONG, _FOUND = Local("wrong", INT64), statements.array("wrongs", INT64)
_ZERO = const(0, INT64)
MIN_THREADED_ROWS = 1 << 15
RANGES_PER_WORKER = 4
MAX_GROUP_BYTES = 1 << 28  # of accumulators of all threads


class Pipelines:
    """Runs the kernels of one query."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.control = Control(config.current().memory)
        self.overflows = arrays.overflows
        self.found = np.zeros(1, np.int64)  # marks that were met

    # -- rows --------------------------------------------------------------------------------
    def collect(self, frame: Frame, values: Sequence[Expr]) -> tuple[int, list[Array]]:
        """How many rows go through the steps, and the values there."""
        if frame.count == 0:
            return 0, [np.empty(0, v.dtype) for v in values]
        if frame.expands:
            return self._appended(frame, values)
        return self._written(frame, values)

    def _written(self, frame: Frame, values: Sequence[Expr]) -> tuple[int, list[Array]]:
        """At most one row for each that is visited: into arrays of their length."""
        outs = [statements.array(f"out{k}", v.dtype) for k, v in enumerate(values)]
        compact = frame.is_compact
        report = statements.array("report", INT64)
        at: Expr = ROW if compact else _COUNT
        sink: list[Stmt] = [Store(o, at, v) for o, v in zip(outs, self._plain(values))]
        if not compact:
            sink.append(Assign(_COUNT, plus(_COUNT, 1)))
        body = self._loop(frame, tuple(sink), values, self.overflows.wanted(*values))
        written = list(outs)
        if not compact:
            body = (Assign(_COUNT, _LO), *body,
                    Store(report, const(0, INT64), Call(ops.subtract, (_COUNT, _LO))))
            written.append(report)
        require(sum(v.dtype.itemsize for v in values) * frame.count,
                f"{len(values)} columns of {frame.count} rows")
        made = [memory_regions.empty(frame.count, v.dtype) for v in values]
        spans = self._spans(frame.count)
        kept = np.zeros((len(spans), 1), np.int64)
        kernel, arrays, numbers = self._kernel(body, frame, values, written, ())

        def task(k: int, worker: int) -> Status:
            own = made if compact else [*made, kept[k]]
            call = kernel.bind([*own, *arrays], (), numbers)
            return call(*spans[k], self.control)

        self._each(len(spans), task)
        if compact:
            return frame.count, made
        return self._closed(spans, kept[:, 0].tolist(), made)

    def _closed(self, spans: Sequence[tuple[int, int]], kept: Sequence[int], made: list[Array]
                ) -> tuple[int, list[Array]]:
        """Ranges close up."""
        total = sum(kept)
        found = []
        for array in made:
            out = array[:total] if len(spans) == 1 else np.concatenate(
                [array[lo:lo + n] for (lo, _), n in zip(spans, kept)])
            found.append(out.copy() if len(spans) == 1 and total < len(array) // 2 else out)
        return total, found

    def collect_counted(self, frame: Frame, values: Sequence[Expr]) -> tuple[int, list[Array]]:
        """As ``collect``, where visiting rows twice is cheaper than moving what is written: they
        are counted first, so that each range writes to its place."""
        spans = self._spans(frame.count)
        report, start = (statements.array(n, INT64) for n in ("report", "start"))
        zero = const(0, INT64)
        counting = (Assign(_COUNT, zero), *self._loop(
            frame, (Assign(_COUNT, plus(_COUNT, 1)),), ()), Store(report, zero, _COUNT))
        counts = np.zeros((len(spans), 1), np.int64)
        kernel, arrays, numbers = self._kernel(counting, frame, (), (report,), ())
        self._each(len(spans), lambda k, worker: kernel.bind(
            [counts[k], *arrays], (), numbers)(*spans[k], self.control))
        total = int(counts.sum())
        starts = np.cumsum(counts, axis=0) - counts
        require(sum(v.dtype.itemsize for v in values) * total,
                f"{len(values)} columns of {total} rows")
        outs = [statements.array(f"out{k}", v.dtype) for k, v in enumerate(values)]
        sink = (*[Store(o, _COUNT, v) for o, v in zip(outs, self._plain(values))],
                Assign(_COUNT, plus(_COUNT, 1)))
        body = (Assign(_COUNT, Read(start, (zero,))), *self._loop(
            frame, sink, values, self.overflows.wanted(*values)))
        made = [memory_regions.empty(total, v.dtype) for v in values]
        writing, arrays, numbers = self._kernel(body, frame, values, (*outs, start), ())
        self._each(len(spans), lambda k, worker: writing.bind(
            [*made, starts[k], *arrays], (), numbers)(*spans[k], self.control))
        return total, made

    def _appended(self, frame: Frame, values: Sequence[Expr]) -> tuple[int, list[Array]]:
        """Any number of rows for each that is visited: into buffers that grow."""
        values = values or [const(True)]
        table = tuple([Buffer(f"out{k}", v.dtype) for k, v in enumerate(values)])
        body = self._loop(frame, (Append(table, tuple(self._plain(values))),), values,
                          self.overflows.wanted(*values))
        kernel, arrays, numbers = self._kernel(body, frame, values, (), (table,))
        spans = self._spans(frame.count)
        made = [[GrowBuffer(b.dtype) for b in table] for _ in spans]
        self._each(len(spans), lambda k, worker: kernel.bind(arrays, made[k], numbers)(
            *spans[k], self.control))
        columns = [[b.take() for b in column] for column in zip(*made)]
        found = [c[0] if len(c) == 1 else np.concatenate(c) for c in columns]
        return int(found[0].size), found

    # -- groups ------------------------------------------------------------------------------
    def aggregate(self, frame: Frame, group: Expr | None, groups: int, updates: Sequence[Update]
                  ) -> list[Array]:
        """For each update its value in each group; ``group``: the number of that of a row."""
        if frame.count == 0 or not updates:
            return [np.full(groups, u.start, u.dtype) for u in updates]
        if group is None:
            return self._totals(frame, updates)
        kinds: tuple[DType, ...] = (INT64, FLOAT64)
        widths = {d: sum(u.dtype is d for u in updates) for d in kinds}
        tables = {d: statements.array(f"groups_{d.name}", d) for d, w in widths.items() if w}
        number, sink = Local("group", INT64), list[Stmt]()
        sink.append(Assign(number, self.overflows.plain(group)))
        offsets = dict.fromkeys(tables, 0)
        for u in self._plain_updates(updates):
            place = plus(times(number, widths[u.dtype]), offsets[u.dtype])
            offsets[u.dtype] += 1
            table = tables[u.dtype]
            store = Store(table, place, u.combined(Read(table, (place,))))
            sink.append(store if u.condition is None else If(u.condition, (store,)))
        parts = [group, *parts_of(updates)]
        body = self._loop(frame, tuple(sink), parts, self._of_updates(updates, group))
        size = 8 * groups * len(updates)
        require(size, f"{len(updates)} aggregates of {groups} groups")
        workers = max(min(config.current().workers, MAX_GROUP_BYTES // max(size, 1),
                          frame.count // max(groups, MIN_THREADED_ROWS)), 1)
        starts = {d: np.array([u.start for u in updates if u.dtype is d], d) for d in tables}
        made = [[np.tile(starts[d], groups) for d in tables] for _ in range(workers)]
        kernel, arrays, numbers = self._kernel(body, frame, parts, tuple(tables.values()), ())
        calls = [kernel.bind([*m, *arrays], (), numbers) for m in made]
        spans = self._spans(frame.count, workers)
        self._each(len(spans), lambda k, worker: calls[worker](*spans[k], self.control), workers)
        found = [dict(zip(tables, m)) for m in made]
        return merged(found, updates, widths)

    def _totals(self, frame: Frame, updates: Sequence[Update]) -> list[Array]:
        """Without groups: accumulators are variables."""
        sums = [Local(f"sum{k}", u.dtype) for k, u in enumerate(updates)]
        first = [Assign(s, const(u.start, u.dtype)) for s, u in zip(sums, updates)]
        sink: list[Stmt] = []
        for s, u in zip(sums, self._plain_updates(updates)):
            sink.append(Assign(s, u.where_it_holds(s)))
        outs = [statements.array(f"out{k}", u.dtype) for k, u in enumerate(updates)]
        parts = parts_of(updates)
        body = (*first, *self._loop(frame, tuple(sink), parts, self._of_updates(updates)),
                *[Store(o, const(0, INT64), s) for o, s in zip(outs, sums)])
        kernel, arrays, numbers = self._kernel(body, frame, parts, outs, ())
        spans = self._spans(frame.count)
        made = [[np.empty(len(spans), u.dtype)] for u in updates]
        self._each(len(spans), lambda k, worker: kernel.bind(
            [*[m[0][k:k + 1] for m in made], *arrays], (), numbers)(*spans[k], self.control))
        return [reduced(u, m[0]) for u, m in zip(updates, made)]

    def running(self, rows: int, new: Expr, updates: Sequence[Update]) -> list[Array]:
        """For each update its value in all rows of a group up to each row. Groups lie one after the
        other; ``new``: the first row of one."""
        sums = [Local(f"sum{k}", u.dtype) for k, u in enumerate(updates)]
        outs = [statements.array(f"out{k}", u.dtype) for k, u in enumerate(updates)]
        first: list[Stmt] = [Assign(s, const(u.start, u.dtype)) for s, u in zip(sums, updates)]
        sink: list[Stmt] = [If(new, tuple(first))]
        for s, u, o in zip(sums, self._plain_updates(updates), outs):
            change = Assign(s, u.combined(s))
            sink += [change if u.condition is None else If(u.condition, (change,)),
                     Store(o, ROW, s)]
        frame, parts = Frame(rows, (), {}), [new, *parts_of(updates)]
        body = (*first, *self._loop(frame, tuple(sink), parts, self._of_updates(updates)))
        kernel, arrays, numbers = self._kernel(body, frame, parts, outs, ())
        made = [memory_regions.empty(rows, u.dtype) for u in updates]
        self._each(1, lambda k, worker: kernel.bind([*made, *arrays], (), numbers)(
            0, rows, self.control))
        return made

    # -- whole numbers that overflow -----------------------------------------------------------
    def _plain(self, values: Sequence[Expr]) -> list[Expr]:
        return [self.overflows.plain(v) for v in values]

    def _plain_updates(self, updates: Sequence[Update]) -> list[Update]:
        plain = self.overflows.plain
        return [Update(u.op, plain(u.value), None if u.condition is None else plain(u.condition))
                for u in updates]

    def _of_updates(self, updates: Sequence[Update], *others: Expr) -> Expr | None:
        """The marks that updates meet."""
        return self.overflows.wanted(*others, *[
            u.value if u.condition is None else Call(
                ops.where, (u.condition, u.value, const(0, u.value.dtype))) for u in updates])

    def _plain_step(self, step: Step) -> Step:
        return moved_step(step, {e: self.overflows.plain(e) for e in step_parts(step)})

    # -- kernels -----------------------------------------------------------------------------
    def _loop(self, frame: Frame, sink: tuple[Stmt, ...], used: Iterable[Expr],
              wrong: Expr | None = None) -> tuple[Stmt, ...]:
        """The loop over rows, with the steps that are needed. ``wrong``: the marks of values."""
        needed = locals_in(used)
        body = (*_noted(wrong), *sink)
        for step in reversed(frame.steps):
            if isinstance(step, Place) and step.target not in needed:
                continue
            needed |= locals_in(step_parts(step))
            wrong = self.overflows.wanted(*step_parts(step))
            body = (*_noted(wrong), *_wrapped(self._plain_step(step), body))
        return (For(ROW, _LO, _HI, body),)

    def _kernel(self, body: tuple[Stmt, ...], frame: Frame, used: Iterable[Expr],
                written: Sequence[Source], tables: tuple[tuple[Buffer, ...], ...]
                ) -> tuple[CompiledKernel, list[Array], list[object]]:
        """The kernel, the arrays behind those that it writes, and the numbers."""
        read = _in_order([*[p for s in frame.steps for p in step_parts(s)], *used])
        sources = [e for e in read if isinstance(e, Source) and e in self.arrays.data]
        numbers = [e for e in read if isinstance(e, Local) and e in self.arrays.numbers]
        found = []
        if not self.overflows.marks.keys().isdisjoint([e for e in read if isinstance(e, Local)]):
            written, found = [*written, _FOUND], [self.found]
            bits = Call(ops.bitwise_or, (Read(_FOUND, (_ZERO,)), _WRONG))
            body = (Assign(_WRONG, _ZERO), *body, If(
                Call(ops.not_equal, (_WRONG, _ZERO)), (Store(_FOUND, _ZERO, bits),)))
        kernel = Kernel("rows", (*written, *sources), frozenset(str(w.data) for w in written),
                        tables, tuple(numbers), _LO, _HI, body)
        settings = config.current()
        made = compile(kernel, False, settings.disk_cache, settings.effort, settings.bounds)
        return (made, [*found, *[self.arrays.data[s] for s in sources]],
                [self.arrays.numbers[n] for n in numbers])

    def _spans(self, rows: int, workers: int | None = None) -> list[tuple[int, int]]:
        count = config.current().workers if workers is None else workers
        parts = 1 if count <= 1 else min(count * RANGES_PER_WORKER,
                                         max(rows // MIN_THREADED_ROWS, 1))
        return list(pairwise(rows * k // parts for k in range(parts + 1)))

    def _each(self, count: int, task: Callable[[int, int], Status], workers: int | None = None
              ) -> None:
        """Run the tasks; ``task`` gets its number and that of the worker."""
        limit = config.current().workers if workers is None else workers
        tasks = [lambda worker, k=k: task(k, worker) for k in range(count)]
        status = run_ranges(tasks, limit, self.control, small=count == 1)
        if status is Status.DONE:
            self.overflows.check(int(self.found[0]))
            return
        if status in (Status.NO_MEMORY, Status.OVER_LIMIT):
            raise MemoryLimitError(
                "sql: the rows of a join need more memory than there is",
                limit=config.current().memory, step="join",
                hint="join on more columns, aggregate first, or raise tr.options(memory=...)")
        raise KeyboardInterrupt


def _noted(wrong: Expr | None) -> tuple[Stmt, ...]:
    return () if wrong is None else (Assign(_WRONG, Call(ops.bitwise_or, (_WRONG, wrong))),)


def _wrapped(step: Step, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    match step:
        case Place():
            return (Assign(step.target, step.value), *body)
        case Test():
            return (If(step.condition, body),)
        case Each():
            return (For(step.target, step.low, step.high, body),)


def _in_order(expressions: Sequence[Expr]) -> list[object]:
    """Locals and sources by first mention, so that equal queries make equal kernels."""
    seen: set[object] = set()
    found: list[object] = []
    stack: list[Expr] = list(reversed(expressions))
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Local):
            found.append(e)
        elif isinstance(e, Call):
            stack += reversed(e.args)
        elif isinstance(e, Read):
            if e.tensor not in seen:
                seen.add(e.tensor)
                found.append(e.tensor)
            stack += reversed(e.indices)
    return found
