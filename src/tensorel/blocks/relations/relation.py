"""Logical tensor relations (Yuan et al., "Tensor Relational Algebra", section 2): keys and blocks.

A relation is about the keys of its domain. Of some of them it holds no block: those are all fill.
Whether a block is held or absent is a matter of storage and changes no result: a kernel gets a
block of fill for an absent one, unless it declares that this decides the result (``kernels.py``).
A key that is not in the domain is a hole: it takes no part in anything.

Relations are values: each operation makes a new one. Nothing here computes entries; kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.blocks.relations import checks
from tensorel.blocks.relations.keys import (
    Domain,
    Key,
    Keys,
    as_keys,
    codes,
    domain_of,
    find,
    shown,
    sorted_by,
    starts,
)
from tensorel.blocks.relations.tiles import (
    Along,
    Edges,
    Room,
    Shape,
    Shapes,
    Sizes,
    assembled,
    constant,
    edges_of,
    infer,
    is_same,
    pieces,
    shapes_at,
    sizes_of,
)
from tensorel.errors import ShapeError
from tensorel.ir.extents import check_extents
from tensorel.storage.entries import make_fill
from tensorel.storage.stored import Stored


@dataclass(frozen=True, eq=False, slots=True)
class Relation:
    """``blocks[n]`` has the key ``keys[n]``; keys are sorted. ``sizes``: the shapes of all blocks
    of the domain; None where they follow no law, and then no block is absent. ``fill``: the value
    of absent blocks."""

    keys: Keys
    blocks: tuple[Stored, ...]
    domain: Domain
    sizes: Sizes | None
    rank: int
    dtype: DType
    fill: np.generic

    @property
    def arity(self) -> int:
        """Components of a key."""
        return len(self.domain.extents)

    @property
    def absent(self) -> int:
        """How many keys of the domain have no block here."""
        return self.domain.count - len(self.blocks)

    def absent_keys(self) -> Keys:
        """These keys."""
        whole = self.domain.all()
        return whole[find(whole, self.keys) < 0]

    def shapes(self, keys: Keys) -> Shapes:
        """The shapes of the blocks with these keys."""
        if self.sizes is not None:
            return shapes_at(self.sizes, keys)
        own = np.array([b.shape for b in self.blocks], np.int64).reshape(-1, self.rank)
        return own[find(keys, self.keys)]

    def members(self) -> tuple[Keys, Shapes, list[Stored | None]]:
        """The domain, key by key: shapes, and blocks or None."""
        keys = self.domain.listed()
        held = (None, *self.blocks)
        return keys, self.shapes(keys), [held[n + 1] for n in find(keys, self.keys)]

    def filled(self) -> Relation:
        """The same relation with no absent blocks."""
        if not self.absent:
            return self
        keys, shapes, blocks = self.members()
        return Relation(keys, tuple(_filled(shapes, blocks, self.dtype, self.fill)),
                        self.domain, self.sizes, self.rank, self.dtype, self.fill)


def formed(keys: Keys, shapes: Shapes, blocks: Sequence[Stored | None], extents: Sequence[int],
           dtype: DType, fill: np.generic) -> Relation:
    """The relation with this domain, in any order, and these blocks."""
    order = sorted_by(keys)
    keys, shapes, blocks = keys[order], shapes[order], [blocks[n] for n in order]
    sizes = infer(keys, shapes)
    if sizes is None:
        blocks = _filled(shapes, blocks, dtype, fill)
    there = [n for n, b in enumerate(blocks) if b is not None]
    held = tuple([b for b in blocks if b is not None])
    return Relation(keys[there], held, domain_of(extents, keys), sizes, shapes.shape[1], dtype,
                    fill)


def _filled(shapes: Shapes, blocks: Sequence[Stored | None], dtype: DType, fill: np.generic
            ) -> list[Stored]:
    known: dict[Shape, Stored] = {}
    found = []
    for shape, block in zip(shapes.tolist(), blocks):
        if block is None:
            at = tuple(shape)
            block = known.get(at) or known.setdefault(at, constant(at, dtype, fill))
        found.append(block)
    return found


# -- from and to tensors ---------------------------------------------------------------------------
def tiled(stored: Stored, edges: Sequence[Edges]) -> Relation:
    """The relation of the pieces of a tensor, one component of the key for each axis."""
    extents = tuple([len(e) - 1 for e in edges])
    found = pieces(stored, edges)
    keys = as_keys([k for k, _ in found], len(extents))
    return Relation(keys, tuple([b for _, b in found]), Domain(extents), sizes_of(edges),
                    len(extents), stored.dtype, stored.fill)


def of_blocks(keys: Sequence[Key], blocks: Sequence[Stored], extents: Sequence[int] | None,
              fill: np.generic | None) -> Relation:
    """The relation of blocks with their keys. ``extents``: keys below that are not given are all
    fill; None: they are holes."""
    arity = checks.one_arity(keys, "relation")
    rows = as_keys(keys, arity)
    checks.unique(rows, None, "relation")
    first = blocks[0]
    for key, block in zip(keys, blocks):
        checks.same_dtype(block.dtype, first.dtype, "relation", key)
        if len(block.shape) != len(first.shape):
            raise ShapeError(f"relation: the blocks {keys[0]} and {key} have {len(first.shape)} "
                             f"and {len(block.shape)} axes", hint="all blocks have the same number")
    value = common_fill(blocks) if fill is None else fill
    shapes = np.array([b.shape for b in blocks], np.int64).reshape(-1, len(first.shape))
    bounds = tuple((rows.max(axis=0) + 1).tolist()) if extents is None else tuple(extents)
    found = formed(rows, shapes, blocks, bounds, first.dtype, value)
    if extents is None:
        return found
    if len(bounds) != arity or (arity and (rows.max(axis=0) >= bounds).any()):
        raise ShapeError(f"relation: key {keys[int(np.argmax(rows.max(axis=1)))]} is not below the "
                         f"extents {bounds}", hint="extents are one more than the largest keys")
    return _completed(found)


def _completed(given: Relation) -> Relation:
    """About all keys below its extents; those that are not there are all fill."""
    grid = Domain(given.domain.extents)
    if given.domain.only is None:
        return given
    unsure = given.sizes is None or any(
        len(s.at) < grid.extents[s.dim] for s in given.sizes if isinstance(s, Along))
    if unsure:
        raise ShapeError(
            f"relation: the shapes of the blocks {shown(given.domain.holes())} that are not given "
            "do not follow from the others",
            hint="give at least one block for each row, column, ... of the grid")
    return Relation(given.keys, given.blocks, grid, given.sizes, given.rank, given.dtype,
                    given.fill)


def common_fill(blocks: Sequence[Stored]) -> np.generic:
    """The fill that all blocks have, else zero."""
    first = blocks[0].fill
    alike = all(is_same(b.fill, first) for b in blocks)
    return first if alike else make_fill(0, blocks[0].dtype)


def to_stored(given: Relation, axes: Sequence[int]) -> Stored:
    """The tensor of which dimension d of the keys counts the blocks along axis ``axes[d]``."""
    checks.no_holes(given.domain.holes(), "to_tensor")
    if given.sizes is None:
        _misfit(given, axes)
    assert given.sizes is not None
    offsets, shape = [], []
    for axis, size in enumerate(given.sizes):
        dim = list(axes).index(axis) if axis in axes else None
        count = 1 if dim is None else given.domain.extents[dim]
        if isinstance(size, int):
            widths = np.full(count, size)
        elif size.dim == dim:
            widths = size.sizes
        else:
            _misfit(given, axes)
        offsets.append(np.concatenate(([0], np.cumsum(widths))))
        shape.append(int(offsets[-1][-1]))
    check_extents(shape, "to_tensor")
    places = np.zeros((len(given.keys), given.rank), np.int64)
    for dim, axis in enumerate(axes):
        places[:, axis] = offsets[axis][given.keys[:, dim]]
    return assembled(zip(places.tolist(), given.blocks), tuple(shape), given.dtype, given.fill)


def _misfit(given: Relation, axes: Sequence[int]) -> None:
    """Say which blocks do not lie beside each other."""
    keys = given.domain.all()
    shapes = given.shapes(keys)
    for axis in range(given.rank):
        dim = list(axes).index(axis) if axis in axes else None
        at = keys[:, dim] if dim is not None else np.zeros(len(keys), np.int64)
        order = np.argsort(at, kind="stable")
        same = at[order][1:] == at[order][:-1]
        bad = np.flatnonzero(same & (shapes[order, axis][1:] != shapes[order, axis][:-1]))
        if len(bad):
            a, b = order[bad[0]], order[bad[0] + 1]
            raise ShapeError(
                f"to_tensor: the blocks {tuple(keys[a].tolist())} and {tuple(keys[b].tolist())} "
                f"have {shapes[a, axis]} and {shapes[b, axis]} entries along axis {axis}",
                hint="blocks beside each other have the same extents")
    raise ShapeError("to_tensor: a relation without keys and blocks has no shape",
                     hint="make the tensor with tr.zeros")


# -- keys -----------------------------------------------------------------------------------------
def rekey(given: Relation, function: Callable[..., object]) -> Relation:
    """Every block with another key."""
    keys, shapes, blocks = given.members()
    if not len(keys):
        arity = len(checks.as_key(function(*[0] * given.arity), "rekey"))
        return Relation(as_keys([], arity), (), Domain((0,) * arity, as_keys([], arity)), None,
                        given.rank, given.dtype, given.fill)
    new = [checks.as_key(function(*key), "rekey") for key in keys.tolist()]
    rows = as_keys(new, checks.one_arity(new, "rekey"))
    checks.unique(rows, keys, "rekey")
    return formed(rows, shapes, blocks, (rows.max(axis=0) + 1).tolist(), given.dtype, given.fill)


def select(given: Relation, predicate: Callable[..., object]) -> Relation:
    """The blocks whose keys the predicate accepts."""
    keys = given.domain.listed()
    kept = np.array([bool(predicate(*key)) for key in keys.tolist()], np.bool_)
    there = kept[find(given.keys, keys)] if len(keys) else np.zeros(0, np.bool_)
    return Relation(given.keys[there], tuple([b for b, k in zip(given.blocks, there) if k]),
                    domain_of(given.domain.extents, keys[kept]), given.sizes, given.rank,
                    given.dtype, given.fill)


# -- blocks ---------------------------------------------------------------------------------------
def tile(given: Relation, axis: int, size: int | Sequence[int]) -> Relation:
    """Every block cut along an axis; which piece it is is the last component of its key."""
    keys, shapes, blocks = given.members()
    cuts = {n: edges_of(n, size, axis) for n in set(shapes[:, axis].tolist())}
    new_keys: list[Key] = []
    new_shapes: list[list[int]] = []
    new_blocks: list[Stored | None] = []
    room = Room("tile: the pieces of blocks", given.blocks)
    for key, shape, block in zip(keys.tolist(), shapes.tolist(), blocks):
        edges = [cuts[n] if k == axis else np.array([0, n]) for k, n in enumerate(shape)]
        found = {} if block is None else {at[axis]: b for at, b in pieces(block, edges)}
        for k, width in enumerate(np.diff(edges[axis]).tolist()):
            room.take(found[k].nbytes if k in found else 0)
            new_keys.append((*key, k))
            new_shapes.append([*shape[:axis], width, *shape[axis + 1 :]])
            piece = found.get(k)
            if piece is None and block is not None and not is_same(block.fill, given.fill):
                piece = constant(tuple(new_shapes[-1]), given.dtype, block.fill)
            new_blocks.append(piece)
    count = max((k[-1] + 1 for k in new_keys), default=0)
    return formed(as_keys(new_keys, given.arity + 1),
                  np.array(new_shapes, np.int64).reshape(-1, given.rank), new_blocks,
                  (*given.domain.extents, count), given.dtype, given.fill)


def stack(given: Relation, dim: int, axis: int) -> Relation:
    """Blocks whose keys differ in one component alone put one after the other along an axis, in the
    order of that component, which goes."""
    keys, shapes, blocks = given.members()
    rest = [d for d in range(given.arity) if d != dim]
    (group,) = codes(keys[:, rest])
    order = np.lexsort((keys[:, dim], group))
    begins = starts(group[order])
    new_shapes, new_blocks = [], []
    room = Room("stack: the stacked blocks", given.blocks)
    for low, high in zip(begins, [*begins[1:], len(order)]):
        members = order[low:high]
        _stackable(keys[members], shapes[members], dim, axis)
        widths = shapes[members, axis]
        shape = shapes[members[0]].tolist()
        shape[axis] = int(widths.sum())
        check_extents(shape, "stack")
        offsets = np.cumsum(widths) - widths
        parts = [([0] * axis + [int(o)] + [0] * (given.rank - axis - 1), b)
                 for n, o in zip(members, offsets) if (b := blocks[n]) is not None]
        new_shapes.append(shape)
        room.take(sum([b.nbytes for _, b in parts]))
        new_blocks.append(assembled(parts, tuple(shape), given.dtype, given.fill)
                          if parts else None)
    extents = [given.domain.extents[d] for d in rest]
    return formed(keys[order[begins]][:, rest],
                  np.array(new_shapes, np.int64).reshape(-1, given.rank), new_blocks, extents,
                  given.dtype, given.fill)


def _stackable(keys: Keys, shapes: Shapes, dim: int, axis: int) -> None:
    """Refuse blocks that lack one between them, or that do not fit."""
    at = keys[:, dim]
    missing = np.flatnonzero(at != np.arange(len(at)))
    if len(missing):
        hole = keys[missing[0]].copy()
        hole[dim] = missing[0]
        checks.no_holes([tuple(hole.tolist())], "stack")
    others = np.delete(shapes, axis, axis=1)
    bad = np.flatnonzero((others != others[0]).any(axis=1))
    if len(bad):
        raise ShapeError(
            f"stack: the blocks {tuple(keys[0].tolist())} and {tuple(keys[bad[0]].tolist())} have "
            f"shapes {tuple(shapes[0].tolist())} and {tuple(shapes[bad[0]].tolist())}",
            hint=f"blocks that are stacked along axis {axis} agree in their other extents")
