"""What the engine learns and keeps of a plan while it runs it: one record for each plan, with one
for each of its steps. The plan itself is a value and stays as it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from tensorel.engines.in_process.stopwatch import Stopwatch
from tensorel.ir.given import Given, Numbers, about
from tensorel.ir.nodes import GivenConst, Reduce, postorder, stated
from tensorel.plan.physical import BlasStep, BulkStep, ConvertStep, KernelStep, Plan, Step
from tensorel.plan.size_memory import Keys

if TYPE_CHECKING:
    from tensorel.engines.in_process.kernel_job import Ready

_ASKING = (BulkStep, ConvertStep)  # steps that ask for their memory while they run


class UnforeseenError(Exception):
    """A kernel that was not needed before depends on numbers that this call has otherwise, so the
    program has to be planned for these."""


class StepState:
    """What is kept of a step. ``shares``: the plan has kernels on several threads, which those of
    BLAS would disturb. ``given``: the fields of the step that hold numbers of the program."""

    __slots__ = ("given", "shares", "step", "target")

    def __init__(self, step: Step) -> None:
        self.step, self.target, self.shares = step, step.target.name, False
        self.given = tuple([name for name in ("shape", "fill", "params", "start")
                            if _is_given(getattr(step, name, None))])

    def at(self, numbers: Numbers) -> Self:
        """The same for other numbers."""
        return self._alike(numbers) if self.given else self

    def _alike(self, numbers: Numbers) -> Self:
        made = object.__new__(type(self))
        step = self.step
        if self.given:
            step = replace(step, **{
                name: _stated(getattr(step, name), numbers) for name in self.given})
        made.step, made.target, made.shares, made.given = step, self.target, self.shares, ()
        return made


def _is_given(x: object) -> bool:
    return any(map(_is_given, x)) if isinstance(x, tuple) else type(x) in (Given, GivenConst)


def _stated(x: Any, numbers: Numbers) -> Any:
    if type(x) is tuple:
        return tuple([_stated(y, numbers) for y in x])
    return numbers.of(x) if type(x) is Given else stated(x, numbers)


class KernelState(StepState):
    """What is kept of a kernel step: on how many threads it runs and what it costs, as planned or
    as measured since; ``least``: nanoseconds of its quickest run that was timed; ``ready``: the
    compiled kernels, by formats of operands and settings. ``planned``, ``numbers``: the state that
    this one is of other numbers of, and these."""

    __slots__ = ("cost", "least", "looks", "nest", "numbers", "planned", "ready", "threads")
    step: KernelStep

    def __init__(self, step: KernelStep) -> None:
        super().__init__(step)
        assert step.nest is not None
        self.nest, self.threads, self.cost, self.least = (
            step.nest, step.threads, step.cost, math.inf)
        self.ready: dict[object, Ready] = {}
        self.planned: KernelState | None = None
        self.numbers: Numbers | None = None
        self.looks: bool | None = None  # the nest has given numbers in it; None: not known yet

    def at(self, numbers: Numbers) -> Self:
        if self.looks is None:
            nest = self.nest
            exprs = [nest.body, nest.output.fill, *nest.output.coords, nest.output.guard,
                     nest.residual, *[let.body for let in nest.lets]]
            self.looks = _is_given(nest.extents) or any(
                type(e) is GivenConst or (type(e) is Reduce and _is_given(e.axes))
                for e in postorder(*[e for e in exprs if e is not None]))
        if not self.looks and not self.given:
            return self
        made = self._alike(numbers)
        made.nest, made.threads, made.cost, made.least = (
            self.nest, self.threads, self.cost, self.least)
        made.ready, made.planned, made.numbers = {}, self, numbers
        return made


def state_of(step: Step) -> StepState:
    """The record of a step that has not run."""
    return KernelState(step) if isinstance(step, KernelStep) else StepState(step)


class PlanState:
    """What is kept of a plan.

    steps, frees: by number of the step.
    least, densest, most: the most bytes that one step surely allocates, those of the largest dense
        result, and what all steps may take at once: what the check of memory asks first.
    fresh: it has not run yet, so its estimates are to be compared with what it does.
    stale: its estimates were far off, and another plan may be better.
    final: it was made because another one was stale, and is not replaced again.
    keys: by which names feedback knows its definitions; None for a plan from another process.
    learner: what is learned from a run is kept here: itself, or that of the numbers planned for.
    """

    __slots__ = ("asks", "blocked", "densest", "final", "frees", "fresh", "keys", "learner",
                 "least", "most", "passes", "plan", "stale", "steps", "watch")

    def __init__(self, plan: Plan, keys: Keys | None = None,
                 passes: tuple[tuple[str, float], ...] = ()) -> None:
        self.plan, self.keys, self.passes = plan, keys, passes
        self.steps = tuple(map(state_of, plan.steps))
        self.frees = plan.frees
        self.blocked = dict(plan.blocked)
        self.least = max([least_bytes(s) for s in plan.steps], default=0.0)
        self.densest = max([s.bytes_ for s in plan.steps if s.target.format.is_dense], default=0.0)
        self.most = plan.peak_bound(0)
        self.asks = any(type(s) in _ASKING for s in plan.steps)
        self.fresh, self.stale, self.final = True, False, False
        self.watch: Stopwatch | None = Stopwatch()  # until enough runs were timed
        self.learner = self
        self.share_cores()

    def at(self, numbers: Numbers) -> PlanState:
        """The same plan with other numbers in its steps."""
        made = object.__new__(PlanState)
        made.plan, made.keys, made.passes, made.learner = self.plan, self.keys, (), self
        made.steps = tuple([s.at(numbers) for s in self.steps])
        made.frees, made.blocked, made.asks = self.frees, self.blocked, self.asks
        made.least, made.densest, made.most = self.least, self.densest, self.most
        if any("shape" in s.given for s in self.steps):
            made.least = max([least_bytes(s.step) for s in made.steps])
            made.densest = max([least_bytes(s.step) * s.step.blocks for s in made.steps
                                if s.step.target.format.is_dense], default=0.0)
        made.fresh, made.stale, made.final, made.watch = (
            self.fresh, self.stale, self.final, self.watch)
        return made

    def share_cores(self) -> None:
        """Products leave the cores to kernels, where these use several."""
        shares = any(isinstance(s, KernelState) and s.threads > 1 for s in self.steps)
        for s in self.steps:
            s.shares = shares


def least_bytes(step: Step) -> float:
    """What the step surely allocates."""
    if step.target.format.is_dense:
        return about(step.shape) * step.dtype.itemsize / step.blocks
    return step.bytes_ * 0.5 if isinstance(step, (KernelStep, BlasStep)) else 0.0
