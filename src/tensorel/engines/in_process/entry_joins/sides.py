"""The entries of one operand of a join, and formulas of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import joins
from tensorel.algebra.steps import Steps, arguments, run
from tensorel.storage.convert import dense_view, from_dense, to_coo, to_dense
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]


class Side:
    """The entries of one operand in C order. The coordinates of a dense one are found where they
    are asked for."""

    def __init__(self, stored: Stored, name: str, fill: joins.Literal) -> None:
        self.name, self.rank = name, len(stored.shape)
        self._coords: tuple[Array, ...] | None = None
        self._there: npt.NDArray[np.bool_] | None = None
        view = dense_view(stored)
        if view is not None and view.ndim:
            require(view.size, f"a mask of the {view.size} cells of a dense tensor")
            self._there = joins.differs(view, fill)
            self.values: Array = view[self._there]
        else:
            coo = to_coo(_refilled(stored, fill))
            there = joins.differs(coo.values, fill)
            if not there.all():
                coo = coo.where(there)
            self.values, self._coords = coo.values, coo.coords
        self.count = self.values.size

    @property
    def coords(self) -> tuple[Array, ...]:
        found = self._coords
        if found is None:
            assert self._there is not None
            require(8 * self.rank * self.count, f"the coordinates of {self.count} entries")
            found = self._coords = tuple([
                c.astype(index_dtype(n), copy=False)
                for c, n in zip(np.nonzero(self._there), self._there.shape)])
        return found

    def argument(self, name: str) -> Array:
        """The value of each entry, or a coordinate."""
        return self.values if name == self.name else self.coords[int(name[1:])]

    def column(self, steps: Steps) -> Array:
        """A formula of each entry."""
        given = {n: self.argument(n) for n in arguments(steps)}
        return np.ascontiguousarray(np.broadcast_to(run(steps, given), self.count))


def _refilled(stored: Stored, fill: joins.Literal) -> Stored:
    """The tensor with every entry stored: by its own fill where that is the one that is meant."""
    value = np.frombuffer(fill[0], fill[1])[0]
    same = value == stored.fill or (value != value and stored.fill != stored.fill)
    if same or stored.count == np.prod(stored.shape, dtype=float):
        return stored
    return from_dense(to_dense(stored), value)
