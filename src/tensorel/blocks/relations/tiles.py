"""Blocks of stored tensors: where a tensor is cut, its pieces, a tensor of pieces, and the sizes of
blocks by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.blocks.relations.keys import Keys, codes, starts
from tensorel.errors import ShapeError, TensorelError
from tensorel.storage import convert as storage
from tensorel.storage.entries import Coo, is_nan
from tensorel.storage.limits import Holding, require
from tensorel.storage.stack import index_dtype
from tensorel.storage.stored import Stored

Shape = tuple[int, ...]
Shapes = npt.NDArray[np.int64]  # one row for each key
Edges = npt.NDArray[np.int64]
BLOCK_BYTES = 2000  # of a block beside its entries


class Room:
    """What blocks take beside each other: those that are read, and those that are being made."""

    __slots__ = ("_held", "_what")

    def __init__(self, what: str, *read: Sequence[Stored]) -> None:
        self._what = what
        self._held = sum([b.nbytes for blocks in read for b in blocks])

    def take(self, size: int) -> None:
        """Refuse a block that has so many bytes of entries where there is no room for it."""
        self._held += size + BLOCK_BYTES
        require(self._held, self._what)

    def taken(self) -> Holding:
        """A block of a program that may use what is left."""
        return Holding(self._held)


# -- sizes ----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Along:
    """The extent of an axis of blocks where it differs: by component ``dim`` of the key."""

    dim: int
    at: Keys  # the components, sorted
    sizes: Shapes

    def of(self, components: Keys) -> Shapes:
        """The extents at components that it knows."""
        found: Shapes = self.sizes[np.searchsorted(self.at, components)]
        return found


#: Of each axis of the blocks.
Sizes = tuple[int | Along, ...]


def shapes_at(sizes: Sizes, keys: Keys) -> Shapes:
    """The shapes of the blocks with these keys."""
    found = np.empty((len(keys), len(sizes)), np.int64)
    for axis, size in enumerate(sizes):
        found[:, axis] = size if isinstance(size, int) else size.of(keys[:, size.dim])
    return found


def infer(keys: Keys, shapes: Shapes) -> Sizes | None:
    """The sizes by which blocks with these keys have these shapes; None where the extent of some
    axis does not follow from one component of the key."""
    if not len(keys):
        return None
    found: list[int | Along] = []
    for axis in range(shapes.shape[1]):
        column = shapes[:, axis]
        if (column == column[0]).all():
            found.append(int(column[0]))
            continue
        dims = sorted(range(keys.shape[1]), key=lambda d: d != axis)  # that of its own axis first
        along = next((a for a in (_along(keys, d, column) for d in dims) if a), None)
        if along is None:
            return None
        found.append(along)
    return tuple(found)


def _along(keys: Keys, dim: int, column: Shapes) -> Along | None:
    at, first = np.unique(keys[:, dim], return_index=True)
    found = Along(dim, at, column[first])
    return found if (found.of(keys[:, dim]) == column).all() else None


def sizes_of(edges: Sequence[Edges]) -> Sizes:
    """The sizes of the pieces of a tensor that is cut at the edges of its axes."""
    found: list[int | Along] = []
    for axis, e in enumerate(edges):
        widths = np.diff(e)
        even = len(widths) and (widths == widths[0]).all()
        found.append(int(widths[0]) if even else Along(axis, np.arange(len(widths)), widths))
    return tuple(found)


# -- cutting --------------------------------------------------------------------------------------
def edges_of(extent: int, tile: int | Sequence[int] | None, axis: int) -> Edges:
    """Where an axis is cut. ``tile``: the size of all tiles but perhaps the last, the sizes one by
    one, or the edges from 0 to the extent; None: one tile.

    >>> [edges_of(5, tile, 0).tolist() for tile in (2, [2, 3], [0, 2, 5])]
    [[0, 2, 4, 5], [0, 2, 5], [0, 2, 5]]
    """
    if tile is None:
        return np.array([0, extent])
    if isinstance(tile, int):
        if tile < 1:
            raise ShapeError(f"tile: axis {axis} cannot be cut into tiles of size {tile}",
                             hint="a size is 1 or more")
        count = -(-extent // tile)
        require(8 * count, f"the {count} tiles of axis {axis}")
        return np.minimum(np.arange(count + 1) * tile, extent)
    given = np.array(tile, np.int64).reshape(-1)
    if len(given) > 1 and given[0] == 0 and given[-1] == extent and (np.diff(given) > 0).all():
        return given
    if int(given.sum()) != extent or (given < 1).any():
        raise ShapeError(
            f"tile: {list(tile)} neither are sizes that add up to the {extent} entries of axis "
            f"{axis}, nor edges from 0 to {extent} in ascending order",
            hint=f"e.g. sizes [{extent - extent // 2}, {extent // 2}] or edges "
            f"[0, {extent - extent // 2}, {extent}]")
    return np.concatenate(([0], np.cumsum(given)))


def pieces(stored: Stored, edges: Sequence[Edges]) -> list[tuple[Shape, Stored]]:
    """The pieces of a tensor that is cut at the edges of its axes, by their numbers. Of a sparse
    tensor those with entries, in its format where that can hold them."""
    view = storage.dense_view(stored)
    if view is None or not stored.format.is_dense:
        return _sparse_pieces(stored, edges)
    count = prod([len(e) - 1 for e in edges])
    require(view.nbytes + BLOCK_BYTES * count, f"a copy of a tensor in {count} blocks")
    found = []
    for number in product(*[range(len(e) - 1) for e in edges]):
        part = view[tuple([slice(e[k], e[k + 1]) for e, k in zip(edges, number)])]
        found.append((number, storage.from_dense(np.array(part), stored.fill)))
    return found


def _sparse_pieces(stored: Stored, edges: Sequence[Edges]) -> list[tuple[Shape, Stored]]:
    coo = storage.to_coo(stored)
    if not coo.shape:
        return [((), stored)]
    require(2 * coo.nbytes + 24 * coo.count, "a copy of a tensor in blocks")
    number = [np.searchsorted(e, c, side="right") - 1 for e, c in zip(edges, coo.coords)]
    rows = np.stack(number, axis=1).astype(np.int64)
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    begins = starts(codes(rows)[0]).tolist()
    count = len(begins)
    require(2 * coo.nbytes + BLOCK_BYTES * count, f"a copy of a tensor in {count} blocks")
    local = [(c - e[k])[order] for c, e, k in zip(coo.coords, edges, number)]
    values = coo.values[order]
    found = []
    for low, high in zip(begins, [*begins[1:], len(rows)]):
        at = tuple(rows[low].tolist())
        shape = tuple([int(e[k + 1] - e[k]) for e, k in zip(edges, at)])
        coords = tuple([c[low:high].astype(index_dtype(n)) for c, n in zip(local, shape)])
        part = Coo(coords, values[low:high].copy(), shape, coo.fill, tuple(range(len(shape))))
        found.append((at, _packed(part, stored.format.name)))
    return found


def _packed(coo: Coo, format: str) -> Stored:
    """Stored in the format, or as a coordinate list where that cannot hold it."""
    try:
        return storage.pack(coo, format)
    except TensorelError:
        return storage.pack(coo, "coo")


# -- putting together -----------------------------------------------------------------------------
def constant(shape: Shape, dtype: DType, fill: object) -> Stored:
    """A block of which nothing is stored."""
    return storage.empty_result(shape, dtype, fill, "coo" if shape else "dense")


def is_same(a: np.generic, b: np.generic) -> bool:
    """Whether two values of one dtype cannot be told apart; nans are alike."""
    return a.tobytes() == b.tobytes() or (is_nan(a) and is_nan(b))


def assembled(parts: Iterable[tuple[Sequence[int], Stored]], shape: Shape, dtype: DType,
              fill: np.generic) -> Stored:
    """The tensor with these blocks at these places, filled elsewhere: dense where at least half of
    its cells lie in dense blocks."""
    placed = list(parts)
    if len(placed) == 1 and placed[0][1].shape == shape:
        return placed[0][1]
    cells = sum([prod(s.shape) for _, s in placed if s.format.is_dense])
    if not shape or (cells and 2 * cells >= prod(shape)):
        require(prod(shape) * dtype.itemsize, f"a dense tensor of shape {shape}")
        whole = np.full(shape, fill, dtype)
        for start, block in placed:
            whole[tuple([slice(a, a + n) for a, n in zip(start, block.shape)])] = (
                storage.to_dense(block))
        return storage.from_dense(whole, fill)
    coords: list[list[npt.NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in shape]
    values: list[npt.NDArray[np.generic]] = [np.empty(0, dtype)]
    for start, block in placed:
        alike = is_same(block.fill, fill)
        coo = storage.to_coo(block if alike else storage.from_dense(storage.to_dense(block), fill))
        for row, c, a in zip(coords, coo.coords, start):
            row.append(c.astype(np.int64) + a)
        values.append(coo.values)
    formats = {s.format.name for _, s in placed if not s.format.is_dense}
    at, entries = [np.concatenate(row) for row in coords], np.concatenate(values)
    try:
        format = formats.pop() if len(formats) == 1 else "coo"
        return storage.from_coo(at, entries, shape, fill=fill, format=format)
    except TensorelError:
        return storage.from_coo(at, entries, shape, fill=fill, format="coo")
