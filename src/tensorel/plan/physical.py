"""The physical plan: steps that an engine runs one after another.

A plan is a value: nothing changes it, equal plans are equal in every process, and it can be sent
to another process and run there. What an engine learns while it runs one is kept by the engine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorel.algebra.bulk import BulkOperator, reshape
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.given import plain
from tensorel.ir.nodes import Axis, Const, Expr, Lambda, Reduce, Source, Tensor
from tensorel.ir.printer import show
from tensorel.kernels.lowering.nest import Nest, Slot
from tensorel.plan.definitions import Definition, Question
from tensorel.storage.format import Format
from tensorel.storage.limits import show_bytes

#: A call's own objects, its thread's first pages: up to 310 kB were measured.
MEMORY_MARGIN, CALL_BYTES = 1.06, 2.0**19


@dataclass(frozen=True, slots=True)
class Step:
    """``target`` gets a value. ``count`` and ``bytes_`` are estimates of the result; ``bound`` is
    an upper bound on the bytes of the result and of the step's own working memory."""

    target: Slot
    shape: tuple[int, ...]
    dtype: DType
    fill: Const
    count: float = 0.0
    bytes_: float = 0.0
    bound: float = 0.0
    cost: float = 0.0
    blocks: int = 1  # made and used up in so many parts; sizes are those of one

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @property
    def kind(self) -> str:
        """What runs it."""
        return type(self).__name__.removesuffix("Step").lower()

    @property
    def text(self) -> str:
        """What it computes, as a formula."""
        raise NotImplementedError

    @property
    def detail(self) -> list[str]:
        """How it is computed."""
        return [f"in {self.blocks} blocks, each ranked and dropped"] if self.blocks > 1 \
            else self._loops()

    def _loops(self) -> list[str]:
        return []

    def __str__(self) -> str:
        count = f"{self.count:,.0f}" if self.count < 1e15 else f"{self.count:.2g}"
        return "\n".join((
            self.text, f"   {self.kind} -> {self.target.format.name} {self.shape} "
            f"{self.dtype.name}, fill {plain(self.fill.value)}, about {count} entries, "
            f"{show_bytes(int(self.bytes_))}", *[f"   {d}" for d in self.detail]))


@dataclass(frozen=True, slots=True)
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

    @property
    def text(self) -> str:
        nest, name = self.nest, self.target.name
        assert nest is not None
        if nest.output.rekeys:
            return f"{name} = rekey {self.operands[0]}"
        names = [n for n, _ in nest.extents[: len(self.shape)]]
        return f"{name}[{', '.join(names)}] = {shown(nest.whole)}"

    def _loops(self) -> list[str]:
        nest = self.nest
        assert nest is not None
        loops = " > ".join(f"{n}{' (reduced)' if n in nest.reduced else ''}" for n in nest.loops)
        threads = f"; threads: {self.threads}" if self.threads > 1 else ""
        found = [f"loops: {loops or 'none'}; result: {nest.output.assembly.value}{threads}"]
        for let in nest.lets:
            inner = tuple(Axis(n, nest.extent[n]) for n in let.loops if n != let.axis)
            body = let.body if not inner or let.op is None else Reduce(let.op, inner, let.body)
            under = ", ".join(nest.loops[: let.depth])
            found.append(
                f"where {let.slot.name}[{let.axis}] = {shown(body)}, once for each {under}")
        if nest.gallop:
            names = sorted({name for name, _ in nest.gallop})
            found.append(f"searched instead of merged: {', '.join(names)}")
        if nest.counted:
            found.append("points not stored are counted and combined at once")
        if self.finish is not None:
            found.append(f"then stored as {self.finish.name}")
        return found


def shown(e: Expr) -> str:
    """A formula over slots, by their names."""
    names: dict[Tensor, str] = {
        t: t.data.name for t in e.reads if isinstance(t, Source)}  # type: ignore[attr-defined]
    return show(e, names)


@dataclass(frozen=True, slots=True)
class BlasStep(Step):
    """A dense product of two operands by NumPy's matmul. Each operand's axes are labelled; batch
    labels occur in both and in the result, summed ones in both only. ``listed``: so many outer
    levels of the left operand keep some positions alone, each with all that is below it; these
    axes are the first of the left labels and of the result's, as the levels nest them.
    ``formula``: the same as a program."""

    left: str = ""
    right: str = ""
    left_axes: tuple[str, ...] = ()
    right_axes: tuple[str, ...] = ()
    out_axes: tuple[str, ...] = ()
    listed: int = 0
    formula: Lambda | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def text(self) -> str:
        assert self.formula is not None and isinstance(self.formula.body, Reduce)
        axes, product = [a.name for a in self.formula.axes], self.formula.body
        summed = sorted([a.name for a in product.axes])
        return f"{self.target.name}[{', '.join(axes)}] = sum({', '.join(summed)}) " \
            f"{shown(product.body)}"


@dataclass(frozen=True, slots=True)
class ConvertStep(Step):
    """Another storage of the same tensor; ``stored``: the tensor has it already."""

    source: str = ""
    format: Format | None = None
    stored: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def text(self) -> str:
        assert self.format is not None
        too = ", which is stored too" if self.stored else ""
        return f"{self.target.name} = {self.source} as {self.format.name}{too}"


@dataclass(frozen=True, slots=True)
class ViewStep(Step):
    """A tensor that shares its source's arrays: axes permuted, or a range of the outer level."""

    source: str = ""
    permutation: tuple[int, ...] = ()
    start: int | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def text(self) -> str:
        return f"{self.target.name} = view of {self.source}"


#: What the operators do that plans add.
_ADDED = {"take": "take {args[0]} along axis {params[0]}", "one_hot": "places of {args[0]}"}


@dataclass(frozen=True, slots=True)
class BulkStep(Step):
    """A whole-tensor operator."""

    op: BulkOperator = reshape
    args: tuple[str, ...] = ()
    params: tuple[object, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.args

    @property
    def kind(self) -> str:
        return self.op.name

    @property
    def text(self) -> str:
        if self.op.effort is not None:
            found = f"{self.target.name} = {self.op.name}({', '.join(self.args)})"
            return found + "".join([f" by {p}" for p in self.params if isinstance(p, str)])
        words = _ADDED.get(self.op.name, "{op}({params})")
        return f"{self.target.name} = " + words.format(
            op=self.op.name, args=self.args, params=self.params)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; ``results`` names the slots asked for. Right for operands that answer what
    was ``asked`` of them as those did that it was made for."""

    steps: tuple[Step, ...]
    results: tuple[str, ...]
    inputs: tuple[str, ...]
    rules: tuple[tuple[str, int], ...] = ()  # that fired, and how often
    definitions: tuple[Definition, ...] = ()
    asked: tuple[tuple[Question, bool], ...] = ()
    start: tuple[int, ...] = ()  # the first picks that lead to this plan: its form
    call: float = 0.0  # the cost of starting a step
    windows: int = 1  # plans that it was put together from
    #: Rankings that run in blocks: shape, dtype and cut axis of the operand, coordinates a block.
    blocked: tuple[tuple[tuple[tuple[int, ...], DType, int], int], ...] = ()

    def intermediates(self, tensors: Sequence[Tensor]) -> list[str | None]:
        """For each tensor of the program the slot that holds all of it while the plan runs; None
        where there is none."""
        names = {d.origin: d.name for d in self.definitions if d.origin is not None}
        made = {s.target.name: s for s in self.steps if s.blocks == 1}
        found = [names.get(t) for t in tensors]
        return [n if n in made and (made[n].shape, made[n].dtype) == (t.shape, t.dtype) else None
                for n, t in zip(found, tensors)]

    @property
    def cost(self) -> float:
        """About nanoseconds on one thread."""
        return sum([s.cost + self.call for s in self.steps])

    @property
    def largest(self) -> float:
        """Estimated bytes of the largest result of a step."""
        return max([s.bytes_ for s in self.steps], default=0.0)

    @property
    def frees(self) -> tuple[tuple[str, ...], ...]:
        """For each step, the intermediates that it is the last to use."""
        last = {name: k for k, s in enumerate(self.steps) for name in s.inputs}
        found: list[tuple[str, ...]] = [()] * len(self.steps)
        for name, k in last.items():
            if name not in self.results and name not in self.inputs:
                found[k] += (name,)
        return tuple(found)

    def peak_bound(self, input_bytes: int) -> float:
        """Bytes at the worst moment: inputs, live intermediates, the step at work; with a margin
        for what is small beside them (counts of rows, the pieces of ranges, Python's own)."""
        live: dict[str, float] = {}
        peak = 0.0
        for s, done in zip(self.steps, self.frees):
            peak = max(peak, sum(live.values()) + s.bound)
            live[s.target.name] = s.bound
            for name in done:
                live.pop(name, None)
        return input_bytes + MEMORY_MARGIN * peak + CALL_BYTES

    def __repr__(self) -> str:
        lines = [f"{k + 1}. {s}" for k, s in enumerate(self.steps)]
        return "\n".join((f"inputs: {', '.join(self.inputs)}", *lines,
                          f"results: {', '.join(self.results)}"))
