"""Shared by the storage tests: random tensors, and a plain interpreter of levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tensorel.ir.build import as_expr
from tensorel.ir.nodes import Call, Const, Expr, Read, Source, const
from tensorel.storage.formats.hashing import hash_keys
from tensorel.storage.levels import Found, Probe
from tensorel.storage.stored import Stored

ANY_RANK = ("dense", "dense_f", "coo", "csf", "dok", "trie", "zorder", "bitmap")
MATRIX = ("csr", "csc", "dcsr", "dcsc", "bsr", "bsr(2,3)", "bsr(3,2)", "dia", "band")
SHAPED = ("tril", "triu", "symmetric")
FILLS = {"b": (False, True), "i": (0, 3), "u": (0, 3), "f": (0.0, 1.5, np.nan, np.inf, -0.0),
         "c": (0.0, 1 + 2j, complex(np.nan, 0))}


def formats_for(shape: tuple[int, ...], dtype: Any) -> list[str]:
    """Format texts that take every tensor of this shape and dtype."""
    rank = len(shape)
    names = [n for n in ANY_RANK if n != "bitmap" or np.dtype(dtype).kind == "b"]
    if rank == 2:
        names += MATRIX
    axes = [str(a) for a in range(rank)]
    if rank > 1:
        names.append(f"csf({','.join(reversed(axes))})")
        names.append(f"trie({','.join(axes[1:] + axes[:1])})")
        for k in (0, 1, rank - 1, rank):
            names.append(f"{','.join(axes[:k])};{','.join(axes[k:])}")
        names.append(f"{axes[-1]};{','.join(axes[:-1])}")
        names.append(f";{','.join(axes[:-1])};{axes[-1]}")
    return names


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, fill: Any,
                 density: float) -> np.ndarray[Any, Any]:
    values = rng.integers(0, 5, shape).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        values = np.where(rng.random(shape) < 0.1, np.asarray([np.nan, -0.0, np.inf], dtype)[
            rng.integers(0, 3, shape)], values - 1)
    kept = rng.random(shape) < density
    return np.where(kept, values, np.asarray(fill, dtype)).astype(dtype)


def same(a: Any, b: Any) -> bool:
    """Equal in dtype, shape and value; nans are alike, zeros are not unless their signs are."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        signs = np.signbit(a) == np.signbit(b)
        return bool(((nan & np.isnan(b)) | ((a == b) & signs)).all())
    return bool((a == b).all())


class Interpreter:
    """Reads a stored tensor through its levels, one expression at a time."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        names = [*stored.arrays, "shape", "count"]
        self.arrays = {n: self._source(n) for n in names}

    def _source(self, name: str) -> Source:
        dtype = self.stored.physical(name).dtype
        return Source(name, (-1,), dtype, const(0, dtype))

    def number(self, e: Expr) -> Any:
        match e:
            case Const():
                return e.value
            case Read():
                array = self.stored.physical(str(e.tensor.data))
                (at,) = (int(self.number(i)) for i in e.indices)
                assert 0 <= at < array.size, f"{e.tensor.data}[{at}] of {array.size}"
                return array[at]
            case Call():
                into, out = e.op.resolve(*(a.dtype for a in e.args))
                args = [np.asarray(self.number(a)).astype(d) for a, d in zip(e.args, into)]
                with np.errstate(all="ignore"):
                    return np.asarray(e.op.meaning(*args)).astype(out)[()]
        raise AssertionError(e)

    def position(self, position: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(as_expr(int(self.number(p))) for p in position)

    def found(self, found: Found) -> tuple[Expr, ...] | None:
        if found.condition is not None and not self.number(found.condition):
            return None
        return self.position(found.child)

    def probed(self, probe: Probe) -> tuple[Expr, ...] | None:
        size = int(self.number(probe.size))
        assert size & (size - 1) == 0
        keys = [int(self.number(k)) for k in probe.keys]
        slot = int(self.number(hash_keys(tuple(as_expr(k) for k in keys)))) & (size - 1)
        for _ in range(size):
            entry = int(self.number(Read(probe.table, (as_expr(slot),))))
            if entry < 0:
                return None
            stored = probe.stored(as_expr(entry))
            if [int(self.number(s)) for s in stored] == keys:
                return self.position(probe.child(as_expr(entry)))
            slot = (slot + 1) & (size - 1)
        raise AssertionError("a full table")

    def steps(self, depth: int, parent: tuple[Expr, ...],
              outer: tuple[Expr, ...]) -> dict[int, tuple[Expr, ...]]:
        """Coordinate -> child position at one level, by every way in that the level has."""
        level, axis = self.stored.format.levels[depth], self.stored.format.order[depth]
        extent = self.stored.shape[axis]
        walk = level.walk(self.arrays, parent, outer)
        ways = []
        if walk is not None:
            lo, hi = int(self.number(walk.lo)), int(self.number(walk.hi))
            assert lo <= hi
            ends = {q: [int(self.number(way(as_expr(q)))) for way in (walk.coord, walk.end)]
                    for q in range(lo, hi)}
            cursor = [(q, c) for q, (a, b) in ends.items() for c in range(a, b + 1)]
            if walk.width is not None:
                for a, b in ends.values():
                    assert a % walk.width == 0 and b - a + 1 == min(walk.width, extent - a)
            for (_, a), (_, b) in pairwise(cursor):
                assert a <= b if walk.runs else a < b, "coordinates must ascend"
            way: dict[int, tuple[Expr, ...]] = {}
            for q, c in cursor:
                if walk.runs:
                    first = int(self.number(way[c][0])) if c in way else q
                    way[c] = (as_expr(first), as_expr(q + 1))
                else:
                    way[c] = self.position(walk.at(as_expr(q), as_expr(c)))
            ways.append(way)
        lookups = [self._find(level, parent, outer), self._probe(level, parent, outer)]
        for lookup in lookups:
            if lookup is not None:
                reached = {i: lookup(as_expr(i)) for i in range(extent)}
                ways.append({i: p for i, p in reached.items() if p is not None})
        assert ways, "a level without any way in"
        assert all(w == ways[0] for w in ways), "ways in must agree"
        assert all(0 <= c < extent for c in ways[0])
        if level.full:
            assert sorted(ways[0]) == list(range(extent))
        return ways[0]

    def _find(self, level: Any, parent: Any, outer: Any) -> Any:
        if level.find(self.arrays, parent, outer, as_expr(0)) is None:
            return None
        return lambda i: self.found(level.find(self.arrays, parent, outer, i))

    def _probe(self, level: Any, parent: Any, outer: Any) -> Any:
        if level.probe(self.arrays, parent, outer, as_expr(0)) is None:
            return None
        return lambda i: self.probed(level.probe(self.arrays, parent, outer, i))

    def entries(self, depth: int = 0, parent: tuple[Expr, ...] = (),
                outer: tuple[Expr, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
        """(coordinates in axis order, value) of each stored entry, in the order of the walk."""
        format = self.stored.format
        if depth == len(format.levels):
            cell = [0] * format.rank
            for axis, c in zip(format.order, outer):
                cell[axis] = int(self.number(c))
            yield tuple(cell), self.number(format.value(self.arrays, parent))
            return
        for c, child in self.steps(depth, parent, outer).items():
            yield from self.entries(depth + 1, child, (*outer, as_expr(c)))
