"""The best plan of a program by measurement, over the whole space of plans.

The ways to write the program and its logical decisions are enumerated one by one. Given these, a
plan is a sequence of steps whose costs add up, and what a step costs depends on the choices before
it only through how its operands are stored. So dynamic programming over storages finds the best of
all combinations, with every distinct step executed once."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from optimality.counting import NS_PER_INSTRUCTION, measured
from tensorel.base.records import dataclass, field
from tensorel.config import Config
from tensorel.engines.binding import Bound, bind
from tensorel.engines.in_process.engine import known_of, planned
from tensorel.errors import MemoryLimitError
from tensorel.ir.nodes import Source, Tensor, postorder
from tensorel.ir.printer import show
from tensorel.plan.decisions import Decision, Decisions, Option
from tensorel.plan.definitions import Definition, Program
from tensorel.plan.physical import BulkStep, KernelStep, Plan, Step, ViewStep
from tensorel.plan.pipeline import Stage, ways, written
from tensorel.plan.slot_facts import Known
from tensorel.plan.steps.choose import Chooser
from tensorel.storage.stored import Stored

FORMS = 60  # logical programs at most: of larger spaces nothing is said
HOPELESS = 5.0  # a step is not run if it is estimated to take so many times the best plan


@dataclass
class Found:
    """A way through the plans: its cost in instructions and what it did."""

    cost: float
    estimate: float
    steps: tuple[str, ...]


@dataclass
class Outcome:
    """What the space of a program held."""

    chosen: Found
    best: Found
    plans: float = 0.0  # combinations
    programs: int = 0  # logical programs
    executed: int = 0  # distinct steps
    hopeless: int = 0

    @property
    def ratio(self) -> float:
        return self.chosen.cost / self.best.cost


@dataclass
class State:
    """Definitions done: steps so far, where their values are, and how many ways led here."""

    chooser: Chooser
    values: dict[str, Stored]
    names: dict[str, str]  # of slots: what they hold, the same for all plans
    found: Found
    ways: float = 1.0


@dataclass
class Explorer:
    """The space of one program."""

    node: Tensor
    config: Config
    seen: dict[object, tuple[float, Stored]] = field(default_factory=dict)
    hopeless: int = 0
    large: bool = False
    best: Found = field(default_factory=lambda: Found(math.inf, math.inf, ()))

    def run(self) -> Outcome | None:
        """None where the space is too large."""
        bound = bind([self.node], [None], self.config)
        plan = planned(bound, [None], self.config).plan
        programs = list(islice(self._programs(bound, plan.start), FORMS + 1))
        if self.large or len(programs) > FORMS:
            return None
        chosen = self._chosen(bound, plan)
        outcome = Outcome(chosen, chosen)
        self.best = chosen
        for program, slots in programs:
            outcome.programs += 1
            outcome.plans += self._physical(program, Chooser(program, slots), bound)
        outcome.best = self.best
        outcome.executed, outcome.hopeless = len(self.seen), self.hopeless
        return outcome

    def _chosen(self, bound: Bound, plan: Plan) -> Found:
        state = _start(bound, None)
        names = _contents(plan.definitions, {})
        for s in plan.steps:
            cost = self._step(s, state, names)
            state.found = _longer(state.found, s, cost)
        return state.found

    def _programs(self, bound: Bound, start: tuple[int, ...]
                  ) -> Iterator[tuple[Program, dict[object, Known]]]:
        """The logical programs, each once, in the form that was chosen: whether products of sums
        are expanded is decided with a margin for what rounding may lose, not by cost alone."""
        known = [known_of(source, stored)
                 for source, stored in zip(bound.slots, bound.stored.values())]
        driver, first = written(bound.roots, [None], known, self.config, False, Decisions(()))
        forms, texts = ways(driver, first), set()
        for form in [forms[k][1] for k in start or (0,)]:
            stack: list[tuple[int, ...]] = [()]
            while stack:
                picks = stack.pop(0)
                program = form.copy()
                program.decisions = Decisions(picks)
                driver.run(program, Stage.EACH_WAY)
                taken = program.decisions.taken
                for place in range(len(picks), len(taken)):
                    before = tuple(d.pick for d in taken[:place])
                    stack += [(*before, k) for k in range(1, len(taken[place].texts))]
                if len(stack) > 2 * FORMS:
                    self.large = True
                    return
                text = tuple(_contents(program.definitions, {}).values())
                if text in texts:
                    continue
                texts.add(text)
                yield program, dict(driver.slots)

    def _physical(self, program: Program, chooser: Chooser, bound: Bound) -> float:
        """Follow all physical choices of a program; the number of its plans."""
        contents = _contents(program.definitions, {})
        states: dict[object, State] = {(): _start(bound, chooser)}
        for d in program.definitions:
            following: dict[object, State] = {}
            for state in states.values():
                for after in self._define(d, state, contents):
                    key = tuple(sorted(
                        (after.names[k.slot.name], k.slot.format.name)
                        for k in after.chooser.known.values() if k.slot.name in after.names))
                    same = following.get(key)
                    if same is None or after.found.cost < same.found.cost:
                        if same is not None:
                            after.ways += same.ways
                        following[key] = after
                    else:
                        same.ways += after.ways
            states = following
        for state in states.values():
            if state.found.cost < self.best.cost:
                self.best = state.found
        return sum(s.ways for s in states.values())

    def _define(self, d: Definition, state: State, contents: dict[str, str]) -> Iterator[State]:
        """All ways to compute a definition after what has been done."""
        stack: list[tuple[int, ...]] = [()]
        done = len(state.chooser.steps)
        memo: dict[tuple[int, ...], list[Option[Any]]] = {}
        while stack:
            picks = stack.pop(0)
            chooser = _fork(state.chooser, Decisions(picks, memo))
            chooser.place(d)
            taken = chooser.program.decisions.taken
            for place in range(len(picks), len(taken)):
                before = tuple(x.pick for x in taken[:place])
                stack += [(*before, k) for k in self._promising(taken[place])]
            after = State(chooser, dict(state.values), dict(state.names), state.found, state.ways)
            if self._follow(chooser.steps[done:], after, contents):
                yield after

    def _promising(self, d: Decision) -> list[int]:
        """Other options of a decision, without loops that are estimated to take far too long."""
        others = range(1, len(d.texts))
        if d.kind != "loops":
            return list(others)
        limit = HOPELESS * self.best.cost * NS_PER_INSTRUCTION
        kept = [k for k in others if d.costs[k] <= limit]
        self.hopeless += len(others) - len(kept)
        return kept

    def _follow(self, steps: list[Step], state: State, contents: dict[str, str]) -> bool:
        """Run the steps; False once they cost more than the best plan."""
        for s in steps:
            if s.cost > HOPELESS * self.best.cost * NS_PER_INSTRUCTION:
                self.hopeless += 1
                return False
            try:
                cost = self._step(s, state, contents)
            except MemoryLimitError:
                return False
            state.found = _longer(state.found, s, cost)
            if state.found.cost >= self.best.cost:
                return False
        return True

    def _step(self, s: Step, state: State, contents: dict[str, str]) -> float:
        """The cost of a step, from an earlier run of the same if there was one."""
        name = s.target.name
        if isinstance(s, BulkStep):
            raise MemoryLimitError("operators on whole tensors are not counted", hint="")
        inputs = [state.names[n] for n in s.inputs]
        own = contents.get(name)
        if own is None:  # a copy in another storage, or other keys
            own = inputs[0] if not isinstance(s, KernelStep) else f"{s.text} {inputs}"
        stored = [state.values[n].format.name for n in s.inputs]
        key = (own, type(s).__name__, s.target.format, tuple(inputs), tuple(stored), _how(s))
        found = self.seen.get(key)
        if found is None:
            found = self.seen[key] = measured(s, state.values, self.config)
        cost, state.values[name] = found
        state.names[name] = own
        return cost


def _how(s: Step) -> object:
    if isinstance(s, ViewStep):
        return s.permutation, s.start
    if not isinstance(s, KernelStep) or s.nest is None:
        return None
    n, out = s.nest, s.nest.output
    return (n.loops, n.gallop, out.assembly.value, out.axes, out.dense, out.dense_tail, s.order,
            s.finish, str(n.body))


def _longer(found: Found, s: Step, cost: float) -> Found:
    loops = ""
    if isinstance(s, KernelStep) and s.nest is not None:
        n = s.nest
        searched = "".join(f", {name} searched at level {k}" for name, k in sorted(n.gallop))
        loops = f" by {' > '.join(n.loops)} to {n.output.assembly.value}{searched}"
    text = f"{s.text}{loops} -> {s.target.format.name}: {cost:,.0f} counted, " \
        f"{s.cost / NS_PER_INSTRUCTION:,.0f} estimated"
    return Found(found.cost + cost, found.estimate + s.cost, (*found.steps, text))


def _start(bound: Bound, chooser: Chooser | None) -> State:
    return State(chooser, dict(bound.stored), {n: n for n in bound.stored},  # type: ignore[arg-type]
                 Found(0.0, 0.0, ()))


def _fork(chooser: Chooser, decisions: Decisions) -> Chooser:
    other = copy.copy(chooser)
    other.program = replace(chooser.program, decisions=decisions)
    other.known, other.steps = dict(chooser.known), list(chooser.steps)
    other.conversions = dict(chooser.conversions)
    return other


def _contents(definitions: list[Definition], found: dict[str, str]) -> dict[str, str]:
    """What each definition holds, written out down to the inputs."""
    for d in definitions:
        names: dict[Tensor, str] = {
            n: found.get(getattr(n.data, "name", ""), getattr(n.data, "name", ""))
                 for n in postorder(d.tensor) if isinstance(n, Source)}
        found[d.name] = f"({show(d.tensor, names)})"
    return found
