"""Steps that ran before: the same results, however often, on however many threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines.in_process import kernel_step
from tensorel.engines.in_process.relaunch import RUNS_BEFORE_SUM_KERNEL, Launch
from tensorel.errors import EngineError
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.cores import can_place

#: Those that a native pool is made after, that copies are added by a kernel, and more.
RUNS = RUNS_BEFORE_SUM_KERNEL + 6


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of a launch gave a result."""
    found: list[bool] = []
    call = Launch.__call__

    def noted(self: Launch, *args: Any) -> Any:
        cells = call(self, *args)
        found.append(cells is not None)
        return cells

    monkeypatch.setattr(Launch, "__call__", noted)
    return found


def matrix(dtype: object, rows: int = 40_000, columns: int = 90) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(5)
    dense = (rng.random((rows, columns)) < 0.1) * rng.integers(1, 9, (rows, columns))
    dense = dense.astype(dtype)  # type: ignore[call-overload]
    return tr.tensor(dense, format="csr"), dense


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda m, a: a.sum(),
    "rows": lambda m, a: a.sum(axis=1),
    "columns": lambda m, a: a.sum(axis=0),
    "most of columns": lambda m, a: a.max(axis=0),
    "least of all": lambda m, a: (a + 1).min(),
    "any": lambda m, a: (a > 3).any(axis=0),
    "weighted": lambda m, a: a.T @ m.asarray(np.arange(a.shape[0]) % 7).astype(a.dtype),
    "twice": lambda m, a: a.T @ (a @ m.asarray(np.arange(a.shape[1]) % 5).astype(a.dtype)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_again_and_again(name: str, dtype: str, launched: list[bool]) -> None:
    if dtype == "complex128" and name in ("most of columns", "least of all", "any"):
        return
    a, dense = matrix(dtype)
    program = PROGRAMS[name]
    wanted = program(np, dense)
    for threads in (1, 2, 3):
        with tr.options(threads=threads):
            for _ in range(RUNS):
                found = np.asarray(program(tr, a).compute())
                assert found.dtype == wanted.dtype or dtype == "float32"
                near = 1e-4 if dtype == "float32" else 1e-12
                np.testing.assert_allclose(found, wanted, rtol=near)
    assert any(launched) or "of" in name, "what is not stored is counted, in the general way"


def test_operands_of_the_same_kind_may_change(launched: list[bool]) -> None:
    """Another matrix of other ranges, then an empty one, through the same launch."""
    rng = np.random.default_rng(2)
    for rows in (30_000, 30_000, 30_000, 30_000):
        dense = (rng.random((rows, 300)) < 0.02) * rng.random((rows, 300))
        for a in (dense, dense * 0, dense[::-1].copy()):
            t = tr.tensor(a, format="csr")
            with tr.options(threads=2):
                np.testing.assert_allclose(t.sum(axis=0).compute(), a.sum(axis=0), rtol=1e-12)
                np.testing.assert_allclose(t.sum(axis=1).compute(), a.sum(axis=1), rtol=1e-12)
    assert any(launched)


def test_several_callers_at_once() -> None:
    """Who finds the threads busy works in the general way."""
    a, dense = matrix("float64")
    wanted = dense.T @ (dense @ np.ones(dense.shape[1]))
    x = tr.asarray(np.ones(dense.shape[1]))
    wrong: list[object] = []

    def call() -> None:
        with tr.options(threads=2):
            for _ in range(30):
                found = np.asarray((a.T @ (a @ x)).compute())
                if not np.allclose(found, wanted, rtol=1e-12):
                    wrong.append(found)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert not wrong


def test_arrays_that_kernels_cannot_read_are_refused(launched: list[bool]) -> None:
    """A stored tensor whose array is a stride: the general way says so, nothing crashes."""
    a, dense = matrix("float64")
    for _ in range(4):
        a.sum(axis=1).compute()
    strided = tr.tensor(dense, format="csr")
    stored = strided.stored
    assert stored is not None
    stored.derived.sound = None
    stored.arrays["val"] = np.repeat(stored.arrays["val"], 2)[::2]
    launched.clear()
    with pytest.raises(EngineError, match="contiguous"):
        strided.sum(axis=1).compute()
    assert launched == [False]


@pytest.mark.skipif(not can_place() or len(os.sched_getaffinity(0)) < 2,
                    reason="threads cannot be placed on cores here")
def test_helpers_keep_off_the_core_of_the_caller() -> None:
    a, _ = matrix("float64")
    with tr.options(threads=2):
        for _ in range(12):
            a.sum(axis=0).compute()
    team = native_pool.the_pool(True, True)
    assert team is not None and team.helpers >= 1
    slot = (native_pool.ctypes.c_longlong * 6).from_address(team.job + native_pool.SLOT_BYTES)
    assert slot[5] > 0, "it was woken at least once"
    cores = os.sched_getaffinity(slot[4])
    assert slot[5] - 1 not in cores and cores < os.sched_getaffinity(0)


def test_the_first_run_is_general(launched: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that runs once pays for nothing that is kept."""
    made: list[object] = []
    monkeypatch.setattr(kernel_step, "launch_for", lambda *about: made.append(about))
    a, _ = matrix("float64", rows=41_000)
    (a * 3).sum(axis=1).compute()
    assert not made and not launched
