"""Interleaved timing: all contestants in one process, one after another, round after round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from suite.case import Job

#: A contestant whose second call takes longer is left out, and the report says so.
TOO_SLOW = 20.0

#: A turn of a contestant is so many seconds of calls, at most so many of them; their median counts.
#: A single short call would measure how much of its code and data the others have evicted.
TURN, CALLS = 0.02, 9


@dataclass
class Times:
    """Seconds of each repetition; or why there are none."""

    seconds: list[float] = field(default_factory=list)
    skipped: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


Clock = Callable[[], float]


def once(job: Job, clock: Clock = time.perf_counter) -> float:
    start = clock()
    job()
    return clock() - start


def turn(job: Job, warm: float, clock: Clock = time.perf_counter) -> float:
    """The median of a few calls in a row."""
    calls = min(max(round(TURN / max(warm, 1e-9)), 1), CALLS)
    return statistics.median([once(job, clock) for _ in range(calls)])


def _warm(jobs: Mapping[str, Job], limit: float) -> tuple[dict[str, float], dict[str, Times]]:
    """The time of a warm call of each, and the ones that are out."""
    warm: dict[str, float] = {}
    out: dict[str, Times] = {}
    for name, job in jobs.items():
        try:
            first = once(job)
            warm[name] = once(job) if first < limit else first
        except MemoryError as error:
            out[name] = Times(skipped=f"out of memory: {str(error).splitlines()[0]}")
        except Exception as error:
            out[name] = Times(skipped=f"{type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            if warm[name] > limit:
                out[name] = Times(skipped=f"took {warm.pop(name):.0f} s")
    return warm, out


def interleave(
    jobs: Mapping[str, Job], budget: float, *, least: int = 5, most: int = 40,
    clock: Clock = time.perf_counter,
) -> dict[str, Times]:
    """Times of each job over at least ``least`` rounds, ``budget`` seconds in all where that is
    more. A contestant that is far behind and slow (4x, over 2 s) keeps its warm call alone."""
    warm, result = _warm(jobs, TOO_SLOW)
    fastest = min(warm.values(), default=0.0)
    behind = {n for n, t in warm.items() if t > 2.0 and t > 4 * fastest}
    result |= {n: Times([warm[n]]) for n in behind}
    racing = [n for n in warm if n not in behind]
    result |= {n: Times() for n in racing}
    round_time = sum(max(warm[n], min(TURN, CALLS * warm[n])) for n in racing)
    rounds = min(max(int(budget / round_time), least), most) if racing else 0
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            shift = number % len(racing)
            for name in racing[shift:] + racing[:shift]:
                result[name].seconds.append(turn(jobs[name], warm[name], clock))
    finally:
        gc.enable()
    return {name: result[name] for name in jobs}
