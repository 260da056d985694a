"""The programs of ``examples/comprehensions`` against NumPy."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage, signal, sparse
from scipy.sparse import csgraph

import tensorel as tr

FOLDER = Path(__file__).parents[2] / "examples" / "comprehensions"


@pytest.fixture(scope="module")
def graphs() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "graphs.py"))


@pytest.fixture(scope="module")
def learning() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "learning.py"))


@pytest.fixture(scope="module")
def images() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "images.py"))


def test_graphs(graphs: dict[str, Any]) -> None:
    pairs, n = graphs["edges"](None, 60, 300)
    a = np.zeros((n, n))
    a[tuple(pairs)] = 1
    A = tr.tensor(a, format="csr")
    rank, out = np.full(n, 1 / n), np.maximum(a.sum(1), 1)
    for _ in range(20):
        rank = 0.15 / n + 0.85 * a.T @ (rank / out)
    np.testing.assert_allclose(graphs["page_rank"](A, n).to_numpy(), rank)
    w = np.where(a > 0, np.random.default_rng(1).integers(1, 9, a.shape), 0).astype(float)
    np.testing.assert_array_equal(
        graphs["distances"](tr.tensor(w, format="csr"), n).to_numpy(),
        csgraph.dijkstra(sparse.csr_array(w), indices=0))
    assert tr.comprehension(graphs["TRIANGLES"], A=A).item() == np.trace(a @ a @ a)


def test_regression_and_centres(learning: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    w = np.zeros(4)
    for _ in range(100):
        w = w - 0.1 / 50 * x.T @ (x @ w - y)
    found, error = learning["regression"](tr.asarray(x), tr.asarray(y))
    np.testing.assert_allclose(found.to_numpy(), w)
    assert error == pytest.approx(((x @ w - y) ** 2).mean())
    centres = x[::16][:3]
    for _ in range(10):
        apart = ((x[:, None] - centres) ** 2).sum(2)
        nearest = apart.argmin(1)
        centres = np.stack([x[nearest == k].mean(0) for k in range(3)])
    found, error = learning["k_means"](tr.asarray(x), 3)
    np.testing.assert_allclose(found.to_numpy(), centres)
    assert error == pytest.approx(apart.min(1).sum())


def test_factorization_and_network(learning: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    ratings = np.where(np.random.default_rng(3).random((20, 15)) < 0.3, 2.0, 0.0)
    p, q, errors = rng.random((20, 4)), rng.random((15, 4)), []
    for _ in range(3):
        e = np.where(ratings != 0, ratings - p @ q.T, 0)
        errors.append((e * e).sum())
        p, q = p + 0.01 * e @ q, q + 0.01 * e.T @ p
    found = learning["factorization"](tr.tensor(ratings, format="csr"), steps=3)
    np.testing.assert_allclose(found[2], errors)
    np.testing.assert_allclose(found[0].to_numpy(), p)
    x = np.random.default_rng(4).normal(size=(30, 5))
    losses = learning["network"](tr.asarray(x), tr.asarray(x[:, :1] * 2), 8, 30)
    assert losses[-1] < losses[0] / 2


def test_images(images: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    a, kernel = rng.random((12, 15)), rng.random((3, 3))
    ones = np.ones((3, 3))
    mean = signal.convolve2d(a, ones, "same") / signal.convolve2d(np.ones_like(a), ones, "same")
    np.testing.assert_allclose(images["smoothed"](tr.asarray(a)).to_numpy(), mean)
    np.testing.assert_allclose(images["convolved"](tr.asarray(a), tr.asarray(kernel)).to_numpy(),
                               signal.correlate2d(a, kernel, "valid"))
    few = np.where(a > 0.8, a, 0)
    np.testing.assert_allclose(
        images["blurred"](tr.tensor(few, format="csr"), tr.asarray(kernel)).to_numpy(),
        signal.convolve2d(few, kernel, "same"), atol=1e-12)
    volume, cube = rng.random((6, 6, 6)), rng.random((3, 3, 3))
    np.testing.assert_allclose(
        tr.comprehension(images["VOLUME"], A=volume, K=cube, n=6).to_numpy(),
        signal.correlate(volume, cube, "valid"))
    cells = rng.random((20, 17)) < 0.4
    lives = cells
    for _ in range(2):
        count = ndimage.convolve(lives.astype(int), np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]]),
                                 mode="constant")
        lives = (count == 3) | (lives & (count == 2))
    np.testing.assert_array_equal(images["life"](tr.asarray(cells), 2).to_numpy(), lives)
