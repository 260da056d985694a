"""Which operands of a nest have rows that are fetched ahead (``kernels.ahead`` says how).

Those that the cache nearest to the processor does not hold. Short sparse rows gain most: how many
entries there are is guessed at each, and a wrong guess is noticed when the bounds of the row
arrive. Dense rows gain where the jumps between them go far: entries that are stored together often
point to the same few rows."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.costs import Costs
from tensorel.ir.nodes import Read
from tensorel.kernels.ahead import LINE
from tensorel.plan.known import Known

MOST_LINES = 8  # of longer rows the processor guesses the rest


def fetched(operands: Mapping[Read, Known], costs: Costs) -> frozenset[tuple[str, int]]:
    """Slots, each with the number of lines of a dense row; 0 for sparse ones."""
    found: set[tuple[str, int]] = set()
    for read, known in operands.items():
        if known.bytes_ <= costs.fetch_bytes:
            continue
        if not known.slot.format.is_dense:
            found.add((known.slot.name, 0))
        elif known.slot.format.rank > 1:
            row = _row_bytes(known)
            if row * _rows_between(read, known, operands) > costs.near_bytes:
                found.add((known.slot.name, min(-(-row // LINE), MOST_LINES)))
    return frozenset(found)


def _row_bytes(known: Known) -> int:
    return known.source.shape[known.slot.format.order[-1]] * known.source.dtype.itemsize


def _rows_between(read: Read, known: Known, operands: Mapping[Read, Known]) -> float:
    """Over how many rows the jumps go that follow the entries of another operand."""
    at = read.indices[known.slot.format.order[-2]]
    found = known.bytes_ / max(_row_bytes(known), 1)
    for other, leader in operands.items():
        if leader.reach is not None and other.indices[leader.slot.format.order[-1]] == at:
            found = min(found, leader.reach())
    return found
