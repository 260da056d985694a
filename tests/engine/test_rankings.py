"""Rankings of large products run block by block: NumPy's answer, in little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.plan.steps import rankings

rng = np.random.default_rng(3)
u, v = rng.random((230, 4)), rng.random((170, 4))
mask = rng.random((230, 170)) < 0.05
U, V, M = tr.asarray(u), tr.asarray(v), tr.tensor(mask, format="csr")
scores = u @ v.T


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 2.0**14)


def in_blocks(program: Any) -> bool:
    return "blocks, each ranked and dropped" in str(program.explain())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_of_a_product(axis: int, largest: bool) -> None:
    found = tr.topk(U @ V.T, 7, axis=axis, largest=largest)
    assert in_blocks(found.values)
    values, places = tr.compute(found.values, found.indices)
    order = np.argsort(-scores if largest else scores, axis=axis, kind="stable")
    first = np.take(order, np.arange(7), axis=axis)
    np.testing.assert_allclose(
        values.to_numpy(), np.take_along_axis(scores, first, axis), rtol=1e-12)
    np.testing.assert_array_equal(places.to_numpy(), first)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_best_of_each_row_or_column(axis: int) -> None:
    program = (U @ V.T).argmax(axis=axis)
    assert in_blocks(program)
    np.testing.assert_array_equal(program.to_numpy(), scores.argmax(axis=axis))


def test_what_was_seen_is_left_out() -> None:
    program = tr.topk(tr.where(M, -np.inf, U @ V.T), 3)
    assert in_blocks(program.values)
    expected = -np.sort(-np.where(mask, -np.inf, scores), axis=1)[:, :3]
    np.testing.assert_allclose(program.values.to_numpy(), expected, rtol=1e-12)


def test_inside_a_larger_program() -> None:
    program = tr.topk(U @ V.T, 3).values.sum(axis=1) + U[:, 0]
    np.testing.assert_allclose(
        program.to_numpy(), -np.sort(-scores, axis=1)[:, :3].sum(axis=1) + u[:, 0],
        rtol=1e-12)


def test_three_axes() -> None:
    a = tr.einsum("ir,jr,kr->ijk", U[:20], V[:30], U[:40])
    dense = np.einsum("ir,jr,kr->ijk", u[:20], v[:30], u[:40])
    for axis in range(3):
        np.testing.assert_array_equal(a.argmin(axis=axis).to_numpy(), dense.argmin(axis=axis))
        np.testing.assert_allclose(tr.topk(a, 2, axis=axis).values.to_numpy(), np.flip(
            np.take(np.sort(dense, axis=axis), [-2, -1], axis=axis), axis), rtol=1e-12)


def test_a_product_that_is_asked_for_as_well_is_stored() -> None:
    product = U @ V.T
    best = product.argmax(axis=1)
    assert not in_blocks(best) or len(tr.compute(best, product)) == 2
    found, whole = tr.compute(best, product)
    np.testing.assert_array_equal(found.to_numpy(), scores.argmax(axis=1))
    np.testing.assert_allclose(whole.to_numpy(), scores, rtol=1e-12)


def test_the_memory_limit_holds_where_the_product_would_not_fit() -> None:
    with tr.options(memory=130_000_000):
        n = 6000
        left, right = tr.asarray(rng.random((n, 2))), tr.asarray(rng.random((n, 2)))
        found = tr.topk(left @ right.T, 2).indices
        assert in_blocks(found)
        assert found.to_numpy().shape == (n, 2)
        assert found.explain().predicted_bytes < 130_000_000


def test_blocks_are_as_small_as_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 2.0**25)
    left, right = tr.asarray(rng.random((1500, 2))), tr.asarray(rng.random((1500, 2)))
    with tr.options(memory=2_000_000):
        found = tr.topk(left @ right.T, 2).values.to_numpy()
    expected = -np.sort(-(left.to_numpy() @ right.to_numpy().T), axis=1)[:, :2]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
