"""Loops that a factor known before them makes idle are not run, where that is exact."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr

FORMATS = ("csr", "csc", "coo", "dense", "dcsr")


def matrix(dtype: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.3, rng.integers(-3, 4, shape), 0).astype(dtype)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float64"])
def test_products_with_zeros(dtype: str, format: str) -> None:
    x, y = matrix(dtype, (17, 23), 1), matrix(dtype, (23, 17), 2)
    v, w = matrix(dtype, (17, 1), 3)[:, 0], matrix(dtype, (23, 1), 4)[:, 0]
    a, b = tr.tensor(x, format=format), tr.tensor(y, format=format)
    p, q = tr.asarray(v), tr.asarray(w)
    for text, ours, theirs in (
        ("ij,i->j", (a, p), (x, v)), ("ij,j->i", (a, q), (x, w)),
        ("ij,jk,i->k", (a, b, p), (x, y, v)), ("ij,jk,j->ik", (a, b, q), (x, y, w)),
        ("ij,i,j->", (a, p, q), (x, v, w)), ("ij,i,i->j", (a, p, p), (x, v, v)),
    ):
        want = np.einsum(text, *theirs)
        found = tr.einsum(text, *ours).compute()
        np.testing.assert_array_equal(found.to_numpy(), want.astype(found.dtype))
    reached = tr.einsum("ij,i->j", a, p, add=tr.any, mul=tr.logical_and).compute()
    np.testing.assert_array_equal(reached.to_numpy(), (x.astype(bool) & (v != 0)[:, None]).any(0))
    inner = (p * (a * q).sum(axis=1)).sum().compute()
    np.testing.assert_array_equal(inner.to_numpy(), (v * (x * w).sum(axis=1)).sum())
    largest = tr.einsum("ij,i->j", a, p, add=tr.maximum, mul=tr.multiply).compute()
    np.testing.assert_array_equal(largest.to_numpy(), (x * v[:, None]).max(axis=0))


def test_floats_meet_what_is_not_finite() -> None:
    """A stored zero times infinity is nan: floats are not left out."""
    a = tr.tensor(np.array([[np.inf, 0.0], [1.0, 2.0]]), format="csr")
    found = tr.einsum("ij,i->j", a, tr.asarray(np.array([0.0, 1.0]))).compute().to_numpy()
    assert np.isnan(found[0]) and found[1] == 2.0


def test_the_loop_stands_under_a_condition() -> None:
    a = tr.tensor(np.ones((9, 9), bool), format="csr")
    f = tr.asarray(np.arange(9) % 2 == 0)
    text = str(tr.einsum("ij,i->j", a, f, add=tr.any, mul=tr.logical_and).explain("code"))
    assert "if v_" in text and text.index("if v_") < text.rindex("for ")
