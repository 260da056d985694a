"""Steps that take far longer than expected run on more threads from then on, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorel as tr
from tensorel import config as settings
from tensorel.engines.binding import bind
from tensorel.engines.in_process import engine
from tensorel.engines.in_process.engine import Run, execute
from tensorel.engines.in_process.plan_state import KernelState
from tensorel.engines.in_process.stopwatch import MIN_NANOSECONDS, TIMED_RUNS, Stopwatch


def matrix(seed: int) -> tr.Tensor:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((60, 60)) < 0.2, rng.random((60, 60)), 0)
    return tr.asarray(values).to_format("csr")


def made(program: tr.Tensor) -> tuple[Run, KernelState]:
    config = settings.current()
    bound = bind([program.node], [None], config)
    run = Run(engine.planned(bound, [None], config), bound.stored, config)
    (step,) = [s for s in run.state.steps if isinstance(s, KernelState)]
    return run, step


def timed(run: Run, step: KernelState, seconds: float) -> None:
    watch = Stopwatch()
    for _ in range(TIMED_RUNS + 1):
        watch.note(step, seconds, run.inputs, run.config)
        watch.finish()


PROGRAMS: dict[str, tuple[Callable[[tr.Tensor, tr.Tensor], tr.Tensor], bool]] = {
    "product": (lambda a, b: a @ b, True),
    "vector": (lambda a, b: a @ np.ones(60), True),
    "map": (lambda a, b: a * 2.5, True),
    "sum of all": (lambda a, b: a.sum(), False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_slow_steps_get_threads_and_keep_their_bits(name: str) -> None:
    program, changes = PROGRAMS[name]
    with tr.options(threads=2):
        run, step = made(program(matrix(1), matrix(2)))
        before = execute(run)[0]
        timed(run, step, 0.5)
        assert step.threads == (2 if changes else 1)
        after = execute(run)[0]
    assert before.format == after.format
    assert all(np.array_equal(before.arrays[n], after.arrays[n]) for n in before.arrays)


def test_quick_steps_stay_as_planned() -> None:
    with tr.options(threads=2):
        run, step = made(matrix(1) @ matrix(2))
        timed(run, step, MIN_NANOSECONDS / 2e9)
        assert step.threads == 1


def test_the_first_run_does_not_count() -> None:
    with tr.options(threads=2):
        run, step = made(matrix(1) @ matrix(2))
        watch = Stopwatch()
        for seconds in (9.0, 1e-6, 9.0, 9.0):
            watch.note(step, seconds, run.inputs, run.config)
            watch.finish()
        assert step.threads == 1


def test_watches_end() -> None:
    run, _ = made(matrix(1) @ matrix(2))
    for _ in range(TIMED_RUNS + 1):
        assert run.state.watch is not None
        execute(run)
    assert run.state.watch is None
