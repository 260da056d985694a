"""What is known of selections, aggregates, joins and products holds by mechanism: the plan of what
is written is the plan of the hand-optimized spelling, or costs no more, and gives the same.

Names are those of the rules: 1 to 25 of "Scalable Relational Query Processing on Big Matrix Data",
with 4 and 15 to 20 as they are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plan_support import outline

import tensorel as tr

N = 2000


def sparse(seed: int) -> tr.Tensor:
    rng = np.random.default_rng(seed)
    at = rng.integers(0, N, (2, 8000))
    return tr.from_coo(at, rng.random(8000) - 0.5, (N, N), duplicates="last", format="csr")


def product(x: Any, y: Any) -> Any:
    return x * y


RNG = np.random.default_rng(0)
A, B, C = map(sparse, range(3))
U, V = tr.asarray(RNG.random((N, 20))), tr.asarray(RNG.random((20, N)))
OVERLAY = "rid = rid and cid = cid"


def agg(x: Any, fn: str, dim: Any) -> Any:
    return x.aggregate(fn, dim)


#: What is written, and how one would write it by hand.
RULES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "1 selections in a row": (lambda: A.select("val > 0").select("val < 0.3"),
                              lambda: A.select("val > 0 and val < 0.3")),
    "row of a transposition": (lambda: A.T.select("rid = 5"), lambda: A.select("cid = 5")),
    "row of scaled": (lambda: (A * 3 + 1).select("rid = 5"), lambda: A[5] * 3 + 1),
    "row of elementwise": (lambda: (A * B + C).select("rid = 5"), lambda: A[5] * B[5] + C[5]),
    "row of a quotient": (lambda: (A / (B * B + 1)).select("rid = 5"),
                          lambda: A[5] / (B[5] * B[5] + 1)),
    "row of a product": (lambda: (A @ B).select("rid = 5"), lambda: A[5] @ B),
    "column of a product": (lambda: (A @ B).select("cid = 5"), lambda: A @ B[:, 5]),
    "row of a dense product": (lambda: (U @ V).select("rid = 5"), lambda: U[5] @ V),
    "entry of a product": (lambda: (A @ B).select("rid = 5 and cid = 6"), lambda: A[5] @ B[:, 6]),
    "row of a chain": (lambda: (A @ B @ C).select("rid = 5"), lambda: A[5] @ B @ C),
    "diagonal of a product": (lambda: (A @ B).select("rid = cid"),
                              lambda: tr.einsum("ij,ji->i", A, B)),
    "2 sums of a transposition": (lambda: agg(A.T, "sum", "row"), lambda: agg(A, "sum", "col")),
    "3 sum": (lambda: agg(A.T, "sum", "all"), lambda: agg(A, "sum", "all")),
    "3 trace": (lambda: agg(A.T, "sum", "diag"), lambda: agg(A, "sum", "diag")),
    "4 row sums and a number": (lambda: agg(A + 2.0, "sum", "row"),
                                lambda: agg(A, "sum", "row") + 2.0 * N),
    "4 column sums and a number": (lambda: agg(A + 2.0, "sum", "col"),
                                   lambda: agg(A, "sum", "col") + 2.0 * N),
    "4 sum and a number": (lambda: agg(A + 2.0, "sum", "all"),
                           lambda: agg(A, "sum", "all") + 2.0 * N * N),
    "5 trace and a number": (lambda: agg(A + 2.0, "sum", "diag"),
                             lambda: agg(A, "sum", "diag") + 2.0 * N),
    "6 scaled": (lambda: agg(A * 2.0, "sum", "row"), lambda: agg(A, "sum", "row") * 2.0),
    "8 row sums of a product": (lambda: agg(A @ B, "sum", "row"), lambda: A @ agg(B, "sum", "row")),
    "9 column sums": (lambda: agg(A @ B, "sum", "col"), lambda: agg(A, "sum", "col") @ B),
    "10 sum of a product": (lambda: agg(A @ B, "sum", "all"),
                            lambda: agg(A, "sum", "col") @ agg(B, "sum", "row")),
    "11 trace of a product": (lambda: agg(A @ B, "sum", "diag"),
                              lambda: agg(A.T * B, "sum", "all")),
    "11 of a dense one": (lambda: agg(U @ V, "sum", "diag"), lambda: agg(U * V.T, "sum", "all")),
    "12 row of the sums": (lambda: agg(A, "sum", "row").select("rid = 5"),
                           lambda: agg(A[5], "sum", "all")),
    "12 of a product": (lambda: agg(A @ B, "sum", "row").select("rid = 5"),
                        lambda: A[5] @ agg(B, "sum", "row")),
    "13 nonzeros of a transposition": (lambda: agg(A.T, "nnz", "row"),
                                       lambda: agg(A, "nnz", "col")),
    "14 nonzeros": (lambda: agg(A.T, "nnz", "all"), lambda: agg(A, "nnz", "all")),
    "19 of scaled": (lambda: agg(A * 2.0, "nnz", "row"), lambda: agg(A, "nnz", "row")),
    "average": (lambda: agg(A, "avg", "row"),
                lambda: agg(A, "sum", "row") / agg(A, "count", "row")),
    "21 greatest of a transposition": (lambda: agg(A.T, "max", "row"),
                                       lambda: agg(A, "max", "col")),
    "22 greatest": (lambda: agg(A.T, "min", "all"), lambda: agg(A, "min", "all")),
    "23 and a number": (lambda: agg(A + 2.0, "max", "row"), lambda: agg(A, "max", "row") + 2.0),
    "24 scaled": (lambda: agg(A * 2.0, "max", "row"), lambda: agg(A, "max", "row") * 2.0),
    "25 turned": (lambda: agg(A * -2.0, "max", "row"), lambda: agg(A, "min", "row") * -2.0),
    "row of a join": (lambda: A.join(B, "rid = rid", product).select("i0 = 5"),
                      lambda: A[5].cross(B[5], product)),
    "column of a join": (lambda: A.join(B, "rid = cid", product).select("i1 = 5"),
                         lambda: A[:, 5].join(B, "rid = cid", product)),
    "row of a join on values": (lambda: A.join(B, "val = val", product).select("i0 = 5"),
                                lambda: A[5].join(B, "val = val", product)),
    "other row of one": (lambda: A.join(B, "val = val", product).select("i2 = 5"),
                         lambda: A.join(B[5], "val = val", product)),
    "sums of a join": (lambda: agg(A.join(B, "rid = rid", product), "sum", (1, 2)),
                       lambda: agg(A, "sum", "row") * agg(B, "sum", "row")),
    "sum of a join": (lambda: agg(A.join(B, "rid = rid", product), "sum", "all"),
                      lambda: agg(A, "sum", "row") @ agg(B, "sum", "row")),
    "product as a join": (lambda: agg(A.join(B, "cid = rid", product), "sum", (1,)),
                          lambda: A @ B),
    "sums of an overlay": (lambda: agg(A.join(B, OVERLAY, product), "sum", "row"),
                           lambda: agg(A * B, "sum", "row")),
    "sum of a cross product": (lambda: agg(A.cross(B, product), "sum", "all"),
                               lambda: agg(A, "sum", "all") * agg(B, "sum", "all")),
    "overlay of a product": (lambda: (A @ B).join(C, OVERLAY, product), lambda: (A @ B) * C),
    "sum of an outer overlay": (
        lambda: agg(A.join(B, OVERLAY, lambda x, y: x + y, how="outer"), "sum", "row"),
        lambda: agg(A + B, "sum", "row")),
}


#: The same rules along the other dimensions, "as well" and "similarly" in the paper.
RULES |= {
    "column of a transposition": (lambda: A.T.select("cid = 5"), lambda: A.select("rid = 5")),
    "column of scaled": (lambda: (A * 3 + 1).select("cid = 5"), lambda: A[:, 5] * 3 + 1),
    "column of elementwise": (lambda: (A * B + C).select("cid = 5"),
                              lambda: A[:, 5] * B[:, 5] + C[:, 5]),
    "column of a quotient": (lambda: (A / (B * B + 1)).select("cid = 5"),
                             lambda: A[:, 5] / (B[:, 5] * B[:, 5] + 1)),
    "rows of a product": (lambda: (A @ B).select("rid between 5 and 7").aggregate("sum", "col"),
                          lambda: A[5:8].sum(axis=0) @ B),
    "value and row": (lambda: A.select("val > 0").select("rid = 5"),
                      lambda: A[5].select("val > 0")),
    "2 column sums of a transposition": (lambda: agg(A.T, "sum", "col"),
                                         lambda: agg(A, "sum", "row")),
    "6 column sums scaled": (lambda: agg(A * 2.0, "sum", "col"),
                             lambda: agg(A, "sum", "col") * 2.0),
    "6 trace scaled": (lambda: agg(A * 2.0, "sum", "diag"), lambda: agg(A, "sum", "diag") * 2.0),
    "6 sum scaled": (lambda: agg(A * 2.0, "sum", "all"), lambda: agg(A, "sum", "all") * 2.0),
    "11 the other way": (lambda: agg(A @ B, "sum", "diag"), lambda: agg(A * B.T, "sum", "all")),
    "12 column of the sums": (lambda: agg(A, "sum", "col").select("rid = 5"),
                              lambda: agg(A[:, 5], "sum", "all")),
    "12 column of those of a product": (lambda: agg(A @ B, "sum", "col").select("rid = 5"),
                                        lambda: agg(A, "sum", "col") @ B[:, 5]),
    "12 for nonzeros": (lambda: agg(A, "nnz", "col").select("rid = 5"),
                        lambda: agg(A[:, 5], "nnz", "all")),
    "12 for the greatest": (lambda: agg(A, "max", "row").select("rid = 5"),
                            lambda: agg(A[5], "max", "all")),
    "13 by columns": (lambda: agg(A.T, "nnz", "col"), lambda: agg(A, "nnz", "row")),
    "14 on the diagonal": (lambda: agg(A.T, "nnz", "diag"), lambda: agg(A, "nnz", "diag")),
    "19 by columns": (lambda: agg(A * 2.0, "nnz", "col"), lambda: agg(A, "nnz", "col")),
    "19 on the diagonal": (lambda: agg(A * 2.0, "nnz", "diag"), lambda: agg(A, "nnz", "diag")),
    "19 of all": (lambda: agg(A * 2.0, "nnz", "all"), lambda: agg(A, "nnz", "all")),
    "average of columns": (lambda: agg(A, "avg", "col"),
                           lambda: agg(A, "sum", "col") / agg(A, "count", "col")),
    "average of all": (lambda: agg(A, "avg", "all"),
                       lambda: agg(A, "sum", "all") / agg(A, "count", "all")),
    "average of a transposition": (lambda: agg(A.T, "avg", "row"), lambda: agg(A, "avg", "col")),
    "average of scaled": (lambda: agg(A * 2.0, "avg", "row"), lambda: agg(A, "avg", "row") * 2.0),
    "mean of a product": (lambda: agg(A @ B, "mean", "row"),
                          lambda: A @ agg(B, "sum", "row") / float(N)),
    "21 least of a transposition": (lambda: agg(A.T, "min", "col"), lambda: agg(A, "min", "row")),
    "22 on the diagonal": (lambda: agg(A.T, "max", "diag"), lambda: agg(A, "max", "diag")),
    "23 least and a number": (lambda: agg(A + 2.0, "min", "col"),
                              lambda: agg(A, "min", "col") + 2.0),
    "23 of all": (lambda: agg(A + 2.0, "max", "all"), lambda: agg(A, "max", "all") + 2.0),
    "24 of columns": (lambda: agg(A * 2.0, "min", "col"), lambda: agg(A, "min", "col") * 2.0),
    "25 least turned": (lambda: agg(A * -2.0, "min", "all"), lambda: agg(A, "max", "all") * -2.0),
    "row of a regression": (
        lambda: (tr.linalg.inv(U.T @ U) @ (U.T @ V[0])).select("rid = 5"),
        lambda: tr.linalg.solve(U.T @ U, U.T @ V[0])[5]),
    "PNMF: sampled quotient": (lambda: (A / (U @ V)) @ V.T,
                               lambda: A.join(U @ V, OVERLAY, lambda x, y: x / y) @ V.T),
    "PNMF: ones": (lambda: tr.ones((N, N)) @ V.T,
                   lambda: tr.broadcast_to(agg(V, "sum", "row"), (N, 20))),
    "PNMF: objective": (lambda: agg(U @ V, "sum", "all"),
                        lambda: agg(U, "sum", "col") @ agg(V, "sum", "row")),
    "sum of a Kronecker product": (lambda: agg(tr.kron(A, B), "sum", "all"),
                                   lambda: agg(A, "sum", "all") * agg(B, "sum", "all")),
    "trace of one": (lambda: agg(tr.kron(A, B), "sum", "diag"),
                     lambda: agg(A, "sum", "diag") * agg(B, "sum", "diag")),
    "row sums of one": (lambda: agg(tr.kron(A, B), "sum", "row"),
                        lambda: tr.kron(agg(A, "sum", "row"), agg(B, "sum", "row"))),
    "merged by g(x) y + h(x)": (
        lambda: agg(A.join(U @ V, OVERLAY, lambda x, y: 2 * x * y + x), "sum", "row"),
        lambda: agg(A * (2 * (U @ V) + 1), "sum", "row")),
    "sum of a join on values": (
        lambda: agg(A.join(B, "val = val", product), "sum", (1, 2, 3)).select("rid = 5"),
        lambda: agg(A[5].join(B, "val = val", product), "sum", "all")),
}


def cost(t: Any) -> float:
    return float(sum(s["cost"] for s in t.explain().to_dict()["steps"]))


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    written, by_hand = (make() for make in RULES[name])
    assert outline(written.explain()) == outline(by_hand.explain()) \
        or cost(written) <= 1.1 * cost(by_hand), (written.explain(), by_hand.explain())
    if written.ndim < 3:
        np.testing.assert_allclose(written.to_numpy(), by_hand.to_numpy(), rtol=1e-9, atol=1e-12)
    else:
        found, wanted = written.to_coo(), by_hand.to_coo()
        assert np.array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1])


@pytest.mark.parametrize("dim, shape", [("row", (N,)), ("col", (N,)), ("diag", ()), ("all", ())])
def test_7_a_sum_of_two_needs_no_third(dim: str, shape: tuple[int, ...]) -> None:
    steps = agg(A + B, "sum", dim).explain().to_dict()["steps"]
    assert all(step["shape"] == shape for step in steps)
    wanted = agg(A, "sum", dim) + agg(B, "sum", dim)
    np.testing.assert_allclose(agg(A + B, "sum", dim).to_numpy(), wanted.to_numpy(), atol=1e-9)


def test_aggregates_before_products() -> None:
    """The example of the paper's second figure: sums of A @ (B + C) by rows."""
    found = agg(A @ (B + C), "sum", "row")
    assert all(len(s["shape"]) == 1 for s in found.explain().to_dict()["steps"])
    wanted = A @ (agg(B, "sum", "row") + agg(C, "sum", "row"))
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), atol=1e-12)


def test_15_to_20_nonzeros_are_counted_not_guessed() -> None:
    """Adding 2 makes an entry -2 a zero, and 0 / 0 is nan, which is no zero."""
    a = tr.tensor([[-2.0, 0.0], [3.0, 0.0]], format="csr")
    assert agg(a + 2.0, "nnz", "row").tolist() == [1, 2]
    assert agg(a + 0.0, "nnz", "all").item() == 2
    b = tr.tensor([[1.0, 0.0], [1.0, 5.0]], format="csr")
    assert agg(a / b, "nnz", "all").item() == 3
    assert agg(a / b, "nnz", "col").tolist() == [2, 1]
    assert agg(a + 2.0, "nnz", "col").tolist() == [1, 2]
    assert agg(a + 2.0, "nnz", "diag").item() == 1 and agg(a + 2.0, "nnz", "all").item() == 3
    for dim in ("row", "col", "diag", "all"):
        assert len(agg(A + 2.0, "nnz", dim).explain().to_dict()["steps"]) == 1


def test_conditions_stay_where_values_could_be_seen() -> None:
    """A stored zero beside an infinity: the join has no entry there, a product would have nan."""
    zeros = tr.from_coo([[0, 1], [0, 1]], [0.0, 2.0], (2, 2))
    wild = tr.tensor([[np.inf, 0.0], [0.0, 3.0]], format="csr")
    joined = zeros.join(wild, OVERLAY, product)
    assert joined.to_numpy().tolist() == [[0.0, 0.0], [0.0, 6.0]]
    assert sum(joined.explain().rules.values()) == 1  # that of the other side
    clean = tr.from_coo([[1], [1]], [2.0], (2, 2)).join(wild, OVERLAY, product)
    assert sum(clean.explain().rules.values()) == 2
    assert clean.to_numpy().tolist() == [[0.0, 0.0], [0.0, 6.0]]


def test_what_was_found_out_is_asked_again() -> None:
    """The same program over data that stores zeros, or infinities, after data that does not."""
    values = np.array([1.0, 2.0, 3.0, 4.0])
    at = [[0, 0, 1, 1], [0, 1, 0, 1]]
    infinite = np.array([[np.inf, 1.0], [1.0, np.inf]])
    for changed in (values, values * [0, 1, 1, 1], values, values * [1, 1, 1, 0]):
        left = tr.from_coo(at, changed, (2, 2), format="csr")
        found = left.join(tr.tensor(infinite, format="csr"), OVERLAY, product)
        with np.errstate(invalid="ignore"):
            dense = changed.reshape(2, 2)
            wanted = np.where(dense != 0, dense * infinite, 0)
        np.testing.assert_array_equal(found.to_numpy(), wanted)


def test_data_that_users_change_is_asked_again() -> None:
    sp = pytest.importorskip("scipy.sparse")
    held = sp.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]]))
    infinite = tr.tensor(np.array([[np.inf, 1.0], [1.0, 1.0]]), format="csr")
    assert tr.asarray(held).join(infinite, OVERLAY, product).to_numpy()[0, 0] == np.inf
    held.data[0] = 0.0
    assert tr.asarray(held).join(infinite, OVERLAY, product).to_numpy()[0, 0] == 0.0
