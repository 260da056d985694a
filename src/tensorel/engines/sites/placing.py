"""Where tasks go whose site is gone: to the surviving site that would be ready with them first.

Tasks wait for each other, so that the work that waits at a site counts level by level: a task
competes with those that can run at the same time, not with all that is still to come. A task
without work of its own (a part that is cut, a block that is made) goes where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tensorel.engines.sites.cluster import Task

BANDWIDTH = 5e7  # bytes a second into a site, where nothing better is known


def levels(tasks: Iterable[Task]) -> dict[int, int]:
    """How many tasks have to run before each, one after another; in an order in which they can."""
    found: dict[int, int] = {}
    for t in tasks:
        found[t.number] = 1 + max([found.get(n, 0) for n in t.needs], default=0)
    return found


def place(tasks: Iterable[Task], sites: Sequence[int], load: dict[tuple[int, int], float],
          level: Mapping[int, int], holders: Mapping[int, set[int]], sizes: Mapping[int, int],
          seconds: Callable[[Task], float]) -> dict[int, int]:
    """A site for each task, which are in the order of what they need. ``load``: seconds of work
    that wait at each site on each level, which grow; ``holders``: the sites at which a result lies.
    The time of a task at a site is that of its work and of the inputs that have to come; ties go to
    the first site."""
    waiting = {t.number: t for t in tasks}
    typical = sum(sizes.values()) / len(sizes) if sizes else 1.0
    at: dict[int, int] = {}
    arrived: dict[int, set[int]] = {}

    def holding(number: int) -> set[int]:
        known = holders.get(number, set()) | arrived.get(number, set())
        return known | {at[number]} if number in at else known

    def with_it(task: Task) -> tuple[list[Task], set[int]]:
        """Tasks that go where this one goes, and what all of them need."""
        group, needs, stack = {task.number: task}, set(), list(task.needs)
        while stack:
            n = stack.pop()
            other = waiting.get(n)
            if other is None or other.work or n in at:
                needs.add(n)
            elif n not in group:
                group[n] = other
                stack += other.needs
        return list(group.values()), needs

    heavy = [t for t in waiting.values() if t.work]
    for task in [*heavy, *reversed([t for t in waiting.values() if not t.work])]:
        if task.number in at:
            continue
        group, needs = with_it(task)
        own = sum(map(seconds, group))
        takes = {s: load.get((s, level[task.number]), 0.0) + own for s in sites}
        for n in needs:
            known = holding(n)
            for s in sites:
                if s not in known:
                    takes[s] += sizes.get(n, typical) / BANDWIDTH
        chosen = min(sites, key=lambda s: (takes[s], s))
        load[chosen, level[task.number]] = takes[chosen]
        for n in needs:
            arrived.setdefault(n, set()).add(chosen)
        for t in group:
            at[t.number] = chosen
    return at
