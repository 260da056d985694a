"""Sums that are written out are sums over an index: the values of NumPy, one step, and planning
that does not grow with the number of terms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tensorel as tr
from measures import calls

ROLLED = "roll: "


def is_rolled(lazy: tr.Tensor, **options: object) -> bool:
    return ROLLED in str(lazy.explain(**options))


def convolved(x: tr.Tensor, bank: tr.Tensor) -> tr.Tensor:
    """A bank of filters over channels, as a sum of shifted slices."""
    window, total = bank.shape[2:], 0
    for shift in np.ndindex(*window):
        part = x[(slice(None), *[slice(s, n - w + 1 + s)
                                 for s, n, w in zip(shift, x.shape[1:], window)])]
        total = total + tr.tensordot(bank[(slice(None), slice(None), *shift)], part, axes=1)
    return total


def expected(x: np.ndarray, bank: np.ndarray) -> np.ndarray:
    rank = bank.ndim - 2
    windows = np.lib.stride_tricks.sliding_window_view(
        x, bank.shape[2:], axis=tuple(range(1, rank + 1)))
    return np.tensordot(bank, windows, axes=[
        range(1, rank + 2), [0, *range(rank + 1, 2 * rank + 1)]])


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "u1"])
@pytest.mark.parametrize("format", [None, "coo"])
@pytest.mark.parametrize("window", [(4,), (2, 3), (2, 2, 2)])
def test_convolutions(dtype: str, format: str | None, window: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(window))
    shape = tuple(int(n) for n in rng.integers(5, 8, len(window)))
    x = (rng.integers(1, 9, (2, *shape)) * (rng.random((2, *shape)) < 0.5)).astype(dtype)
    bank = rng.integers(0, 9, (3, 2, *window)).astype(dtype)
    lazy = convolved(tr.asarray(x) if format is None else tr.tensor(x, format=format),
                     tr.asarray(bank))
    assert is_rolled(lazy)
    np.testing.assert_allclose(lazy.to_numpy(), expected(x, bank), rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_terms_of_any_numbers(seed: int) -> None:
    """Grids in any order, strides, mirrored axes; also terms that are none of a grid, or twice
    there, and others between them."""
    rng = np.random.default_rng([3, seed])
    a, x = rng.random((9, 9, 6)), rng.random(6)
    A, X = tr.asarray(a), tr.asarray(x)
    places = [(1 + 2 * p, 7 - q if seed % 2 else q + 1) for p, q in product(range(3), range(2))]
    whole = True
    if seed % 4 == 1:
        places, whole = places[1:], False
    if seed % 4 == 2:
        places, whole = [*places, places[0]], False
    rng.shuffle(places)
    found, wanted = X.sum(), x.sum()
    for p, q in places:
        found, wanted = found + A[p, q] @ X, wanted + a[p, q] @ x
    found, wanted = found * 2, wanted * 2
    assert is_rolled(found) is whole
    np.testing.assert_allclose(found.item(), wanted)


def test_rows_of_sparse_tensors_are_next_to_each_other() -> None:
    rng = np.random.default_rng(0)
    a = rng.random((12, 7)) * (rng.random((12, 7)) < 0.4)
    x = rng.random(7)
    for format, step, rolled in (("csr", 1, True), ("csr", 2, False), ("dense", 2, True)):
        A, X = tr.tensor(a, format=format), tr.asarray(x)
        lazy = sum([A[k] @ X for k in range(0, 5 * step, step)])
        assert is_rolled(lazy) is rolled
        np.testing.assert_allclose(lazy.item(), sum(a[k] @ x for k in range(0, 5 * step, step)))


def test_sums_keep_their_order_in_strict_programs() -> None:
    rng = np.random.default_rng(1)
    a, x = rng.random((5, 4, 6)), rng.random(6)
    A, X = tr.asarray(a), tr.asarray(x)
    lazy = sum([A[k] @ X for k in range(5)])
    assert is_rolled(lazy)
    with tr.options(strict=True):
        assert not is_rolled(lazy)
    np.testing.assert_allclose(lazy.to_numpy(), (a @ x).sum(axis=0))


def test_a_plan_holds_for_its_places_alone() -> None:
    """The same program with other slices: places are part of the plan."""
    rng = np.random.default_rng(2)
    a, x = rng.random((9, 4, 6)), rng.random(6)
    A, X = tr.asarray(a), tr.asarray(x)
    for places in ([0, 1, 2, 3], [4, 5, 6, 7], [1, 3, 5, 7], [0, 1, 2, 4], [5, 6, 7, 8]):
        np.testing.assert_allclose(sum([A[k] @ X for k in places]).to_numpy(),
                                   (a[places] @ x).sum(axis=0))


def test_planning_does_not_grow_with_the_window() -> None:
    x = tr.asarray(np.zeros((3, 20, 30, 40)))

    def planning(size: int) -> int:
        bank = tr.asarray(np.zeros((10, 3, size, size, size)))
        lazy = convolved(x, bank)
        return calls(lambda: str(lazy.explain()))[0]

    planning(1)
    assert planning(3) <= 3 * planning(2) + 100_000
