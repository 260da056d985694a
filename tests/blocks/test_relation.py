"""Tensor relations: every example of section 2 of Yuan et al., "Tensor Relational Algebra for
Machine Learning System Design", as it is printed, but for two slips:

- TILE(0, 2) of R_B decomposes "along dimension 0, creating one new array for each two columns", and
  STACK(1, 0) undoes it. Columns are axis 1 as NumPy counts and as section 2's own bounds count
  (blocks of R_B have 2 rows and 4 columns). Here: ``tile(1, 2)`` and ``stack(1, 1)``.
- The join of the product is "on key index 0 from the first instance equaling key index 1 from the
  second"; the formula joins index 1 of the first with index 0 of the second, which is the product.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import tensorel as tr
from tensorel.front.functions.relations import TensorRelation

A = np.array([[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]])
B = np.array([[1, 2, 5, 6, 9, 10, 13, 14], [3, 4, 7, 8, 11, 12, 15, 16]])


def blocks(R: TensorRelation) -> dict[tuple[int, ...], list[Any]]:
    return {key: block.tolist() for key, block in R.items()}


@pytest.fixture(params=["dense", "dense_f", "csr", "coo", "dok"])
def R_A(request: pytest.FixtureRequest) -> TensorRelation:
    return tr.relation(tr.tensor(A, format=request.param), tile=2)


@pytest.fixture
def R_B() -> TensorRelation:
    return tr.relation({(0,): B[:, :4], (1,): B[:, 4:]})


def test_a_matrix_as_a_relation(R_A: TensorRelation) -> None:
    assert blocks(R_A) == {(0, 0): [[1, 2], [3, 4]], (0, 1): [[5, 6], [7, 8]],
                           (1, 0): [[9, 10], [11, 12]], (1, 1): [[13, 14], [15, 16]]}
    assert (R_A.key_arity, len(R_A), R_A.key_extents) == (2, 4, (2, 2))
    assert R_A.keys() == list(R_A) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_aggregation(R_A: TensorRelation) -> None:
    assert blocks(R_A.aggregate([1], "add")) == {(0,): [[10, 12], [14, 16]],
                                                 (1,): [[18, 20], [22, 24]]}
    assert blocks(R_A.aggregate([], "add")) == {(): [[28, 32], [36, 40]]}
    assert R_A.aggregate([], "add").to_tensor().tolist() == [[28, 32], [36, 40]]


@pytest.mark.parametrize("kernel", [
    "matmul", "ij,jk->ik", lambda a, b: a @ b, np.matmul, tr.matmul,
    lambda a, b: np.array([[int(r @ c) for c in b.T] for r in a])])
def test_the_matrix_product(R_A: TensorRelation, kernel: object) -> None:
    joined = R_A.join(R_A, [1], [0], kernel)
    assert len(joined) == 8
    assert blocks(joined)[0, 1, 0] == [[111, 122], [151, 166]]
    product = joined.aggregate([0, 2], "add")
    assert product.keys() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_array_equal(product.to_tensor().to_numpy(), A @ A)


def test_the_diagonal_by_filter_rekey_and_transform(R_A: TensorRelation) -> None:
    diagonal = R_A.filter(lambda i, j: i == j).rekey(lambda i, j: i).transform("diag")
    assert blocks(diagonal) == {(0,): [1, 4], (1,): [13, 16]}
    np.testing.assert_array_equal(diagonal.to_tensor().to_numpy(), np.diag(A))


def test_tile_rekey_and_stack(R_B: TensorRelation) -> None:
    tiled = R_B.tile(1, 2)
    assert blocks(tiled) == {(0, 0): [[1, 2], [3, 4]], (0, 1): [[5, 6], [7, 8]],
                             (1, 0): [[9, 10], [11, 12]], (1, 1): [[13, 14], [15, 16]]}
    rekeyed = tiled.rekey(lambda key1, key2: 2 * key1 + key2)
    assert blocks(rekeyed) == {(0,): [[1, 2], [3, 4]], (1,): [[5, 6], [7, 8]],
                               (2,): [[9, 10], [11, 12]], (3,): [[13, 14], [15, 16]]}
    np.testing.assert_array_equal(rekeyed.to_tensor(axes=[1]).to_numpy(), B)
    assert blocks(tiled.stack(1, 1)) == blocks(R_B)
    assert blocks(R_B.tile(0, 2)) == {(0, 0): B[:, :4].tolist(), (1, 0): B[:, 4:].tolist()}


def test_the_diagonal_of_a_sum() -> None:
    """Section 4.2's example: diag(X + Y)."""
    X, Y = tr.relation(A, tile=2), tr.relation(A.T, tile=2)
    total = X.join(Y, (0, 1), (0, 1), "add").filter(lambda i, j: i == j)
    found = total.rekey(lambda i, j: i).transform("diag").to_tensor()
    np.testing.assert_array_equal(found.to_numpy(), np.diag(A + A.T))


def test_an_einsum_as_join_and_aggregation() -> None:
    rng = np.random.default_rng(0)
    M, N = rng.integers(-5, 5, (6, 5, 4)), rng.integers(-5, 5, (5, 4, 3))
    R, S = tr.relation(M, tile=(4, 2, 3)), tr.relation(N, tile=(2, 3, 2))
    found = R.join(S, (1, 2), (0, 1), "ijk,jkl->il").aggregate((0, 3), "add").to_tensor()
    np.testing.assert_array_equal(found.to_numpy(), np.einsum("ijk,jkl->il", M, N))


# -- what the paper leaves open --------------------------------------------------------------------
def test_relations_do_not_change() -> None:
    given = np.ones((4, 4))
    R, S = tr.relation(given, tile=2), tr.relation({0: given})
    given[:] = 5
    assert all((b == 1).all() for _, b in [*R.items(), *S.items()])
    with pytest.raises(ValueError):
        R.items()[0][1][0, 0] = 7

    def in_place(a: Any) -> Any:
        a[0] = 100
        return a

    assert (R.transform(in_place)[0, 0].to_numpy()[0] == 100).all()
    assert (R[0, 0].to_numpy() == 1).all()


@pytest.mark.parametrize("format", ["csr", "dok", "bsr", "dia", "lil"])
def test_arrays_of_scipy(format: str) -> None:
    T = scipy.sparse.coo_array(np.triu(A)).asformat(format)
    assert tr.relation(T, tile=2).keys() == [(0, 0), (0, 1), (1, 1)]


def test_sparse_blocks_stay_sparse() -> None:
    T = tr.from_coo([[0, 5], [0, 5]], [1.0, 2.0], (6, 6), format="csr")
    R = tr.relation(T, tile=2)
    assert R.keys() == [(0, 0), (2, 2)] and R[0, 0].format == "csr"
    assert R[1, 0].to_numpy().tolist() == [[0, 0], [0, 0]]
    assert R.join(R, 1, 0, "matmul").keys() == [(0, 0, 0), (2, 2, 2)]
    assert R.transform("sqrt").keys() == R.keys()
    back = R.join(R, (0, 1), (0, 1), "add").to_tensor()
    assert back.format == "csr" and back.nnz == 2 and float(back[5, 5]) == 4.0
    cos = R.transform("cos")
    assert cos.fill == 1 and len(cos) == 2
    np.testing.assert_allclose(cos.to_tensor().to_numpy(), np.cos(T.to_numpy()))


def test_huge_grids_are_not_listed() -> None:
    n = 2**30
    T = tr.from_coo([[0, n - 1], [5, 5]], [1.0, 2.0], (n, n), format="coo")
    R = tr.relation(T, tile=2**10)
    S = R.join(R, 0, 0, "ij,ik->jk")
    found = S.aggregate([1, 2], "add")
    assert found.keys() == [(0, 0)] and float(found[0, 0][5, 5]) == 5.0
    total = R.aggregate([], "add")
    assert total[()].nnz == 2 and R.transform("negative").to_tensor().nnz == 2


def test_a_function_that_is_no_program_gets_arrays() -> None:
    seen = []

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        seen.append(a.shape)
        return np.linalg.solve(a, b)

    rng = np.random.default_rng(1)
    X, Y = (tr.relation(rng.random((6, 2)) + np.tile(np.eye(2), (3, 1)), tile=2) for _ in range(2))
    found = X.join(Y, (0, 1), (0, 1), kernel)
    assert len(seen) == 3
    for (key, a), (_, b) in zip(X.items(), Y.items()):
        np.testing.assert_allclose(found[key].to_numpy(), np.linalg.solve(a, b))


def test_declared_results() -> None:
    R = tr.relation(np.ones((4, 4)), tile=2)
    norms = R.transform(lambda a: np.linalg.norm(a), dtype="float32", shape=())
    assert norms.dtype == np.float32 and norms.items()[0][1].shape == ()
    with pytest.raises(tr.errors.ShapeError, match="declared is \\(3,\\)"):
        R.transform(lambda a: a, shape=(3,))
    with pytest.raises(tr.errors.TypeError_, match="declared is int64"):
        R.transform(lambda a: a, dtype="int64")
    none = R.filter(lambda i, j: False)
    assert len(none) == 0 and none.transform(np.linalg.norm, dtype="int8", shape=()).dtype == "int8"
    assert none.join(R, 1, 0, "matmul").aggregate([0, 2], "add").items() == []
    assert none.rekey(lambda i, j: i + j).key_arity == 1
    assert none.tile(0, 1).stack(2, 0).key_arity == 2


def test_blocks_of_users() -> None:
    pairs = [((1, 0), np.ones((2, 3))), ((0, 0), np.zeros((1, 3), int))]
    for given in (dict(pairs), pairs, iter(pairs), dict(pairs).items()):
        R = tr.relation(given)
        assert R.keys() == [(0, 0), (1, 0)] and R.dtype == np.float64
        assert R.to_tensor().shape == (3, 3)
    assert tr.relation([(1, np.ones(2)), (0, np.zeros(3))]).to_tensor().shape == (5,)
    assert tr.relation([(1, 2), (3, 4)], tile=1).key_arity == 2  # a matrix
    back = pickle.loads(pickle.dumps(R))
    assert back.keys() == R.keys() and back.to_tensor().shape == (3, 3)
    S = tr.relation({(0, 1): np.ones((2, 2)), (1, 0): np.ones((3, 3))}, extents=(2, 2), fill=7)
    assert S.to_tensor().to_numpy().tolist() == [[7, 7, 7, 1, 1]] * 2 + [[1, 1, 1, 7, 7]] * 3
    assert repr(S) == ("TensorRelation(2 blocks of shape (2..3, 2..3), dtype=float64, keys below "
                       "(2, 2), 2 absent blocks of 7.0)")


def test_aggregation_runs_in_the_order_of_keys() -> None:
    rng = np.random.default_rng(2)
    given = {k: rng.integers(-3, 4, (2, 2)) for k in [(3, 0), (1, 0), (2, 0), (0, 0)]}
    found = tr.relation(given).aggregate([1], "matmul")
    np.testing.assert_array_equal(
        found[0].to_numpy(), given[0, 0] @ given[1, 0] @ given[2, 0] @ given[3, 0])
    last = tr.relation(given).aggregate([1], lambda a, b: np.asarray(b))
    np.testing.assert_array_equal(last[0].to_numpy(), given[3, 0])


def test_keys_of_results() -> None:
    R = tr.relation(np.arange(24).reshape(4, 6), tile=(2, 3))
    assert R.aggregate([1, 0], "add").keys() == sorted((j, i) for i in range(2) for j in range(2))
    np.testing.assert_array_equal(
        R.transform("transpose").aggregate([1, 0], "add").to_tensor().to_numpy(),
        np.arange(24).reshape(4, 6).T)
    assert R.join(R, 0, 0, "ij,ik->jk").keys() == [
        (k, a, b) for k in range(2) for a in range(2) for b in range(2)]
    assert len(R.join(R, [], [], "outer")) == 16
