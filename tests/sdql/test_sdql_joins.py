"""Guards over integer data: the same values as comparisons, at the cost of walking the data."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import current
from tensorel.engines import local

rng = np.random.default_rng(4)
V = np.arange(1.0, 7.0)


def cost(t: tr.Tensor) -> float:
    bound = local.bind([t.node], [None], current())
    return local.plan_for(bound, [None], current(), anew=True).plan.cost


@pytest.mark.parametrize("keys", [[0, 3, 3, 1, 0, 2], [0, 9, 3, -1, -7, 2], [5, 5, 5, 5, 5, 5]])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_groups_by_data(keys: list[int], dtype: type) -> None:
    idx = np.array(keys, dtype)
    text = "CREATE int ARRAY I(6); CREATE TENSOR T(4) AS sum(<p, i> in I) { i -> V(p) }; T"
    expected = [V[idx == k].sum() for k in range(4)]
    assert tr.sdql(text, I=idx, V=V).to_numpy().tolist() == expected


def test_joins_of_data() -> None:
    first, second = rng.integers(-2, 5, 6), rng.integers(-3, 6, 6)
    text = ("CREATE int ARRAY I(6), J(6); CREATE ARRAY V(6);"
            "sum(<p, i> in I, <q, j> in J) if (i == j) then { (p, q) -> V(p) }")
    expected = np.where(first[:, None] == second, V[:, None], 0)
    found = tr.sdql(text, I=first, J=second, V=V).to_numpy()
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "pos", [[0, 2, 2, 6], [0, 0, 0, 0], [1, 3, 4, 6], [0, 4, 2, 6], [0, 2, 3, 9]])
def test_segments(pos: list[int]) -> None:
    """Also those that overlap, start late or end beyond the values."""
    text = "CREATE int ARRAY P(4); sum(<i,> in 0:3, <p, v> in V(P(i):P(i + 1))) { i -> v + 1 }"
    long = np.concatenate([V, np.zeros(9)])
    expected = [float(np.sum(long[a:b] + 1)) for a, b in pairwise(pos)]
    assert tr.sdql(text, P=np.array(pos), V=V).to_numpy().tolist() == expected


def test_a_lazy_index_array_is_read() -> None:
    lazy = tr.asarray([0, 1, 1]) + 1
    text = "CREATE TENSOR T(3) AS sum(<p, _> in 0:3) { L(p) -> p + 1 }; T"
    assert tr.sdql(text, L=lazy).to_numpy().tolist() == [0, 1, 5]


CSR = """
CREATE int ARRAY pos(401), idx(4000); CREATE ARRAY val(4000);
CREATE TENSOR A(400, 400) AS sum(<i,> in 0:400)
  { i -> sum(<p, j> in idx(pos(i):pos(i + 1))) { @unique j -> val(p) } };
"""


@pytest.mark.parametrize(("text", "subscripts", "times"), [
    ("sum(<(i, j), a> in A, <j, x> in X) { i -> a * x }", "ij,j->i", 2),
    ("sum(<(i, j), a> in A, <(j, k), b> in A) { (i, k) -> a * b }", "ij,jk->ik", 3),
    ("sum(<(i, j), a> in A, <(i, k), b> in A, <k, x> in X) { j -> a * b * x }", "ij,ik,k->j", 3),
])
def test_arrays_cost_about_what_the_format_costs(text: str, subscripts: str, times: float) -> None:
    idx = np.sort(rng.permuted(np.tile(np.arange(400), (400, 1)), axis=1)[:, :10], axis=1).ravel()
    pos, val, x = np.arange(401) * 10, rng.random(4000), rng.random(400)
    dense = np.zeros((400, 400))
    dense[np.repeat(np.arange(400), 10), idx] = val
    found = tr.sdql(CSR + text, pos=pos, idx=idx, val=val, X=x)
    matrices = [tr.tensor(dense, "csr")] * (text.count("in A"))
    wanted = tr.einsum(subscripts, *matrices, *([x] if "in X" in text else []))
    assert np.allclose(found.to_numpy(), wanted.to_numpy())
    assert cost(found) < times * cost(wanted)
