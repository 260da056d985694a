"""All pairs of entries that meet, merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra import joins
from tensorel.algebra.bulk import BulkOperator
from tensorel.algebra.joins import Condition, Join
from tensorel.base import memory_regions
from tensorel.engines.in_process.entry_joins.meetings import Runs, all_hold, meeting
from tensorel.engines.in_process.entry_joins.sides import Side
from tensorel.engines.in_process.entry_joins.sums import summed
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.buffers import Control
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage import key_matching
from tensorel.storage.convert import from_dense, pack
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Shape = tuple[int, ...]
#: Pairs that conditions are evaluated on at a time.
_BLOCK_PAIRS = 1 << 20
_BLOCK_ENTRIES, _MIN_THREADED_ENTRIES = 1 << 15, 1 << 17


def join(op: BulkOperator, args: list[Stored], params: tuple[Join], shape: Shape) -> Stored:
    """See ``algebra.joins.Join``."""
    (how,) = params
    a, b = Side(args[0], "a", how.fills[0]), Side(args[1], "b", how.fills[1])
    if how.is_summed:
        return summed(how, a, b, shape, op.dtype(args[0].dtype, args[1].dtype, how))
    left, right = _pairs(how, a, b)
    if how.left:
        matched = np.zeros(a.count, bool)
        matched[left] = True
        alone = np.flatnonzero(~matched)
        order = np.argsort(np.concatenate([left, alone]), kind="stable")
        left = np.concatenate([left, alone])[order]
        right = np.concatenate([right, np.full(alone.size, -1)])[order]
    width = 8 + op.dtype(args[0].dtype, args[1].dtype, how).itemsize + 8 * len(shape)
    require(2 * width * left.size, f"a join that makes {left.size} entries")
    made, values = _merged(how, a, b, left, right)
    fill = values.dtype.type(0)
    if not shape:
        return from_dense(values[0] if values.size else fill)
    return pack(Coo(tuple(made), values, shape, fill, tuple(range(len(shape)))), "coo")


def _merged(how: Join, a: Side, b: Side, left: Positions, right: Positions
            ) -> tuple[list[Array], Array]:
    """Coordinates and values of pairs: block after block, so that what is on the way stays in the
    cache, on all threads."""
    columns = [(c, left) for c in a.coords] + [(b.coords[k], right) for k in how.kept]
    made = [memory_regions.empty(left.size, c.dtype) for c, _ in columns]
    values = memory_regions.empty(
        left.size, joins.result_dtype(a.values.dtype, b.values.dtype, how))

    def block(lo: int, hi: int, worker: int) -> Status:
        for (source, at), target in zip(columns, made):
            np.take(source, at[lo:hi], out=target[lo:hi], mode="wrap")
        ours = a.values[left[lo:hi]]
        theirs = b.values.take(right[lo:hi], mode="wrap") if b.count else np.zeros(
            hi - lo, b.values.dtype)
        if how.left:
            theirs[right[lo:hi] < 0] = 0
        values[lo:hi] = joins.merged(how, ours, theirs)
        return Status.DONE

    limits = config.current()
    control = Control(limits.memory)
    workers = 1 if isinstance(how.merge, joins.Untraced) else limits.workers
    tasks = [partial(block, lo, min(lo + _BLOCK_ENTRIES, left.size))
             for lo in range(0, left.size, _BLOCK_ENTRIES)]
    if run_ranges(tasks, workers, control, small=left.size < _MIN_THREADED_ENTRIES) \
            is not Status.DONE:
        raise KeyboardInterrupt
    return made, values


def _pairs(how: Join, a: Side, b: Side) -> tuple[Positions, Positions]:
    """Positions of entries that meet all conditions, by the left and then the right."""
    equal = [c for c in how.conditions if c.op == "equal"]
    if equal:
        found = key_matching.pairs([a.column(c.left) for c in equal],
                                   [b.column(c.right) for c in equal])
        rest = [c for c in how.conditions if c.op != "equal"]
    else:
        met, rest = meeting(how, a, b)
        found = _of_runs(met.runs(), a, b)
    return _filtered(rest, a, b, found)


def _of_runs(runs: Runs, a: Side, b: Side) -> tuple[Positions, Positions]:
    """The pairs of entries of B and ranges of A."""
    total = int(runs.counts.sum())
    require(40 * total, f"a join that makes {total} pairs")
    right = np.repeat(np.arange(b.count), runs.counts)
    nth = np.arange(total) - np.repeat(np.cumsum(runs.counts) - runs.counts, runs.counts)
    left = runs.members[np.repeat(runs.start, runs.counts) + nth]
    by = sort_coords([left, right], (0, 1), (max(a.count, 1), max(b.count, 1)))
    return (left, right) if by is None else (left[by], right[by])


def _filtered(conditions: Sequence[Condition], a: Side, b: Side,
              found: tuple[Positions, Positions]) -> tuple[Positions, Positions]:
    """The pairs that meet further conditions."""
    if not conditions:
        return found
    kept = []
    for at in range(0, found[0].size, _BLOCK_PAIRS):
        left, right = (p[at : at + _BLOCK_PAIRS] for p in found)
        kept.append(np.flatnonzero(all_hold(conditions, a, b, left, right)) + at)
    chosen = np.concatenate(kept) if kept else np.empty(0, np.int64)
    return found[0][chosen], found[1][chosen]
