"""tril, triu: one triangle, packed row after row. symmetric: the lower triangle for both.

tril of a square matrix: ``where(i1 <= i0, val[i0 * (i0 + 1) // 2 + i1])``. Rows of a matrix that
is not square are as long as the triangle leaves them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.ir.build import as_expr, compare, floordiv, minus, plus, times
from tensorel.ir.nodes import Call, Expr
from tensorel.storage.entries import Coo, ValueArray, distinguishable, make_fill
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.formats.compressed import need_matrix
from tensorel.storage.laws import Look, Violation
from tensorel.storage.levels import Arrays, Dense, Found, Level, Position, Walk, extent_of
from tensorel.storage.limits import require
from tensorel.storage.stack import entries_in, index_dtype, lambda_text, unlike_fill

IntArray = npt.NDArray[np.int64]


def _smaller(a: Expr, b: Expr) -> Expr:
    return Call(ops.minimum, (a, b))


def _larger(a: Expr, b: Expr) -> Expr:
    return Call(ops.maximum, (a, b))


def _lower_start(i: IntArray, n: int) -> IntArray:
    """Where row i of the lower triangle begins: rows k have min(k + 1, n) cells."""
    t: IntArray = np.minimum(i, n)
    return t * (t + 1) // 2 + (i - t) * n


def _upper_start(i: IntArray, n: int) -> IntArray:
    """Where row i of the upper triangle begins: rows k have max(n - k, 0) cells."""
    t: IntArray = np.minimum(i, n)
    return t * n - t * (t - 1) // 2


def _lower_size(m: int, n: int) -> int:
    """Cells of the lower triangle of m rows, as ``_lower_start`` has them."""
    t = min(m, n)
    return t * (t + 1) // 2 + (m - t) * n


def _upper_size(m: int, n: int) -> int:
    t = min(m, n)
    return t * n - t * (t - 1) // 2


@dataclass(frozen=True, slots=True)
class Lower(Level):
    """Columns j <= i."""

    def law(self, look: Look, axis: int, parents: int) -> int:
        return _lower_size(parents, look.shape[axis])

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        i, n = outer[-1], extent_of(arrays, 1)
        start = self._start(i, n)
        return Walk(
            as_expr(0), _smaller(plus(i, 1), n), lambda q: q, lambda q: (plus(start, q),)
        )

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        row = outer[-1]
        start = self._start(row, extent_of(arrays, 1))
        return Found(compare(ops.less_equal, i, row), (plus(start, i),))

    def _start(self, i: Expr, n: Expr) -> Expr:
        t = _smaller(i, n)
        return plus(floordiv(times(t, plus(t, 1)), 2), times(minus(i, t), n))


@dataclass(frozen=True, slots=True)
class Upper(Level):
    """Columns j >= i."""

    def law(self, look: Look, axis: int, parents: int) -> int:
        return _upper_size(parents, look.shape[axis])

    def walk(self, arrays: Arrays, parent: Position, outer: Position) -> Walk | None:
        i, n = outer[-1], extent_of(arrays, 1)
        start = minus(self._start(i, n), i)
        return Walk(i, _larger(i, n), lambda q: q, lambda q: (plus(start, q),))

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        row = outer[-1]
        start = minus(self._start(row, extent_of(arrays, 1)), row)
        return Found(compare(ops.less_equal, row, i), (plus(start, i),))

    def _start(self, i: Expr, n: Expr) -> Expr:
        t = _smaller(i, n)
        return minus(times(t, n), floordiv(times(t, minus(t, 1)), 2))


@dataclass(frozen=True, slots=True)
class Mirrored(Level):
    """All columns; (i, j) and (j, i) are one cell of the lower triangle."""

    @property
    def full(self) -> bool:
        return True

    def law(self, look: Look, axis: int, parents: int) -> int:
        if parents != look.shape[axis]:
            raise Violation(None, f"a matrix of shape {look.shape} is not symmetric")
        return _lower_size(parents, parents)

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        high, low = _larger(outer[-1], i), _smaller(outer[-1], i)
        return Found(None, (plus(floordiv(times(high, plus(high, 1)), 2), low),))


@dataclass(frozen=True, slots=True)
class Triangle(Format):
    lower: bool = True

    @property
    def mapping(self) -> str:
        t = "minimum(i0, n1)"
        if self.lower:
            start = f"{t} * ({t} + 1) // 2 + (i0 - {t}) * n1"
            return lambda_text(2, f"where(i1 <= i0, val[{start} + i1])")
        start = f"{t} * n1 - {t} * ({t} - 1) // 2"
        return lambda_text(2, f"where(i0 <= i1, val[{start} + i1 - i0])")

    def starts(self, rows: IntArray, n: int) -> IntArray:
        return _lower_start(rows, n) if self.lower else _upper_start(rows, n)

    def pack(self, coo: Coo) -> PhysicalArrays:
        (m, n), (i, j), values = coo.shape, coo.coords, coo.values
        inside = j <= i if self.lower else j >= i
        if not inside.all():
            self._refuse_outside(coo, ~inside)
            i, j, values = i[inside], j[inside], values[inside]
        size = _lower_size(m, n) if self.lower else _upper_size(m, n)
        val = packed(size, coo, f"the triangle of format {self.name!r}")
        first = self.starts(i.astype(np.int64), n)
        val[first + j if self.lower else first + (j - i)] = values
        return {"val": val}

    def _refuse_outside(self, coo: Coo, outside: npt.NDArray[np.bool_]) -> None:
        clash = outside & distinguishable(coo.values, make_fill(coo.fill, coo.values.dtype))
        if not clash.any():
            return
        k = int(np.argmax(clash))
        cell = tuple(int(c[k]) for c in coo.coords)
        side = "above" if self.lower else "below"
        raise StorageError(
            f"cell {cell} = {coo.values[k]} lies {side} the diagonal; format {self.name!r} keeps "
            f"only the other triangle, and cells outside must equal the fill {coo.fill}",
            hint="take the triangle first (tr.tril or tr.triu), or use 'csr'",
        )

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        m, n = shape
        at, values = _stored(arrays["val"], make_fill(fill, dtype))
        begins = self.starts(np.arange(m + 1, dtype=np.int64), n)
        i = np.searchsorted(begins, at, side="right") - 1
        j = at - begins[i]
        if not self.lower:
            j += i
        coords = (i.astype(index_dtype(m)), j.astype(index_dtype(n)))
        return Coo(coords, values, shape, fill, self.order)


@dataclass(frozen=True, slots=True)
class Symmetric(Format):
    @property
    def mapping(self) -> str:
        h = "maximum(i0, i1)"
        return lambda_text(2, f"val[{h} * ({h} + 1) // 2 + minimum(i0, i1)]")

    def pack(self, coo: Coo) -> PhysicalArrays:
        what = "the triangle of format 'symmetric'"
        size = _lower_size(*coo.shape)
        below, above = packed(size, coo, what), packed(size, coo, what)
        i, j = (c.astype(np.int64) for c in coo.coords)
        low, high = j <= i, j >= i
        below[i[low] * (i[low] + 1) // 2 + j[low]] = coo.values[low]
        above[j[high] * (j[high] + 1) // 2 + i[high]] = coo.values[high]
        unlike = np.not_equal(below, above)
        unlike &= (below == below) | (above == above)
        if unlike.any():
            k = int(np.argmax(unlike))
            begins = _lower_start(np.arange(coo.shape[0] + 1), coo.shape[0])
            row = int(np.searchsorted(begins, k, side="right")) - 1
            column = k - int(begins[row])
            raise StorageError(
                f"the matrix is not symmetric: cell ({row}, {column}) is {below[k]} but "
                f"cell ({column}, {row}) is {above[k]}",
                hint="use 'csr' or 'dense' for matrices that are not symmetric",
            )
        return {"val": below}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        n = shape[0]
        at, values = _stored(arrays["val"], make_fill(fill, dtype))
        begins = _lower_start(np.arange(n + 1, dtype=np.int64), n)
        i = np.searchsorted(begins, at, side="right") - 1
        j = at - begins[i]
        off = i != j
        both = [np.concatenate(pair) for pair in ((i, j[off]), (j, i[off]))]
        values = np.concatenate((values, values[off]))
        return entries_in(self.order, both, values, shape, fill)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        return shape[0] * shape[0]


def packed(count: int, coo: Coo, what: str) -> ValueArray:
    """Room for a packed triangle, filled."""
    dtype = coo.values.dtype
    require(count * dtype.itemsize, what)
    return np.full(count, coo.fill, dtype=dtype)


def _stored(val: ValueArray, fill: np.generic) -> tuple[IntArray, ValueArray]:
    at = np.flatnonzero(unlike_fill(val, fill, 48 + 3 * val.itemsize))
    return at, val[at]


@named
def tril(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("tril", shape)
    return Triangle("tril", (0, 1), (Dense(0), Lower()), True)


@named
def triu(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("triu", shape)
    return Triangle("triu", (0, 1), (Dense(0), Upper()), False)


@named
def symmetric(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("symmetric", shape)
    if shape[0] != shape[1]:
        raise StorageError(f"format 'symmetric' stores square matrices; this one is {shape}")
    return Symmetric("symmetric", (0, 1), (Dense(0), Mirrored()))
