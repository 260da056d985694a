"""Statistics of a tensor from those of its tiles.

``placed`` sees a tile's statistics at its place in the whole; ``merge`` unites two sets of
entries of one shape that have no cell in common. Sums are exact; norms are exact where count
vectors are at hand or the tiles have no coordinate of the axis in common, else they are bounds.
"""

from __future__ import annotations

from dataclasses import replace
from math import hypot, prod

import numpy as np

from tensorel.stats.collect import VECTOR_LIMIT
from tensorel.stats.facts import (
    Axes,
    Degrees,
    TensorStats,
    Tiles,
    degrees_from,
    dense_degrees,
    others,
)
from tensorel.stats.values import join_values
from tensorel.stats.vectors import Vector, add

Span = tuple[int, int] | None


def placed(stats: TensorStats, start: tuple[int, ...], shape: tuple[int, ...]) -> TensorStats:
    """The statistics of a tensor of ``shape`` that holds the tile at ``start`` and nothing else."""
    if start == (0,) * stats.rank and shape == stats.shape:
        return stats
    vectors = tuple([None if v is None else v.window(-s, 1, n)
                     for v, s, n in zip(stats.vectors, start, shape)])
    spans = stats.spans
    if stats.full:
        spans = tuple([(0, n - 1) if n else None for n in stats.shape])
        vectors = tuple([_block(n, prod(stats.shape[:a] + stats.shape[a + 1 :]), s, e)
                         for a, (n, s, e) in enumerate(zip(stats.shape, start, shape))])
    if spans is not None:
        spans = tuple([None if p is None else (p[0] + s, p[1] + s) for p, s in zip(spans, start)])
    band = stats.bandwidth
    if stats.full and stats.rank == 2 and stats.count:
        band = stats.shape[0] - 1, stats.shape[1] - 1
    if band is not None:
        band = band[0] + start[0] - start[1], band[1] + start[1] - start[0]
    tiles = None if shape != stats.shape else stats.tiles
    return replace(stats, shape=shape, full=False, vectors=vectors, spans=spans,
                   bandwidth=band, tiles=tiles, symmetric=None, diagonal=None)


def _block(length: int, each: int, start: int, extent: int) -> Vector | None:
    if length > VECTOR_LIMIT:
        return None
    keys = np.arange(start, start + length)
    return Vector(np.full(length, each), extent, keys)


def merge(a: TensorStats, b: TensorStats) -> TensorStats:
    """Of both together: one shape, no cell in both. What cannot be merged is None or a bound."""
    assert a.shape == b.shape, (a.shape, b.shape)
    if not a.count or not b.count:
        return b if not a.count else a
    rank, count = a.rank, a.count + b.count
    vectors = tuple([_sum(v, w) for v, w in zip(a.vectors, b.vectors)])
    spans = None
    if a.spans is not None and b.spans is not None:
        spans = tuple([_hull(p, q) for p, q in zip(a.spans, b.spans)])
    degrees = _degrees(a, b, vectors)
    distinct: dict[Axes, float] = {}
    for axes in {**(a.distinct or {}), **(b.distinct or {})}:
        value = _distinct(a, b, axes)
        if value is not None:
            distinct[axes] = value
    for (given, _), d in degrees.items():
        distinct[given] = min(d.distinct, distinct.get(given, d.distinct))
    values = None if a.values is None or b.values is None else join_values(a.values, b.values)
    nnz = None if a.nnz is None or b.nnz is None else a.nnz + b.nnz
    return TensorStats(
        a.shape, count, nnz, count == prod(a.shape), vectors, degrees, distinct, spans, values,
        sorted=None, unique=True if a.unique and b.unique else None,
        symmetric=True if a.symmetric and b.symmetric else None,
        bandwidth=_band(a.bandwidth, b.bandwidth) if rank == 2 else None,
        tiles=_tiles(a.tiles, b.tiles))


def _sum(v: Vector | None, w: Vector | None) -> Vector | None:
    return None if v is None or w is None else add(v, w)


def _hull(p: Span, q: Span) -> Span:
    if p is None or q is None:
        return q if p is None else p
    return min(p[0], q[0]), max(p[1], q[1])


def _apart(a: TensorStats, b: TensorStats, axes: Axes) -> bool:
    """No value of ``axes`` occurs in both: one of them has disjoint spans."""
    if a.spans is None or b.spans is None:
        return False
    for axis in axes:
        p, q = a.spans[axis], b.spans[axis]
        if p is not None and q is not None and (p[1] < q[0] or q[1] < p[0]):
            return True
    return False


def _degrees(a: TensorStats, b: TensorStats, vectors: tuple[Vector | None, ...]
             ) -> dict[tuple[Axes, Axes], Degrees]:
    found: dict[tuple[Axes, Axes], Degrees] = {}
    for axis, vector in enumerate(vectors):
        if vector is not None:
            found[(axis,), others(a.rank, (axis,))] = degrees_from(vector)
    for key, d in (a.degrees or {}).items():
        e = (b.degrees or {}).get(key)
        if e is not None and key not in found:
            found[key] = _joint(a, b, key, d, e)
    return found


def _joint(a: TensorStats, b: TensorStats, key: tuple[Axes, Axes], d: Degrees, e: Degrees
           ) -> Degrees:
    given, counted = key
    if _apart(a, b, given):
        return Degrees(d.distinct + e.distinct, max(d.largest, e.largest), d.l1 + e.l1,
                       hypot(d.l2, e.l2), d.exact and e.exact)
    most = float(prod([a.shape[x] for x in counted]))
    room = float(prod([a.shape[x] for x in given]))
    distinct = min(d.distinct + e.distinct, room)
    largest = min(d.largest + e.largest, most)
    l1, full = min(d.l1 + e.l1, distinct * largest), dense_degrees(distinct, largest)
    return Degrees(distinct, largest, l1, min(d.l2 + e.l2, full.l2), False)


def _distinct(a: TensorStats, b: TensorStats, axes: Axes) -> float | None:
    x, y = (a.distinct or {}).get(axes), (b.distinct or {}).get(axes)
    if x is None or y is None:
        return None
    return min(x + y, float(prod([a.shape[k] for k in axes])))


def _band(p: tuple[int, int] | None, q: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if p is None or q is None else (max(p[0], q[0]), max(p[1], q[1]))


def _tiles(p: Tiles | None, q: Tiles | None) -> Tiles | None:
    if p is None or q is None or p.size != q.size:
        return None
    return Tiles(p.shape, p.size, p.counts + q.counts)
