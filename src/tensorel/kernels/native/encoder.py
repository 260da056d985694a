"""Codes of texts and of whole numbers, by native kernels.

Texts go through a hash table for each block of them, blocks on all threads; different texts of all
blocks go through one more. Whole numbers that lie close together have a place each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.base.records import dataclass
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.native import encoder_kernels as native
from tensorel.kernels.native.notation import compiled
from tensorel.kernels.runtime.compiled import Array, Control
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage.limits import require
from tensorel.tables.column import Mask
from tensorel.tables.texts import AnyTexts, Bytes, Texts

Codes = npt.NDArray[np.int32]
_FIRST_BITS, _GROWTH_BITS = 12, 2  # bits: slots of a table that nothing is known of, and growth
_BLOCK_TEXTS = 1 << 20
_MIN_THREADED = 1 << 17
_WORD_BITS, _HALF = 64, 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class TextBlock:
    """Texts from ``first`` on with the codes that they get, and which of them are null."""

    texts: AnyTexts
    nulls: Mask | None
    codes: Codes
    first: int = 0


class _Table:
    """The different texts of several runs of bytes, seen through one window over all of them."""

    def __init__(self, runs: Sequence[Bytes]) -> None:
        ends = [(r.ctypes.data, r.ctypes.data + r.size) for r in runs if r.size]
        self.low = min([lo for lo, _ in ends], default=0) // 8 * 8
        size = max([hi for _, hi in ends], default=0) - self.low
        if size:
            held = (ctypes.c_uint64 * -(-size // 8)).from_address(self.low)
            self.memory: Array = np.frombuffer(memoryview(held), np.uint64)
        else:
            self.memory = np.zeros(1, np.uint64)
        self.count = 0
        self.control = Control(config.current().memory)
        self.report = np.zeros(2, np.int64)
        self.slots: Array = np.empty(0, np.uint64)
        self.about: Array = np.empty(0, np.uint64)
        self._resize(_FIRST_BITS)

    def _resize(self, bits: int) -> None:
        slots, before, about = 1 << bits, self.slots, self.about
        require((8 + 16) * slots, f"a table of {slots // 2} different texts")
        self.bits, self.slots = bits, np.zeros(slots, np.uint64)
        self.about = np.empty(native.ABOUT_TEXT * (slots // 2), np.uint64)
        self.about[: about.size] = about
        if self.count:
            compiled(native.rehash_kernel).run(
                [before, self.slots, self.about], (), (_WORD_BITS - bits, slots - 1), 0,
                before.size, self.control)

    def encode(self, texts: Texts, nulls: Mask | None, codes: Codes) -> None:
        """The codes of texts on this memory."""
        at, stop = 0, len(texts)
        base = texts.data.ctypes.data - self.low if texts.data.size else 0
        places = np.dtype(np.int32 if texts.starts.dtype == np.int32 else np.int64)
        kernel = compiled(native.texts_kernel, places, nulls is not None)
        held = [np.ascontiguousarray(p, places) for p in (texts.starts, texts.ends)]
        masks = [] if nulls is None else [np.ascontiguousarray(nulls)]
        while True:
            arrays = [*held, self.memory, self.slots, self.about, codes, self.report, *masks]
            most = 1 << (self.bits - 1)
            scalars = (self.count, most, _WORD_BITS - self.bits, 2 * most - 1, base)
            if kernel.run(arrays, (), scalars, at, stop, self.control) is not Status.DONE:
                raise KeyboardInterrupt
            at, self.count = self.report.tolist()
            if at == stop:
                return
            self._resize(self.bits + _GROWTH_BITS)

    def different(self) -> Texts:
        """The different texts, in the order of their codes."""
        about = self.about[: native.ABOUT_TEXT * self.count].reshape(-1, native.ABOUT_TEXT)
        starts = about[:, 0].astype(np.int64)
        ends = starts + (about[:, 1] & np.uint64(_HALF)).astype(np.int64)
        return Texts(starts, ends, self.memory.view(np.uint8))


def text_codes(blocks: Sequence[TextBlock]) -> Texts:
    """Fill in the codes: numbers of the different texts, which are the result, in any order."""
    shares = _shared_out(blocks)
    found: list[Texts] = [Texts.of([])] * len(shares)

    def task(k: int, worker: int) -> Status:
        found[k] = _encoded(shares[k])
        return Status.DONE

    control = Control(config.current().memory)
    if run_ranges([partial(task, k) for k in range(len(shares))], max(len(shares), 1), control,
                  small=len(shares) < 2) is not Status.DONE:
        raise KeyboardInterrupt
    if len(shares) < 2:
        return Texts.joined(found)
    different = Texts.joined(found)
    numbers = np.empty(len(different), np.int32)
    result = _encoded([TextBlock(different, None, numbers)])
    begin = 0
    for share, texts in zip(shares, found):
        for block in share:
            recode(block.codes, numbers[begin:begin + len(texts)])
        begin += len(texts)
    return result.take(np.arange(len(result)))


def _shared_out(blocks: Sequence[TextBlock]) -> list[list[TextBlock]]:
    """A share for each thread, of blocks that are not too long."""
    total = sum(len(b.codes) for b in blocks)
    workers = max(min(config.current().workers, total // _MIN_THREADED), 1)
    most, shares, room = -(-total // workers), list[list[TextBlock]](), 0
    for b in blocks:
        lo, count = 0, len(b.codes)
        while lo < count:
            if not room:
                shares.append([])
                room = most
            hi = min(lo + _BLOCK_TEXTS, count, lo + room)
            nulls = None if b.nulls is None else b.nulls[lo:hi]
            shares[-1].append(TextBlock(b.texts, nulls, b.codes[lo:hi], lo))
            lo, room = hi, room - (hi - lo)
    return shares


def _encoded(blocks: Sequence[TextBlock]) -> Texts:
    table = _Table([b.texts.data for b in blocks])
    for b in blocks:
        table.encode(b.texts.block(b.first, b.first + len(b.codes)), b.nulls, b.codes)
    return table.different()


# -- whole numbers ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class NumberBlock:
    """Whole numbers with the codes that they get, and which of them are null."""

    values: npt.NDArray[np.integer[Any]]
    nulls: Mask | None
    codes: Codes


def place_codes(blocks: Sequence[NumberBlock], low: int, high: int) -> npt.NDArray[np.int64]:
    """Fill in the codes of numbers from ``low`` to ``high``; the different ones, ascending, less
    ``low``, are the result."""
    marks = np.zeros(high - low + 1, bool)
    control = Control(config.current().memory)
    for b in blocks:
        masks = [] if b.nulls is None else [b.nulls]
        kernel = compiled(native.mark_kernel, b.values.dtype, bool(masks))
        if kernel.run([b.values, marks, *masks], (), (low,), 0, b.values.size,
                      control) is not Status.DONE:
            raise KeyboardInterrupt
    found = np.flatnonzero(marks)
    ranks = np.zeros(marks.size, np.int32)
    ranks[found] = np.arange(found.size, dtype=np.int32)
    for b in blocks:
        masks = [] if b.nulls is None else [b.nulls]
        call = compiled(native.rank_kernel, b.values.dtype, bool(masks)).bind(
            [b.values, ranks, b.codes, *masks], (), (low,))
        _each(lambda lo, hi: call(lo, hi, control), b.values.size, control)  # noqa: B023
    return found


def _each(task: Callable[[int, int], Status], count: int, control: Control) -> None:
    """On all threads: what is written at an entry depends on that entry alone."""
    workers = max(min(config.current().workers, count // _MIN_THREADED), 1)
    ends = [count * k // workers for k in range(workers + 1)]

    def part(k: int, worker: int) -> Status:
        return task(ends[k], ends[k + 1])

    tasks = [partial(part, k) for k in range(workers)]
    if run_ranges(tasks, workers, control, small=workers == 1) is not Status.DONE:
        raise KeyboardInterrupt


def recode(codes: Codes, numbers: Codes) -> None:
    """codes[k] becomes numbers[codes[k]], and -1 stays."""
    whole = np.concatenate((np.full(1, -1, np.int32), numbers.astype(np.int32, copy=False)))
    control = Control(config.current().memory)
    call = compiled(native.recode_kernel).bind([codes, whole])
    _each(lambda lo, hi: call(lo, hi, control), codes.size, control)


__all__ = ["NumberBlock", "TextBlock", "place_codes", "recode", "text_codes"]
