"""Windows and convolutions in every way that the planner knows, and which way it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import signal

import tensorel as tr
from tensorel.algebra import convolutions
from tensorel.config import current
from tensorel.engines.binding import bind
from tensorel.engines.in_process.engine import Run, execute, planned
from tensorel.plan.decisions import Decisions
from tensorel.plan.variants import partial_windows
from tensorel.storage.convert import to_dense

rng = np.random.default_rng(3)
X, V = rng.random((40, 70)), rng.random(900)
U, W = rng.random(3), rng.random(5) - 0.5
BANK, IMAGES = rng.random((5, 3, 3, 3)), rng.random((2, 3, 9, 20))


def of_windows(x: np.ndarray, sizes: Any, name: str) -> Any:
    axes = tuple(range(-len(sizes), 0))
    return getattr(sliding_window_view(x, sizes, axes), name)(axis=axes)


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "outer kernel": (lambda: tr.correlate(X, np.outer(U, W)),
                     lambda: signal.correlate(X, np.outer(U, W), "valid")),
    "outer of vectors": (lambda: tr.convolve(X, tr.outer(tr.asarray(U), tr.asarray(W)), "same"),
                         lambda: signal.convolve(X, np.outer(U, W), "same")),
    "whole outer kernel": (
        lambda: tr.convolve((X * 9).astype(int), np.outer([1, 2, 1], [-2, 0, 4]), padding="wrap",
                            mode="same"),
        lambda: signal.convolve2d((X * 9).astype(int), np.outer([1, 2, 1], [-2, 0, 4]), "same",
                                  boundary="wrap")),
    "other kernel": (lambda: tr.correlate(X, X[:5, :5]), lambda: signal.correlate(
        X, X[:5, :5], "valid")),
    "large kernel": (lambda: tr.convolve(X, X[:13, :11], "full"),
                     lambda: signal.convolve(X, X[:13, :11], "full")),
    "long kernel": (lambda: tr.correlate(V, V[:200]), lambda: np.correlate(V, V[:200], "valid")),
    "sums": (lambda: tr.windows(X, (3, 4)).sum(axis=(-1, -2)),
             lambda: of_windows(X, (3, 4), "sum")),
    "means of steps": (lambda: tr.windows(X, (6, 5), step=(2, 3)).mean(axis=(-1, -2)),
                       lambda: of_windows(X, (6, 5), "mean")[::2, ::3]),
    "long minima": (lambda: tr.windows(V, 61).min(axis=-1), lambda: of_windows(V, (61,), "min")),
    "long sums": (lambda: tr.windows(V, 61).sum(axis=-1), lambda: of_windows(V, (61,), "sum")),
    "long rows": (lambda: tr.windows(X, 30, axis=0).max(axis=-1),
                  lambda: sliding_window_view(X, 30, 0).max(axis=-1)),
    "filters": (lambda: tr.einsum("nchwrs,ocrs->nohw", tr.windows(IMAGES, (3, 3)), BANK),
                lambda: np.einsum("nchwrs,ocrs->nohw", sliding_window_view(
                    IMAGES, (3, 3), (2, 3)), BANK)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form(name: str) -> None:
    ours, numpy = PROGRAMS[name]
    expected, config = numpy(), replace(current(), effort="quick", verify=True)
    bound = bind([ours().node], [None], config)
    texts: tuple[str, ...] = ("as written",)
    number = 0
    while number < len(texts):
        decisions = Decisions((number,))
        made = planned(bound, [None], config, decisions)
        if decisions.taken[0].kind == "form":
            texts = decisions.taken[0].texts
        (result,) = execute(Run(made, bound.stored, config))
        assert np.allclose(to_dense(result), expected), texts[number]
        number += 1
    assert (len(texts) > 1) == (name != "other kernel"), texts


def test_blocks_of_every_length() -> None:
    """59, 69, 94 and 116 are lengths that no number of overlapping blocks covers to the end."""
    for n in (24, 25, 58, 59, 69, 94, 116):
        assert tr.asarray(V[:n]).max().item() == V[:n].max()
        for name in ("min", "max", "sum"):
            assert np.allclose(getattr(tr.windows(V, n), name)(axis=-1).to_numpy(),
                               of_windows(V, (n,), name)), (n, name)


def forms(tensor: Any) -> str:
    return " ".join(tensor.explain().rules)


def test_ways_by_cost() -> None:
    x, v = rng.random((600, 700)), rng.random(300_000)
    g = np.exp(-np.linspace(-2, 2, 9) ** 2)
    assert "partial windows" in forms(tr.correlate(x, np.outer(g, g)))
    assert "partial windows" not in forms(tr.correlate(x, rng.random((9, 9))))
    assert "partial windows" in forms(tr.windows(x, (15, 15)).max(axis=(-1, -2)))
    assert "partial windows" in forms(tr.windows(v, 5000).mean(axis=-1))
    assert "transform" in forms(tr.convolve(x, rng.random((63, 63)), "same"))
    assert "transform" not in forms(tr.convolve(x, rng.random((3, 3)), "same"))
    assert "transform" not in forms(tr.convolve((x * 9).astype(int), np.arange(3969).reshape(
        63, 63), "same"))
    for tensor in (tr.correlate(x, np.outer(g, g)), tr.convolve(x, rng.random((63, 63)), "same"),
                   tr.windows(v, 5000).mean(axis=-1)):
        with tr.options(strict=True):
            assert "partial" not in forms(tensor) and "transform" not in forms(tensor)


def test_the_kernel_is_looked_at_each_time() -> None:
    """Whether it is an outer product is a property of data that users may change."""
    x, k = rng.random((200, 300)), np.outer(np.arange(1.0, 8.0), np.arange(2.0, 9.0))
    for change in (lambda: None, lambda: k.__setitem__((3, 3), 0.5), lambda: k.fill(0.0),
                   lambda: k.__setitem__(..., np.outer(np.ones(7), np.arange(7.0) - 3)),
                   lambda: k.__setitem__((0, 0), np.nan)):
        change()
        assert np.allclose(tr.correlate(x, k).to_numpy(), signal.correlate(
            x, k, "valid", method="direct"), equal_nan=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64", "complex128"])
def test_factors_of_products(dtype: str) -> None:
    for shape in ((3, 5), (1, 4), (4, 1), (2, 3, 4)):
        made: Any = np.ones((), dtype)
        for n in shape:
            made = np.multiply.outer(made, rng.integers(0, 3, n).astype(dtype) + (n == shape[0]))
        if made.any():
            assert convolutions.is_product(made)
            again: Any = np.ones((), dtype)
            for f in convolutions.factors(made):
                assert f.dtype == made.dtype
                again = np.multiply.outer(again, f)
            assert np.allclose(again, made)
        changed = made.copy()
        changed[(0,) * len(shape)] += 1
        changed[(-1,) * len(shape)] += 2
        assert min(np.sort(shape)[-2:]) < 2 or not convolutions.is_product(
            changed) or np.linalg.matrix_rank(changed.reshape(shape[0], -1)) < 2
    assert not convolutions.is_product(np.array([[np.inf, 1], [1, 1]]))
    assert not convolutions.is_product(np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("large", [1e9, 1e20, np.nan])
def test_one_large_number_spoils_no_other_cell(dtype: str, large: float) -> None:
    rng = np.random.default_rng(5)
    x, k = rng.random(4000).astype(dtype), rng.random(900).astype(dtype)
    wanted = np.convolve(x, k, "valid")
    x[100] = large
    found = tr.convolve(tr.asarray(x), tr.asarray(k), mode="valid")
    assert "transform" in str(found.explain())
    np.testing.assert_allclose(found.to_numpy()[101:], wanted[101:],
                               rtol=1e-5 if dtype == "float32" else 1e-12)


def test_transforms_of_what_is_not_finite() -> None:
    """One nan spoils the windows that have it, and no others."""
    x, k = rng.random((64, 90)), rng.random((17, 19))
    x[40, 50], x[3, 80] = np.nan, np.inf
    found = convolutions.transform.apply([x, k], (True,))
    assert np.allclose(found, signal.convolve(x, k, "valid", method="direct"), equal_nan=True)
    assert np.isfinite(found).sum() > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_transforms_in_blocks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "BLOCK_CELLS", 256)
    for x, k in (((500,), (7,)), ((3, 61, 40), (5, 4)), ((2, 30, 9, 8), (3, 2, 8)), ((9,), (9,))):
        a, b = rng.random(x).astype(dtype), rng.random(k).astype(dtype)
        for turned in (False, True):
            found = convolutions.transform.apply([a, b], (turned,))
            weights = b if turned else np.flip(b)
            wanted = signal.convolve(a, weights.reshape((1,) * (len(x) - len(k)) + k), "valid",
                                     method="direct")
            assert found.dtype == a.dtype and np.allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize(("name", "dtype"), [
    ("sum", "f4"), ("sum", "f8"), ("sum", "i8"), ("sum", "c16"), ("max", "f8"), ("max", "i8")])
def test_strict_windows_of_sparse_vectors(name: str, dtype: str) -> None:
    """Terms are added one after another, from +0.0, and huge extents cost nothing."""
    rng = np.random.default_rng(5)
    x = (10 * rng.standard_normal(2000)).astype(dtype) * (rng.random(2000) < 0.05)
    points = tr.from_coo([np.flatnonzero(x)], x[x != 0], (2**40,))
    if x.dtype.kind == "f":
        x[rng.integers(0, 2000, 8)] = [-0.0, -0.0, np.inf, np.nan, -np.inf, 1e30, -1e30, -0.0]
    step: Any = {"sum": np.add, "max": np.maximum}[name]

    def wanted(x: Any) -> Any:
        terms = sliding_window_view(x, 4)
        found = terms[:, 0] + np.zeros((), x.dtype)
        for k in range(1, 4):
            found = step(found, terms[:, k])
        return found

    def windows(x: tr.Tensor) -> tr.Tensor:
        return getattr(tr.windows(x, 4), name)(axis=-1)  # type: ignore[no-any-return]

    with tr.options(strict=True), np.errstate(all="ignore"):
        found, right = windows(tr.tensor(x, format="coo")).to_numpy(), wanted(x)
        assert np.array_equal(found, right, equal_nan=True)
        assert name == "max" or x.dtype.kind != "f" or np.array_equal(
            np.signbit(found[right == 0]), np.signbit(right[right == 0]))
        far = windows(points).compute()
        assert np.array_equal(far[:1000].to_numpy(), wanted(points[:1003].to_numpy()))


def test_every_length_has_blocks() -> None:
    """Some lengths are no blocks that overlap and leave nothing over."""
    for n in range(partial_windows.MIN_LENGTH, 3000):
        middle = isqrt(n)
        for overlap in (False, True):
            shapes = [s for size in range(max(middle // 2, 2), 2 * middle + 1)
                      for s in partial_windows._shapes(n, size, overlap)]
            assert shapes, n
            assert all(size <= n and 0 < apart <= size and apart * (count - 1) + size <= n
                       for size, apart, count in shapes)
    for n in (59, 69, 83, 97):
        x = np.random.default_rng(n).random(1000) < 0.01
        got = tr.windows(tr.asarray(x), n).any(axis=-1)
        assert np.array_equal(got.to_numpy(), sliding_window_view(x, n).any(axis=-1))
        y = np.random.default_rng(n).random(1000)
        assert np.array_equal(tr.windows(tr.asarray(y), n).max(axis=-1).to_numpy(),
                              sliding_window_view(y, n).max(axis=-1))
