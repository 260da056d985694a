"""dia: any set of diagonals. band: all diagonals between two.

dia: ``sum(d) where(i1 - i0 == off[d], val[d * n1 + i1])``, off ascending (SciPy's layout).
band: ``where(0 <= i1 - i0 - low < w, val[i0 * w + i1 - i0 - low])``, rows contiguous."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.build import as_expr, both, compare, element, minus, plus, times
from tensorel.ir.nodes import Call, Expr
from tensorel.storage.entries import Coo, make_fill
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.formats.compressed import need_matrix
from tensorel.storage.laws import Look, Violation
from tensorel.storage.levels import Arrays, Dense, Found, Level, Position, Walk, extent_of
from tensorel.storage.limits import require
from tensorel.storage.sorting import distinct
from tensorel.storage.stack import entries_in, index_dtype, lambda_text, unlike_fill


@dataclass(frozen=True, slots=True)
class Diagonals(Level):
    """Row i meets the diagonals ``lo[i] <= d < hi[i]``, those whose column is in range."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("off", "lo", "hi")

    def law(self, look: Look, axis: int, parents: int) -> int:
        off, n = look.indices("off", axis), look.shape[axis]
        ends = {name: look.places(name, parents, "row bounds") for name in ("lo", "hi")}
        if look.whole:
            if bool((off[1:] <= off[:-1]).any()):
                raise Violation("off", "offsets do not ascend")
            wide = off.astype(np.int64, copy=False)
            for name, wanted in row_bounds(wide, parents, n).items():
                if not np.array_equal(ends[name], wanted):
                    raise Violation(name, "rows do not end where their diagonals leave the matrix")
        return off.size * n

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        i, off = outer[-1], arrays["off"]
        n = extent_of(arrays, 1)

        def coord(d: Expr) -> Expr:
            return plus(i, element(off, d))

        return Walk(
            element(arrays["lo"], i), element(arrays["hi"], i), coord,
            lambda d: (plus(times(d, n), coord(d)),),
        )


@dataclass(frozen=True, slots=True)
class BandLevel(Level):
    """Columns i + low .. i + low + w - 1 that are in range; ``band`` holds low and w."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("band",)

    def law(self, look: Look, axis: int, parents: int) -> int:
        width = int(look.places("band", 2, "numbers of a band")[1])
        if width < 0:
            raise Violation("band", f"a band of {width} diagonals")
        return parents * width

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        i = outer[-1]
        low, width = element(arrays["band"], 0), element(arrays["band"], 1)
        first = plus(i, low)
        lo = _at_least(minus(0, first), as_expr(0))
        hi = Call(ops.minimum, (width, minus(extent_of(arrays, 1), first)))
        row = times(i, width)
        return Walk(
            lo, _at_least(hi, lo), lambda q: plus(first, q), lambda q: (plus(row, q),)
        )

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        row = outer[-1]
        low, width = element(arrays["band"], 0), element(arrays["band"], 1)
        q = minus(minus(i, row), low)
        condition = both(compare(ops.less_equal, 0, q), compare(ops.less, q, width))
        return Found(condition, (plus(times(row, width), q),))


def _at_least(a: Expr, b: Expr) -> Expr:
    return Call(ops.maximum, (a, b))


@dataclass(frozen=True, slots=True)
class Dia(Format):
    @property
    def mapping(self) -> str:
        return lambda_text(2, "sum(d in N) where(i1 - i0 == off[d], val[d * n1 + i1])")

    def pack(self, coo: Coo) -> PhysicalArrays:
        (m, n), (i, j) = coo.shape, coo.coords
        offsets = j.astype(np.int64) - i
        off = distinct(offsets)
        values = coo.values
        require(off.size * n * values.dtype.itemsize, f"{off.size} diagonals of {n} columns")
        val = np.full(off.size * n, coo.fill, dtype=values.dtype)
        val[np.searchsorted(off, offsets) * n + j] = values
        return {"off": off, **row_bounds(off, m, n), "val": val}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        m, n = shape
        val = arrays["val"].reshape(arrays["off"].size, n)
        d, j = np.nonzero(unlike_fill(val, make_fill(fill, dtype), 48))
        i = j - arrays["off"].astype(np.int64)[d]
        inside = (i >= 0) & (i < m)
        return entries_in((0, 1), (i[inside], j[inside]), val[d, j][inside], shape, fill)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        return int(arrays["hi"].sum(dtype=np.int64) - arrays["lo"].sum(dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Band(Format):
    @property
    def mapping(self) -> str:
        return lambda_text(
            2,
            "where(0 <= i1 - i0 - band[0] and i1 - i0 - band[0] < band[1], "
            "val[i0 * band[1] + i1 - i0 - band[0]])",
        )

    def pack(self, coo: Coo) -> PhysicalArrays:
        (m, _), (i, j) = coo.shape, coo.coords
        offsets = j.astype(np.int64) - i
        low = int(offsets.min()) if coo.count else 0
        width = int(offsets.max()) - low + 1 if coo.count else 0
        dtype = coo.values.dtype
        require(m * width * dtype.itemsize, f"a band of {width} diagonals over {m} rows")
        val = np.full(m * width, coo.fill, dtype=dtype)
        val[i.astype(np.int64) * width + offsets - low] = coo.values
        return {"band": np.asarray([low, width]), "val": val}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        (m, n), (low, width) = shape, (int(x) for x in arrays["band"])
        val = arrays["val"].reshape(m, width)
        i, q = np.nonzero(unlike_fill(val, make_fill(fill, dtype), 48))
        j = i + q + low
        inside = (j >= 0) & (j < n)
        return entries_in((0, 1), (i[inside], j[inside]), val[i, q][inside], shape, fill)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        low, width = (int(x) for x in arrays["band"])
        off = np.arange(low, low + width)
        starts, stops = np.maximum(0, -off), np.minimum(shape[0], shape[1] - off)
        return int(np.maximum(stops - starts, 0).sum())


def row_bounds(off: npt.NDArray[np.int64], m: int, n: int) -> dict[str, npt.NDArray[np.generic]]:
    """Per row the range of ascending offsets whose column lies in the matrix."""
    require(40 * m, f"the bounds of {m} rows of diagonals")
    rows = np.arange(m, dtype=np.int64)
    dtype = index_dtype(off.size)
    return {
        "lo": np.searchsorted(off, -rows).astype(dtype),
        "hi": np.searchsorted(off, n - rows).astype(dtype),
    }


@named
def dia(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("dia", shape)
    return Dia("dia", (0, 1), (Dense(0), Diagonals()))


@named
def band(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("band", shape)
    return Band("band", (0, 1), (Dense(0), BandLevel()))
