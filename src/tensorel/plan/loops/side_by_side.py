"""Which loops over cells kernels take in vectors, with the sums inside run once for all lanes
(``kernels.passes.outer_vectors``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensorel.ir.affine import split_affine
from tensorel.plan.loops.operands import Operand

LANES = 8.0  # so many times less do the loops inside take
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
