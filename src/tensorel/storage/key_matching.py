"""Equal keys: groups of equal rows, and pairs of equal rows of two lists of columns.

The one place where data are joined by their values. Every column becomes words of 64 bits that are
equal exactly where the values are, as Python compares them: 1 == 1.0 == True, 0.0 == -0.0, and no
two numbers become equal by rounding. A word for several columns is their bits side by side where
these fit, else the numbers of groups, so nothing has to be verified afterwards. NumPy does short
lists; for long ones a native matcher (``kernels.native.matcher``) is installed by the engine that
has a compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.errors import ShapeError, TypeError_, ValueError_
from tensorel.storage.limits import require

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

#: Shorter lists take NumPy less time than it takes to load a kernel.
MIN_NATIVE_ROWS = 1 << 12
HOW = ("inner", "left", "right", "outer", "semi", "anti")
_WORD_BITS = 64
_QUIET_NAN = np.float64(np.nan).view(np.uint64)


class Index(Protocol):
    """Words by groups. ``ids``: the group of each word; ``first``: the first word of each group.
    Groups are numbered in the order of their first words."""

    @property
    def ids(self) -> Positions: ...
    @property
    def first(self) -> Positions: ...

    def lookup(self, keys: Words) -> Positions:
        """The groups of other words, -1 where there is none."""


class Matcher(Protocol):
    """Everything is about at least one word."""

    def index(self, keys: Words) -> Index: ...

    def members(self, ids: Positions, groups: int) -> tuple[Positions, Positions]:
        """Where the members of each group begin (and the last ones end), and the members,
        ascending; of no group is -1."""

    def total(self, ids: Positions, starts: Positions, outer: bool) -> int:
        """How many pairs ``expand`` makes."""

    def expand(self, ids: Positions, starts: Positions, members: Positions, outer: bool
               ) -> tuple[Positions, Positions]:
        """Pairs of a position in ``ids`` and a member of the group there, in this order; with
        ``outer`` also (position, -1) where there is none."""


# -- NumPy ---------------------------------------------------------------------------------------
class _Sorted:
    def __init__(self, keys: Words) -> None:
        self.distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self.rank = np.empty(order.size, np.int64)
        self.rank[order] = np.arange(order.size)
        self.first: Positions = first[order].astype(np.int64)
        self.ids: Positions = self.rank[inverse]

    def lookup(self, keys: Words) -> Positions:
        at = np.minimum(np.searchsorted(self.distinct, keys), self.distinct.size - 1)
        return np.where(self.distinct[at] == keys, self.rank[at], -1)


class _NumpyMatcher:
    def index(self, keys: Words) -> Index:
        return _Sorted(keys)

    def members(self, ids: Positions, groups: int) -> tuple[Positions, Positions]:
        starts = np.zeros(groups + 1, np.int64)
        np.cumsum(np.bincount(ids + 1, minlength=groups + 1)[1:], out=starts[1:])
        return starts, np.argsort(ids, kind="stable")[ids.size - int(starts[-1]) :]

    def _counts(self, ids: Positions, starts: Positions, outer: bool) -> Positions:
        sizes: Positions = np.append(starts[1:] - starts[:-1], int(outer))  # the last: of no group
        return sizes[ids]

    def total(self, ids: Positions, starts: Positions, outer: bool) -> int:
        return int(self._counts(ids, starts, outer).sum())

    def expand(self, ids: Positions, starts: Positions, members: Positions, outer: bool
               ) -> tuple[Positions, Positions]:
        counts = self._counts(ids, starts, outer)
        left = np.repeat(np.arange(ids.size), counts)
        if not members.size:
            return left, np.full(left.size, -1)
        nth = np.arange(left.size) - np.repeat(np.cumsum(counts) - counts, counts)
        group = ids[left]
        places = np.where(group < 0, 0, starts[group] + nth)
        return left, np.where(group < 0, -1, members[places])


_numpy: Matcher = _NumpyMatcher()
_native: Matcher | None = None


def install(matcher: Matcher | None) -> None:
    """Long lists are matched by ``matcher`` from now on."""
    global _native
    _native = matcher


def _matcher(count: int) -> Matcher:
    return _native if _native is not None and count >= MIN_NATIVE_ROWS else _numpy


# -- words of columns ----------------------------------------------------------------------------
def _checked(columns: Sequence[Any], side: str) -> list[Column]:
    found = [np.ascontiguousarray(c) for c in columns]
    if not found:
        raise ValueError_(f"key_matching: no {side} key columns are given")
    for c in found:
        if c.ndim != 1 or c.size != found[0].size:
            raise ShapeError(f"key_matching: {side} key columns of shapes "
                             f"{', '.join(str(x.shape) for x in found)} are not of one length")
        if c.dtype.kind not in "biufcmM":
            raise TypeError_(f"key_matching: a {side} key column of dtype {c.dtype} has no words",
                             hint="encode strings by a dictionary first, and use their codes")
    return found


def _parts(a: Column) -> list[Column]:
    """Real columns; times as whole numbers of their unit."""
    if a.dtype.kind == "c":
        return [np.ascontiguousarray(a.real), np.ascontiguousarray(a.imag)]
    return [a.view(np.int64)] if a.dtype.kind in "mM" else [a]


def _whole(a: Column) -> Words:
    """Integers modulo 2**64."""
    return a if a.dtype == np.uint64 else a.astype(np.int64, copy=False).view(np.uint64)


def _real(a: Column) -> Words:
    """Floats with one zero and one nan."""
    wide = a.astype(np.float64) + 0.0
    words = wide.view(np.uint64)
    words[wide != wide] = _QUIET_NAN
    return words


def _nulls(a: Column) -> Mask | None:
    """Where a value equals nothing, itself included."""
    if a.dtype.kind in "mM":
        found: Mask = np.isnat(a)
    elif a.dtype.kind in "fc":
        found = a != a
    else:
        return None
    return found if found.any() else None


def _integral(a: Column, unsigned: bool) -> tuple[Words, Mask]:
    """Floats as integers, and where they are no integers of that kind."""
    low, high = (0.0, 2.0**64) if unsigned else (-(2.0**63), 2.0**63)
    wide = a.astype(np.float64)
    inside = (wide >= low) & (wide < high)
    safe = np.where(inside, wide, 0.0)
    bad: Mask = ~inside | (np.trunc(safe) != safe)
    return _whole(safe.astype(np.uint64 if unsigned else np.int64)), bad


def _either(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a | b


def _aligned(a: Column, b: Column) -> tuple[Words, Words, Mask | None, Mask | None]:
    """Words of two real columns, and where a value equals no value of the other kind."""
    if a.dtype.kind == b.dtype.kind == "f":
        return _real(a), _real(b), None, None
    if a.dtype.kind == "f":
        right, left, bad_right, bad_left = _aligned(b, a)
        return left, right, bad_left, bad_right
    unsigned = np.dtype(np.uint64) in (a.dtype, b.dtype)
    bad_a = a < 0 if unsigned and a.dtype.kind == "i" else None
    if b.dtype.kind == "f":
        words, bad_b = _integral(b, unsigned)
        return _whole(a), words, bad_a, bad_b
    return _whole(a), _whole(b), bad_a, b < 0 if unsigned and b.dtype.kind == "i" else None


def _same_units(a: Column, b: Column) -> tuple[Column, Column]:
    """Times in one unit; a time and a number have no order between them."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if not kinds & {"m", "M"}:
        return a, b
    if len(kinds) > 1:
        raise TypeError_(f"key_matching: {a.dtype} and {b.dtype} cannot be equal",
                         hint="convert one of the columns")
    unit = np.promote_types(a.dtype, b.dtype)
    return a.astype(unit), b.astype(unit)


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """One column of keys as words, of the left rows and then, if there are any, of the right."""

    sides: tuple[Words, ...]

    def span(self) -> tuple[int, int]:
        signed = [s.view(np.int64) for s in self.sides if s.size]
        return min(int(s.min()) for s in signed), max(int(s.max()) for s in signed)


def _one_word(parts: list[_Part]) -> tuple[Words, ...]:
    """One word for all columns: their bits side by side, or numbers of groups."""
    while len(parts) > 1:
        spans = [p.span() for p in parts]
        bits = [(high - low).bit_length() for low, high in spans]
        if sum(bits) <= _WORD_BITS:
            return _packed(parts, spans, bits)
        widest = max(range(len(parts)), key=bits.__getitem__)
        if bits[widest] <= _WORD_BITS // 2:  # more than two columns, all of them numbered
            pair = _packed(parts[:2], spans[:2], bits[:2])
            parts = [_Part(pair), *parts[2:]]
            widest = 0
        parts[widest] = _numbered(parts[widest])
    return parts[0].sides


def _packed(parts: list[_Part], spans: list[tuple[int, int]], bits: list[int]
            ) -> tuple[Words, ...]:
    found = []
    for side in range(len(parts[0].sides)):
        words = np.zeros(parts[0].sides[side].size, np.uint64)
        for part, (low, _), width in zip(parts, spans, bits):
            if width < _WORD_BITS:
                words <<= np.uint64(width)
            words |= part.sides[side] - np.uint64(low % 2**64)
        found.append(words)
    return tuple(found)


def _numbered(part: _Part) -> _Part:
    """The groups of the words of both sides."""
    joined = np.concatenate(part.sides)
    ids = _matcher(joined.size).index(joined).ids.view(np.uint64)
    ends = np.cumsum([s.size for s in part.sides])[:-1]
    return _Part(tuple(np.split(ids, ends)))


# -- what is asked -------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Groups:
    """``ids``: the group of each row; ``first``: the first row of each group."""

    ids: Positions
    first: Positions

    @property
    def count(self) -> int:
        return self.first.size


def group_ids(columns: Sequence[Any], nulls: Sequence[Any] | None = None) -> Groups:
    """Groups of rows that agree in all columns, numbered by first appearance. nan is one value
    here, and so is null: ``nulls`` has for each column a mask of rows without a value, or None.

    >>> found = group_ids([np.array([3, 1, 3, 1]), np.array([0.0, 1.0, -0.0, 2.0])])
    >>> found.ids.tolist(), found.first.tolist()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    found = _checked(columns, "")
    count = found[0].size
    if not count:
        return Groups(np.empty(0, np.int64), np.empty(0, np.int64))
    require(48 * count, f"grouping {count} rows")
    parts = []
    for c, absent in zip(found, nulls or [None] * len(found)):
        for part in _parts(c):
            words = _real(part) if part.dtype.kind == "f" else _whole(part)
            if absent is not None:
                words = np.where(absent, np.uint64(0), words)
            parts.append(_Part((words,)))
        if absent is not None:
            parts.append(_Part((np.asarray(absent, bool).astype(np.uint64),)))
    (keys,) = _one_word(parts)
    index = _matcher(count).index(keys)
    return Groups(index.ids, index.first)


def members_of(ids: Positions, count: int) -> tuple[Positions, Positions]:
    """The rows by numbers that they have, below ``count``, and where each number begins (and the
    last one ends). Rows with the number -1 are left out.

    >>> [p.tolist() for p in members_of(np.array([2, 0, -1, 2]), 3)]
    [[1, 0, 3], [0, 1, 1, 3]]
    """
    if not count:
        return np.empty(0, np.int64), np.zeros(1, np.int64)
    starts, members = _matcher(ids.size).members(ids, count)
    return members, starts


def matches(left: Sequence[Any], right: Sequence[Any], left_valid: Any = None,
            right_valid: Any = None) -> tuple[Positions, Positions, int]:
    """Numbers for the keys of both sides, equal exactly where the keys are, and how many there
    are: -1 on the left where no key on the right is equal, on the right for nan and null."""
    ours, others = _checked(left, "left"), _checked(right, "right")
    if len(ours) != len(others):
        raise ValueError_(f"key_matching: {len(ours)} left and {len(others)} right key columns")
    require(48 * (ours[0].size + others[0].size), "matching keys")
    bad = [None if v is None else ~np.asarray(v, bool) for v in (left_valid, right_valid)]
    parts: list[_Part] = []
    for a, b in zip(ours, others):
        a, b = _same_units(a, b)
        bad = [_either(bad[0], _nulls(a)), _either(bad[1], _nulls(b))]
        both = _parts(a), _parts(b)
        for x, y in zip(*(p if len(p) == max(map(len, both)) else [*p, np.zeros_like(p[0])]
                          for p in both)):
            words = _aligned(x, y)
            bad = [_either(bad[0], words[2]), _either(bad[1], words[3])]
            parts.append(_Part((words[0], words[1])))
    if not ours[0].size or not others[0].size:
        return np.full(ours[0].size, -1), np.full(others[0].size, -1), 0
    keys = _one_word(parts)
    return _numbers(keys[0], keys[1], bad[0], bad[1])


def _numbers(left: Words, right: Words, bad_left: Mask | None, bad_right: Mask | None
             ) -> tuple[Positions, Positions, int]:
    """The shorter side has the table: the longer one is looked up."""
    matcher = _matcher(max(left.size, right.size))
    if right.size <= left.size:
        index = matcher.index(right)
        ours, others = index.lookup(left), index.ids
    else:
        index = matcher.index(left)
        ours, others = index.ids, index.lookup(right)
    for ids, bad in ((ours, bad_left), (others, bad_right)):
        if bad is not None:
            ids[bad] = -1
    if right.size > left.size or bad_right is not None:  # groups without a row on the right
        ours[~_is_matched(ours, others, index.first.size)] = -1
    return ours, others, index.first.size


def pairs(left: Sequence[Any], right: Sequence[Any], how: str = "inner", left_valid: Any = None,
          right_valid: Any = None) -> tuple[Positions, Positions]:
    """Rows whose keys are equal, as positions on the left and on the right, in the order of the
    left and then of the right; -1 on the side that has no such row (rows that the right alone has
    come last). ``left_valid``, ``right_valid``: masks of rows whose keys have no null. nan and null
    equal nothing.

    >>> found = pairs([np.array([5, 7, 7])], [np.array([7.0, 7.0, 9.0])], how="outer")
    >>> [p.tolist() for p in found]
    [[0, 1, 1, 2, 2, -1], [-1, 0, 1, 0, 1, 2]]
    """
    if how not in HOW[:4]:
        raise ValueError_(f"key_matching: {how!r} gives no pairs",
                          hint=f"how is one of {', '.join(HOW[:4])}; see rows_with_match")
    ours, others, groups = matches(left, right, left_valid, right_valid)
    matcher, outer = _matcher(ours.size + others.size), how in ("left", "outer")
    rows, starts = members_of(others, groups)
    total = matcher.total(ours, starts, outer) if ours.size else 0
    require(16 * (total + others.size), f"a join of {ours.size} and {others.size} rows, "
            f"which makes {total}")
    found = matcher.expand(ours, starts, rows, outer)
    if how in ("left", "inner"):
        return found
    rest = np.flatnonzero(~_is_matched(others, ours, groups))
    return (np.concatenate([found[0], np.full(rest.size, -1)]), np.concatenate([found[1], rest]))


def _is_matched(ids: Positions, others: Positions, groups: int) -> Mask:
    """Whether each row has an equal one on the other side."""
    met = np.zeros(groups + 1, bool)  # the last is of no group
    met[others] = True
    met[-1] = False
    found: Mask = met[ids]
    return found


def rows_with_match(left: Sequence[Any], right: Sequence[Any], left_valid: Any = None,
                    right_valid: Any = None) -> Mask:
    """Which left rows have an equal key on the right: a semijoin; its negation is an antijoin.

    >>> rows_with_match([np.array([5, 7])], [np.array([7.0, 9.0])]).tolist()
    [False, True]
    """
    ours, others, groups = matches(left, right, left_valid, right_valid)
    return _is_matched(ours, others, groups)
