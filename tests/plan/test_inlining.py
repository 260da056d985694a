"""Sums with several readers: written out where that is cheaper, one value where it is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorel as tr

RULE = "write-out: a shared sum at each of its readers"
rng = np.random.default_rng(11)
N, R = 400, 5
t = rng.random((N, N)) * (rng.random((N, N)) < 0.01)
u, v = rng.random((N, R)), rng.random((N, R))
T, U, V = tr.asarray(t).to_format("csr"), tr.asarray(u), tr.asarray(v)
uv = u @ v.T


@pytest.mark.parametrize("f", [
    lambda x: 1.0 / (1.0 + x * x),
    lambda x: x * x * x + 2.0 * x,
    lambda x: x * tr.exp(-x),
    lambda x: tr.where(x > 1.0, x, x * x),
])
def test_a_function_that_uses_its_argument_twice_is_evaluated_where_asked_for(
        f: Callable[[tr.Tensor], tr.Tensor]) -> None:
    program = T * tr.map(f, U @ V.T)
    plan = program.explain()
    assert len(plan.to_dict()["steps"]) == 1
    assert plan.predicted_bytes < N * N * 8
    np.testing.assert_allclose(program.to_numpy(), t * f(tr.asarray(uv)).to_numpy(), rtol=1e-12)


def test_one_product_with_two_readers_in_one_formula() -> None:
    product = U @ V.T
    program = T * product * tr.exp(-product)
    assert len(program.explain().to_dict()["steps"]) == 1
    np.testing.assert_allclose(program.to_numpy(), t * uv * np.exp(-uv), rtol=1e-12)


def test_a_mask_and_a_sum_read_one_product() -> None:
    product = U @ V.T
    program = (T * tr.log(product)).sum() - product.sum()
    plan = program.explain()
    assert RULE in plan.rules
    assert plan.predicted_bytes < N * N * 8
    np.testing.assert_allclose(float(program), (t * np.log(uv)).sum() - uv.sum(), rtol=1e-10)


def test_what_is_asked_for_whole_is_computed_once() -> None:
    product = tr.asarray(u) @ tr.asarray(v).T
    program = product + tr.exp(product).sum()
    plan = program.explain()
    assert sum(s["kind"] == "blas" for s in plan.to_dict()["steps"]) == 1
    np.testing.assert_allclose(program.to_numpy(), uv + np.exp(uv).sum(), rtol=1e-10)


def test_an_operator_on_the_whole_tensor_keeps_it() -> None:
    product = U @ V.T
    best = tr.topk(product, 3)
    values = best[0] if isinstance(best, tuple) else best
    top, total = tr.compute(values, (T * product).sum())
    np.testing.assert_allclose(top.to_numpy(), -np.sort(-uv, axis=1)[:, :3], rtol=1e-12)
    np.testing.assert_allclose(float(total), (t * uv).sum(), rtol=1e-12)


def test_not_in_strict_mode_nor_where_switched_off() -> None:
    product = U @ V.T
    program = (T * tr.log(product)).sum() - product.sum()
    with tr.options(strict=True):
        assert RULE not in program.explain().rules
    with tr.options(disabled={"inline"}):
        assert RULE not in program.explain().rules
