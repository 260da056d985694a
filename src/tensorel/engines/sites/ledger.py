"""What a driver knows of results that lie elsewhere: where, how large, who needs them, and which
tasks would make them again.

A task is kept as long as its result is, or as long as a task that is kept needs that result: a
result that is lost can then be made again from what is still there. Results that were dropped on
the way are made again for that, and dropped again.

While tasks run, a result that nobody needs any more is spare: it stays as long as the sites where
it lies have room. Without it, what is lost would have to be made again from the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tensorel.engines.sites.cluster import Task


class Ledger:
    """``dropped`` is called with the number of each result that is not needed any more. ``room``:
    bytes at a site, above which it keeps nothing that is spare."""

    def __init__(self, dropped: Callable[[int], None], room: float = math.inf) -> None:
        self._dropped, self.room = dropped, room
        self._spare: dict[int, None] = {}  # oldest first
        self._load: dict[int, int] = {}  # bytes at each site
        self._lies: dict[int, dict[int, int]] = {}  # of a result, at which sites how much
        self.tasks: dict[int, Task] = {}
        self.flying: dict[int, int] = {}  # at which site; in an order in which they can run
        self.made_at: dict[int, int] = {}  # of results, and of those that will be
        self.copies: dict[int, set[int]] = {}  # at which other sites a result is
        self.sizes: dict[int, int] = {}
        self._uses: dict[int, int] = {}  # flying tasks that need a result
        self._kept_for: dict[int, int] = {}  # kept tasks that need a result
        self._unwanted: set[int] = set()  # released; dropped after their last use

    def accept(self, task: Task) -> None:
        self.tasks[task.number] = task
        for n in set(task.needs):
            self._kept_for[n] = self._kept_for.get(n, 0) + 1

    def start(self, number: int, site: int) -> None:
        """A task was sent to a site: the first time, or anew."""
        if self.flying.pop(number, None) is None:
            for n in set(self.tasks[number].needs):
                self._uses[n] = self._uses.get(n, 0) + 1
                self._spare.pop(n, None)
            if number in self.sizes and number not in self.made_at:
                self._unwanted.add(number)  # it had been dropped
        self.flying[number] = self.made_at[number] = site
        self.copies.pop(number, None)
        self._lift(number)

    def ready(self, number: int) -> bool:
        """Whether all is known that a task needed."""
        return not any(n in self.flying for n in self.tasks[number].needs)

    def finish(self, number: int, size: int) -> int:
        """A task is done. Gives the bytes that were sent to its site for it."""
        site, moved = self.flying.pop(number), 0
        self.sizes[number] = size
        self._put(number, site)
        for n in set(self.tasks[number].needs):
            copies = self.copies.setdefault(n, set())
            if self.made_at[n] != site and site not in copies:
                copies.add(site)
                self._put(n, site)
                moved += self.sizes[n]
            self._unuse(n)
        self._drop_unused(number)
        self._trim()
        return moved

    def stop(self, number: int) -> None:
        """A task will not be done."""
        del self.flying[number]
        for n in set(self.tasks[number].needs):
            self._unuse(n)
        self._drop(number)
        self._trim()

    def release(self, number: int) -> None:
        if number in self.made_at:
            self._unwanted.add(number)
            self._drop_unused(number)

    def _unuse(self, number: int) -> None:
        self._uses[number] -= 1
        self._drop_unused(number)

    def _drop_unused(self, number: int) -> None:
        if number in self._unwanted and not self._uses.get(number) \
                and number not in self.flying:
            if self.flying:
                self._spare[number] = None
            else:
                self._drop(number)

    def _trim(self) -> None:
        """Drop what is spare: all of it when nothing runs, else where there is no room."""
        full = {s for s, load in self._load.items() if load > self.room}
        if self._spare and (full or not self.flying):
            for n in list(self._spare):
                if self.flying and not full:
                    break
                if not self.flying or not full.isdisjoint(self._lies.get(n, ())):
                    self._drop(n)
                    full = {s for s in full if self._load[s] > self.room}

    def _put(self, number: int, site: int) -> None:
        size = self.sizes[number]
        self._lies.setdefault(number, {})[site] = size
        self._load[site] = self._load.get(site, 0) + size

    def _lift(self, number: int) -> None:
        for site, size in self._lies.pop(number, {}).items():
            self._load[site] -= size

    def _drop(self, number: int) -> None:
        self._unwanted.discard(number)
        self._spare.pop(number, None)
        self._lift(number)
        for known in (self.made_at, self.copies, self._uses):
            known.pop(number, None)
        self._dropped(number)
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Tasks that nothing will need again are not kept."""
        stack = [number]
        while stack:
            n = stack.pop()
            if n in self.made_at or self._kept_for.get(n) or n not in self.tasks:
                continue
            self._kept_for.pop(n, None)
            self.sizes.pop(n, None)
            for need in set(self.tasks.pop(n).needs):
                self._kept_for[need] -= 1
                stack.append(need)

    # -- when sites are gone --------------------------------------------------------------------
    def again(self, begin: Iterable[int], lost: set[int]) -> list[int]:
        """Flying tasks to be sent anew, in order: these, those that need what is lost, and those
        that need the result of such a task."""
        anew = set(begin)
        for number in self.flying:
            if any(n in lost or n in anew for n in self.tasks[number].needs):
                anew.add(number)
        return [n for n in self.flying if n in anew]

    def to_make(self, lost: set[int]) -> list[int]:
        """Results that are not there and from which, or which, what is lost and needed can be made;
        in the order in which to make them. What is lost and spare is made only where one of these
        needs it; the rest of it is dropped."""
        order: list[int] = []
        seen: set[int] = set()
        stack = [(n, False) for n in sorted(lost - self._spare.keys(), reverse=True)]
        while stack:
            number, entered = stack.pop()
            if entered:
                order.append(number)
            elif number not in seen:
                seen.add(number)
                stack.append((number, True))
                stack += [(n, False) for n in self.tasks[number].needs
                          if n in lost or n not in self.made_at]
        for n in lost - seen:
            self._drop(n)
        return order

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """These tasks, each after those of them that it needs."""
        left = set(numbers)
        order: list[int] = []
        stack = [(n, False) for n in sorted(left, reverse=True)]
        while stack:
            number, entered = stack.pop()
            if entered:
                order.append(number)
            elif number in left:
                left.remove(number)
                stack.append((number, True))
                stack += [(n, False) for n in self.tasks[number].needs if n in left]
        return order

    def lie_at(self, number: int, sites: set[int]) -> None:
        """A result is at these sites and nowhere else."""
        home = min(sites)
        self.made_at[number], self.copies[number] = home, sites - {home}
        self._lift(number)
        for site in sites:
            self._put(number, site)

    def held(self, sites: int) -> list[int]:
        return [self._load.get(s, 0) for s in range(sites)]
