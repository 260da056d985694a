"""Matrices that fit each format, and the formats that take a result."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorel as tr

MATRIX_FORMATS = (
    "dense", "dense_f", "coo", "csr", "csc", "dcsr", "dcsc", "csf", "csf(1,0)", "dok", "trie",
    "trie(1,0)", "bsr", "bsr(2,3)", "dia", "band", "tril", "triu", "symmetric", "zorder", "bitmap",
    "0;1", "1;0", ";0,1", "0,1;", ";0;1", ";1;0",
)
CUBE_FORMATS = (
    "dense", "dense_f", "coo", "csf", "csf(2,0,1)", "csf(1,2,0)", "dok", "trie", "trie(2,1,0)",
    "zorder", "0;1,2", "2,0;1", ";0,1,2", ";0,1;2", "1;0;2", ";2;1,0",
)
VECTOR_FORMATS = ("dense", "coo", "csf", "dok", "trie", "zorder", "0;", ";0")
SHAPED = ("tril", "triu", "symmetric")


def matrix(format: str, seed: int = 0, n: int = 6, dtype: str = "float64") -> np.ndarray:
    """A square matrix of small whole numbers with the shape that the format demands."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n, n)) < 0.45, rng.integers(1, 5, (n, n)), 0)
    x = np.where(rng.random((n, n)) < 0.3, -x, x)
    x = shaped(format, x)
    return (x != 0) if format == "bitmap" else x.astype(dtype)


def shaped(format: str, x: np.ndarray) -> np.ndarray:
    match format:
        case "tril":
            return np.tril(x)
        case "triu":
            return np.triu(x)
        case "symmetric":
            return np.maximum(x, x.T)
        case "dia" | "band":
            return np.triu(np.tril(x, 2), -1)
        case _:
            return x


def takes(format: str, x: np.ndarray) -> bool:
    """Whether the format takes a tensor of these values whose fill is 0 (-0.0 is another value)."""
    name = format.partition("(")[0]
    if name == "bitmap":
        return x.dtype == bool
    if name in SHAPED:
        if x.ndim != 2 or x.shape[0] != x.shape[1]:
            return False
        fitting = x.T if name == "symmetric" else np.where(shaped(name, np.ones_like(x)), x, 0)
        return fitting.tolist() == x.tolist() and bool(
            (np.signbit(fitting) == np.signbit(x)).all() if x.dtype.kind == "f" else True)
    return True


def formats_for(x: np.ndarray) -> list[str]:
    """The formats that take the result ``x``, whatever its fill."""
    table = {1: VECTOR_FORMATS, 2: MATRIX_FORMATS, 3: CUBE_FORMATS}
    return [f for f in table.get(x.ndim, ("dense", "coo", "dok")) if takes(f, x)]


def same(found: Any, wanted: Any, exact: bool = True) -> None:
    """Equal in dtype, shape and value."""
    wanted = np.asarray(wanted)
    got = found.to_numpy() if isinstance(found, tr.Tensor) else np.asarray(found)
    assert got.dtype == wanted.dtype, (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    if exact or wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, wanted)
    else:
        tolerance = 2e-5 if wanted.dtype.itemsize <= 4 * (1 + (wanted.dtype.kind == "c")) else 1e-12
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def values(x: Any) -> Any:
    """The NumPy array of a tensor, for programs written once for both."""
    return x.to_numpy() if isinstance(x, tr.Tensor) else np.asarray(x)
