"""Cases in a process of their own: a peer that takes its process down costs one row, no more."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from optimizer import native
from optimizer.contest import Result, Timing, measure
from suite.case import Case

#: A case that takes longer is given up.
CASE_SECONDS = 240.0
_FORK = multiprocessing.get_context("fork")


def results(cases: Sequence[Case], scale: float, timing: Timing) -> Iterator[Result]:
    """One child measures case after case; where it dies or hangs, another goes on behind."""
    native.missing()  # compiles the loops here, once
    left = list(cases)
    while left:
        receive, send = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_work, args=(send, left, scale, timing), daemon=True)
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


def _work(send: Connection, cases: Sequence[Case], scale: float, timing: Timing) -> None:
    for case in cases:
        send.send(measure(case, scale, timing))
