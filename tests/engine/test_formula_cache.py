"""The same function of tensors of the same kinds: nothing is built or planned again."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.engines import evaluation, programs
from tensorel.engines.in_process import engine
from tensorel.errors import ShapeError, TensorelError


def _random(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[Any, Any]:
    values = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.4)
    if kind == "dense":
        return tr.asarray(values.astype(float)), values.astype(float)
    if kind == "fill":
        made = np.where(values == 0, 2.0, values)
        return tr.tensor(made, format="csr", fill=2.0), made
    dtype = {"csr": float, "csc": float, "int": np.int32}[kind]
    fmt = "csr" if kind == "int" else kind
    return tr.tensor(values.astype(dtype), format=fmt), values.astype(dtype)


FUNCTIONS: dict[str, Any] = {
    "matmul": lambda a, b: a @ b,
    "add": lambda a, b: a + b,
    "scaled": lambda a, b: 2 * a - b,
    "compared": lambda a, b: a > 1,
    "squared": lambda a, b: (a @ a) * b,
    "own twice": lambda a, b: a * a,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("left", ["dense", "csr", "csc", "int", "fill"])
@pytest.mark.parametrize("right", ["dense", "csr", "fill"])
def test_repeated_calls(name: str, left: str, right: str) -> None:
    """With other values, other fills and other kinds between, each call has its own result."""
    rng = np.random.default_rng(5)
    f = FUNCTIONS[name]
    for n in (6, 6, 4, 6):
        (a, x), (b, y) = _random(rng, left, (n, n)), _random(rng, right, (n, n))
        for _ in range(2):
            got = f(a, b).compute()
            assert got.dtype == f(x, y).dtype
            np.testing.assert_allclose(got.to_numpy(), f(x, y))
        np.testing.assert_allclose(f(a, b).compute(strict=True).to_numpy(), f(x, y))
        np.testing.assert_allclose(f(a, b).compute(format="coo").to_numpy(), f(x, y))
        np.testing.assert_allclose(f(f(a, b), b).to_numpy(), f(f(x, y), y))


def test_einsum_by_text_operators_and_dtype() -> None:
    rng = np.random.default_rng(6)
    for n in (3, 4, 3):
        x, y = rng.integers(0, 5, (n, n)), rng.integers(0, 5, (n, n))
        a, b = tr.tensor(x, format="csr"), tr.asarray(y)
        for _ in range(2):
            assert (tr.einsum("ij,jk->ik", a, b).to_numpy() == x @ y).all()
            assert (tr.einsum("ij,kj->ik", a, b).to_numpy() == x @ y.T).all()
            least = tr.einsum("ij,jk->ik", a, b, add="min", mul="+").to_numpy()
            assert (least == (x[:, :, None] + y[None]).min(1)).all()
            small = tr.einsum("ij,jk->ik", a, b, dtype="float32", casting="same_kind")
            assert small.compute().dtype == np.float32


def test_a_known_call_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a = tr.asarray(sp.random(20, 20, 0.3, format="csr", random_state=1))
    x = tr.asarray(np.arange(20.0))
    want = (a @ x).to_numpy()
    (a @ x).compute()
    monkeypatch.setattr(evaluation, "bind", None)
    monkeypatch.setattr(engine, "make_plan", None)
    np.testing.assert_allclose((a @ x).compute().to_numpy(), want)
    assert (a @ x).shape == (20,)


def test_errors_come_at_the_call() -> None:
    a, b = tr.asarray(np.ones((2, 3))), tr.asarray(np.ones((2, 3)))
    for _ in range(3):
        with pytest.raises(ShapeError):
            a @ b
        with pytest.raises(TensorelError):
            tr.einsum("ij,jk->ik", a, b)
        with pytest.raises(ShapeError):
            a + tr.asarray(np.ones(2))


def test_no_tensor_is_kept_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        a = tr.asarray(sp.random(20, 20, 0.3, format="csr", random_state=1))
        x = tr.asarray(np.ones(20))
        kept = [weakref.ref(t.stored) for t in (a, x)]
        for _ in range(3):
            (a @ x).compute()
        del a, x
        assert [r() for r in kept] == [None, None]
    finally:
        gc.enable()


def test_settings_and_rules_are_part_of_it() -> None:
    a = tr.asarray(sp.random(20, 20, 0.3, format="csr", random_state=1))
    x = tr.asarray(np.ones(20))
    want = (a @ x).to_numpy()
    for options in ({"optimize": False}, {"threads": 1}, {"strict": True}, {"check": True},
                    {"memory": "1GB"}, {"effort": "quick"}):
        np.testing.assert_allclose((a @ x).compute(**options).to_numpy(), want)
    with pytest.raises(tr.errors.MemoryLimitError):
        (a @ x).compute(memory=10)


def test_alternatives_have_plans_of_their_own() -> None:
    a = tr.asarray(sp.random(20, 20, 0.3, format="csr", random_state=1))
    x = tr.asarray(np.ones(20))
    both = tr.alternatives(a, a.to_format("csc"))
    assert programs.number_of(a.stored) != programs.number_of(both.stored)
    np.testing.assert_allclose((both @ x).to_numpy(), (a @ x).to_numpy())


def test_forgetting_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_REMEMBERED", 2)
    for n in range(2, 9):
        x = np.arange(float(n * n)).reshape(n, n)
        a = tr.asarray(x)
        for _ in range(2):
            np.testing.assert_allclose((a @ a).to_numpy(), x @ x)
            np.testing.assert_allclose((a + 1).to_numpy(), x + 1)


@pytest.mark.parametrize("shape", [(900, 200, 60), (900, 200, 1), (60, 200, 900), (2000, 40, 130)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_tall_products(shape: tuple[int, int, int], dtype: str) -> None:
    """Products of tall matrices run as products of the transposes; the result lies as ever."""
    m, k, n = shape
    rng = np.random.default_rng(m)
    x, y = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (k, n)).astype(dtype)
    got = (tr.asarray(x) @ tr.asarray(y)).compute()
    assert got.format == "dense" and got.dtype == (x @ y).dtype
    np.testing.assert_array_equal(got.to_numpy(), x @ y)
    turned = (tr.asarray(np.asfortranarray(x)) @ tr.asarray(y)).compute()
    np.testing.assert_array_equal(turned.to_numpy(), x @ y)
