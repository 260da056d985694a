"""Helpers keep off the core of the caller, and off no other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime import python_pool
from tensorel.kernels.runtime.buffers import Control
from tensorel.kernels.runtime.cores import NOWHERE, can_place, keep_off, this_core

pytestmark = pytest.mark.skipif(not can_place() or len(os.sched_getaffinity(0)) < 2,
                                reason="threads cannot be placed on cores here")


def in_thread(work: Callable[[int], None]) -> None:
    """Call ``work`` with the number of a thread that waits."""
    ready, done = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    assert thread.native_id is not None
    try:
        work(thread.native_id)
    finally:
        done.set()
        thread.join()


def test_a_thread_is_kept_off_one_core() -> None:
    allowed = os.sched_getaffinity(0)
    assert this_core() in allowed

    def work(number: int) -> None:
        for core in allowed:
            keep_off(number, core)
            assert os.sched_getaffinity(number) == allowed - {core}
        keep_off(number, NOWHERE)
        assert os.sched_getaffinity(number) == allowed

    in_thread(work)
    assert os.sched_getaffinity(0) == allowed, "the caller is left alone"


def test_threads_that_have_ended_are_no_error() -> None:
    gone: list[int] = []
    in_thread(gone.append)
    keep_off(gone[0], this_core())


def test_the_pool_keeps_off_the_caller_while_it_works() -> None:
    allowed = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    caller = threading.current_thread()

    def task(worker: int) -> int:
        if threading.current_thread() is not caller:
            seen.append(os.sched_getaffinity(0))
        return Status.DONE

    def run(small: bool) -> list[set[int]]:
        for _ in range(50):
            seen.clear()
            python_pool.run_ranges([task] * 64, 2, Control(), small=small)
            if seen:
                break
        return list(seen)

    assert all(cores < allowed for cores in run(small=True))
    assert all(cores == allowed for cores in run(small=False)), "who only waits needs no core"
