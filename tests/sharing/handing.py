"""Tensors over arrays that the test keeps and writes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from tensorel.testing.programs.data import random_values

Array = np.ndarray[Any, np.dtype[Any]]
BY_ROWS = "sum(<i,_> in 0:M) sum(<p,j> in idx(pos(i):pos(i+1))) { (i, j) -> val(p) }"


class Handed:
    """A tensor, the array of values that was handed in for it, and what it holds as a dense array
    now. ``places``: the arrays that say where entries lie."""

    def __init__(self, tensor: Any, values: Array, read: Callable[[], Array],
                 places: dict[str, Array] | None = None) -> None:
        self.tensor, self.values, self.places = tensor, values, places or {}
        self._read, self._first = read, read().copy()

    def now(self) -> Array:
        """Where the tensor is a copy, what it was made of."""
        return self._read().copy() if np.shares_memory(self.tensor, self.values) else self._first

    def write(self, rng: np.random.Generator) -> None:
        """Other values, in some places."""
        flat = self.values.reshape(-1) if self.values.flags.c_contiguous else self.values.T.reshape(
            -1)
        chosen = np.flatnonzero(rng.random(flat.size) < 0.5)
        flat[chosen] = random_values(rng, self.values.dtype, chosen.size)
        flat[chosen[rng.random(chosen.size) < 0.3]] = 0


def handed(rng: np.random.Generator, array: Array) -> Handed:
    """The array in the memory of some library."""
    if array.ndim == 2 and rng.random() < 0.7:
        return MATRICES[list(MATRICES)[rng.integers(len(MATRICES))]](array)
    own = np.array(array, order="F" if rng.random() < 0.3 else "C")
    return Handed(tr.asarray(own), own, lambda: own)


def by_scipy(layout: str, array: Array) -> Handed:
    m = sp.coo_array(array).asformat(layout)
    places = {n: getattr(m, n) for n in ("indptr", "indices") if hasattr(m, n)}
    return Handed(tr.asarray(m), m.data, m.toarray, places)


def by_coordinates(array: Array) -> Handed:
    at = np.stack(np.nonzero(array)).astype(np.int32)
    values = array[tuple(at)]

    def read() -> Array:
        made = np.zeros_like(array)
        made[tuple(at)] = values
        return made

    return Handed(tr.from_coo(at, values, array.shape), values, read, {"coords": at})


def by_mapping(array: Array) -> Handed:
    """A storage of the user's own."""
    m = sp.csr_array(array)
    made = tr.storage(BY_ROWS).tensor(shape=array.shape, pos=m.indptr, idx=m.indices, val=m.data,
                                      M=array.shape[0])
    return Handed(made, m.data, m.toarray, {"indptr": m.indptr, "indices": m.indices})


MATRICES: dict[str, Callable[[Array], Handed]] = {
    **{name: (lambda array, name=name: by_scipy(name, array))
       for name in ("csr", "csc", "bsr", "dia", "coo")},
    "coordinates": by_coordinates,
}
