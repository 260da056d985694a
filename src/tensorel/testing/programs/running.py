"""Random programs through tensorel, each computation compared with NumPy."""

from __future__ import annotations

import pickle
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorel as tr
from tensorel.base.records import dataclass
from tensorel.errors import (
    EngineError,
    MemoryLimitError,
    NonFiniteWarning,
    TensorelError,
    UnsupportedError,
)
from tensorel.ir.analysis import is_whole
from tensorel.testing.programs.compare import difference
from tensorel.testing.programs.handing import Handed
from tensorel.testing.programs.program import Event, Program, Trace, is_exact, run_numpy

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """wrong: what differs, in words; refused: why nothing was computed (memory, not supported);
    compared: whether values were compared, in all computations."""

    wrong: str | None = None
    refused: str | None = None
    compared: bool = True


def build(program: Program, trace: Trace | None = None) -> Any:
    """The program as a lazy tensor; with a trace, each step's shape and dtype are checked."""
    scope: dict[str, Any] = {"xp": tr, "np": np, "pickle": pickle}
    scope |= {leaf.name: leaf.build() for leaf in program.leaves}
    _write(program, scope, trace)
    return scope[program.root]


def _write(program: Program, scope: dict[str, Any], trace: Trace | None) -> None:
    for step in program.steps:
        scope[step.name] = value = eval(step.code, scope)
        if trace is not None:
            expected = trace.values[step.name]
            if tuple(value.shape) != expected.shape or value.dtype != expected.dtype:
                raise AssertionError(
                    f"{step.name} = {step.code} has {value.dtype}{tuple(value.shape)}, "
                    f"NumPy {expected.dtype}{expected.shape}"
                )


def check(program: Program, trace: Trace | None = None) -> str | None:
    """None if tensorel and NumPy agree, else what differs, in words."""
    outcome = examine(program, trace)
    return outcome.wrong or outcome.refused


def examine(program: Program, trace: Trace | None = None) -> Outcome:
    """The program and its history, each computation compared with NumPy on what memory holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonFiniteWarning)
        return _examine(program, trace)


def _examine(program: Program, trace: Trace | None) -> Outcome:
    session = _Session(program)
    compared = True
    for event in (None, *program.history):
        try:
            if event is not None:
                session.happen(event)
        except Exception as error:
            return Outcome(wrong=_said(error) + _when(event), compared=compared)
        try:
            seen = trace if event is None and trace is not None else session.trace()
        except (ValueError, TypeError, IndexError):
            if event is None:
                raise
            return Outcome(compared=compared)  # NumPy refuses what was written
        compared &= seen.comparable
        try:
            wrong = session.compute(seen)
        except (MemoryLimitError, UnsupportedError) as error:
            return Outcome(refused=_said(error), compared=compared)
        except Exception as error:
            return Outcome(wrong=_said(error) + _when(event), compared=compared)
        if wrong is not None:
            return Outcome(wrong=wrong + _when(event), compared=compared)
    return Outcome(compared=compared)


def _when(event: Event | None) -> str:
    return "" if event is None else f" [after {event.kind} {event.name}]".replace(" ]", "]")


def _said(error: Exception) -> str:
    """An exception with the place where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    kind = type(error).__name__
    if isinstance(error, EngineError) or not isinstance(error, TensorelError):
        kind = f"{kind} (a bug)"
    return f"{kind}: {error} ({Path(frame.filename).name}:{frame.lineno} in {frame.name})"


class _Session:
    """A program while it runs: what was handed in, what the memory holds now, the tensors."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arrays: dict[str, Array] = {leaf.name: leaf.array for leaf in program.leaves}
        self.settings: dict[str, object] = dict(program.settings)
        self.scope: dict[str, Any] = {"xp": tr, "np": np, "pickle": pickle}
        self.handed: dict[str, Handed] = {}
        self.first: Trace | None = None
        self.written = False
        self.asks = False

    def trace(self) -> Trace:
        """What NumPy says now. Where a value was exact and is not any more, steps that jump may
        rightly go the other way."""
        now = run_numpy(replace(self.program.with_arrays(self.arrays), settings=self.settings))
        first = self.first
        if first is not None and now.comparable and any(
                is_exact(first.values[n]) and not is_exact(v) for n, v in now.values.items()):
            return replace(now, comparable=False)
        return now

    def happen(self, event: Event) -> None:
        self.settings |= event.settings
        with tr.options(**self.settings):
            if event.kind == "write":
                self._put(event)
            elif event.kind == "move":
                self._move(event.name)
            elif event.kind == "pickle":
                self._replace(event.name, pickle.loads(pickle.dumps(self.scope[event.name])))
            elif event.kind == "copy":
                self._replace(event.name, self.scope[event.name].copy())
            elif event.kind == "elsewhere":
                found = self.scope[event.name]
                assert found.nnz <= found.size
                (found + found).sum().compute()
            elif event.kind == "rebuild":
                self.written = False
            elif event.kind == "ask":
                self.asks = self.scope[self.program.root].nnz >= 0

    def _put(self, event: Event) -> None:
        held = self.handed[event.name]
        if event.array is not None and held.values is not None:
            held.write(event.array)
            if held.shares and held.tensor is self.scope[event.name]:
                self._hold(event.name, event.array)

    def _move(self, name: str) -> None:
        held = self.handed[name]
        if held.shares and held.places is not None and held.tensor is self.scope[name]:
            held.move()
            self._hold(name, held.places.toarray())

    def _hold(self, name: str, array: Array) -> None:
        self.arrays[name] = array
        self.written &= not self.program.is_settled

    def _replace(self, name: str, tensor: Any) -> None:
        self.scope[name] = tensor
        self.written &= name == self.program.root

    def compute(self, seen: Trace) -> str | None:
        program, scope = self.program, self.scope
        self.first = self.first or seen
        with tr.options(**self.settings):
            if not self.handed:
                self.handed = {leaf.name: leaf.hand() for leaf in program.leaves}
                scope.update((n, h.tensor) for n, h in self.handed.items())
            if not self.written:
                _write(program, scope, seen)
                self.written = True
            lazies = [scope[n] for n in program.results]
            if self.asks:
                results = tuple(lazies)
            elif program.also:
                formats = [None] * len(program.also) + [program.format]
                results = tr.compute(*lazies, formats=formats)
            else:
                results = (lazies[0].compute(format=program.format),)
            for name, lazy, result in zip(program.results, lazies, results):
                wrong = _compare(name, lazy, result, seen)
                if wrong is not None:
                    return wrong if name == program.root else f"{name}: {wrong}"
        return None


def _compare(name: str, lazy: Any, result: Any, seen: Trace) -> str | None:
    found = result.to_numpy()
    allowed = seen.tolerances.get(name)
    wrong = difference(found, seen.values[name], allowed, values=seen.comparable)
    if wrong is None and result.dtype != found.dtype:
        return f"the tensor says {result.dtype}, its array {found.dtype}"
    return wrong or _check_entries(result, found) or _check_fill(lazy, result, found, seen, allowed)


def _check_fill(lazy: Any, result: Any, found: Array, seen: Trace, allowed: Any) -> str | None:
    """The fill that the program promises is the fill of its result, up to the order of sums,
    which a plan may change for what is not stored as for what is; or one that leaves no
    more entries to store, where the plan knows more (a slice of a concatenation). Of a tensor that
    has a value everywhere nothing is promised."""
    if result.size == 0 or not seen.comparable or is_whole(lazy.node):
        return None
    promised, fill = np.asarray(lazy.fill), np.asarray(result.fill)
    most = None if allowed is None else np.max(allowed)
    if difference(fill, promised, most) is None:
        return None
    stored, needed = (
        np.count_nonzero((found != f) & ~(np.isnan(found) & np.isnan(f))) for f in (fill, promised)
    )
    if stored <= needed:
        return None
    return f"fill is {fill}, promised was {promised}"


def _check_entries(result: Any, dense: Array) -> str | None:
    """``nnz`` and ``to_coo`` tell the same story as the dense array."""
    fill = np.asarray(result.fill)
    differs = dense != fill if fill == fill else ~np.isnan(dense)
    if result.nnz != int(np.count_nonzero(differs)):
        return f"nnz is {result.nnz}, entries different from {fill}: {np.count_nonzero(differs)}"
    if dense.ndim == 0:
        return None
    coords, values = result.to_coo()
    again = np.full(dense.shape, fill)
    again[tuple(np.asarray(c) for c in coords)] = values
    same = (again == dense) | ((again != again) & (dense != dense))
    return None if same.all() else "to_coo() gives other values than to_numpy()"


def reasons(refusals: Mapping[str, int]) -> list[str]:
    """Refusals by how often, for a report."""
    return [f"{count} x {text}" for text, count in sorted(refusals.items(), key=lambda p: -p[1])]
