"""One case: every contestant's answer is compared with ours, then all are timed in turns."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import tensorel as tr
from optimizer import planning
from optimizer.peers import LOOP, WHOLE, Contest, Heavy, Stopped
from optimizer.planning import Planning
from suite.case import Case, Job, Peer, Problem
from suite.compare import difference
from suite.report import BEHIND, Row
from suite.single import run as run_ours
from suite.timing import interleave, once

#: How far ours on one thread may be behind the hand-written loop; limits of planning in seconds.
LOOP_BEHIND, PLAN_LIMIT, HIT_LIMIT = 1.3, 0.020, 100e-6
#: A program of ours that runs longer is stopped.
OURS_SECONDS = 30.0
#: A peer that takes longer, and FAR times as long as ours, in its first and its second call (the
#: first is cold) is not raced.
SLOW, FAR = 0.1, 4.0


@dataclass(frozen=True)
class Timing:
    """threads: of ours, one number after another. seconds: for each case. best: the fastest call
    of each instead of the median; cpu: time of the processor instead of the clock's, both for a
    machine with other work."""

    threads: tuple[int, ...]
    seconds: float = 3.0
    best: bool = False
    cpu: bool = False


@dataclass
class Result(Row):
    """A row whose best peer leaves out the hand-written loop, which has its own column. over:
    peers that were stopped, after so many seconds. estimated: seconds of peers that were not run,
    from smaller data."""

    planning: Planning | None = None
    trouble: str = ""
    over: dict[str, float] = field(default_factory=dict)
    estimated: dict[str, float] = field(default_factory=dict)
    trail: list[str] = field(default_factory=list)
    share: tuple[float, float] | None = None
    processes: int = 1

    @property
    def best_peer(self) -> tuple[str, float] | None:
        rest = {n: t for n, t in self.peers.items() if n not in (LOOP, WHOLE)}
        return min(rest.items(), key=lambda kv: kv[1]) if rest else None

    @property
    def loop_ratio(self) -> float | None:
        """Ours on one thread against the loop, which has one."""
        loop, single = self.peers.get(LOOP), self.ours.get(1)
        return single / loop if loop and single else None

    def gain(self, label: str) -> float | None:
        """How many times faster than this form, which may have been stopped or estimated."""
        theirs = next((t for found in (self.peers, self.over, self.estimated)
                       if (t := found.get(label)) is not None), None)
        return theirs / min(self.ours.values()) if theirs and self.ours else None

    @property
    def peer_ratio(self) -> float | None:
        """Ours on the better number of threads against the best peer."""
        return min((r for t in self.ours if (r := self.ratio(t)) is not None), default=None)

    @property
    def naive_gain(self) -> float | None:
        return self.gain("scipy naive")

    @property
    def faults(self) -> list[str]:
        """What this case does not show, in words."""
        if self.wrong:
            return [self.wrong]
        found = [] if self.ours else ["ours not timed"]
        if self.peer_ratio is not None and self.peer_ratio > BEHIND:
            found.append(f"{self.peer_ratio:.2f}x the best peer")
        if self.loop_ratio is not None and self.loop_ratio > LOOP_BEHIND:
            found.append(f"{self.loop_ratio:.2f}x the loop")
        if self.planning is not None and self.planning.first > PLAN_LIMIT:
            found.append(f"planned in {self.planning.first * 1e3:.0f} ms")
        if self.planning is not None and self.planning.hit > HIT_LIMIT:
            found.append(f"plan found in {self.planning.hit * 1e6:.0f} us")
        return found

    @property
    def severity(self) -> float:
        """The factor that is to be gained, for the order of the list of gaps."""
        if self.wrong:
            return float("inf")
        return max((self.peer_ratio or 0.0) / BEHIND, (self.loop_ratio or 0.0) / LOOP_BEHIND)


def _threaded(problem: Problem, threads: int) -> Any:
    with tr.options(threads=threads):
        return run_ours(problem)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ours is stopped after so long, as Ctrl-C would."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"took over {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _readable(problem: Problem, result: Any) -> Any:
    read = problem.read if isinstance(problem, Contest) else None
    return read(result) if read is not None else result


@dataclass
class Answers:
    """Peers to race, seconds of those that are too slow for it (best of two calls) or were
    stopped, notes on those that do not run, and differences from ours."""

    racing: list[Peer] = field(default_factory=list)
    slow: dict[str, float] = field(default_factory=dict)
    over: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def _answers(problem: Problem, ours: Any, seconds: float) -> Answers:
    """Each peer called once; ``ours`` is None where there is nothing to compare with, ``seconds``
    what a call of ours takes."""
    found = Answers(notes=[f"{p.label} not run: {p.skip}" for p in problem.peers if p.skip])
    for peer in problem.peers:
        if peer.job is None:
            continue
        start = time.perf_counter()
        try:
            theirs = peer.job()
        except Stopped as error:
            found.over[peer.label] = error.seconds
            found.notes.append(f"{peer.label} {error}")
            continue
        except Exception as error:
            found.notes.append(f"{peer.label} not run: {_first_line(error)}")
            continue
        spent, slow = time.perf_counter() - start, max(SLOW, FAR * seconds)
        read = peer.read(theirs) if peer.read else theirs
        gap = "" if ours is None else difference(ours, read)
        if gap:
            found.wrong.append(f"{peer.label}: {gap}")
        elif spent > slow and (again := _again(peer.job, spent)) > slow:
            found.slow[peer.label] = min(spent, again)
        else:
            found.racing.append(peer)
    return found


def _again(job: Callable[[], object], spent: float) -> float:
    """Seconds of a second call; those of the first, if it is stopped this time."""
    try:
        return once(job)
    except Stopped:
        return spent


def estimated(case: Case, scale: float, heavy: Heavy) -> float | None:
    """Seconds of a peer with too much work, in proportion to its work on smaller data."""
    for _ in range(4):
        scale /= 4
        peer = next(p for p in case.setup(scale).peers if p.label == heavy.label)
        if peer.job is not None and isinstance(peer, Heavy) and peer.work:
            return min(once(peer.job), once(peer.job)) * heavy.work / peer.work
    return None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def answer(case: Case, scale: float, without: tuple[str, ...] = ()) -> list[str]:
    """Differences between ours and each peer, but for some libraries, without timing."""
    problem = case.setup(scale)
    problem = replace(problem, peers=tuple(p for p in problem.peers if p.library not in without))
    return _answers(problem, _readable(problem, run_ours(problem)), 1.0).wrong


def measure(case: Case, scale: float, timing: Timing) -> Result:
    """All contestants of one case."""
    row = Result(case.name, case.program)
    problem = case.setup(scale)
    ours, seconds = None, 0.0
    try:
        row.planning = planning.measure(problem)
        with limited(OURS_SECONDS):
            ours = _readable(problem, run_ours(problem))
            seconds = once(partial(run_ours, problem))
    except Exception as error:
        row.wrong, row.trouble = _first_line(error), traceback.format_exc()
    else:
        row.planning = replace(row.planning, hit=planning.hit(problem))
        _of_contest(row, problem)
    answers = _answers(problem, ours, seconds)
    del ours
    row.notes, row.peers, row.over = answers.notes, dict(answers.slow), answers.over
    row.wrong = row.wrong or "; ".join(answers.wrong)
    jobs: dict[str, Job] = {} if row.wrong else {
        f"ours {t}": partial(_threaded, problem, t) for t in timing.threads}
    jobs |= {p.label: p.job for p in answers.racing if p.job is not None}
    _time(row, jobs, timing)
    for peer in problem.peers:
        if isinstance(peer, Heavy) and peer.skip and (s := estimated(case, scale, peer)):
            row.estimated[peer.label] = s
            row.notes.append(f"{peer.label} estimated: {s:.1f} s")
    return row


def _of_contest(row: Result, problem: Problem) -> None:
    if isinstance(problem, Contest):
        row.share = problem.share
        row.trail = problem.trail() if problem.trail else []


def again(case: Case, scale: float, timing: Timing, raced: frozenset[str]) -> Result:
    """The same race once more, in another process: nothing is compared. Without contestants:
    planned only."""
    row = Result(case.name, case.program)
    problem = case.setup(scale)
    row.planning = planning.measure(problem)
    row.planning = replace(row.planning, hit=planning.hit(problem))
    if not raced:
        return row
    run_ours(problem)
    jobs: dict[str, Job] = {f"ours {t}": partial(_threaded, problem, t) for t in timing.threads}
    jobs |= {p.label: p.job for p in problem.peers if p.job is not None and p.label in raced}
    _time(row, jobs, timing)
    return row


def merged(row: Result, others: Sequence[Result]) -> Result:
    """Medians over processes: where arrays lie in memory, and what else the machine does, differ
    from one to the next by more than from call to call. All contestants of a process share its
    luck: medians are those of their times against ours."""
    same = [r for r in (row, *others) if not r.wrong]
    plans = [r.planning for r in same if r.planning is not None]
    raced = [r for r in same if r.ours]
    usual = median([min(r.ours.values()) for r in raced])

    def middle(times: Callable[[Result], float | None]) -> float:
        return usual * median([t / min(r.ours.values()) for r in raced
                               if (t := times(r)) is not None])

    return replace(
        row, ours={t: middle(lambda r, t=t: r.ours.get(t)) for t in row.ours},  # type: ignore[misc]
        peers={n: middle(lambda r, n=n: r.peers.get(n)) for n in row.peers},  # type: ignore[misc]
        processes=len(same),
        planning=row.planning and replace(
            row.planning, first=median([p.first for p in plans]),
            hit=median([p.hit for p in plans])))


def _time(row: Result, jobs: dict[str, Job], timing: Timing) -> None:
    clock = time.process_time if timing.cpu else time.perf_counter
    for name, times in interleave(jobs, timing.seconds, clock=clock).items():
        if times.median is None:
            row.notes.append(f"{name} not timed: {times.skipped}")
        elif name.startswith("ours "):
            row.ours[int(name.split()[1])] = min(times.seconds) if timing.best else times.median
        else:
            row.peers[name] = min(times.seconds) if timing.best else times.median
        row.rounds[name] = len(times.seconds)
