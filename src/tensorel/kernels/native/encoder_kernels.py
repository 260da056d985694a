"""The kernels of ``native.encoder``: codes of texts by hashing, codes of whole numbers by place.

A text is read in words of eight bytes that lie aligned: a word that holds one byte of the text may
hold others, but never lies on another page, so it can be read whole."""

from __future__ import annotations

from functools import cache

import numpy as np

from tensorel.ir.nodes import INT64, DType, Local
from tensorel.kernels.loopir.statements import Kernel
from tensorel.kernels.native.notation import UINT64, Code, Memory, X, scalar, whole, word

INT32 = np.dtype(np.int32)
BOOL = np.dtype(bool)
#: Numbers that are kept of each different text: where it begins, the upper half of its hash and its
#: length, its first and its second word. So short texts are compared without looking at them.
ABOUT_TEXT = 4
_HALF = 0xFFFFFFFF
_FIRST_FACTOR, _FACTOR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd


def _finish(code: Code, name: str, written: set[str], scalars: list[str]) -> Kernel:
    arrays = tuple(m.source for m in code.arrays.values())
    lo, hi = Local("lo", INT64), Local("hi", INT64)
    parameters = tuple(Local(s, INT64) for s in scalars)
    return Kernel(name, arrays, frozenset(written), (), parameters, lo, hi, code.done())


def _load(code: Code, name: str, memory: Memory, at: X, size: X) -> X:
    """Up to eight bytes from ``at`` on, zeros behind them; ``size`` (at least 1) says how many of
    them there are, eight if more."""
    first = code.let("first", at >> 3)
    shift = code.let("shift", ((at & 7) << 3).to(UINT64))
    second = code.let("second", ((at & 7) + size > 8).pick(first + 1, first))
    low = memory[first] >> shift
    high = (memory[second] << 1) << (word(63) - shift)
    kept = (size < 8).pick((word(1) << ((size & 7) << 3).to(UINT64)) - 1, word(2**64 - 1))
    return code.let(name, (low | high) & kept)


def _mix(h: X) -> X:
    return (h * _FACTOR) ^ ((h * _FACTOR) >> 32)


@cache
def texts_kernel(places: DType, has_nulls: bool) -> Kernel:
    """codes[k] of the texts [lo, hi): -1 where they are null, else the number of the different text
    in ``about``. ``slots`` is a hash table: upper bits of the hash choose a slot, which holds the
    lower half of the hash and the number + 1. Stops before a text that would be one too many:
    report is where, and how many different ones there are."""
    code = Code()
    starts, ends = code.array("starts", places), code.array("ends", places)
    memory, slots = code.array("memory", UINT64), code.array("slots", UINT64)
    about, codes = code.array("about", UINT64), code.array("codes", INT32)
    report = code.array("report", INT64)
    nulls = code.array("nulls", BOOL) if has_nulls else None
    k, count = code.let("k", scalar("lo")), code.let("count", scalar("known"))
    full = code.let("full", whole(0))
    with code.loop((k < scalar("hi")).also(full.is_(0)), checked=True):
        if nulls is not None:
            with code.when(nulls[k].to(INT64).is_not(0)):
                code.store(codes, k, -1)
            with code.unless():
                _find(code, starts, ends, memory, slots, about, codes, k, count, full)
        else:
            _find(code, starts, ends, memory, slots, about, codes, k, count, full)
        code.set(k, full.is_(0).pick(k + 1, k))
    code.store(report, 0, k)
    code.store(report, 1, count)
    name = f"texts_{places.name}{'_nulls' if has_nulls else ''}"
    return _finish(code, name, {"slots", "about", "codes", "report"},
                   ["known", "most", "shift", "mask", "base"])




def _find(code: Code, starts: Memory, ends: Memory, memory: Memory, slots: Memory, about: Memory,
          codes: Memory, k: X, count: X, full: X) -> None:
    begin = code.let("begin", starts[k].to(INT64) + scalar("base"))
    size = code.let("size", ends[k].to(INT64) - starts[k].to(INT64))
    lead, more = code.let("lead", word(0)), code.let("more", word(0))
    with code.when(size > 0):
        code.set(lead, _load(code, "start", memory, begin, size))
    h = code.let("h", _mix(lead ^ (size.to(UINT64) * _FIRST_FACTOR)))
    done = code.let("done", whole(16))
    with code.when(size > 8):
        code.set(more, _load(code, "next", memory, begin + 8, size - 8))
        code.set(h, _mix(h ^ more))
        with code.loop(done < size):
            code.set(h, _mix(h ^ _load(code, "part", memory, begin + done, size - done)))
            code.set(done, done + 8)
    code.set(h, _mix(h))
    mark = code.let("mark", ((h >> 32) << 32) | size.to(UINT64))
    tag = code.let("tag", h << 32)
    slot = code.let("slot", (h >> scalar("shift").to(UINT64)).to(INT64))
    found = code.let("found", whole(-1))
    looking = code.let("looking", found.is_(-1))
    with code.loop(looking):
        held = code.let("held", slots[slot])
        with code.when(held.is_(0)):
            code.set(looking, held.is_not(0))
        with code.unless():
            number = code.let("number", (held & _HALF).to(INT64) - 1)
            at = code.let("at", number * ABOUT_TEXT)
            alike = code.let("alike", ((held >> 32) << 32).is_(tag).also(
                about[at + 1].is_(mark)).also(about[at + 2].is_(lead)).also(
                about[at + 3].is_(more)))
            code.set(done, whole(16))
            with code.loop(alike.also(done < size)):
                mine = _load(code, "mine", memory, begin + done, size - done)
                other = _load(code, "other", memory, about[at].to(INT64) + done, size - done)
                code.set(alike, mine.is_(other))
                code.set(done, done + 8)
            with code.when(alike):
                code.set(found, number)
                code.set(looking, held.is_(0))
            with code.unless():
                code.set(slot, (slot + 1) & scalar("mask"))
    with code.when(found.is_(-1)):
        with code.when(count < scalar("most")):
            code.store(slots, slot, tag | (count + 1).to(UINT64))
            at = code.let("at", count * ABOUT_TEXT)
            code.store(about, at, begin)
            code.store(about, at + 1, mark)
            code.store(about, at + 2, lead)
            code.store(about, at + 3, more)
            code.set(found, count)
            code.set(count, count + 1)
        with code.unless():
            code.set(full, whole(1))
    code.store(codes, k, found)


@cache
def rehash_kernel() -> Kernel:
    """What the slots [lo, hi) of a smaller table hold, into an empty one."""
    code = Code()
    before, slots = code.array("before", UINT64), code.array("slots", UINT64)
    about = code.array("about", UINT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi")):
        held = code.let("held", before[k])
        with code.when(held.is_not(0)):
            number = code.let("number", (held & _HALF).to(INT64) - 1)
            mark = about[number * ABOUT_TEXT + 1]
            slot = code.let("slot", (mark >> scalar("shift").to(UINT64)).to(INT64))
            with code.loop(slots[slot].is_not(0)):
                code.set(slot, (slot + 1) & scalar("mask"))
            code.store(slots, slot, held)
        code.set(k, k + 1)
    return _finish(code, "rehash_texts", {"slots"}, ["shift", "mask"])


@cache
def mark_kernel(width: DType, has_nulls: bool) -> Kernel:
    """marks[value - base] = 1 for the values [lo, hi) that are not null."""
    code = Code()
    values, marks = code.array("values", width), code.array("marks", BOOL)
    nulls = code.array("nulls", BOOL) if has_nulls else None
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        if nulls is None:
            code.store(marks, values[k].to(INT64) - scalar("base"), 1)
        else:
            with code.when(nulls[k].to(INT64).is_(0)):
                code.store(marks, values[k].to(INT64) - scalar("base"), 1)
        code.set(k, k + 1)
    return _finish(code, f"mark_{width.name}{'_nulls' if has_nulls else ''}", {"marks"}, ["base"])


@cache
def rank_kernel(width: DType, has_nulls: bool) -> Kernel:
    """codes[k] = ranks[value - base] for the values [lo, hi), -1 where they are null."""
    code = Code()
    values, ranks = code.array("values", width), code.array("ranks", INT32)
    codes = code.array("codes", INT32)
    nulls = code.array("nulls", BOOL) if has_nulls else None
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        if nulls is None:
            code.store(codes, k, ranks[values[k].to(INT64) - scalar("base")])
        else:
            with code.when(nulls[k].to(INT64).is_(0)):
                code.store(codes, k, ranks[values[k].to(INT64) - scalar("base")])
            with code.unless():
                code.store(codes, k, -1)
        code.set(k, k + 1)
    return _finish(code, f"rank_{width.name}{'_nulls' if has_nulls else ''}", {"codes"}, ["base"])


@cache
def recode_kernel() -> Kernel:
    """codes[k] = numbers[codes[k] + 1] for the codes [lo, hi)."""
    code = Code()
    codes, numbers = code.array("codes", INT32), code.array("numbers", INT32)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        code.store(codes, k, numbers[codes[k].to(INT64) + 1])
        code.set(k, k + 1)
    return _finish(code, "recode", {"codes"}, [])
