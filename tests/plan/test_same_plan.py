"""Spellings of one program that must give one plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan_support import normal, operands, outline

import tensorel as tr

OPERANDS = operands()
A, B, C, S, T, U, W, v = (OPERANDS[n] for n in "ABCSTUWv")
N = A.astype("int64").compute()

GROUPS: dict[str, list[Any]] = {
    "matrix product": [
        A @ B, tr.einsum("ij,jk->ik", A, B), tr.tensordot(A, B, axes=1), tr.matmul(A, B),
        np.matmul(A, B), np.einsum("ab,bc->ac", A, B), tr.einsum("user item, item tag -> user tag",
                                                                 A, B),
        tr.tensordot(A, B, axes=([1], [0])), np.dot(A, B), (A @ B) * 1.0, A.T.T @ B],
    "transposed product": [(A @ B).T, tr.einsum("ij,jk->ki", A, B)],
    "matrix times vector": [A @ v, tr.einsum("ij,j->i", A, v), tr.einsum("ij,j", A, v),
                            tr.matmul(A, v), tr.tensordot(A, v, axes=1), np.dot(A, v)],
    "nothing happens": [A * 1, +A, A.T.T, A**1, A / 1, 1 * A, A.transpose().transpose(),
                        tr.negative(-A), A[:], A[...], A.astype("float64") * 1.0],
    "integers that do not change": [N + 0, 0 + N, N * 1, N | 0],
    "transposition": [A.T, A.transpose(), tr.permute_dims(A, (1, 0)), A.mT, tr.matrix_transpose(A),
                      tr.swapaxes(A, 0, 1), tr.moveaxis(A, 0, 1), tr.einsum("ij->ji", A)],
    "sum": [A.sum(), tr.sum(A), np.sum(A), tr.einsum("ij->", A), A.sum(axis=(0, 1)),
            A.sum(axis=0).sum(), tr.reduce(lambda p, q: p + q, A)],
    "row sums": [A.sum(axis=1), A.sum(axis=-1), tr.einsum("ij->i", A), A.T.sum(axis=0)],
    "square": [A**2, np.square(A), tr.square(A)],
    "negated twice": [tr.negative(-(A + C)), A + C, (A + C) * 1],
    "absolute": [abs(A), np.abs(A), tr.abs(A), np.absolute(A)],
    "whole selections": [A[10:20], A[slice(10, 20)], A[10:20, :], A[10:20, ...], A[-90:20]],
    "maximum": [tr.maximum(A, A), A * 1],
    "conditions": [tr.where(A > 0, A, A), A * 1],
}

#: The order of factors or of reduced indices is kept as written; the steps are the same.
OUTLINES: dict[str, list[Any]] = {
    "sampled product": [S * (U @ W.T), tr.einsum("ij,ir,jr->ij", S, U, W),
                        S * tr.einsum("ir,jr->ij", U, W)],
    "trace": [tr.trace(A @ B), tr.einsum("ij,ji->", A, B), (A * B.T).sum()],
    "constant factor": [(A * 2.0).sum(axis=1), (2.0 * A).sum(axis=1)],
    "contraction of three": [
        tr.einsum("ijk,jr,kr->ir", T, OPERANDS["F"], OPERANDS["G"]),
        tr.einsum("ijk,kr,jr->ir", T, OPERANDS["G"], OPERANDS["F"])],
    "sum of a product": [(A @ B).sum(), tr.einsum("ij,jk->", A, B), (A @ B).sum(axis=0).sum(),
                         (A @ B).sum(axis=1).sum(), np.sum(A @ B)],
}


@pytest.mark.parametrize("name", GROUPS)
def test_one_plan(name: str) -> None:
    first, *others = GROUPS[name]
    wanted = normal(str(first.explain()))
    for number, other in enumerate(others, 1):
        assert normal(str(other.explain())) == wanted, f"spelling {number} of {name!r}"


@pytest.mark.parametrize("name", OUTLINES)
def test_one_outline(name: str) -> None:
    first, *others = (e.explain() for e in OUTLINES[name])
    cost = sum(s["cost"] for s in first.to_dict()["steps"])
    for number, other in enumerate(others, 1):
        assert outline(other) == outline(first), f"spelling {number} of {name!r}"
        assert sum(s["cost"] for s in other.to_dict()["steps"]) == pytest.approx(cost, rel=0.05)


@pytest.mark.parametrize("name", [*GROUPS, *OUTLINES])
def test_one_answer(name: str) -> None:
    first, *others = (GROUPS | OUTLINES)[name]
    wanted = first.to_numpy()
    for other in others:
        np.testing.assert_allclose(other.to_numpy(), wanted, rtol=1e-12)


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "order of a product": (A @ B, (B @ A)),
    "zero of floats": (A + 0.0, A * 1),
    "sum and maximum": (A.sum(axis=0), A.max(axis=0)),
    "rounds to an integer": (A.astype("int64") * 1, A * 1),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_programs_have_other_plans(name: str) -> None:
    one, other = DIFFERENT[name]
    assert normal(str(one.explain())) != normal(str(other.explain()))
