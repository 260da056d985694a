"""A sparse matrix, as what it makes of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce, Source, Tensor
from tensorel.storage.convert import from_dense, to_coo, to_dense
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Evaluate = Callable[[Sequence[Tensor]], list[Stored]]


def rounding(dtype: DType) -> float:
    """The relative error of one rounding."""
    return float(np.finfo(dtype).eps)  # type: ignore[type-var]


class Matrix:
    """A sparse matrix, as what it makes of blocks of vectors."""

    def __init__(self, stored: Stored, dtype: DType, evaluate: Evaluate) -> None:
        self.source = Source(stored, stored.shape, stored.dtype, stored.fill_const)
        self.shape, self.dtype = stored.shape, dtype
        self.evaluate = evaluate

    def times(self, x: Array) -> Array:
        """A x"""
        return self._product(x, lambda i, k: (i, k), self.shape)

    def turned(self, x: Array) -> Array:
        """A^H x"""
        found = self._product(x.conj(), lambda i, k: (k, i), self.shape[::-1])
        return found.conj()

    def _product(self, x: Array, at: Callable[[Index, Index], tuple[Index, Index]],
                 shape: tuple[int, ...]) -> Array:
        block = from_dense(np.ascontiguousarray(x, self.dtype))
        right = Source(block, block.shape, block.dtype, block.fill_const)
        i, j, k = Index("i0"), Index("i1"), Index("r0")
        left: Expr = Read(self.source, at(i, k))
        if self.source.dtype != self.dtype:
            left = Call(ops.cast(self.dtype), (left,))
        body = Reduce(ops.add, (Axis("r0", shape[1]),),
                      Call(ops.multiply, (left, Read(right, (k, j)))))
        (found,) = self.evaluate([Lambda((Axis("i0", shape[0]), Axis("i1", x.shape[1])), body)])
        return np.asarray(to_dense(found))

    def times_vector(self, x: Array) -> Array:
        """A x for one vector"""
        return self.times(x[:, None])[:, 0]

    def entries(self) -> Coo:
        """Its entries in some order."""
        return to_coo(self.source.data)  # type: ignore[arg-type]

    @cached_property
    def size(self) -> float:
        """The largest sum of absolute values of a row: vectors get no longer by more, where the
        matrix is about symmetric."""
        coo = self.entries()
        sums = np.bincount(coo.coords[0], np.abs(coo.values), minlength=self.shape[0])
        return float(sums.max(initial=0))

    def diagonal(self) -> Array:
        """The entries of the diagonal."""
        coo = self.entries()
        rows, columns = coo.coords
        found = np.zeros(self.shape[0], self.dtype)
        on = rows == columns
        found[rows[on]] = coo.values[on]
        return found

    def is_hermitian(self) -> bool:
        """Whether it is equal to its transpose, conjugated, entry by entry."""
        coo = self.entries()
        require(48 * coo.count, "the entries of a matrix and of its transpose")
        rows, columns = coo.coords
        down, across = np.lexsort((columns, rows)), np.lexsort((rows, columns))
        return bool(np.array_equal(rows[down], columns[across])
                    and np.array_equal(columns[down], rows[across])
                    and np.array_equal(coo.values[down], coo.values[across].conj()))
