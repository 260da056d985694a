"""bsr: compressed rows of small dense blocks.

``sum(b) where(pos[i // R] <= b < pos[i // R + 1] and j // C == idx[b],
val[(b * R + i % R) * C + j % C])`` for blocks of R x C."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.ir.build import element, floordiv, minus, modulo, plus, times
from tensorel.ir.nodes import Call, Expr
from tensorel.storage.entries import Coo, make_fill
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.formats.compressed import need_matrix
from tensorel.storage.laws import Look
from tensorel.storage.levels import Arrays, Dense, Level, Position, Walk, extent_of
from tensorel.storage.limits import require
from tensorel.storage.sorting import distinct, sort_coords
from tensorel.storage.stack import entries_in, lambda_text, make_pos, unlike_fill

#: A block shape is worth its padding when at least this share of the blocks' cells is stored.
MIN_STORED_SHARE = 0.7
_CANDIDATES = ((8, 8), (6, 6), (5, 5), (4, 4), (3, 3), (2, 2))
_SAMPLED_ENTRIES = 2**18


@dataclass(frozen=True, slots=True)
class Blocks(Level):
    """Columns of row i: a stretch of C for each block of its line, within the matrix."""

    rows: int
    cols: int

    @property
    def names(self) -> tuple[str, ...]:
        return ("pos1", "idx1")

    def law(self, look: Look, axis: int, parents: int) -> int:
        idx = look.indices("idx1", axis)
        pos = look.bounds("pos1", -(-parents // self.rows), idx.size)
        if look.whole:
            across = -(-look.shape[axis] // self.cols)
            look.segments("idx1", idx, pos, axis, False, across)
        return idx.size * self.rows * self.cols

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        i, r, c = outer[-1], self.rows, self.cols
        line = floordiv(i, r)

        def first(b: Expr) -> Expr:
            return times(element(arrays["idx1"], b), c)

        def last(b: Expr) -> Expr:
            stop = Call(ops.minimum, (plus(first(b), c), extent_of(arrays, 1)))
            return minus(stop, 1)

        def spread(b: Expr, j: Expr) -> Position:
            cell = times(plus(times(b, r), modulo(i, r)), c)
            return (plus(cell, minus(j, first(b))),)

        lo, hi = element(arrays["pos1"], line), element(arrays["pos1"], plus(line, 1))
        if c == 1:
            return Walk(lo, hi, first, lambda b: spread(b, first(b)))
        return Walk(lo, hi, first, lambda b: spread(b, first(b)), last=last, spread=spread,
                    width=c)


@dataclass(frozen=True, slots=True)
class Bsr(Format):
    """``chosen`` is False while the block shape is still to be chosen from the data."""

    chosen: bool = True

    @property
    def block(self) -> tuple[int, int]:
        level = self.levels[1]
        assert isinstance(level, Blocks)
        return level.rows, level.cols

    @property
    def text(self) -> str:
        return f"bsr({self.block[0]},{self.block[1]})" if self.chosen else "bsr"

    @property
    def mapping(self) -> str:
        r, c = self.block
        return lambda_text(
            2,
            f"sum(b in N1) where(pos1[i0 // {r}] <= b and b < pos1[i0 // {r} + 1] "
            f"and i1 // {c} == idx1[b], val[(b * {r} + i0 % {r}) * {c} + i1 % {c}])",
        )

    def fit(self, coo: Coo) -> Format:
        return self if self.chosen else with_block(best_block(coo))

    def covers(self, other: Format) -> bool:
        return isinstance(other, Bsr) and not self.chosen

    def pack(self, coo: Coo) -> PhysicalArrays:
        (r, c), (m, n) = self.block, coo.shape
        i, j = coo.coords
        require(3 * coo.nbytes + 8 * coo.count, f"{coo.count} entries in the order of blocks")
        line, column = i // r, j // c
        perm = sort_coords((line, column), (0, 1), (-(-m // r), -(-n // c)))
        values = coo.values
        if perm is not None:
            i, j, values = i[perm], j[perm], values[perm]
            line, column = line[perm], column[perm]
        fresh = np.ones(i.size, dtype=bool)
        fresh[1:] = (line[1:] != line[:-1]) | (column[1:] != column[:-1])
        starts = np.flatnonzero(fresh)
        blocks = starts.size * r * c * values.dtype.itemsize
        require(blocks + 3 * coo.nbytes + 16 * coo.count, f"the {r} x {c} blocks of format bsr")
        val = np.full(starts.size * r * c, coo.fill, dtype=values.dtype)
        block = np.cumsum(fresh) - 1
        val[(block * r + i % r) * c + j % c] = values
        pos = make_pos(line[starts].astype(np.int64), -(-m // r), column.dtype)
        return {"pos1": pos, "idx1": column[starts], "val": val}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        (r, c), (m, n) = self.block, shape
        pos, idx = arrays["pos1"], arrays["idx1"]
        first, last = (int(pos[0]), int(pos[-1])) if pos.size else (0, 0)
        val = arrays["val"].reshape(-1, r, c)[first:last]
        b, di, dj = np.nonzero(unlike_fill(val, make_fill(fill, dtype), 72))
        lines = np.repeat(np.arange(pos.size - 1), np.diff(pos))
        i, j = lines[b] * r + di, idx[first:last][b].astype(np.int64) * c + dj
        inside = (i < m) & (j < n)
        values = val[b, di, dj][inside]
        return entries_in(self.order, (i[inside], j[inside]), values, shape, fill)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        pos, (r, c) = arrays["pos1"], self.block
        return int(pos[-1] - pos[0]) * r * c


def best_block(coo: Coo) -> tuple[int, int]:
    """The largest block shape whose blocks are mostly stored, judged on the first entries."""
    i, j = (c[:_SAMPLED_ENTRIES].astype(np.int64) for c in coo.coords)
    for r, c in _CANDIDATES:
        if r > coo.shape[0] or c > coo.shape[1] or i.size == 0:
            continue
        lines, columns = i // r, j // c
        span = -(-coo.shape[1] // c)
        blocks = distinct((lines - lines[0]) * span + columns).size
        if i.size >= MIN_STORED_SHARE * blocks * r * c:
            return r, c
    return 1, 1


def with_block(block: tuple[int, int], chosen: bool = True) -> Bsr:
    return Bsr("bsr", (0, 1), (Dense(0), Blocks(*block)), chosen)


@named
def bsr(shape: tuple[int, ...], dtype: DType, *block: int) -> Format:
    need_matrix("bsr", shape)
    if not block:
        return with_block((1, 1), chosen=False)
    if len(block) != 2 or min(block) < 1:
        raise StorageError(
            f"block shape {block} is not two positive sizes", hint="write e.g. 'bsr(4,4)'"
        )
    return with_block((block[0], block[1]))
