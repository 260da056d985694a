"""coo: a sorted list of coordinates. SAC's mixed form: dense axes, then a list per position, then
perhaps dense axes again."""

from __future__ import annotations

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError
from tensorel.storage.format import Format, named
from tensorel.storage.levels import Compressed, Dense, Level, Listed
from tensorel.storage.stack import Stack


@named
def coo(shape: tuple[int, ...], dtype: DType) -> Format:
    rank = len(shape)
    levels = tuple(Listed(d, runs=d < rank - 1) for d in range(rank))
    return Stack("coo", tuple(range(rank)), levels)


def mixed(dense: tuple[int, ...], sparse: tuple[int, ...], tail: tuple[int, ...] = ()) -> Format:
    """Axes ``dense`` stored in full, then the axes ``sparse`` as a coordinate list. With a
    ``tail`` the sparse axes form a tree, and below each of its leaves the tail is stored in full:
    ``;0;1`` keeps the rows that have entries, each as a whole."""
    order = dense + sparse + tail
    groups = (dense, sparse, tail) if tail else (dense, sparse)
    name = ";".join(",".join(map(str, g)) for g in groups)
    if sorted(order) != list(range(len(order))):
        raise StorageError(
            f"format {name!r} must name each axis once, 0 to {len(order) - 1}",
            hint="e.g. '0;1,2' stores axis 0 densely and axes 1, 2 as a coordinate list",
        )
    levels: list[Level] = [Dense(a) for a in dense]
    for depth in range(len(dense), len(dense) + len(sparse)):
        runs = depth < len(order) - 1 and not tail
        compressed = depth == len(dense) or tail
        levels.append(Compressed(depth, runs) if compressed else Listed(depth, runs))
    return Stack(name, order, (*levels, *(Dense(a) for a in tail)))
