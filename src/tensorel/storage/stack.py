"""Packing and unpacking of level stacks: dense, compressed and listed levels in any order that
has its dense levels first or last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.storage.entries import Coo, IndexArray, ValueArray, distinguishable, make_fill
from tensorel.storage.format import Format, PhysicalArrays
from tensorel.storage.levels import Compressed, Dense, Level, Listed
from tensorel.storage.limits import require
from tensorel.storage.sorting import sort_coords

INT32_MAX = 2**31 - 1


def index_dtype(bound: int) -> np.dtype[np.signedinteger]:
    """The narrowest index dtype that holds 0..bound."""
    return np.dtype(np.int32) if bound <= INT32_MAX else np.dtype(np.int64)


def make_pos(
    parents: npt.NDArray[np.int64], count: int, like: np.dtype[np.generic]
) -> IndexArray:
    """Segment bounds: ``pos[p]:pos[p+1]`` are the rows whose parent is p (``parents`` ascends)."""
    # the bounds, and while they are made the lengths
    require((count + 1) * (8 + like.itemsize), f"the segment bounds over {count} dense positions")
    wide = like if parents.size <= INT32_MAX or like.itemsize == 8 else np.dtype(np.int64)
    pos = np.zeros(count + 1, dtype=wide)
    if parents.size:
        np.cumsum(np.bincount(parents, minlength=count), out=pos[1:])
    return pos


@dataclass(frozen=True, slots=True)
class Stack(Format):
    """A format that is nothing but its levels."""

    @property
    def mapping(self) -> str:
        return _mapping(self)

    def pack(self, coo: Coo) -> PhysicalArrays:
        if not self.levels:
            return {"val": _scalar(coo)}
        if all(isinstance(level, Listed) for level in self.levels):
            listed = zip(self.order, self.levels)
            return {_listed(level): coo.coords[axis] for axis, level in listed} | {
                "val": coo.values}
        arrays: PhysicalArrays = {}
        if not isinstance(self.levels[0], Listed):  # parents, places and marks of new ones
            require(25 * coo.count, f"packing {coo.count} entries as {self.name!r}")
        parents: npt.NDArray[np.int64] = np.zeros(coo.count, dtype=np.int64)
        count, last = 1, len(self.levels) - 1
        for depth, (axis, level) in enumerate(zip(self.order, self.levels)):
            c = coo.coords[axis]
            if isinstance(level, Dense):
                count *= coo.shape[axis]
                if depth == last:
                    return arrays | {"val": _scatter(coo, parents, c, axis, count)}
                if count <= 2**63 - 1:
                    parents = parents * coo.shape[axis] + c
                else:
                    require(count * 8, f"the dense axes of format {self.name!r}")
                continue
            if isinstance(level, Listed) or level.runs or depth == last:  # type: ignore[attr-defined]
                if isinstance(level, Compressed):
                    arrays[level.names[0]] = make_pos(parents, count, c.dtype)
                arrays[_listed(level)] = c
                parents = np.arange(coo.count if depth < last else 0)
                count = coo.count
            else:
                parents, count = _compress(arrays, level, parents, count, c)
        arrays["val"] = coo.values
        return arrays

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        found: dict[int, IndexArray] = {}
        start, stop = 0, 1
        for axis, level in zip(self.order, self.levels):
            if isinstance(level, Dense):
                n = shape[axis]
                above = sum([c.itemsize for c in found.values()])
                require((stop - start) * n * (above + index_dtype(n).itemsize),
                        f"the coordinates of {(stop - start) * n} stored cells")
                found = {a: np.repeat(c, n) for a, c in found.items()}
                found[axis] = np.tile(np.arange(n, dtype=index_dtype(n)), stop - start)
                start, stop = start * n, stop * n
                continue
            if isinstance(level, Compressed):
                pos = arrays[level.names[0]][start : stop + 1]
                if found:
                    lengths = np.diff(pos)
                    first, last = _bounds(pos)
                    require(lengths.nbytes + (last - first) * sum(
                        [c.itemsize for c in found.values()]),
                        f"the coordinates of {last - first} entries")
                    found = {a: np.repeat(c, lengths) for a, c in found.items()}
                start, stop = _bounds(pos)
            elif not found:
                stop = int(arrays[_listed(level)].size)
            found[axis] = arrays[_listed(level)][start:stop]  # type: ignore[assignment]
        coords = tuple(found[axis] for axis in range(len(shape)))
        coo = Coo(coords, arrays["val"][start:stop], shape, fill, self.order)
        return drop_fill(coo) if self.levels and self.levels[-1].full else coo

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        start, stop = self.span(arrays, shape)
        return stop - start

    def span(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> tuple[int, int]:
        """The stored values are ``val[start:stop]``."""
        start, stop = 0, 1
        for depth, (axis, level) in enumerate(zip(self.order, self.levels)):
            if isinstance(level, Dense):
                start, stop = start * shape[axis], stop * shape[axis]
            elif isinstance(level, Compressed):
                pos = arrays[level.names[0]]
                start, stop = _bounds(pos[start : stop + 1])
            elif depth == 0:
                start, stop = 0, int(arrays[_listed(level)].size)
        return start, stop


def _listed(level: Level) -> str:
    """The name of the array of coordinates."""
    return next(n for n in level.names if n.startswith("idx"))


def _bounds(pos: npt.NDArray[np.generic]) -> tuple[int, int]:
    return (int(pos[0]), int(pos[-1])) if pos.size else (0, 0)


def _scalar(coo: Coo) -> ValueArray:
    return coo.values[:1] if coo.count else np.full(1, coo.fill, dtype=coo.values.dtype)


def _scatter(
    coo: Coo, parents: npt.NDArray[np.int64], c: IndexArray, axis: int, count: int
) -> ValueArray:
    """The values of a stack whose last level is dense, fill where nothing is stored."""
    dtype = coo.values.dtype
    require(count * dtype.itemsize, f"a dense tensor of shape {coo.shape}, {dtype.name}")
    val = np.full(count, coo.fill, dtype=dtype)
    val[parents * coo.shape[axis] + c] = coo.values
    return val


def _compress(
    arrays: PhysicalArrays, level: Level, parents: npt.NDArray[np.int64], count: int, c: IndexArray
) -> tuple[npt.NDArray[np.int64], int]:
    """One coordinate per distinct (parent, coordinate); the position of each entry in them."""
    fresh = np.ones(c.size, dtype=bool)
    np.not_equal(c[1:], c[:-1], out=fresh[1:])
    fresh[1:] |= parents[1:] != parents[:-1]
    starts = np.flatnonzero(fresh)
    arrays[level.names[0]] = make_pos(parents[starts], count, c.dtype)
    arrays[level.names[1]] = c[starts]
    return np.cumsum(fresh) - 1, int(starts.size)


def entries_in(order: tuple[int, ...], coords: Sequence[npt.NDArray[np.signedinteger]],
               values: ValueArray, shape: tuple[int, ...], fill: object) -> Coo:
    """Entries as a list that is sorted by the axes in ``order``."""
    listed = tuple([c.astype(index_dtype(n), copy=False) for c, n in zip(coords, shape)])
    perm = sort_coords(listed, order, shape)
    if perm is not None:
        listed, values = tuple([c[perm] for c in listed]), values[perm]
    return Coo(listed, values, shape, fill, order)


def drop_fill(coo: Coo) -> Coo:
    """``coo`` without the entries that equal its fill."""
    keep = distinguishable(coo.values, make_fill(coo.fill, coo.values.dtype))
    if keep.all():
        return coo
    left = int(np.count_nonzero(keep))
    require(keep.nbytes + coo.nbytes * left // coo.count, f"a list of {left} entries")
    return coo.where(keep)


def unlike_fill(val: ValueArray, fill: np.generic, each: int) -> npt.NDArray[np.bool_]:
    """Where stored cells differ from the fill; ``each``: bytes that the caller takes for one."""
    require(2 * val.size, f"a mask of {val.size} stored cells")
    unlike = distinguishable(val, fill)
    count = int(np.count_nonzero(unlike))
    require(unlike.nbytes + each * count, f"a list of {count} entries")
    return unlike


def _mapping(stack: Stack) -> str:
    """CSR: ``sum(p1 in N1) where(pos1[i0] <= p1 and p1 < pos1[i0 + 1] and i1 == idx1[p1],
    val[p1])`` with N1 the length of idx1, n0 and n1 the extents."""
    ranges: list[str] = []
    conditions: list[str] = []
    position = "0"
    for depth, (axis, level) in enumerate(zip(stack.order, stack.levels)):
        i = f"i{axis}"
        if isinstance(level, Dense):
            inner = position if position.isalnum() else f"({position})"
            position = i if position == "0" else f"{inner} * n{axis} + {i}"
            continue
        if isinstance(level, Compressed) or depth == 0:
            p = f"p{depth}"
            ranges.append(f"{p} in N{depth}")
            if isinstance(level, Compressed):
                pos = level.names[0]
                after = "1" if position == "0" else f"{position} + 1"
                conditions += [f"{pos}[{position}] <= {p}", f"{p} < {pos}[{after}]"]
            position = p
        conditions.append(f"{i} == {_listed(level)}[{position}]")
    body = f"val[{position}]"
    if ranges:
        body = f"sum({', '.join(ranges)}) where({' and '.join(conditions)}, {body})"
    return lambda_text(stack.rank, body)


def lambda_text(rank: int, body: str) -> str:
    """``[i0 in n0, ...] -> body``; a scalar has no axes."""
    axes = ", ".join(f"i{a} in n{a}" for a in range(rank))
    return f"[{axes}] -> {body}"
