"""Solutions, inverses, factors and eigenvalues: what needs the whole matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tensorel.algebra import matrices, ops
from tensorel.algebra.bulk import BulkOperator
from tensorel.errors import ShapeError, TypeError_, ValueError_
from tensorel.front.array.base import Base, axes_of, indices, whole, wrap
from tensorel.front.array.convert import asarray
from tensorel.front.functions.elementwise import unary, where
from tensorel.front.functions.products import matmul
from tensorel.front.functions.reductions import max as largest_of
from tensorel.front.functions.shaping import expand_dims, matrix_transpose, reshape
from tensorel.ir import nodes as ir
from tensorel.ir.build import plus, times

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


class EigenResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """The smallest of the best solutions, and the rank of the matrix."""

    x: Tensor
    rank: Tensor


def _matrices(x: object, name: str) -> Tensor:
    """A stack of matrices of floats."""
    t = asarray(x)
    if t.ndim < 2:
        raise ShapeError(f"{name}: a tensor of shape {t.shape} is no matrix",
                         hint="it takes matrices, or stacks of them along the first axes")
    return t if t.dtype.kind in "fc" else t.astype(np.float64)


def _bulk(op: BulkOperator, *operands: Base, params: tuple[object, ...] = ()) -> Tensor:
    return wrap(ir.Bulk(op, tuple([t.node for t in operands]), params))


def _part(packed: Tensor, start: int, shape: tuple[int, ...], real: bool = False) -> Tensor:
    """Matrices or vectors that lie from ``start`` on along the last axis."""
    batch = packed.shape[:-1]
    at = indices(len(batch) + len(shape))
    place = at[-1] if len(shape) == 1 else plus(times(shape[1], at[-2]), at[-1])
    read = ir.Read(packed.node, (*at[: len(batch)], plus(place, start)))
    found = wrap(ir.Lambda(axes_of((*batch, *shape)), read))
    return unary(ops.real, found) if real and found.dtype.kind == "c" else found


def _count(k: object, most: int, name: str) -> int:
    found = whole(k, f"{name}: k")
    if not 0 < found <= most:
        raise ValueError_(f"{name}: k is {found}, and there are {most}")
    return found


# -- equations -------------------------------------------------------------------------------------
def inv(x: object) -> Tensor:
    """The inverse of square matrices. A product with it solves equations, without it.

    >>> import tensorel as tr
    >>> tr.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return _bulk(matrices.inv, _matrices(x, "inv"))


def solve(a: object, b: object, *, method: str | None = None) -> Tensor:
    """The solutions of ``a @ x = b``. ``method``: "lapack" for the whole matrix, "superlu" for
    factors of a sparse one (by SciPy), "krylov" for an iteration; None: the cheapest.

    >>> import tensorel as tr
    >>> tr.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0]).tolist()
    [0.5, 0.25]
    """
    if method is not None and method not in matrices.METHODS:
        raise ValueError_(f"solve: method {method!r} is not known",
                          hint=f"there are {', '.join(matrices.METHODS)}")
    x, y = _matrices(a, "solve"), asarray(b)
    if y.ndim == 0:
        raise ShapeError("solve: the right side is a scalar")
    y = y if y.dtype.kind in "fc" else y.astype(np.float64)
    params = (method or "",)
    if y.ndim > 1:
        return _bulk(matrices.solve, x, y, params=params)
    if y.shape[0] != x.shape[-1]:
        raise ShapeError(f"solve: {x.shape[-1]} equations, and a right side of shape {y.shape}")
    found = _bulk(matrices.solve, x, expand_dims(y, 1), params=params)
    return reshape(found, found.shape[:-1])


def lstsq(a: object, b: object, *, rtol: float | None = None) -> LstsqResult:
    """The solutions of least squares, the smallest where there are many.

    >>> import tensorel as tr
    >>> tr.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).x.to_numpy().round(6).tolist()
    [2.0]
    """
    x = _matrices(a, "lstsq")
    return LstsqResult(matmul(pinv(x, rtol=rtol), b), matrix_rank(x, rtol=rtol))


def det(x: object) -> Tensor:
    """The determinants of square matrices."""
    return _bulk(matrices.det, _matrices(x, "det"))


def slogdet(x: object) -> SlogdetResult:
    """The signs of determinants, and the logarithms of their absolute values."""
    found = _bulk(matrices.slogdet, _matrices(x, "slogdet"))
    log = found[..., 1]
    return SlogdetResult(found[..., 0], unary(ops.real, log) if log.dtype.kind == "c" else log)


# -- factors ---------------------------------------------------------------------------------------
def cholesky(x: object, /, *, upper: bool = False) -> Tensor:
    """The triangle L (``upper``: U) with x = L @ L^H (U^H @ U) of positive definite matrices, of
    which the lower (upper) triangle is read.

    >>> import tensorel as tr
    >>> tr.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]]).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    t = _matrices(x, "cholesky")
    if not upper:
        return _bulk(matrices.cholesky, t)
    return _adjoint(_bulk(matrices.cholesky, _adjoint(t)))


def _adjoint(t: Tensor) -> Tensor:
    turned = matrix_transpose(t)
    return unary(ops.conjugate, turned) if t.dtype.kind == "c" else turned


def qr(x: object, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Matrices as products of orthonormal columns and a triangle.

    >>> import tensorel as tr
    >>> Q, R = tr.linalg.qr([[1.0, 2.0], [3.0, 4.0]])
    >>> (Q @ R).to_numpy().round(6).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if mode not in ("reduced", "complete"):
        raise ValueError_(f"qr: mode {mode!r} is not known", hint="'reduced' or 'complete'")
    t, complete = _matrices(x, "qr"), mode == "complete"
    found = _bulk(matrices.qr, t, params=(complete,))
    q, r = matrices.factor_shapes(t.shape, complete)
    return QRResult(_part(found, 0, q), _part(found, q[0] * q[1], r))


def svd(x: object, /, *, full_matrices: bool = True, k: int | None = None) -> SVDResult:
    """Matrices as U @ diag(S) @ Vh. ``k``: only so many of the largest singular values, for which a
    sparse matrix stays sparse."""
    t = _matrices(x, "svd")
    m, n = t.shape[-2:]
    if k is None:
        u, s, vh = matrices.singular_shapes(t.shape, bool(full_matrices))
        found = _bulk(matrices.svd, t, params=(bool(full_matrices),))
    else:
        count = _count(k, min(_one_matrix(t, "svd")), "svd")
        u, s, vh = (m, count), (count,), (count, n)
        found = _bulk(matrices.svd_some, t, params=(count,))
    return SVDResult(_part(found, 0, u), _part(found, u[0] * u[1], s, real=True),
                     _part(found, u[0] * u[1] + s[0], vh))


def svdvals(x: object, /) -> Tensor:
    """The singular values of matrices, descending."""
    return _bulk(matrices.svdvals, _matrices(x, "svdvals"))


def eigh(x: object, /, *, k: int | None = None, largest: bool = True) -> EigenResult:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangle is read.
    ``k``: only so many of the largest (smallest) eigenvalues, for which a sparse matrix stays
    sparse; then it has to be equal to its conjugated transpose."""
    t = _matrices(x, "eigh")
    if k is None:
        matrices.square("eigh", t.shape)
        n, count, found = t.shape[-1], t.shape[-1], _bulk(matrices.eigh, t)
    else:
        n = matrices.square("eigh", _one_matrix(t, "eigh"))
        count = _count(k, n, "eigh")
        found = _bulk(matrices.eigh_some, t, params=(count, bool(largest)))
    return EigenResult(_part(found, n * count, (count,), real=True), _part(found, 0, (n, count)))


def _one_matrix(t: Tensor, name: str) -> tuple[int, ...]:
    if t.ndim != 2:
        raise ShapeError(f"{name}: k is for one matrix, not for a stack of shape {t.shape}")
    return t.shape


def eigvalsh(x: object, /) -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending."""
    return _bulk(matrices.eigvalsh, _matrices(x, "eigvalsh"))


# -- by singular values ----------------------------------------------------------------------------
def _threshold(values: Tensor, shape: tuple[int, ...], rtol: object, relative: float) -> Tensor:
    """What singular values have to exceed, a row for each matrix."""
    most: Tensor = largest_of(values, axis=-1, initial=0)
    if rtol is None:
        eps = float(np.finfo(values.dtype).eps)  # type: ignore[type-var]
        return most * (relative * eps)
    t = asarray(rtol)
    if t.dtype.kind not in "fiu":
        raise TypeError_(f"a relative tolerance of dtype {t.dtype} is no real number")
    return most * t.astype(values.dtype)


def pinv(x: object, /, *, rtol: object = None) -> Tensor:
    """The pseudoinverse of Moore and Penrose; singular values up to ``rtol`` times the largest
    count as zero.

    >>> import tensorel as tr
    >>> tr.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    t = _matrices(x, "pinv")
    u, s, vh = svd(t, full_matrices=False)
    kept = s > expand_dims(_threshold(s, t.shape, rtol, max(t.shape[-2:], default=0)), -1)
    inverse = where(kept, 1 / where(kept, s, 1), 0)
    return matmul(_adjoint(vh) * expand_dims(inverse, -2), _adjoint(u))


def matrix_rank(x: object, /, *, rtol: object = None) -> Tensor:
    """How many singular values exceed ``rtol`` times the largest."""
    t = _matrices(x, "matrix_rank")
    s = svdvals(t)
    return (s > expand_dims(_threshold(s, t.shape, rtol, max(t.shape[-2:], default=0)), -1)).sum(
        axis=-1)


__all__ = [
    "EigenResult", "LstsqResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "det",
    "eigh", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals",
]
