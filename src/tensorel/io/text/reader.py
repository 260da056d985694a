"""Reading large numeric text: blocks of whole lines, parsed by a native kernel on all cores.

The caller's thread reads (and unpacks) blocks; workers parse them into scratch arrays; results
are copied in order to their final place. Memory beyond the result is a few blocks.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.base import memory_regions
from tensorel.errors import StorageError
from tensorel.io.guard import DEFLATE_RATIO, check_memory
from tensorel.io.text.pipelines import in_order
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.native import line_reader as native
from tensorel.kernels.native.decimals import powers_of_five
from tensorel.kernels.native.notation import compiled
from tensorel.kernels.runtime.compiled import CompiledKernel, Control

Progress = Callable[[int, int], None]
Bytes = npt.NDArray[np.uint8]

BLOCK_BYTES = 1 << 21
_MAX_LINE_BYTES = 1 << 26
_MAX_GROWTH = 8  # what comes is guessed from what was read, and never as more times that much


class Text:
    """An open text file, plain or gzip, with its name for errors."""

    def __init__(self, path: str | os.PathLike[str], raw: IO[bytes], packed: bool) -> None:
        self.where, self.packed, self._raw = str(path), packed, raw
        self.size = os.fstat(raw.fileno()).st_size
        opened: io.BufferedIOBase = (
            io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 17) if packed else raw  # type: ignore[assignment]
        )
        self._stream = opened
        self.lines = 0
        self.pending = b""

    @property
    def longest(self) -> int:
        """An upper bound of the bytes of text."""
        return self.size * DEFLATE_RATIO if self.packed else self.size

    @property
    def position(self) -> int:
        """Bytes of the file consumed."""
        return self._raw.tell()

    def line(self) -> bytes:
        """The next line with its newline; empty at the end."""
        found = self._stream.readline(_MAX_LINE_BYTES)
        self.lines += 1
        return found

    def unread(self, line: bytes) -> None:
        """Give the line just read back."""
        self.pending = line
        self.lines -= 1

    def fill(self, target: memoryview) -> int:
        done = 0
        while done < len(target):
            count = self._stream.readinto(target[done:])
            if not count:
                break
            done += count
        return done

    def fail(self, reason: str, line: int, hint: str | None = None) -> StorageError:
        return StorageError(f"{self.where}, line {line}: {reason}", hint=hint)


@contextmanager
def open_text(path: str | os.PathLike[str]) -> Iterator[Text]:
    """The file as text; unpacked if its first bytes say gzip, whatever its name."""
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            yield Text(path, raw, packed)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise StorageError(
                f"{path} is not a complete gzip file: {error}",
                hint="the file is truncated or damaged",
            ) from error


class _Scratch:
    """One worker's arrays for one block."""

    def __init__(self, line: native.Line) -> None:
        self.line = line
        self.text: Bytes = np.empty(BLOCK_BYTES + 1 + native.LOOKAHEAD_BYTES, np.uint8)
        self.used = self.room = 0
        self.columns: list[npt.NDArray[np.signedinteger]] = []
        self.words = np.empty(0, np.uint64)
        self.hard: list[npt.NDArray[np.int64]] = []
        self.report = np.zeros(0, np.int64)

    def prepare(self) -> None:
        """Room for as many entries as the text can hold."""
        line = self.line
        room = self.used // (2 * line.fields) + 1
        if room > self.room:
            self.room = room
            self.columns = [np.empty(room, line.width) for _ in range(line.rank)]
            self.words = np.empty(max(room * line.words, 1), np.uint64)
            self.hard = [np.empty(max(room * line.words, 1), np.int64) for _ in range(2)]
        self.report = np.zeros(native.MAXIMA + line.rank, np.int64)


class Entries:
    """The result: coordinate columns, values as 64-bit words, the largest index per axis."""

    def __init__(
        self, columns: list[npt.NDArray[np.signedinteger]], words: npt.NDArray[np.uint64],
        count: int, maxima: list[int],
    ) -> None:
        self.columns, self.words, self.count, self.maxima = columns, words, count, maxima


class _Reader:
    def __init__(
        self, text: Text, line: native.Line, extents: tuple[int, ...], comment: bytes,
        expected: int | None, progress: Progress | None,
    ) -> None:
        self.text, self.line, self.progress, self.expected = text, line, progress, expected
        self.kernel: CompiledKernel = compiled(native.reader, line)
        self.control = Control(config.current().memory)
        self.scalars = (*extents, comment[0])
        self.powers = powers_of_five()
        self.capacity = 0
        self.result = Entries([], np.empty(0, np.uint64), 0, [0] * line.rank)
        self._tail = text.pending
        self._ended = False
        # Packed text can hold as many entries as the header says, and need not.
        room = 0 if expected is None else expected
        self._grow(min(room, text.size * _MAX_GROWTH) if text.packed else room)

    # -- blocks ----------------------------------------------------------------------------
    def _next(self, scratch: _Scratch) -> bool:
        """Fill ``scratch`` with whole lines; False at the end of the file."""
        if self._ended:
            return False
        start = len(self._tail)
        if scratch.text.size < 2 * start + BLOCK_BYTES + native.LOOKAHEAD_BYTES:
            scratch.text = np.empty(2 * start + BLOCK_BYTES + native.LOOKAHEAD_BYTES, np.uint8)
        room = scratch.text.size - 1 - native.LOOKAHEAD_BYTES
        view = scratch.text.data
        view[:start] = self._tail
        used = start + self.text.fill(view[start:room])
        scratch.text[used : used + 1 + native.LOOKAHEAD_BYTES] = 10
        if used < room:  # the end of the file: the last line may lack a newline
            open_ended = used > 0 and scratch.text[used - 1] != 10
            scratch.used, self._tail, self._ended = used + open_ended, b"", True
            return used > 0
        cut = _last_newline(scratch.text, used)
        self._tail = scratch.text[cut:used].tobytes()
        scratch.used = cut
        if not cut and used > _MAX_LINE_BYTES:
            raise self.text.fail("the line is too long", self.text.lines + 1)
        return True

    def _parse(self, scratch: _Scratch) -> _Scratch:
        scratch.prepare()
        arrays = [scratch.text, *scratch.columns, scratch.words, scratch.report, *scratch.hard,
                  self.powers]
        status = self.kernel.run(arrays, (), self.scalars, 0, scratch.used, self.control)
        if status is Status.CANCELLED:
            raise KeyboardInterrupt
        return scratch

    # -- results, in order -------------------------------------------------------------------
    def _grow(self, room: int) -> None:
        if room <= self.capacity and self.result.columns:
            return
        line, old = self.line, self.result
        self.capacity = room
        per_entry = line.rank * line.width.itemsize + 8 * line.words
        check_memory((room + old.count) * per_entry, self.text.where, f"{room:,} entries")
        columns = [memory_regions.empty(room, line.width) for _ in range(line.rank)]
        words = memory_regions.empty(room * line.words, np.dtype(np.uint64))
        for target, source in zip(columns, old.columns):
            target[: old.count] = source[: old.count]
        words[: old.count * line.words] = old.words[: old.count * line.words]
        self.result = Entries(columns, words, old.count, old.maxima)

    def _guess(self, count: int) -> int:
        """The number of entries, if the rest of the file is like what was read."""
        share = max(self.text.position, 1) / max(self.text.size, 1)
        guess = max(min(int(count / share * 1.02), count * _MAX_GROWTH), count * 3 // 2)
        return guess if self.expected is None else min(guess, self.expected)

    def _take(self, scratch: _Scratch) -> None:
        report = scratch.report
        if report[native.ERROR]:
            raise self._describe(scratch)
        count = int(report[native.COUNT])
        self._fix_hard(scratch)
        done = self.result.count
        if self.expected is not None and done + count > self.expected:
            raise self._too_many(scratch, self.expected - done)
        if done + count > self.capacity:
            self._grow(self._guess(done + count))
        for target, source in zip(self.result.columns, scratch.columns):
            target[done : done + count] = source[:count]
        n = self.line.words
        self.result.words[done * n : (done + count) * n] = scratch.words[: count * n]
        self.result.count = done + count
        for axis in range(self.line.rank):
            largest = int(report[native.MAXIMA + axis])
            self.result.maxima[axis] = max(self.result.maxima[axis], largest)
        self.text.lines += int(report[native.LINES])
        if self.progress is not None:
            self.progress(self.text.position, self.text.size)

    def _fix_hard(self, scratch: _Scratch) -> None:
        count = int(scratch.report[native.HARD])
        if not count:
            return
        text = scratch.text[: scratch.used].tobytes()
        fixed = scratch.words
        for at, slot in zip(scratch.hard[0][:count].tolist(), scratch.hard[1][:count].tolist()):
            stop = text.index(b"\n", at)
            token = text[at:stop].split(None, 1)[0]
            number = _number(token, self.line.kind)
            if number is None:
                line = self.text.lines + text.count(b"\n", 0, at) + 1
                raise self.text.fail(f"{_show(token)} is not {_KINDS[self.line.kind]}", line)
            fixed[slot] = number

    # -- errors ------------------------------------------------------------------------------
    def _describe(self, scratch: _Scratch) -> StorageError:
        error, at = int(scratch.report[native.ERROR]), int(scratch.report[native.ERROR_AT])
        text = scratch.text[: scratch.used].tobytes()
        line = self.text.lines + text.count(b"\n", 0, at) + 1
        rest = text[at : text.index(b"\n", at)].strip()
        token = _show(rest.split(None, 1)[0]) if rest else ""
        if error == native.MISSING:
            return self.text.fail("the value is missing", line)
        if error == native.EXTRA:
            return self.text.fail(f"unexpected text after the entry: {_show(rest)}", line)
        axis = error % 100
        name = f"index {axis + 1} of {self.line.rank}"
        if error < native.OUT_OF_RANGE:
            reason = f"{token} is not a whole number" if token else "is missing"
            return self.text.fail(f"{name}: {reason}", line, "indices count from 1")
        return self.text.fail(
            f"{name} is {token}, outside 1 to {self.scalars[axis]}", line, "indices count from 1"
        )

    def _too_many(self, scratch: _Scratch, room: int) -> StorageError:
        line = self.text.lines + _line_of_entry(scratch, room, bytes((self.scalars[-1],)))
        return self.text.fail(
            f"more entries than the {self.expected:,} that the header declares", line
        )

    # -- the pipeline ------------------------------------------------------------------------
    def _blocks(self, free: list[_Scratch]) -> Iterator[_Scratch]:
        """Filled scratches; those that are done come back to ``free``."""
        while True:
            scratch = free.pop() if free else _Scratch(self.line)
            if not self._next(scratch):
                return
            yield scratch

    def run(self) -> Entries:
        free: list[_Scratch] = []
        blocks = self._blocks(free)
        workers = config.current().workers
        first = next(blocks, None)
        if first is None:
            return self.result
        if self._ended:  # one block: no threads
            self._take(self._parse(first))
            return self.result
        for done in in_order(self._parse, chain([first], blocks), workers, self.control.cancel):
            self._take(done)
            free.append(done)
        return self.result


def read_entries(
    text: Text, line: native.Line, extents: tuple[int, ...], *, comment: bytes,
    expected: int | None = None, progress: Progress | None = None,
) -> Entries:
    """All entries from here to the end of the file; exactly ``expected`` of them, if given."""
    if expected is not None and expected * 2 * max(line.fields, 1) > text.longest + 1:
        raise text.fail(
            f"the header declares {expected:,} entries; the file is too short for that",
            text.lines,
            "the file is truncated or damaged",
        )
    result = _Reader(text, line, extents, comment, expected, progress).run()
    if expected is not None and result.count < expected:
        raise text.fail(
            f"the file ends after {result.count:,} of {expected:,} entries", text.lines,
            "the file is truncated or damaged",
        )
    result.columns = [c[: result.count] for c in result.columns]
    result.words = result.words[: result.count * line.words]
    return result


_KINDS = {
    "real": "a number", "complex": "a number", "integer": "a whole number of 64 bits",
    "unsigned": "a non-negative whole number of 64 bits",
}


def _number(token: bytes, kind: str) -> np.uint64 | None:
    """The 64 bits of one number as Python reads it; None if it is none."""
    if b"_" in token or len(token) > 10_000:
        return None
    try:
        if kind in ("real", "complex"):
            return np.float64(float(token)).view(np.uint64)
        if len(token) > 50:
            return None
        whole = np.uint64 if kind == "unsigned" else np.int64
        return np.uint64(np.array(int(token), whole).view(np.uint64))
    except (ValueError, OverflowError):
        return None


def _show(token: bytes) -> str:
    text = token.decode("ascii", "replace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _last_newline(text: Bytes, used: int) -> int:
    """The position after the last newline before ``used``; 0 if there is none."""
    stop = used
    while stop > 0:
        start = max(stop - 4096, 0)
        found = np.flatnonzero(text[start:stop] == 10)
        if found.size:
            return start + int(found[-1]) + 1
        stop = start
    return 0


def _line_of_entry(scratch: _Scratch, number: int, comment: bytes) -> int:
    """The line of entry ``number`` (from 0) within the block, from 1."""
    lines = scratch.text[: scratch.used].tobytes().split(b"\n")
    for k, content in enumerate(lines):
        if content.strip() and not content.strip().startswith(comment):
            if number == 0:
                return k + 1
            number -= 1
    return len(lines)


def index_width(extents: tuple[int, ...]) -> np.dtype[np.signedinteger]:
    """int32 where all indices fit."""
    return np.dtype(np.int32) if all(n < 2**31 for n in extents) else np.dtype(np.int64)
