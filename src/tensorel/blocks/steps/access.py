"""Which part of its operands a part of a step reads, and the step over such parts.

A step has loops: the axes of its result and of the reduction at its root. A cell is a range of each
of them. What a cell makes is a program of its own: indices count from the cell's corner, operands
are the boxes that the cell reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.blocks.steps.layout import Box, Layout
from tensorel.ir.build import moved_by, plus
from tensorel.ir.nodes import (
    Axis,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    reads_in,
)
from tensorel.ir.ranges import index_range, is_affine
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import inner_reductions

#: A range of each loop.
Cell = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Loops:
    """A step by its loops. ``reduced``: the last ones, which the monoid ``op`` goes over."""

    tensor: Lambda
    op: Operator | None
    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    operands: tuple[Source, ...]

    @property
    def entry(self) -> Expr:
        """What is reduced, or the entry of the result."""
        body = self.tensor.body
        return body.body if self.op is not None and isinstance(body, Reduce) else body

    @property
    def indices(self) -> tuple[Axis, ...]:
        return self.axes + self.reduced

    def plain(self, operand: Source) -> list[str | None]:
        """For each axis of an operand the loop that walks it, if each read walks it so."""
        found: list[set[str | None]] = [set() for _ in operand.shape]
        loops = self.names
        for r in self.reads(operand):
            for names, e in zip(found, r.indices):
                names.add(e.name if isinstance(e, Index) and e.name in loops else None)
        return [names.pop() if len(names) == 1 else None for names in found]

    def along(self, operand: Source) -> list[str | None]:
        """For each axis of an operand the loop that moves along it, shifted or not; of several, as
        a window and its place, the one that comes much farther than the others."""
        found: list[dict[str, float]] = [{} for _ in operand.shape]
        loops = {a.name: a.extent for a in self.indices}
        for r in self.reads(operand):
            for reach, e in zip(found, r.indices):
                affine = is_affine(e)
                for n in e.free:
                    far = math.inf if affine is None or n not in loops else (
                        abs(affine.coefficients.get(n, 0)) * (loops[n] - 1))
                    reach[n] = max(reach.get(n, 0), far)
        return [_farthest(reach) if reach.keys() <= loops.keys() else None for reach in found]

    @property
    def inner(self) -> dict[str, tuple[int, int]]:
        """Ranges of the indices that are no loops."""
        return {a.name: (0, a.extent) for r in inner_reductions(self.entry) for a in r.axes}

    def of_result(self, loop: int) -> int:
        """Which axis of the result a loop is."""
        return loop

    def box(self, ranges: Sequence[tuple[int, int]]) -> Box:
        """The part of the result that a cell makes."""
        return tuple(ranges[:len(self.axes)])

    def laid(self, layout: Layout) -> Layout:
        """The layout of the result whose axes are cut as the loops are."""
        return layout

    @property
    def names(self) -> frozenset[str]:
        return frozenset([a.name for a in self.indices])

    def reads(self, operand: Source) -> list[Read]:
        return [r for r in reads_in(self.entry) if r.tensor is operand]

    def over(self, cell: Cell, boxes: Sequence[Box]) -> Tensor:
        """The step over a cell: its operands are numbered, and stand for boxes."""
        moved: dict[str, Expr] = {
            a.name: plus(Index(a.name), cell[a.name][0]) for a in self.indices if cell[a.name][0]}
        table: dict[Expr, Expr] = {}
        places = {s: (Source(k, tuple([hi - lo for lo, hi in box]), s.dtype, s.fill), box)
                  for k, (s, box) in enumerate(zip(self.operands, boxes))}
        for r in reads_in(self.entry):  # those inside of indices first
            local, box = places[r.tensor]  # type: ignore[index]
            at = tuple([moved_by(_replaced(e, table, moved), -lo)
                        for e, (lo, _) in zip(r.indices, box)])
            table[r] = Read(local, at) if all(local.shape) else local.fill
        body = _replaced(self.entry, table, moved)
        cut = {a.name: Axis(a.name, cell[a.name][1] - cell[a.name][0]) for a in self.indices}
        if self.op is not None:
            body = Reduce(self.op, tuple([cut[a.name] for a in self.reduced]), body)
        return Lambda(tuple([cut[a.name] for a in self.axes]), body)


def _replaced(e: Expr, table: dict[Expr, Expr], moved: Mapping[str, Expr]) -> Expr:
    """Indices outside of reads count from the cell's corner as well; reads are replaced whole."""
    if e in table:
        return table[e]
    match e:
        case Index():
            return moved.get(e.name, e)
        case Reduce():
            return Reduce(e.op, e.axes, _replaced(e.body, table, moved))
        case Const() | Read():
            return e
        case _:
            args = tuple([_replaced(a, table, moved) for a in e.args])  # type: ignore[attr-defined]
            return type(e)(e.op, args)  # type: ignore[attr-defined, call-arg]


def _farthest(reach: Mapping[str, float]) -> str | None:
    """The one that comes as far as all others at least twice over."""
    if len(reach) < 2:
        return next(iter(reach), None)
    name = max(reach, key=lambda n: reach[n])
    return name if reach[name] >= 2 * (sum(reach.values()) - reach[name]) else None


def loops_of(tensor: Lambda) -> Loops:
    """The loops of a step."""
    body = tensor.body
    op, reduced = (body.op, body.axes) if isinstance(body, Reduce) else (None, ())
    sources = dict.fromkeys([r.tensor for r in reads_in(body)])
    return Loops(tensor, op, tensor.axes, reduced,
                 tuple([s for s in sources if isinstance(s, Source)]))


def range_of(e: Expr, cell: Cell, extent: int) -> tuple[int, int]:
    """The places that an index expression takes in a cell."""
    if isinstance(e, Index) and e.name in cell:
        return min(cell[e.name][0], extent), min(cell[e.name][1], extent)
    extents = {n: hi - lo for n, (lo, hi) in cell.items()}
    shifted = substitute(e, {n: plus(Index(n), lo) for n, (lo, _) in cell.items() if lo})
    found = index_range(shifted, extents)
    if found is None:
        return 0, extent
    lo, hi = min(max(found[0], 0), extent), min(max(found[1] + 1, 0), extent)
    return lo, max(lo, hi)


