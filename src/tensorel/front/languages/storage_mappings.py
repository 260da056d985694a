"""Storage mappings of users: ``tr.storage``. The language is loaded with the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.errors import TypeError_
from tensorel.front.array.base import Base, from_stored
from tensorel.front.array.convert import stored_of
from tensorel.front.array.tensor import Tensor
from tensorel.storage.format import Format
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.storage.mapped.mapping import StorageMapping


class Storage:
    """How tensors lie in memory, as the user wrote it. Use it as a format. ``tensor`` makes a
    tensor of arrays with this layout, ``arrays`` gives the arrays of a tensor in it."""

    __slots__ = ("_mapping",)

    def __init__(self, mapping: StorageMapping) -> None:
        self._mapping = mapping

    @property
    def name(self) -> str:
        return self._mapping.name

    @property
    def text(self) -> str:
        return self._mapping.text

    @property
    def rank(self) -> int:
        return self._mapping.rank

    def __repr__(self) -> str:
        return repr(self._mapping)

    def __call__(self, shape: tuple[int, ...], dtype: DType) -> Format:
        """The format of tensors with this shape."""
        return self._mapping(shape, dtype)

    def tensor(self, shape: Sequence[int] | None = None, fill: object = 0, **arrays: object
               ) -> Tensor:
        """The tensor that lies in physical arrays and scalars, by the names of the mapping. Without
        ``shape``, axes whose extent the mapping does not give end with their last key."""
        given = None if shape is None else tuple(int(n) for n in shape)
        return from_stored(self._mapping.stored(arrays, given, fill))

    def arrays(self, tensor: Base) -> dict[str, npt.NDArray[np.generic]]:
        """The physical arrays of a tensor in this storage, by the names of the mapping."""
        return self._mapping.arrays(stored_of(tensor))

    def __tensorel_stored__(self) -> Stored:
        return self._mapping.stored({}, None, 0)


def storage(text: str, name: str | None = None, **arrays: object) -> Storage:
    """A storage mapping in SDQLite: from physical arrays to the cells of a tensor.

    ``tr.tensor(x, format=mapping)`` packs into it. Whole numbers among ``arrays`` fix scalars of
    the mapping (block sizes); with all arrays given, ``tr.asarray(mapping)`` is the tensor. A
    mapping that is not one-to-one is refused with the cells that clash.

    >>> import numpy as np, tensorel as tr
    >>> lower = tr.storage("sum(<i,_> in 0:N, <j,_> in 0:i+1) { (i,j) -> V(i*(i+1)/2+j) }")
    >>> A = tr.tensor(np.tril(np.ones((3, 3))), format=lower)
    >>> lower.arrays(A)["V"].size, (A @ np.ones(3)).to_numpy().tolist()
    (6, [1.0, 2.0, 3.0])
    """
    if not isinstance(text, str):
        raise TypeError_("storage: the first argument is the text of the mapping",
                         hint="e.g. tr.storage('sum(<i,_> in 0:N) { i -> V(i) }')")
    return Storage(import_module("tensorel.storage.mapped.mapping").define(text, name, arrays))
