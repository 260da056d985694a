"""Systems of equations with a sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel import config
from tensorel.algebra import matrices
from tensorel.algebra.ops import DType
from tensorel.engines.in_process.iterations.matrix import Array, Evaluate, Matrix, rounding
from tensorel.errors import LinearAlgebraError, UnsupportedError
from tensorel.storage.convert import to_coo, to_dense
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

MAX_BASIS = 60  # vectors of a basis before an iteration starts anew
MAX_ROUNDS = 400  # bases, or so many times as many steps of conjugate gradients
MAX_STALLED = 4  # bases in a row that bring nothing
#: Residuals of a solution, in rounding errors of what is subtracted from each other in them.
MAX_RESIDUAL = 100.0


def solved(args: Sequence[Stored], method: str, dtype: DType, evaluate: Evaluate) -> Array:
    """The solution by a method that keeps the matrix sparse."""
    if len(args[0].shape) != 2 or len(args[1].shape) != 2:
        raise UnsupportedError(f"solve: {method} takes one matrix, not stacks of them",
                               hint="leave the method to the planner")
    if 0 in args[0].shape or 0 in args[1].shape:
        return np.zeros(args[1].shape, dtype)
    if bool(args[0].fill):
        raise UnsupportedError(f"solve: {method} takes matrices whose entries that are not stored "
                               "are zero", hint="leave the method to the planner")
    if method == "superlu":
        return by_scipy(args, dtype)
    try:
        return by_iteration(args, dtype, evaluate)
    except LinearAlgebraError:
        a = args[0]
        if a.shape[0] * a.shape[1] * dtype.itemsize > config.current().densify:
            raise
        return matrices.solve.apply([to_dense(a), to_dense(args[1])], ("lapack",))


def by_scipy(args: Sequence[Stored], dtype: DType) -> Array:
    """Factors of the sparse matrix by SuperLU, which SciPy brings."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    a, b = args
    coo = to_coo(a)
    require(64 * coo.count, "solve: the matrix by columns")
    matrix = csc_array((coo.values.astype(dtype), coo.coords), shape=a.shape)
    try:
        factors = splu(matrix)
    except RuntimeError as error:
        raise LinearAlgebraError(f"solve: singular matrix (shape {a.shape})",
                                 hint="pinv and lstsq give the smallest solution") from error
    found: Array = factors.solve(np.ascontiguousarray(to_dense(b), dtype))
    return found


def by_iteration(args: Sequence[Stored], dtype: DType, evaluate: Evaluate) -> Array:
    """Conjugate gradients for Hermitian matrices with a positive diagonal, else minimal residuals;
    both scaled by the diagonal."""
    a, b = args
    matrix, right = Matrix(a, dtype, evaluate), np.asarray(to_dense(b), dtype)
    diagonal = matrix.diagonal()
    scale = np.where(diagonal == 0, 1, diagonal)
    definite = bool((diagonal.real > 0).all()) and matrix.is_hermitian()
    require(2 * MAX_BASIS * right.shape[0] * dtype.itemsize, "solve: the basis of the iteration")
    found = np.zeros_like(right)
    for column in range(right.shape[1]):
        y = right[:, column]
        x = _gradients(matrix, y, scale) if definite else None
        found[:, column] = _minimal_residuals(matrix, y, scale) if x is None else x
    return found


def _close(matrix: Matrix, residual: Array, x: Array, y: Array) -> bool:
    terms = np.linalg.norm(y) + matrix.size * np.linalg.norm(x)
    return bool(np.linalg.norm(residual) <= MAX_RESIDUAL * rounding(matrix.dtype) * terms)


def _gradients(matrix: Matrix, y: Array, scale: Array) -> Array | None:
    """The solution, None where the matrix turns out not to be definite or progress ends."""
    x = np.zeros_like(y)
    r = y.copy()
    z = r / scale
    p, rho = z, np.vdot(r, z)
    for step in range(MAX_ROUNDS * MAX_BASIS):
        if _close(matrix, r, x, y):
            r = y - matrix.times_vector(x)  # what was added up is looked at
            if _close(matrix, r, x, y):
                return x
            z = r / scale
            p, rho = z, np.vdot(r, z)
        q = matrix.times_vector(p)
        curvature = np.vdot(p, q).real
        if not curvature > 0 or step > 10 * y.size + 100:
            return None
        alpha = rho / curvature
        x = x + alpha * p
        r = r - alpha * q
        z = r / scale
        rho, before = np.vdot(r, z), rho
        p = z + (rho / before) * p
    return None


def _minimal_residuals(matrix: Matrix, y: Array, scale: Array) -> Array:
    """GMRES, started anew after a basis is full."""
    x = np.zeros_like(y)
    least, stalled = np.inf, 0
    for _ in range(MAX_ROUNDS):
        r = y - matrix.times_vector(x)
        if _close(matrix, r, x, y):
            return x
        length = float(np.linalg.norm(r))
        stalled = 0 if length < 0.99 * least else stalled + 1
        least = min(least, length)
        step = _best_of_basis(matrix, r, scale)
        if step is None or stalled > MAX_STALLED:
            break
        x = x + step
    raise LinearAlgebraError(
        f"solve: the iteration for a sparse matrix of shape {matrix.shape} does not converge",
        hint="install SciPy for its direct solver, or say method='lapack'")


def _best_of_basis(matrix: Matrix, r: Array, scale: Array) -> Array | None:
    """What to add to a solution so that its residual is the least."""
    length = float(np.linalg.norm(r))
    size = min(MAX_BASIS, r.size)
    basis: Array = np.zeros((size + 1, r.size), matrix.dtype)
    small: Array = np.zeros((size + 1, size), matrix.dtype)
    basis[0] = r / length
    k = 0
    while k < size:
        w = matrix.times_vector(basis[k] / scale)
        for _ in range(2):  # once is not enough where vectors are nearly parallel
            parts = basis[: k + 1].conj() @ w
            w = w - parts @ basis[: k + 1]
            small[: k + 1, k] += parts
        small[k + 1, k] = np.linalg.norm(w)
        k += 1
        if abs(small[k, k - 1]) <= rounding(matrix.dtype) * length:
            break
        basis[k] = w / small[k, k - 1]
    wanted: Array = np.zeros(k + 1, matrix.dtype)
    wanted[0] = length
    found = np.linalg.lstsq(small[: k + 1, :k], wanted, rcond=None)[0]
    step: Array = (found @ basis[:k]) / scale
    return step if np.linalg.norm(step) > 0 else None
