"""The groups of a tensor program as rows: where one of its results has entries, the values of all.

Dense results are read in one pass by a kernel of their own, which writes indices and values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tensorel.algebra import ops
from tensorel.engines.rows.frames import ROW, Arrays, Each, Frame, Place, Test
from tensorel.engines.rows.pipelines import Pipelines
from tensorel.engines.rows.vectors import Array
from tensorel.ir.build import compare, convert, plus, times
from tensorel.ir.nodes import INT64, Expr, Read, const
from tensorel.storage import convert as storage
from tensorel.storage.entries import differs
from tensorel.storage.stored import Stored

_INT32 = np.dtype(np.int32)


def gathered(results: Sequence[Stored], known: int) -> tuple[list[Array], list[Array]]:
    """The coordinates at which the result ``known`` differs from its fill, in order, and the values
    of each result there."""
    views = [storage.dense_view(s) for s in results]
    if results[known].shape and all(v is not None and v.flags.c_contiguous for v in views):
        return _of_dense(results[known], [v for v in views if v is not None], views[known])
    coords, values = _entries(results[known])
    found = []
    for k, stored in enumerate(results):
        found.append(values if k == known else _at(stored, coords, len(values)))
    return coords, found


def _of_dense(like: Stored, views: Sequence[Array], groups: Array | None) -> tuple[
        list[Array], list[Array]]:
    """All lines along the last axis, and in each the cells that are groups."""
    assert groups is not None
    arrays, columns = Arrays(), like.shape[-1]
    lines = prod(like.shape[:-1])
    j, at = arrays.local("column"), arrays.local("cell")
    flat = [arrays.source(v.reshape(-1)) for v in views]
    group = Read(arrays.source(groups.reshape(-1)), (at,))
    frame = Frame(lines, (
        Each(j, const(0, INT64), arrays.number(columns, INT64)),
        Place(at, plus(times(ROW, arrays.number(columns, INT64)), j)),
        Test(compare(ops.not_equal, group, const(like.fill.item(), like.dtype)))), {})
    narrow = _INT32 if max(lines, columns) < 2**31 else INT64
    values: list[Expr] = [Read(f, (at,)) for f in flat]
    wanted = [convert(ROW, narrow), convert(j, narrow), *values]
    _, found = Pipelines(arrays).collect_counted(frame, wanted)
    return [*_lines(found[0], like.shape[:-1]), found[1]], found[2:]


def _lines(lines: Array, shape: tuple[int, ...]) -> list[Array]:
    """The coordinates of lines by their numbers."""
    if len(shape) < 2:
        return [lines] * len(shape)
    return list(np.unravel_index(lines, shape))


def _entries(stored: Stored) -> tuple[list[Array], Array]:
    if not stored.shape:
        return [], np.asarray(storage.to_dense(stored)).reshape(1)
    coo = storage.to_coo(stored)
    coords, values = list(coo.coords), coo.values
    kept = differs(values, stored.fill)
    if not kept.all():
        coords, values = [c[kept] for c in coords], values[kept]
    return coords, values


def _at(stored: Stored, coords: Sequence[Array], count: int) -> Array:
    """The values at sorted coordinates, of which the entries are some."""
    view = storage.dense_view(stored)
    if not stored.shape or view is not None:
        dense = storage.to_dense(stored) if view is None else view
        found: Array = dense[tuple(coords)].reshape(count)
        return found
    ours, data = _entries(stored)
    if len(data) == count and all(np.array_equal(a, b) for a, b in zip(ours, coords)):
        return data
    result = np.full(count, stored.fill, stored.dtype)
    places = [_linear(c, stored.shape) for c in (ours, coords)]
    result[np.searchsorted(places[1], places[0])] = data
    return result


def _linear(coords: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The place of each cell in row-major order."""
    found = np.zeros(len(coords[0]), np.int64)
    for c, n in zip(coords, shape):
        found = found * n + c
    return found
