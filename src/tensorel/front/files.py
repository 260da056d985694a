"""Tensors in files: .npy, .npz, Matrix Market, FROSTT."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorel.front.base import from_stored
from tensorel.front.convert import asarray, stored_of
from tensorel.io import files
from tensorel.storage.format import FormatLike

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

Path = str | os.PathLike[str]


def read(path: Path, format: FormatLike | None = None, *,
         shape: Sequence[int] | None = None) -> Tensor:
    """The tensor in a .npy, .npz, .mtx(.gz) or .tns(.gz) file, in a format if one is given.

    >>> import tensorel as tr
    >>> tr.read("a.mtx", format="csc").format  # doctest: +SKIP
    'csc'
    """
    return from_stored(files.read(path, format, shape=shape))


def write(path: Path, x: object, *, scipy: bool = False) -> None:
    """Write a tensor; the file appears whole or not at all.

    ``scipy`` writes an .npz that ``scipy.sparse.load_npz`` reads.

    >>> import tensorel as tr
    >>> tr.write("a.npz", tr.eye(3))  # doctest: +SKIP
    """
    files.write(path, stored_of(asarray(x)), scipy=scipy)
