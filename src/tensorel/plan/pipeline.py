"""The driver: one tuple of passes, each with what it requires, ensures and may change; the driver
derives from that which of them run and when, checks, times and switches them off by name."""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum

from tensorel.base.records import cached_property, dataclass
from tensorel.config import Config
from tensorel.errors import TypeError_
from tensorel.ir.given import about
from tensorel.ir.nodes import Lambda, Reduce, Source, Tensor, postorder
from tensorel.ir.printer import show
from tensorel.ir.replacing import replaced
from tensorel.plan.contraction.order import order_contractions
from tensorel.plan.decisions import Decisions, Option
from tensorel.plan.definitions import (
    Definition,
    Program,
    Ref,
    Stats,
    is_flat,
    is_nested,
    is_sum_product,
)
from tensorel.plan.logical.cut_ranges import cut_ranges
from tensorel.plan.logical.demand import push_demand
from tensorel.plan.logical.dependencies import identify_indices
from tensorel.plan.logical.inlining import inlined
from tensorel.plan.logical.inverses import solve_products
from tensorel.plan.logical.materialize import lift_reductions, store_factors
from tensorel.plan.logical.merge_axes import merge_axes
from tensorel.plan.logical.normalize import (
    flatten_reductions,
    repeat_constants,
    simplify,
    split_definitions,
)
from tensorel.plan.logical.roll_sums import roll_sums
from tensorel.plan.logical.share import share_definitions, share_transposed
from tensorel.plan.logical.split_indices import split_indices
from tensorel.plan.logical.split_pieces import split_pieces
from tensorel.plan.logical.sum_joins import sum_joins
from tensorel.plan.logical.unguard import drop_conditions
from tensorel.plan.logical.windows import Window, windows
from tensorel.plan.loops.fuse import find_fusable
from tensorel.plan.physical import Plan
from tensorel.plan.size_memory import Keys, recall_sizes
from tensorel.plan.slot_facts import Known
from tensorel.plan.steps.choose import Chooser
from tensorel.plan.steps.rankings import in_blocks
from tensorel.plan.variants.factoring import factored
from tensorel.plan.variants.rewritings import expanded
from tensorel.plan.variants.user_laws import explored
from tensorel.plan.variants.window_forms import WINDOW_FORMS

Check = Callable[[Program], bool]


class Stage(Enum):
    """When a pass runs: once on the program as written; to write it another way; or on each way."""

    WRITTEN = "on the program as written"
    VARIANT = "writes the program another way"
    EACH_WAY = "on each way to write the program"


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step of planning, which changes a program, or as a variant gives another one.

    reassociates: changes the order or the number of floating-point operations, or relies on what
        annihilates; off in strict mode.
    optional: off without the optimizer, and where it is disabled by name.
    text: how the way that a variant writes is called.
    combines: the other variants are also written of the program that this variant gives.
    gain: so many times less must the plan of a variant cost to be preferred.
    """

    name: str
    stage: Stage
    requires: Check
    ensures: Check
    run: Callable[[Program], Program | None]
    reassociates: bool = False
    optional: bool = True
    text: str = ""
    combines: bool = False
    gain: Callable[[Config], float] = lambda config: 1.0

    def is_on(self, config: Config) -> bool:
        if self.optional and (self.name in config.disabled or not config.optimize):
            return False
        return not (self.reassociates and config.strict)


def _always(gain: float) -> Callable[[Config], float]:
    return lambda config: gain


#: All passes in order of execution.
PASSES: tuple[Pass, ...] = (
    Pass("solve_products", Stage.WRITTEN, is_nested, is_nested, solve_products, reassociates=True),
    Pass("split_definitions", Stage.WRITTEN, is_nested, is_flat, split_definitions,
         optional=False),
    Pass("simplify", Stage.WRITTEN, is_flat, is_flat, simplify),
    Pass("roll_sums", Stage.WRITTEN, is_flat, is_flat, roll_sums, reassociates=True),
    Pass("drop_conditions", Stage.WRITTEN, is_flat, is_flat, drop_conditions, reassociates=True),
    Pass("cut_ranges", Stage.WRITTEN, is_flat, is_flat, cut_ranges),
    Pass("split_indices", Stage.WRITTEN, is_flat, is_flat, split_indices),
    Pass("sum_joins", Stage.WRITTEN, is_flat, is_flat, sum_joins, reassociates=True),
    Pass("split_pieces", Stage.WRITTEN, is_flat, is_flat, split_pieces, reassociates=True),
    Pass("repeat_constants", Stage.WRITTEN, is_flat, is_flat, repeat_constants,
         reassociates=True),
    Pass("expand", Stage.VARIANT, is_flat, is_flat, expanded, reassociates=True,
         text="expanded", gain=lambda config: config.costs.expand),
    Pass("inline", Stage.VARIANT, is_flat, is_flat, inlined, reassociates=True,
         text="shared sums written out", combines=True),
    Pass("factor", Stage.VARIANT, is_flat, is_flat, factored, reassociates=True, text="factored"),
    *[Pass(name, Stage.VARIANT, is_flat, is_flat, run, reassociates, text=text,
           gain=_always(gain)) for name, run, text, gain, reassociates in WINDOW_FORMS],
    Pass("explore", Stage.VARIANT, is_flat, is_flat, explored, reassociates=True,
         text="by users' laws"),
    Pass("flatten_reductions", Stage.EACH_WAY, is_flat, is_flat, flatten_reductions,
         reassociates=True),
    Pass("lift_reductions", Stage.EACH_WAY, is_flat, is_sum_product, lift_reductions,
         optional=False),
    Pass("identify_indices", Stage.EACH_WAY, is_sum_product, is_sum_product, identify_indices,
         reassociates=True),
    Pass("share_definitions", Stage.EACH_WAY, is_sum_product, is_sum_product, share_definitions),
    Pass("share_transposed", Stage.EACH_WAY, is_sum_product, is_sum_product, share_transposed,
         reassociates=True),
    Pass("push_demand", Stage.EACH_WAY, is_sum_product, is_sum_product, push_demand,
         reassociates=True),
    Pass("order_contractions", Stage.EACH_WAY, is_sum_product, is_sum_product, order_contractions,
         reassociates=True),
    Pass("store_factors", Stage.EACH_WAY, is_sum_product, is_sum_product, store_factors),
    Pass("share_factors", Stage.EACH_WAY, is_sum_product, is_sum_product, share_definitions),
    Pass("merge_axes", Stage.EACH_WAY, is_sum_product, is_sum_product, merge_axes,
         optional=False),
    Pass("fuse", Stage.EACH_WAY, is_sum_product, is_sum_product, find_fusable, reassociates=True),
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what else its planning found: what its definitions are known by, seconds of
    each pass, the last number in names of steps, and what is expected of the results."""

    plan: Plan
    keys: Keys | None
    passes: tuple[tuple[str, float], ...]
    named: int = 0
    outcome: tuple[Known, ...] = ()


def make_plan(roots: list[Tensor], formats: list[object], known: list[Known], config: Config,
              verify: bool = False, decisions: Decisions | None = None) -> Planned:
    """The physical plan of a program over slots; the cheapest, unless decisions are prescribed."""
    unknown = sorted(config.disabled - {p.name for p in PASSES})
    if unknown:
        raise TypeError_(f"no pass is called {unknown[0]!r}, so it cannot be disabled",
                         hint=f"passes are {', '.join(p.name for p in PASSES if p.optional)}")
    with _uncollected():
        parts = windows(roots)
        made = _in_windows(parts, list(zip(roots, formats)), known, config, verify, decisions) \
            if parts else _whole_plan(roots, formats, known, config, verify, decisions)
        return replace(made, plan=in_blocks(made.plan, config)) if config.optimize else made


def _whole_plan(roots: list[Tensor], formats: list[object], known: list[Known], config: Config,
                verify: bool, decisions: Decisions | None, named: int = 0) -> Planned:
    driver, program = written(roots, formats, known, config, verify, decisions, named)
    return _listed(driver, program) if program.decisions.listing else _cheapest(
        driver, program, config)


def _in_windows(parts: list[Window], roots: list[tuple[Tensor, object]], known: list[Known],
                config: Config, verify: bool, decisions: Decisions | None) -> Planned:
    """The plans of the windows of a long program as one: each reads what those before it are
    expected to make."""
    done: list[Planned] = []
    rules: Counter[str] = Counter()
    passes: Counter[str] = Counter()  # seconds
    slots: dict[tuple[Tensor, object], str] = {}
    made: dict[Tensor, Known] = {}
    formats: dict[Tensor, dict[object, None]] = {}
    for t, f in roots:
        formats.setdefault(t, {})[f] = None
    for w in parts:
        stored = [t for t in formats if isinstance(t, Source)] if w is parts[0] else []
        wanted = [(t, f) for t in (*w.made, *stored) for f in formats.get(t, (None,))]
        tensors = replaced([t for t, _ in wanted], {t: made[t].source for t in w.read})
        part = _whole_plan(tensors, [f for _, f in wanted], [*known, *(made[t] for t in w.read)],
                           config, verify, decisions, done[-1].named if done else 0)
        for (t, f), name, result in zip(wanted, part.plan.results, part.outcome):
            slots[t, f] = name
            made.setdefault(t, replace(result, facts=None))  # estimates are no facts
        done.append(part)
        rules.update(dict(part.plan.rules))
        passes.update(dict(part.passes))
    plans = [p.plan for p in done]
    return Planned(Plan(
        tuple([s for p in plans for s in p.steps]), tuple([slots[r] for r in roots]),
        tuple([k.slot.name for k in known]), tuple(rules.items()),
        tuple([d for p in plans for d in p.definitions]),
        tuple(dict.fromkeys([a for p in plans for a in p.asked])),
        call=config.costs.call, windows=len(parts)), None, tuple(passes.items()))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Planning makes many small objects that live until its end: looking for garbage among them,
    and among all others of the process, finds nothing and takes as long as some passes do."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _cheapest(driver: Driver, program: Program, config: Config) -> Planned:
    forms = list(_forms(driver, program))
    made = driver.finish(program.copy())
    assert made is not None
    start: tuple[int, ...] = ()
    for k, form in enumerate(forms):
        best = made.plan
        fits = best.largest <= min(config.memory, config.densify)
        gain = form.variant.gain(config)
        below = best.cost / gain if fits else math.inf
        # every definition takes a step: what has many cannot cost less
        way = form.program if len(program.results) * config.costs.call < below else None
        rival = None if way is None else driver.finish(way.copy(), below)
        if rival is not None and _wins(rival.plan, best, gain, config):
            made, start = rival, (sum(f.program is not None for f in forms[: k + 1]),)
    asked = tuple(program.asked.items())  # by all ways: the choice rests on the answers
    return replace(made, plan=replace(made.plan, start=start, asked=asked),
                   passes=tuple(driver.timings.items()))


def _listed(driver: Driver, program: Program) -> Planned:
    """The way to write the program is a decision like others."""
    forms = ways(driver, program)
    if len(forms) > 1:
        program = program.decisions.decide("form", "", [
            Option(float(k), way, text) for k, (text, way) in enumerate(forms)])
    made = driver.finish(program)
    assert made is not None
    return made


def ways(driver: Driver, program: Program) -> list[tuple[str, Program]]:
    """The ways to write a program, as it is first; ``Plan.start`` numbers them."""
    others = [(f.text, f.program) for f in _forms(driver, program) if f.program is not None]
    return [("as written", program), *others]


class _Form:
    """A program as a variant writes it, or writes another form; made when it is asked for."""

    def __init__(self, driver: Driver, variant: Pass, program: Program, base: _Form | None) -> None:
        self.driver, self.variant, self._written, self.base = driver, variant, program, base

    @property
    def text(self) -> str:
        return f"{self.base.text}, {self.variant.text}" if self.base else self.variant.text

    @cached_property
    def program(self) -> Program | None:
        """None where the variant has nothing to write."""
        before = self.base.program if self.base else self._written
        return None if before is None else self.driver.apply(self.variant, before)


def _forms(driver: Driver, program: Program) -> Iterator[_Form]:
    """All other ways: by each variant, and by the others of what a combining one writes."""
    variants = [p for p in PASSES if p.stage is Stage.VARIANT and p.is_on(program.config)]
    first = [_Form(driver, v, program, None) for v in variants if v.combines]
    for base in (None, *first):
        if base is not None:
            yield base
        yield from (_Form(driver, v, program, base) for v in variants if not v.combines)


def written(roots: list[Tensor], formats: list[object], known: list[Known], config: Config,
            verify: bool, decisions: Decisions | None, named: int = 0) -> tuple[Driver, Program]:
    """The program after the passes that all ways to write it share; numbers of its names follow
    after ``named``."""
    stats: dict[object, Stats] = {}
    slots: dict[object, Known] = {}
    for k in known:
        size = about(k.source.shape)
        stats[k.slot] = Stats(k.count, size, k.slot.format.is_dense, k.facts, k.rows,
                              k.stores)
        slots[k.slot] = k
    program = Program([], [], stats, config, named, decisions=decisions or Decisions(),
                      keys=Keys({k.slot: k.token for k in known if k.token is not None}))
    by_key: dict[tuple[Tensor, object], str] = {}
    for root, fmt in zip(roots, formats):
        key = (root, fmt)
        if key not in by_key:
            by_key[key] = program.fresh("out")
            program.definitions.append(Definition(by_key[key], root, fmt))  # type: ignore[arg-type]
        program.results.append(by_key[key])
    _share_roots(program)
    driver = Driver(slots, verify, named)
    driver.run(program, Stage.WRITTEN)
    return driver, program


def _wins(rival: Plan, plan: Plan, gain: float, config: Config) -> bool:
    """The rival costs so many times less, or fits where the plan does not."""
    limit = min(config.memory, config.densify)
    fits, rival_fits = (p.largest <= limit for p in (plan, rival))
    return rival_fits and (not fits or rival.cost * gain < plan.cost)


class Driver:
    """Runs the passes that are on: checks and times each. ``timings``: seconds of each pass, over
    all ways to write the program."""

    def __init__(self, slots: dict[object, Known], verify: bool, named: int = 0) -> None:
        self.slots, self.verify, self.named = slots, verify, named
        self.timings: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start

    def apply(self, p: Pass, program: Program) -> Program | None:
        """The program that a variant writes; None of other passes, which change the program."""
        assert not self.verify or p.requires(program), f"{p.name} requires {p.requires.__name__}"
        with self.timed(p.name):
            other = p.run(program)
        assert not self.verify or p.ensures(other or program), \
            f"{p.name} ensures {p.ensures.__name__}"
        return other

    def run(self, program: Program, stage: Stage, below: float = math.inf) -> bool:
        """The passes of a stage; False if no plan of the program can cost less than ``below``:
        every formula takes a step."""
        for p in PASSES:
            if p.stage is not stage:
                continue
            formulas = sum(isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Reduce)
                           for d in program.definitions)
            if formulas * program.config.costs.call >= below:
                return False
            if p.is_on(program.config):
                self.apply(p, program)
        return True

    def finish(self, program: Program, below: float = math.inf) -> Planned | None:
        """The physical plan of a program that has been through the passes before; None if it
        cannot cost less than ``below``."""
        if not self.run(program, Stage.EACH_WAY, below):
            return None
        with self.timed("choose_loops"):
            recall_sizes(program)
            chooser = Chooser(program, dict(self.slots))
            chooser.counter = self.named
            plan = chooser.run()
        return Planned(plan, program.keys, tuple(self.timings.items()),
                       max(program.counter, chooser.counter),
                       tuple([chooser.known[Ref(n)] for n in program.results]))


def _share_roots(program: Program) -> None:
    """The same formula asked for in two formats is computed once and converted."""
    first: dict[Tensor, Definition] = {}
    kept: list[Definition] = []
    for d in program.definitions:
        if d.tensor in first and not isinstance(d.tensor, Source):
            source = first[d.tensor].source()
            kept.append(Definition(d.name, source, d.format, source.fill))
        else:
            first.setdefault(d.tensor, d)
            kept.append(d)
    program.definitions = kept


def logical_text(plan: Plan) -> str:
    """The logical program after all passes, one definition a line."""
    lines = []
    for d in plan.definitions:
        names: dict[Tensor, str] = {}
        for n in postorder(d.tensor):
            if isinstance(n, Source):
                names[n] = getattr(n.data, "name", str(n.data))
        lines.append(f"{d.name} = {show(d.tensor, names)}")
    return "\n".join(lines)
