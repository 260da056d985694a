"""Sites that run tasks and hold what they make, and what engines count about them.

A task runs at one site, on results of other tasks, as soon as these have arrived there: nobody
waits for a step to end. Results stay where they were made until they are released. A result that a
task at another site needs is sent there once, however many tasks there need it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any, Self

from tensorel.base.records import dataclass


class Shared:
    """What many tasks are called with, such as a user's function and all that it refers to: sent
    once to a process, and not with each task. ``sent`` belongs to the cluster."""

    __slots__ = ("sent", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.sent: Any = None


@dataclass(frozen=True, slots=True)
class Task:
    """``call(*values that are shared, *results of needs)`` at a site. ``number`` names what it
    makes. ``work``: estimated flops; ``note``: the step and the key of the block, for errors and
    progress. Calls are functions of a module or partials of such, so that they can be sent."""

    number: int
    site: int
    call: Callable[..., Any]
    needs: tuple[int, ...] = ()
    work: float = 0.0
    note: str = ""
    shared: tuple[Shared, ...] = ()


class Cluster(ABC):
    """``memory``: bytes that each site may hold; None: as much as there is. ``threads``: of each
    task."""

    kind: str
    threads: int = 1
    #: Bytes of one tensor that a site may hold as copies, from one program to the next.
    copies_bytes = 1 << 30

    def __init__(self, sites: int, memory: int | None) -> None:
        self.sites, self.memory = sites, memory
        self._next, self._counting = 0, RLock()
        self.reset()

    # -- what backends do -----------------------------------------------------------------------
    @abstractmethod
    def submit(self, tasks: Sequence[Task]) -> None:
        """Run the tasks, each after those it needs, which were submitted before or are among them.
        Returns at once."""

    @abstractmethod
    def wait(self, numbers: Iterable[int]) -> None:
        """Until these results are there. The error of a task that failed is raised here, with its
        note; what was submitted and has not begun is dropped then, and on Ctrl-C."""

    @abstractmethod
    def fetch(self, number: int) -> Any:
        """A result, brought here. Not counted as moved between sites."""

    @abstractmethod
    def release(self, numbers: Iterable[int]) -> None:
        """These results are not needed any more."""

    def drop_copies(self, numbers: Iterable[int]) -> None:
        """Other sites than their own do not need these results any more, for now. A cluster that
        drops copies by itself, where room is needed, has nothing to do."""
        return

    @abstractmethod
    def held(self) -> list[int]:
        """Bytes that each site holds."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind; closing twice does nothing."""

    def sizes(self, numbers: Sequence[int]) -> list[int] | None:
        """Bytes of results that are there; None where that is not known."""
        return None

    def start(self, tasks: Sequence[Task], passing: Sequence[int]) -> None:
        """Submit tasks; of what they make, these results go after their last use."""
        self.submit(tasks)
        self.release(passing)

    def fetched(self, number: int) -> Any:
        """A result, brought here and counted."""
        found = self.fetch(number)
        self.count_driver(size_of(found))
        return found

    @property
    def room_for_copies(self) -> float:
        """Bytes of a tensor's copies from earlier programs that a site may hold: none where memory
        is limited, as a later plan may need all of it."""
        return self.copies_bytes if self.memory is None else 0

    # -- what is counted ------------------------------------------------------------------------
    def number(self) -> int:
        """A name for what a new task makes."""
        with self._counting:
            self._next += 1
            return self._next

    def reset(self) -> None:
        """Count anew."""
        with self._counting:
            self.bytes_moved, self.tasks, self.bytes_driver, self.most_driver = 0, 0, 0, 0
            self.work = [0.0] * self.sites
            self._since = time.perf_counter()

    def count_moved(self, size: int) -> None:
        with self._counting:
            self.bytes_moved += size

    def count_driver(self, size: int) -> None:
        """Bytes of a block that the driver sends to a site, or gets from one."""
        with self._counting:
            self.bytes_driver += size
            self.most_driver = max(self.most_driver, size)

    def count_task(self, site: int, seconds: float) -> None:
        with self._counting:
            self.tasks += 1
            self.work[site] += seconds

    def stats(self) -> dict[str, Any]:
        """Since the last reset: bytes between sites, bytes between them and the driver (in all, and
        of the largest block), tasks, seconds, and for each site the seconds that it worked; the
        bytes that it holds now."""
        with self._counting:
            return {"bytes_moved": self.bytes_moved, "bytes_driver": self.bytes_driver,
                    "largest_driver": self.most_driver, "tasks": self.tasks,
                    "seconds": time.perf_counter() - self._since, "sites": self.sites,
                    "work": list(self.work), "bytes_held": self.held()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def size_of(value: object) -> int:
    """Bytes of a result: a stored tensor, several of them, or nothing."""
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value))
    return int(getattr(value, "nbytes", 0))
