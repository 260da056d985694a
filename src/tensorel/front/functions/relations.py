"""``tr.relation``: tensors as relations of keys and blocks."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.blocks.relations import checks, computing
from tensorel.blocks.relations import relation as blocks
from tensorel.blocks.relations.keys import Key, as_keys, find
from tensorel.blocks.relations.tiles import Edges, Shape, constant, edges_of
from tensorel.errors import KeyError_, ShapeError, TypeError_, ValueError_
from tensorel.front.array.base import Base, as_shape, from_stored
from tensorel.front.array.convert import asarray, copied, is_scipy, stored_of
from tensorel.front.array.tensor import Tensor
from tensorel.front.functions import elementwise
from tensorel.front.functions.block_kernels import as_kernel
from tensorel.storage import convert as storage
from tensorel.storage.entries import make_fill
from tensorel.storage.lending import freeze


class TensorRelation:
    """Blocks of one rank and dtype by their keys, tuples of whole numbers; a value that no
    operation changes. Blocks that are all fill may be absent; a key that is not there at all is a
    hole.

    >>> import tensorel as tr
    >>> A = tr.relation([[1, 2], [3, 4]], tile=1)
    >>> A.join(A, 1, 0, "matmul").aggregate([0, 2], "add").to_tensor().tolist()
    [[7, 10], [15, 22]]
    """

    __slots__ = ("relation",)

    def __init__(self, relation: blocks.Relation) -> None:
        self.relation = relation
        for block in relation.blocks:
            freeze(block.arrays.values())

    # -- what is known ------------------------------------------------------------------------
    @property
    def key_arity(self) -> int:
        """Components of a key."""
        return self.relation.arity

    @property
    def key_extents(self) -> tuple[int, ...]:
        """The bounds of the components of keys."""
        return self.relation.domain.extents

    @property
    def dtype(self) -> ops.DType:
        """The dtype of all blocks."""
        return self.relation.dtype

    @property
    def fill(self) -> np.generic:
        """The value of blocks that are absent."""
        return self.relation.fill

    def keys(self) -> list[Key]:
        """The keys of the blocks that are there, sorted."""
        return [tuple(k) for k in self.relation.keys.tolist()]

    def items(self) -> list[tuple[Key, npt.NDArray[Any]]]:
        """The blocks that are there as NumPy arrays (read-only), with their keys, sorted."""
        return list(zip(self.keys(), map(storage.to_dense, self.relation.blocks)))

    def __len__(self) -> int:
        return len(self.relation.blocks)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    def __getitem__(self, key: object) -> Tensor:
        """The block with this key."""
        given = self.relation
        rows = as_keys([checks.as_key(key, "relation")], len(checks.as_key(key, "relation")))
        if rows.shape[1] == given.arity:
            (at,) = find(rows, given.keys)
            if at >= 0:
                return from_stored(given.blocks[at])
            if given.absent and find(rows, given.absent_keys())[0] >= 0:
                (shape,) = given.shapes(rows).tolist()
                return from_stored(constant(tuple(shape), given.dtype, given.fill))
        raise KeyError_(f"there is no block with the key {tuple(rows[0].tolist())}",
                        hint=f"keys have {given.arity} components below {self.key_extents}")

    # -- operations ---------------------------------------------------------------------------
    def join(self, other: TensorRelation, left: object, right: object, kernel: object, *,
             dtype: object = None, shape: object = None) -> TensorRelation:
        """The kernel of each pair of blocks whose keys agree: dimensions ``left`` of these keys and
        ``right`` of the other's, in pairs. Keys are these, then what is left of the other's."""
        if not isinstance(other, TensorRelation):
            raise TypeError_(f"join: {type(other).__name__} is no relation",
                             hint="make one with tr.relation(T, tile=...)")
        a, b = self.relation, other.relation
        return TensorRelation(computing.join(
            a, b, checks.some_dims(left, a.arity, "join: dimension of the left keys"),
            checks.some_dims(right, b.arity, "join: dimension of the right keys"),
            as_kernel(kernel, 2, dtype, shape)))

    def aggregate(self, keys: object, kernel: object, *, dtype: object = None,
                  shape: object = None) -> TensorRelation:
        """The blocks that agree in the dimensions ``keys`` of their keys combined by an associative
        kernel, in the order of the keys; the other dimensions go."""
        given = self.relation
        return TensorRelation(computing.aggregate(
            given, checks.some_dims(keys, given.arity, "aggregate: dimension of the keys"),
            as_kernel(kernel, 2, dtype, shape)))

    def rekey(self, f: Callable[..., object]) -> TensorRelation:
        """Every block with the key that ``f`` makes of the components of its own."""
        return TensorRelation(blocks.rekey(self.relation, f))

    def filter(self, p: Callable[..., object]) -> TensorRelation:
        """The blocks for which ``p`` of the components of the key is true."""
        return TensorRelation(blocks.select(self.relation, p))

    def transform(self, kernel: object, *, dtype: object = None, shape: object = None
                  ) -> TensorRelation:
        """The kernel of every block."""
        return TensorRelation(computing.transform(
            self.relation, as_kernel(kernel, 1, dtype, shape)))

    def tile(self, dim: int, size: Any) -> TensorRelation:
        """Every block cut along axis ``dim`` into pieces of ``size`` (or of the sizes listed); the
        number of the piece becomes the last component of the key."""
        axis = checks.one_dim(dim, self.relation.rank, "tile: axis of the blocks")
        return TensorRelation(blocks.tile(self.relation, axis, _one_tile(size)))

    def stack(self, key_dim: int, array_dim: int) -> TensorRelation:
        """Blocks that differ in dimension ``key_dim`` of the key alone put one after the other
        along axis ``array_dim``; that dimension goes."""
        given = self.relation
        return TensorRelation(blocks.stack(
            given, checks.one_dim(key_dim, given.arity, "stack: dimension of the keys"),
            checks.one_dim(array_dim, given.rank, "stack: axis of the blocks")))

    def to_tensor(self, axes: object = None) -> Tensor:
        """The tensor of the blocks beside each other: dimension d of the keys counts them along
        axis d, or along ``axes[d]``."""
        given = self.relation
        if axes is None:
            if given.arity not in (0, given.rank):
                raise ShapeError(
                    f"to_tensor: keys have {given.arity} components, blocks {given.rank} axes",
                    hint="say along which axis each component counts, e.g. axes=[0], or stack")
            axes = range(given.arity)
        found = checks.some_dims(axes, given.rank, "to_tensor: axis of the blocks")
        if len(found) != given.arity:
            raise ShapeError(f"to_tensor: {len(found)} axes for keys of {given.arity} components",
                             hint="one axis for each component of the keys")
        return from_stored(blocks.to_stored(given, found))

    def __repr__(self) -> str:
        given = self.relation
        sizes = [str(s) if isinstance(s, int) else f"{s.sizes.min()}..{s.sizes.max()}"
                 for s in given.sizes or ()]
        shape = "various" if given.sizes is None else f"({', '.join(sizes)})"
        absent = f", {given.absent} absent blocks of {given.fill}" if given.absent else ""
        return (f"TensorRelation({len(self)} blocks of shape {shape}, dtype={given.dtype.name}, "
                f"keys below {self.key_extents}{absent})")


def relation(T: object, tile: object = None, *, extents: object = None, fill: object = None
             ) -> TensorRelation:
    """The relation of the tiles of a tensor. ``tile``: a size for all axes, or for each axis a
    size, a list of sizes, a list of edges from 0 to the extent, or None for one tile.

    ``T`` may also be blocks by their keys, a dict or pairs. Then keys that are not given are holes;
    with ``extents``, those below are blocks of ``fill``.

    >>> import numpy as np, tensorel as tr
    >>> tr.relation(np.eye(4), tile=2).keys()
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    if isinstance(T, Mapping) and not is_scipy(T):  # its dok arrays are dicts
        return _of_pairs(T.items(), tile, extents, fill)
    if not isinstance(T, Base) and _are_pairs(T):
        return _of_pairs(T, tile, extents, fill)  # type: ignore[arg-type]
    if extents is not None or fill is not None:
        raise ValueError_("relation: extents and fill are of blocks that are given with their keys",
                          hint="for a tensor say tile=, and tr.tensor(T, fill=...)")
    t = asarray(T)
    return TensorRelation(blocks.tiled(stored_of(t), _edges(t.shape, tile)))


def _are_pairs(given: object) -> bool:
    """Whether this is an iterator, or a list of pairs of a key and a block."""
    if isinstance(given, (Iterator, ItemsView)):
        return True
    return isinstance(given, (list, tuple)) and bool(given) and all(
        isinstance(p, tuple) and len(p) == 2 and (isinstance(p[0], tuple) or np.ndim(p[1]) > 0)
        for p in given)


def _of_pairs(given: Iterable[tuple[object, object]], tile: object, extents: object, fill: object
              ) -> TensorRelation:
    if tile is not None:
        raise ValueError_("relation: blocks that are given with their keys are not cut",
                          hint="leave out tile=, and cut blocks with .tile(dim, size)")
    pairs = list(given)
    if not pairs:
        raise ShapeError("relation: no blocks are given", hint="give one block at least")
    keys = [checks.as_key(k, "relation") for k, _ in pairs]
    tensors = [copied(asarray(b)) for _, b in pairs]
    dtype = np.result_type(*{t.dtype for t in tensors})
    stored = [stored_of(t if t.dtype == dtype else elementwise.astype(t, dtype)) for t in tensors]
    bounds = None if extents is None else as_shape(extents, "relation: extents")
    value = None if fill is None else make_fill(fill, dtype)
    return TensorRelation(blocks.of_blocks(keys, stored, bounds, value))


def _edges(shape: Shape, tile: object) -> list[Edges]:
    """Where each axis is cut."""
    if tile is None and shape:
        raise TypeError_("relation: say the size of the tiles",
                         hint="e.g. tile=1000, tile=(1000, 64), tile=([300, 700], None)")
    each = list(tile) if isinstance(tile, (list, tuple, np.ndarray)) else [tile] * len(shape)
    if len(each) != len(shape):
        raise ShapeError(
            f"relation: {len(each)} tiles for the {len(shape)} axes of shape {shape}",
            hint="a size, or one size or list of sizes for each axis, e.g. tile=[[2, 3]] for a "
            "vector of 5 entries")
    return [edges_of(n, None if one is None else _one_tile(one), axis)
            for axis, (n, one) in enumerate(zip(shape, each))]


def _one_tile(given: Any) -> int | list[int]:
    """A size, or sizes."""
    try:
        if isinstance(given, (list, tuple, np.ndarray)):
            return [int(index(n)) for n in given]
        return int(index(given))
    except TypeError:
        raise TypeError_(f"tile: {given!r} is no size",
                         hint="a size is a whole number, or a list of them") from None
