"""Guards over integer data: the same values as comparisons, at the cost of walking the data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import current
from tensorel.engines.in_process import engine
from tensorel.errors import ExtentWarning

rng = np.random.default_rng(4)
V = np.arange(1.0, 7.0)


def cost(t: tr.Tensor) -> float:
    bound = engine.bind([t.node], [None], current())
    return engine.plan_for(bound, [None], current(), anew=True).plan.cost


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


UNEQUAL: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], object]]] = {
    "sum(<(i, j), a> in A, <j, x> in X) { i -> a * x }": (
        "ij,j->i", lambda a, x: a[:, :4] @ x[:4]),
    "sum(<i, r> in A) { i -> sum(<j, a> in r) a * X(j) }": (
        "ij,j->i", lambda a, x: a[:, :4] @ x[:4]),
    "sum(<j, x> in X) sum(<(i, k), a> in A) if (j == k) then { i -> a * x }": (
        "ij,j->i", lambda a, x: a[:, :4] @ x[:4]),
    "sum(<(i, j), a> in A, <(k, i), b> in A) { (k, j) -> a * b }": (
        "ij,ki->kj", lambda a, x: a[:, :3] @ a),
    "sum(<(i, i), a> in A) a": ("ii->", lambda a, x: np.trace(a)),
}


@pytest.mark.parametrize("text", UNEQUAL)
@pytest.mark.parametrize("longer", [False, True])
def test_axes_of_unequal_extents_are_joined_with_a_warning(text: str, longer: bool) -> None:
    """The dictionaries of the language have different keys; users of arrays must hear of it."""
    subscripts, wanted = UNEQUAL[text]
    a, x = rng.random((3, 4 if longer else 5)), rng.random(5 if longer else 4)
    given = {"A": tr.tensor(a, "csr"), **({"X": x} if "X" in text else {})}
    with pytest.warns(ExtentWarning, match="joined with axis"):
        found = tr.sdql(text, **given).to_numpy()
    with pytest.raises(ValueError):
        np.einsum(subscripts, *[a] * text.count("in A"), *([x] if "X" in text else []))
    assert np.allclose(found, wanted(a, x))


def test_ranges_and_equal_extents_are_joined_in_silence() -> None:
    a = rng.random((3, 5))
    given = {"A": tr.tensor(a, "csr"), "X": np.ones(5)}
    assert np.allclose(
        tr.sdql("sum(<(i, j), a> in A, <j, _> in 0:3) { i -> a }", **given), a[:, :3].sum(1))
    assert np.allclose(
        tr.sdql("sum(<(i, j), a> in A, <j, x> in X(1:3)) { i -> a * x }", **given),
        a[:, 1:3].sum(1))
    assert np.allclose(
        tr.sdql("sum(<(i, j), a> in A, <j, x> in X) { i -> a * x }", **given), a.sum(1))
