"""What dense loops cost that become vectors: innermost ones, and loops over cells with sums inside,
which run once for all lanes then (``kernels.passes.outer_vectors``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensorel.costs import Costs
from tensorel.ir.affine import split_affine
from tensorel.plan.loops.operands import Operand

LANES = 10.0  # so many times less do the loops inside take: vectors, and several of them
MAX_TERMS = 4096.0  # of a cell: the rows of longer sums leave the caches between two vectors


def lanes(name: str, inner: Sequence[str], operands: Sequence[Operand],
          extents: Mapping[str, int]) -> float:
    """By how much the work of the loops ``inner`` shrinks inside a loop over the last axis of the
    cells: all operands are dense, and each has neighbours for neighbouring cells, or one entry."""
    if math.prod([float(extents[n]) for n in inner]) > MAX_TERMS:
        return 1.0
    moves = False
    for o in operands:
        if not all(o.full):
            return 1.0
        uses = [k for k, e in enumerate(o.axes) if name in e.free]  # type: ignore[attr-defined]
        if uses:
            parts = split_affine(o.axes[-1], name)  # type: ignore[arg-type]
            if uses != [len(o.axes) - 1] or parts is None or parts[0] != 1:
                return 1.0
            moves = moves or any(n in o.read.free for n in inner)
    return LANES if moves else 1.0


def lane_rate(name: str, operands: Sequence[Operand], across: str | None, costs: Costs) -> float:
    """A turn of the innermost loop inside of such a loop over ``across``: what is read is near what
    was read before, or it is not."""
    rate = 0.0
    for o in operands:
        uses = [k for k, e in enumerate(o.axes) if name in e.free]  # type: ignore[attr-defined]
        if uses:
            vectors = across is not None and across in o.axes[-1].free  # type: ignore[attr-defined]
            near = uses[0] >= len(o.axes) - 1 - vectors
            rate += costs.vector_step if near else costs.gather
    return rate


def dense_rate(name: str, operands: list[Operand], out_last: str | None, costs: Costs) -> float:
    """A dense innermost loop over neighbouring elements is vectorized; each operand is read."""
    near, number = out_last is None or out_last == name, 0
    for o in operands:
        uses = [k for k, e in enumerate(o.axes) if name in e.free]  # type: ignore[attr-defined]
        number += bool(uses)
        if uses and (uses != [len(o.axes) - 1] or not o.full[-1]):
            near = False
    if near:
        return costs.vector_step * max(number, 1)
    return costs.dense_step + costs.gather * number
