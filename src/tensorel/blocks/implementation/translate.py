"""The first plan of an expression: Table 1 of paper 000.

Two lines of the printed table are not followed. STACK groups by the other key dimensions, not by
the one that it stacks along. And tuples are brought together before an aggregation by a partition
into as many cells as there are sites, which a plan has to name."""

from __future__ import annotations

from tensorel.blocks.implementation import logical
from tensorel.blocks.implementation.functions import Dims, Kernel, insert, same_key, stack, tile
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Shuffle,
)
from tensorel.blocks.implementation.partitions import Partition, grids
from tensorel.errors import ShapeError


def translate(expr: logical.Expr, sites: int) -> Node:
    """A right plan, not yet a good one: joins broadcast, aggregations shuffle.

    >>> from tensorel.blocks.implementation.functions import ADD, MATMUL
    >>> A, B = (Input(name, (4, 4), (100, 100)) for name in "AB")
    >>> product = logical.Aggregate(logical.Join(A, B, (1,), (0,), MATMUL), (0, 2), ADD)
    >>> translate(product, 8).relation.extents
    (4, 4)
    """
    match expr:
        case Input():
            return expr
        case logical.Join(left, right, left_keys, right_keys, kernel):
            return LocalJoin(Broadcast(translate(left, sites)), translate(right, sites),
                             left_keys, right_keys, kernel)
        case logical.Aggregate(child, group, kernel):
            return _aggregated(translate(child, sites), group, kernel, sites)
        case logical.Rekey(child, keys):
            return LocalMap(translate(child, sites), keys)
        case logical.Filter(child, where):
            return LocalFilter(translate(child, sites), where)
        case logical.Transform(child, kernel):
            made = translate(child, sites)
            return LocalMap(made, same_key(made.relation.arity), kernel)
        case logical.Tile(child, axis, size):
            return _tiled(translate(child, sites), axis, size)
        case logical.Stack(child, dim, axis):
            made = translate(child, sites)
            others = tuple(d for d in range(made.relation.arity) if d != dim)
            return _aggregated(made, others, stack(axis), sites)


def _aggregated(child: Node, group: Dims, kernel: Kernel, sites: int) -> Node:
    grid = grids(tuple(child.relation.extents[d] for d in group), sites)[0]
    return LocalAggregate(Shuffle(child, Partition.of(group, grid)), group, kernel)


def _tiled(child: Node, axis: int, size: int) -> Node:
    of = child.relation
    if of.block[axis] % size:
        raise ShapeError(f"tiles of {size} along axis {axis} of blocks of shape {of.block}",
                         hint="the size of tiles divides that of blocks")
    keys = insert(of.arity, of.arity, of.block[axis] // size)
    return LocalMap(child, keys, tile(axis, size))
