"""Joins of the entries of two stored tensors (``algebra.joins``): by equal keys, or by ranges of
sorted keys. The cost grows with the entries and the pairs, never with the cells."""

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
from tensorel.algebra.steps import run
from tensorel.base import memory_regions
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.buffers import Control
from tensorel.kernels.runtime.python_pool import run_ranges
from tensorel.storage import key_matching
from tensorel.storage.convert import from_dense, pack, to_coo, to_dense
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require
from tensorel.storage.sorting import sort_coords
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Shape = tuple[int, ...]
_LOWER, _UPPER = ("greater", "greater_equal"), ("less", "less_equal")
#: Pairs that conditions are evaluated on at a time.
_BLOCK_PAIRS = 1 << 20
_BLOCK_ENTRIES, _MIN_THREADED_ENTRIES = 1 << 15, 1 << 17


class _Side:
    """The entries of one operand."""

    def __init__(self, stored: Stored, name: str, fill: joins.Literal) -> None:
        coo = to_coo(_refilled(stored, fill))
        there = joins.differs(coo.values, fill)
        if not there.all():
            coo = coo.where(there)
        self.values = coo.values
        self.coords = coo.coords
        self.count = coo.count
        self.given = joins.attributes(name, coo.values, coo.coords)

    def column(self, steps: Any) -> Array:
        """A formula of each entry."""
        return np.ascontiguousarray(np.broadcast_to(run(steps, self.given), self.count))

    def at(self, positions: Positions) -> dict[str, Array]:
        return {name: c[positions] for name, c in self.given.items()}


def _refilled(stored: Stored, fill: joins.Literal) -> Stored:
    """The tensor with every entry stored: by its own fill where that is the one that is meant."""
    value = np.frombuffer(fill[0], fill[1])[0]
    same = value == stored.fill or (value != value and stored.fill != stored.fill)
    if same or stored.count == np.prod(stored.shape, dtype=float):
        return stored
    return from_dense(to_dense(stored), value)


def join(op: BulkOperator, args: list[Stored], params: tuple[Join], shape: Shape) -> Stored:
    """See ``algebra.joins.Join``."""
    (how,) = params
    a, b = _Side(args[0], "a", how.fills[0]), _Side(args[1], "b", how.fills[1])
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


def _merged(how: Join, a: _Side, b: _Side, left: Positions, right: Positions
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


# -- pairs ---------------------------------------------------------------------------------------
def _pairs(how: Join, a: _Side, b: _Side) -> tuple[Positions, Positions]:
    """Positions of entries that meet all conditions, by the left and then the right."""
    equal = [c for c in how.conditions if c.op == "equal"]
    rest = [c for c in how.conditions if c.op != "equal"]
    if not a.count or not b.count:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if equal:
        found = key_matching.pairs([a.column(c.left) for c in equal],
                                   [b.column(c.right) for c in equal])
    else:
        ranged = _ranged(rest)
        rest = [c for c in rest if c not in ranged]
        found = _range_pairs(ranged, a, b) if ranged else _all_pairs(a, b)
    return _filtered(rest, a, b, found)


def _filtered(conditions: Sequence[Condition], a: _Side, b: _Side,
              found: tuple[Positions, Positions]) -> tuple[Positions, Positions]:
    """The pairs that meet further conditions."""
    if not conditions:
        return found
    kept = []
    for at in range(0, found[0].size, _BLOCK_PAIRS):
        left, right = (p[at : at + _BLOCK_PAIRS] for p in found)
        given = {**a.at(left), **b.at(right)}
        met = np.ones(left.size, bool)
        for condition in conditions:
            met &= joins.holds(condition, given)
        kept.append(np.flatnonzero(met) + at)
    chosen = np.concatenate(kept) if kept else np.empty(0, np.int64)
    return found[0][chosen], found[1][chosen]


def _all_pairs(a: _Side, b: _Side) -> tuple[Positions, Positions]:
    require(16 * a.count * b.count, f"all pairs of {a.count} and {b.count} entries")
    return np.repeat(np.arange(a.count), b.count), np.tile(np.arange(b.count), a.count)


# -- ranges --------------------------------------------------------------------------------------
def _ranged(conditions: Sequence[Condition]) -> list[Condition]:
    """Conditions that bound one formula of A by formulas of B; the first, and those that bound the
    same formula from the other side."""
    bounds = [c for c in conditions if c.op in _LOWER + _UPPER]
    if not bounds:
        return []
    first = bounds[0]
    other = _UPPER if first.op in _LOWER else _LOWER
    return [first, *[c for c in bounds if c.op in other and c.left == first.left][:1]]


def _range_pairs(conditions: list[Condition], a: _Side, b: _Side) -> tuple[Positions, Positions]:
    """Entries of A sorted by their key: those that an entry of B asks for lie side by side."""
    keys = a.column(conditions[0].left)
    numbers = np.flatnonzero(keys == keys)
    keys = keys[numbers]
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    low, high = np.zeros(b.count, np.int64), np.full(b.count, ranked.size)
    for c in conditions:
        bound = b.column(c.right)
        first, second = _comparable(ranked, bound)
        at = np.searchsorted(
            first, second, side="left" if c.op in ("greater_equal", "less") else "right")
        if c.op in _LOWER:
            low = at
        else:
            high = at
        missing = bound != bound
        high = np.where(missing, 0, high)
        low = np.where(missing, 0, low)
    counts = np.maximum(high - low, 0)
    total = int(counts.sum())
    require(40 * total, f"a join that makes {total} pairs")
    right = np.repeat(np.arange(b.count), counts)
    nth = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    left = numbers[order[np.repeat(low, counts) + nth]]
    by = sort_coords([left, right], (0, 1), (max(a.count, 1), max(b.count, 1)))
    return (left, right) if by is None else (left[by], right[by])


def _comparable(a: Array, b: Array) -> tuple[Array, Array]:
    dtype = np.result_type(a, b)
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)
