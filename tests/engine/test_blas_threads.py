"""Products of dense matrices beside kernels: on one thread of BLAS, or in parts on ours."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import Config
from tensorel.engines.binding import bind
from tensorel.engines.in_process import blas_products, engine
from tensorel.kernels.runtime import openblas
from tensorel.kernels.runtime.openblas import OneThread
from tensorel.plan.physical import BlasStep

needed = pytest.mark.skipif(not openblas.is_controlled(), reason="NumPy uses another BLAS here")


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the number of BLAS threads was set to, in a process that had four."""
    found = [4]
    monkeypatch.setattr(openblas, "controls", lambda: (lambda: found[-1], found.append))
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
    assert numbers[-1] == 4
    nobody_is_inside(numbers)


def nobody_is_inside(numbers: list[int]) -> None:
    """The next one is the first again."""
    numbers[:] = [4]
    with OneThread():
        assert numbers == [4, 1]
    assert numbers == [4, 1, 4]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_its_number_back(numbers: list[int]) -> None:
    with OneThread():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert numbers == [4, 1, 4]
                nobody_is_inside(numbers)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert numbers == [4, 1, 4]


@needed
def test_the_real_number_comes_back() -> None:
    functions = openblas.controls()
    assert functions is not None
    before = functions[0]()
    with OneThread():
        assert functions[0]() == 1
    assert functions[0]() == before


SHAPES = [((70, 300), (300, 50)), ((3000, 64), (64, 32)), ((40, 20, 12), (40, 12, 150)),
          ((3, 60), (60, 2)), ((0, 5), (5, 4)), ((4, 0), (0, 3)), ((1, 90), (90, 9000))]
LARGE = ((30_000, 64), (64, 32))


@needed
@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_parts_make_the_same_product(
        left: Any, right: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small products, as if they were large."""
    monkeypatch.setattr(blas_products, "MIN_THREAD_WORK", 4e5)
    monkeypatch.setattr(blas_products, "MIN_TURNED_WORK", 1e5)
    monkeypatch.setattr(blas_products, "MAX_PIECE_WORK", 4e7)
    agree(left, right, dtype)


@needed
def test_parts_of_a_large_product() -> None:
    agree(*LARGE, "float64")


def agree(left: Any, right: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(left).astype(dtype), rng.random(right).astype(dtype)
    wanted = np.matmul(x, y)
    near = 1e-4 if dtype == "float32" else 1e-12
    for workers in (1, 2, 3):
        for shares in (False, True):
            found = blas_products.matmul(x, y, workers, shares)
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


def sharing(t: Any) -> list[bool]:
    with tr.options(threads=2):
        config = tr.config.current()
        state = engine.planned(bind([t.node], [None], config), [None], config)
    return [s.shares for s in state.steps if type(s.step) is BlasStep]


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
    assert any(sharing(mixed))
    assert not any(sharing(x.T @ x))
