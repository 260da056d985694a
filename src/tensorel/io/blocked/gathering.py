"""All blocks of a tensor in one place, and a tensor that is here in blocks: one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tensorel.io.blocked.source import BlockSource, Edges, Put, box_of
from tensorel.io.guard import check_array
from tensorel.storage import convert
from tensorel.storage.entries import Coo
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype
from tensorel.storage.stored import Stored

Key = tuple[int, ...]


def keys_of(edges: Sequence[Edges]) -> Iterator[Key]:
    """The keys of all blocks, in order."""
    yield from product(*[range(len(e) - 1) for e in edges])


def gathered(source: BlockSource, path: str) -> Stored:
    """The tensor of all blocks: dense where at least half of its entries are stored."""
    shape, size = source.shape, prod(source.shape)
    if source.whole:
        return source.make(())
    if source.stored is None or not shape or 2 * source.stored.sum() >= size:
        check_array(shape, source.dtype.itemsize, path)
        whole = np.full(shape, source.fill, source.dtype)
        for key in keys_of(source.edges):
            block = source.make(key)
            if block.format.is_dense or block.count:
                whole[box_of(source.edges, key)] = convert.to_dense(block)
        return convert.from_dense(whole, source.fill)
    require(int(source.stored.sum()) * (source.dtype.itemsize + 8 * len(shape)), path)
    parts: list[Coo] = []
    formats = set()
    for key in keys_of(source.edges):
        block = source.make(key)
        if block.count:
            formats.add(block.format.name)
            coo = convert.to_coo(block)
            start = [s.start for s in box_of(source.edges, key)]
            parts.append(Coo(tuple([c.astype(index_dtype(n)) + index_dtype(n).type(a)
                                    for c, a, n in zip(coo.coords, start, shape)]), coo.values,
                             shape, coo.fill, coo.order))
    coords = [np.concatenate([p.coords[k] for p in parts] or [np.empty(0, np.int64)])
              for k in range(len(shape))]
    values = np.concatenate([p.values for p in parts] or [np.empty(0, source.dtype)])
    kept = formats.pop() if len(formats) == 1 and not formats & {"dense"} else "coo"
    return convert.from_coo(coords, values, shape, fill=source.fill, format=kept)


def scattered(stored: Stored, cut: Callable[[Sequence[Edges]], tuple[tuple[Edges, ...], Put]]
              ) -> list[Any]:
    """Write a tensor that is here block by block; what each ``put`` gave."""
    edges, put = cut([np.array([0, n]) for n in stored.shape])
    if all(len(e) == 2 for e in edges):
        return [put((0,) * len(edges), stored)]
    view = convert.dense_view(stored)
    if view is not None and stored.format.is_dense:
        return [put(key, convert.from_dense(np.array(view[box_of(edges, key)]), stored.fill))
                for key in keys_of(edges)]
    return [put(key, block) for key, block in _pieces(stored, edges)]


def _pieces(stored: Stored, edges: Sequence[Edges]) -> Iterator[tuple[Key, Stored]]:
    """The blocks of a sparse tensor that have entries, in its format where that can hold them."""
    coo = convert.to_coo(stored)
    grid = tuple([len(e) - 1 for e in edges])
    at = [np.searchsorted(e, c, side="right") - 1 for e, c in zip(edges, coo.coords)]
    number = np.ravel_multi_index(tuple(at), grid)
    order = np.argsort(number, kind="stable")
    found, first = np.unique(number[order], return_index=True)
    for flat, rows in zip(found.tolist(), np.split(order, first[1:])):
        key = tuple([int(k) for k in np.unravel_index(flat, grid)])
        low = [s.start for s in box_of(edges, key)]
        shape = tuple([s.stop - s.start for s in box_of(edges, key)])
        yield key, convert.from_coo(
            [c[rows] - a for c, a in zip(coo.coords, low)], coo.values[rows], shape,
            fill=stored.fill, format=stored.format.name if _can_hold(stored, shape) else "coo")


def _can_hold(stored: Stored, shape: tuple[int, ...]) -> bool:
    """Formats with names of their own hold blocks of any extents; others were made for these."""
    return stored.format.name in ("coo", "csr", "csc", "dcsr", "dcsc", "csf")
