"""Numbers of threads are planned from predicted time, and do not change results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.config import Config, with_overrides
from tensorel.costs import SHIPPED
from tensorel.engines.binding import bind
from tensorel.engines.in_process.engine import plan_for
from tensorel.plan.physical import KernelStep
from tensorel.plan.steps.threads import Work

EAGER = replace(SHIPPED, thread=1.0, thread_collect=1.0, thread_gain=1.0, memory=1e-6, fresh=1e-6)


def matrix(n: int, each: int, seed: int = 0) -> tr.Tensor:
    rng = np.random.default_rng(seed)
    at = (np.repeat(np.arange(n), each), rng.integers(0, n, n * each))
    m = sp.csr_array((rng.random(n * each), at), shape=(n, n))
    narrow = (m.data, m.indices.astype(np.int32), m.indptr.astype(np.int32))
    return tr.asarray(sp.csr_array(narrow, shape=m.shape))


def threads(program: Any, workers: int = 4, **options: Any) -> list[int]:
    config = with_overrides(Config(), threads=workers, **options)
    bound = bind([program.node], [None], config)
    plan = plan_for(bound, [None], config, anew=True).plan
    return [s.threads for s in plan.steps if isinstance(s, KernelStep)]


def test_little_work_stays_on_one_thread() -> None:
    a, x = matrix(1000, 10), tr.asarray(np.ones(1000))
    assert threads(a @ x) == threads(a @ a) == threads(a.sum(axis=0)) == [1]


def test_much_work_is_shared() -> None:
    a, b = matrix(100_000, 10), matrix(100_000, 10, seed=1)
    x = tr.asarray(np.ones(100_000))
    assert threads(a @ b, 2) == [2] and threads(a @ b, 1) == [1]
    assert threads(a @ x)[0] > 1
    assert threads(a + b, 2) == [2], "measured: two thirds of the time"
    assert threads(x * 2.0 + x) == [1], "memory is as busy with one"
    assert "threads: 2" in str((a @ b).explain()) or Config().workers != 2


def test_copies_of_a_dense_result_count() -> None:
    n = 400_000
    wide = tr.from_coo((np.arange(1000) % 50, np.arange(1000) * 399), np.ones(1000), (50, n))
    assert threads(wide.sum(axis=0)) == [1]
    work = Work(1e7, 0.0, 0.0, copied=1e5)
    times = [work.time(t, SHIPPED) for t in (1, 2, 4, 64)]
    assert times[1] < times[0] and times[3] > times[2]


def test_strict_sums_are_not_divided() -> None:
    a = matrix(100_000, 20)
    assert threads(a.sum(), strict=True, costs=EAGER) == [1]
    assert threads(a.sum(axis=1), strict=True, costs=EAGER)[0] > 1  # rows are whole


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_results_do_not_depend_on_threads(workers: int) -> None:
    a, b, x = matrix(60, 5), matrix(60, 5, seed=1), tr.asarray(np.arange(60.0))
    programs = [a @ x, a @ b, a + b, a.sum(axis=0), a * 3.0, (a * b).sum(), a.T @ x, a.T + b]
    for p in programs:
        assert max(threads(p, workers, costs=EAGER)) > 1 or p is programs[7]
        one = p.compute(threads=1)
        many = p.compute(threads=workers, costs=EAGER)
        np.testing.assert_allclose(np.asarray(many), np.asarray(one), rtol=1e-12)
