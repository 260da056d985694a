"""Ways to hand a tensor in, and writes to the memory that was lent.

The contract (docs/reference/arrays.md): values of lent arrays may change at any time; arrays that
say where entries lie only together with ``T.refresh()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorel as tr

Array = npt.NDArray[Any]
BY_ROWS = "sum(<i,_> in 0:M) sum(<p,j> in idx(pos(i):pos(i+1))) { (i, j) -> val(p) }"


class Handed:
    """A tensor over memory that a user keeps. ``read`` says what the memory holds now."""

    def __init__(self, tensor: Any, values: Array | None = None,
                 put: Callable[[Array], None] | None = None, places: Any = None) -> None:
        self.tensor, self.values, self.places = tensor, values, places
        self._put = put

    @property
    def shares(self) -> bool:
        """Whether writes to the memory are seen through the tensor."""
        return self.values is not None and np.may_share_memory(self.tensor, self.values)

    def write(self, array: Array) -> None:
        """From here on the memory holds these values, which differ only where entries lie."""
        assert self._put is not None
        self._put(array)

    def move(self) -> None:
        """The rows of a matrix in the opposite order: other places, said by ``refresh``."""
        m = self.places
        counts = np.diff(m.indptr)[::-1]
        rows = [slice(a, b) for a, b in zip(m.indptr[:-1], m.indptr[1:])][::-1]
        order = np.concatenate([np.arange(r.start, r.stop) for r in rows]).astype(np.int64)
        m.indices[:], m.data[:] = m.indices[order], m.data[order]
        m.indptr[1:] = np.cumsum(counts)
        self.tensor.refresh()


def hand(how: str, array: Array, format: str | None = None, fill: Any = 0) -> Handed:
    """The array handed in in one of the ways ``WAYS``.

    >>> hand("memory", np.array([1.0, 2.0])).shares
    True
    """
    return WAYS[how](array, format, fill)


def _packed(array: Array, format: str | None, fill: Any) -> Handed:
    return Handed(tr.tensor(array, format=format, fill=fill))


def _memory(own: Array, fill: Any) -> Handed:
    def put(new: Array) -> None:
        own[...] = new

    return Handed(tr.tensor(own, fill=fill), own, put)


def _plain(array: Array, format: str | None, fill: Any) -> Handed:
    return _memory(np.array(array, order="C"), fill)


def _fortran(array: Array, format: str | None, fill: Any) -> Handed:
    return _memory(np.array(array, order="F"), fill)


def _window(array: Array, format: str | None, fill: Any) -> Handed:
    """Every other place of a larger array, backwards along the last axis."""
    if array.ndim == 0:
        return _memory(array.copy(), fill)
    large = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    own = large[..., 1::2][..., ::-1]
    own[...] = array
    return _memory(own, fill)


def _coordinates(width: type) -> Callable[[Array, str | None, Any], Handed]:
    def made(array: Array, format: str | None, fill: Any) -> Handed:
        other = ~np.isnan(array) if fill != fill else array != fill
        at: Array = np.stack(np.nonzero(other)).astype(width)
        values = array[tuple(at)]

        def put(new: Array) -> None:
            values[...] = new[tuple(at)]

        return Handed(tr.from_coo(at, values, array.shape, format=format, fill=fill), values, put)

    return made


def _scipy(layout: str) -> Callable[[Array, str | None, Any], Handed]:
    def made(array: Array, format: str | None, fill: Any) -> Handed:
        import scipy.sparse as sp

        entries = sp.coo_array(array)
        m = entries.asformat(layout)
        # Which cell each value is of, by a matrix of numbers in the same layout; 0: none.
        numbers = sp.coo_array((np.arange(1.0, entries.nnz + 1), entries.coords), array.shape)
        at = numbers.asformat(layout).data.astype(np.int64)
        cells = [np.concatenate([[0], c]) for c in entries.coords]

        def put(new: Array) -> None:
            m.data[at > 0] = new[cells[0][at], cells[1][at]][at > 0]

        places = m if layout == "csr" else None
        return Handed(tr.asarray(m), m.data, put, places)

    return made


def _own_storage(array: Array, format: str | None, fill: Any) -> Handed:
    """A storage of the user's, over the user's arrays."""
    other = ~np.isnan(array) if fill != fill else array != fill
    rows, columns = np.nonzero(other)
    pos = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=array.shape[0]))])
    values = array[rows, columns]

    def put(new: Array) -> None:
        values[...] = new[rows, columns]

    tensor = tr.storage(BY_ROWS).tensor(shape=array.shape, fill=fill, pos=pos, idx=columns,
                                        val=values, M=array.shape[0])
    return Handed(tensor, values, put)


def _alternatives(array: Array, format: str | None, fill: Any) -> Handed:
    formats = (format or "coo|dense").split("|")
    return Handed(tr.alternatives(*(tr.tensor(array, format=f, fill=fill) for f in formats)))


WAYS: dict[str, Callable[[Array, str | None, Any], Handed]] = {
    "tensor": _packed, "memory": _plain, "fortran": _fortran, "window": _window,
    "coo32": _coordinates(np.int32), "coo64": _coordinates(np.int64),
    **{f"scipy_{name}": _scipy(name) for name in ("csr", "csc", "coo", "bsr", "dia")},
    "own_storage": _own_storage, "alternatives": _alternatives,
}
