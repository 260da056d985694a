"""dense (row-major) and dense_f (column-major): ``val[i0 * n1 + i1]``, ``val[i1 * n0 + i0]``."""

from __future__ import annotations

from tensorel.algebra.ops import DType
from tensorel.storage.format import Format, named
from tensorel.storage.levels import Dense
from tensorel.storage.stack import Stack


@named
def dense(shape: tuple[int, ...], dtype: DType) -> Format:
    order = tuple(range(len(shape)))
    return Stack("dense", order, tuple(Dense(a) for a in order))


@named
def dense_f(shape: tuple[int, ...], dtype: DType) -> Format:
    order = tuple(reversed(range(len(shape))))
    return Stack("dense_f", order, tuple(Dense(a) for a in order))
