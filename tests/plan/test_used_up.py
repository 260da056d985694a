"""Vectors that one formula over vectors reads are sums inside its loop, where that costs less."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr

FIRED = "fuse: an intermediate is used up where it is made"


def sparse(rng: np.random.Generator, rows: int, columns: int, density: float) -> np.ndarray:
    return rng.random((rows, columns)) * (rng.random((rows, columns)) < density)


def steps(t: tr.Tensor) -> list[str]:
    return [s["text"] for s in t.explain().to_dict()["steps"]]


def fired(t: tr.Tensor) -> int:
    return int(t.explain().to_dict()["rules"].get(FIRED, 0))


@pytest.mark.parametrize("formats", [("csr", "csr"), ("csr", "csc"), ("coo", "csr"),
                                     ("csc", "csc"), ("csr", "dense")])
def test_sums_of_products_with_vectors(formats: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    a, b = sparse(rng, 2000, 60, 0.02), sparse(rng, 2000, 40, 0.05)
    x, y, z = rng.random(60), rng.random(40), rng.random(2000)
    ta, tb = (tr.asarray(m).to_format(f) for m, f in zip((a, b), formats))
    tx, ty, tz = map(tr.asarray, (x, y, z))
    lazy = 1 / (1 + tr.exp(-(ta @ tx) - tb @ ty)) - tz
    np.testing.assert_allclose(lazy.to_numpy(), 1 / (1 + np.exp(-(a @ x) - b @ y)) - z)
    if formats == ("csr", "csr"):
        assert fired(lazy) == 2 and len(steps(lazy)) == 1
    both = ta @ tx * (tb @ ty) + (ta @ tx)  # one of them is read twice
    np.testing.assert_allclose(both.to_numpy(), (a @ x) * (b @ y) + a @ x)


def test_rows_without_entries_and_other_monoids() -> None:
    rng = np.random.default_rng(1)
    a = sparse(rng, 500, 30, 0.01)
    ta = tr.asarray(a).to_format("csr")
    x = rng.random(30) - 0.5
    lazy = tr.abs(ta @ tr.asarray(x)) + ta.max(axis=1) - ta.min(axis=1)
    np.testing.assert_allclose(
        lazy.to_numpy(), np.abs(a @ x) + a.max(axis=1) - a.min(axis=1))
    with tr.options(strict=True):
        np.testing.assert_array_equal((ta @ tr.asarray(x) - 1).to_numpy() + 1 > -1, True)


def test_a_part_of_a_vector_beside_a_dense_matrix() -> None:
    """The vector is longer than the loop; dense operands may be read in part."""
    rng = np.random.default_rng(2)
    f, w, k = rng.random((3000, 4)), rng.random(24), sparse(rng, 3000, 20, 0.05)
    tf, tw, tk = tr.asarray(f), tr.asarray(w), tr.asarray(k).to_format("csr")
    x = tr.concatenate([tf, tk], axis=1)
    np.testing.assert_allclose((x @ tw - 1).to_numpy(), np.hstack([f, k]) @ w - 1)
    gradient = x.T @ (x @ tw - 1)
    whole = np.hstack([f, k])
    np.testing.assert_allclose(gradient.to_numpy(), whole.T @ (whole @ w - 1))


def test_switched_off_and_read_twice_elsewhere() -> None:
    rng = np.random.default_rng(3)
    a, x = sparse(rng, 800, 50, 0.05), rng.random(50)
    ta, tx = tr.asarray(a).to_format("csr"), tr.asarray(x)
    s = ta @ tx
    np.testing.assert_allclose(((s + 1) * s.sum()).to_numpy(), (a @ x + 1) * (a @ x).sum())
    with tr.options(disabled={"fuse"}):
        assert fired(s + 1 - s * 2) == 0
