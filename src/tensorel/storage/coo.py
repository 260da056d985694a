"""Coordinate lists: the common ground of all conversions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.records import dataclass

IndexArray = npt.NDArray[np.signedinteger]
ValueArray = npt.NDArray[np.generic]


@dataclass(frozen=True, eq=False, slots=True)
class Coo:
    """Entries of a tensor: ``coords[axis][k]`` and ``values[k]``, unique, sorted
    lexicographically by the axes in ``order``. Entries not listed equal ``fill``.

    Coordinate arrays are int32 or int64, each its own contiguous array."""

    coords: tuple[IndexArray, ...]
    values: ValueArray
    shape: tuple[int, ...]
    fill: object
    order: tuple[int, ...]

    @property
    def count(self) -> int:
        return int(self.values.size)
