"""Products of dense matrices beside kernels: on one thread of BLAS, or in parts on ours."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import Config
from tensorel.engines import local, products
from tensorel.engines.binding import bind
from tensorel.kernels import openblas
from tensorel.kernels.openblas import OneThread
from tensorel.plan.physical import BlasStep

needed = pytest.mark.skipif(not openblas.is_controlled(), reason="NumPy uses another BLAS here")


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the number of BLAS threads was set to, in a process that had four."""
    found = [4]
    monkeypatch.setattr(openblas, "_functions", lambda: (lambda: found[-1], found.append))
    return found


def test_the_number_comes_back(numbers: list[int]) -> None:
    with OneThread():
        assert numbers == [4, 1]
        with OneThread():
            assert numbers == [4, 1]
        assert numbers == [4, 1]
    assert numbers == [4, 1, 4]
    with pytest.raises(ZeroDivisionError), OneThread():
        raise ZeroDivisionError
    assert numbers[-1] == 4


def test_several_threads_inside(numbers: list[int]) -> None:
    barrier = threading.Barrier(4)

    def work() -> None:
        for _ in range(200):
            barrier.wait()
            with OneThread():
                assert numbers[-1] == 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert numbers[-1] == 4 and OneThread._inside == 0


def test_a_forked_child_has_its_number_back(numbers: list[int]) -> None:
    with OneThread():
        OneThread._leave_all()  # what the child does
        assert numbers == [4, 1, 4] and OneThread._inside == 0
        OneThread._inside = 1
        numbers.append(1)
    assert numbers[-1] == 4


@needed
def test_the_real_number_comes_back() -> None:
    functions = openblas._functions()
    assert functions is not None
    before = functions[0]()
    with OneThread():
        assert functions[0]() == 1
    assert functions[0]() == before


SHAPES = [((700, 300), (300, 500)), ((30_000, 64), (64, 32)), ((40, 200, 120), (40, 120, 150)),
          ((3, 60), (60, 2)), ((0, 5), (5, 4)), ((4, 0), (0, 3)), ((1, 900), (900, 90_000))]


@needed
@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_parts_make_the_same_product(left: Any, right: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(left).astype(dtype), rng.random(right).astype(dtype)
    wanted = np.matmul(x, y)
    near = 1e-4 if dtype == "float32" else 1e-12
    for workers in (1, 2, 3):
        for shares in (False, True):
            found = products.matmul(x, y, workers, shares)
            np.testing.assert_allclose(found, wanted, rtol=near)
            assert found.dtype == wanted.dtype and found.flags.c_contiguous


@needed
def test_one_thread_means_one(numbers: list[int]) -> None:
    x = tr.asarray(np.random.default_rng(0).random((300, 300)))
    with tr.options(threads=1):
        (x @ x).compute()
    assert numbers[-2:] == [1, 4]
    numbers[:] = [4]
    with tr.options(threads=2):
        (x @ x).compute()
    assert numbers == [4], "nobody else needs the cores"


def blas_steps(t: Any) -> list[BlasStep]:
    with tr.options(threads=2):
        config = tr.config.current()
        plan = local.planned(bind([t.node], [None], config), [None], config).plan
    return [s for s in plan.steps if type(s) is BlasStep]


@pytest.mark.skipif(Config().workers < 2, reason="kernels use one core here")
def test_products_beside_kernels_share() -> None:
    rng = np.random.default_rng(3)
    dense = (rng.random((60_000, 500)) < 0.05) * rng.random((60_000, 500))
    a, x = tr.tensor(dense, format="csr"), tr.asarray(rng.random((500, 64)))
    w = tr.asarray(rng.random((64, 32)))
    with tr.options(threads=2):
        mixed = (tr.tanh(a @ x) @ w)
        np.testing.assert_allclose(mixed.compute(), np.tanh(dense @ np.asarray(x)) @ np.asarray(w),
                                   rtol=1e-10)
    assert any(s.shares for s in blas_steps(mixed))
    assert not any(s.shares for s in blas_steps(x.T @ x))
