"""Random programs as data: leaves, steps and what happens between computations; and what NumPy
says about them."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass, field
from tensorel.testing.programs import rounding
from tensorel.testing.programs.handing import Handed, hand
from tensorel.testing.programs.numpy_names import xp

Array = npt.NDArray[Any]
#: Larger arrays print as the coordinates and values of their entries.
MAX_PRINTED_CELLS = 4096


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor of a program. how: a way of ``handing.WAYS``; source: a text that makes the
    array, where it is large."""

    name: str
    array: Array
    format: str | None = None
    fill: Any = 0
    how: str = "tensor"
    source: str | None = None

    @property
    def text(self) -> str:
        values, fill = self.source or array_text(self.array, self.fill), _plain(repr(self.fill))
        if self.how == "tensor":
            return f"{self.name} = tr.tensor({values}, format={self.format!r}, fill={fill})"
        return (f"{self.name}_ = hand({self.how!r}, {values}, {self.format!r}, {fill})\n"
                f"{self.name} = {self.name}_.tensor")

    def build(self) -> Any:
        """The tensor in its format."""
        return self.hand().tensor

    def hand(self) -> Handed:
        return hand(self.how, self.array, self.format, self.fill)


def array_text(array: Array, fill: Any = 0) -> str:
    """An expression for the array."""
    dtype = array.dtype.name
    if array.size == 0:
        return f"np.zeros({array.shape}, {dtype!r})"
    if array.size <= MAX_PRINTED_CELLS:
        return _plain(f"np.array({array.tolist()!r}, dtype={dtype!r})")
    other = ~np.isnan(array) if fill != fill else array != fill
    at = tuple(np.nonzero(other))
    return _plain(f"scattered({array.shape}, {dtype!r}, {fill!r}, {[c.tolist() for c in at]}, "
                  f"{array[at].tolist()!r})")


def scattered(shape: tuple[int, ...], dtype: str, fill: Any, at: Any, values: Any) -> Array:
    """``fill`` everywhere but at the places given."""
    array = np.full(shape, fill, dtype)
    array[tuple(np.asarray(c, dtype=np.int64) for c in at)] = values
    return array


def _plain(text: str) -> str:
    return text.replace("nan", "np.nan").replace("inf", "np.inf")


@dataclass(frozen=True, eq=False)
class Step:
    """``name = template`` with ``{0}``, ``{1}``, ... replaced by the names of its arguments.

    dense: the same for NumPy, where it is written otherwise; measure: the step on magnitudes, where
    it is linear or moves entries (``rounding``); exact: it keeps small whole numbers exact;
    settled: it looks at the values of its operands when it is written, not when it is computed;
    safe: it neither multiplies nor adds, so that nan and inf come out as NumPy has them."""

    name: str
    template: str
    args: tuple[str, ...]
    dense: str | None = None
    measure: str | None = None
    exact: bool = True
    settled: bool = False
    safe: bool = False

    @property
    def code(self) -> str:
        return self.template.format(*self.args)

    def walks(self, dtype: np.dtype[Any]) -> bool:
        """Whether NumPy adds term after term; sums of whole arrays and BLAS add by pairs or blocks,
        ``dense.xp.einsum`` adds singles as doubles."""
        if "einsum" in self.template:
            return dtype in (np.float64, np.complex128)
        return any(w in self.template for w in ("cum", "vecdot", "trace", "axis")) and (
            "axis=None" not in self.template)

    def on(self, values: Mapping[str, Array], template: str | None = None) -> Array:
        """The step on dense arrays."""
        code = (template or self.dense or self.template).format(*self.args)
        return np.asarray(eval(code, {"xp": xp, "np": np, **{n: values[n] for n in self.args}}))


@dataclass(frozen=True, eq=False)
class Event:
    """What happens before the program is computed once more; settings hold from there on.

    kind: "again" (nothing), "write" (``array`` into lent memory), "move" (rows of a lent matrix
    swapped, with ``refresh``), "pickle" and "copy" (of the tensor or of the result),
    "elsewhere" (the tensor in another program), "rebuild" (the same program written anew), "ask"
    (the lazy result, for what it holds; from there on it is compared itself, not what it computes).
    """

    kind: str
    name: str = ""
    array: Array | None = None
    settings: Mapping[str, object] = field(default_factory=dict)

    def text(self, program: Program) -> list[str]:
        name = self.name
        written = [f"{s.name} = {s.code.replace('xp.', 'tr.')}" for s in program.steps]
        if self.kind == "write":
            assert self.array is not None
            again = written if program.is_settled else []
            return [f"{name}_.write({array_text(self.array)})", *again]
        if self.kind == "move":
            return [f"{name}_.move()", *(written if program.is_settled else [])]
        if self.kind in ("pickle", "copy"):
            call = "pickle.loads(pickle.dumps({0}))" if self.kind == "pickle" else "{0}.copy()"
            return [f"{name} = {call.format(name)}", *(written if name != program.root else [])]
        if self.kind == "elsewhere":
            return [f"({name}.nnz, ({name} + {name}).sum().compute())"]
        if self.kind == "ask":
            return [f"{program.root}.nnz"]
        return written if self.kind == "rebuild" else []


@dataclass(frozen=True, eq=False)
class Program:
    """Steps over leaves; the last step is the result.

    settings: options of the computation; format: the storage asked of the result; also: steps that
    are computed in the same call; history: what happens before further computations.
    """

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    format: str | None = None
    also: tuple[str, ...] = ()
    history: tuple[Event, ...] = ()

    @property
    def root(self) -> str:
        return self.steps[-1].name if self.steps else self.leaves[-1].name

    @property
    def results(self) -> tuple[str, ...]:
        return (*self.also, self.root)

    @property
    def is_settled(self) -> bool:
        """Whether a step looks at values when it is written."""
        return any(s.settled for s in self.steps)

    @property
    def text(self) -> str:
        """Runnable Python."""
        lines = [leaf.text for leaf in self.leaves]
        lines += [f"{s.name} = {s.code.replace('xp.', 'tr.')}" for s in self.steps]
        blocks, settings, computed = [], dict(self.settings), self._computed()
        blocks.append(_block(settings, [*lines, *computed]))
        for event in self.history:
            settings = settings | dict(event.settings)
            if event.kind == "ask":
                computed = [f"print({self.root}.to_numpy())"]
            blocks.append(_block(settings, [*event.text(self), *computed]))
        return "\n".join([*_imports("\n".join(blocks)), "", *blocks])

    def _computed(self) -> list[str]:
        if not self.also:
            return [f"result = {self.root}.compute(format={self.format!r})",
                    "print(result.to_numpy())"]
        formats = [None] * len(self.also) + [self.format]
        return [f"*_, result = tr.compute({', '.join(self.results)}, formats={formats!r})",
                "print(result.to_numpy())"]

    def cut(self, count: int) -> Program:
        """The program whose result is that of step ``count``."""
        return replace(self, steps=self.steps[:count]).pruned()

    def pruned(self) -> Program:
        """Without what the results do not need."""
        known = {s.name for s in self.steps}
        also = tuple(n for n in self.also if n in known and n != self.root)
        needed = {self.root, *also}
        for step in reversed(self.steps):
            if step.name in needed:
                needed.update(step.args)
        return replace(
            self, also=also,
            leaves=tuple(leaf for leaf in self.leaves if leaf.name in needed),
            steps=tuple(s for s in self.steps if s.name in needed),
            history=tuple(e for e in self.history if not e.name or e.name in needed),
        )

    def with_arrays(self, arrays: Mapping[str, Array]) -> Program:
        """The program over other values of its leaves."""
        leaves = tuple(replace(leaf, array=arrays[leaf.name], source=None) for leaf in self.leaves)
        return replace(self, leaves=leaves)


def _block(settings: Mapping[str, object], lines: list[str]) -> str:
    body = "\n".join(lines)
    if not settings:
        return body
    options = ", ".join(f"{k}={v!r}" for k, v in settings.items())
    return f"with tr.options({options}):\n" + textwrap.indent(body, "    ")


def _imports(text: str) -> list[str]:
    lines = ["import numpy as np", "import tensorel as tr"]
    if "pickle." in text:
        lines.insert(0, "import pickle")
    for name, module in (("hand", "handing"), ("sample", "data"), ("scattered", "program")):
        if f"{name}(" in text:
            lines.append(f"from tensorel.testing.programs.{module} import {name}")
    return lines


@dataclass(frozen=True, eq=False)
class Trace:
    """What NumPy says: each value, whether the results are comparable, and what the last of them
    may differ by; ``tolerances`` by name.

    A program is comparable unless NumPy raised a floating-point flag, or a value that is not finite
    goes into a step that is not safe: there a structural zero that annihilates may rightly differ
    (docs/design/annihilation.md).
    """

    values: Mapping[str, Array]
    comparable: bool
    tolerance: Any = None
    tolerances: Mapping[str, Array] = field(default_factory=dict)


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
            values[step.name] = step.on(values)
    wild = {n for n, v in values.items() if v.dtype.kind in "fc" and not np.isfinite(v).all()}
    comparable = not flags and all(
        s.safe or not wild.intersection((s.name, *s.args)) for s in program.steps)
    allowed = _tolerances(program, values) if comparable else {}
    return Trace(values, comparable, allowed.get(program.root), allowed)


def _tolerances(program: Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """What each result may differ by; truth values and whole numbers by nothing."""
    if all(values[n].dtype.kind not in "fc" for n in program.results):
        return {}
    strict = bool(program.settings.get("strict", False))
    bounds = {leaf.name: rounding.of_leaf(leaf.array) for leaf in program.leaves}
    exact = {leaf.name: is_exact(leaf.array) for leaf in program.leaves}
    with watched():
        for step in program.steps:
            value = values[step.name]
            exact[step.name] = step.exact and all(exact[n] for n in step.args) and is_exact(value)
            bounds[step.name] = rounding.of_step(
                value, {n: values[n] for n in step.args}, {n: bounds[n] for n in step.args},
                exact=exact[step.name], evaluate=step.on, measure=_measured(step),
                walks=strict or step.walks(value.dtype))
        return {n: rounding.tolerance(bounds[n]) for n in program.results
                if values[n].dtype.kind in "fc"}


def _measured(step: Step) -> Any:
    return None if step.measure is None else lambda sizes: step.on(sizes, step.measure)


def is_exact(array: Array) -> bool:
    """Whole numbers small enough that sums of products of three of them do not round."""
    if array.dtype.kind not in "fc":
        return True
    limit = 32 if array.dtype in (np.float32, np.complex64) else 2**12
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return all(bool((np.rint(p) == p).all() and (np.abs(p) <= limit).all()) for p in parts)
