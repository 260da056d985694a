"""Norms, powers, traces and products of matrices: formulas of the calculus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, ValueError_
from tensorel.front.array.base import some_axes, whole
from tensorel.front.array.convert import asarray
from tensorel.front.array.create import eye
from tensorel.front.functions import products, shaping
from tensorel.front.functions.elementwise import unary
from tensorel.front.functions.reductions import max as largest_of
from tensorel.front.functions.reductions import min as least_of
from tensorel.front.functions.reductions import sum as sum_of
from tensorel.front.functions.shaping import expand_dims, moveaxis, reshape
from tensorel.front.linalg.decompositions import inv, svdvals

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def diagonal(x: object, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices of a stack."""
    return shaping.diagonal(x, offset, -2, -1)


def trace(x: object, /, *, offset: int = 0, dtype: object = None) -> Tensor:
    """The sums of the diagonals of the matrices of a stack.

    >>> import tensorel as tr
    >>> tr.linalg.trace([[1, 2], [3, 4]]).item()
    5
    """
    return shaping.trace(x, offset, -2, -1, dtype)


def matrix_transpose(x: object, /) -> Tensor:
    """The last two axes exchanged."""
    return shaping.matrix_transpose(x)


def outer(x1: object, x2: object, /) -> Tensor:
    """All products of the entries of two vectors."""
    a, b = asarray(x1), asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: shapes {a.shape} and {b.shape} are not those of two vectors")
    return products.outer(a, b)


def matrix_power(x: object, n: int, /) -> Tensor:
    """Square matrices multiplied n times, by squaring; of the inverse where n is negative.

    >>> import tensorel as tr
    >>> tr.linalg.matrix_power([[1, 1], [0, 1]], 5).tolist()
    [[1, 5], [0, 1]]
    """
    t, count = asarray(x), whole(n, "matrix_power: n")
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise ShapeError(f"matrix_power: shape {t.shape} is not that of square matrices")
    if count < 0:
        t, count = inv(t), -count
    if count == 0:
        return shaping.broadcast_to(eye(t.shape[-1], dtype=t.dtype), t.shape)
    found: Tensor | None = None
    while True:
        if count & 1:
            found = t if found is None else products.matmul(found, t)
        count >>= 1
        if not count:
            assert found is not None
            return found
        t = products.matmul(t, t)


def multi_dot(arrays: Sequence[object]) -> Tensor:
    """The product of several matrices, in the order that costs least.

    >>> import tensorel as tr
    >>> tr.linalg.multi_dot([[[1, 2]], [[3], [4]], [[5]]]).tolist()
    [[55]]
    """
    if len(arrays) < 2:
        raise ValueError_("multi_dot: it takes two matrices at least")
    return reduce(products.matmul, arrays[1:], asarray(arrays[0]))


# -- norms -----------------------------------------------------------------------------------------
def _real(x: object) -> Tensor:
    """Absolute values, as floats."""
    t = asarray(x)
    return unary(ops.absolute, t if t.dtype.kind in "fc" else t.astype(np.float64))


def vector_norm(x: object, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
                ord: float = 2) -> Tensor:
    """The p-norm of vectors along axes, of all entries where none is given.

    >>> import tensorel as tr
    >>> tr.linalg.vector_norm([3.0, 4.0]).item()
    5.0
    """
    t = _real(x)
    axes: Any = some_axes(axis, t.ndim, "vector_norm")
    if ord == math.inf:
        return largest_of(t, axis=axes, keepdims=keepdims)
    if ord == -math.inf:
        return least_of(t, axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum_of((t != 0).astype(t.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return sum_of(t, axis=axes, keepdims=keepdims)
    if ord == 2:
        return unary(ops.sqrt, sum_of(t * t, axis=axes, keepdims=keepdims))
    return sum_of(t**ord, axis=axes, keepdims=keepdims) ** (1 / ord)


def matrix_norm(x: object, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Norms of the matrices of a stack: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    >>> import tensorel as tr
    >>> tr.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    t = asarray(x)
    if t.ndim < 2:
        raise ShapeError(f"matrix_norm: a tensor of shape {t.shape} is no matrix")
    if ord is None or ord == "fro":
        found = vector_norm(t, axis=(-2, -1))
    elif ord in ("nuc", 2, -2):
        values = svdvals(t)
        found = sum_of(values, axis=-1) if ord == "nuc" else (
            largest_of if ord == 2 else least_of)(values, axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        across = -2 if ord in (1, -1) else -1
        sums = sum_of(_real(t), axis=across)
        found = (largest_of if ord in (1, math.inf) else least_of)(sums, axis=-1)
    else:
        raise ValueError_(f"matrix_norm: ord {ord!r} is not known",
                          hint="'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return reshape(found, (*t.shape[:-2], 1, 1)) if keepdims else found


def norm(x: object, ord: float | str | None = None, axis: int | tuple[int, ...] | None = None,
         keepdims: bool = False) -> Tensor:
    """NumPy's norm: of vectors along one axis, of matrices along two, of all entries where neither
    an axis nor an order is given.

    >>> import tensorel as tr
    >>> tr.linalg.norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    t = asarray(x)
    if axis is None and ord is None:
        return vector_norm(t, keepdims=keepdims)
    axes = some_axes(axis, t.ndim, "norm") if not isinstance(axis, tuple) else axis
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError_(f"norm: ord {ord!r} is for matrices")
        return vector_norm(t, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: {len(axes)} axes are neither those of vectors nor of matrices")
    found = matrix_norm(moveaxis(t, axes, (-2, -1)), ord=ord)
    if keepdims:
        for k in sorted(a % t.ndim for a in axes):
            found = expand_dims(found, k)
    return found


__all__ = [
    "diagonal", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer",
    "trace", "vector_norm",
]
