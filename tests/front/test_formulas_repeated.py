"""Formulas that were built before are found again without their nodes, and nothing is confused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines.programs import Program
from tensorel.errors import ShapeError

Formula = Callable[..., Any]
FORMULAS: dict[str, Formula] = {
    "product": lambda a, b: a @ b,
    "sum of a product": lambda a, b: (a @ b).sum(),
    "sums by rows": lambda a, b: (a @ b).sum(axis=1),
    "sums by columns": lambda a, b: (a @ b).sum(axis=0),
    "sums kept": lambda a, b: (a @ b).sum(axis=0, keepdims=True),
    "largest": lambda a, b: (a + b).max(axis=1),
    "twice the first": lambda a, b: (a + b) * a,
    "twice the second": lambda a, b: (a + b) * b,
    "first, then both": lambda a, b: a * (a + b),
    "both, both": lambda a, b: (a + b) * (a - b),
    "both, turned": lambda a, b: (a + b) * (b - a),
    "transposed": lambda a, b: a.T @ b,
    "transposed product": lambda a, b: (a @ b).T,
    "transposed sum": lambda a, b: (a @ b).T.sum(axis=0),
    "gram": lambda a, b: 0.7 * ((a.T @ a) @ b),
    "gram of the second": lambda a, b: 0.7 * ((b.T @ b) @ a),
    "an integer": lambda a, b: (a + b) * 2,
    "a float": lambda a, b: (a + b) * 2.0,
    "negative zero": lambda a, b: (a + b) * -0.0,
    "zero": lambda a, b: (a + b) * 0.0,
    "true": lambda a, b: (a + b) * True,
    "one": lambda a, b: (a + b) * 1,
}


def matrices(dtype: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = rng.integers(-3, 4, (2, 6, 6)).astype(dtype)
    made[rng.random(made.shape) < 0.6] = 0
    return made[0], made[1]


def stored(values: np.ndarray, format: str) -> tr.Tensor:
    return tr.asarray(values).to_format(format).compute()


@pytest.mark.parametrize("name", FORMULAS)
def test_other_values_kinds_and_operands(name: str) -> None:
    formula = FORMULAS[name]
    kinds = list(product(["int64", "float64", "float32"], ["csr", "dense", "coo"]))
    for _ in range(2):
        for seed, (dtype, format) in enumerate(kinds):
            x, y = matrices(dtype, seed)
            a, b = stored(x, format), stored(y, "csc")
            for (p, u), (q, v) in product([(a, x), (b, y)], repeat=2):
                found, wanted = formula(p, q), np.asarray(formula(u, v))
                assert found.shape == wanted.shape
                assert found.dtype == wanted.dtype
                assert found.ndim == wanted.ndim and found.size == wanted.size
                np.testing.assert_allclose(found.compute().to_numpy(), wanted, rtol=1e-6, atol=1e-5)


def test_the_second_time_no_node_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = matrices("float64", 50)
    asked: list[Program] = []
    node = Program.node.fget
    monkeypatch.setattr(Program, "node", property(lambda p: asked.append(p) or node(p)))
    made = []
    for _ in range(2):
        a, b = stored(x, "csr"), stored(y, "csr")
        asked.clear()
        t = 0.5 * ((a.T @ b).sum(axis=1) + 1.0)
        t.compute()
        made.append(t.program in asked)
    assert made == [True, False]
    np.testing.assert_allclose(np.asarray(t.node.shape), [6])  # made when asked for
    np.testing.assert_allclose(t.to_numpy(), 0.5 * ((x.T @ y).sum(axis=1) + 1.0))
    assert "out1" in str(t.explain())


def test_results_that_are_computed_are_operands_like_others() -> None:
    x, y = matrices("float64", 51)
    for _ in range(2):
        a, b = stored(x, "csr"), stored(y, "csr")
        part = a @ b
        first = part.to_numpy()
        np.testing.assert_allclose((part + a).to_numpy(), first + x)
        np.testing.assert_allclose((part.compute() + a).to_numpy(), first + x)


@pytest.mark.parametrize("length", [150, 199, 200, 201, 240, 1500])
def test_long_chains_twice(length: int) -> None:
    for _ in range(2):
        t = tr.asarray(np.arange(4.0)).to_format("coo")
        for _ in range(length):
            t = t + 1.0
        np.testing.assert_allclose(t.to_numpy(), np.arange(4.0) + length)


def test_wide_formulas_twice() -> None:
    x, _ = matrices("float64", 52)
    for _ in range(2):
        a = stored(x, "csr")
        t, wanted = a, x
        for _ in range(6):
            t, wanted = t + t.T, wanted + wanted.T
        np.testing.assert_allclose(t.to_numpy(), wanted)


def test_errors_come_each_time() -> None:
    x, y = matrices("float64", 53)
    for _ in range(3):
        a, b = stored(x, "csr"), stored(y, "csr")
        with pytest.raises(ShapeError):
            (a @ b).sum(axis=0) @ tr.asarray(np.ones(7))
        with pytest.raises(IndexError):
            (a @ b).sum(axis=2)


def test_strict_formulas_look_at_values() -> None:
    for scale in (1.0, 1e200, np.inf, 1.0):
        x, y = matrices("float64", 54)
        a, b = stored(x * scale if scale < np.inf else np.where(x == 1, scale, x), "csr"), y
        with tr.options(strict=True), np.errstate(all="ignore"):
            found = ((a @ tr.asarray(b)).sum(axis=0) * 2.0).to_numpy()
            wanted = (a.to_numpy() @ b).sum(axis=0) * 2.0
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_other_settings_other_plans() -> None:
    x, y = matrices("float64", 55)
    for _ in range(2):
        a, b = stored(x, "csr"), stored(y, "csr")
        for optimize in (True, False):
            with tr.options(optimize=optimize):
                np.testing.assert_allclose((a @ b).sum().to_numpy(), (x @ y).sum())
        assert (a @ b).T.compute(format="csc").format == "csc"
        assert (a @ b).T.compute(format="coo").format == "coo"
