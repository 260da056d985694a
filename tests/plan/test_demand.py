"""Of an intermediate only the slices that somebody reads are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr

N, WIDE, HIDDEN = 4000, 8, 6
rng = np.random.default_rng(5)


def _graph(per_row: int = 4) -> Any:
    rows = np.repeat(np.arange(N), per_row)
    made = sp.csr_array((rng.random(rows.size) + 0.5, (rows, rng.integers(0, N, rows.size))),
                        shape=(N, N))
    made.sum_duplicates()
    return made


A = _graph()
X, W1 = rng.random((N, WIDE)), rng.standard_normal((WIDE, HIDDEN))
W2 = rng.standard_normal((HIDDEN, 3))
TA, TX, T1, T2 = (tr.asarray(m) for m in (A, X, W1, W2))
ROWS = np.sort(rng.permutation(N)[:5])


def _fired(program: tr.Tensor) -> bool:
    return any(name.startswith("demand") for name in program.explain().to_dict()["rules"])


def _layers(f: Callable[[Any], Any], a: Any, x: Any, w1: Any, w2: Any) -> Any:
    return a @ f(a @ x @ w1) @ w2


@pytest.mark.parametrize(("ours", "theirs"), [
    (lambda h: tr.maximum(h, 0), lambda h: np.maximum(h, 0)),
    (tr.exp, np.exp),  # one where nothing is stored: the set itself keeps it out
    (lambda h: tr.where(h > 0, h, 0.1 * h - 1), lambda h: np.where(h > 0, h, 0.1 * h - 1)),
])
@pytest.mark.parametrize("rows", [ROWS, np.array([7, 7, 3]), slice(10, 14), [0]])
def test_a_layer_is_computed_for_the_neighbours_of_the_rows(ours: Any, theirs: Any, rows: Any
                                                            ) -> None:
    program = _layers(ours, TA, TX, T1, T2)[rows]
    assert _fired(program)
    np.testing.assert_allclose(program.to_numpy(), _layers(theirs, A, X, W1, W2)[rows], rtol=1e-10)


def test_work_grows_with_the_rows_asked_for() -> None:
    program = tr.maximum(_layers(lambda h: tr.maximum(h, 0), TA, TX, T1, T2), 0)
    few, all_ = (sum(s["estimated_nnz"] for s in p.explain().to_dict()["steps"])
                 for p in (program[ROWS], program))
    assert few < 0.1 * all_


def test_three_layers() -> None:
    def stack(a: Any, x: Any, f: Any) -> Any:
        return a @ f(a @ f(a @ x))

    program = stack(TA, TX, lambda h: tr.maximum(h - 1, 0))[ROWS[:2]]
    assert _fired(program)
    np.testing.assert_allclose(
        program.to_numpy(), stack(A, X, lambda h: np.maximum(h - 1, 0))[ROWS[:2]], rtol=1e-10)


def test_two_readers_ask_for_the_union() -> None:
    def both(a: Any, x: Any, f: Any) -> Any:
        h = f(a @ x)
        return a[ROWS[:3]] @ h + a[ROWS[1:4]] @ (h * 2)

    program = both(TA, TX, lambda h: tr.maximum(h - 1, 0))
    np.testing.assert_allclose(
        program.to_numpy(), both(A, X, lambda h: np.maximum(h - 1, 0)), rtol=1e-10)


def test_masks_of_a_choice() -> None:
    mask = np.zeros(N, bool)
    mask[[3, 100, 2000]] = True
    hidden = tr.exp(TA @ TX)
    program = tr.where(tr.tensor(mask, format="coo")[:, None], hidden, 0.0)
    np.testing.assert_allclose(
        program.to_numpy(), np.where(mask[:, None], np.exp(A @ X), 0.0), rtol=1e-10)


def test_other_semirings() -> None:
    """Shortest paths: a product is a sum there, and what is not stored is infinitely far."""
    n = 900
    full = np.full((n, n), np.inf)
    full[rng.integers(0, n, 3 * n), rng.integers(0, n, 3 * n)] = rng.random(3 * n)
    far = tr.tensor(full, format="csr", fill=np.inf)
    once = tr.einsum("ij,jk->ik", far, far, add=tr.min, mul=tr.add)
    twice = tr.einsum("ij,jk->ik", far[:2], tr.minimum(once, 0.5), add=tr.min, mul=tr.add)

    def step(a: Any, b: Any) -> Any:
        return np.array([np.min(row[:, None] + b, axis=0) for row in a])

    np.testing.assert_allclose(twice.to_numpy(), step(full[:2], np.minimum(step(full, full), 0.5)))


# -- where it must not fire ----------------------------------------------------------------------


def test_not_beside_a_dense_factor() -> None:
    dense = tr.asarray(rng.random((3, N)))
    assert not _fired(dense @ tr.maximum(TA @ TX, 0))


def test_not_when_most_slices_are_read() -> None:
    assert not _fired(TA @ tr.maximum(TA @ TX, 0))


def test_not_for_what_is_asked_for_itself() -> None:
    hidden = tr.maximum(TA @ TX - 1, 0)
    few = TA[ROWS] @ hidden
    first, second = tr.compute(hidden, few)
    np.testing.assert_allclose(first.to_numpy(), np.maximum(A @ X - 1, 0), rtol=1e-10)
    np.testing.assert_allclose(second.to_numpy(), A[ROWS] @ np.maximum(A @ X - 1, 0), rtol=1e-10)


def test_not_where_a_reader_looks_at_all_of_it() -> None:
    hidden = tr.maximum(TA @ TX - 1, 0)
    program = (TA[ROWS] @ hidden).sum() + hidden.max()
    expected = np.maximum(A @ X - 1, 0)
    np.testing.assert_allclose(
        float(program.compute()), (A[ROWS] @ expected).sum() + expected.max(), rtol=1e-10)


def test_not_in_strict_mode() -> None:
    small = tr.asarray(A[:50, :50])
    with tr.options(strict=True):
        assert not _fired(small[:2] @ tr.maximum(small @ tr.asarray(X[:50]), 0))


def test_switched_off() -> None:
    with tr.options(disabled={"push_demand"}):
        assert not _fired(_layers(lambda h: tr.maximum(h, 0), TA, TX, T1, T2)[ROWS])


# -- found by the fuzzer with demand for everything ------------------------------------------------


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorel.plan.logical.demand.pays", lambda *_: True)


def test_nothing_asks_for_itself(always: None) -> None:
    """7003:187."""
    a, d = rng.random((1, 5, 5, 2)), np.diag([0, 0, 0, 0, 2.0])
    t = tr.einsum("ijkl,kj->ij", tr.tensor(a), tr.tensor(d, format="csf", fill=0))
    expected = np.einsum("ijkl,kj->ij", a, d)
    np.testing.assert_allclose(((t * t) * (t * t)).to_numpy(), expected**4)


def test_what_is_left_out_is_finite(always: None) -> None:
    """7003:1707: the least of nothing is inf, and 0 * inf is nan where zeros are stored."""
    b = np.zeros((5, 2))
    b[2, 0] = -4.0
    x = np.zeros((2, 2, 5), np.float32)
    x[1, 1, 0] = -1.0
    tb = tr.tensor(b, format="bsr(2,2)", fill=0)
    least = tr.einsum("ij,->j", tb, tr.tensor(np.array(4.0)), add="min", mul="add")
    t = tr.einsum("i,jki->ijk", least, tr.matmul(tr.tensor(x), tb))
    expected = np.einsum("i,jki->ijk", (b + 4).min(axis=0), x @ b)
    np.testing.assert_allclose(t.to_numpy(), expected)


def test_a_factor_may_be_defined_after_the_first_reader() -> None:
    """The second reader's factor decides what is asked of the definition that both read; only it
    moves before that definition (fuzz 9401:4546)."""
    a = np.zeros((5, 5, 5), np.int16)
    a[4, 4, 3] = -1
    d, e = np.zeros((5, 5)), np.full((5, 5), np.inf)
    d[4, 3], e[4, 3] = -3.0, 2.0
    b = np.zeros(5, np.int64)
    A, B = tr.tensor(a), tr.tensor(b, format="csf")
    D, E = tr.tensor(d), tr.tensor(e, format="csf", fill=np.inf)
    pieces = tr.where(B > 0, tr.stack([E, D], axis=1), B)
    program = tr.einsum("ijkl->jk", tr.tensordot(pieces, A, 1), add="max", mul="multiply")
    expected = np.tensordot(np.where(b > 0, np.stack([e, d], axis=1), b), a, 1).max(axis=(0, 3))
    np.testing.assert_array_equal(program.to_numpy(), expected)
