"""Tasks of one site that are one task: small work goes with the task that alone needs it.

Nothing starts later for it: what is taken in is light (a part that is cut out of a block which lies
there), or is all that its reader waits for."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tensorel.engines.sites.cluster import Task

#: For each argument of a call: None for a result that is given, or the call that makes it and how
#: many results that takes.
Parts = tuple[tuple[Callable[..., Any], int] | None, ...]


def composed(call: Callable[..., Any], parts: Parts, *results: Any) -> Any:
    """A call of which some arguments are made on the spot."""
    rest = iter(results)
    return call(*[next(rest) if p is None else p[0](*[next(rest) for _ in range(p[1])])
                  for p in parts])


def fused(tasks: Sequence[Task], light: Container[int], stay: Container[int]) -> list[Task]:
    """The tasks, which are in an order in which they can run. ``light``: those that do next to
    nothing; ``stay``: whose results are wanted."""
    readers: dict[int, list[int]] = {}
    for t in tasks:
        for n in t.needs:
            readers.setdefault(n, []).append(t.number)
    by_number = {t.number: t for t in tasks}
    taken: dict[int, dict[int, Task]] = {}
    found: list[Task] = []
    for t in tasks:
        inner = taken.pop(t.number, None)
        made = t if inner is None else _with(t, inner, t.number in light)
        who = readers.get(t.number, ())
        reader = by_number[who[0]] if len(who) == 1 else None
        if reader is not None and t.number not in stay and _fits(t, reader, light):
            taken.setdefault(reader.number, {})[t.number] = made
        else:
            found.append(made)
    return found


def _fits(t: Task, reader: Task, light: Container[int]) -> bool:
    if t.site != reader.site or t.shared or reader.shared:
        return False
    return t.number in light or (reader.number in light and len(reader.needs) == 1)


def _with(task: Task, inner: Mapping[int, Task], is_light: bool) -> Task:
    parts: list[tuple[Callable[..., Any], int] | None] = []
    needs: list[int] = []
    for n in task.needs:
        t = inner.get(n)
        parts.append(None if t is None else (t.call, len(t.needs)))
        needs += [n] if t is None else t.needs
    heavy = next(iter(inner.values()))
    return replace(task, call=partial(composed, task.call, tuple(parts)), needs=tuple(needs),
                   work=task.work + sum([t.work for t in inner.values()]),
                   note=heavy.note or task.note if is_light else task.note)
