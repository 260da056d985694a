"""Common factors of sums are taken out where that is cheaper, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.ir.nodes import Expr
from tensorel.ir.parser import parse
from tensorel.ir.printer import show
from tensorel.plan.variants.factoring import take_out

RULE = "factor: a*b + a*c -> a*(b + c)"
rng = np.random.default_rng(7)


def sparse(n: int, m: int, density: float = 0.02) -> tr.Tensor:
    return tr.asarray(rng.random((n, m)) * (rng.random((n, m)) < density)).to_format("csr")


def fired(program: tr.Tensor) -> bool:
    return RULE in str(program.explain())


@pytest.mark.parametrize("minus", [False, True])
def test_a_matrix_is_read_once_for_two_vectors(minus: bool) -> None:
    a, x, y = sparse(3000, 2000), tr.asarray(rng.random(2000)), tr.asarray(rng.random(2000))
    program = a @ x - a @ y if minus else a @ x + a @ y
    assert fired(program)
    b, c = np.asarray(a), np.asarray(x) - np.asarray(y) if minus else np.asarray(x) + np.asarray(y)
    np.testing.assert_allclose(np.asarray(program.compute()), b @ c, rtol=1e-9, atol=1e-12)


def test_products_with_one_left_side() -> None:
    a, b, c = sparse(400, 300), sparse(300, 200), sparse(300, 200)
    program = a @ b + a @ c
    expected = np.asarray(a) @ (np.asarray(b) + np.asarray(c))
    np.testing.assert_allclose(np.asarray(program.to_numpy()), expected, rtol=1e-9, atol=1e-12)


def test_what_is_cheaper_apart_stays_apart() -> None:
    """(u v') x + (u w') x: the sum of v and w as matrices would be dense."""
    a, x = sparse(2000, 2000), tr.asarray(rng.random(2000))
    b = sparse(2000, 2000)
    program = a @ x + b @ x
    expected = (np.asarray(a) + np.asarray(b)) @ np.asarray(x)
    np.testing.assert_allclose(np.asarray(program.compute()), expected, rtol=1e-9, atol=1e-12)


def test_not_in_strict_mode_nor_where_switched_off() -> None:
    a, x, y = sparse(3000, 2000), tr.asarray(rng.random(2000)), tr.asarray(rng.random(2000))
    with tr.options(strict=True):
        assert not fired(a @ x + a @ y)
    with tr.options(disabled={"factor"}):
        assert not fired(a @ x + a @ y)


def test_a_maximum_does_not_distribute_over_a_sum() -> None:
    a = sparse(300, 200)
    x, y = tr.asarray(rng.random(200)), tr.asarray(rng.random(200))
    program = tr.max(a * x, axis=1) + tr.max(a * y, axis=1)
    assert not fired(program)


@pytest.mark.parametrize(("text", "expected"), [
    ("(sum(k in 5) i*k*k) + (sum(l in 5) i*l)", None),
    ("(sum(k in 5) i*k) + (sum(l in 4) i*l)", None),
])
def test_only_reads_are_taken_out(text: str, expected: str | None) -> None:
    e = parse(text)
    assert isinstance(e, Expr)
    assert (take_out(e) is e) if expected is None else show(take_out(e)) == expected


@pytest.mark.parametrize("seed", range(8))
def test_random_sums_of_products(seed: int) -> None:
    own = np.random.default_rng(seed)
    a = own.random((30, 20)) * (own.random((30, 20)) < 0.3)
    b, c = own.random((20, 10)), own.random((20, 10)) * (own.random((20, 10)) < 0.4)
    d = own.random((30, 10))
    ta = tr.asarray(a).to_format("csr")
    ways: list[tuple[Callable[[], tr.Tensor], Any]] = [
        (lambda: ta @ tr.asarray(b) + ta @ tr.asarray(c) - tr.asarray(d), a @ b + a @ c - d),
        (lambda: tr.asarray(d) - ta @ tr.asarray(b) - ta @ tr.asarray(c), d - a @ b - a @ c),
        (lambda: tr.asarray(d).T @ ta @ tr.asarray(b) + tr.asarray(d).T @ ta @ tr.asarray(c),
         d.T @ a @ b + d.T @ a @ c),
        (lambda: tr.einsum("ik,ik,kj->ij", ta, ta, tr.asarray(b))
         + tr.einsum("ik,kj->ij", ta, tr.asarray(c)), (a * a) @ b + a @ c),
    ]
    make, expected = ways[seed % len(ways)]
    np.testing.assert_allclose(np.asarray(make().to_numpy()), expected, rtol=1e-9, atol=1e-12)
