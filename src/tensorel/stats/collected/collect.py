"""Statistics from stored tensors, kept with them.

``known`` reads off the levels what costs nothing; ``collect`` makes one pass over indices and
values, about the time of three products with a vector. Nothing is allocated by the extent of an
axis that is much longer than the list of entries.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from weakref import ref

import numpy as np
import numpy.typing as npt

from tensorel.stats.collected.count_vectors import Vector, keyed
from tensorel.stats.collected.entries import (
    CHUNK_ENTRIES,
    IntArray,
    Levels,
    Nodes,
    coordinate_chunks,
    pattern,
)
from tensorel.stats.collected.facts import (
    Axes,
    Degrees,
    TensorStats,
    Tiles,
    degrees_from,
    dense_degrees,
    others,
)
from tensorel.stats.collected.values import value_facts
from tensorel.storage.convert import count_nonfill
from tensorel.storage.entries import is_nan
from tensorel.storage.levels import Dense
from tensorel.storage.limits import require
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

#: Longer count vectors are used for their norms and not kept.
MAX_VECTOR_LENGTH = 1 << 20
_MIN_TABLE_CELLS = 1 << 16
_MAX_TILES_PER_AXIS = 64

Found = dict[tuple[Axes, Axes], Degrees]


def known(stored: Stored) -> TensorStats:
    """What needs no pass: sizes, flags of the format, degrees that are segment lengths."""
    found = collected(stored)
    if found is None:
        found = _keep(stored, _known(stored))
    return found


def collect(stored: Stored) -> TensorStats:
    """All statistics of one pass; the second call costs nothing.

    >>> from tensorel.storage.convert import from_coo
    >>> stats = collect(from_coo([[0, 0, 2], [1, 2, 2]], [1.0, 1.0, 1.0], (3, 4), format="csr"))
    >>> stats.degrees_of(0)
    Degrees(distinct=2, largest=2.0, l1=3.0, l2=2.23606797749979, exact=True)
    >>> stats.bandwidth, stats.all_ones
    ((0, 2), True)
    """
    found = known(stored)
    if found.values is not None:
        return found
    if not found.full and found.rank:
        found = _visited(stored, found)
    values = value_facts(stored)
    inside = values.least is None or stored.dtype.kind == "c" or (
        is_nan(stored.fill) and values.has_nan) or (
        values.least <= stored.fill.item() <= values.greatest)
    nnz = count_nonfill(stored) if inside or _hides_fills(stored) else found.count
    return _keep(stored, replace(found, values=values, nnz=nnz))


def _hides_fills(stored: Stored) -> bool:
    return not isinstance(stored.format, Stack)


def collected(stored: Stored) -> TensorStats | None:
    """What is known by now."""
    return stored.derived.stats


def _keep(stored: Stored, stats: TensorStats) -> TensorStats:
    stored.derived.stats = stats
    return stats


def _known(stored: Stored) -> TensorStats:
    shape, fmt = stored.shape, stored.format
    rank, count = len(shape), stored.count
    nothing: tuple[Vector | None, ...] = (None,) * rank
    if fmt.is_dense or not rank:
        found: Found = {}
        if rank:
            found = {((a,), others(rank, (a,))): dense_degrees(n, prod(_without(shape, a)))
                     for a, n in enumerate(shape)}
        distinct: dict[Axes, float] = {(a,): float(n) for a, n in enumerate(shape)}
        return TensorStats(
            shape, prod(shape), full=True, vectors=nothing, degrees=found if count else None,
            distinct=distinct, sorted=True, unique=True)
    if not isinstance(fmt, Stack):
        return TensorStats(shape, count, vectors=nothing, sorted=True, unique=True)
    levels = Levels(stored)
    found, first = {}, levels.nodes(0)
    vectors = list(nothing)
    if first.bounds is not None and not first.repeated:
        vector = _vector_of(first.keys, first.leaves, first.extent)
        found[_alone(rank, first.axis)] = degrees_from(vector)
        vectors[first.axis] = _kept(vector)
    if rank > 2:
        _prefixes(levels, found)
    return TensorStats(
        shape, count, vectors=tuple(vectors), degrees=found, distinct=_distinct(found),
        sorted=True, unique=True)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _alone(rank: int, axis: int) -> tuple[Axes, Axes]:
    return (axis,), others(rank, (axis,))


def _kept(vector: Vector) -> Vector | None:
    return vector if vector.counts.size <= MAX_VECTOR_LENGTH else None


def _distinct(found: Found) -> dict[Axes, float]:
    distinct: dict[Axes, float] = {}
    for (given, counted), d in found.items():
        distinct[given] = d.distinct
        if d.exact:
            distinct[tuple(sorted(given + counted))] = d.l1
    return distinct


def degrees_of_counts(counts: npt.NDArray[np.generic]) -> Degrees:
    """Of the partners of each value; zeros are values that do not occur."""
    return degrees_from(Vector(counts, counts.size))


def _prefixes(levels: Levels, found: Found) -> None:
    """Degrees given the first axes of the storage order, from segment lengths."""
    order, rank = levels.format.order, len(levels.ranges)
    for depth in range(1, rank - 1):
        nodes = levels.nodes(depth)
        if nodes.repeated:
            return
        given = tuple(sorted(order[: depth + 1]))
        leaves = nodes.leaves
        if leaves is not None and depth < 3:
            found[given, others(rank, given)] = degrees_of_counts(leaves)
        if depth == 1 and not isinstance(levels.format.levels[1], Dense):
            lengths = levels.children(0)
            if lengths is not None:
                found[order[:1], order[1:2]] = degrees_of_counts(lengths)


def _vector_of(keys: IntArray | None, leaves: IntArray | None, extent: int) -> Vector:
    """Entries per coordinate, from the keys of nodes and the number of leaves of each."""
    if keys is None:
        assert leaves is not None
        return Vector(leaves if leaves.size == extent else leaves.reshape(-1, extent).sum(0),
                      extent)
    if extent > max(2 * keys.size, _MIN_TABLE_CELLS):
        return keyed(keys, leaves, extent)
    step = max(4 * CHUNK_ENTRIES, extent)
    require(8 * (2 * extent + min(step, keys.size)), f"counting entries of {extent} coordinates")
    counts: IntArray | None = None
    for lo in range(0, max(keys.size, 1), step):
        weights = None if leaves is None else leaves[lo : lo + step]
        part = np.bincount(keys[lo : lo + step], weights, extent).astype(np.int64, copy=False)
        counts = part if counts is None else np.add(counts, part, out=counts)
    assert counts is not None
    return Vector(counts, extent)


def _visited(stored: Stored, stats: TensorStats) -> TensorStats:
    """Degrees of each axis, spans, bandwidth and tiles."""
    rank, fmt = stats.rank, stored.format
    vectors: dict[int, Vector] = {a: v for a, v in enumerate(stats.vectors) if v is not None}
    coords: tuple[IntArray, ...] | None = None
    levels: Levels | None = None
    if isinstance(fmt, Stack):
        levels = Levels(stored)
        for depth, axis in enumerate(fmt.order):
            if axis not in vectors:
                vectors[axis] = _axis_vector(levels, depth)
    else:
        coords = pattern(stored)
        if coords is None:
            return stats
        stats = replace(stats, count=int(coords[0].size))
        vectors = {a: _vector_of(c, None, n) for a, (c, n) in enumerate(zip(coords, stats.shape))}
    found = dict(stats.degrees or {})
    for axis, vector in vectors.items():
        found[_alone(rank, axis)] = degrees_from(vector)
    spans = tuple([_span(vectors[a]) for a in range(rank)])
    made = replace(
        stats, degrees=found, distinct=_distinct(found), spans=spans,
        vectors=tuple([_kept(vectors[a]) for a in range(rank)]))
    if rank == 2:
        band = _bandwidth(stored, levels, coords)
        made = replace(made, bandwidth=band, diagonal=partial(_on_diagonal, ref(stored)))
    return made if rank > 2 else replace(made, tiles=_tiles(stored, coords, levels))


def _on_diagonal(to: ref[Stored]) -> int | None:
    """Entries with i = j, counted once."""
    stored = to()
    if stored is None:
        return None
    found = stored.derived.diagonal
    if found is None:
        found = stored.derived.diagonal = sum(
            int(np.count_nonzero(i == j)) for i, j in coordinate_chunks(stored))
    return found


def _axis_vector(levels: Levels, depth: int) -> Vector:
    nodes = levels.nodes(depth) if depth else levels.outermost
    leaves = nodes.leaves
    if nodes.keys is None and leaves is None:  # a dense last level: all coordinates alike
        parents = (nodes.stop - nodes.start) // nodes.extent if nodes.extent else 0
        return Vector(np.full(nodes.extent, parents), nodes.extent)
    return _vector_of(nodes.keys, leaves, nodes.extent)


def _span(vector: Vector) -> tuple[int, int] | None:
    if not vector.distinct:
        return None
    if vector.keys is not None:
        return int(vector.keys[0]), int(vector.keys[-1])
    held = vector.counts != 0
    return int(held.argmax()), held.size - 1 - int(held[::-1].argmax())


def _bandwidth(stored: Stored, levels: Levels | None, coords: tuple[IntArray, ...] | None
               ) -> tuple[int, int] | None:
    """(max(i - j), max(j - i)) over the entries; None if there are none."""
    order = stored.format.order
    if coords is None:
        levels = levels or Levels(stored)
        first, inner = levels.outermost, levels.nodes(1)
        if first.bounds is None or inner.keys is None:
            found = [_offsets(c) for c in levels.chunks()]
            offsets = np.asarray(found).reshape(-1, 2)
        else:  # ascending segments: their ends suffice
            found_band = _segment_ends(first, inner)
            if found_band is None or order == (0, 1):
                return found_band
            return found_band[1], found_band[0]
    else:
        offsets = np.asarray([_offsets(coords)] if coords[0].size else []).reshape(-1, 2)
    if not offsets.size:
        return None
    return -int(offsets[:, 0].min()), int(offsets[:, 1].max())


def _segment_ends(outer: Nodes, inner: Nodes) -> tuple[int, int] | None:
    """(max(outer - inner), max(inner - outer)) of two levels, the inner one ascending."""
    assert outer.bounds is not None and inner.keys is not None
    found: list[tuple[int, int]] = []
    for at in range(0, outer.bounds.size - 1, CHUNK_ENTRIES):
        bounds = outer.bounds[at : at + CHUNK_ENTRIES + 1]
        begins, ends = bounds[:-1], bounds[1:]
        rows = (np.arange(at, at + begins.size) if outer.keys is None
                else outer.keys[at : at + CHUNK_ENTRIES].astype(np.int64))
        held = begins < ends
        if not held.all():
            begins, ends, rows = begins[held], ends[held], rows[held]
        if rows.size:
            low = inner.keys[begins - inner.start] - rows
            high = inner.keys[ends - (1 + inner.start)] - rows
            found.append((-int(low.min()), int(high.max())))
    return (max(f[0] for f in found), max(f[1] for f in found)) if found else None


def _offsets(coords: tuple[IntArray, ...]) -> tuple[int, int]:
    apart = coords[1].astype(np.int64) - coords[0]
    return int(apart.min()), int(apart.max())


def tile_size(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Powers of two: at most 64 tiles per axis and 65536 in all."""
    each = min(_MAX_TILES_PER_AXIS, int(65536 ** (1 / max(len(shape), 1)) + 1e-9))
    return tuple([1 << max(-(-n // each) - 1, 0).bit_length() for n in shape])


def _tiles(stored: Stored, coords: tuple[IntArray, ...] | None, levels: Levels | None = None
           ) -> Tiles:
    size = tile_size(stored.shape)
    grid = tuple([-(-n // s) for n, s in zip(stored.shape, size)])
    shifts = [s.bit_length() - 1 for s in size]
    counts = np.zeros(grid, dtype=np.int64)
    if isinstance(stored.format, Stack) and len(grid) == 2:
        levels, (outer, inner) = levels or Levels(stored), stored.format.order
        last = levels.nodes(1)
        if last.keys is not None:
            rows = counts if outer == 0 else counts.T
            for row, (lo, hi) in zip(rows, levels.first_axis_ranges(size[outer])):
                for at in range(lo, hi, CHUNK_ENTRIES // 2):
                    part = slice(at - last.start, min(at + CHUNK_ENTRIES // 2, hi) - last.start)
                    _count_into(row, last.keys[part] >> shifts[inner])
            return Tiles(stored.shape, size, counts)
    flat = counts.reshape(-1)
    for piece in coordinate_chunks(stored) if coords is None else [coords]:
        key = np.zeros(piece[0].size, dtype=np.int64)
        for c, g, s in zip(piece, grid, shifts):
            key *= g
            key += c >> s
        flat += np.bincount(key, minlength=flat.size)
    return Tiles(stored.shape, size, counts)


def _count_into(counts: npt.NDArray[np.int64], keys: IntArray) -> None:
    """Add the number of each key. Long runs of one key, as in bands, are counted as runs."""
    sample = keys[:1024]
    if keys.size < 1024 or 8 * np.count_nonzero(sample[1:] != sample[:-1]) > 1024:
        counts += np.bincount(keys, minlength=counts.size)
        return
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    lengths = np.diff(starts, prepend=0, append=keys.size)
    runs = np.bincount(keys[np.concatenate(([0], starts))], lengths, counts.size)
    counts += runs.astype(np.int64)
