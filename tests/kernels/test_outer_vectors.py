"""Sums side by side: the same result from vectors, tiles of registers and single cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tensorel as tr

rng = np.random.default_rng(11)
DTYPES = ["float64", "float32", "int64", "int32", "uint8", "int16", "bool"]


def code(tensor: Any) -> str:
    return str(tensor.explain("code"))


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [5, 16, 36, 70, 131])
def test_lengths_and_dtypes(dtype: str, n: int) -> None:
    """Runs shorter than a vector, than four, and with a rest."""
    x, k = numbers((9, n), dtype), numbers((2, 3), dtype)
    windows = sliding_window_view(x, (2, 3))
    found = tr.correlate(x, k)
    wanted = (windows & k).any((-1, -2)) if dtype == "bool" else (
        windows * k).sum(axis=(-1, -2), dtype=x.dtype)
    assert np.array_equal(found.to_numpy(), wanted)
    assert ("in lanes(" in code(found)) == (n - 2 >= 64 // np.dtype(dtype).itemsize)
    for name in ("sum", "max", "min", "any"):
        of_ours = getattr(tr.windows(x, (2, 3)), name)(axis=(-1, -2)).to_numpy()
        assert np.array_equal(of_ours, getattr(windows, name)(axis=(-1, -2))), name


@pytest.mark.parametrize("threads", [1, 2])
def test_ranges_of_the_outer_loop(threads: int) -> None:
    for n in (3, 10, 40, 1000, 70_001):
        x, k = rng.random(n), rng.random(3)
        with tr.options(threads=threads, bounds=n < 50):
            found = tr.correlate(x, k).to_numpy()
        assert np.allclose(found, np.correlate(x, k, "valid"), rtol=1e-14)


def test_order_of_terms_in_strict_mode() -> None:
    x, k = rng.random((12, 50)), rng.random((3, 5))
    acc = np.zeros((10, 46))
    for r in range(3):
        for s in range(5):
            acc = acc + x[r: r + 10, s: s + 46] * k[r, s]
    found = tr.correlate(x, k)
    with tr.options(strict=True):
        assert "in lanes(" in code(found)
        assert np.array_equal(found.to_numpy(), acc)


def test_not_a_number_and_infinities() -> None:
    x = rng.random((20, 60))
    x[3, 7], x[9, 30], x[15, 40], x[15, 41] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        for name in ("max", "min", "sum", "mean"):
            found = getattr(tr.windows(x, (3, 3)), name)(axis=(-1, -2)).to_numpy()
            wanted = getattr(sliding_window_view(x, (3, 3)), name)(axis=(-1, -2))
            assert np.allclose(found, wanted, equal_nan=True), name


def test_other_programs() -> None:
    """Small products, other semirings, and values between."""
    a, b = rng.random((7, 4)), rng.random((4, 50))
    assert np.allclose(tr.einsum("ik,kj->ij", a, b, add=tr.min, mul=tr.add).to_numpy(),
                       (a[:, :, None] + b[None]).min(axis=1))
    x, y = rng.random((30, 6)), rng.random((6, 40))
    distances = ((tr.asarray(x)[:, :, None] - tr.asarray(y)[None]) ** 2).sum(axis=1)
    assert "in lanes(" in code(distances)
    assert np.allclose(distances.to_numpy(), ((x[:, :, None] - y[None]) ** 2).sum(axis=1))
    w = rng.random((6, 40)).astype(np.float32)
    mixed = (tr.asarray(x)[:, :, None] * tr.asarray(w)[None]).sum(axis=1)
    assert np.allclose(mixed.to_numpy(), x @ w)


@pytest.mark.parametrize("filters, channels", [(3, 2), (16, 3), (21, 5)])
def test_tiles_of_registers(filters: int, channels: int) -> None:
    x, k = rng.random((2, 7, 11, channels)), rng.random((3, 3, channels, filters))
    found = tr.einsum("nhwcrs,rsco->nhwo", tr.windows(x, (3, 3), axis=(1, 2)), k)
    wanted = np.einsum("nhwcrs,rsco->nhwo", sliding_window_view(x, (3, 3), (1, 2)), k)
    with tr.options(disabled=("store_windows",)):
        assert np.allclose(found.to_numpy(), wanted)
    assert np.allclose(found.to_numpy(), wanted)
