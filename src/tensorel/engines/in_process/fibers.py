"""Fibers: the stored entries of a sparse tensor grouped by all coordinates but one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.storage.convert import canonical, entries
from tensorel.storage.entries import Coo, IndexArray, ValueArray, differs, flat_positions
from tensorel.storage.stored import Stored

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fibers:
    """Entries sorted by the other axes, then ``axis``; entries that equal the fill are left out.

    fiber: the number of the fiber of each entry, ascending. starts, sizes: the first entry of each
    fiber and how many it has. All other fibers are ``fill`` throughout."""

    coo: Coo
    axis: int
    fiber: IntArray
    starts: IntArray
    sizes: IntArray

    @property
    def length(self) -> int:
        return self.coo.shape[self.axis]

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.coo.shape)) if a != self.axis)

    @property
    def count(self) -> int:
        return int(self.starts.size)

    @property
    def local(self) -> IntArray:
        """The number of each entry within its fiber."""
        return np.arange(self.coo.count) - self.starts[self.fiber]

    def fiber_coords(self) -> list[IndexArray]:
        """The coordinates of each fiber on the other axes."""
        return [self.coo.coords[a][self.starts] for a in self.others]

    def flat(self) -> IntArray:
        """Row-major position of each fiber among all fibers; the caller knows that it fits."""
        shape = tuple([self.coo.shape[a] for a in self.others])
        return flat_positions(shape, self.fiber_coords(), self.count)

    def missing(self, wanted: int) -> IntArray:
        """Per fiber the first ``wanted`` coordinates that are not stored, ascending; past the
        end of the fiber where there are fewer.

        Missing coordinate t is t plus the number of entries with at most t missing before them.
        """
        gaps = np.minimum(self.coo.coords[self.axis] - self.local, wanted)
        keys = self.fiber * (wanted + 1) + gaps
        asked = np.arange(self.count)[:, None] * (wanted + 1) + np.arange(wanted)
        before = np.searchsorted(keys, asked, side="right") - self.starts[:, None]
        return np.arange(wanted) + before

    def by_value(self, descending: bool) -> IntArray:
        """Entry numbers sorted by fiber, then value as NumPy sorts (nan last, or first when
        descending), then coordinate."""
        values = self.coo.values
        if descending:
            turned = np.argsort(values[::-1], kind="stable")
            order = (values.size - 1 - turned)[::-1]
        else:
            order = np.argsort(values, kind="stable")
        return order[np.argsort(self.fiber[order], kind="stable")]


def fibers(stored: Stored, axis: int) -> Fibers:
    """The fibers of a sparse tensor along ``axis``."""
    rank = len(stored.shape)
    order = (*(a for a in range(rank) if a != axis), axis)
    coo = canonical(entries(stored, order), order)
    keep = differs(coo.values, stored.fill)
    if not keep.all():
        coo = coo.where(keep)
    fresh = np.ones(coo.count, dtype=bool)
    if coo.count:
        fresh[1:] = False
        for a in order[:-1]:
            fresh[1:] |= coo.coords[a][1:] != coo.coords[a][:-1]
    starts = np.flatnonzero(fresh)
    fiber = np.cumsum(fresh, dtype=np.int64) - 1
    return Fibers(coo, axis, fiber, starts, np.diff(starts, append=coo.count))


def before_fill(values: ValueArray, fill: np.generic, descending: bool) -> npt.NDArray[np.bool_]:
    """Whether each value sorts before the fill, in NumPy's order of nans and complex numbers."""
    one = np.asarray([fill], dtype=values.dtype)
    # Values that equal the fill are not among the entries, so either answer is right for them.
    above: npt.NDArray[np.bool_] = np.searchsorted(one, values) == 1
    return above if descending else ~above
