"""Sizes that statistics misjudge are remembered, and used when the same thing is planned again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.config import current
from tensorel.engines.in_process import engine
from tensorel.stats import feedback


def scattered_blocks(n: int, side: int, seed: int = 0) -> Any:
    """Dense blocks whose rows and columns lie anywhere: no tile shows them, and the square has
    no more entries than the matrix."""
    rng = np.random.default_rng(seed)
    at = rng.permutation(n)
    whole = sp.kron(sp.eye_array(n // side), np.ones((side, side)), format="csr")
    return sp.csr_array(whole[at][:, at])


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    feedback.forget()


def estimates(program: Any) -> list[int]:
    return [s["estimated_nnz"] for s in program.explain().to_dict()["steps"]]


def test_the_second_estimate_is_the_truth() -> None:
    matrix = scattered_blocks(3000, 6)
    a, other = tr.asarray(matrix), tr.asarray(scattered_blocks(3000, 6, seed=1))
    (before,) = estimates(a @ a)
    bound = (a @ a).explain().predicted_bytes
    assert before > 3 * matrix.nnz
    first = (a @ a).compute()
    assert estimates(a @ a) == [matrix.nnz]
    assert (a @ a).explain().predicted_bytes <= bound
    assert estimates(tr.sort(a @ a, axis=0))[0] == matrix.nnz, "also inside another program"
    assert estimates(other @ other)[0] > 3 * matrix.nnz, "other tensors are not concerned"
    again = (a @ a).compute()
    assert np.array_equal(first.to_numpy(), again.to_numpy())
    assert np.array_equal(first.to_numpy(), (matrix @ matrix).toarray())


def test_plans_that_were_far_off_are_made_anew_once() -> None:
    a = tr.asarray(scattered_blocks(6000, 6))
    config, made = current(), []
    for _ in range(4):
        bound = engine.bind([(a @ a).node], [None], config)
        made.append(engine.plan_for(bound, [None], config))
        engine.execute(engine.Run(made[-1], bound.stored, config))
    assert made[0].stale and made[0] is not made[1], "the first was far off"
    assert made[1].final and made[1] is made[2] is made[3], "the second is kept"


def test_good_estimates_are_not_kept() -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((2000, 2000), density=0.005, rng=rng, format="csr")
    a = tr.asarray(matrix)
    (a @ a).compute()
    assert len(feedback.SIZES) == 0
