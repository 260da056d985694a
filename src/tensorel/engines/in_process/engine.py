"""The local engine: plans are cached, steps run one after another, kernels on all threads."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from weakref import ref

import numpy as np

from tensorel.algebra.convolutions import is_product
from tensorel.base import memory_regions
from tensorel.base.forks import renewed
from tensorel.config import Config, current
from tensorel.engines.annihilation import warn_of_annihilated
from tensorel.engines.binding import Bound, bind
from tensorel.engines.in_process import whole_tensors
from tensorel.engines.in_process.blas_products import run_blas
from tensorel.engines.in_process.kernel_step import make_ready, run_kernel
from tensorel.engines.in_process.plan_state import KernelState, PlanState, StepState, least_bytes
from tensorel.engines.in_process.ranking_blocks import ranked_first
from tensorel.engines.in_process.sparsify import sparsified
from tensorel.engines.in_process.window_runs import in_windows
from tensorel.engines.kept_results import KEPT
from tensorel.errors import EngineError, MemoryLimitError
from tensorel.ir.nodes import Source, Tensor
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.decisions import Decisions
from tensorel.plan.definitions import FINITE, NO_FILLS, OUTER_PRODUCT
from tensorel.plan.explain import Actual
from tensorel.plan.logical.dependencies import has_key
from tensorel.plan.logical.windows import MAX_WHOLE_STEPS, windows
from tensorel.plan.physical import BlasStep, BulkStep, ConvertStep, KernelStep, Plan, Step, ViewStep
from tensorel.plan.pipeline import make_plan
from tensorel.plan.slot_facts import Known, level_sizes
from tensorel.stats.collected.collect import collect
from tensorel.stats.collected.collect import known as known_facts
from tensorel.stats.collected.facts import Axes, TensorStats
from tensorel.stats.collected.locality import locality_of
from tensorel.stats.estimates.join_sampling import Rows, rows_of
from tensorel.storage.convert import count_nonfill, from_dense, to_dense, to_format
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Listed
from tensorel.storage.limits import Holding, show_bytes
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

_plans: OrderedDict[object, PlanState] = OrderedDict()
_lock = renewed(threading.Lock())
MAX_PLANS = 1024
MAX_ERROR, MAX_UNNOTICED_ENTRIES = 2.0, 64  # estimates are far off by a greater factor, of more
MIN_REPLANNED_COST = 1e6  # cost of plans that are worth another planning
UNNOTICED_BYTES = 1 << 16  # bytes that no limit notices
_tokens = itertools.count()
_NOTHING: dict[str, Stored | None] = {}


class Run:
    """One execution of a plan; ``held`` is the size of its inputs and of what is held beside.
    ``kept``: slots of intermediates that are wanted, too, with what they held."""

    __slots__ = ("config", "held", "inputs", "kept", "records", "state")

    def __init__(self, state: PlanState, inputs: dict[str, Stored], config: Config,
                 beside: int = 0) -> None:
        self.state, self.inputs, self.config = state, inputs, config
        self.records: list[Actual] = []
        self.kept: dict[str, Stored | None] = _NOTHING
        self.held = beside
        for stored in inputs.values():
            self.held += stored.nbytes

    @property
    def plan(self) -> Plan:
        return self.state.plan

    def run(self, analyze: bool = False) -> list[Stored]:
        """The results; with ``analyze`` there are records of the steps then."""
        return execute(self, analyze)


def known_of(source: Source, stored: Stored) -> Known:
    """What planning knows of a slot, from the tensor that it stands for."""
    slot = source.data
    assert isinstance(slot, Slot)
    return Known(slot, source, float(stored.count), stored_levels(stored), float(stored.nbytes),
                 stored_degrees(stored), partial(_facts, ref(stored)),
                 tuple([s.format for s in stored.alternatives]), _token(stored),
                 partial(_rows, ref(stored)), partial(_locality, ref(stored)),
                 partial(_stores, ref(stored)))


def _token(stored: Stored) -> int:
    """A number of its own for each stored tensor, as long as it lives."""
    found = stored.derived.token
    if found is None:
        found = stored.derived.token = next(_tokens)
    return found


def _facts(to: ref[Stored], exact: bool) -> TensorStats:
    """Statistics of a stored tensor that a plan must not keep alive."""
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    return collect(stored) if exact else known_facts(stored)


def _rows(to: ref[Stored]) -> Rows | None:
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    found = stored.derived.sample
    if found is None:
        found = stored.derived.sample = (rows_of(stored),)
    return found[0]


def _stores(to: ref[Stored], what: Axes) -> bool:
    """What is asked of the stored values; looked at anew where somebody else may write."""
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    if not isinstance(stored.format, Stack):
        return False
    if what == NO_FILLS:
        if stored.fill == 0 and stored.shared:  # quicker, and asked at each run
            return int(np.count_nonzero(stored.arrays["val"])) == stored.arrays["val"].size
        return count_nonfill(stored) == stored.count
    known = {} if stored.derived.keys is None or stored.shared else stored.derived.keys
    found = known.get(what)
    if found is None:
        found = known[what] = is_product(to_dense(stored)) if what == OUTER_PRODUCT \
            else bool(np.isfinite(stored.arrays["val"]).all())
        if not stored.shared:
            stored.derived.keys = known
    return found


def _locality(to: ref[Stored]) -> float:
    stored = to()
    assert stored is not None, "plans are made while their operands live"
    found = stored.derived.locality
    if found is None:
        found = stored.derived.locality = locality_of(stored)
    return found


def stored_degrees(stored: Stored) -> tuple[float, ...] | None:
    """The longest segment of each level of a stack of dense and compressed levels."""
    known = stored.derived.longest
    if known is None:
        found: list[float] = []
        for axis, level in zip(stored.format.order, stored.format.levels):
            if level.full:
                found.append(float(stored.shape[axis]))
            elif type(level) is Compressed and not level.runs:
                pos = stored.arrays[f"pos{level.depth}"]
                found.append(float(np.diff(pos).max(initial=0)))
        every = len(found) == len(stored.format.levels)
        known = stored.derived.longest = (tuple(found) if every else None,)
    return known[0]


def stored_levels(stored: Stored) -> tuple[float, ...]:
    """Nodes of each level; exact where the arrays tell."""
    found = stored.derived.levels
    if found is None:
        sizes = list(level_sizes(stored.format, stored.shape, float(stored.count)))
        for k, level in enumerate(stored.format.levels):
            if type(level) is Compressed and not level.runs and k == level.depth:
                last = k == len(sizes) - 1  # a view of rows has longer arrays than entries
                sizes[k] = float(stored.count if last else stored.arrays[f"idx{level.depth}"].size)
            elif type(level) is Listed and not level.runs:
                sizes[k] = float(stored.count)
        found = stored.derived.levels = tuple(sizes)
    return found


def plan_for(bound: Bound, formats: Sequence[object], config: Config,
             anew: bool = False) -> PlanState:
    """The plan of a program, kept for operands that are alike; ``anew``: for exactly these."""
    key: object = bound.key
    found = None if anew else _plans.get(key)
    if found is not None and not is_right(found, bound.stored):
        key = bound.key, tuple(answers(found, bound.stored))
        found = _plans.get(key)
        if found is not None and not is_right(found, bound.stored):
            found = None
    if found is None or found.stale:
        again = found is not None
        if not config.strict and not again:
            warn_of_annihilated(bound.nodes)
        found = planned(bound, formats, config)
        found.final = again
        with _lock:
            _plans[key] = found
            while len(_plans) > MAX_PLANS:
                _plans.popitem(last=False)
    return found


def is_right(found: PlanState, stored: Mapping[str, Stored]) -> bool:
    """Whether the guards of a plan hold for these tensors."""
    asked = found.plan.asked
    return not asked or all(_is_key(stored[name], axes) is answer
                            for (name, axes), answer in asked)


def answers(found: PlanState, stored: Mapping[str, Stored]) -> list[bool]:
    return [_is_key(stored[name], axes) for (name, axes), _ in found.plan.asked]


def _is_key(stored: Stored, axes: Axes) -> bool:
    """Whether these axes are a key, which is asked at each run."""
    if axes in (NO_FILLS, FINITE, OUTER_PRODUCT):
        return _stores(ref(stored), axes)
    known = stored.derived.keys
    if known is None:
        known = stored.derived.keys = {}
    found = known.get(axes)
    if found is None:
        found = known[axes] = has_key(partial(_facts, ref(stored)), axes)
    return found


def planned(bound: Bound, formats: Sequence[object], config: Config,
            decisions: Decisions | None = None) -> PlanState:
    """A plan of a program: the cheapest, or with decisions as prescribed."""
    known = [known_of(source, stored) for source, stored in zip(bound.slots, bound.stored.values())]
    made = make_plan(bound.roots, list(formats), known, config, config.verify, decisions)
    return PlanState(made.plan, made.keys, made.passes)


def evaluate(nodes: Sequence[Tensor], config: Config,
             formats: Sequence[str | Format | None], beside: int = 0) -> list[Stored]:
    """Compute the tensors, each in its format (None: as the planner chooses). ``beside``: bytes
    that are held for later."""
    if all([isinstance(n, Source) and f is None for n, f in zip(nodes, formats)]):  # noqa: C419
        return [n.data for n in nodes]  # type: ignore[attr-defined]
    bound = bind(nodes, formats, config)
    parts = windows(nodes) if bound.size > MAX_WHOLE_STEPS else ()
    if parts:
        return in_windows(parts, nodes, formats, lambda part, wanted, more: evaluate(
            part, config, wanted, beside + more))  # type: ignore[arg-type]
    found = plan_for(bound, formats, config)
    if found.blocked:
        first = ranked_first(nodes, found.blocked, lambda parts: evaluate(
            parts, config, [None] * len(parts), beside))
        return evaluate(first, config, formats, beside)
    results = execute(Run(found, bound.stored, config, beside))
    sparse = any([not s.format.is_dense for s in bound.stored.values()])  # noqa: C419
    return [sparsified(r, f, sparse, config.costs) for r, f in zip(results, formats)]


def execute(run: Run, analyze: bool = False) -> list[Stored]:
    """Run the steps; intermediates are dropped after their last use."""
    state, config = run.state, run.config
    if KEPT.bytes_:
        run.held += KEPT.make_room(run.held + state.most, config.memory)
    if run.held + state.least > config.memory or state.densest > config.densify:
        check_memory(run)
    most = run.held + state.most
    regions = memory_regions.REGIONS
    if regions.kept and most + regions.bytes_ > config.memory:
        regions.release()  # what was kept is not this program's
    values = dict(run.inputs)
    held = run.held
    asks = (state.asks or most > config.memory) and (
        most > UNNOTICED_BYTES or current() is not config)
    watch = state.watch
    for k, step in enumerate(state.steps):
        begin = time.perf_counter() if analyze else 0.0
        if analyze and type(step) is KernelState:
            make_ready(step, values, config)
        start = time.perf_counter() if analyze or watch is not None else 0.0
        if asks:
            with Holding(held, config):
                value = run_step(step, values, config, config.memory - held)
        else:
            value = run_step(step, values, config, config.memory - held)
        if config.verify:
            value.check(whole=True)
        values[step.target] = value
        held += value.nbytes
        if watch is not None and type(step) is KernelState:
            watch.note(step.planned or step, time.perf_counter() - start, values, config)
        if state.fresh:
            learn(state.learner, step.step, value)
        if analyze:
            run.records.append(Actual(
                time.perf_counter() - start, start - begin, value.count, value.nbytes))
        for name in state.frees[k]:
            freed = values.pop(name, None)
            if name in run.kept:
                run.kept[name] = freed
            else:
                held -= 0 if freed is None else freed.nbytes
    state.fresh = state.learner.fresh = False
    if watch is not None and watch.finish():
        state.watch = state.learner.watch = None
        state.learner.share_cores()  # steps may have got more threads
    return [values[n] for n in state.plan.results]


def learn(found: PlanState, step: Step, value: Stored) -> None:
    """Remember a size that was misjudged. Plans that take long enough are made anew then."""
    if type(step) is not KernelStep or value.format.is_dense:
        return
    count = value.count
    if max(count, step.count) > MAX_UNNOTICED_ENTRIES \
            and not 1 / MAX_ERROR < count / max(step.count, 1.0) < MAX_ERROR:
        if found.keys is None:
            return
        found.keys.learn(step.target.name, count)
        found.stale = not found.final and found.plan.cost > MIN_REPLANNED_COST


def check_memory(run: Run) -> None:
    """Refuse before allocating: what is certain to exceed the limit, or turns dense silently."""
    config, held = run.config, run.held
    sparse_inputs = any(not s.format.is_dense for s in run.inputs.values())
    for step in run.state.plan.steps:
        needed = held + least_bytes(step)
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


def run_step(state: StepState, values: dict[str, Stored], config: Config, budget: int) -> Stored:
    if type(state) is KernelState:
        return run_kernel(state, values, config, budget)
    step = state.step
    match step:
        case BlasStep():
            return run_blas(step, values, config, budget, state.shares)
        case ConvertStep():
            assert step.format is not None
            source = values[step.source]
            for other in source.alternatives:
                if other.format == step.format:
                    return other
            return to_format(source, step.format)
        case BulkStep():
            return run_bulk(step, values, config)
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


def run_bulk(step: BulkStep, values: dict[str, Stored], config: Config) -> Stored:
    result = whole_tensors.run(step.op, [values[a] for a in step.args], step.params,
                               lambda nodes: evaluate(nodes, config, [None] * len(nodes)))
    fill = step.fill.value
    same = result.fill == fill or (result.fill != result.fill and fill != fill)
    if not same:
        if not result.format.is_dense:
            result = from_dense(to_dense(result), fill)
        else:
            result = Stored(result.format, result.shape, result.dtype, fill, result.arrays)
    return to_format(result, step.target.format)
