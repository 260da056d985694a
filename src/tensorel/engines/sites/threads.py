"""Sites that are threads of this process: bytes are counted as if they were sent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush
from threading import Condition
from typing import Any

from tensorel.engines.sites.cluster import Cluster, Task, size_of
from tensorel.errors import EngineError


class ThreadCluster(Cluster):
    """One thread for each site; a task enters the queue of its site when its inputs are there."""

    kind = "threads"

    def __init__(self, sites: int, memory: int | None = None) -> None:
        self._state = Condition()
        self._bytes, self._peak, self._submitted = [0] * sites, [0] * sites, 0
        super().__init__(sites, memory)
        self.threads = max(1, (os.cpu_count() or 1) // sites)
        self._results: dict[int, Any] = {}
        self._made_at: dict[int, int] = {}
        self._copies: dict[int, set[int]] = {}  # at which other sites a result is
        self._waiting: dict[int, int] = {}  # number of a task: how many inputs are missing
        self._tasks: dict[int, Task] = {}
        self._readers: dict[int, list[int]] = {}
        self._uses: dict[int, int] = {}  # tasks that still need a result
        self._unwanted: set[int] = set()  # released; dropped after their last use
        self._order: dict[int, int] = {}  # in which tasks were submitted
        self._queues: list[list[tuple[int, int]]] = [[] for _ in range(sites)]
        self._busy = [False] * sites
        self._failure: BaseException | None = None
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, tasks: Sequence[Task]) -> None:
        with self._state:
            self._failure = None
            for t in tasks:
                self._tasks[t.number] = t
                self._order[t.number] = self._submitted = self._submitted + 1
                self._made_at[t.number] = t.site
                missing = 0
                for n in set(t.needs):
                    self._uses[n] = self._uses.get(n, 0) + 1
                    if n not in self._results:
                        self._readers.setdefault(n, []).append(t.number)
                        missing += 1
                self._waiting[t.number] = missing
                if not missing:
                    self._enqueue(t)

    def start(self, tasks: Sequence[Task], passing: Sequence[int]) -> None:
        with self._state:  # no task ends before it is known what goes
            super().start(tasks, passing)

    def _enqueue(self, task: Task) -> None:
        heappush(self._queues[task.site], (self._order.pop(task.number), task.number))
        if not self._busy[task.site]:
            self._busy[task.site] = True
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.sites, "tensorel-site")
            self._pool.submit(self._work, task.site)

    def _work(self, site: int) -> None:
        """Run what is in the queue of a site, until there is nothing."""
        while True:
            with self._state:
                if not self._queues[site]:
                    self._busy[site] = False
                    return
                task = self._tasks[heappop(self._queues[site])[1]]
            try:
                self._run(task)
            except BaseException as problem:  # the error belongs to who waits
                self._fail(task, problem)

    def _run(self, task: Task) -> None:
        with self._state:
            inputs = [self._results[n] for n in task.needs]
            for n in set(task.needs):
                self._arrive(n, task.site)
        start = time.perf_counter()
        made = task.call(*[s.value for s in task.shared], *inputs)
        self.count_task(task.site, time.perf_counter() - start)
        with self._state:
            self._finish(task, made)

    def _arrive(self, number: int, site: int) -> None:
        if self._made_at[number] != site:
            copies = self._copies.setdefault(number, set())
            if site not in copies:
                copies.add(site)
                size = size_of(self._results[number])
                self.count_moved(size)
                self._hold(site, size)

    def _finish(self, task: Task, made: Any) -> None:
        if task.number not in self._tasks:
            return  # it was dropped meanwhile
        del self._tasks[task.number], self._waiting[task.number]
        self._results[task.number] = made
        self._hold(task.site, size_of(made))
        for n in set(task.needs):
            self._uses[n] -= 1
            self._drop_unused(n)
        for reader in self._readers.pop(task.number, ()):
            if reader in self._waiting:
                self._waiting[reader] -= 1
                if not self._waiting[reader]:
                    self._enqueue(self._tasks[reader])
        self._drop_unused(task.number)
        self._state.notify_all()

    def _fail(self, task: Task, problem: BaseException) -> None:
        with self._state:
            if self._failure is None:
                if task.note:
                    problem.add_note(f"in {task.note}, at site {task.site}")
                self._failure = problem
            self._drop_tasks()
            self._state.notify_all()

    def _drop_tasks(self) -> None:
        for queue in self._queues:
            queue.clear()
        for t in self._tasks.values():
            for n in set(t.needs):
                self._uses[n] -= 1
        self._tasks.clear()
        self._order.clear()
        self._waiting.clear()
        self._readers.clear()

    def wait(self, numbers: Iterable[int]) -> None:
        asked = list(numbers)
        with self._state:
            try:
                while self._failure is None and any(n in self._waiting for n in asked):
                    self._state.wait(0.2)  # so that Ctrl-C is seen
            except BaseException:
                self._drop_tasks()
                raise
            failure = self._failure
        if failure is not None:
            raise failure
        lost = [n for n in asked if n not in self._results]
        if lost:
            raise EngineError(f"results {lost[:3]} are not at the sites any more",
                              hint="the engine was closed, or their tensor was dropped")

    def fetch(self, number: int) -> Any:
        self.wait([number])
        return self._results[number]

    def release(self, numbers: Iterable[int]) -> None:
        with self._state:
            for n in numbers:
                self._unwanted.add(n)
                self._drop_unused(n)

    def sizes(self, numbers: Sequence[int]) -> list[int] | None:
        with self._state:
            return [size_of(self._results[n]) for n in numbers]

    def drop_copies(self, numbers: Iterable[int]) -> None:
        with self._state:
            for n in numbers:
                for site in self._copies.pop(n, ()):
                    self._hold(site, -size_of(self._results[n]))

    def _drop_unused(self, number: int) -> None:
        if number in self._unwanted and not self._uses.get(number) \
                and number not in self._waiting:
            self._unwanted.discard(number)
            if number in self._results:
                size = size_of(self._results[number])
                for site in (self._made_at[number], *self._copies.get(number, ())):
                    self._hold(site, -size)
            for known in (self._results, self._made_at, self._copies, self._uses):
                known.pop(number, None)

    def _hold(self, site: int, size: int) -> None:
        self._bytes[site] += size
        self._peak[site] = max(self._peak[site], self._bytes[site])

    def held(self) -> list[int]:
        with self._state:
            return list(self._bytes)

    def reset(self) -> None:
        super().reset()
        with self._state:
            self._peak = list(self._bytes)

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), "bytes_peak": list(self._peak)}

    def close(self) -> None:
        with self._state:
            self._drop_tasks()
            self._results.clear()
            self._bytes = [0] * self.sites
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
