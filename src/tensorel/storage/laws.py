"""What the physical arrays of a tensor must be: the law of a format, looked at in two ways.

Each level says once, in ``Level.law``, which arrays it has below so many parent positions, and
answers how many positions it makes; a format (``Format.law``) goes down its levels and then says
how many values there are. Both speak in the words of ``Look``. A *quick* look asks for names, kinds
and lengths, in about a microsecond, whenever a ``Stored`` is made; a *whole* look reads the arrays
too: bounds that do not descend, indices that ascend within their segments and stay inside of their
axis, tables in which every key is found.

Lengths are exact. Only the segments of a compressed level may use a window of what lies below them:
a view of some rows cuts the segment bounds and shares all else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType

AnyArray = npt.NDArray[np.generic]
IndexArray = npt.NDArray[np.signedinteger]
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
INDEX = (INT32, INT64)
#: The number of positions of a level that does not state it (formats of other packages).
UNKNOWN = -1


class Violation(Exception):
    """Arrays that break the law of their format; ``array``: the name of the one that does."""

    def __init__(self, array: str | None, text: str) -> None:
        super().__init__(text if array is None else f"array {array!r}: {text}")
        self.array, self.text = array, text


class Look:
    """A look at the arrays of a tensor; ``whole``: at what they hold, too.

    ``window`` and ``fresh`` are what the levels of a coordinate list tell the next one: which of
    their entries belong to the tensor, and where in these another run begins.
    """

    __slots__ = ("arrays", "dtype", "fresh", "shape", "whole", "window")
    window: tuple[int, int]
    fresh: npt.NDArray[np.bool_]

    def __init__(self, arrays: Mapping[str, AnyArray], shape: tuple[int, ...], dtype: DType,
                 whole: bool) -> None:
        self.arrays, self.shape, self.dtype, self.whole = arrays, shape, dtype, whole

    def list(self, name: str) -> AnyArray:
        """An array of one axis."""
        found = self.arrays.get(name)
        if found is None:
            raise Violation(None, f"array {name!r} is missing")
        if found.ndim != 1:
            raise Violation(None, f"array {name!r} is not a list of numbers")
        return found

    def sized(self, name: str, size: int, what: str) -> AnyArray:
        """An array of exactly so many elements."""
        found = self.list(name)
        if found.size != size:
            raise Violation(name, _needed(found.size, size, what))
        return found

    def values(self, size: int, name: str = "val") -> AnyArray:
        """The values of the tensor, so many."""
        found = self.list(name)
        if found.dtype != self.dtype:
            raise Violation(
                None, f"values have dtype {found.dtype}; the header says {self.dtype}")
        if found.size != size and size != UNKNOWN:
            raise Violation(None, _needed(found.size, size, "values"))
        return found

    def indices(self, name: str, axis: int, size: int | None = None) -> IndexArray:
        """Coordinates of an axis."""
        found = self.list(name)
        if found.dtype not in INDEX:
            raise Violation(name, f"indices of axis {axis} are not a list of int32 or int64")
        if size is not None and found.size != size:
            raise Violation(name, _needed(found.size, size, "indices"))
        return found  # type: ignore[return-value]

    def places(self, name: str, size: int, what: str) -> IndexArray:
        """So many whole numbers that kernels take for places."""
        found = self.sized(name, size, what)
        check_kind(name, found, what)
        return found  # type: ignore[return-value]

    def bounds(self, name: str, parents: int, room: int) -> IndexArray:
        """Segment bounds for so many parents over ``room`` entries."""
        pos = self.list(name)
        if pos.size != parents + 1 or pos.dtype not in INDEX or pos[-1] > room:
            check_lengths(name, pos, parents, room)
        if self.whole:
            check_bounds(name, pos, room)
        return pos  # type: ignore[return-value]

    def segments(self, name: str, idx: IndexArray, pos: IndexArray, axis: int, runs: bool,
                 extent: int | None = None) -> None:
        """Indices ascend within each segment; with ``runs`` equal ones may be neighbours."""
        lo, hi = self.window = int(pos[0]), int(pos[-1])
        fresh = np.zeros(hi - lo + 1, dtype=bool)
        fresh[pos - lo] = True
        self.fresh = fresh[:-1]
        self.listed(name, idx, axis, runs, extent)

    def whole_list(self, size: int) -> None:
        """A list without segments, all of which belongs to the tensor."""
        self.window, self.fresh = (0, size), np.zeros(size, dtype=bool)

    def listed(self, name: str, idx: IndexArray, axis: int, runs: bool,
               extent: int | None = None) -> None:
        """Indices ascend within each run of the level above, which are runs of their own then."""
        lo, hi = self.window
        used, fresh = idx[lo:hi], self.fresh
        check_inside(name, used, self.shape[axis] if extent is None else extent, axis)
        rising = used[1:] > used[:-1]
        if runs:
            allowed = rising | (used[1:] == used[:-1]) | fresh[1:]
            fresh[1:] |= rising
        else:
            allowed = rising | fresh[1:]
        if not allowed.all():
            raise Violation(name, "indices do not ascend")

    def table(self, names: tuple[str, str], count: int,
              found: Callable[[IndexArray], npt.NDArray[np.bool_]]) -> None:
        """An open-addressing table of ``count`` keys and its size; ``found``: of a table that
        names each entry once, whether a search for each key would end at it."""
        table = self.list(names[0])
        check_kind(names[0], table, "slots")
        slots = self.places(names[1], 1, "table sizes")
        if int(slots[0]) != table.size or table.size & (table.size - 1) or table.size <= count:
            raise Violation(names[0], f"a table of {table.size:,} slots for {count:,} keys; its "
                                      f"size is a power of two, as {names[1]!r} says, with room")
        if self.whole:
            used = np.sort(table[table != -1])
            if not np.array_equal(used, np.arange(count)):
                raise Violation(names[0], f"the slots do not name each of {count:,} entries once")
            if not found(table).all():  # type: ignore[arg-type]
                raise Violation(names[0], "a key is not found from where its hash points to")


def _needed(found: int, wanted: int, what: str) -> str:
    return f"{found:,} {what} where {wanted:,} are needed"


def check_kind(name: str | None, array: AnyArray, what: str) -> None:
    """Kernels take indices as int32 or int64."""
    if array.dtype not in INDEX or array.ndim != 1:
        raise Violation(name, f"{what} are not a list of int32 or int64")


def check_lengths(name: str | None, pos: AnyArray, parents: int, room: int) -> None:
    """There is a bound for each parent and one more, and the last one is inside."""
    check_kind(name, pos, "segment bounds")
    if pos.size != parents + 1 or not pos.size:
        raise Violation(name, _needed(pos.size, parents + 1, "segment bounds"))
    if int(pos[-1]) > room:
        raise Violation(name, f"segment bounds reach outside the {room:,} entries")


def check_bounds(name: str | None, pos: AnyArray, room: int) -> None:
    """Segment bounds ascend and stay inside."""
    if int(pos[0]) < 0:
        raise Violation(name, f"segment bounds reach outside the {room:,} entries")
    if bool((pos[1:] < pos[:-1]).any()):  # type: ignore[operator]
        raise Violation(name, "segment bounds descend")


def check_inside(name: str | None, idx: AnyArray, extent: int, axis: int) -> None:
    """Indices are inside of their axis."""
    if idx.size and (int(idx.min()) < 0 or int(idx.max()) >= extent):
        bad = int(idx.min()) if int(idx.min()) < 0 else int(idx.max())
        raise Violation(name, f"index {bad} is outside axis {axis} with extent {extent}")


def ascends(pos: AnyArray, idx: AnyArray) -> bool:
    """Whether the indices that the bounds name ascend strictly within each segment."""
    start, stop = int(pos[0]), int(pos[-1])
    used = idx[start:stop]
    descents = np.flatnonzero(used[1:] <= used[:-1]) + 1  # type: ignore[operator]
    if not descents.size:
        return True
    begins = np.zeros(stop - start + 1, dtype=bool)
    begins[pos - pos[0]] = True
    return bool(begins[descents].all())
