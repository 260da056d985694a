"""The one way from programs to results: by their formulas where they have one, else by nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tensorel.base.records import dataclass
from tensorel.config import Config
from tensorel.engines import checking
from tensorel.engines.binding import Bound, bind, settings_of
from tensorel.engines.in_process.engine import Run, execute, is_right, plan_for
from tensorel.engines.in_process.plan_state import PlanState, UnforeseenError
from tensorel.engines.in_process.sparsify import sparsified
from tensorel.engines.kept_results import KEPT
from tensorel.engines.programs import NO_NUMBERS, Program
from tensorel.engines.registry import DEFAULT, engine_for, engine_of
from tensorel.errors import MemoryLimitError
from tensorel.ir.given import Numbers, Record
from tensorel.ir.nodes import Const, Source, Tensor, const
from tensorel.kernels.runtime import preload
from tensorel.storage.convert import from_dense, to_dense, to_format
from tensorel.storage.entries import make_fill
from tensorel.storage.format import Format, FormatLike
from tensorel.storage.labelling import axes_of, labelled
from tensorel.storage.refreshing import is_shared, look_again, ready
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

MAX_PLANS = 16  # of a formula that are remembered with their numbers
#: Sizes may be so many times those that a plan was made for, and are far below what positions of
#: 32 bits reach.
MAX_GROWTH, MAX_RESIZED_BYTES = 64.0, 2.0**32
Values = tuple[Const, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """Of a formula under some settings: its plan, which leaf goes into which slot, whether leaves
    are sparse, and which slots hold the results of which parts. ``numbers``: it is the plan of
    others with these; ``resized``: its sizes are those of the others."""

    planned: PlanState
    places: tuple[tuple[str, int], ...]
    sparse: bool
    parts: tuple[tuple[str, int], ...]
    numbers: Numbers | None = None
    resized: bool = False


class Plans:
    """Of a formula under some settings: its plans, by records of the numbers in it or, where there
    is none, by the numbers themselves."""

    __slots__ = ("_exact", "_planned")

    def __init__(self) -> None:
        self._planned: dict[Record | Values, Known] = {}
        self._exact: dict[Values, Known] = {}

    def of(self, program: Program) -> tuple[Known | None, Numbers | None]:
        """The plan with these numbers in it, and the numbers if they are beside a record."""
        values = program.values
        found = self._exact.get(values)
        if found is not None and not found.planned.learner.stale:
            return found, None
        known, numbers = self._planned.get(values), None  # planned for exactly these
        if known is None:
            numbers = program.numbers()
            known = None if numbers is None else self._planned.get(numbers.record)
        if known is None or known.planned.stale:
            return None, numbers
        if numbers is not None and not numbers.hold():  # another thread has just planned
            return None, program.numbers()
        return self._at(known, values, numbers), numbers

    def add(self, values: Values, numbers: Numbers | None, known: Known) -> Known:
        """A plan that was made beside the record of the numbers."""
        if len(self._planned) >= MAX_PLANS:
            self._planned.clear()
        self._planned[values if numbers is None else numbers.record] = known
        return self._at(known, values, numbers)

    def _at(self, known: Known, values: Values, numbers: Numbers | None) -> Known:
        learns = known.planned.watch is not None or known.planned.fresh
        if numbers is not None:
            known = Known(known.planned.at(numbers), known.places, known.sparse, known.parts,
                          numbers, numbers.record.estimated)
        if not learns:  # it will be run the same way again
            if len(self._exact) >= MAX_PLANS:
                self._exact.clear()
            self._exact[values] = known
        return known


def expect_programs(stored: Stored) -> None:
    """A tensor is being made: programs will follow. Those of dense tensors alone may do without
    kernels."""
    if preload.pending and not stored.format.is_dense:
        preload.load_early()


def evaluate(programs: Sequence[Program], config: Config, formats: Sequence[FormatLike | None]
             ) -> list[Stored]:
    """The results, each in its format (None: as the program says, or the planner chooses), computed
    together. What was asked for without a format is kept where nobody can write to what it was
    computed from."""
    formats = [p.wanted if f is None else f for p, f in zip(programs, formats)]
    try:
        found = _evaluated(programs, config, formats)
    except MemoryLimitError:
        if not KEPT.bytes_:
            raise
        KEPT.make_room(float("inf"), 0)
        found = _evaluated(programs, config, formats)
    return [_declared(p, r, f) for p, r, f in zip(programs, found, formats)]


def _declared(program: Program, result: Stored, format: FormatLike | None) -> Stored:
    """A result whose program says its storage, with the fill 0."""
    if program.wanted is None or result.fill == 0:
        return result
    if result.format.is_dense and len(result.arrays) == 1:
        zero = make_fill(0, result.dtype)
        return Stored(result.format, result.shape, result.dtype, zero, dict(result.arrays))
    made = from_dense(to_dense(result), 0)
    return made if format is None else to_format(
        made, resolve(format, result.shape, result.dtype))


def _evaluated(programs: Sequence[Program], config: Config, formats: Sequence[FormatLike | None]
               ) -> list[Stored]:
    engine = engine_of(config.engine)
    if len(programs) == 1 and engine is DEFAULT:
        found = _one(programs[0], config, formats[0])
        if found is not None:
            return [found]
    wanted = [f if f is None or isinstance(f, str) else resolve(f, p.shape, p.dtype)
              for p, f in zip(programs, formats)]
    nodes = [_known_node(p, config) for p in programs]
    engine = engine_for(config.engine, nodes)
    results = engine.evaluate(nodes, config, wanted)
    if config.check:
        checking.check(engine, nodes, results, config)
    return [_labelled(p, r) for p, r in zip(programs, results)]


def _labelled(program: Program, result: Stored) -> Stored:
    """A result with the names and labels that follow from the program as it was written."""
    if not program.is_labelled:
        return result
    return labelled(result, axes_of(program.node))


def _one(program: Program, config: Config, format: FormatLike | None) -> Stored | None:
    """The result of a program that is known, or has a formula; strict plans depend on magnitudes,
    which formulas do not know."""
    if config.check:
        return None
    if program.is_kept(config):
        kept = program.result
        assert kept is not None
        if kept.watch is not None:
            look_again(kept)
        return kept if format is None else labelled(to_format(
            kept, resolve(format, kept.shape, kept.dtype)), kept.axes)
    if config.strict or program.data is not None:
        return None
    program.settle(config)
    if program.formula is None:
        return None
    wanted = format if format is None or isinstance(format, str) else resolve(
        format, program.shape, program.dtype)
    return _by_formula(program, config, wanted)


def _known_node(program: Program, config: Config) -> Tensor:
    if program.is_kept(config) and not config.check:
        data = program.result
        assert data is not None
        return Source(data, data.shape, data.dtype, data.fill_const)
    program.settle(config)
    return program.written()


def _by_formula(program: Program, config: Config, format: str | Format | None) -> Stored:
    leaves, formula = program.leaves, program.formula
    assert formula is not None
    for stored in leaves:
        if len(stored.arrays) > 1:  # a dense tensor has values alone
            ready(stored)
    key = format, settings_of(config)
    plans: Plans | None = formula.plans.get(key)
    if plans is None:
        plans = formula.plans[key] = Plans()
    values = program.values
    found, numbers = plans.of(program)
    if found is not None and found.resized and not _has_room(found, leaves, config):
        found = numbers = None
    elif found is not None:
        inputs = {name: leaves[k] for name, k in found.places}
        if is_right(found.planned, inputs):
            with suppress(UnforeseenError):
                return _run(program, found, inputs, config, format)
            numbers = program.numbers()
        elif numbers is None:
            numbers = program.numbers()
    while True:
        given = NO_NUMBERS if numbers is None else dict(
            zip(formula.given(values, program.extents), map(const, numbers.record.numbers)))
        try:
            bound = bind([program.written(given)], [format], config)
            planned = _planned(program, bound, config, format, given)
        except Exception:  # perhaps of a pass that wants to know an extent
            if numbers is None or program.extents == formula.first:
                raise
            formula.rigid, numbers = True, None
            continue
        if numbers is not None and not numbers.hold():
            numbers = program.numbers()  # planning asked more of the numbers of the record
            continue
        found = plans.add(values, numbers, planned)
        with suppress(UnforeseenError):
            return _run(program, found, bound.stored, config, format)
        numbers = program.numbers()


def _has_room(found: Known, leaves: Sequence[Stored], config: Config) -> bool:
    """Whether a plan that was made for other sizes stays far below all limits."""
    state, held = found.planned, sum([s.nbytes for s in leaves])
    most = max(MAX_GROWTH * state.most, state.least)
    return most <= min(config.memory - held, MAX_RESIZED_BYTES) and (
        not found.sparse or state.densest <= config.densify)


def _planned(program: Program, bound: Bound, config: Config, format: str | Format | None,
             given: Mapping[Const, Const]) -> Known:
    planned = plan_for(bound, [format], config)
    assert not planned.blocked, "rankings are no formulas"
    leaves = {id(s): k for k, s in enumerate(program.leaves)}
    places = tuple([(name, leaves[id(s)]) for name, s in bound.stored.items()])
    slots = planned.plan.intermediates(
        bound.over_slots([q.written(given) for q in program.parts]))
    return Known(planned, places, any(not s.format.is_dense for s in program.leaves), tuple(
        [(slot, k) for k, slot in enumerate(slots) if slot is not None]))


def _run(program: Program, known: Known, inputs: dict[str, Stored], config: Config,
         format: str | Format | None) -> Stored:
    run = Run(known.planned, inputs, config)
    if any([is_shared(s) for s in program.leaves]):  # noqa: C419
        result = sparsified(_executed(run, program, known), format, known.sparse, config.costs)
        return _labelled(program, result) if program.is_labelled else result
    named = [(slot, program.parts[k]) for slot, k in known.parts if program.parts[k].is_named]
    if named:
        run.kept = dict.fromkeys([slot for slot, _ in named])
    result = _executed(run, program, known)
    for slot, part in named:
        value = run.kept[slot]
        if value is not None and not part.is_kept(config):
            part.keep(_labelled(part, sparsified(value, None, known.sparse, config.costs)), config)
    result = sparsified(result, format, known.sparse, config.costs)
    if format is None or format == program.wanted:
        result = _declared(program, result, format)
    if program.is_labelled:
        result = _labelled(program, result)
    if format is None or format == program.wanted:
        program.keep(result, config)
    return result


def _executed(run: Run, program: Program, known: Known) -> Stored:
    """The result, if nothing was asked of the numbers meanwhile that these answer otherwise."""
    result = execute(run)[0]
    if known.numbers is not None and not known.numbers.hold():
        raise UnforeseenError
    assert not known.resized or result.shape == program.shape
    return result
