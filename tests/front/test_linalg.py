"""``tr.linalg`` beside NumPy and SciPy, in all formats; plans without inverses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.errors import LinearAlgebraError, MemoryLimitError, ShapeError, ValueError_

L = tr.linalg
rng = np.random.default_rng(11)
FORMATS = ("dense", "dense_f", "coo", "csr", "csc", "dok", "dia")
N = 7
SPARSE = np.where(rng.random((N, N)) < 0.4, rng.standard_normal((N, N)), 0) + 4 * np.eye(N)
HERMITIAN = SPARSE + SPARSE.T
TALL = np.where(rng.random((9, 5)) < 0.5, rng.standard_normal((9, 5)), 0)
RIGHT = rng.standard_normal((N, 3))


def close(found: object, wanted: object, tol: float = 1e-9) -> None:
    array = np.asarray(found)
    assert array.shape == np.shape(wanted)
    assert array.dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(array, wanted, atol=tol, rtol=tol)


UNARY = {
    "inv": (L.inv, np.linalg.inv, SPARSE),
    "det": (L.det, np.linalg.det, SPARSE),
    "svdvals": (L.svdvals, np.linalg.svdvals, TALL),
    "eigvalsh": (L.eigvalsh, np.linalg.eigvalsh, HERMITIAN),
    "cholesky": (L.cholesky, np.linalg.cholesky, HERMITIAN @ HERMITIAN),
    "pinv": (L.pinv, np.linalg.pinv, TALL),
    "rank": (L.matrix_rank, np.linalg.matrix_rank, TALL * (np.arange(5) < 3)),
    "power": (lambda x: L.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5), SPARSE),
    "root": (lambda x: L.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), SPARSE),
    "one": (lambda x: L.matrix_power(x, 0), lambda x: np.linalg.matrix_power(x, 0), SPARSE),
    "trace": (L.trace, np.linalg.trace, SPARSE),
    "diagonal": (lambda x: L.diagonal(x, offset=1), lambda x: np.linalg.diagonal(x, offset=1),
                 TALL),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("fmt", FORMATS)
def test_functions_of_one_matrix(name: str, fmt: str) -> None:
    ours, theirs, x = UNARY[name]
    close(ours(tr.tensor(x, format=fmt)), theirs(x))


@pytest.mark.parametrize("name", [n for n in UNARY if n != "rank"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int64"])
def test_dtypes_and_stacks(name: str, dtype: str) -> None:
    ours, theirs, x = UNARY[name]
    if dtype == "int64":
        x = np.round(x)
    x = np.stack([x, 2 * x]).astype(dtype)
    tol = 1e-2 if dtype in ("float32", "complex64") else 1e-8
    wanted = theirs(x)
    np.testing.assert_allclose(ours(tr.asarray(x)).to_numpy(), wanted,
                               atol=tol * max(1, np.abs(wanted).max()), rtol=tol)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (6, 6), (1, 4), (4, 1)])
@pytest.mark.parametrize("whole", [True, False])
def test_factors(fmt: str, shape: tuple[int, int], whole: bool) -> None:
    x = np.where(rng.random(shape) < 0.6, rng.standard_normal(shape), 0)
    t = tr.tensor(x, format=fmt)
    q, r = L.qr(t, mode="complete" if whole else "reduced")
    wanted = np.linalg.qr(x, mode="complete" if whole else "reduced")
    assert (q.shape, r.shape) == (wanted.Q.shape, wanted.R.shape)
    close(q @ r, x)
    u, s, vh = L.svd(t, full_matrices=whole)
    theirs = np.linalg.svd(x, full_matrices=whole)
    assert (u.shape, s.shape, vh.shape) == tuple(p.shape for p in theirs)
    k = min(shape)
    close((u[:, :k] * s) @ vh[:k], x)
    close(s, theirs[1])


def test_parts_come_of_one_computation() -> None:
    u, s, vh = L.svd(tr.asarray(TALL), full_matrices=False)
    steps = (u * s @ vh).explain().to_dict()["steps"]
    assert [x["kind"] for x in steps].count("svd") == 1


@pytest.mark.parametrize("fmt", FORMATS)
def test_eigenvalues_and_equations(fmt: str) -> None:
    w, v = L.eigh(tr.tensor(HERMITIAN, format=fmt))
    close(v @ (tr.expand_dims(w, -1) * v.T), HERMITIAN)
    t = tr.tensor(SPARSE, format=fmt)
    close(L.solve(t, RIGHT), np.linalg.solve(SPARSE, RIGHT))
    close(L.solve(t, RIGHT[:, 0]), np.linalg.solve(SPARSE, RIGHT[:, 0]))
    close(L.lstsq(tr.tensor(TALL, format=fmt), np.ones(9)).x,
          np.linalg.lstsq(TALL, np.ones(9))[0])
    sign, log = L.slogdet(t)
    close(sign, np.linalg.slogdet(SPARSE)[0])
    close(log, np.linalg.slogdet(SPARSE)[1])


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_norms_of_matrices(order: float | str, fmt: str) -> None:
    t = tr.tensor(SPARSE, format=fmt)
    close(L.matrix_norm(t, ord=order), np.linalg.matrix_norm(SPARSE, ord=order))
    close(L.norm(t, order), np.linalg.norm(SPARSE, order))
    close(L.norm(t, order, (1, 0), True), np.linalg.norm(SPARSE, order, (1, 0), True))


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, -1.0, np.inf, -np.inf])
def test_norms_of_vectors(order: float) -> None:
    with np.errstate(divide="ignore"):
        for axis in (None, 0, -1, (0, 1)):
            close(L.vector_norm(tr.asarray(TALL + 9), axis=axis, ord=order),
                  np.linalg.vector_norm(TALL + 9, axis=axis, ord=order))
        close(L.vector_norm(tr.tensor(TALL, format="csr"), axis=1, ord=max(order, 0.5)),
              np.linalg.vector_norm(TALL, axis=1, ord=max(order, 0.5)))


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(LinearAlgebraError, match="singular matrix"):
        L.inv(np.zeros((2, 2))).compute()
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        L.cholesky(-np.eye(2)).compute()
    with pytest.raises(LinearAlgebraError, match="singular matrix"):
        L.solve(sp.csr_array((4, 4)), np.ones(4), method="superlu").compute()
    for call in (lambda: L.inv(TALL), lambda: L.solve(SPARSE, np.ones(4)), lambda: L.det([1.0]),
                 lambda: L.eigh(TALL), lambda: L.outer(TALL, TALL)):
        with pytest.raises(ShapeError):
            call()
    for call in (lambda: L.qr(TALL, mode="r"), lambda: L.solve(SPARSE, RIGHT, method="magic"),
                 lambda: L.svd(TALL, k=9), lambda: L.matrix_norm(TALL, ord="best")):
        with pytest.raises(ValueError_):
            call()
    large = tr.from_coo([[0], [0]], [1.0], (10**6, 10**6))
    with pytest.raises(MemoryLimitError):
        L.inv(large).compute()


# -- sparse matrices -------------------------------------------------------------------------------
def mesh(n: int) -> sp.csr_array:
    line = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


MESH = mesh(20)
SKEW = sp.csr_array(MESH + sp.diags_array([0.4], offsets=[3], shape=MESH.shape))


@pytest.mark.parametrize("matrix", [MESH, SKEW], ids=["symmetric", "skew"])
@pytest.mark.parametrize("method", [None, "lapack", "superlu", "krylov"])
@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_sparse_systems(matrix: sp.csr_array, method: str | None, dtype: type) -> None:
    y = rng.standard_normal((matrix.shape[0], 2)).astype(dtype)
    a = (matrix * (1 + 1j) if dtype is complex else matrix).astype(dtype)
    x = L.solve(tr.asarray(a), y, method=method)
    close(x, np.linalg.solve(a.toarray(), y), 1e-3 if dtype is np.float32 else 1e-8)
    chosen = [s["text"] for s in x.explain().to_dict()["steps"] if s["kind"] == "solve"]
    assert chosen == [f"{chosen[0].split(' ')[0]} = solve(A, B) by {method or 'superlu'}"]


def test_an_iteration_that_does_not_converge_gives_way_to_the_dense_method() -> None:
    n = 300
    a = np.roll(np.eye(n), 1, axis=1)  # no basis but the whole space holds the solution
    y = rng.standard_normal(n)
    t = tr.tensor(a, format="csr")
    close(L.solve(t, y, method="krylov"), np.linalg.solve(a, y))
    with tr.options(densify=1000), pytest.raises(LinearAlgebraError, match="does not converge"):
        L.solve(t, y, method="krylov").compute()


@pytest.mark.parametrize("largest", [True, False])
def test_some_eigenvalues_of_a_sparse_matrix(largest: bool) -> None:
    """Of a square mesh most eigenvalues are there twice."""
    wanted = np.linalg.eigvalsh(MESH.toarray())
    w, v = L.eigh(tr.asarray(MESH), k=7, largest=largest)
    close(w, wanted[-7:] if largest else wanted[:7])
    close(tr.asarray(MESH) @ v, v.to_numpy() * w.to_numpy())
    close(v.T @ v, np.eye(7))
    equal, _ = L.eigh(tr.asarray(sp.eye_array(600, format="csr")), k=4, largest=largest)
    close(equal, np.ones(4))
    with pytest.raises(LinearAlgebraError, match="conjugated transpose"):
        L.eigh(tr.asarray(SKEW), k=2)[0].compute()


@pytest.mark.parametrize("shape", [(700, 400), (400, 700)])
def test_some_singular_values_of_a_sparse_matrix(shape: tuple[int, int]) -> None:
    x = sp.random_array(shape, density=0.01, rng=np.random.default_rng(5), format="csr")
    u, s, vh = L.svd(tr.asarray(x), k=5)
    close(s, np.linalg.svdvals(x.toarray())[:5])
    close(u.T @ (tr.asarray(x) @ vh.T), np.diag(s.to_numpy()))
    with pytest.raises(LinearAlgebraError, match="above zero"):
        L.svd(tr.from_coo([[0], [0]], [1.0], shape, format="csr"), k=2)[1].compute()


# -- plans -----------------------------------------------------------------------------------------
A, B, C, Y = (tr.asarray(x) for x in (SPARSE, RIGHT, RIGHT[0], RIGHT[:, 0]))
INVERSE = np.linalg.inv(SPARSE)
X = rng.standard_normal((12, N))
GRAM = np.linalg.inv(X.T @ X)
WITHOUT_INVERSE = {
    "inv(A) @ B": (lambda: L.inv(A) @ B, INVERSE @ RIGHT),
    "inv(A).T @ B": (lambda: L.inv(A).T @ B, INVERSE.T @ RIGHT),
    "B.T @ inv(A)": (lambda: B.T @ L.inv(A), RIGHT.T @ INVERSE),
    "inv(A) @ B @ c": (lambda: L.inv(A) @ B @ C, INVERSE @ RIGHT @ RIGHT[0]),
    "inv(A)[3]": (lambda: L.inv(A)[3], INVERSE[3]),
    "inv(A)[:, 3]": (lambda: L.inv(A)[:, 3], INVERSE[:, 3]),
    "inv(A)[2, 3]": (lambda: L.inv(A)[2, 3], INVERSE[2, 3]),
    "inv(A)[[3, 1]]": (lambda: L.inv(A)[np.array([3, 1])], INVERSE[[3, 1]]),
    "inv(A).sum(axis=1)": (lambda: L.inv(A).sum(axis=1), INVERSE.sum(1)),
    "y @ inv(A) @ y": (lambda: tr.einsum("i,ij,j->", Y, L.inv(A), Y),
                       RIGHT[:, 0] @ INVERSE @ RIGHT[:, 0]),
    "least squares": (lambda: L.inv(X.T @ tr.asarray(X)) @ (X.T @ tr.asarray(X[:, 0])),
                      GRAM @ (X.T @ X[:, 0])),
    "a row of it": (lambda: (L.inv(X.T @ tr.asarray(X)) @ (X.T @ tr.asarray(X[:, 1])))[1],
                    (GRAM @ (X.T @ X[:, 1]))[1]),
}


@pytest.mark.parametrize("name", WITHOUT_INVERSE)
def test_inverses_that_nobody_needs_whole_are_not_made(name: str) -> None:
    program, wanted = WITHOUT_INVERSE[name]
    t = program()
    assert [s["kind"] for s in t.explain().to_dict()["steps"]].count("inv") == 0
    assert any(rule.startswith("solve:") for rule in t.explain().rules)
    close(t, wanted)
    with tr.options(strict=True):
        strict = program()
        assert [s["kind"] for s in strict.explain().to_dict()["steps"]].count("inv") == 1
        close(strict, wanted)


@pytest.mark.parametrize("program, wanted", [
    (lambda: L.inv(A) @ B + L.inv(A)[:, :3], INVERSE @ RIGHT + INVERSE[:, :3]),
    (lambda: L.inv(A) + 1, INVERSE + 1),
    (lambda: L.inv(A)[1:], INVERSE[1:]),
], ids=["read twice", "whole", "most of it"])
def test_inverses_that_are_needed_are_made_once(program: object, wanted: np.ndarray) -> None:
    t = program()  # type: ignore[operator]
    assert [s["kind"] for s in t.explain().to_dict()["steps"]].count("inv") == 1
    close(t, wanted)


def test_programs_are_pickled() -> None:
    for t in (L.svd(TALL).S, L.solve(MESH, np.ones(MESH.shape[0])), L.inv(A) @ B):
        close(pickle.loads(pickle.dumps(t)), t.to_numpy())
