"""Operators that treat each fibre along an axis by itself, cut along the other axes: sorting,
ranking, running sums and picking along one axis need no fibre at two sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.steps.access import Cell, Loops
from tensorel.blocks.steps.layout import Box, Layout
from tensorel.ir.nodes import Axis, Bulk, Index, Lambda, Read, Source, Tensor, const


@dataclass(frozen=True, slots=True)
class Fibres(Loops):
    """The axes of the first operand but one are loops. ``bulk``: the operator; ``axis``: the one
    along which it works."""

    bulk: Bulk
    axis: int

    @property
    def inner(self) -> dict[str, tuple[int, int]]:
        """Fibres are read whole, and so are other operands."""
        return {f"r{k}": (0, n) for k, n in enumerate(
            (self.bulk.args[0].shape[self.axis], *[a.shape[0] for a in self.bulk.args[1:]]))}

    def reads(self, operand: Source) -> list[Read]:
        found = []
        for k, a in enumerate(self.bulk.args):
            if a is operand:
                at = [Index(x.name) for x in self.axes] if k == 0 else []
                at.insert(self.axis if k == 0 else 0, Index(f"r{k}"))
                found.append(Read(operand, tuple(at)))
        return found

    def over(self, cell: Cell, boxes: Sequence[Box]) -> Tensor:
        args = []
        for a in self.bulk.args:
            k = self.operands.index(a)
            assert isinstance(a, Source)
            args.append(Source(k, tuple([hi - lo for lo, hi in boxes[k]]), a.dtype, a.fill))
        return Bulk(self.bulk.op, tuple(args), self.bulk.params)

    @property
    def stays(self) -> bool:
        """Whether the result has the axis."""
        return len(self.bulk.shape) == len(self.axes) + 1

    def of_result(self, loop: int) -> int:
        return loop + (self.stays and loop >= self.axis)

    def box(self, ranges: Sequence[tuple[int, int]]) -> Box:
        found = list(ranges[:len(self.axes)])
        if self.stays:
            found.insert(self.axis, (0, self.bulk.shape[self.axis]))
        return tuple(found)

    def laid(self, layout: Layout) -> Layout:
        if not self.stays:
            return layout
        whole = np.array([0, self.bulk.shape[self.axis]])
        return replace(layout, edges=(*layout.edges[:self.axis], whole, *layout.edges[self.axis:]),
                       home=np.expand_dims(layout.home, self.axis))


def fibres_of(bulk: Bulk) -> Fibres | None:
    """The loops over the fibres of an operator; None where it treats none by itself, or there is
    one alone."""
    axis = bulk.op.axis(bulk.params)
    first = bulk.args[0]
    places = all(len(a.shape) == 1 for a in bulk.args[1:])
    kept = len(bulk.shape) in (len(first.shape), len(first.shape) - 1)
    if axis is None or len(first.shape) < 2 or not places or not kept \
            or not all(isinstance(a, Source) for a in bulk.args):
        return None
    others = [n for k, n in enumerate(first.shape) if k != axis]
    axes = tuple([Axis(f"i{k}", n) for k, n in enumerate(others)])
    operands = tuple(dict.fromkeys([a for a in bulk.args if isinstance(a, Source)]))
    return Fibres(Lambda(axes, const(0, bulk.dtype)), None, axes, (), operands, bulk, axis)
