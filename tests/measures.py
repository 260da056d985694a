"""Measures of work that do not depend on what else the machine does: functions called, processor
time beside a yardstick of the same process, processor time of another process."""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: An empty call of Python, loop included, on the machine for which limits are set.
CALL_NANOSECONDS = 40.0


def calls(run: Callable[[], T]) -> tuple[int, T]:
    """Functions called, and the result: for planning, whose time they follow."""
    profile = cProfile.Profile()
    profile.enable()
    result = run()
    profile.disable()
    return pstats.Stats(profile).total_calls, result  # type: ignore[attr-defined]


def processor_seconds(run: Callable[[], T]) -> tuple[float, T]:
    """Of all threads of this process, and the result."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def least(values: Iterable[float], enough: float) -> float:
    """The least of values that are measured one after another, until one is good enough."""
    best = float("inf")
    for value in values:
        best = min(best, value)
        if best < enough:
            break
    return best


def _nothing() -> None:
    return None


def in_plain_calls(f: Callable[[], object], enough: float, count: int = 20, rounds: int = 50
                   ) -> float:
    """The processor time of a call of ``f`` in calls of an empty Python function: both measured
    in turns, so that a slow or a busy machine is slow for both; the best of many rounds."""
    def rounds_of(f: Callable[[], object], count: int) -> float:
        start = time.thread_time()
        for _ in range(count):
            f()
        return (time.thread_time() - start) / count

    return least((rounds_of(f, count) / rounds_of(_nothing, 200 * count) for _ in range(rounds)),
                 enough)


def allowed(seconds: float) -> float:
    """So many seconds of a processor on which an empty call takes ``CALL_NANOSECONDS``, in seconds
    of this one as it is now: more where calls take longer, for the processor is slow or shares its
    core and its caches; never less."""
    start = time.thread_time()
    for _ in range(200_000):
        _nothing()
    nanoseconds = (time.thread_time() - start) / 200_000 * 1e9
    return seconds * max(1.0, nanoseconds / CALL_NANOSECONDS)


def seconds_of(pid: int) -> float:
    """Processor time that another process has had (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
