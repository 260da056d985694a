"""Naive programs get the plan that an expert would write: few steps, no large intermediate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr

rng = np.random.default_rng(11)
N, RANK = 3000, 6


def _matrix(per_row: int = 10) -> Any:
    rows = np.repeat(np.arange(N), per_row)
    columns = rng.integers(0, N, rows.size)
    made = sp.csr_array((rng.random(rows.size) + 0.5, (rows, columns)), shape=(N, N))
    made.sum_duplicates()
    return made


def _skewed() -> Any:
    """A graph with a few nodes of very many neighbours, symmetric, without values."""
    targets = (N * rng.random(3 * N) ** 2).astype(np.int64)
    made = sp.csr_array((np.ones(targets.size), (rng.integers(0, N, targets.size), targets)),
                        shape=(N, N))
    made = made + made.T
    made.data[:] = 1.0
    made.setdiag(0)
    made.eliminate_zeros()
    return sp.csr_array(made)


A, B, E = _matrix(), _matrix(), _skewed()
U, V, X = rng.random((N, RANK)) + 0.5, rng.random((N, RANK)) + 0.5, rng.random(N)
TA, TB, TE, TU, TV, TX = (tr.asarray(m) for m in (A, B, E, U, V, X))


def _steps(program: tr.Tensor) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = program.explain().to_dict()["steps"]
    return steps


def _largest(program: tr.Tensor) -> float:
    return max(float(s["estimated_bytes"]) for s in _steps(program))


SMALL = 20 * A.data.nbytes  # far below a dense N x N result of 72 MB


@pytest.mark.parametrize(("program", "expected"), [
    (lambda: 0.5 * ((TA.T @ TA) @ TX), lambda: 0.5 * (A.T @ (A @ X))),
    (lambda: (TA @ TB).sum(), lambda: (A @ (B @ np.ones(N))).sum()),
    (lambda: (TA.T @ TA).sum(axis=1), lambda: A.T @ (A @ np.ones(N))),
    (lambda: (TA.T @ TA).trace(), lambda: (A.data**2).sum()),
    (lambda: (TA * tr.log(TU @ TV.T)).sum(),
     lambda: (A.multiply(np.log(U @ V.T))).sum()),
    (lambda: ((TA - TU @ TV.T) ** 2).sum(), lambda: ((A.toarray() - U @ V.T) ** 2).sum()),
    (lambda: TU.T @ (TA / (TU @ TV.T)), lambda: U.T @ (A.toarray() / (U @ V.T))),
], ids=["batax", "sum of product", "gram row sums", "gram trace", "likelihood", "squared loss",
        "factorization step"])
def test_no_large_intermediate(
    program: Callable[[], tr.Tensor], expected: Callable[[], Any]
) -> None:
    made = program()
    np.testing.assert_allclose(made.to_numpy(), np.asarray(expected()), rtol=1e-9)
    assert _largest(made) < SMALL, str(made.explain())


def test_a_scalar_does_not_change_the_plan() -> None:
    plain, scaled = ((TA.T @ TA) @ TX), 0.5 * ((TA.T @ TA) @ TX)
    assert len(_steps(plain)) == len(_steps(scaled)) == 1  # each row of A is read once


def test_triangles_of_a_skewed_graph_are_one_nest() -> None:
    count = tr.einsum("ij,jk,ik->", TE, TE, TE)
    assert len(_steps(count)) == 1, str(count.explain())
    assert count.item() == (E @ E).multiply(E).sum()


def test_rows_of_cycles_are_used_up() -> None:
    """Two steps at a time, and a row of the first two is never stored."""
    count = tr.einsum("ij,jk,kl,li->", TE, TE, TE, TE)
    text = str(count.explain())
    assert "once for each" in text and _largest(count) <= 4 * E.data.nbytes, text
    squared = E @ E
    assert count.item() == squared.multiply(squared.T).sum()


def test_cliques_join_neighbours_before_they_need_them() -> None:
    count = tr.einsum("ij,ik,il,jk,jl,kl->", TE, TE, TE, TE, TE, TE)
    text = str(count.explain())
    assert "where w" in text and _largest(count) <= 20 * E.data.nbytes, text
    near = [np.flatnonzero(row) for row in E.toarray()]
    inside = [E[n][:, n].toarray() for n in near]
    assert count.item() == sum(((m @ m) * m).sum() for m in inside)


def test_cliques_of_communities_are_one_nest() -> None:
    """Neighbours of neighbours are neighbours: under independence the cheapest way seemed to
    store all pairs with two common neighbours, and to search instead of looking up."""
    n, size = 1200, 24
    group = rng.integers(0, n // size, n)
    near = (group[:, None] == group[None, :]) & (rng.random((n, n)) < 0.8)
    edges = np.triu(near | (rng.random((n, n)) < 0.003), 1)
    graph = sp.csr_array((edges | edges.T).astype(float))
    t = tr.asarray(graph)
    count = tr.einsum("ij,ik,il,jk,jl,kl->", t, t, t, t, t, t)
    text = str(count.explain())
    assert text.count("kernel ->") == 1 and text.count("where w") == 2, text
    assert "r2 (reduced) > r3 (reduced); result" in text, text
    inside = [graph[row][:, row].toarray() for row in np.split(graph.indices, graph.indptr[1:-1])]
    assert count.item() == sum(((m @ m) * m).sum() for m in inside)


def test_a_star_join_is_never_made() -> None:
    facts, own, parts = 2000, 3, 40
    keys = rng.integers(0, parts, facts)
    one_hot = sp.csr_array((np.ones(facts), (np.arange(facts), keys)), shape=(facts, parts))
    features, table = rng.random((facts, own)), rng.random((parts, 200))
    joined = tr.concat([tr.asarray(features), tr.asarray(one_hot) @ tr.asarray(table)], axis=1)
    whole = np.concatenate([features, table[keys]], axis=1)
    weights, residual = rng.random(own + 200), rng.random(facts)
    for program, expected in (
        (joined @ tr.asarray(weights), whole @ weights),
        (joined.T @ tr.asarray(residual), whole.T @ residual),
        (joined.T @ joined, whole.T @ whole),
    ):
        np.testing.assert_allclose(program.to_numpy(), expected, rtol=1e-9)
        assert _largest(program) < whole.nbytes / 4, str(program.explain())


def test_equal_parts_are_computed_once() -> None:
    product = tr.einsum("ij,jk->ik", TA, TB)
    again = tr.einsum("ab,bc->ac", TA, TB)
    assert len(_steps(product * again)) <= 2


def test_a_full_reduction_is_one_flat_loop() -> None:
    code = str((TA * TA).sum().explain("code"))
    assert code.count("for ") == 1, code


def test_sums_inside_the_last_loop_have_a_cost() -> None:
    """sum(k) (sum(i) A[i, k]) * (sum(j) A[k, j]) in one nest searches every row for every k."""
    rng = np.random.default_rng(4)
    at = rng.integers(0, 3000, (2, 30_000))
    a = tr.from_coo(at, np.ones(30_000), (3000, 3000), format="csr", duplicates="sum")
    plan = (a @ a).sum().explain().to_dict()
    assert plan["runner_up"]["cost"] >= plan["cost"]
