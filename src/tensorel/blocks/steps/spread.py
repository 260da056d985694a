"""Where the entries of a sparse tensor are: how many lie in any box, and where an axis has to be
cut so that parts have equal shares of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass

Edges = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
Coords = npt.NDArray[np.signedinteger]
MAX_ENTRIES = 1 << 20  # that are looked at, evenly picked
MAX_JOINT = 3  # axes that are counted together
PARTS = {1: 1024, 2: 128, 3: 20}  # of an axis, by how many are counted together


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Some axes counted together: ``below[p, q]`` entries lie below the places p and q of them."""

    axes: tuple[int, ...]
    places: tuple[Edges, ...]
    below: Counts

    def share(self, low: Edges, high: Edges) -> Counts:
        """The share of the entries in boxes (rows), over these axes."""
        at = [[_between(p, ends[:, k]) for k, p in zip(self.axes, self.places)]
              for ends in (low, high)]
        found = np.zeros(len(low))
        for corner in product((0, 1), repeat=len(self.axes)):
            sign = (-1) ** (len(corner) - sum(corner))
            found += sign * self._at([at[c][k] for k, c in enumerate(corner)])
        total = float(self.below.reshape(-1)[-1])
        return np.maximum(found, 0.0) / max(total, 1e-300)

    def _at(self, where: Sequence[tuple[Edges, Counts]]) -> Counts:
        """Entries below points, as if they were even between places."""
        found = np.zeros(len(where[0][0]))
        for step in product((0, 1), repeat=len(where)):
            weight = np.ones(len(found))
            for (_, part), s in zip(where, step):
                weight *= part if s else 1 - part
            found += weight * self.below[tuple([w + s for (w, _), s in zip(where, step)])]
        return found


def _between(places: Edges, at: Edges) -> tuple[Edges, Counts]:
    """Which place is below, and how far it is from there to the next one."""
    first = np.clip(np.searchsorted(places, at, "right") - 1, 0, len(places) - 2)
    width = np.maximum(places[first + 1] - places[first], 1)
    return first, (at - places[first]) / width


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """``total`` entries; axes of different tables count as independent of each other."""

    total: float
    tables: tuple[Table, ...]

    def entries(self, low: Edges, high: Edges) -> Counts:
        """How many lie in boxes (rows)."""
        found = np.full(len(low), self.total)
        for t in self.tables:
            found *= t.share(low, high)
        return found

    def below(self, axis: int) -> tuple[Edges, Counts]:
        """Places of an axis, and the share of the entries that is below each."""
        table = next(t for t in self.tables if axis in t.axes)
        k = table.axes.index(axis)
        last = tuple([slice(None) if j == k else -1 for j in range(len(table.axes))])
        counts = table.below[last]
        return table.places[k], counts / max(float(counts[-1]), 1e-300)


def of_entries(coords: Sequence[Coords], shape: Sequence[int]) -> Spread | None:
    """Of entries that are at hand."""
    count = len(coords[0]) if coords else 0
    if not count:
        return None
    step = -(-count // MAX_ENTRIES)
    picked = [c[::step] for c in coords]
    widest = sorted(range(len(shape)), key=lambda k: -shape[k])
    groups = [tuple(sorted(widest[:MAX_JOINT])), *[(k,) for k in sorted(widest[MAX_JOINT:])]]
    tables = []
    for axes in groups:
        places = tuple([_places(picked[k], shape[k], PARTS[len(axes)]) for k in axes])
        at = [np.searchsorted(p, picked[k], "right") - 1 for k, p in zip(axes, places)]
        grid = tuple([len(p) - 1 for p in places])
        flat = np.ravel_multi_index(tuple(at), grid)
        tables.append(counted(axes, places, np.bincount(
            flat, minlength=int(np.prod(grid))).reshape(grid).astype(np.float64)))
    return Spread(float(count), tuple(tables))


def of_blocks(edges: Sequence[Edges], counts: Counts) -> Spread | None:
    """Of blocks of which it is known how much each holds."""
    if not len(edges) or not counts.sum() or any(e[-1] == 0 for e in edges):
        return None
    return Spread(float(counts.sum()),
                  (counted(tuple(range(len(edges))), tuple(edges), counts),))


def counted(axes: tuple[int, ...], places: tuple[Edges, ...], counts: Counts) -> Table:
    """A table of what is between the places of some axes."""
    found = np.zeros([n + 1 for n in counts.shape])
    found[tuple([slice(1, None)] * counts.ndim)] = counts
    for axis in range(counts.ndim):
        np.cumsum(found, axis=axis, out=found)
    return Table(axes, places, found)


def _places(coords: Coords, extent: int, parts: int) -> Edges:
    """Where an axis is cut for counting: each index that has more than a part of the entries is a
    part of its own."""
    if extent <= 2 * parts:
        return np.arange(extent + 1)
    sample = np.sort(coords[::max(len(coords) // (64 * parts), 1)]).astype(np.int64)
    picked = sample[np.linspace(0, len(sample) - 1, parts).astype(np.int64)]
    return np.unique(np.concatenate(([0], picked, picked + 1, [extent])))
