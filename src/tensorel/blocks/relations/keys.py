"""Sets of keys: rows of whole numbers, and which keys a relation is about.

Keys are an int64 array with one row for each key. A relation is about all keys below its extents
(a grid, which is never listed unless somebody asks) or about those that its ``Domain`` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.storage.limits import require

Keys = npt.NDArray[np.int64]
Key = tuple[int, ...]
Positions = npt.NDArray[np.int64]
MAX_SHOWN = 3  # keys that a message names
KEY_BYTES = 400  # of a key as Python's numbers, with what is noted beside it


@dataclass(frozen=True, eq=False, slots=True)
class Domain:
    """The keys below ``extents``, or, of them, those listed in ``only`` (sorted, each once)."""

    extents: tuple[int, ...]
    only: Keys | None = None

    @property
    def count(self) -> int:
        """How many keys there are."""
        return prod(self.extents) if self.only is None else len(self.only)

    def all(self) -> Keys:
        """The keys in order, listed."""
        if self.only is not None:
            return self.only
        arity, count = len(self.extents), self.count
        require(16 * count * max(arity, 1), f"a list of the {count} keys of a relation")
        if not arity or not count:
            return np.zeros((count, arity), np.int64)
        found: Keys = np.stack(np.unravel_index(np.arange(count), self.extents), axis=1)
        return found.astype(np.int64, copy=False)

    def listed(self) -> Keys:
        """The keys in order, to be gone through one by one."""
        require(KEY_BYTES * self.count, f"the {self.count} keys of a relation, one by one")
        return self.all()

    def holes(self) -> list[Key]:
        """The first few keys below the extents that it is not about."""
        if self.only is None:
            return []
        there = set(map(tuple, self.only.tolist()))
        below = product(*map(range, self.extents))
        return _first((key for key in below if key not in there), MAX_SHOWN)


def domain_of(extents: Sequence[int], keys: Keys) -> Domain:
    """The domain of sorted keys: a grid if they are all that there are."""
    grid = Domain(tuple(extents))
    return grid if len(keys) == grid.count else Domain(grid.extents, keys)


def _first(found: Iterator[Key], count: int) -> list[Key]:
    return [key for key, _ in zip(found, range(count))]


def as_keys(rows: Sequence[Sequence[int]], arity: int) -> Keys:
    """Keys from tuples."""
    return np.array(rows, np.int64).reshape(len(rows), arity)


def codes(*parts: Keys) -> list[Positions]:
    """Numbers for keys, in the order of the keys: equal ones for equal keys."""
    arity = parts[0].shape[1]
    whole = np.concatenate(parts)
    if not whole.size:
        return [np.zeros(len(p), np.int64) for p in parts]
    tops = (whole.max(axis=0) + 1).tolist()
    if prod(tops) < 2**62:
        found = np.zeros(len(whole), np.int64)
        for k in range(arity):
            found *= tops[k]
            found += whole[:, k]
    else:
        found = np.unique(whole, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    ends = np.cumsum([len(p) for p in parts])[:-1]
    return list(np.split(found, ends))


def find(wanted: Keys, among: Keys) -> Positions:
    """Where each key stands in a list without repetitions; -1 if it does not."""
    if not len(among):
        return np.full(len(wanted), -1, np.int64)
    at, there = codes(wanted, among)
    order = np.argsort(there, kind="stable")
    place = np.minimum(np.searchsorted(there[order], at), len(among) - 1)
    found: Positions = order[place]
    found[there[found] != at] = -1
    return found


def match(left: Keys, right: Keys, on_left: Sequence[int], on_right: Sequence[int]
          ) -> tuple[Positions, Positions]:
    """The positions of all pairs of keys that agree in the given components."""
    a, b = codes(left[:, list(on_left)], right[:, list(on_right)])
    order = np.argsort(b, kind="stable")
    low, high = (np.searchsorted(b[order], a, side=s) for s in ("left", "right"))
    count = high - low
    total = int(count.sum())
    require(48 * total, f"the {total} pairs of a join")
    first = np.repeat(np.arange(len(left)), count)
    step = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    return first, order[np.repeat(low, count) + step]


def sorted_by(keys: Keys) -> Positions:
    """The positions of the keys in their order."""
    return np.argsort(codes(keys)[0], kind="stable")


def starts(numbers: Positions) -> Positions:
    """Where runs of equal numbers begin."""
    if not len(numbers):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))


def shown(keys: Sequence[Key], more: bool = False) -> str:
    """Keys for people."""
    return ", ".join(str(tuple(k)) for k in keys[:MAX_SHOWN]) + (", ..." if more else "")
