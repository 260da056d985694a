"""Which operands of a nest have rows or cells that are fetched ahead (``kernels.ahead`` says how).

Those that the cache nearest to the processor does not hold. Short sparse rows gain most: how many
entries there are is guessed at each, and a wrong guess is noticed when the bounds of the row
arrive. Dense rows gain where the jumps between them go far: entries that are stored together often
point to the same few rows.

Cells of a vector are waited for side by side, and gain nothing by themselves. Where cells of the
result are added to at jumps, all over a vector that fills the second cache, fetching them and the
cells that are read takes 0.72 to 0.89 of the time (A.T @ (A @ x), a million columns); one of the
two alone gains nothing, nor do both in smaller vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tensorel.costs import Costs
from tensorel.ir.nodes import Expr, Index, Read
from tensorel.kernels.ahead import LINE, RESULT
from tensorel.kernels.spec import Assembly, Nest
from tensorel.plan.known import Known

MOST_LINES = 8  # of longer rows the processor guesses the rest


def fetched(nest: Nest, operands: Mapping[Read, Known], costs: Costs) -> frozenset[tuple[str, int]]:
    """Slots, each with the number of lines of a dense row (1 for a cell); 0 for sparse ones."""
    found: set[tuple[str, int]] = set()
    cells: set[tuple[str, int]] = set()
    for read, known in operands.items():
        if known.bytes_ <= costs.fetch_bytes:
            continue
        if not known.slot.format.is_dense:
            found.add((known.slot.name, 0))
            continue
        row, rank = _row_bytes(known), known.slot.format.rank
        spread = _spread(read.indices[known.slot.format.order[-2:][0]], row, known.bytes_, operands)
        if spread > (costs.near_bytes if rank > 1 else costs.far_bytes):
            (found if rank > 1 else cells).add((known.slot.name, min(-(-row // LINE), MOST_LINES)))
    if cells and _result_spread(nest, operands) > costs.far_bytes:
        found |= cells | {(RESULT, 1)}
    return frozenset(found)


def _result_spread(nest: Nest, operands: Mapping[Read, Known]) -> float:
    """Bytes of the result between cells that are added to one after another."""
    out = nest.output
    if out.assembly is not Assembly.DENSE or len(nest.loops) < 2 or not out.coords \
            or out.coords[-1] != Index(nest.loops[-1]):
        return 0.0
    extents, item = nest.extent, out.dtype.itemsize
    return _spread(out.coords[-1], item, item * math.prod(
        [float(extents[name]) for name in out.axes]), operands)


def _row_bytes(known: Known) -> int:
    """Of what lies together at a place that is jumped to: a row, or a cell of a vector."""
    item, order = known.source.dtype.itemsize, known.slot.format.order
    return item if len(order) == 1 else known.source.shape[order[-1]] * item


def _spread(at: Expr, row: int, bytes_: float, operands: Mapping[Read, Known]) -> float:
    """Bytes that the jumps go over which follow the entries of an operand."""
    found = bytes_ / max(row, 1)
    for other, leader in operands.items():
        if leader.reach is not None and other.indices[leader.slot.format.order[-1]] == at:
            found = min(found, leader.reach())
    return found * row
