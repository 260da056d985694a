"""Selections pass through operators along an axis; top-k of many by partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr

rng = np.random.default_rng(3)
A = rng.integers(-9, 9, (7, 8, 9)) * (rng.random((7, 8, 9)) < 0.5)
OPERATORS: dict[str, Any] = {
    "sort": lambda t, axis: tr.sort(t, axis=axis),
    "argsort": lambda t, axis: tr.argsort(t, axis=axis, descending=True),
    "cumulative_sum": lambda t, axis: tr.cumulative_sum(t, axis=axis),
    "topk_values": lambda t, axis: tr.topk(t, 3, axis=axis).values,
    "topk_indices": lambda t, axis: tr.topk(t, 3, axis=axis, largest=False).indices,
    "argmax": lambda t, axis: tr.argmax(t, axis=axis),
}
CUTS: list[Any] = [
    np.s_[2], np.s_[1:3], np.s_[[2, 0]], np.s_[:, 1:3], np.s_[1:4, 2], np.s_[::-2], np.s_[..., 1:2],
    np.s_[:, [1, 1]], np.s_[1, 1], np.s_[None, 2:4]]


def _fired(t: tr.Tensor) -> bool:
    return any(name.startswith("push-selection") for name in t.explain().rules)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("fmt", ["dense", "coo", "csf"])
def test_selecting_after_is_selecting_before(op: str, axis: int, fmt: str) -> None:
    whole = OPERATORS[op](tr.tensor(A, format=fmt, fill=0) * 2, axis)
    expected = whole.to_numpy()
    for cut in CUTS:
        np.testing.assert_array_equal(whole[cut].to_numpy(), expected[cut])


def test_only_the_asked_rows_are_ranked() -> None:
    u, v = rng.random((50, 4)), rng.random((60, 4))
    product = tr.asarray(u) @ tr.asarray(v).T
    few = tr.topk(product, 5).indices[[3, 30]]
    assert _fired(few)
    assert max(s["estimated_nnz"] for s in few.explain().to_dict()["steps"]) <= 2 * 60
    np.testing.assert_array_equal(
        few.to_numpy(), np.argsort(-(u @ v.T)[[3, 30]], axis=1, kind="stable")[:, :5])


def test_not_where_the_operator_is_read_twice_or_cut_along_its_axis() -> None:
    sorted_ = tr.sort(tr.asarray(A), axis=0)
    assert not _fired(sorted_[:2])
    assert not _fired(sorted_[:, 0] + sorted_.sum(axis=1))
    first, whole = tr.compute(sorted_[:, 1:2], sorted_)
    np.testing.assert_array_equal(first.to_numpy(), np.sort(A, axis=0)[:, 1:2])
    np.testing.assert_array_equal(whole.to_numpy(), np.sort(A, axis=0))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint16"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k_of_long_rows_has_ties_by_position(dtype: str, largest: bool, axis: int) -> None:
    a = rng.integers(0, 12, (90, 70)).astype(dtype)
    found = tr.topk(tr.asarray(a), 6, axis=axis, largest=largest)
    order = np.argsort(-a.astype(float) if largest else a, axis=axis, kind="stable")
    expected = np.take(order, np.arange(6), axis=axis)
    np.testing.assert_array_equal(found.indices.to_numpy(), expected)
    np.testing.assert_array_equal(
        found.values.to_numpy(), np.take_along_axis(a, expected, axis=axis))


def test_top_k_with_nan_ranks_nan_first() -> None:
    a = rng.random((4, 40))
    a[1, 7] = np.nan
    assert tr.topk(tr.asarray(a), 3).indices.to_numpy()[1, 0] == 7
