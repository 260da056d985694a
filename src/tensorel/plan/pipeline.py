"""The driver: one tuple of named passes, each checked, timed and switchable by name."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tensorel.config import Config
from tensorel.ir.nodes import Bulk, Lambda, Read, Reduce, Source, Tensor, postorder
from tensorel.ir.printer import show
from tensorel.plan.choose import Chooser
from tensorel.plan.contract import order_contractions
from tensorel.plan.decide import Decisions, Option
from tensorel.plan.definitions import Definition, Program, Stats, inner_reductions
from tensorel.plan.demand import push_demand
from tensorel.plan.dependencies import identify_indices
from tensorel.plan.explored import explored
from tensorel.plan.factoring import factored
from tensorel.plan.inlining import inlined
from tensorel.plan.known import Known
from tensorel.plan.lift import lift_reductions, store_factors
from tensorel.plan.logical import flatten_reductions, repeat_constants, simplify, split_definitions
from tensorel.plan.mirror import share_transposed
from tensorel.plan.physical import Plan
from tensorel.plan.pieces import split_pieces
from tensorel.plan.recall import Keys, recall_sizes
from tensorel.plan.share import share_definitions
from tensorel.plan.variants import expanded
from tensorel.records import cached_property, dataclass

Check = Callable[[Program], bool]


def is_nested(program: Program) -> bool:
    return True


def is_flat(program: Program) -> bool:
    """Bodies read Sources only; bulk operators take Sources only."""
    for d in program.definitions:
        if isinstance(d.tensor, Bulk) and not all(isinstance(a, Source) for a in d.tensor.args):
            return False
        if isinstance(d.tensor, Lambda) and any(
            isinstance(n, Read) and not isinstance(n.tensor, Source)
            for n in postorder(d.tensor.body)
        ):
            return False
    return True


def is_sum_product(program: Program) -> bool:
    """Flat, and no reduction inside the reductions left within a body."""
    return is_flat(program) and all(
        not inner_reductions(r.body)
        for d in program.definitions if isinstance(d.tensor, Lambda)
        for r in inner_reductions(
            d.tensor.body.body if isinstance(d.tensor.body, Reduce) else d.tensor.body)
    )


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step of planning. ``optional`` ones can be switched off."""

    name: str
    requires: Check
    ensures: Check
    run: Callable[[Program], None]
    optional: bool = True


PASSES: tuple[Pass, ...] = (
    Pass("split_definitions", is_nested, is_flat, split_definitions, optional=False),
    Pass("simplify", is_flat, is_flat, simplify),
    Pass("split_pieces", is_flat, is_flat, split_pieces),
    Pass("repeat_constants", is_flat, is_flat, repeat_constants),
    Pass("flatten_reductions", is_flat, is_flat, flatten_reductions),
    Pass("lift_reductions", is_flat, is_sum_product, lift_reductions, optional=False),
    Pass("identify_indices", is_sum_product, is_sum_product, identify_indices),
    Pass("share_definitions", is_sum_product, is_sum_product, share_definitions),
    Pass("share_transposed", is_sum_product, is_sum_product, share_transposed),
    Pass("push_demand", is_sum_product, is_sum_product, push_demand),
    Pass("order_contractions", is_sum_product, is_sum_product, order_contractions),
    Pass("store_factors", is_sum_product, is_sum_product, store_factors),
    Pass("share_factors", is_sum_product, is_sum_product, share_definitions),
)

#: Programs are written another way, if they can be, after so many passes.
VARIED = 4


@dataclass(frozen=True, slots=True)
class Variant:
    """Another way to write a program, planned to the end beside the program as written; its plan
    runs if it costs ``gain`` times less. Switched off by name."""

    name: str
    text: str
    write: Callable[[Program], Program | None]
    gain: Callable[[Config], float]


VARIANTS: tuple[Variant, ...] = (
    Variant("expand", "expanded", expanded, lambda config: config.costs.expand),
    Variant("inline", "shared sums written out", inlined, lambda config: 1.0),
    Variant("factor", "factored", factored, lambda config: 1.0),
    Variant("explore", "by users' laws", explored, lambda config: 1.0),
)

#: What reassociates floating-point sums or annihilates: off in strict mode.
REASSOCIATING = frozenset(
    {"split_pieces", "flatten_reductions", "share_transposed", "push_demand", "order_contractions",
     "repeat_constants", "identify_indices"})


def make_plan(roots: list[Tensor], formats: list[object], known: list[Known], config: Config,
              verify: bool = False, decisions: Decisions | None = None) -> Plan:
    """The physical plan of a program over slots; the cheapest, unless decisions are prescribed."""
    with _uncollected():
        driver, program = written(roots, formats, known, config, verify, decisions)
        return _listed(driver, program) if program.decisions.listing else _cheapest(
            driver, program, config)


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


def _cheapest(driver: Driver, program: Program, config: Config) -> Plan:
    forms = list(_forms(program))
    best = driver.finish(program.copy(), PASSES[VARIED:])
    assert best is not None
    for k, form in enumerate(forms):
        fits = best.largest <= min(config.memory, config.densify)
        below = best.cost / form.gain if fits else math.inf
        # every definition takes a step: what has many cannot cost less
        way = None
        if len(program.results) * config.costs.call < below:
            with driver.timed(form.name):
                way = form.program
        plan = None if way is None else driver.finish(way.copy(), PASSES[VARIED:], below)
        if plan is not None and _wins(plan, best, form.gain, config):
            best = plan
            best.start = (sum(f.program is not None for f in forms[: k + 1]),)
    best.passes = list(driver.timings.items())
    return best


def _listed(driver: Driver, program: Program) -> Plan:
    """The way to write the program is a decision like others."""
    forms = ways(program)
    if len(forms) > 1:
        program = program.decisions.decide("form", "", [
            Option(float(k), way, text) for k, (text, way) in enumerate(forms)])
    plan = driver.finish(program, PASSES[VARIED:])
    assert plan is not None
    return plan


def ways(program: Program) -> list[tuple[str, Program]]:
    """The ways to write a program, as it is first; ``Plan.start`` numbers them."""
    others = [(f.text, f.program) for f in _forms(program) if f.program is not None]
    return [("as written", program), *others]


class _Form:
    """Another way to write a program; None where there is nothing to write."""

    def __init__(self, name: str, text: str, gain: float, write: Callable[[], Program | None]
                 ) -> None:
        self.name, self.text, self.gain, self._write = name, text, gain, write

    @cached_property
    def program(self) -> Program | None:
        return self._write()


def _forms(program: Program) -> Iterator[_Form]:
    """All other ways: shared sums written out or not, and each of the variants of that."""
    variants = _variants(program.config)
    shared = [v for v in variants if v.write is inlined]
    forms = [_Form("", "", 1.0, partial(_same, program))]
    forms += [_Form(v.name, v.text, v.gain(program.config), partial(v.write, program))
              for v in shared]
    for base in forms:
        if base.text:
            yield base
        for v in variants:
            if v not in shared:
                text = f"{base.text}, {v.text}" if base.text else v.text
                yield _Form(v.name, text, v.gain(program.config), partial(_of, v, base))


def _same(program: Program) -> Program:
    return program


def _of(variant: Variant, base: _Form) -> Program | None:
    return None if base.program is None else variant.write(base.program)


def written(roots: list[Tensor], formats: list[object], known: list[Known], config: Config,
            verify: bool, decisions: Decisions | None) -> tuple[Driver, Program]:
    """The program after the passes that all ways to write it share."""
    stats: dict[object, Stats] = {}
    slots: dict[object, Known] = {}
    for k in known:
        size = 1.0
        for n in k.source.shape:
            size *= n
        stats[k.slot] = Stats(k.count, size, k.slot.format.is_dense, k.facts, k.rows)
        slots[k.slot] = k
    program = Program([], [], stats, config, decisions=decisions or Decisions(),
                      keys=Keys({k.slot: k.token for k in known if k.token is not None}))
    by_key: dict[tuple[Tensor, object], str] = {}
    for root, fmt in zip(roots, formats):
        key = (root, fmt)
        if key not in by_key:
            by_key[key] = program.fresh("out")
            program.definitions.append(Definition(by_key[key], root, fmt))  # type: ignore[arg-type]
        program.results.append(by_key[key])
    _share_roots(program)
    driver = Driver(slots, verify)
    driver.run(program, PASSES[:VARIED])
    return driver, program


def _variants(config: Config) -> list[Variant]:
    """The other ways to write a program that are switched on."""
    if config.strict or not config.optimize:
        return []
    return [v for v in VARIANTS if v.name not in config.disabled]


def _wins(rival: Plan, plan: Plan, gain: float, config: Config) -> bool:
    """The rival costs so many times less, or fits where the plan does not."""
    limit = min(config.memory, config.densify)
    fits, rival_fits = (p.largest <= limit for p in (plan, rival))
    return rival_fits and (not fits or rival.cost * gain < plan.cost)


class Driver:
    """Runs passes: checks, times and leaves out what is switched off. ``timings``: seconds of
    each pass, over all ways to write the program."""

    def __init__(self, slots: dict[object, Known], verify: bool) -> None:
        self.slots, self.verify = slots, verify
        self.timings: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start

    def run(self, program: Program, passes: tuple[Pass, ...]) -> None:
        config = program.config
        for p in passes:
            if p.optional and (p.name in config.disabled or not config.optimize):
                continue
            if config.strict and p.name in REASSOCIATING:
                continue
            assert not self.verify or p.requires(program), \
                f"{p.name} requires {p.requires.__name__}"
            with self.timed(p.name):
                p.run(program)
            assert not self.verify or p.ensures(program), f"{p.name} ensures {p.ensures.__name__}"

    def finish(self, program: Program, passes: tuple[Pass, ...], below: float = math.inf
               ) -> Plan | None:
        """The physical plan of a program that has been through the passes before; None if it
        cannot cost less than ``below``: every formula takes a step."""
        for k in range(len(passes)):
            formulas = sum(isinstance(d.tensor, Lambda) and isinstance(d.tensor.body, Reduce)
                           for d in program.definitions)
            if formulas * program.config.costs.call >= below:
                return None
            self.run(program, passes[k : k + 1])
        with self.timed("choose_loops"):
            recall_sizes(program)
            definitions = list(program.definitions)
            plan = Chooser(program, dict(self.slots)).run()
        plan.passes = list(self.timings.items())
        plan.definitions = definitions
        plan.keys = program.keys
        plan.asked = program.asked
        return plan


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
