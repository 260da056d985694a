"""What the planner knows of a slot: format, entries, nodes and longest segments per level."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.given import plain
from tensorel.ir.nodes import Source
from tensorel.kernels.lowering.nest import Slot
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.join_sampling import Rows
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Listed
from tensorel.storage.stack import Stack

INDEX_LIMIT = 2**29  # counts of a plan may double before it is made anew: stay far below 2**31


@dataclass
class Known:
    """A slot with its statistics: stored entries and nodes per level."""

    slot: Slot
    source: Source
    count: float
    levels: tuple[float, ...]
    bytes_: float
    degrees: tuple[float, ...] | None = None  # longest segment of each level, where known
    facts: Callable[[bool], TensorStats] | None = None  # statistics; True: worth a pass
    alternatives: tuple[Format, ...] = ()  # other formats that the same tensor is stored in
    token: Hashable = None  # the stored tensor itself, by a number
    rows: Callable[[], Rows | None] | None = None  # the pattern of a stored matrix
    locality: Callable[[], float] | None = None  # see ``stats.collected.locality``
    stores: Callable[[tuple[int, ...]], bool] | None = None  # what is asked of its values
    #: the axis at which it has what its readers ask for alone, and which share that is
    restricted: tuple[int, float] | None = None


def level_sizes(fmt: Format, shape: tuple[int, ...], count: float) -> tuple[float, ...]:
    """Nodes of each level, estimated from the number of entries."""
    sizes, nodes, room = [], 1.0, 1.0
    for axis, level in zip(reversed(fmt.order), reversed(fmt.levels)):
        if not level.full:
            break
        # below each node the last levels have all their entries
        count /= max(plain(shape[axis]), 1)
    for axis, level in zip(fmt.order, fmt.levels):
        room = min(room * max(plain(shape[axis]), 1), 1e300)
        nodes = nodes * plain(shape[axis]) if level.full else min(room, max(count, 1.0))
        sizes.append(nodes)
    return tuple(sizes)


def has_few_empty(rows: float, entries: float) -> bool:
    """An array with a cell for each row is in proportion to the entries: most rows have some, or
    there are few rows at all."""
    return rows <= 4 * entries + 1024


def index_dtype(extent: int) -> DType:
    return np.dtype(np.int32) if extent < 2**31 else np.dtype(np.int64)


def index_dtypes(fmt: Format, dtype: DType, shape: tuple[int, ...], count: float
                 ) -> tuple[tuple[str, str], ...]:
    """Dtypes of the physical arrays that kernels and packers make for a format."""
    if not isinstance(fmt, Stack):
        return ()
    if fmt.is_dense:
        return (("val", dtype.str),)
    wide = np.dtype(np.int32) if count < INDEX_LIMIT else np.dtype(np.int64)
    found: list[tuple[str, str]] = []
    for axis, level in zip(fmt.order, fmt.levels):
        if isinstance(level, Compressed):
            found.append((f"pos{level.depth}", wide.str))
            found.append((f"idx{level.depth}", index_dtype(shape[axis]).str))
        elif isinstance(level, Listed):
            found.append((f"idx{level.depth}", index_dtype(shape[axis]).str))
    return (*found, ("val", dtype.str))
