"""Programs that go on and on, each step reading the one before it at several places: what is
computed, planned and compiled grows with their length, not with the number of ways through them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr

Step = Callable[[Any, Any], Any]
LENGTH, SECONDS = 20, 12.0  # seconds of the processor: they take 0.1 to 2.5
VECTOR = np.array([0, 1.0, 0, 2, 0, 0, 3, 0.5])
MATRIX = np.outer(VECTOR, VECTOR[::-1])
STEPS: dict[str, Step] = {
    "branches": lambda m, t: m.where(t > 3, t * 0.9, t + 1),
    "doubled": lambda m, t: t + t,
    "halved": lambda m, t: (t + t) * 0.5,
    "newton": lambda m, t: t - (t * t - 2.0) / (2.0 * t + 1.0),
    "transposed": lambda m, t: (t + t.T) * 0.5,
    "sums taken off": lambda m, t: t - t.sum(axis=-1, keepdims=True) * 0.01,
    "shares of sums": lambda m, t: m.exp(t) / m.exp(t).sum(axis=-1, keepdims=True),
    "norm": lambda m, t: t / (1.0 + (t * t).sum()),
    "shifted": lambda m, t: m.roll(t, 1, axis=-1) * 0.5 + t * 0.5,
    "gram": lambda m, t: (t @ t.T) * 0.01,
    "smooth": lambda m, t: 1.0 / (1.0 + m.exp(-t)) * t,
}


STARTS = [(VECTOR, "dense"), (VECTOR, "coo"), (MATRIX, "csr")]
CASES = [(name, start, format) for name in STEPS for start, format in STARTS
         if name != "gram" or start.ndim == 2]


@pytest.mark.parametrize(("name", "start", "format"), CASES)
def test_long_programs(name: str, start: np.ndarray, format: str) -> None:
    t: Any = tr.asarray(start).to_format(format).compute()
    wanted: Any = start
    with np.errstate(all="ignore"):
        for _ in range(LENGTH):
            t, wanted = STEPS[name](tr, t), STEPS[name](np, wanted)
        begin = time.process_time()
        with tr.options(disk_cache=False):  # kernels are made anew, as on a new machine
            found = t.to_numpy()
    assert time.process_time() - begin < SECONDS
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_thousand_slices_of_slices() -> None:
    x = np.arange(3000.0)
    t: Any = tr.asarray(x)
    for _ in range(1000):
        t = t[1:]
    np.testing.assert_array_equal(t.to_numpy(), x[1000:])
    assert "A[i0 + 1000]" in str(t.explain())


def test_power_iteration() -> None:
    """Forty steps before anybody asks for a result."""
    rng = np.random.default_rng(1)
    dense = rng.random((30, 30)) * (rng.random((30, 30)) < 0.2)
    a, x, y = tr.asarray(dense).to_format("csr").compute(), tr.asarray(np.ones(30)), np.ones(30)
    for _ in range(40):
        x, y = a @ x, dense @ y
        x, y = x / (x * x).sum() ** 0.5, y / (y * y).sum() ** 0.5
    begin = time.process_time()
    np.testing.assert_allclose(x.to_numpy(), y, rtol=1e-9, atol=1e-12)
    assert time.process_time() - begin < SECONDS
