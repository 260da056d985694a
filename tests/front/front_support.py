"""Comparison with NumPy: dtype, shape and values, by the reference and by the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorel as tr
from tensorel.reference.interpret import evaluate
from tensorel.storage import convert

DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float32", "float64", "complex64", "complex128",
]


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    if wanted.dtype.kind in "fc":
        tolerance = 1e-4 if wanted.dtype.itemsize <= 4 * (1 + (wanted.dtype.kind == "c")) else 1e-10
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


def check(t: tr.Tensor, wanted: Any, engine: bool = True) -> None:
    """``t`` equals the NumPy array ``wanted`` (float16 read as float32)."""
    wanted = np.asarray(wanted)
    if wanted.dtype == np.float16:
        wanted = wanted.astype(np.float32)
        assert t.dtype == wanted.dtype
        np.testing.assert_allclose(evaluate(t.node, dense_data), wanted, rtol=1e-2, atol=1e-2)
        return
    assert t.shape == wanted.shape, (t.shape, wanted.shape)
    assert t.dtype == wanted.dtype, (t.dtype, wanted.dtype)
    close(evaluate(t.node, dense_data), wanted)
    if engine:
        close(t.to_numpy(), wanted)


def dense_data(source: Any) -> np.ndarray:
    return convert.to_dense(source.data)


def sample(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0,
           density: float = 0.5) -> np.ndarray:
    """Small whole values, many of them zero."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    low = 0 if kind in "bu" else -3
    values = rng.integers(low, 4, shape).astype(dtype)
    if kind == "c":
        values = values + 1j * rng.integers(low, 4, shape)
    return np.where(rng.random(shape) < density, values, 0).astype(dtype)
