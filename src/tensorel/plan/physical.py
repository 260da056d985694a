"""The physical plan: steps that an engine runs one after another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorel.algebra.ops import DType
from tensorel.ir.nodes import Axis, Const, Expr, Source, Tensor
from tensorel.ir.printer import show
from tensorel.kernels.spec import Nest, Slot
from tensorel.plan.definitions import Definition, Question
from tensorel.records import dataclass, field
from tensorel.storage.format import Format

if TYPE_CHECKING:
    from tensorel.plan.recall import Keys

#: A call's own objects, its thread's first pages: up to 310 kB were measured.
MARGIN, FIXED = 1.06, 2.0**19


@dataclass(eq=False)
class Step:
    """``target`` gets a value. ``count`` and ``bytes_`` are estimates of the result; ``bound`` is
    an upper bound on the bytes of the result and of the step's own working memory."""

    target: Slot
    shape: tuple[int, ...]
    dtype: DType
    fill: Const
    about: str | Callable[[], str]
    count: float = 0.0
    bytes_: float = 0.0
    bound: float = 0.0
    cost: float = 0.0
    blocks: int = 1  # made and used up in so many parts; sizes are those of one
    cache: dict[object, object] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @property
    def text(self) -> str:
        """What it computes, as a formula; written when somebody wants to read it."""
        return self.about if isinstance(self.about, str) else self.about()


@dataclass(eq=False)
class KernelStep(Step):
    """A compiled loop nest; ``finish`` is the format that the target is converted to, where the
    kernel cannot write it directly; ``threads``: on how many it runs at most; ``visits``: how
    often its innermost loop is expected to turn."""

    nest: Nest | None = None
    operands: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    direct: Format | None = None  # the format of the kernel's own arrays
    finish: Format | None = None
    threads: int = 1
    visits: float = math.inf

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.operands


def shown(e: Expr) -> str:
    """A formula over slots, by their names."""
    names: dict[Tensor, str] = {
        t: t.data.name for t in e.reads if isinstance(t, Source)}  # type: ignore[attr-defined]
    return show(e, names)


def shown_as(name: str, axes: tuple[Axis, ...], e: Expr) -> str:
    """The same as a definition."""
    return f"{name}[{', '.join(a.name for a in axes)}] = {shown(e)}"


@dataclass(eq=False)
class BlasStep(Step):
    """A dense product of two operands by NumPy's matmul. Each operand's axes are labelled; batch
    labels occur in both and in the result, summed ones in both only. ``listed``: so many outer
    levels of the left operand keep some positions alone, each with all that is below it; these
    axes are the first of the left labels and of the result's, as the levels nest them.
    ``shares``: the plan has kernels on several threads, which those of BLAS would disturb."""

    left: str = ""
    right: str = ""
    left_axes: tuple[str, ...] = ()
    right_axes: tuple[str, ...] = ()
    out_axes: tuple[str, ...] = ()
    listed: int = 0
    shares: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)


@dataclass(eq=False)
class ConvertStep(Step):
    """Another storage of the same tensor."""

    source: str = ""
    format: Format | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(eq=False)
class ViewStep(Step):
    """A tensor that shares its source's arrays: axes permuted, or a range of the outer level."""

    source: str = ""
    permutation: tuple[int, ...] = ()
    start: int | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(eq=False)
class BulkStep(Step):
    """A whole-tensor operator."""

    op: str = ""
    args: tuple[str, ...] = ()
    params: tuple[object, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.args


@dataclass(eq=False)
class Plan:
    """Steps in order; ``results`` names the slots asked for; ``frees`` says which intermediate
    is last used by which step."""

    steps: list[Step]
    results: list[str]
    inputs: list[str]
    rules: dict[str, int]
    passes: list[tuple[str, float]]
    definitions: list[Definition] = field(default_factory=list)
    keys: Keys | None = None
    start: tuple[int, ...] = ()  # the first picks that lead to this plan: its form
    frees: dict[int, list[str]] = field(default_factory=dict)
    call: float = 0.0  # the cost of starting a step
    asked: dict[Question, bool] = field(default_factory=dict)  # of data that it is right for

    @property
    def cost(self) -> float:
        """About nanoseconds on one thread."""
        return sum(s.cost + self.call for s in self.steps)

    @property
    def largest(self) -> float:
        """Estimated bytes of the largest result of a step."""
        return max((s.bytes_ for s in self.steps), default=0.0)

    def plan_frees(self) -> None:
        last: dict[str, int] = {}
        for k, s in enumerate(self.steps):
            for name in s.inputs:
                last[name] = k
        keep = set(self.results) | set(self.inputs)
        for name, k in last.items():
            if name not in keep:
                self.frees.setdefault(k, []).append(name)

    def peak_bound(self, input_bytes: int) -> float:
        """Bytes at the worst moment: inputs, live intermediates, the step at work; with a margin
        for what is small beside them (counts of rows, the pieces of ranges, Python's own)."""
        live: dict[str, float] = {}
        peak = 0.0
        for k, s in enumerate(self.steps):
            peak = max(peak, sum(live.values()) + s.bound)
            live[s.target.name] = s.bound
            for name in self.frees.get(k, ()):
                live.pop(name, None)
        return input_bytes + MARGIN * peak + FIXED
