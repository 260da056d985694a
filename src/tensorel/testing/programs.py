"""Random programs as data: leaves and steps that run through tensorel and through NumPy."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorel as tr
from tensorel.ir.analysis import is_whole
from tensorel.records import dataclass, field
from tensorel.testing.compare import Tolerance, difference
from tensorel.testing.dense import xp

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor of a program."""

    name: str
    array: Array
    format: str | None = None
    fill: Any = 0

    @property
    def text(self) -> str:
        values = "np.array(" + repr(self.array.tolist()) + f", dtype={self.array.dtype.name!r})"
        if self.array.size == 0:
            values = f"np.zeros({self.array.shape}, {self.array.dtype.name!r})"
        values, fill = (t.replace("nan", "np.nan").replace("inf", "np.inf")
                        for t in (values, repr(self.fill)))
        return f"{self.name} = tr.tensor({values}, format={self.format!r}, fill={fill})"

    def build(self) -> Any:
        """The tensor in its format."""
        return tr.tensor(self.array, format=self.format, fill=self.fill)


@dataclass(frozen=True, eq=False)
class Step:
    """``name = template`` with ``{0}``, ``{1}``, ... replaced by the names of its arguments."""

    name: str
    template: str
    args: tuple[str, ...]

    @property
    def code(self) -> str:
        return self.template.format(*self.args)


@dataclass(frozen=True, eq=False)
class Program:
    """Steps over leaves; the last step is the result.

    settings: options of the computation; format: the storage asked of the result.
    """

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    format: str | None = None

    @property
    def root(self) -> str:
        return self.steps[-1].name if self.steps else self.leaves[-1].name

    @property
    def text(self) -> str:
        """Runnable Python."""
        options = "".join(f", {k}={v!r}" for k, v in self.settings.items())
        lines = ["import numpy as np", "import tensorel as tr", ""]
        lines += [leaf.text for leaf in self.leaves]
        lines += [f"{s.name} = {s.code.replace('xp.', 'tr.')}" for s in self.steps]
        lines += [f"result = {self.root}.compute(format={self.format!r}{options})"]
        return "\n".join([*lines, "print(result.to_numpy())"])

    def cut(self, count: int) -> Program:
        """The program whose result is that of step ``count``."""
        return replace(self, steps=self.steps[:count]).pruned()

    def pruned(self) -> Program:
        """Without what the result does not need."""
        needed = {self.root}
        for step in reversed(self.steps):
            if step.name in needed:
                needed.update(step.args)
        return replace(
            self,
            leaves=tuple(leaf for leaf in self.leaves if leaf.name in needed),
            steps=tuple(s for s in self.steps if s.name in needed),
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """What NumPy says: each value, and whether the result is comparable.

    A program is comparable unless a value is not finite or NumPy raised a floating-point flag:
    there a structural zero that annihilates may rightly differ (design.md section 1).
    """

    values: Mapping[str, Array]
    comparable: bool
    tolerance: Tolerance


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collects the floating-point flags that NumPy raises."""
    flags: list[str] = []
    with (
        warnings.catch_warnings(),
        np.errstate(divide="call", over="call", invalid="call", under="ignore",
                    call=lambda kind, _: flags.append(kind)),
    ):
        warnings.simplefilter("ignore")
        yield flags


def run_numpy(program: Program) -> Trace:
    """The program on dense arrays."""
    values: dict[str, Array] = {leaf.name: leaf.array for leaf in program.leaves}
    with watched() as flags:
        for step in program.steps:
            values[step.name] = evaluate_step(step, values)
        finite = all(np.isfinite(v).all() for v in values.values())
        tolerance = Tolerance.of(values.values())
        for step in program.steps:
            if _multiplies(step):
                tolerance = tolerance.widened([values[n] for n in step.args])
    return Trace(values, finite and not flags, tolerance)


def _multiplies(step: Step) -> bool:
    """Sums of products: terms may be larger than operands and result, and cancel."""
    return any(word in step.template for word in ("einsum", "@", "dot", "var", "std", "map"))


def evaluate_step(step: Step, values: Mapping[str, Array]) -> Array:
    """One step on dense arrays."""
    scope = {"xp": xp, "np": np, **{n: values[n] for n in step.args}}
    return np.asarray(eval(step.code, scope))


def build(program: Program, trace: Trace | None = None) -> Any:
    """The program as a lazy tensor; with a trace, each step's shape and dtype are checked."""
    scope: dict[str, Any] = {"xp": tr, "np": np}
    for leaf in program.leaves:
        scope[leaf.name] = leaf.build()
    for step in program.steps:
        scope[step.name] = value = eval(step.code, scope)
        if trace is not None:
            expected = trace.values[step.name]
            if tuple(value.shape) != expected.shape or value.dtype != expected.dtype:
                raise AssertionError(
                    f"{step.name} = {step.code} has {value.dtype}{tuple(value.shape)}, "
                    f"NumPy {expected.dtype}{expected.shape}"
                )
    return scope[program.root]


def check(program: Program, trace: Trace | None = None) -> str | None:
    """None if tensorel and NumPy agree, else what differs, in words."""
    seen = trace or run_numpy(program)
    try:
        lazy = build(program, seen)
        result = lazy.compute(format=program.format, verify=True, **program.settings)
        found = result.to_numpy()
    except Exception as error:
        return f"{type(error).__name__}: {error} ({_place(error)})"
    wrong = difference(found, seen.values[program.root], seen.tolerance, values=seen.comparable)
    if wrong is None and result.dtype != found.dtype:
        return f"the tensor says {result.dtype}, its array {found.dtype}"
    if wrong is None:
        wrong = _check_entries(result, found) or _check_fill(lazy, result, found, seen)
    return wrong


def _check_fill(lazy: Any, result: Any, found: Array, seen: Trace) -> str | None:
    """The fill that the program promises is the fill of its result, up to the order of sums,
    which a plan may change for what is not stored as for what is; or one that leaves no
    more entries to store, where the plan knows more (a slice of a concatenation). Of a tensor that
    has a value everywhere nothing is promised."""
    if result.size == 0 or not seen.comparable or is_whole(lazy.node):
        return None
    promised, fill = np.asarray(lazy.fill), np.asarray(result.fill)
    if difference(fill, promised, seen.tolerance) is None:
        return None
    stored, needed = (
        np.count_nonzero((found != f) & ~(np.isnan(found) & np.isnan(f))) for f in (fill, promised)
    )
    if stored <= needed:
        return None
    return f"fill is {fill}, promised was {promised}"


def _place(error: Exception) -> str:
    """Where an exception was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


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
