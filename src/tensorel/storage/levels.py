"""Levels: one axis of a storage format as a small mapping over physical arrays.

A format is a stack of levels. A level takes the *position* that the level above gave (a tuple of
int64 expressions; the root's is ``()``) and offers ways in, each as calculus expressions over the
physical arrays:

- ``walk``: the stored coordinates in ascending order, as a range of cursor values q with
  ``coord(q)`` and ``child(q)``;
- ``find``: the position of one coordinate, in constant time;
- ``probe``: the position of one coordinate through a hash table.

Where ``find`` is missing, the kernel searches the walk (binary search or advancing cursor).
A level is ``full`` when each coordinate of its axis is stored under each parent position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from tensorel.base.records import dataclass
from tensorel.ir.build import element, minus, plus, times
from tensorel.ir.nodes import Expr, Source
from tensorel.storage.laws import UNKNOWN, Look

Position = tuple[Expr, ...]
Arrays = Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class Walk:
    """Cursor values lo <= q < hi in ascending order of coordinate.

    With ``runs``, neighbouring cursor values may share a coordinate: the walker finds the end of
    the run and the child's position is ``(q, end)``; else it is ``child(q)``. Only a workspace's
    coordinates may not be ``ascending``: it is walked alone or looked up.

    With ``last``, a cursor value stands for a *stretch* of coordinates, ``coord(q)`` to
    ``last(q)``, each with the position ``spread(q, c)``; stretches ascend and do not overlap.
    With ``width`` too, it has so many, from a multiple of it on; fewer only at the end of the axis.
    With ``keep``, there is nothing at the cursor values for which it does not hold.
    """

    lo: Expr
    hi: Expr
    coord: Callable[[Expr], Expr]
    child: Callable[[Expr], Position]
    runs: bool = False
    ascending: bool = True
    last: Callable[[Expr], Expr] | None = None
    spread: Callable[[Expr, Expr], Position] | None = None
    keep: Callable[[Expr], Expr] | None = None
    width: int | None = None

    @property
    def plain(self) -> bool:
        """One coordinate of its own for each cursor value."""
        return not self.runs and self.last is None and self.keep is None

    def end(self, q: Expr) -> Expr:
        """The last coordinate at q."""
        return self.coord(q) if self.last is None else self.last(q)

    def at(self, q: Expr, c: Expr) -> Position:
        """The child's position at the coordinate c of q."""
        return self.child(q) if self.spread is None else self.spread(q, c)


@dataclass(frozen=True, slots=True)
class Found:
    """A constant-time answer: the child's position, valid where ``condition`` holds (None:
    always)."""

    condition: Expr | None
    child: Position


@dataclass(frozen=True, slots=True)
class Probe:
    """Look ``keys`` up in an open-addressing table (linear probing, power-of-two size).

    ``table`` holds entry numbers, -1 where empty; entry e matches when ``stored(e)`` equals
    ``keys`` element by element. The slot to start at is ``hash_keys(keys) & (size - 1)``, see
    ``storage/formats/hashing.py``. ``size`` is an expression; ``child(e)`` the position of entry e.
    """

    table: Source
    size: Expr
    keys: tuple[Expr, ...]
    stored: Callable[[Expr], tuple[Expr, ...]]
    child: Callable[[Expr], Position]


@dataclass(frozen=True, slots=True)
class Level:
    """Base of levels. ``parent`` is the position from above, ``outer`` the coordinates of the
    levels above (outermost first), ``i`` a coordinate. Sizes that the mapping needs are fields,
    so equal levels compare equal and kernels are shared between tensors of equal layout."""

    @property
    def full(self) -> bool:
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """The physical arrays it reads, in order."""
        return ()

    def law(self, look: Look, axis: int, parents: int) -> int:
        """Look at the arrays of the level, which stores ``axis`` below so many positions; the
        number of its own positions."""
        for name in self.names:
            look.list(name)
        return UNKNOWN

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        return None

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        return None

    def probe(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Probe | None:
        return None


def _only(parent: Position) -> Expr:
    return parent[0] if parent else minus(0, 0)


@dataclass(frozen=True, slots=True)
class Dense(Level):
    """All coordinates 0..extent-1: position = parent * extent + i. ``extent`` is read from the
    scalar parameter of the axis, so kernels serve all sizes: see ``Format.extent``."""

    axis: int

    @property
    def full(self) -> bool:
        return True

    def law(self, look: Look, axis: int, parents: int) -> int:
        return parents * look.shape[axis] if parents >= 0 else parents

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        return None  # a loop over the whole axis with find does the same

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        return Found(None, (plus(times(_only(parent), extent_of(arrays, self.axis)), i),))


def extent_of(arrays: Arrays, axis: int) -> Expr:
    """The extent of an axis as an expression: element ``axis`` of the array ``shape``."""
    return element(arrays["shape"], axis)


@cache
def _segment_names(depth: int) -> tuple[str, str]:
    return f"pos{depth}", f"idx{depth}"


@dataclass(frozen=True, slots=True)
class Compressed(Level):
    """Coordinates ``idx[q]``, pos[parent] <= q < pos[parent+1], ascending, each once (or, with
    ``runs``, repeated: the first axis of a coordinate list below dense levels)."""

    depth: int
    runs: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return _segment_names(self.depth)

    def law(self, look: Look, axis: int, parents: int) -> int:
        below, name = _segment_names(self.depth)
        idx = look.indices(name, axis)
        size: int = idx.size
        pos = look.bounds(below, parents, size)
        if look.whole:
            look.segments(name, idx, pos, axis, self.runs)
        return size

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        pos, idx = (arrays[n] for n in self.names[:2])
        p = _only(parent)
        return Walk(
            element(pos, p), element(pos, plus(p, 1)), lambda q: element(idx, q),
            lambda q: (q,), self.runs,
        )


@dataclass(frozen=True, slots=True)
class Listed(Level):
    """An axis of a sorted coordinate list: ``idx[q]`` for q in the run that the level above gave.

    The first level of a list has no run above it: its range is the whole list."""

    depth: int
    runs: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (f"idx{self.depth}",)

    def law(self, look: Look, axis: int, parents: int) -> int:
        name = self.names[0]
        idx = look.indices(name, axis, parents if self.depth else None)
        if look.whole:
            if not self.depth:
                look.whole_list(idx.size)
            look.listed(name, idx, axis, self.runs)
        return idx.size

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        idx = arrays[f"idx{self.depth}"]
        lo, hi = parent if parent else (minus(0, 0), element(arrays["count"], 0))
        return Walk(lo, hi, lambda q: element(idx, q), lambda q: (q,), self.runs)
