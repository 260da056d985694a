"""A few eigenvalues or singular values of a sparse matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra import matrices
from tensorel.algebra.bulk import BulkOperator
from tensorel.algebra.ops import DType
from tensorel.engines.in_process.iterations.matrix import Array, Evaluate, Matrix, rounding
from tensorel.errors import LinearAlgebraError
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

Operator = Callable[[Array], Array]
#: Singular values beside the largest, in rounding errors, that are told from zero.
MIN_SINGULAR = 1e5


def some_parts(op: BulkOperator, a: Stored, params: tuple[Any, ...], dtype: DType,
               evaluate: Evaluate) -> Array:
    """The parts of a decomposition of a sparse matrix, as the operator packs them."""
    if op is matrices.eigh_some:
        count, largest = params
        w, v = some_eigenvalues(a, dtype, count, largest, evaluate)
        return matrices.packed(v, w[:, None].astype(dtype))
    u, s, vh = some_singular_values(a, dtype, params[0], evaluate)
    return matrices.packed(u, s[:, None].astype(dtype), vh)


def some_eigenvalues(a: Stored, dtype: DType, count: int, largest: bool, evaluate: Evaluate
                     ) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and their vectors as columns, of a Hermitian matrix."""
    matrix = Matrix(a, dtype, evaluate)
    if not matrix.is_hermitian():
        raise LinearAlgebraError(
            f"eigh: the sparse matrix of shape {a.shape} is not equal to its conjugated transpose",
            hint="(A + A.T) / 2 is")
    sign = 1 if largest else -1
    w, v = _largest_pairs(lambda x: sign * matrix.times_vector(x), a.shape[0], dtype, count)
    return (w[::-1], v[:, ::-1]) if largest else (-w, v)


def some_singular_values(a: Stored, dtype: DType, count: int, evaluate: Evaluate
                         ) -> tuple[Array, Array, Array]:
    """The largest singular values, descending, with left vectors as columns, right ones as rows:
    the eigenvalues of [[0, A], [A^H, 0]] that are not negative."""
    matrix, m = Matrix(a, dtype, evaluate), a.shape[0]

    def times(x: Array) -> Array:
        left, right = x[:m, None], x[m:, None]
        return np.concatenate([matrix.times(right), matrix.turned(left)])[:, 0]

    s, both = _largest_pairs(times, sum(a.shape), dtype, count)
    if s[-1] <= MIN_SINGULAR * rounding(dtype) * max(s[0], 0):
        raise LinearAlgebraError(
            f"svd: the sparse matrix of shape {a.shape} has no {count} singular values above zero",
            hint="ask for fewer, or for all: without k")
    both = both * np.sqrt(2)
    return both[:m], s, both[m:].conj().T


def _largest_pairs(times: Operator, n: int, dtype: DType, count: int) -> tuple[Array, Array]:
    """The largest eigenvalues of a Hermitian operator, descending, with vectors as columns. One
    basis holds one vector of each eigenvalue alone, however often it is there, so what is found is
    left out and looked for again until nothing larger is left."""
    draw = np.random.default_rng(7)
    values: Array = np.zeros(0)
    vectors: Array = np.zeros((n, 0), dtype)
    while vectors.shape[1] < n:
        full = values.size >= count
        w, v = _lanczos(times, vectors, 1 if full else count - values.size, draw)
        if full and w[0] <= values[count - 1] + rounding(dtype) * abs(values[0]):
            break
        values = np.concatenate([values, w])
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], np.hstack([vectors, v])[:, order]
    return values[:count], vectors[:, :count]


def _lanczos(times: Operator, avoid: Array, count: int, draw: np.random.Generator
             ) -> tuple[Array, Array]:
    """At most so many of the largest eigenvalues in what is orthogonal to ``avoid``, from one
    vector on; all vectors of the basis are kept orthogonal."""
    (n, left_out), dtype = avoid.shape, avoid.dtype
    eps = rounding(dtype)
    basis = np.zeros((min(n - left_out, 8 * count + 32), n), dtype)
    diagonal: list[float] = []
    beside: list[float] = []
    q = _cleared(np.asarray(draw.standard_normal(n), dtype), avoid.T, basis[:0])
    q = q / np.linalg.norm(q)
    check = 2 * count
    while True:
        k = len(diagonal)
        if k == len(basis):
            require(3 * basis.nbytes, "the basis of the iteration")
            basis = np.vstack([basis, np.zeros_like(basis)])[: n - left_out]
        basis[k] = q
        w = times(q)
        diagonal.append(float(np.vdot(q, w).real))
        w = _cleared(w, avoid.T, basis[: k + 1])
        length = float(np.linalg.norm(w))
        beside.append(length)
        k += 1
        scale = max(np.abs(diagonal).max(), max(beside))
        ended = k == n - left_out or length <= 10 * eps * scale
        if ended or k >= check:
            small = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
            values, s = np.linalg.eigh(small)
            values, s = values[::-1][:count], s[:, ::-1][:, :count]
            if ended or length * np.abs(s[-1]).max() <= 50 * eps * scale:
                return values, basis[:k].T @ s
            check = k + 4 + k // 8
        q = w / length


def _cleared(w: Array, *rows: Array) -> Array:
    """What is left of a vector without its parts along orthonormal rows; twice where little is
    left, whose rounding errors count."""
    for _ in range(2):
        before = np.linalg.norm(w)
        for basis in rows:
            w = w - (basis.conj() @ w) @ basis
        if np.linalg.norm(w) > 0.7 * before:
            break
    return w
