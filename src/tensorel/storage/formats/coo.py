"""coo: a sorted list of coordinates. SAC's mixed form: dense axes, then a list per position."""

from __future__ import annotations

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Dense, Level, Listed
from tensorel.storage.stack import Stack


def coo(shape: tuple[int, ...], dtype: DType) -> Format:
    rank = len(shape)
    levels = tuple(Listed(d, runs=d < rank - 1) for d in range(rank))
    return Stack("coo", tuple(range(rank)), levels)


def mixed(dense: tuple[int, ...], sparse: tuple[int, ...]) -> Format:
    """Axes ``dense`` stored in full, then the axes ``sparse`` as a coordinate list."""
    order = dense + sparse
    name = f"{','.join(map(str, dense))};{','.join(map(str, sparse))}"
    if sorted(order) != list(range(len(order))):
        raise StorageError(
            f"format {name!r} must name each axis once, 0 to {len(order) - 1}",
            hint="e.g. '0;1,2' stores axis 0 densely and axes 1, 2 as a coordinate list",
        )
    levels: list[Level] = [Dense(a) for a in dense]
    for depth in range(len(dense), len(order)):
        runs = depth < len(order) - 1
        first = depth == len(dense)
        levels.append(Compressed(depth, runs) if first else Listed(depth, runs))
    return Stack(name, order, tuple(levels))
