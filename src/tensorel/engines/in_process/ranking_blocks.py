"""Runs rankings block by block, so that their operands are never stored whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorel.engines.in_process.whole_tensors import run_together
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Bulk, Source, Tensor, const
from tensorel.ir.replacing import replaced
from tensorel.plan.steps.rankings import Blocked, blocked_rankings, kept_axis, of_block
from tensorel.storage.convert import from_dense, to_dense
from tensorel.storage.stored import Stored

Evaluate = Callable[[Sequence[Tensor]], list[Stored]]


def ranked_first(nodes: Sequence[Tensor], blocked: Blocked, evaluate: Evaluate) -> list[Tensor]:
    """The program with its large rankings replaced by their results."""
    instead: dict[Tensor, Tensor] = {}
    for (operand, axis), rankings in blocked_rankings(list(nodes), blocked).items():
        rows = blocked[operand.shape, operand.dtype, axis]
        for ranking, array in zip(rankings, _ranked(rankings, axis, rows, evaluate)):
            fill = fill_of(ranking)
            instead[ranking] = Source(
                from_dense(array, fill.value), ranking.shape, ranking.dtype, fill)
    return replaced(nodes, instead)


def _ranked(rankings: list[Bulk], axis: int, rows: int, evaluate: Evaluate) -> list[np.ndarray]:
    """The results of rankings of one operand, ``rows`` coordinates of its axis at a time."""
    (operand,) = rankings[0].args
    extent = operand.shape[axis]
    results = [np.empty(r.shape, r.dtype) for r in rankings]
    for lo in range(0, extent, rows):
        at = np.arange(lo, min(lo + rows, extent))
        source = Source(from_dense(at), at.shape, at.dtype, const(0, at.dtype))
        (block,) = evaluate([of_block(operand, axis, source)])
        parts = [r[(*(slice(None),) * kept_axis(b, axis), slice(lo, lo + rows))]
                 for b, r in zip(rankings, results)]
        for part, found in zip(parts, run_together(rankings, block)):
            part[...] = to_dense(found)
    return results
