"""The packer: from a tensor's entries to the physical arrays of a mapping.

Level by level the cursors of all entries are found: solved ones are terms of the coordinates; the
values of a walked one number the distinct coordinates under each parent. What bounds and keys read
at cursors then says what stands in the index arrays; the value array is filled last."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass, field
from tensorel.errors import StorageError
from tensorel.sdql.syntax import Apply, Binary, Expr, Name, free, walk
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require
from tensorel.storage.mapped.layout import CHOICE, Layout
from tensorel.storage.mapped.pieces import Physical, Piece, length_of
from tensorel.storage.mapped.polynomials import normal, same
from tensorel.storage.mapped.reading import check_places
from tensorel.storage.mapped.terms import (
    ONE,
    IntArray,
    Values,
    add,
    affine,
    coordinate,
    evaluate,
    literal,
    reads,
    subtract,
)
from tensorel.storage.mapped.ways import Segment, Stretch
from tensorel.storage.stack import index_dtype


def pack(coo: Coo, pieces: tuple[Piece, ...], layout: Layout, physical: Physical
         ) -> dict[str, Values]:
    """The arrays and scalars (0-d) of the mapping; ``coo`` is sorted in the layout's order."""
    packer = _Packer(coo, pieces, layout, physical)
    packer.measure()
    for level in layout.levels:
        match level:
            case Segment():
                packer.segment(level)
            case Stretch(cursor=name) if name == CHOICE:
                packer.choose(level)
            case Stretch():
                packer.stretch(level)
    packer.values()
    return packer.arrays


@dataclass
class _Packer:
    coo: Coo
    pieces: tuple[Piece, ...]
    layout: Layout
    physical: Physical
    arrays: dict[str, Values] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # values of each walked cursor

    def __post_init__(self) -> None:
        self.env: dict[str, IntArray] = {
            coordinate(a): c.astype(np.int64) for a, c in enumerate(self.coo.coords)}

    # -- scalars --------------------------------------------------------------------------------

    def measure(self) -> None:
        """Scalars that follow from the shape."""
        for axis, extent in enumerate(self.layout.extents):
            if isinstance(extent, Name):
                self._set(extent.name, self.coo.shape[axis])
        for axis, extent in enumerate(self.layout.extents):
            if extent is not None and self._is_known(extent):
                found = int(evaluate(extent, {}, self.arrays))
                if found != self.coo.shape[axis]:
                    raise StorageError(
                        f"the mapping has {found} coordinates on axis {axis}; the tensor has "
                        f"{self.coo.shape[axis]}")
        for c in (c for p in self.pieces for c in p.cursors):
            term = self.layout.bound.get(c.name)
            if term is not None and isinstance(c.high, Name) and c.high.name not in self.arrays:
                self._set(c.high.name, self._last(term) + 1)

    def _last(self, term: Expr) -> int:
        """The value of a solved cursor at the last cell of the tensor."""
        if 0 in self.coo.shape:
            return -1
        corner = {coordinate(a): np.asarray(n - 1) for a, n in enumerate(self.coo.shape)}
        return int(evaluate(term, corner, self.arrays))

    def _set(self, name: str, value: int) -> None:
        before = self.arrays.get(name)
        if before is not None and int(before) != value:
            raise StorageError(
                f"{name} would be {int(before)} and {value}: the mapping stores tensors whose "
                f"axes are equally long, this one has shape {self.coo.shape}")
        self.arrays[name] = np.asarray(value, dtype=np.int64)

    def _number(self, e: Expr) -> int:
        if not self._is_known(e):
            missing = ", ".join(sorted(free(e) - set(self.arrays)))
            raise StorageError(
                f"the packer cannot tell {missing} from the tensor",
                hint="give it to tr.storage as a keyword, e.g. tr.storage(text, R=4)")
        return int(evaluate(e, {}, self.arrays))

    def _is_known(self, e: Expr) -> bool:
        return free(e) | reads(e) <= set(self.arrays)

    # -- walked cursors -------------------------------------------------------------------------

    def segment(self, level: Segment) -> None:
        here = self.env[coordinate(level.axis)]
        read, wanted = self._content(level.coord, level.cursor, here)
        if level.inside:
            self._fill(read, wanted)
            return
        group = self._groups(level, read)
        if level.runs:
            entry = np.arange(here.size)
            self._number_items(level, read, entry, group, np.ones(here.size, dtype=bool))
        else:
            self._number_items(level, read, *_distinct(group, wanted))
        self._fill(read, wanted, pad=self.coo.shape[level.axis])

    def _content(self, e: Expr, cursor: str, here: IntArray) -> tuple[Apply, IntArray]:
        """The read of an array that ``e`` depends on the cursor through, and what stands there
        for ``e`` to be ``here``."""
        read = _read_at(e, cursor)
        if read is None:
            raise StorageError(
                "the packer cannot tell what stands in the arrays of this key",
                hint="a walked key is an array read at the cursor, plus or times known terms")
        hole = Name("?")
        parts = affine(_replace(e, read, hole), "?")
        if parts is None or cursor in free(parts[0]) | free(parts[1]):
            raise StorageError("the packer cannot solve this key for its array")
        rest, factor = evaluate(parts[1], self.env, self.arrays), self._number(parts[0])
        return read, (here - rest) // factor

    def _groups(self, level: Segment | Stretch, read: Apply) -> IntArray:
        """A number for the parent of each entry: the values of its cursor are counted from the
        parent's lower bound. Cursors whose bounds and places know no parent have one parent."""
        names = free(level.low) | free(level.high) | (free(read.keys[0]) - {level.cursor})
        at = [self.env[n] for n in sorted(names) if n in self.env]
        bound = _read_of(level.low) or _read_of(level.high)
        if bound is not None and free(read.keys[0]) <= {level.cursor}:
            at = [np.broadcast_to(evaluate(bound.keys[0], self.env, self.arrays),
                                  (self.coo.count,)).astype(np.int64)]
        if not at:
            return np.zeros(self.coo.count, dtype=np.int64)
        group = at[0]
        for x in at[1:]:
            group = group * (int(x.max(initial=0)) + 1) + x
        return group

    def _number_items(self, level: Segment | Stretch, read: Apply, entry: IntArray,
                      group: IntArray, fresh: npt.NDArray[np.bool_]) -> None:
        """The cursor of each entry, from the order of the items under their parents; the arrays
        and scalars that bound it. ``group`` ascends; ``fresh``: the first entry of an item."""
        item = np.cumsum(fresh) - 1
        starts = np.flatnonzero(fresh)
        owner = group[starts]  # ascending
        head = np.ones(owner.size, dtype=bool)
        head[1:] = owner[1:] != owner[:-1]
        begin = np.flatnonzero(head)
        which = np.cumsum(head) - 1
        nth = np.arange(owner.size) - begin[which] if owner.size else owner
        sizes = np.diff(np.append(begin, owner.size))
        first_entry = entry[starts[begin]] if owner.size else np.empty(0, dtype=np.int64)
        parents = {n: x[first_entry] for n, x in self.env.items()}
        low = self._bounds(level, parents, sizes)
        for name in free(read.keys[0]) & self.physical.scalars - set(self.arrays):
            self._set(name, int(sizes.max(initial=0)))  # room for the most that one parent has
        cursor = np.empty(group.size, dtype=np.int64)
        cursor[entry] = (low[which] + nth)[item] if owner.size else 0
        self.env[level.cursor] = cursor
        self.counts[level.cursor] = int(owner.size)

    def _bounds(self, level: Segment | Stretch, parents: dict[str, IntArray], sizes: IntArray
                ) -> IntArray:
        """Arrays and scalars of the bounds, from the number of items of each parent that has
        any; the lower bound of each of these parents."""
        low, high = level.low, level.high
        count, most = int(sizes.sum()), int(sizes.max(initial=0))
        match low, high:
            case Apply(target=Name(name=a), keys=(t,)), Apply(target=Name(name=b), keys=(u,)) \
                    if a == b and same(add(t, ONE), u):
                at = self._at(t, parents)
                bounds = np.zeros(self._parents(t, a) + 1, dtype=np.int64)
                bounds[at + 1] = sizes
                np.cumsum(bounds, out=bounds)
                self.arrays[a] = bounds.astype(index_dtype(count))
                return bounds[at]
        if not self._is_settled(low):
            raise StorageError("the packer cannot tell the lower bound of a cursor",
                               hint="write pos(p):pos(p+1), 0:length(p), 0:size")
        start = np.broadcast_to(evaluate(low, parents, self.arrays), sizes.shape).astype(np.int64)
        self._upper(subtract(high, low) if literal(low) != 0 else high, parents, sizes, most)
        return start

    def _upper(self, length: Expr, parents: dict[str, IntArray], sizes: IntArray, most: int
               ) -> None:
        match length:
            case Apply(target=Name(name=name), keys=(t,)) if name not in self.arrays:
                counts = np.zeros(self._parents(t, name, spare=0), dtype=np.int64)
                counts[self._at(t, parents)] = sizes
                self.arrays[name] = counts.astype(index_dtype(most))
            case Name(name=name) if name not in self.arrays:
                self.arrays[name] = np.asarray(most, dtype=np.int64)
            case _ if self._is_settled(length):
                room = evaluate(length, parents, self.arrays)
                if np.any(sizes > room):
                    raise StorageError(
                        f"{most} entries share one parent; the mapping has room for "
                        f"{int(np.max(room))}", hint="give it more room, or use another storage")
            case _:
                raise StorageError("the packer cannot tell the upper bound of a cursor",
                                   hint="write pos(p):pos(p+1), 0:length(p), 0:size")

    def _is_settled(self, e: Expr) -> bool:
        return free(e) | reads(e) <= set(self.arrays) | set(self.env)

    def _at(self, t: Expr, parents: dict[str, IntArray]) -> IntArray:
        count = len(next(iter(parents.values()), ()))
        return np.broadcast_to(evaluate(t, parents, self.arrays), (count,)).astype(np.int64)

    def _parents(self, t: Expr, array: str, spare: int = 1) -> int:
        """How many parents there are: as the array is declared, or as the term goes."""
        declared = self.physical.extents.get(array, ())
        if declared and self._is_known(declared[0]):
            return self._number(declared[0]) - spare
        if isinstance(t, Name) and t.name in self.counts:
            return self.counts[t.name]
        if literal(t) is not None:
            return int(literal(t) or 0) + 1
        axes = [a for a in range(len(self.coo.shape)) if coordinate(a) in free(t)]
        if free(t) - {coordinate(a) for a in axes} <= set(self.arrays):
            if any(self.coo.shape[a] == 0 for a in axes):
                return 0
            corner = {coordinate(a): np.asarray(self.coo.shape[a] - 1) for a in axes}
            return int(evaluate(t, corner, self.arrays)) + 1
        return int(self._at(t, self.env).max(initial=-1)) + 1

    # -- stretches ------------------------------------------------------------------------------

    def stretch(self, level: Stretch) -> None:
        here = self.env[coordinate(level.axis)]
        width = normal(subtract(level.stop, level.first))
        if self._is_known(width):  # blocks of one width, aligned
            size = self._number(width)
            aligned = here - here % size
            read, wanted = self._content(level.first, level.cursor, aligned)
            self._number_items(level, read, *_distinct(self._groups(level, read), wanted))
            self._fill(read, wanted)
            return
        read, _ = self._content(level.first, level.cursor, here)
        group = self._groups(level, read)
        entry = np.lexsort((here, group))
        g, c = group[entry], here[entry]
        fresh = np.ones(g.size, dtype=bool)
        fresh[1:] = (g[1:] != g[:-1]) | (c[1:] != c[:-1] + 1)
        if not free(self.layout.place) & {coordinate(level.axis)}:  # one value for all of it
            v = self.coo.values[entry]
            fresh[1:] |= (v[1:] != v[:-1]) & ((v[1:] == v[1:]) | (v[:-1] == v[:-1]))
        self._number_items(level, read, entry, g, fresh)
        starts = np.flatnonzero(fresh)
        lengths = np.diff(np.append(starts, g.size))
        first = c[starts]
        items = {n: x[entry][starts] for n, x in self.env.items()}
        for term, content in ((level.first, first), (level.stop, first + lengths)):
            unfilled = self._read_besides(term, level.cursor)
            rest = normal(subtract(term, unfilled))
            self._store(unfilled, items, content - evaluate(rest, items, self.arrays), first.size)

    def choose(self, level: Stretch) -> None:
        """Of several pieces, the one that has the cell."""
        here = self.env[coordinate(level.axis)]
        chosen = np.zeros(self.coo.count, dtype=np.int64)
        for k in range(self._number(level.high)):
            env = {**self.env, CHOICE: np.full(self.coo.count, k)}
            first, stop = (evaluate(t, env, self.arrays) for t in (level.first, level.stop))
            chosen[(first <= here) & (here < stop)] = k
        self.env[CHOICE] = chosen

    def _read_besides(self, e: Expr, cursor: str) -> Apply:
        """The read at the cursor of an array that is not filled yet."""
        found = _read_at(e, cursor, besides=set(self.arrays))
        if found is None:
            raise StorageError("the packer cannot tell where a stretch ends",
                               hint="write start(r):start(r)+length(r), or first(r):stop(r)")
        return found

    def _store(self, read: Apply, items: dict[str, IntArray], content: IntArray, count: int
               ) -> None:
        assert isinstance(read.target, Name)
        at = evaluate(read.keys[0], items, self.arrays)
        array = np.zeros(count, dtype=np.int64)
        array[at] = content
        self.arrays[read.target.name] = array.astype(index_dtype(int(array.max(initial=0))))
        self.arrays.setdefault(length_of(read.target.name), np.asarray(count, dtype=np.int64))

    def _fill(self, read: Apply, wanted: IntArray, pad: int = 0) -> None:
        """An index array: what the entries want of it, ``pad`` where none of them does."""
        assert isinstance(read.target, Name)
        name = read.target.name
        at = evaluate(read.keys[0], self.env, self.arrays)
        size = self._length(name, at)
        array = np.full(size, pad, dtype=np.int64)
        array[at] = wanted
        bound = max(int(array.max(initial=0)), 0)
        self.arrays[name] = array.astype(index_dtype(bound))
        self.arrays.setdefault(length_of(name), np.asarray(size, dtype=np.int64))

    def _length(self, name: str, at: Values) -> int:
        declared = self.physical.extents.get(name, ())
        needed = int(np.max(at, initial=-1)) + 1
        if not declared or not self._is_known(declared[0]):
            return needed
        size = max(self._number(declared[0]), 0)
        if size < needed:
            raise StorageError(
                f"the mapping uses {name}({needed - 1}); the array is declared with {size} "
                f"elements", hint="correct the declaration or the place")
        return size

    # -- values ---------------------------------------------------------------------------------

    def values(self) -> None:
        name, dtype = self.pieces[0].array, self.coo.values.dtype
        if name is None:
            return
        env = {**self.env}
        for cursor, term in self.layout.bound.items():
            env[cursor] = np.asarray(evaluate(term, self.env, self.arrays), dtype=np.int64)
        at = np.broadcast_to(
            evaluate(self.layout.place, env, self.arrays), (self.coo.count,)).astype(np.int64)
        if at.size and at.min() < 0:
            raise StorageError(f"the mapping would store a cell at {name}({int(at.min())})")
        declared = self.physical.extents.get(name, ())
        size = self._length(name, at)
        if not (declared and self._is_known(declared[0])):
            places = check_places(self.pieces, self.arrays)[1]
            size = max(size, int(places.max(initial=-1)) + 1)
        require(size * dtype.itemsize, f"the array {name} of {size} elements")
        val = np.full(size, self.coo.fill, dtype=dtype)
        val[at] = self.coo.values
        self.arrays[name] = val
        self.arrays.setdefault(length_of(name), np.asarray(size, dtype=np.int64))


def _distinct(group: IntArray, wanted: IntArray
              ) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """The entries by (group, wanted), their groups, and flags of the first of each pair: entries
    with one parent and one wanted value are one item."""
    entry = np.lexsort((wanted, group))
    g, w = group[entry], wanted[entry]
    fresh = np.ones(g.size, dtype=bool)
    fresh[1:] = (g[1:] != g[:-1]) | (w[1:] != w[:-1])
    return entry, g, fresh


def _read_at(e: Expr, cursor: str, besides: set[str] | None = None) -> Apply | None:
    """The first read of an array at a place that depends on the cursor."""
    for node in walk(e):
        if isinstance(node, Apply) and isinstance(node.target, Name) \
                and cursor in free(node.keys[0]) and node.target.name not in (besides or ()):
            return node
    return None


def _read_of(e: Expr) -> Apply | None:
    return next((n for n in walk(e) if isinstance(n, Apply)), None)


def _replace(e: Expr, old: Expr, new: Expr) -> Expr:
    if e == old:
        return new
    match e:
        case Binary(op=op, left=left, right=right):
            return Binary(op, _replace(left, old, new), _replace(right, old, new))
        case _:
            return e
