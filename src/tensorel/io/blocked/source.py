"""What readers and writers of blocks are to those who use them. Both are sent to other processes:
they are values, with paths that all of them can see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass, field
from tensorel.errors import FileError, FileNotFoundError_, ShapeError
from tensorel.storage.stored import Stored

Key = tuple[int, ...]
Edges = npt.NDArray[np.int64]
Tile = Sequence[int | None] | int | None
#: ``put(key, block)``: write a block, None if it is all fill. What it gives is for ``finish``.
Put = Callable[[Key, Stored | None], Any]


@dataclass(frozen=True, eq=False, slots=True)
class BlockSource:
    """``make(key)``: the block with that key. ``edges``: where blocks begin along each axis, and
    its extent. ``stored``: entries that are stored of each block, where that is known. ``whole``:
    ``make(())`` gives all of the tensor, over files that are mapped; who needs a part cuts it."""

    make: Callable[[Key], Stored]
    edges: tuple[Edges, ...]
    dtype: DType
    fill: np.generic
    stored: npt.NDArray[np.float64] | None = field(default=None)
    whole: bool = field(default=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([int(e[-1]) for e in self.edges])


@dataclass(frozen=True, slots=True)
class About:
    """A tensor that is to be written."""

    shape: tuple[int, ...]
    dtype: DType
    fill: np.generic


class Writer(Protocol):
    """Writes the blocks of one tensor."""

    def cut(self, edges: Sequence[Edges]) -> tuple[tuple[Edges, ...], Put]:
        """Where blocks have to be cut, of a tensor whose blocks lie cut so; and what writes one."""

    def finish(self, told: Sequence[Any]) -> None:
        """All blocks are written; ``told``: what each ``put`` gave."""


def box_of(edges: Sequence[Edges], key: Key) -> tuple[slice, ...]:
    """The place of a block in the tensor."""
    return tuple([slice(int(e[k]), int(e[k + 1])) for e, k in zip(edges, key)])


def steps(extent: int, size: int) -> Edges:
    """The edges of an axis in parts of one size; the last may be smaller."""
    count = -(-extent // size) if extent else 1
    return np.minimum(np.arange(count + 1, dtype=np.int64) * size, extent)


def sizes_of(tile: Tile, shape: Sequence[int], what: str) -> list[int] | None:
    """A size of blocks for each axis, as the user says; None: nothing said."""
    if tile is None:
        return None
    sizes: list[Any] = list(tile) if isinstance(tile, (tuple, list)) else [tile] * len(shape)
    if len(sizes) != len(shape):
        raise ShapeError(f"{what}: {len(sizes)} tile sizes for {len(shape)} axes",
                         hint="give one size, or one for each axis (None: not cut)")
    found = [max(n, 1) if s is None else s for s, n in zip(sizes, shape)]
    if not all(isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in found):
        raise ShapeError(f"{what}: tile={tile!r} are no sizes of blocks",
                         hint="whole numbers from 1 on, or None for an axis that is not cut")
    return [int(s) for s in found]


def not_there(path: str, error: OSError) -> FileError:
    """A file that is missing where a block is read or written."""
    reason = error.strerror or getattr(error.__cause__, "strerror", None) or error
    return FileNotFoundError_(
        f"{path} cannot be opened: {reason}",
        hint="all sites of an engine have to see the path: use a file system that they share")
