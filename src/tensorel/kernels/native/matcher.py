"""Groups of equal words by hashing, with native kernels: what ``storage.key_matching`` asks for.

Words that lie close together have a table with a place for each; others a hash table, which grows
while groups are found. Look-ups are done on all threads. A filter stands before the table where a
sample says that most words are not in it: it is shorter, so it stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from tensorel import config
from tensorel.base import memory_regions
from tensorel.ir.nodes import INT64
from tensorel.kernels.loopir.statements import Kernel, Status
from tensorel.kernels.native import matcher_kernels as native
from tensorel.kernels.native.notation import UINT64, compiled
from tensorel.kernels.runtime.compiled import Array, Call, Control
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage.key_matching import Positions, Words

_FIRST_BITS = 10  # bits: slots of a table that nothing is known of
_MIN_THREADED_WORDS = 1 << 17
_DIRECT_ROOM = 4  # places for each word in a table without hashing
_MIN_DIRECT_PLACES = 1 << 16
_CACHED_SLOTS = 1 << 16  # slots of a table that a core's cache holds: a filter saves nothing
_SAMPLED_WORDS = 1 << 10
_FILTERED_SHARE = 0.5  # of words that are found: with fewer a filter pays
_FILTER_BITS = 8  # bits of the filter for each group
_MOST_GROWTH = 8  # bits


class _Runner:
    """Kernels on ranges of words."""

    def __init__(self) -> None:
        limits = config.current()
        self.control = Control(limits.memory)
        self.workers = limits.workers

    def once(self, make: partial[Kernel], arrays: list[Array], scalars: tuple[int, ...], lo: int,
             hi: int) -> None:
        status = compiled(make.func, *make.args).run(arrays, (), scalars, lo, hi, self.control)
        if status is not Status.DONE:
            raise KeyboardInterrupt

    def each(self, make: partial[Kernel], arrays: list[Array], scalars: tuple[int, ...],
             count: int) -> None:
        """On all threads: whatever is written at a word depends on that word alone."""
        call = compiled(make.func, *make.args).bind(arrays, (), scalars)
        self.spread([partial(self.range, call, lo, hi)
                     for lo, hi in ranges(count, self.shares(count))], count)

    def shares(self, count: int) -> int:
        """In how many parts so many words are done."""
        return max(min(self.workers, count // _MIN_THREADED_WORDS), 1)

    def spread(self, tasks: list[Callable[[int], Status]], count: int) -> None:
        """Tasks on all threads; together they go through so many words."""
        small = count < _MIN_THREADED_WORDS
        if run_ranges(tasks, self.workers, self.control, small=small) is not Status.DONE:
            raise KeyboardInterrupt

    def range(self, call: Call, lo: int, hi: int, worker: int) -> Status:
        return call(lo, hi, self.control)


def ranges(count: int, workers: int) -> list[tuple[int, int]]:
    """So many words in a range for each worker."""
    return list(pairwise(count * k // workers for k in range(workers + 1)))


class _Hashed:
    """See ``storage.key_matching.Index``: words anywhere."""

    def __init__(self, keys: Words) -> None:
        self.run = _Runner()
        self.ids: Positions = memory_regions.empty(keys.size, INT64)
        first: Positions = memory_regions.empty(keys.size, INT64)
        report = np.zeros(2, np.int64)
        self.bits = _FIRST_BITS
        self.table = self._empty()
        while True:
            self.run.once(partial(native.insert_kernel),
                          [keys, self.table, self.ids, first, report],
                          (*self._place(), 1 << (self.bits - 1)), int(report[1]), keys.size)
            if report[1] == keys.size:
                break
            self._grow(int(report[0]), int(report[1]), keys.size)
        self.first = memory_regions.shortened(first, int(report[0]))
        self.keys, self.filter_shift = keys, 0
        self.filter: Array | None = None

    def _empty(self) -> Array:
        return memory_regions.zeros(2 << self.bits, UINT64)

    def _place(self) -> tuple[int, int]:
        return 64 - self.bits, (2 << self.bits) - 1

    def _grow(self, groups: int, done: int, count: int) -> None:
        """A table for the groups that there will be if they go on to appear as they did."""
        expected = groups * count // max(done, 1)
        old, slots = self.table, 1 << self.bits
        self.bits = max(self.bits + 1, min((2 * expected).bit_length(), self.bits + _MOST_GROWTH))
        self.table = self._empty()
        self.run.once(partial(native.rehash_kernel), [old, self.table], self._place(), 0, slots)

    def lookup(self, keys: Words) -> Positions:
        ids: Positions = memory_regions.empty(keys.size, INT64)
        filtered = self._is_filtered(keys)
        arrays: list[Array] = [keys, self.table, ids]
        scalars: tuple[int, ...] = self._place()
        if filtered:
            arrays, scalars = [*arrays, self._filter()], (*scalars, self.filter_shift)
        self.run.each(partial(native.lookup_kernel, filtered), arrays, scalars, keys.size)
        return ids

    def _is_filtered(self, keys: Words) -> bool:
        """Whether most words are not found, and the table is long: then a filter pays."""
        if 1 << self.bits <= _CACHED_SLOTS or keys.size < self.first.size:
            return False
        step = max(keys.size // _SAMPLED_WORDS, 1)
        sample = np.ascontiguousarray(keys[::step])
        ids = np.empty(sample.size, np.int64)
        self.run.once(partial(native.lookup_kernel, False), [sample, self.table, ids],
                      self._place(), 0, sample.size)
        return int(np.count_nonzero(ids >= 0)) < _FILTERED_SHARE * sample.size

    def _filter(self) -> Array:
        if self.filter is None:
            bits = max((_FILTER_BITS * self.first.size // 64).bit_length(), 1)
            self.filter_shift = 64 - bits
            made = self.filter = memory_regions.zeros(1 << bits, UINT64)
            distinct = self.keys[self.first]
            self.run.once(partial(native.filter_kernel), [distinct, made],
                          (self.filter_shift,), 0, distinct.size)
        return self.filter


class _Direct:
    """The same for words that lie close together, as signed numbers."""

    def __init__(self, keys: Words, least: int, largest: int) -> None:
        self.run = _Runner()
        self.least, self.largest = least, largest
        self.ids: Positions = memory_regions.empty(keys.size, INT64)
        first: Positions = memory_regions.empty(min(keys.size, largest - least + 1), INT64)
        report = np.zeros(1, np.int64)
        self.table = memory_regions.zeros(largest - least + 1, INT64)
        self.run.once(partial(native.direct_insert_kernel),
                      [keys.view(np.int64), self.table, self.ids, first, report], (least,), 0,
                      keys.size)
        self.first = memory_regions.shortened(first, int(report[0]))

    def lookup(self, keys: Words) -> Positions:
        ids: Positions = memory_regions.empty(keys.size, INT64)
        self.run.each(partial(native.direct_lookup_kernel), [keys.view(np.int64), self.table, ids],
                      (self.least, self.largest), keys.size)
        return ids


class NativeMatcher:
    """See ``storage.key_matching.Matcher``."""

    def index(self, keys: Words) -> _Hashed | _Direct:
        signed = keys.view(np.int64)
        least, largest = int(signed.min()), int(signed.max())
        if largest - least < max(_DIRECT_ROOM * keys.size, _MIN_DIRECT_PLACES):
            return _Direct(keys, least, largest)
        return _Hashed(keys)

    def members(self, ids: Positions, groups: int) -> tuple[Positions, Positions]:
        run = _Runner()
        starts: Positions = memory_regions.zeros(groups + 1, INT64)
        run.once(partial(native.count_kernel), [ids, starts[1:]], (), 0, ids.size)
        np.cumsum(starts, out=starts)
        members: Positions = memory_regions.empty(int(starts[-1]), INT64)
        run.once(partial(native.scatter_kernel), [ids, starts[:-1].copy(), members], (), 0,
                 ids.size)
        return starts, members

    def total(self, ids: Positions, starts: Positions, outer: bool) -> int:
        run = _Runner()
        return sum(self._totals(run, ids, starts, outer, ranges(ids.size, run.shares(ids.size))))

    def _totals(self, run: _Runner, ids: Positions, starts: Positions, outer: bool,
                spans: list[tuple[int, int]]) -> list[int]:
        found = np.zeros((len(spans), 8), np.int64)  # a cache line each
        run.spread([partial(run.range, compiled(native.total_kernel).bind(
            [ids, starts, found[k]], (), (int(outer),)), lo, hi)
            for k, (lo, hi) in enumerate(spans)], ids.size)
        return [int(n) for n in found[:, 0]]

    def expand(self, ids: Positions, starts: Positions, members: Positions, outer: bool
               ) -> tuple[Positions, Positions]:
        run = _Runner()
        spans = ranges(ids.size, run.shares(ids.size))
        totals = self._totals(run, ids, starts, outer, spans)
        left: Positions = memory_regions.empty(sum(totals), INT64)
        right: Positions = memory_regions.empty(sum(totals), INT64)
        begins = [sum(totals[:k]) for k in range(len(spans))]
        run.spread([partial(run.range, compiled(native.expand_kernel).bind(
            [ids, starts, members, left, right], (), (begin, int(outer))), lo, hi)
            for begin, (lo, hi) in zip(begins, spans)], ids.size)
        return left, right
