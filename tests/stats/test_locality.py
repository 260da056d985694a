"""How far the coordinates of neighbouring entries lie apart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import tensorel as tr
from tensorel.costs import SHIPPED
from tensorel.front.array.convert import stored_of
from tensorel.plan.physical import KernelStep
from tensorel.stats.collected.locality import STRETCH_ENTRIES, locality_of


def banded(n: int, width: int) -> tr.Tensor:
    rows = np.repeat(np.arange(n), width)
    columns = (rows + np.tile(np.arange(width), n)) % n
    return tr.from_coo((rows, columns), np.ones(n * width), (n, n))


def spread(n: int, count: int) -> tr.Tensor:
    rng = np.random.default_rng(3)
    places = rng.integers(0, n, (2, count))
    return tr.from_coo(places, np.ones(count), (n, n), duplicates="sum")


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_bands_are_near_and_random_entries_far(format: str) -> None:
    near = stored_of(banded(20_000, 8).to_format(format))
    far = stored_of(spread(20_000, 160_000).to_format(format))
    assert locality_of(near) <= STRETCH_ENTRIES / 8 + 16
    assert locality_of(far) > 19_000


def test_what_has_no_list_is_far_and_what_is_empty_near() -> None:
    assert locality_of(stored_of(tr.asarray(np.eye(4)))) == math.inf
    assert locality_of(stored_of(tr.zeros((9, 9)).to_format("csr"))) == 0


def fetched(a: tr.Tensor, columns: int) -> set[int]:
    plan = (a @ tr.asarray(np.ones((a.shape[1], columns)))).explain().plan
    (step,) = [s for s in plan.steps if isinstance(s, KernelStep)]
    assert step.nest is not None
    return {lines for _, lines in step.nest.fetch if lines}


def test_dense_rows_are_fetched_where_jumps_go_far() -> None:
    n = int(SHIPPED.near_bytes) // 64
    assert fetched(spread(n, 4 * n).to_format("csr"), 32) == {4}
    assert fetched(spread(n, 4 * n).to_format("csr"), 25) == {4}
    assert fetched(spread(n, 4 * n).to_format("csr"), 640) == {8}
    assert fetched(banded(n, 8).to_format("csr"), 32) == set()
    assert fetched(spread(100, 400).to_format("csr"), 32) == set()


def test_cells_are_fetched_where_read_and_written_ones_lie_far_apart() -> None:
    n = int(SHIPPED.far_bytes) // 7
    x = tr.asarray(np.ones(n))
    for a, expected in ((spread(n, 4 * n), {1}), (banded(n, 4), set())):
        a = a.to_format("csr")
        assert lines_of((a.T @ a) @ x) == expected
        assert lines_of(a @ x) == lines_of(a.sum(axis=0)) == set()  # processors wait for many


def lines_of(t: tr.Tensor) -> set[int]:
    steps = [s for s in t.explain().plan.steps if isinstance(s, KernelStep)]
    return {lines for s in steps if s.nest is not None for _, lines in s.nest.fetch if lines}


@pytest.mark.parametrize("format", ["csr", "coo", "dcsr", "csc"])
@pytest.mark.parametrize("count", [0, 3, 400])
def test_cells_fetched_ahead_change_no_answer(format: str, count: int) -> None:
    a = spread(60, count).to_format(format)
    x = np.arange(60.0)
    d = a.to_numpy()
    with tr.options(costs=replace(SHIPPED, fetch_bytes=-1.0, near_bytes=-1.0, far_bytes=-1.0)):
        np.testing.assert_allclose(((a.T @ a) @ tr.asarray(x)).to_numpy(), d.T @ (d @ x))
        np.testing.assert_allclose(((a[5:50].T @ a[5:50]) @ tr.asarray(x)).to_numpy(),
                                   d[5:50].T @ (d[5:50] @ x))
        np.testing.assert_allclose((a * tr.asarray(x)).sum(axis=0).to_numpy(), (d * x).sum(axis=0))
