"""Formulas as users write them, over sparse data: NumPy's answer, and no dense intermediate.

Each is written once, for NumPy and for tensors. Limits are multiples of the bytes of the
operands, far below those of a dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr

N, M, R = 1500, 300, 4


def _data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)

    def sparse(n: int, m: int, per_row: int) -> np.ndarray:
        out = np.zeros((n, m))
        rows = np.repeat(np.arange(n), per_row)
        out[rows, rng.integers(0, m, n * per_row)] = rng.random(n * per_row) + 0.1
        return out

    return {"A": sparse(N, N, 4), "X": sparse(N, M, 3), "u": rng.random((N, R)) + 0.1,
            "v": rng.random((N, R)) + 0.1, "x": rng.random(N), "y": rng.random(N),
            "w": rng.random(M)}


def _centered(xp: Any, X: Any) -> Any:
    return X - X.mean(axis=0)


def _scaled(xp: Any, X: Any) -> Any:
    return _centered(xp, X) / (X.std(axis=0) + 1.0)


def _weights(xp: Any, A: Any, scores: Any) -> Any:
    e = (A != 0) * xp.exp(scores)
    return e / e.sum(axis=1)[:, None]


def _tfidf(xp: Any, X: Any) -> Any:
    t = X * xp.log(N / (1 + (X > 0).sum(axis=0)))
    return t / xp.sqrt((t * t).sum(axis=1))[:, None]


def _jaccard(xp: Any, A: Any) -> Any:
    both, degree = A @ A.T, A.sum(axis=1)
    return both / (degree[:, None] + degree[None, :] - both)


def _information(xp: Any, A: Any) -> Any:
    chance = A.sum(axis=1)[:, None] * A.sum(axis=0)[None, :]
    return xp.where(A > 0, xp.log(A * A.sum() / chance), 0.0)


def _block(xp: Any, A: Any) -> Any:
    return xp.concat([xp.concat([A, 2 * A], axis=1), xp.concat([A.T, A], axis=1)], axis=0)


def _steps(xp: Any, A: Any) -> Any:
    return xp.where(A > 0, A, np.inf)


Program = Callable[[Any, dict[str, Any]], Any]
PROGRAMS: dict[str, Program] = {
    "page rank": lambda xp, d: 0.85 * (d["A"].T @ (d["x"] / d["A"].sum(axis=1))) + 0.15 / N,
    "normalised adjacency": lambda xp, d: (
        d["A"] / xp.sqrt(d["A"].sum(axis=1))[:, None] / xp.sqrt(d["A"].sum(axis=1))[None, :]
    ) @ d["u"],
    "row normalised": lambda xp, d: d["A"] / d["A"].sum(axis=1)[:, None],
    "jaccard of neighbours": lambda xp, d: _jaccard(xp, d["A"]),
    "attention": lambda xp, d: _weights(xp, d["A"], d["u"] @ d["v"].T) @ d["v"],
    "centered product": lambda xp, d: _centered(xp, d["X"]) @ d["w"],
    "covariance": lambda xp, d: _centered(xp, d["X"]).T @ _centered(xp, d["X"]) / N,
    "standardised product": lambda xp, d: _scaled(xp, d["X"]) @ d["w"],
    "correlation": lambda xp, d: _scaled(xp, d["X"]).T @ _scaled(xp, d["X"]),
    "tf-idf": lambda xp, d: _tfidf(xp, d["X"]),
    "logistic gradient": lambda xp, d: d["X"].T @ (
        1 / (1 + xp.exp(-(d["X"] @ d["w"]))) - d["y"]),
    "modularity": lambda xp, d: d["u"].T @ (
        d["A"] - d["A"].sum(axis=1)[:, None] * d["A"].sum(axis=0)[None, :] / d["A"].sum()
    ) @ d["u"],
    "scaled on both sides": lambda xp, d: xp.diag(d["x"]) @ d["A"] @ xp.diag(d["y"]),
    "laplacian": lambda xp, d: xp.diag(d["A"].sum(axis=1)) - d["A"],
    "poisson loss": lambda xp, d: (d["A"] * xp.log(d["u"] @ d["v"].T)).sum()
    - (d["u"] @ d["v"].T).sum(),
    "topic loss": lambda xp, d: (d["A"] * xp.log(
        (d["u"] / d["u"].sum(axis=1)[:, None]) @ (d["v"] / d["v"].sum(axis=0)).T + 1e-9)).sum(),
    "masked kernel": lambda xp, d: d["A"] * xp.exp(
        -((d["u"][:, None, :] - d["v"][None, :, :]) ** 2).sum(axis=2)),
    "student weights": lambda xp, d: d["A"] / (1 + (d["u"] @ d["v"].T) * (d["u"] @ d["v"].T)),
    "squared residual": lambda xp, d: ((d["A"] - d["u"] @ d["v"].T) ** 2).sum(),
    "gradient of factors": lambda xp, d: ((d["A"] != 0) * (d["u"] @ d["v"].T) - d["A"]) @ d["v"],
    "multiplicative update": lambda xp, d: d["u"] * ((d["A"] / (d["u"] @ d["v"].T)) @ d["v"])
    / d["v"].sum(axis=0),
    "largest weighted neighbour": lambda xp, d: (d["A"] * d["x"]).max(axis=1),
    "smallest weighted entry": lambda xp, d: (d["A"] * d["x"]).min(),
    "weighted least squares": lambda xp, d: d["X"].T @ (d["y"][:, None] * d["X"]) @ d["w"],
    "mutual information": lambda xp, d: _information(xp, d["A"]),
    "blocks": lambda xp, d: _block(xp, d["A"]),
    "product with blocks": lambda xp, d: _block(xp, d["A"]) @ xp.concat([d["x"], d["y"]]),
    "a dense column beside": lambda xp, d: xp.concat([d["A"], d["u"]], axis=1).T @ d["x"],
    "nearest by one step": lambda xp, d: (_steps(xp, d["A"]) + d["x"]).min(axis=1),
    "clustering": lambda xp, d: (d["A"] @ d["A"] * d["A"]).sum(axis=1)
    / (d["A"].sum(axis=1) * (d["A"].sum(axis=1) - 0.1) + 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpys_answer_without_a_dense_matrix(name: str) -> None:
    arrays = _data()
    tensors = {k: tr.tensor(a, format="csr") if k in "AX" else tr.asarray(a)
               for k, a in arrays.items()}
    program = PROGRAMS[name](tr, tensors)
    with np.errstate(all="ignore"):
        expected = PROGRAMS[name](np, arrays)
    found = program.compute()
    hidden = arrays["A"] == 0 if expected.shape == (N, N) else None  # 0/0 beside the entries
    if hidden is not None:
        expected = np.where(np.isnan(expected) & hidden, 0.0, expected)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-9)
    inputs = sum(t.nbytes for t in tensors.values())
    step = max(s["estimated_bytes"] for s in program.explain().to_dict()["steps"])
    assert step < max(4 * inputs, M * M * 8 + 1)


def test_shortest_paths_of_two_steps() -> None:
    rng = np.random.default_rng(8)
    a = np.where(rng.random((200, 200)) < 0.02, rng.random((200, 200)), np.inf)
    A = tr.tensor(a, format="csr", fill=np.inf)
    program = tr.einsum("ij,jk->ik", A, A, add=tr.min, mul=tr.add)
    found = program.compute()
    np.testing.assert_array_equal(found.to_numpy(), (a[:, :, None] + a[None]).min(axis=1))
    assert found.format != "dense"
    assert found.nnz == np.isfinite(found.to_numpy()).sum()


def test_infinities_of_both_signs_decide_nothing() -> None:
    a, b = np.full(6, np.inf), np.full(6, -np.inf)
    a[1], b[2] = 1.0, 2.0
    A, B = tr.tensor(a, format="coo", fill=np.inf), tr.tensor(b, format="coo", fill=-np.inf)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal((A + B).to_numpy(), a + b)
