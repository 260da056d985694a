"""Coordinates of a matrix, in any order, to compressed rows or columns, natively.

Three passes on all cores: count the entries per line (and see whether they are sorted already:
then nothing moves), scatter them stably to their lines, sort each line that needs it. Files that
are sorted by the other axis, as most are, need no sorting of lines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra.ops import FLOAT64
from tensorel.io.code import UINT64, Code, Memory, X, scalar, whole
from tensorel.io.npy import AnyArray, check_memory
from tensorel.ir.nodes import INT64, DType, Local
from tensorel.kernels.loops import Kernel, Status
from tensorel.kernels.pool import run_ranges
from tensorel.kernels.runtime import Control, compile
from tensorel.storage.stack import index_dtype

Index = npt.NDArray[np.signedinteger]
Words = npt.NDArray[np.uint64]

_SORTED, _TWICE = 0, 0
_GROUP_BITS = 8  # lines are split in so many groups before they are scattered
_SHORT = 24  # lines up to this length are sorted by insertion
_WIDE_LINES = 4  # more lines than this per entry: the general way is leaner


def _finish(code: Code, name: str, written: set[str], scalars: tuple[str, ...] = ()) -> Kernel:
    arrays = tuple(m.source for m in code.arrays.values())
    lo, hi = Local("lo", INT64), Local("hi", INT64)
    parameters = tuple(Local(s, INT64) for s in scalars)
    return Kernel(name, arrays, frozenset(written), (), parameters, lo, hi, code.done())


@cache
def _count_kernel(width: DType) -> Kernel:
    """counts[major] += 1; report[0] = 1 unless entries ascend strictly by (major, minor)."""
    code = Code()
    major, minor = code.array("major", width), code.array("minor", width)
    counts, report = code.array("counts", INT64), code.array("report", INT64)
    k, disorder = code.let("k", scalar("lo")), code.let("disorder", whole(0))
    before = code.let("before", whole(-1))
    below = code.let("below", whole(-1))
    with code.loop(k < scalar("hi"), checked=True):
        i, j = code.let("i", major[k].to(INT64)), code.let("j", minor[k].to(INT64))
        code.store(counts, i, counts[i] + 1)
        wrong = (i < before).otherwise(i.is_(before).also(j <= below))
        code.set(disorder, wrong.pick(whole(1), disorder))
        code.set(before, i)
        code.set(below, j)
        code.set(k, k + 1)
    code.store(report, _SORTED, disorder)
    return _finish(code, f"count_{width.name}", {"counts", "report"})


@cache
def _scatter_kernel(width: DType, words: int) -> Kernel:
    """Entry k goes to place next[major]++, stably."""
    code = Code()
    major, minor = code.array("major", width), code.array("minor", width)
    values, following = code.array("values", UINT64), code.array("next", INT64)
    idx, val = code.array("idx", width), code.array("val", UINT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        i = code.let("i", major[k].to(INT64))
        place = code.let("place", following[i])
        code.store(following, i, place + 1)
        code.store(idx, place, minor[k])
        for part in range(words):
            code.store(val, place * words + part, values[k * words + part])
        code.set(k, k + 1)
    return _finish(code, f"scatter_{width.name}_{words}", {"next", "idx", "val"})


@cache
def _split_kernel(width: DType, words: int) -> Kernel:
    """Entry k goes, with its line, to place next[major >> shift]++, stably."""
    code = Code()
    major, minor = code.array("major", width), code.array("minor", width)
    values, following = code.array("values", UINT64), code.array("next", INT64)
    out_major, out_minor = code.array("out_major", width), code.array("out_minor", width)
    out = code.array("out_values", UINT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", major[k].to(INT64) >> scalar("shift"))
        place = code.let("place", following[group])
        code.store(following, group, place + 1)
        code.store(out_major, place, major[k])
        code.store(out_minor, place, minor[k])
        for part in range(words):
            code.store(out, place * words + part, values[k * words + part])
        code.set(k, k + 1)
    written = {"next", "out_major", "out_minor", "out_values"}
    return _finish(code, f"split_{width.name}_{words}", written, ("shift",))


@cache
def _fold_kernel(width: DType, pos_width: DType, dtype: DType, words: int) -> Kernel:
    """Add up neighbours with one index in a line, in place; ``pos`` is rewritten too and
    report[0] is what is left."""
    code = Code()
    pos, idx = code.array("pos", pos_width), code.array("idx", width)
    val, report = code.array("val", dtype), code.array("report", INT64)
    out, k = code.let("out", whole(0)), code.let("k", whole(0))
    line = code.let("line", scalar("lo"))
    with code.loop(line < scalar("hi"), checked=True):
        stop, last = code.let("stop", pos[line + 1].to(INT64)), code.let("last", whole(-1))
        with code.loop(k < stop):
            key = code.let("key", idx[k].to(INT64))
            with code.when(key.is_(last)):
                for p in range(words):
                    at = code.let("at", (out - 1) * words + p)
                    code.store(val, at, val[at] + val[k * words + p])
            with code.unless():
                code.store(idx, out, key)
                for p in range(words):
                    code.store(val, out * words + p, val[k * words + p])
                code.set(out, out + 1)
                code.set(last, key)
            code.set(k, k + 1)
        code.set(line, line + 1)
        code.store(pos, line, out)
    code.store(report, 0, out)
    name = f"fold_{width.name}_{pos_width.name}_{dtype.name}_{words}"
    return _finish(code, name, {"pos", "idx", "val", "report"})


class _Lines:
    """Moves of entries (index and value) within ``idx`` and ``val``."""

    def __init__(self, code: Code, idx: Memory, val: Memory, words: int) -> None:
        self.code, self.idx, self.val, self.words = code, idx, val, words

    def key(self, place: X) -> X:
        return self.idx[place].to(INT64)

    def copy(self, source: X, target: X, into: _Lines | None = None) -> None:
        other, n = into or self, self.words
        self.code.store(other.idx, target, self.idx[source])
        for part in range(n):
            self.code.store(other.val, target * n + part, self.val[source * n + part])

    def lift(self, place: X) -> tuple[X, list[X]]:
        """The entry in variables."""
        code, n = self.code, self.words
        key = code.let("key", self.key(place))
        return key, [code.let(f"v{p}", self.val[place * n + p]) for p in range(n)]

    def drop(self, entry: tuple[X, list[X]], place: X) -> None:
        self.code.store(self.idx, place, entry[0])
        for part, value in enumerate(entry[1]):
            self.code.store(self.val, place * self.words + part, value)

    def insertion(self, start: X, stop: X) -> None:
        code = self.code
        k = code.let("k", start + 1)
        with code.loop(k < stop):
            entry = self.lift(k)
            hole = code.let("hole", k)
            with code.loop((hole > start).also(self.key(hole - 1) > entry[0])):
                self.copy(hole - 1, hole)
                code.set(hole, hole - 1)
            self.drop(entry, hole)
            code.set(k, k + 1)

    def merging(self, start: X, stop: X, spare: _Lines) -> None:
        """Stable merge sort of runs that insertion has sorted; ``spare`` holds a line."""
        code = self.code
        begin, end = code.let("begin", start), code.let("end", start)
        with code.loop(begin < stop):
            code.set(end, begin + _SHORT)
            code.set(end, (end < stop).pick(end, stop))
            self.insertion(begin, end)
            code.set(begin, end)
        run = code.let("run", whole(_SHORT))
        with code.loop(run < stop - start):
            code.set(begin, start)
            with code.loop(begin + run < stop):
                code.set(end, begin + run * 2)
                code.set(end, (end < stop).pick(end, stop))
                self._merge(begin, begin + run, end, spare)
                code.set(begin, end)
            code.set(run, run * 2)

    def _merge(self, begin: X, middle: X, end: X, spare: _Lines) -> None:
        """The left half steps aside; of equal entries it goes first."""
        code = self.code
        left, size = code.let("left", whole(0)), code.let("size", middle - begin)
        with code.loop(left < size):
            self.copy(begin + left, left, spare)
            code.set(left, left + 1)
        code.set(left, 0)
        right, out = code.let("right", middle), code.let("out", begin)
        with code.loop(left < size):
            with code.when((right < end).also(self.key(right) < spare.key(left))):
                self.copy(right, out)
                code.set(right, right + 1)
            with code.unless():
                spare.copy(left, out, self)
                code.set(left, left + 1)
            code.set(out, out + 1)


@cache
def _sort_kernel(width: DType, pos_width: DType, words: int) -> Kernel:
    """Sort each line stably by its indices; report[0] = 1 if an index occurs twice in a line."""
    code = Code()
    pos, idx = code.array("pos", pos_width), code.array("idx", width)
    val, report = code.array("val", UINT64), code.array("report", INT64)
    lines = _Lines(code, idx, val, words)
    spare = _Lines(code, code.array("spare_idx", width), code.array("spare_val", UINT64), words)
    line, twice = code.let("line", scalar("lo")), code.let("twice", whole(0))
    with code.loop(line < scalar("hi"), checked=True):
        start, stop = code.let("start", pos[line].to(INT64)), code.let("stop", whole(0))
        code.set(stop, pos[line + 1].to(INT64))
        k = code.let("k", start + 1)
        with code.loop((k < stop).also(lines.key(k - 1) <= lines.key(k))):
            code.set(k, k + 1)
        with code.when(k < stop):
            with code.when(stop - start <= _SHORT):
                lines.insertion(start, stop)
            with code.unless():
                lines.merging(start, stop, spare)
        code.set(k, start + 1)
        with code.loop(k < stop):
            code.set(twice, lines.key(k - 1).is_(lines.key(k)).pick(whole(1), twice))
            code.set(k, k + 1)
        code.set(line, line + 1)
    code.store(report, _TWICE, twice)
    written = {"idx", "val", "report", "spare_idx", "spare_val"}
    return _finish(code, f"sort_{width.name}_{pos_width.name}_{words}", written)


def compress(
    major: Index, minor: Index, values: AnyArray, lines: int
) -> tuple[Index, Index, AnyArray] | None:
    """``pos``, ``idx`` and values of the compressed matrix; entries named twice are added up, in
    their order. None where the general way is leaner: far more lines than entries.

    Indices are in range; values take 8 or 16 bytes. Sorted entries are not copied.
    """
    count = major.size
    if lines > _WIDE_LINES * count + 1024:
        return None
    workers = max(min(config.current().workers, count >> 16, 8), 1)
    check_memory(workers * lines * 8, "reading a matrix", "the counts of its lines")
    job = _Job(major, minor, values.view(np.uint64), lines, workers)
    pos, ordered = job.count()
    if ordered:
        return pos, minor, values
    idx, words, twice = job.place(pos)
    val = words.view(values.dtype)
    return _add_up(pos, idx, val) if twice else (pos, idx, val)


class _Job:
    """The three passes, each on ``workers`` threads over spans of entries or lines."""

    def __init__(
        self, major: Index, minor: Index, values: Words, lines: int, workers: int
    ) -> None:
        self.major, self.minor, self.values, self.workers = major, minor, values, workers
        self.words = values.size // max(major.size, 1)
        bounds = [major.size * k // workers for k in range(workers + 1)]
        self.spans = list(pairwise(bounds))
        self.control = Control(config.current().memory)
        self.counts = np.zeros((workers, lines), np.int64)

    def count(self) -> tuple[Index, bool]:
        """Segment bounds, and whether the entries ascend strictly."""
        major, minor = self.major, self.minor
        kernel = compile(_count_kernel(major.dtype))
        reports = np.zeros((self.workers, 1), np.int64)

        def task(w: int) -> Status:
            arrays = [major, minor, self.counts[w], reports[w]]
            return kernel.run(arrays, (), (), *self.spans[w], self.control)

        self._each(task, self.workers)
        pos = np.zeros(self.counts.shape[1] + 1, index_dtype(major.size))
        np.cumsum(self.counts.sum(axis=0), out=pos[1:])
        seams = [s for s, _ in self.spans[1:] if s]
        before = [(int(major[s - 1]), int(minor[s - 1])) for s in seams]
        after = [(int(major[s]), int(minor[s])) for s in seams]
        rising = all(a < b for a, b in zip(before, after))
        return pos, rising and not reports.any()

    def place(self, pos: Index) -> tuple[Index, Words, bool]:
        """Indices and values in their lines, sorted; and whether an index occurs twice."""
        lines = pos.size - 1
        shift = max((lines - 1).bit_length() - _GROUP_BITS, 0) if self.workers > 1 else 62
        starts = np.arange(0, lines, 1 << shift)
        major, minor, values = self._split(pos, starts, shift)
        idx, val = np.empty_like(self.minor), np.empty_like(self.values)
        scatter = compile(_scatter_kernel(major.dtype, self.words))
        sort = compile(_sort_kernel(idx.dtype, pos.dtype, self.words))
        bounds = [*starts.tolist(), lines]
        reports = np.zeros((starts.size, 1), np.int64)
        longest = int(np.diff(pos).max(initial=0))
        following = pos[:-1].astype(np.int64)

        def task(g: int) -> Status:
            lo, hi = bounds[g], bounds[g + 1]
            arrays = [major, minor, values, following, idx, val]
            scatter.run(arrays, (), (), int(pos[lo]), int(pos[hi]), self.control)
            spare = np.empty(longest + 1, idx.dtype), np.empty(longest * self.words + 1, np.uint64)
            rest = [pos, idx, val, reports[g], *spare]
            return sort.run(rest, (), (), lo, hi, self.control)

        self._each(task, starts.size)
        return idx, val, bool(reports.any())

    def _split(
        self, pos: Index, starts: npt.NDArray[np.int64], shift: int
    ) -> tuple[Index, Index, Words]:
        """The entries in groups of neighbouring lines, each small enough for a core's cache."""
        major, minor, values = self.major, self.minor, self.values
        if starts.size < 2:
            return major, minor, values
        # Worker w puts its entries of a group behind those of workers before it: order is kept.
        counts = np.add.reduceat(self.counts, starts, axis=1)
        following = np.cumsum(counts, axis=0) - counts + pos[starts]
        parts = np.empty_like(major), np.empty_like(minor), np.empty_like(values)
        kernel = compile(_split_kernel(major.dtype, self.words))

        def task(w: int) -> Status:
            arrays = [major, minor, values, following[w], *parts]
            return kernel.run(arrays, (), (shift,), *self.spans[w], self.control)

        self._each(task, self.workers)
        return parts

    def _each(self, task: Callable[[int], Status], count: int) -> None:
        tasks = [partial(_numbered, task, k) for k in range(count)]
        status = run_ranges(tasks, self.workers, self.control, small=self.workers == 1)
        if status is not Status.DONE:
            raise KeyboardInterrupt


def _numbered(task: Callable[[int], Status], number: int, worker: int) -> Status:
    return task(number)


def _add_up(pos: Index, idx: Index, val: AnyArray) -> tuple[Index, Index, AnyArray]:
    """Neighbours with one index in a line become their sum; the arrays are our own."""
    dtype, words = (FLOAT64 if val.dtype.kind in "fc" else UINT64), val.dtype.itemsize // 8
    kernel = compile(_fold_kernel(idx.dtype, pos.dtype, dtype, words))
    report = np.zeros(1, np.int64)
    control = Control(config.current().memory)
    kernel.run([pos, idx, val.view(dtype), report], (), (), 0, pos.size - 1, control)
    left = int(report[0])
    if left > idx.size * 9 // 10:
        return pos, idx[:left], val[:left]
    return pos, idx[:left].copy(), val[:left].copy()
