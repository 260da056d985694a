"""Cases in a process of their own: a peer that takes its process down costs one row, no more."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

from optimizer import native
from optimizer.contest import (
    HIT_LIMIT,
    LOOP_BEHIND,
    PLAN_LIMIT,
    Result,
    Timing,
    again,
    measure,
    merged,
)
from suite.case import Case
from suite.report import BEHIND

#: A case that takes longer is given up.
CASE_SECONDS = 240.0
_FORK = multiprocessing.get_context("fork")


#: Cases that take ours less than this are measured in so many processes.
SHORT_SECONDS, PROCESSES = 0.06, 3
#: So are those that take less than this and are near a limit, by this factor or less.
LONG_SECONDS, CLOSE = 0.5, 0.85
Task = Callable[[Case], Result]


def results(cases: Sequence[Case], scale: float, timing: Timing) -> Iterator[Result]:
    """One child measures case after case; where it dies or hangs, another goes on behind."""
    native.missing()  # compiles the loops here, once
    return _in_children(cases, lambda case: measure(case, scale, timing))


def repeated(cases: Sequence[Case], rows: Sequence[Result], scale: float, timing: Timing
             ) -> list[Result]:
    """The rows, with medians over several processes: of short cases and those that are near a
    limit, and of planning where that is."""
    short = {r.name: frozenset(r.rounds) if _is_close(r) else frozenset[str]()
             for r in rows if not r.wrong and r.ours and (_is_close(r) or _is_planned_long(r))}
    found: dict[str, list[Result]] = {}
    for _ in range(PROCESSES - 1):
        for row in _in_children([c for c in cases if c.name in short], lambda case: again(
                case, scale, timing, short[case.name])):
            found.setdefault(row.name, []).append(row)
    return [merged(r, found.get(r.name, [])) for r in rows]


def _is_close(row: Result) -> bool:
    """One process does not tell."""
    ours = min(row.ours.values())
    if ours < SHORT_SECONDS:
        return True
    near = [ratio / limit for ratio, limit in (
        (row.peer_ratio, BEHIND), (row.loop_ratio, LOOP_BEHIND)) if ratio is not None]
    return ours < LONG_SECONDS and any(CLOSE < x < 1 / CLOSE for x in near)


def _is_planned_long(row: Result) -> bool:
    return row.planning is not None and (
        row.planning.first > PLAN_LIMIT / 2 or row.planning.hit > HIT_LIMIT / 2)


def _in_children(cases: Sequence[Case], task: Task) -> Iterator[Result]:
    left = list(cases)
    while left:
        receive, send = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_work, args=(send, left, task), daemon=True)
        child.start()
        send.close()
        try:
            while left:
                if not receive.poll(CASE_SECONDS):
                    raise TimeoutError(f"took over {CASE_SECONDS:.0f} s")
                row = receive.recv()
                left.pop(0)
                yield row
        except (EOFError, TimeoutError) as error:
            child.kill()
            child.join()
            lost = left.pop(0)
            why = str(error) or f"the process died ({child.exitcode})"
            yield Result(lost.name, lost.program, wrong=why)
        child.join()


def _work(send: Connection, cases: Sequence[Case], task: Task) -> None:
    for case in cases:
        send.send(task(case))
