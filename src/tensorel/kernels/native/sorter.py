"""Sorting of coordinate lists by native kernels: what ``storage.sorting`` asks for.

The coordinates of an entry and its number make one word: sorting words is stable, needs no
values to move, and is what NumPy does best (SIMD). Kernels split the words in groups
by their leading bits where threads share the work or a word is too short for all bits, and emit
the sorted entries, combining those that share a cell in the order in which they were given.
Words become the last coordinate in place, so that little memory is needed beside the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise

import numpy as np

from tensorel import config
from tensorel.base import memory_regions
from tensorel.base.records import dataclass
from tensorel.ir.nodes import INT64, DType
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.native import sorter_kernels as native
from tensorel.kernels.native.notation import compiled
from tensorel.kernels.runtime.compiled import Array, Control
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage.entries import IndexArray, ValueArray
from tensorel.storage.sorting import Lines, Permutation
from tensorel.storage.stack import INT32_MAX

_WORD_BITS = 63
_CACHED_GROUP_BITS = 6  # bits: groups that fit a core's cache at a few million entries
_MAX_GROUP_BITS = 16  # bits
_MAX_ENTRY_BITS = 24  # bits: more entries than that are not sorted at once, for Ctrl-C
_MIN_GROUP_ENTRIES = 16  # entries per group
_BLOCK_ENTRIES = 1 << 15
_MIN_KERNEL_WORDS = 1 << 10  # words that are not worth a kernel
_MAX_DIGIT_BITS = 11  # bits of a digit
_SAMPLED_WORDS, _SLOW_SECONDS = 1 << 13, 18e-9  # seconds a word
_MIN_THREADED_ENTRIES = 1 << 18  # fewer entries than this are not worth a thread, nor its kernels
_WIDTHS = (np.dtype(np.int32), np.dtype(np.int64))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the bits of a word are: ``group`` leading bits of the key number the group and are
    left out, then come the rest of the key (axes, most significant first) and the entry."""

    bits: tuple[int, ...]
    entry: int
    group: int

    @property
    def low(self) -> int:
        """Bits of the key within a group."""
        return sum(self.bits) - self.group

    def shift(self, axis: int) -> int:
        return sum(self.bits[axis + 1 :])


def layout(shape: Sequence[int], count: int, workers: int, whole_lines: bool) -> Layout | None:
    """The layout for ``count`` entries; None if no word holds one. With ``whole_lines`` no group
    splits a coordinate of the first axis."""
    bits = tuple(max(n - 1, 0).bit_length() for n in shape)
    entry, total = max(count - 1, 0).bit_length(), sum(bits)
    needed = max(total + entry - _WORD_BITS, 0)
    if needed > _MAX_GROUP_BITS or (needed and count >> needed < _MIN_GROUP_ENTRIES):
        return None
    cached = workers > 1 or (count >= _MIN_THREADED_ENTRIES and is_slow())
    wanted = max(needed, entry - _MAX_ENTRY_BITS, _CACHED_GROUP_BITS if cached else 0)
    group = min(wanted, bits[0] if whole_lines else total, _MAX_GROUP_BITS)
    return Layout(bits, entry, group) if group >= needed else None


class _Job:
    """Words of one coordinate list, made and sorted on ``workers`` threads."""

    def __init__(
        self, coords: Sequence[IndexArray], shape: Sequence[int], whole_lines: bool = False
    ) -> None:
        self.coords = [np.ascontiguousarray(c) for c in coords]
        self.count = int(self.coords[0].size)
        limits = config.current()
        self.workers = max(min(limits.workers, self.count // _MIN_THREADED_ENTRIES, 8), 1)
        self.control = Control(limits.memory)
        found = layout(shape, self.count, self.workers, whole_lines)
        fits = all(c.dtype in _WIDTHS for c in self.coords)
        self.possible = found is not None and fits
        self.layout = found or Layout((), 0, 0)
        self.widths = tuple(c.dtype for c in self.coords)
        self.bounds = [0, self.count]

    def each(self, task: Callable[[int], Status], count: int) -> None:
        tasks = [partial(_numbered, task, k) for k in range(count)]
        small = self.count < _MIN_THREADED_ENTRIES
        if run_ranges(tasks, self.workers, self.control, small=small) is not Status.DONE:
            raise KeyboardInterrupt

    def fill(self) -> None:
        """Words in the order of the entries, or group after group."""
        self.words: IndexArray = memory_regions.empty(self.count, INT64)
        if self.layout.group:
            self._split(self.layout.bits[1:])
            return
        spans = list(pairwise([*range(0, self.count, _BLOCK_ENTRIES), self.count]))
        self.each(lambda k: self._keys(*spans[k]), len(spans))

    def _keys(self, lo: int, hi: int) -> Status:
        """The words of some entries. NumPy is as fast as a kernel here: blocks stay in cache."""
        words = self.words[lo:hi]
        words[:] = self.coords[0][lo:hi]
        for c, bits in zip(self.coords[1:], self.layout.bits[1:]):
            words <<= bits
            words |= c[lo:hi]
        words <<= self.layout.entry
        words |= np.arange(lo, hi)
        return Status.DONE

    def _split(self, bits: tuple[int, ...]) -> None:
        workers, groups = self.workers, 1 << self.layout.group
        spans = list(pairwise(self.count * k // workers for k in range(workers + 1)))
        counts = np.zeros((workers, groups), np.int64)
        low, entry = self.layout.low, self.layout.entry
        count = compiled(native.count_kernel, self.widths)
        self.each(lambda w: count.run(
            [*self.coords, counts[w]], (), (*bits, low), *spans[w], self.control), workers)
        ends = np.cumsum(counts.sum(axis=0))
        # Worker w puts its entries of a group behind those of the workers before it.
        following = np.cumsum(counts, axis=0) - counts + (ends - counts.sum(axis=0))
        scatter = compiled(native.scatter_kernel, self.widths)
        scalars = (*bits, entry, low, (1 << low) - 1)
        self.each(lambda w: scatter.run(
            [*self.coords, self.words, following[w]], (), scalars, *spans[w], self.control),
            workers)
        self.bounds = [0, *ends.tolist()]

    def sort(self, group: int) -> tuple[int, int]:
        lo, hi = self.bounds[group], self.bounds[group + 1]
        if hi - lo < _MIN_KERNEL_WORDS or not is_slow():
            self.words[lo:hi].sort()
            return lo, hi
        first, low = self.layout.entry, self.layout.low
        width = digit_bits(low, hi - lo)
        spare, counts = np.empty(hi - lo, np.int64), np.empty(1 << width, np.int64)
        status = compiled(native.digits_kernel).run(
            [self.words, spare, counts], (), (first, first + low, width, 1 << width), lo, hi,
            self.control)
        if status is not Status.DONE:
            raise KeyboardInterrupt
        return lo, hi


@cache
def is_slow() -> bool:
    """Whether NumPy sorts slowly here: with AVX-512 it packs lanes right into memory, which is slow
    on AMD's Zen 4 (docs/design/benchmarks.md)."""
    mixed = np.arange(_SAMPLED_WORDS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = mixed.view(np.int64)
    best = float("inf")
    for _ in range(2):
        sample = words.copy()
        start = time.perf_counter()
        sample.sort()
        best = min(best, time.perf_counter() - start)
    return best > _SLOW_SECONDS * _SAMPLED_WORDS


def digit_bits(bits: int, count: int) -> int:
    """Bits of a digit, for an even number of digits: each costs its words and its counts, which
    should be near."""
    choices = [w for n in (2, 4, 6, 8) if (w := max(-(-bits // n), 1)) <= _MAX_DIGIT_BITS]
    return min(choices, key=lambda w: -(-bits // (2 * w)) * (count + (1 << w)))


def _numbered(task: Callable[[int], Status], number: int, worker: int) -> Status:
    return task(number)


class _Emission:
    """The sorted entries of a job, without repetitions; ``pos`` stands for the first axis if its
    length is given."""

    def __init__(self, job: _Job, values: ValueArray, add: bool, lines: int | None) -> None:
        self.job, self.lines = job, lines
        self.values = np.ascontiguousarray(values)
        self.kind = native.payload(values.dtype, add)
        skipped = 0 if lines is None else 1
        self.axes: list[Array] = [
            memory_regions.empty(job.count, w) for w in job.widths[skipped:-1]]
        self.val = memory_regions.empty(job.count, values.dtype)
        self.shifts = [(job.layout.shift(a), (1 << job.layout.bits[a]) - 1)
                       for a in range(skipped, len(job.coords))]
        self.kept = np.zeros((len(job.bounds) - 1, 1), np.int64)
        self.pos: Array | None = None
        if lines is not None:
            idx = job.widths[-1]
            wide = idx if job.count <= INT32_MAX else np.dtype(np.int64)
            self.pos = memory_regions.empty(lines + 1, wide)
        pos_width: DType | None = None if self.pos is None else self.pos.dtype
        widths = tuple(a.dtype for a in self.axes)
        self.kernel = compiled(native.emit_kernel, widths, pos_width, self.kind)

    def run(self) -> None:
        self.job.each(self._group, len(self.job.bounds) - 1)
        self._join()

    def _rows(self, group: int) -> tuple[int, int]:
        """The lines of a group: no others have entries in it."""
        assert self.lines is not None
        step = self.job.layout.bits[0] - self.job.layout.group
        return min(group << step, self.lines), min((group + 1) << step, self.lines)

    def _group(self, group: int) -> Status:
        job = self.job
        lo, hi = job.sort(group)
        elem = self.kind.elem
        arrays: list[Array] = [job.words, self.values.view(elem), self.val.view(elem),
                               self.kept[group], *self.axes]
        entry = job.layout.entry
        scalars = [entry, (1 << entry) - 1, group << job.layout.low]
        for shift, mask in self.shifts[:-1]:
            scalars += (shift, mask)
        scalars.append(self.shifts[-1][1])
        if self.pos is not None:
            arrays.append(self.pos)
            scalars += (job.layout.shift(0), *self._rows(group))
        return self.kernel.run(arrays, (), scalars, lo, hi, job.control)

    def _join(self) -> None:
        """Groups close up; words become coordinates of their width, from the front."""
        job, out = self.job, 0
        last: Array = job.words.view(job.widths[-1])
        moved = [job.words, self.val, *self.axes]
        targets = [last, self.val, *self.axes]
        for group, (lo, kept) in enumerate(zip(job.bounds, self.kept[:, 0].tolist())):
            if self.pos is not None and out != lo:
                start, stop = self._rows(group)
                self.pos[start:stop] -= lo - out
            for source, target in zip(moved, targets):
                if source.dtype == target.dtype and out == lo:
                    continue
                for at in range(0, kept, _BLOCK_ENTRIES):
                    n = min(_BLOCK_ENTRIES, kept - at)
                    target[out + at : out + at + n] = source[lo + at : lo + at + n]
            out += kept
        if self.pos is not None:
            self.pos[self.lines] = out
        self.total = out
        del last, moved, targets

    def results(self) -> tuple[list[IndexArray], ValueArray]:
        """Coordinates but those that ``pos`` stands for, and values. Memory that is not used
        goes back: nothing else refers to these arrays."""
        width, total = self.job.widths[-1], self.total
        words, self.job.words = self.job.words, np.empty(0, np.int64)
        axes = [memory_regions.shortened(a, total) for a in self.axes]
        words = memory_regions.shortened(words, -(-total * width.itemsize // 8))
        last: IndexArray = words.view(width)[:total]
        return [*axes, last], memory_regions.shortened(self.val, total)


class NativeSorter:
    """See ``storage.sorting.Sorter``."""

    def permutation(
        self, coords: Sequence[IndexArray], shape: Sequence[int]
    ) -> Permutation | None:
        job = _Job(coords, shape)
        if not job.possible:
            return None
        job.fill()
        mask = (1 << job.layout.entry) - 1

        def task(group: int) -> Status:
            lo, hi = job.sort(group)
            job.words[lo:hi] &= mask
            return Status.DONE

        job.each(task, len(job.bounds) - 1)
        return job.words

    def entries(
        self, coords: Sequence[IndexArray], values: ValueArray, shape: Sequence[int], add: bool
    ) -> tuple[tuple[IndexArray, ...], ValueArray] | None:
        job = _Job(coords, shape)
        if not job.possible:
            return None
        job.fill()
        emission = _Emission(job, values, add, None)
        emission.run()
        kept, data = emission.results()
        return tuple(kept), data

    def lines(
        self, coords: Sequence[IndexArray], values: ValueArray, shape: Sequence[int], add: bool
    ) -> Lines | None:
        job = _Job(coords, shape, whole_lines=True)
        if not job.possible:
            return None
        job.fill()
        emission = _Emission(job, values, add, int(shape[0]))
        emission.run()
        (idx,), data = emission.results()
        assert emission.pos is not None
        return emission.pos, idx, data

    def bounds(self, major: IndexArray, lines: int, width: DType) -> IndexArray:
        pos: IndexArray = memory_regions.empty(lines + 1, width)
        kernel = compiled(native.bounds_kernel, major.dtype, pos.dtype)
        control = Control(config.current().memory)
        status = kernel.run([major, pos], (), (lines,), 0, int(major.size), control)
        if status is not Status.DONE:
            raise KeyboardInterrupt
        return pos


__all__ = ["Layout", "NativeSorter", "layout"]
