"""The local engine: plans are cached, steps run one after another, kernels on all threads."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from weakref import ref

import numpy as np

from tensorel import recycling
from tensorel.config import Config
from tensorel.engines import bulk
from tensorel.engines.binding import Bound, bind
from tensorel.engines.blocked import ranked_first
from tensorel.engines.kernel_step import make_ready, run_kernel
from tensorel.engines.products import dense_array, run_blas
from tensorel.engines.stopwatch import Stopwatch
from tensorel.engines.thin import thinned
from tensorel.errors import EngineError, MemoryLimitError, TypeError_
from tensorel.forks import renewed
from tensorel.ir.nodes import Source, Tensor
from tensorel.kernels.assemble import lower_nest
from tensorel.kernels.printer import show as show_kernel
from tensorel.kernels.spec import Slot
from tensorel.kernels.workspaces import hopeful
from tensorel.plan.decide import Decisions, runner_up
from tensorel.plan.dependencies import has_key
from tensorel.plan.explain import LEVELS, Actual, Explanation
from tensorel.plan.known import Known, level_sizes
from tensorel.plan.physical import BlasStep, BulkStep, ConvertStep, KernelStep, Plan, Step, ViewStep
from tensorel.plan.pipeline import make_plan
from tensorel.plan.rankings import Blocked, mark_rankings
from tensorel.records import dataclass, field
from tensorel.stats.collect import collect
from tensorel.stats.collect import known as known_facts
from tensorel.stats.facts import Axes, TensorStats
from tensorel.stats.pilot import Rows, rows_of
from tensorel.stats.reach import reach_of
from tensorel.storage.convert import from_dense, to_dense, to_format
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Listed
from tensorel.storage.limits import show_bytes
from tensorel.storage.stored import Stored

_plans: OrderedDict[object, Planned] = OrderedDict()
_lock = renewed(threading.Lock())
MAX_PLANS = 1024
OFF, FEW = 2.0, 64  # estimates are far off by this factor, where there are more entries than few
WORTH = 1e6  # cost of plans that are worth another planning
_tokens = itertools.count()


@dataclass(slots=True)
class Planned:
    """A plan with what the check of its memory asks first: the most bytes that a step surely
    allocates, the size of its largest dense result, and what all may take at once. ``fresh``: it
    has not run yet, so its estimates are to be compared with what it does; ``stale``: they were
    far off, and another plan may be better."""

    plan: Plan
    least: float
    densest: float
    most: float
    fresh: bool = True
    stale: bool = False
    final: bool = False  # made after such a comparison: there is no third
    blocked: Blocked = field(default_factory=dict)  # rankings that run in blocks
    watch: Stopwatch | None = field(default_factory=Stopwatch)  # until enough runs were timed


class Run:
    """One execution of a plan; ``held`` is the size of its inputs."""

    __slots__ = ("config", "held", "inputs", "planned", "records")

    def __init__(self, planned: Planned, inputs: dict[str, Stored], config: Config) -> None:
        self.planned, self.inputs, self.config = planned, inputs, config
        self.records: list[Actual] = []
        self.held = 0
        for stored in inputs.values():
            self.held += stored.nbytes


def _known(source: Source, stored: Stored) -> Known:
    slot = source.data
    assert isinstance(slot, Slot)
    return Known(slot, source, float(stored.count), stored_levels(stored), float(stored.nbytes),
                 stored_degrees(stored), partial(_facts, ref(stored)),
                 tuple([s.format for s in _alternatives(stored)]), _token(stored),
                 partial(_rows, ref(stored)), partial(_reach, ref(stored)))


def _token(stored: Stored) -> int:
    """A number of its own for each stored tensor, as long as it lives."""
    return stored.facts.setdefault("token", next(_tokens))  # type: ignore[return-value]


def _alternatives(stored: Stored) -> tuple[Stored, ...]:
    """The same tensor in other storages."""
    return stored.facts.get("alternatives", ())  # type: ignore[return-value]


def _facts(to: ref[Stored], exact: bool) -> TensorStats:
    """Statistics of a stored tensor that a plan must not keep alive."""
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    return collect(stored) if exact else known_facts(stored)


def _rows(to: ref[Stored]) -> Rows | None:
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    if "rows" not in stored.facts:
        stored.facts["rows"] = rows_of(stored)
    return stored.facts["rows"]  # type: ignore[return-value]


def _reach(to: ref[Stored]) -> float:
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    if "reach" not in stored.facts:
        stored.facts["reach"] = reach_of(stored)
    return stored.facts["reach"]  # type: ignore[return-value]


def stored_degrees(stored: Stored) -> tuple[float, ...] | None:
    """The longest segment of each level of a stack of dense and compressed levels."""
    if "degrees" not in stored.facts:
        found: list[float] = []
        for axis, level in zip(stored.format.order, stored.format.levels):
            if level.full:
                found.append(float(stored.shape[axis]))
            elif type(level) is Compressed and not level.runs:
                pos = stored.arrays[f"pos{level.depth}"]
                found.append(float(np.diff(pos).max(initial=0)))
        known = len(found) == len(stored.format.levels)
        stored.facts["degrees"] = tuple(found) if known else None
    return stored.facts["degrees"]  # type: ignore[return-value]


def stored_levels(stored: Stored) -> tuple[float, ...]:
    """Nodes of each level; exact where the arrays tell."""
    found = stored.facts.get("levels")
    if found is None:
        sizes = list(level_sizes(stored.format, stored.shape, float(stored.count)))
        for k, level in enumerate(stored.format.levels):
            if type(level) is Compressed and not level.runs and k == level.depth:
                last = k == len(sizes) - 1  # a view of rows has longer arrays than entries
                sizes[k] = float(stored.count if last else stored.arrays[f"idx{level.depth}"].size)
            elif type(level) is Listed and not level.runs:
                sizes[k] = float(stored.count)
        found = stored.facts["levels"] = tuple(sizes)
    return found  # type: ignore[return-value]


def plan_for(bound: Bound, formats: Sequence[object], config: Config,
             anew: bool = False) -> Planned:
    """The plan of a program; ``anew``: for exactly these statistics, not of the same class."""
    key: object = bound.key
    found = None if anew else _plans.get(key)
    if found is not None and not is_right(found, bound.stored):
        key = bound.key, tuple(answers(found, bound.stored))
        found = _plans.get(key)
        if found is not None and not is_right(found, bound.stored):
            found = None
    if found is None or found.stale:
        again = found is not None
        found = planned(bound, formats, config)
        found.final = again
        with _lock:
            _plans[key] = found
            while len(_plans) > MAX_PLANS:
                _plans.popitem(last=False)
    return found


def is_right(found: Planned, stored: Mapping[str, Stored]) -> bool:
    """These tensors answer what was asked when the plan was made as those did."""
    for (name, axes), answer in found.plan.asked.items():
        if _is_key(stored[name], axes) is not answer:
            return False
    return True


def answers(found: Planned, stored: Mapping[str, Stored]) -> list[bool]:
    return [_is_key(stored[name], axes) for name, axes in found.plan.asked]


def _is_key(stored: Stored, axes: Axes) -> bool:
    """Whether these axes are a key, which is asked at each run."""
    known: dict[Axes, bool] = stored.facts.setdefault("keys", {})  # type: ignore[assignment]
    found = known.get(axes)
    if found is None:
        found = known[axes] = has_key(partial(_facts, ref(stored)), axes)
    return found


def planned(bound: Bound, formats: Sequence[object], config: Config,
            decisions: Decisions | None = None) -> Planned:
    """A plan of a program: the cheapest, or with decisions as prescribed."""
    known = [_known(source, stored) for source, stored in zip(bound.slots, bound.stored.values())]
    plan = make_plan(bound.roots, list(formats), known, config, config.verify, decisions)
    blocked = mark_rankings(plan, config) if config.optimize else {}
    share_cores(plan)
    return Planned(
        plan, max([_least_bytes(s) for s in plan.steps], default=0.0),
        max([s.bytes_ for s in plan.steps if s.target.format.is_dense], default=0.0),
        plan.peak_bound(0), blocked=blocked)


def share_cores(plan: Plan) -> None:
    """Products leave the cores to kernels, where these use several."""
    if any(type(s) is KernelStep and s.threads > 1 for s in plan.steps):
        for step in plan.steps:
            if type(step) is BlasStep:
                step.shares = True


def evaluate(nodes: Sequence[Tensor], config: Config,
             formats: Sequence[str | Format | None]) -> list[Stored]:
    """Compute the tensors, each in its format (None: as the planner chooses)."""
    if all([isinstance(n, Source) and f is None for n, f in zip(nodes, formats)]):  # noqa: C419
        return [n.data for n in nodes]  # type: ignore[attr-defined]
    bound = bind(nodes, formats, config)
    found = plan_for(bound, formats, config)
    if found.blocked:
        first = ranked_first(nodes, found.blocked, lambda parts: evaluate(
            parts, config, [None] * len(parts)))
        return evaluate(first, config, formats)
    results = execute(Run(found, bound.stored, config))
    if all([s.format.is_dense for s in bound.stored.values()]):  # noqa: C419
        return results
    return [r if f is not None or not r.format.is_dense else thinned(r, config.costs)
            for r, f in zip(results, formats)]


def execute(run: Run, analyze: bool = False) -> list[Stored]:
    """Run the steps; intermediates are dropped after their last use."""
    plan, config = run.planned.plan, run.config
    if run.held + run.planned.least > config.memory or run.planned.densest > config.densify:
        check_memory(run)
    regions = recycling.REGIONS
    if regions.kept and run.held + run.planned.most + regions.bytes_ > config.memory:
        regions.release()  # what was kept is not this program's
    values = dict(run.inputs)
    held = run.held
    watch = run.planned.watch
    for k, step in enumerate(plan.steps):
        begin = time.perf_counter() if analyze else 0.0
        if analyze and type(step) is KernelStep:
            make_ready(step, values, config)
        start = time.perf_counter() if analyze or watch is not None else 0.0
        value = run_step(step, values, config, config.memory - held)
        values[step.target.name] = value
        held += value.nbytes
        if watch is not None:
            watch.note(k, step, time.perf_counter() - start, values, config)
        if run.planned.fresh:
            learn(run.planned, step, value)
        if analyze:
            run.records.append(Actual(
                time.perf_counter() - start, start - begin, value.count, value.nbytes))
        for name in plan.frees.get(k, ()):
            freed = values.pop(name, None)
            held -= 0 if freed is None else freed.nbytes
    run.planned.fresh = False
    if watch is not None and watch.finish():
        run.planned.watch = None
        share_cores(plan)  # steps may have got more threads
    return [values[n] for n in plan.results]


def learn(found: Planned, step: Step, value: Stored) -> None:
    """Remember a size that was misjudged. Plans that take long enough are made anew then."""
    if type(step) is not KernelStep or value.format.is_dense:
        return
    count = value.count
    if max(count, step.count) > FEW and not 1 / OFF < count / max(step.count, 1.0) < OFF:
        assert found.plan.keys is not None
        found.plan.keys.learn(step.target.name, count)
        found.stale = not found.final and found.plan.cost > WORTH


def check_memory(run: Run) -> None:
    """Refuse before allocating: what is certain to exceed the limit, or turns dense silently."""
    config, held = run.config, run.held
    sparse_inputs = any(not s.format.is_dense for s in run.inputs.values())
    for step in run.planned.plan.steps:
        needed = held + _least_bytes(step)
        if needed > config.memory:
            raise MemoryLimitError(
                f"step '{step.text}' would need {show_bytes(int(needed))} with its operands; the "
                f"memory limit is {show_bytes(config.memory)}",
                needed=int(needed), limit=config.memory, step=step.text,
                hint="ask for fewer rows, keep a sparse factor in the product, reduce earlier, or "
                "raise the limit: tr.options(memory=...)")
        if sparse_inputs and step.target.format.is_dense and step.bytes_ > config.densify \
                and step.bytes_ > 2 * held:
            raise MemoryLimitError(
                f"step '{step.text}' would make a dense result of "
                f"{show_bytes(int(step.bytes_))} from operands of {show_bytes(held)}",
                needed=int(step.bytes_), limit=config.densify, step=step.text,
                hint="if you want that, allow it: tr.options(densify='"
                f"{show_bytes(int(step.bytes_ * 1.1) + 1).replace(' ', '')}')")


def _least_bytes(step: Step) -> float:
    """What the step surely allocates."""
    if step.target.format.is_dense:
        return math.prod(float(n) for n in step.shape) * step.dtype.itemsize / step.blocks
    return step.bytes_ * 0.5 if isinstance(step, (KernelStep, BlasStep)) else 0.0


def run_step(step: Step, values: dict[str, Stored], config: Config, budget: int) -> Stored:
    match step:
        case KernelStep():
            return run_kernel(step, values, config, budget)
        case BlasStep():
            return run_blas(step, values, config, budget)
        case ConvertStep():
            assert step.format is not None
            source = values[step.source]
            for other in _alternatives(source):
                if other.format == step.format:
                    return other
            return to_format(source, step.format)
        case BulkStep():
            return run_bulk(step, values)
        case ViewStep():
            return run_view(step, values[step.source])
        case _:
            raise EngineError(f"unknown step {step!r}")


def run_view(step: ViewStep, source: Stored) -> Stored:
    """The source's arrays under another format, cut to a range of rows."""
    arrays = source.arrays
    if step.start is not None:
        level = step.target.format.levels[1]
        assert isinstance(level, Compressed)
        rows = step.shape[step.target.format.order[0]]
        name = f"pos{level.depth}"
        arrays = arrays | {name: arrays[name][step.start : step.start + rows + 1]}
    return Stored(step.target.format, step.shape, step.dtype, source.fill, arrays)


def run_bulk(step: BulkStep, values: dict[str, Stored]) -> Stored:
    if step.op == "one_hot":
        return one_hot(dense_array(values[step.args[0]]), step)
    args = [values[a] for a in step.args]
    if step.op == "take":  # out of range only under a where that is false there
        extent = args[0].shape[step.params[0]]  # type: ignore[call-overload]
        args[1] = from_dense(np.clip(dense_array(args[1]), 0, extent - 1))
    result = bulk.run(step.op, args, step.params, step.shape, step.dtype)
    fill = step.fill.value
    same = result.fill == fill or (result.fill != result.fill and fill != fill)
    if not same:
        if not result.format.is_dense:
            result = from_dense(to_dense(result), fill)
        else:
            result = Stored(result.format, result.shape, result.dtype, fill, result.arrays)
    return to_format(result, step.target.format)


def one_hot(idx: np.ndarray, step: BulkStep) -> Stored:
    """The boolean matrix S[j, k] = (idx[k] == j) as csr."""
    rows = step.shape[0]
    width = np.int32 if idx.size < 2**31 else np.int64
    places = np.argsort(idx, kind="stable").astype(width)
    inside = (idx >= 0) & (idx < rows)
    if not inside.all():  # reads under a where that is false there
        places = places[inside[places]]
        idx = idx[inside]
    pos = np.zeros(rows + 1, width)
    np.cumsum(np.bincount(idx, minlength=rows), out=pos[1:])
    arrays = {"pos1": pos, "idx1": places, "val": np.ones(idx.size, bool)}
    return Stored(step.target.format, step.shape, step.dtype, np.bool_(False), arrays)


def explain(nodes: Sequence[Tensor], config: Config, level: str = "physical",
            analyze: bool = False) -> Explanation:
    """The plan of the tensors; with ``analyze`` it is run and says what happened."""
    if level not in LEVELS:
        raise TypeError_(f"explain has no level {level!r}", hint=f"levels: {', '.join(LEVELS)}")
    formats = [None] * len(nodes)
    bound = bind(nodes, formats, config)
    found = plan_for(bound, formats, config, anew=True)
    plan, run = found.plan, Run(found, bound.stored, config)
    actual: list[Actual] = []
    if analyze and not found.blocked:  # steps that run in blocks have no sizes of their own
        execute(run, analyze=True)
        actual = run.records
    inputs = {
        n: f"{s.format.name} {s.shape} {s.dtype.name}, {s.count:,} stored, {show_bytes(s.nbytes)}"
        for n, s in bound.stored.items()
    }
    code = kernel_texts(plan) if level == "code" else {}
    closest = None if level == "logical" else runner_up(
        lambda decisions: planned(bound, formats, config, decisions).plan, plan.start)
    return Explanation(plan, level, inputs, run.held, actual, code, memory=config.memory,
                       runner_up=closest)


def kernel_texts(plan: Plan) -> dict[str, str]:
    """The loops of each kernel step, as text."""
    return {
        s.target.name: show_kernel(lower_nest(hopeful(s.nest)).kernel)
        for s in plan.steps if isinstance(s, KernelStep) and s.nest is not None
    }
