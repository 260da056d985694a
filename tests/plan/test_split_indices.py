"""Products that are read under another shape are never made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr

RNG = np.random.default_rng(0)


def operand(shape: tuple[int, ...], format: str = "dense") -> tuple[tr.Tensor, np.ndarray]:
    array = RNG.integers(-3, 4, shape).astype(float)
    if format != "dense":
        array *= RNG.random(shape) < 0.2
    return tr.tensor(array, format=format), array


PAIRS = [("dense", "dense"), ("csr", "csr"), ("csr", "dense"), ("coo", "csc")]


@pytest.mark.parametrize("formats", PAIRS)
def test_kronecker_products_are_never_made(formats: tuple[str, str]) -> None:
    (A, a), (B, b) = operand((6, 5), formats[0]), operand((4, 7), formats[1])
    (C, c), (D, d) = operand((5, 3), formats[0]), operand((7, 2), formats[1])
    (S, s), (T, t) = operand((6, 6), formats[0]), operand((4, 4), formats[1])
    (x, x_), (X, X_) = operand((35,)), operand((35, 3))
    (y, y_), (E, e) = operand((24,)), operand((2, 2))
    K, k = tr.kron(A, B), np.kron(a, b)
    Q, q = tr.kron(S, T), np.kron(s, t)
    programs: dict[str, tuple[Any, np.ndarray]] = {
        "vector": (K @ x, k @ x_), "matrix": (K @ X, k @ X_), "from the left": (y @ K, y_ @ k),
        "transposed": (K.T @ y, k.T @ y_), "sum": (K.sum(), k.sum()),
        "row sums": (K.sum(axis=1), k.sum(axis=1)), "column sums": (K.sum(axis=0), k.sum(axis=0)),
        "trace": (tr.trace(Q), np.trace(q)), "quadratic": (y @ Q @ y, y_ @ q @ y_),
        "squares": ((K * K).sum(), (k * k).sum()), "row": ((K @ X)[9], (k @ X_)[9]),
        "three": (tr.kron(A, tr.kron(B, E)) @ tr.kron(x, tr.asarray([1.0, 2.0])),
                  np.kron(a, np.kron(b, e)) @ np.kron(x_, [1.0, 2.0])),
        "three, from the left": (tr.kron(tr.kron(A, B), E).sum(axis=1),
                                 np.kron(np.kron(a, b), e).sum(axis=1)),
        "of a product": (tr.kron(S @ S, T) @ y, np.kron(s @ s, t) @ y_),
        "scaled": (((2.0 * K) @ x), 2.0 * k @ x_),
        "one row": (K[9] @ x, k[9] @ x_), "one entry": (K[9, 8], k[9, 8]),
    }
    for name, (program, wanted) in programs.items():
        np.testing.assert_allclose(program.to_numpy(), wanted, err_msg=name)
        most = max(s["estimated_nnz"] for s in program.explain().to_dict()["steps"])
        assert most <= 3 * 35 * 4, (name, program.explain())
    both, wanted = tr.kron(A, B) @ tr.kron(C, D), k @ np.kron(c, d)
    np.testing.assert_allclose(both.to_numpy(), wanted)
    assert "split-indices" in str(both.explain().rules)
    shapes = [step["shape"] for step in both.explain().to_dict()["steps"]]
    assert list(k.shape) not in [list(s) for s in shapes]


def test_the_plan_is_that_of_the_small_products() -> None:
    (A, _), (B, _), (X, _) = operand((60, 50)), operand((40, 70)), operand((3500,))
    found = (tr.kron(A, B) @ X).explain()
    hand = tr.einsum("ij,kl,jl->ik", A, B, X.reshape((50, 70))).reshape((2400,)).explain()
    kinds = [[s["kind"] for s in e.to_dict()["steps"]] for e in (found, hand)]
    assert kinds[0] == kinds[1]
    assert sum(s["cost"] for s in found.to_dict()["steps"]) == pytest.approx(
        sum(s["cost"] for s in hand.to_dict()["steps"]))


def test_blocks_that_do_not_fit_are_made_once() -> None:
    """Rows and columns of the two products are cut differently: one of them is stored."""
    (A, a), (B, b), (C, c), (D, d) = (operand(n) for n in ((2, 6), (3, 4), (4, 2), (6, 3)))
    found = tr.kron(A, B) @ tr.kron(C, D)
    np.testing.assert_allclose(found.to_numpy(), np.kron(a, b) @ np.kron(c, d))
    (S, s), (T, t) = operand((2, 3)), operand((6, 4))
    np.testing.assert_allclose(tr.trace(tr.kron(S, T)).item(), np.trace(np.kron(s, t)))


def test_other_shapes_of_outer_products() -> None:
    (u, u_), (v, v_), (w, w_) = operand((8,)), operand((9,)), operand((72,))
    np.testing.assert_allclose((tr.outer(u, v).reshape((72,)) * w).sum().item(),
                               (np.outer(u_, v_).reshape(72) * w_).sum())
    shifted = tr.outer(u, v).reshape((72,))
    np.testing.assert_allclose((shifted[1:] * w[:-1]).sum().item(),
                               (np.outer(u_, v_).ravel()[1:] * w_[:-1]).sum())
    index = tr.arange(72)
    np.testing.assert_allclose((shifted * index).sum().item(),
                               (np.outer(u_, v_).ravel() * np.arange(72)).sum())
    kept, other = tr.compute(shifted, shifted.sum())
    np.testing.assert_allclose(kept.to_numpy().sum(), other.item())


def test_nothing_is_split_without_gain() -> None:
    (x, _), (M, _) = operand((12,)), operand((4, 3))
    assert "split" not in str(((x * 2).reshape((4, 3)) + M).explain().rules)
