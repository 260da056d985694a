"""Whole-matrix operators of linear algebra: decompositions, inverses, solutions.

They work on the last two axes and on each matrix of a stack by itself. A decomposition of several
parts is one operator: its parts lie one after the other along the last axis of its result, and
whoever wants one reads it there, so that all parts come of one computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra.bulk import Array, Kind, Shape, declare
from tensorel.algebra.ops import DType
from tensorel.errors import LinearAlgebraError, ShapeError

#: By which method a system of equations is solved; the planner chooses where none is named.
METHODS = ("lapack", "superlu", "krylov")


def packed(*parts: Array) -> Array:
    """Matrices and vectors of a stack side by side, along one axis.

    >>> packed(np.array([[1, 2], [3, 4]]), np.array([5])).tolist()
    [1, 2, 3, 4, 5]
    """
    batch = parts[0].shape[:-2]
    flat = [p.reshape(*batch, math.prod(p.shape[len(batch):])) for p in parts]
    return np.concatenate(flat, axis=-1)


def factor_shapes(shape: Shape, complete: bool) -> tuple[Shape, Shape]:
    """The shapes of Q and R of a matrix."""
    m, n = shape[-2:]
    k = m if complete else min(m, n)
    return (m, k), (k, n)


def singular_shapes(shape: Shape, complete: bool) -> tuple[Shape, Shape, Shape]:
    """The shapes of U, of the singular values, and of V transposed."""
    m, n = shape[-2:]
    k = min(m, n)
    return (m, m if complete else k), (k,), (n if complete else k, n)


# -- rules -----------------------------------------------------------------------------------------
def square(name: str, shape: Shape) -> int:
    """The order of the matrices of a stack, which are square."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name}: the last two axes of shape {shape} are no square matrix")
    return shape[-1]


def _of_square(name: str, rule: Callable[..., Shape] = lambda shape, *params: shape
               ) -> Callable[..., Shape]:
    """The rule for an operator that takes square matrices alone."""
    def checked(shape: Shape, *params: object) -> Shape:
        square(name, shape)
        return rule(shape, *params)
    return checked


def _flat(*shapes: Shape) -> int:
    return sum([math.prod(s) for s in shapes])


def _solution(a: Shape, b: Shape, method: str) -> Shape:
    n = square("solve", a)
    if len(b) < 2 or b[-2] != n:
        raise ShapeError(f"solve: {n} equations, and right sides of shape {b}")
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise ShapeError(f"solve: stacks of shapes {a[:-2]} and {b[:-2]} do not broadcast"
                         ) from error
    return (*batch, n, b[-1])


def _common(a: DType, b: DType, method: str) -> DType:
    return np.result_type(a, b)


def _real(dtype: DType) -> DType:
    return np.zeros(0, dtype).real.dtype


# -- meanings --------------------------------------------------------------------------------------
def _checked(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """The same with errors in the user's words."""
    def run(*args: Any) -> Any:
        try:
            return meaning(*args)
        except np.linalg.LinAlgError as error:
            raise LinearAlgebraError(
                f"linalg: {str(error).lower()} (shape {np.shape(args[0])})",
                hint=_HINTS.get(str(error))) from error
    return run


_HINTS = {
    "Singular matrix": "pinv and lstsq give the smallest solution",
    "Matrix is not positive definite": "qr, svd and eigh take other matrices",
}


def _svd(a: Array, complete: bool) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=complete)
    return packed(u, s[..., None].astype(u.dtype), vh)


def _svdvals(a: Array) -> Array:
    found: Array = np.linalg.svd(a, compute_uv=False)
    return found


def _eigh(a: Array) -> Array:
    w, v = np.linalg.eigh(a)
    return packed(v, w[..., None].astype(v.dtype))


def _eigh_some(a: Array, count: int, largest: bool) -> Array:
    w, v = np.linalg.eigh(a)
    at = np.argsort(w, kind="stable")
    at = at[len(w) - count:] if largest else at[:count]
    return packed(v[:, at], w[at, None].astype(v.dtype))


def _svd_some(a: Array, count: int) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return packed(u[:, :count], s[:count, None].astype(u.dtype), vh[:count])


def _qr(a: Array, complete: bool) -> Array:
    return packed(*np.linalg.qr(a, mode="complete" if complete else "reduced"))


def _slogdet(a: Array) -> Array:
    sign, log = np.linalg.slogdet(a)
    return np.stack([sign, log.astype(a.dtype)], axis=-1)


def _cube(shape: Shape, *params: object) -> float:
    """Multiply-adds, up to a factor that all decompositions share."""
    return float(math.prod(shape)) * max(min(shape[-2:]), 1)


def _solving(a: Shape, b: Shape, method: str) -> float:
    return _cube(a) / 3 + float(math.prod(a)) * b[-1]


# -- the operators ---------------------------------------------------------------------------------
inv = declare("inv", _checked(np.linalg.inv), shape=_of_square("inv"), effort=_cube)
solve = declare("solve", _checked(lambda a, b, method: np.linalg.solve(a, b)), Kind.METHOD,
                operands=(Kind.TENSOR, Kind.TENSOR), shape=_solution, dtype=_common,
                effort=_solving)
cholesky = declare("cholesky", _checked(np.linalg.cholesky), shape=_of_square("cholesky"),
                   effort=_cube)
det = declare("det", _checked(np.linalg.det), shape=_of_square("det", lambda s: s[:-2]),
              effort=_cube)
#: The sign, then the logarithm of the absolute value.
slogdet = declare("slogdet", _checked(_slogdet), effort=_cube,
                  shape=_of_square("slogdet", lambda s: (*s[:-2], 2)))
#: Q, then R.
qr = declare("qr", _checked(_qr), Kind.FLAG, effort=_cube,
             shape=lambda s, complete: (*s[:-2], _flat(*factor_shapes(s, complete))))
#: U, then singular values, then V transposed and conjugated.
svd = declare("svd", _checked(_svd), Kind.FLAG, effort=_cube,
              shape=lambda s, complete: (*s[:-2], _flat(*singular_shapes(s, complete))))
svdvals = declare("svdvals", _checked(_svdvals), effort=_cube, dtype=_real,
                  shape=lambda s: (*s[:-2], min(s[-2:])))
#: Eigenvectors as columns, then eigenvalues.
eigh = declare("eigh", _checked(_eigh), effort=_cube,
               shape=_of_square("eigh", lambda s: (*s[:-2], s[-1] * (s[-1] + 1))))
eigvalsh = declare("eigvalsh", _checked(np.linalg.eigvalsh), effort=_cube, dtype=_real,
                   shape=_of_square("eigvalsh", lambda s: s[:-1]))
#: The same as ``eigh`` for so many of the largest or smallest eigenvalues, ascending.
eigh_some = declare("eigh_some", _checked(_eigh_some), Kind.COUNT, Kind.FLAG, effort=_cube,
                    shape=_of_square("eigh", lambda s, count, largest: (count * (s[-1] + 1),)))
#: The same as ``svd`` for so many of the largest singular values.
svd_some = declare("svd_some", _checked(_svd_some), Kind.COUNT, effort=_cube,
                   shape=lambda s, count: (count * (s[0] + 1 + s[1]),))
