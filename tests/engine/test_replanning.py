"""Programs that run on their own results: plans and formats follow the density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

import tensorel as tr
from tensorel.config import Config
from tensorel.engines.in_process import engine
from tensorel.engines.in_process.sparsify import MAX_DENSE_CELLS


def power_law(n: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    degrees = np.minimum((rng.pareto(1.2, n) * 2 + 1).astype(int), 2000)
    rows = np.repeat(np.arange(n), degrees)
    columns = (n * rng.random(rows.size) ** 3).astype(int)
    a = sp.csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    return sp.csr_array((a + a.T) > 0)


def search(a: Any, start: int) -> tuple[np.ndarray, list[str]]:
    """Depths by the user's loop, and the frontier's format in each round."""
    n = a.shape[0]
    frontier = tr.from_coo([[start]], [True], (n,))
    seen: Any = frontier
    depth, formats, level = np.full(n, -1), [], 0
    depth[start] = 0
    while frontier.nnz:
        level += 1
        reached = tr.einsum("ij,i->j", a, frontier, add=tr.any, mul=tr.logical_and)
        frontier, seen = tr.compute(reached & ~seen, reached | seen)
        formats.append(frontier.format)
        (places,), stored = frontier.to_coo()
        depth[places[stored]] = level
    return depth, formats


@pytest.mark.parametrize("seed", [3, 4])
def test_search_turns_dense_and_sparse_again(seed: int) -> None:
    a = power_law(20_000, seed)
    start = int(np.argmin(np.where(np.diff(a.indptr) > 0, np.diff(a.indptr), a.nnz)))
    depth, formats = search(tr.asarray(a), start)
    order, before = breadth_first_order(a, start)
    expected = np.full(a.shape[0], -1)
    expected[start] = 0
    for node in order[1:]:
        expected[node] = expected[before[node]] + 1
    np.testing.assert_array_equal(depth, expected)
    kinds = [f for k, f in enumerate(formats) if k == 0 or f != formats[k - 1]]
    assert kinds == ["coo", "dense", "coo"]


def test_rank_keeps_one_plan_per_density() -> None:
    a = power_law(5_000, 1)
    p = tr.asarray(sp.csr_array(a / np.maximum(a.sum(axis=0), 1)))
    x: Any = tr.from_coo([[7]], [1.0], (5_000,))
    keys, formats = set(), []
    for _ in range(8):
        program = 0.85 * (p @ x)
        keys.add(engine.bind([program.node], [None], Config()).key)
        x = program.compute()
        formats.append(x.format)
    assert formats[-1] == "dense" and formats[0] == "coo"
    assert len(keys) <= 5  # by a factor of two while it grows, then one
    full = [f for f in formats if f == "dense"]
    assert formats[-len(full):] == full, "once dense it stays"


def test_what_is_asked_for_is_not_sparsified() -> None:
    n = 4 * MAX_DENSE_CELLS
    few = tr.from_coo([[3, 9]], [1.0, -2.0], (n,))
    ones = tr.asarray(np.ones(n))
    asked = (few * ones).compute(format="dense")
    assert asked.format == "dense"
    dense = tr.asarray(np.eye(1, n)[0])
    assert (dense * 2).compute().format == "dense"  # no operand is sparse


def test_sparsified_results_keep_their_values() -> None:
    n = 4 * MAX_DENSE_CELLS
    values = np.zeros(n)
    values[[5, 70]] = -0.0, np.nan
    hidden = tr.asarray(values)  # dense, holds little
    one = tr.from_coo([[n - 1]], [2.0], (n,))
    found = (hidden + one).compute()
    assert found.format == "coo"
    expected = values + np.asarray(one)
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(np.signbit(np.asarray(found)), np.signbit(expected))
