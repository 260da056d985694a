"""Which operands of a nest have rows or cells that are fetched ahead (``lowering.prefetch``).

Those that the cache nearest to the processor does not hold. Short sparse rows gain most: the
processor guesses how many entries each has, and finds out when the bounds of the row arrive. Dense
rows gain where the jumps between them go far: entries that are stored together often point to the
same few rows.

Processors wait for many cells of a vector at once, so these gain nothing by themselves. Where cells
of the result are added to at jumps, all over a vector that fills the second cache, it pays to fetch
them and the cells that are read (A.T @ (A @ x)); one of the two alone gains nothing, nor do both in
smaller vectors."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.costs import Costs
from tensorel.ir.given import about, plain
from tensorel.ir.nodes import Expr, Index, Read
from tensorel.kernels.lowering.nest import Assembly, Nest
from tensorel.kernels.lowering.prefetch import LINE_BYTES, RESULT
from tensorel.plan.slot_facts import Known

MAX_LINES = 8  # of longer rows the processor guesses the rest


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
            lines = min(-(-row // LINE_BYTES), MAX_LINES)
            (found if rank > 1 else cells).add((known.slot.name, lines))
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
    return _spread(out.coords[-1], item, item * about(
        [extents[name] for name in out.axes]), operands)


def _row_bytes(known: Known) -> int:
    """Of what lies together at a place that is jumped to: a row, or a cell of a vector."""
    item, order = known.source.dtype.itemsize, known.slot.format.order
    return item if len(order) == 1 else plain(known.source.shape[order[-1]]) * item


def _spread(at: Expr, row: int, bytes_: float, operands: Mapping[Read, Known]) -> float:
    """Bytes that the jumps go over which follow the entries of an operand."""
    found = bytes_ / max(row, 1)
    for other, leader in operands.items():
        if leader.locality is not None and other.indices[leader.slot.format.order[-1]] == at:
            found = min(found, leader.locality())
    return found * row
