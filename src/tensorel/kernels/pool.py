"""Threads that run ranges of kernels.

Kernels release Python's lock, so plain threads use all cores. The main thread only waits: a
signal (Ctrl-C) reaches Python code while kernels run, sets the flag that they look at, waits until
they have stopped and goes on as an exception. Tasks are taken one by one by whoever is free.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from tensorel.kernels.loops import Status

#: A task gets the number of the worker that runs it (below ``workers``), for its workspaces.
Task = Callable[[int], int]


class Stoppable(Protocol):
    """The part of a kernel's control block that a pool needs."""

    def cancel(self) -> None: ...


class _Job:
    """One call of ``run_ranges``: tasks, the next to take, and how many workers are at it."""

    def __init__(self, tasks: Sequence[Task], control: Stoppable) -> None:
        self.tasks = tasks
        self.control = control
        self.next = itertools.count()
        self.status = Status.DONE
        self.error: BaseException | None = None
        self.stopped = False
        self._guard = threading.Lock()
        self._expected = 0
        self._quiet = threading.Event()
        self._quiet.set()

    def expect(self) -> None:
        """One more worker will come."""
        with self._guard:
            self._expected += 1
            self._quiet.clear()

    def leave(self) -> None:
        with self._guard:
            self._expected -= 1
            if self._expected == 0:
                self._quiet.set()

    def stop(self) -> None:
        """No worker takes another task; running kernels see the flag."""
        self.stopped = True
        self.control.cancel()

    def work(self, worker: int) -> None:
        """Take tasks until none is left."""
        try:
            while not self.stopped:
                number = next(self.next)
                if number >= len(self.tasks):
                    return
                status = self.tasks[number](worker)
                if status != Status.DONE:
                    self._fail(Status(status), None)
        except BaseException as error:
            self._fail(Status.DONE, error)

    def _fail(self, status: Status, error: BaseException | None) -> None:
        with self._guard:
            first = not self.stopped
            if first:
                self.status, self.error = status, error
        if first:
            self.stop()

    def wait(self) -> None:
        """Until all workers have left. Interrupted, they are stopped first, then waited for:
        they write to memory that the caller owns."""
        try:
            self._quiet.wait()
        except BaseException:
            self.stop()
            self._wait_surely()
            raise

    def _wait_surely(self) -> None:
        while not self._quiet.is_set():
            try:
                self._quiet.wait()
            except KeyboardInterrupt:
                continue


class _Pool:
    """Threads that are made when first needed and never more than was asked for at once."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[_Job, int]] = SimpleQueue()
        self.threads: set[threading.Thread] = set()
        self.guard = threading.Lock()

    def submit(self, job: _Job, workers: range) -> None:
        with self.guard:
            for _ in range(len(self.threads), len(workers)):
                thread = threading.Thread(target=self._serve, name="tensorel", daemon=True)
                thread.start()
                self.threads.add(thread)
        for worker in workers:
            job.expect()
            self.queue.put((job, worker))

    def _serve(self) -> None:
        while True:
            job, worker = self.queue.get()
            job.work(worker)
            job.leave()
            del job


_pool = _Pool()


def _reset() -> None:
    """A forked child has none of the threads."""
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_reset)


def run_ranges(
    tasks: Sequence[Task], workers: int, control: Stoppable, *, small: bool = False
) -> Status:
    """Run all tasks, at most ``workers`` at a time, and give the first status that is not DONE.

    After a failure no further task starts and ``control`` is cancelled. ``small`` work runs in
    the calling thread, where a signal has to wait until it is over.
    """
    pool, here = _pool, threading.current_thread()
    job = _Job(tasks, control)
    workers = min(workers, len(tasks))
    if small or not tasks or here in pool.threads:
        job.work(0)
    elif here is threading.main_thread():
        try:
            pool.submit(job, range(workers))
        finally:
            job.wait()
    else:
        pool.submit(job, range(1, workers))
        job.work(0)
        job.wait()
    if job.error is not None:
        raise job.error
    return job.status
