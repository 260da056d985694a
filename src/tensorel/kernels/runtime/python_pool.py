"""Threads that run ranges of kernels.

Kernels release Python's lock, so plain threads use all cores. The main thread only waits, unless
the work is small: a signal (Ctrl-C) reaches Python code while kernels run, sets the flag that
they look at, waits until they have stopped and goes on as an exception. Tasks are taken one by
one by whoever is free.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.cores import NOWHERE, keep_off, this_core

#: A task gets the number of the worker that runs it (below ``workers``), for its workspaces.
Task = Callable[[int], int]


class Stoppable(Protocol):
    """The part of a kernel's control block that a pool needs."""

    def cancel(self) -> None: ...


SECONDS_BETWEEN_SIGNALS = 0.1  # that a waiting thread sleeps


class _Job:
    """One call of ``run_ranges``.

    A worker enters, takes tasks until there are none or the job is stopped, and leaves; so when
    the last one inside leaves, the job is over. Workers that come later are turned away.
    """

    def __init__(self, tasks: Sequence[Task], control: Stoppable) -> None:
        self.tasks = tasks
        self.control = control
        self.status = Status.DONE
        self.error: BaseException | None = None
        self.stopped = False
        self._taken = itertools.count()
        self._guard = threading.Lock()
        self._entered = self._inside = 0
        self._over = False
        self._done = threading.Lock()
        self._done.acquire()

    def work(self) -> None:
        """What a worker does."""
        with self._guard:
            if self._over:
                return
            worker = self._entered
            self._entered += 1
            self._inside += 1
        self._take_tasks(worker)
        with self._guard:
            self._inside -= 1
            self._finish_if_empty()

    def _take_tasks(self, worker: int) -> None:
        try:
            while not self.stopped:
                number = next(self._taken)
                if number >= len(self.tasks):
                    return
                status = self.tasks[number](worker)
                if status != Status.DONE:
                    self._fail(Status(status), None)
        except BaseException as error:
            self._fail(Status.DONE, error)

    def _fail(self, status: Status, error: BaseException | None) -> None:
        with self._guard:
            if not self.stopped:
                self.status, self.error = status, error
                self.stop()

    def stop(self) -> None:
        """No worker takes another task; running kernels see the flag."""
        self.stopped = True
        self.control.cancel()

    def _finish_if_empty(self) -> None:
        if self._inside == 0 and not self._over:
            self._over = True
            self._done.release()

    def wait(self) -> None:
        """Until the job is over. Now and then Python looks at its signals: handlers that other
        libraries have installed (polars does) let a wait go on."""
        while not self._done.acquire(timeout=SECONDS_BETWEEN_SIGNALS):
            pass

    def abandon(self) -> None:
        """Stop, and wait for whoever is inside: they write to memory that the caller owns."""
        self.stop()
        while not self._over:
            try:
                with self._guard:
                    self._finish_if_empty()
                self.wait()
            except KeyboardInterrupt:
                continue


class _Pool:
    """Threads that are made when first needed and never more than was asked for at once."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[_Job, int]] = SimpleQueue()
        self.threads: dict[threading.Thread, int] = {}  # and the core that each keeps off
        self.guard = threading.Lock()

    def submit(self, job: _Job, workers: int, core: int = NOWHERE) -> None:
        """Send ``workers`` threads to a job, none of them on this core. One entry in the queue,
        which the threads split among themselves: an interrupt finds it there or not, never half."""
        if len(self.threads) < workers:
            with self.guard:
                for _ in range(len(self.threads), workers):
                    thread = threading.Thread(target=self._serve, name="tensorel", daemon=True)
                    thread.start()
                    self.threads[thread] = NOWHERE
        for thread, last in self.threads.items():
            if last != core and thread.native_id is not None:
                self.threads[thread] = core
                keep_off(thread.native_id, core)
        self.queue.put((job, workers))

    def _serve(self) -> None:
        while True:
            job, workers = self.queue.get()
            while workers > 1:
                half = workers // 2
                self.queue.put((job, half))
                workers -= half
            job.work()
            del job


_pool = _Pool()


def _reset() -> None:
    """A forked child has none of the threads."""
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_reset)


def _run_here(tasks: Sequence[Task], control: Stoppable) -> Status:
    for task in tasks:
        status = Status(task(0))
        if status is not Status.DONE:
            control.cancel()
            return status
    return Status.DONE


def run_ranges(
    tasks: Sequence[Task], workers: int, control: Stoppable, *, small: bool = False
) -> Status:
    """Run all tasks, at most ``workers`` at a time, and give the first status that is not DONE.

    After a failure no further task starts and ``control`` is cancelled. Of ``small`` work the
    calling thread does its share, and a signal has to wait until it is over.
    """
    pool, here = _pool, threading.current_thread()
    workers = min(workers, len(tasks))
    if workers <= small or here in pool.threads:
        return _run_here(tasks, control)
    job = _Job(tasks, control)
    try:
        if here is threading.main_thread() and not small:
            pool.submit(job, workers)
        else:
            if workers > 1:
                pool.submit(job, workers - 1, this_core())
            job.work()
        job.wait()
    except BaseException:
        job.abandon()
        raise
    if job.error is not None:
        raise job.error
    return job.status
