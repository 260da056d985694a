"""Imperative programs over arrays of users: from arguments to lazy results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, update_wrapper
from itertools import combinations
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from tensorel import config
from tensorel.algebra import bulk
from tensorel.engines.programs import Program
from tensorel.errors import RangeError, TypeError_, UnsupportedError
from tensorel.front.array.base import Base, formed, from_stored
from tensorel.front.array.convert import asarray, run
from tensorel.front.languages.loops_driver import Driver
from tensorel.ir import nodes as ir
from tensorel.loops.bulk.division import Division, is_fixed
from tensorel.loops.origin import Origin
from tensorel.loops.sources import python_source
from tensorel.loops.sources.text_source import parse
from tensorel.loops.syntax import (
    Allocate,
    Assign,
    Body,
    For,
    Name,
    Number,
    Return,
    Store,
    names_used,
    stored_arrays,
    walk,
)
from tensorel.loops.types import ArrayOf, Scalar, Type, type_of
from tensorel.loops.undeclared import undeclared
from tensorel.loops.unit import Unit
from tensorel.storage.convert import from_dense

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


class Arguments:
    """What a program is called with: numbers, and tensors by name."""

    def __init__(self, origin: Origin, given: Mapping[str, object],
                 types: Mapping[str, Type] | None = None) -> None:
        self.numbers: dict[str, Any] = {}
        self.tensors: dict[str, Tensor] = {}
        self.types: dict[str, Type] = {}
        for name, value in given.items():
            self._add(origin, name, value)
        self.types.update(types or {})

    def _add(self, origin: Origin, name: str, value: object) -> None:
        if isinstance(value, _NUMBERS):
            if type(value) is int and not -2**63 < value < 2**63:
                raise RangeError(f"{origin.name}: {name} = {value} does not fit 64 bits")
            self.numbers[name] = value
            self.types[name] = type_of(value)
            return
        tensor = _array(origin, name, value)
        if tensor.ndim:
            self.types[name] = ArrayOf(tensor.dtype, tensor.ndim)
        else:
            self.types[name] = Scalar(tensor.dtype)
        self.tensors[name] = tensor

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {n: t.shape for n, t in self.tensors.items() if t.ndim}

    @property
    def sparse(self) -> frozenset[str]:
        """The tensors that are stored, and not as dense arrays."""
        return frozenset(n for n, t in self.tensors.items()
                         if t.known is not None and not t.known.format.is_dense)

    def operands(self, unit: Unit) -> list[Tensor]:
        """One for each parameter of the unit."""
        return [self.tensors[n] if n in self.tensors else _scalar(self.numbers[n], t)
                for n, t in unit.parameters]


def _array(origin: Origin, name: str, value: object) -> Tensor:
    if value is None or isinstance(value, str | dict | set) or callable(value):
        raise TypeError_(f"{origin.name}: {name} is {type(value).__name__}",
                         hint="loops take numbers and arrays")
    return asarray(value)


def _scalar(value: Any, t: Type) -> Tensor:
    return from_stored(from_dense(np.asarray(value, t.dtype)))


class Loops:
    """A Python function compiled from its source. ``meaning``: the function as it was written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.meaning = function
        update_wrapper(self, function)
        self.origin = python_source.origin_of(function)
        self._signature = inspect.signature(function)
        self._units: dict[object, Unit] = {}
        self.names, self.body = python_source.statements(
            self.origin, python_source.outside_of(function))

    def __repr__(self) -> str:
        return f"<loops {self.origin.name}>"

    def __call__(self, *args: object, **named: object) -> Any:
        bound = self._signature.bind(*args, **named)
        bound.apply_defaults()
        given = Arguments(self.origin, bound.arguments)
        unit = self._unit(given)
        _check_apart(unit, given)
        found = _results(unit, given)
        return found[0] if unit.returns[0].single else tuple(found)

    def _unit(self, given: Arguments) -> Unit:
        key = tuple(given.types.items())
        unit = self._units.get(key)
        if unit is None:
            numbers = python_source.numbers_in(self.body)
            unit = self._units[key] = Unit(
                ("python", self.origin, numbers), self.origin, self.body, key)
        return unit


def _results(unit: Unit, given: Arguments) -> list[Tensor]:
    """The lazy results of a unit: formulas where its statements are bulk, else made by one run."""
    decision = _decided(unit, given)
    names = [n for n, _ in unit.parameters]
    operands = given.operands(unit) or [_scalar(0, Scalar(np.dtype(np.int64)))]
    if decision.bulk:
        about = ("bulk", unit, decision.key)
        return [formed((*about, k), partial(_formula, decision, names, k), *operands)
                for k in range(len(decision.record))]
    if decision.drives:
        return driven(unit, decision.division, given)
    ran = formed(("run", unit, decision.record), partial(_run, unit, decision.record), *operands)
    found = [formed(("result", decision.record, k), partial(_result, decision.record, k), ran)
             for k in range(len(decision.record))]
    if not found:  # what nobody asks for may fail
        run([ran], config.current(), ["dense"])
        return []
    ran.program.holder = ref(found[0])
    return found


class _Decision:
    """How a unit is computed, for calls of one kind."""

    def __init__(self, unit: Unit, given: Arguments, key: object) -> None:
        self.key = key
        launch = unit.launch(given.shapes, given.numbers)
        self.record: bulk.Record = tuple([
            (shape, t.dtype.name) for shape, t in zip(launch.result_shapes, unit.result_types)])
        self.division = Division(unit, launch, launch.facts, given.sparse)
        places = {n: ir.Source(n, given.shapes.get(n, ()), t.dtype, ir.const(0, t.dtype))
                  for n, t in unit.parameters}
        self.bulk = self.division.nodes(places) is not None
        self.drives = not self.bulk and self.division.drives


_decisions: dict[object, _Decision] = {}
_MAX_DECISIONS = 1024


def _decided(unit: Unit, given: Arguments) -> _Decision:
    numbers = tuple([(n, type(v), v) for n, v in given.numbers.items()])
    key = unit, tuple(given.shapes.items()), numbers, given.sparse
    found = _decisions.get(key)
    if found is None:
        if len(_decisions) >= _MAX_DECISIONS:
            _decisions.clear()
        fixed = tuple([(n, v) for n, _, v in numbers if is_fixed(v)])
        found = _decisions[key] = _Decision(unit, given, (fixed, given.sparse))
    return found


def _formula(decision: _Decision, names: Sequence[str], k: int, *operands: Program) -> ir.Tensor:
    found = decision.division.nodes(dict(zip(names, [p.node for p in operands])))
    assert found is not None
    return found[k]


def _run(unit: Unit, record: bulk.Record, *operands: Program) -> ir.Tensor:
    return ir.Bulk(bulk.run_program, tuple([p.node for p in operands]), (unit, record))


def _result(record: bulk.Record, k: int, run: Program) -> ir.Tensor:
    return ir.Bulk(bulk.result_of_program, (run.node,), (record, k))


def _check_apart(unit: Unit, given: Arguments) -> None:
    """One array under two names, one of which is written, would be two arrays here."""
    written = {n for name in stored_arrays(unit.body) for n in unit.storages[name].names}
    for a, b in combinations(given.tensors, 2):
        if (a in written or b in written) and _share(given.tensors[a], given.tensors[b]):
            raise UnsupportedError(
                f"{unit.origin.name}: {a} and {b} are the same array, and one of them is written",
                hint="give a copy of one")


def _share(a: Base, b: Base) -> bool:
    if a is b:
        return True
    first, second = a.given, b.given
    if first is None or second is None or not a.size or not b.size:
        return False
    return any(np.may_share_memory(x, y) for x in first.arrays.values()
               for y in second.arrays.values())


def driven(unit: Unit, division: Division, given: Arguments) -> list[Tensor]:
    """The results of a program whose outer loops run here, turn by turn."""
    made = Driver(unit, division, {**given.numbers, **given.tensors}, _step).run()
    return [v if isinstance(v, Base) else _scalar(v, t)  # type: ignore[misc]
            for v, t in zip(made, unit.result_types)]


def _step(unit: Unit, values: Mapping[str, Any]) -> list[Tensor]:
    """The results of a part, computed. Matrices may come out sparse."""
    found = _results(unit, Arguments(unit.origin, values, dict(unit.parameters)))
    stored = run(found, config.current(), [None if t.ndim > 1 else "dense" for t in found])
    return [from_stored(s) for s in stored]


def run_text(text: str, tensors: Mapping[str, object]) -> dict[str, Tensor]:
    """What a program in text sets: its arrays and variables, but not its counters."""
    origin = Origin("loops", text)
    body, names = _parsed(text)
    given = Arguments(origin, tensors)
    unknown = [n for n in names if n not in given.types]
    arrays: tuple[Allocate, ...] = ()
    if unknown:
        arrays = undeclared(origin, body, given.types, given.shapes, given.numbers)
        body, names = (*arrays, *body), (*[a.name for a in arrays], *names)
    results = tuple(dict.fromkeys(names))
    values = tuple([Name(n, 1) for n in results])
    last = max([s.line for s in walk(body)], default=1)
    new = tuple([(a.name, a.dtype, tuple([e.value for e in a.extents if isinstance(e, Number)]))
                 for a in arrays])
    key = text, tuple(given.types.items()), new
    unit = _text_units.get(key)
    if unit is None:
        if len(_text_units) >= _MAX_DECISIONS:
            _text_units.clear()
        whole = (*body, Return(values, False, last))
        used = names_used(whole)
        types = [(n, t) for n, t in given.types.items() if n in used]
        unit = _text_units[key] = Unit(("text", text, new), origin, whole, types)
    _check_apart(unit, given)
    return dict(zip(results, _results(unit, given)))


_text_units: dict[object, Unit] = {}


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[Body, tuple[str, ...]]:
    body = parse(text)
    counters = {s.target for s in walk(body) if isinstance(s, For)}
    names = [s.array if isinstance(s, Store) else s.name for s in walk(body)
             if isinstance(s, Store | Assign | Allocate)]
    return body, tuple([n for n in dict.fromkeys(names) if n not in counters])
