"""Units with a nest that runs in a wavefront, as three kernels: what stands before the nest, blocks
of its outer turns, and what stands behind.

Variables that are set before lie in arrays between them. A block of the nest has a number; each
announces in ``PROGRESS`` how far all of its inner turns are, and its successor waits for that, so
block k is behind all blocks below k.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import INT64
from tensorel.base.records import dataclass
from tensorel.ir.build import floordiv, minus, plus, times
from tensorel.ir.nodes import Expr, Local, Read, Source, const
from tensorel.kernels.imperative.checks import REPORT
from tensorel.kernels.imperative.kernel import HIGH, LOW, Frame, UnitKernel
from tensorel.kernels.imperative.statements import ZERO, Counted, Statements
from tensorel.kernels.loopir import statements as ir
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Facts
from tensorel.loops.analysis.wavefront import Wavefront
from tensorel.loops.types import Scalar
from tensorel.loops.unit import Unit
from tensorel.loops.wrong import call

PROGRESS = ir.array(".progress", INT64)
#: Words from the progress of one block to that of the next: they are written by different cores.
STRIDE = 8
#: Outer turns of a block, and inner turns between two looks at the progress of others.
GROUP, STRIP = Local(".group", INT64), Local(".strip", INT64)
LAST = const(np.iinfo(np.int64).max, INT64)


@dataclass(frozen=True, slots=True)
class FrontKernels:
    """``state``: dtypes and sizes of the arrays that hold variables."""

    before: UnitKernel
    nest: UnitKernel
    after: UnitKernel
    state: tuple[tuple[str, int], ...]


def front_kernels(unit: Unit, facts: Facts, front: Wavefront) -> FrontKernels:
    """Loop IR of a unit of which one nest runs in a wavefront."""
    variables = _variables(unit, front)
    kinds: dict[str, int] = {}
    places: list[tuple[Local, Source, Expr]] = []
    for local in variables:
        name = local.dtype.name
        places.append((local, ir.array(f".state.{name}", local.dtype),
                       const(kinds.get(name, 0), INT64)))
        kinds[name] = kinds.get(name, 0) + 1
    state = [ir.array(f".state.{name}", np.dtype(name)) for name in kinds]
    frames = [Frame(unit, Statements(unit, facts)) for _ in range(3)]
    frames[0].begin()
    frames[0].lowering.body(unit.body[: front.at])
    for local, memory, at in places:
        frames[0].lowering.emit(ir.Store(memory, at, local))
    for frame in frames[1:]:
        for local, memory, at in places:
            frame.lowering.emit(ir.Assign(local, Read(memory, (at,))))
    _Nest(frames[1].lowering, front).blocks()
    frames[2].lowering.body(unit.body[front.at + 1 :])
    frames[2].end()
    made = [frame.kernel(stem, (*state, PROGRESS), (GROUP, STRIP))
            for stem, frame in zip(("before", "nest", "after"), frames)]
    return FrontKernels(made[0], made[1], made[2], tuple(kinds.items()))


def _variables(unit: Unit, front: Wavefront) -> list[Local]:
    """What is set before the nest."""
    types = unit.typing.names
    names = [n for n, _ in unit.parameters] + list(
        syntax.assigned_names(unit.body[: front.at]))
    found = [Local(n, types[n].dtype) for n in dict.fromkeys(names)
             if isinstance(types[n], Scalar)]
    return found + [Local(f"{n}.at", INT64) for s in dict.fromkeys(unit.storages.values())
                    if s.slots > 1 for n in s.names]


class _Nest:
    """The kernel of blocks."""

    def __init__(self, lowering: Statements, front: Wavefront) -> None:
        self.low = lowering
        self.front = front
        self.number = Local(".number", INT64)

    def blocks(self) -> None:
        low, outer = self.low, self.front.outer
        counted = low.counted(outer)
        first = plus(counted.low, times(self.number, GROUP))
        last = call(ops.minimum, plus(first, GROUP), counted.high)
        with low.block() as body:
            first, last = low.hold(first), low.hold(last)
            if self.front.inner is None:
                low.loop(outer, counted, first, last)
            elif self.front.grouped:
                self.together(counted, first, last)
            else:
                low.loop(outer, counted, first, last, self.turn)
                self.close()
        low.emit(ir.For(self.number, LOW, HIGH, tuple(body)))

    def together(self, counted: Counted, first: Expr, last: Expr) -> None:
        """Outer turns next to each other, strip by strip."""
        low, outer, inner = self.low, self.front.outer, self.front.inner
        assert inner is not None
        columns = low.counted(inner)
        self.strips(columns, lambda a, b: low.loop(
            outer, counted, first, last, lambda: low.loop(inner, columns, a, b)))
        self.close()

    def turn(self) -> None:
        """One outer turn, by itself."""
        low, inner = self.low, self.front.inner
        assert inner is not None
        low.body(self.front.outer.body[:-1])
        counted = low.counted(inner)
        self.strips(counted, lambda a, b: low.loop(inner, counted, a, b))

    def strips(self, inner: Counted, work: Callable[[Expr, Expr], None]) -> None:
        """All inner turns, some at a time, each behind the block before."""
        low, front = self.low, self.front
        assert front.inner is not None
        sign = 1 if _is_up(front.inner) else -1
        count = low.hold(floordiv(plus(minus(inner.high, inner.low), minus(STRIP, 1)), STRIP))
        strip = low.fresh_counter()
        with low.block() as body:
            a = low.hold(plus(inner.low, times(strip, STRIP)))
            b = low.hold(call(ops.minimum, plus(a, STRIP), inner.high))
            reached = low.hold(plus(times(inner.value(minus(b, 1)), sign), 1))
            self.wait(plus(reached, front.ahead))
            work(a, b)
            self.announce(reached)
        low.emit(ir.For(strip, ZERO, count, tuple(body)))

    def close(self) -> None:
        """The block is over, and all before."""
        self.wait(LAST)
        self.announce(LAST)

    def wait(self, value: Expr) -> None:
        self.low.emit(ir.Await(PROGRESS, times(self.number, STRIDE), value, REPORT))

    def announce(self, value: Expr) -> None:
        self.low.emit(ir.Announce(PROGRESS, plus(times(self.number, STRIDE), STRIDE), value))


def _is_up(loop: syntax.For) -> bool:
    return isinstance(loop.step, syntax.Number) and int(loop.step.value) > 0  # type: ignore[call-overload]
