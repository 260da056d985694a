"""csr, csc, dcsr, dcsc and csf: compressed levels, below a dense one or all the way.

csr: ``sum(p) where(pos[i] <= p < pos[i+1] and j == idx[p], val[p])``; csc with i, j exchanged."""

from __future__ import annotations

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError
from tensorel.storage.format import Format, named
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack


def need_matrix(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise StorageError(
            f"format {name!r} stores matrices; this tensor has {len(shape)} axes, shape {shape}",
            hint="use 'csf' or 'coo' for any number of axes",
        )


@named
def csr(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("csr", shape)
    return Stack("csr", (0, 1), (Dense(0), Compressed(1)))


@named
def csc(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("csc", shape)
    return Stack("csc", (1, 0), (Dense(1), Compressed(1)))


@named
def dcsr(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("dcsr", shape)
    return Stack("dcsr", (0, 1), (Compressed(0), Compressed(1)))


@named
def dcsc(shape: tuple[int, ...], dtype: DType) -> Format:
    need_matrix("dcsc", shape)
    return Stack("dcsc", (1, 0), (Compressed(0), Compressed(1)))


@named
def csf(shape: tuple[int, ...], dtype: DType, *order: int) -> Format:
    """Compressed in each level, axes in the given order (default: as they come)."""
    rank = len(shape)
    axes = check_order("csf", rank, order)
    name = "csf" if axes == tuple(range(rank)) else f"csf({','.join(map(str, axes))})"
    return Stack(name, axes, tuple(Compressed(d) for d in range(rank)))


def check_order(name: str, rank: int, order: tuple[int, ...]) -> tuple[int, ...]:
    axes = order or tuple(range(rank))
    if sorted(axes) != list(range(rank)):
        given = ",".join(map(str, axes))
        raise StorageError(
            f"'{name}({given})' must name each of the {rank} axes once",
            hint=f"axes are numbered 0 to {rank - 1}, outermost level first",
        )
    return axes
