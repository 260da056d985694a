"""A matrix and its transpose are computed once; what is nearly so is computed twice."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr
from tensorel.ir.nodes import Axis, Lambda
from tensorel.ir.parser import parse
from tensorel.plan.definitions import Definition
from tensorel.plan.logical.share import formula_key

RULE = "share-transposed"


def star(seed: int, rows: int = 300) -> tuple[tr.Tensor, np.ndarray]:
    """Features of a table and of two tables that its keys refer to, side by side."""
    rng = np.random.default_rng(seed)
    parts, dense = [tr.asarray(rng.random((rows, 3)))], []
    dense.append(np.asarray(parts[0]))
    for many, width in ((20, 4), (15, 2)):
        key = np.zeros((rows, many))
        key[np.arange(rows), rng.integers(0, many, rows)] = 1.0
        features = rng.random((many, width))
        parts.append(tr.asarray(key).to_format("csr") @ tr.asarray(features))
        dense.append(key @ features)
    return tr.concat(parts, axis=1), np.concatenate(dense, axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_mirror_blocks_of_a_covariance(seed: int) -> None:
    x, dense = star(seed)
    program = x.T @ x
    assert RULE in str(program.explain())
    np.testing.assert_allclose(program.to_numpy(), dense.T @ dense, rtol=1e-9)


def test_not_in_strict_mode_nor_where_switched_off() -> None:
    x, dense = star(5, 60)
    for options in ({"strict": True}, {"disabled": {"share_transposed"}}):
        with tr.options(**options):
            program = x.T @ x
            assert RULE not in str(program.explain())
            np.testing.assert_allclose(program.to_numpy(), dense.T @ dense, rtol=1e-9)


def test_other_factors_are_no_transpose() -> None:
    """A.T B and B.T C have the same shapes exchanged, and the reads differ."""
    rng = np.random.default_rng(3)
    a, b = rng.random((40, 6)), rng.random((40, 6))
    c = b.copy()
    c[0, 0] += 1e-9  # nearly the same, another tensor
    ta, tb, tc = tr.asarray(a), tr.asarray(b), tr.asarray(c)
    program = (ta.T @ tb) @ (tc.T @ ta) + (tc.T @ tb)
    assert RULE not in str(program.explain())
    np.testing.assert_allclose(program.to_numpy(), (a.T @ b) @ (c.T @ a) + c.T @ b, rtol=1e-12)


def test_a_free_index_is_no_bound_one() -> None:
    """sum(k) i*k and sum(k) k*k were one formula to the pass that shares definitions."""
    axes = (Axis("i", 3),)
    one = Definition("a", Lambda(axes, parse("sum(k in 3) i*k")))  # type: ignore[arg-type]
    two = Definition("b", Lambda(axes, parse("sum(k in 3) k*k")))  # type: ignore[arg-type]
    assert formula_key(one) != formula_key(two)


def side_by_side(rng: np.random.Generator, rows: int, count: int) -> tuple[tr.Tensor, np.ndarray]:
    """Dense, sparse and multiplied matrices side by side."""
    parts, dense = [], []
    for _ in range(count):
        width = int(rng.integers(1, 5))
        a = rng.standard_normal((rows, width)) * (rng.random((rows, width)) < 0.4)
        kind = rng.integers(0, 3)
        if kind == 2:
            b = rng.random((width, int(rng.integers(1, 4))))
            parts.append(tr.asarray(a).to_format("csr") @ tr.asarray(b))
            dense.append(a @ b)
        else:
            parts.append(tr.asarray(a).to_format("dense" if kind else "csr"))
            dense.append(a)
    return tr.concat(parts, axis=1), np.concatenate(dense, axis=1)


@pytest.mark.parametrize("seed", range(7))
def test_blocks_of_products_that_are_their_own_transpose_and_of_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, dx = side_by_side(rng, 12, int(rng.integers(2, 6)))
    y, dy = side_by_side(rng, 12, int(rng.integers(2, 4)))
    w = rng.random(12)
    tw = tr.asarray(w)
    programs = [
        (x.T @ x, dx.T @ dx), (x @ x.T, dx @ dx.T), (x.T @ y, dx.T @ dy),
        ((x.T * tw) @ x, (dx.T * w) @ dx), ((x.T @ x)[1:, ::-1], (dx.T @ dx)[1:, ::-1]),
        ((x.T @ x) @ (y.T @ x).T, (dx.T @ dx) @ (dy.T @ dx).T),
        ((x[:, :, None] * x[:, None, :]).sum(axis=0), dx.T @ dx),
        ((x[:, :, None] - x[:, None, :]).sum(axis=0),
         (dx[:, :, None] - dx[:, None, :]).sum(axis=0)),
        ((x[:, :, None] + x[:, None, :]).max(axis=0),
         (dx[:, :, None] + dx[:, None, :]).max(axis=0)),
        (tr.einsum("ki,kj,kl->ijl", x, x, y), np.einsum("ki,kj,kl->ijl", dx, dx, dy)),
        (tr.einsum("ki,kj,kl->ijl", x, x, x), np.einsum("ki,kj,kl->ijl", dx, dx, dx)),
        (tr.einsum("ki,kj,ki->ij", x, x, x), np.einsum("ki,kj,ki->ij", dx, dx, dx)),
        (tr.einsum("ki,kj,ki->ji", x, x, x), np.einsum("ki,kj,ki->ji", dx, dx, dx)),
        ((x * x).T @ (x * x), (dx * dx).T @ (dx * dx)),
        ((x * x).T @ x, (dx * dx).T @ dx),
    ]
    for k, (program, expected) in enumerate(programs):
        np.testing.assert_allclose(program.to_numpy(), expected, rtol=1e-9, atol=1e-9,
                                   err_msg=f"program {k}")
