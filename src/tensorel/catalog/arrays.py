"""Physical arrays in files: ``.npy``, data aligned to 64 bytes, named by content, mapped to read.

A file that is removed while it is mapped stays readable until the last mapping is gone. A file
that became shorter would end the process when it is read, so sizes are checked before mapping.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection
from mmap import ACCESS_READ, mmap

import numpy as np
import numpy.typing as npt

from tensorel.catalog import disk
from tensorel.catalog.records import ArrayFile
from tensorel.errors import DatabaseError

AnyArray = npt.NDArray[np.generic]
_PIECE = 1 << 22


def _header(dtype: np.dtype[np.generic], length: int) -> bytes:
    """NumPy's header; its length is a multiple of 64."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        made, {"descr": dtype.str, "fortran_order": False, "shape": (length,)})
    return made.getvalue()


def keep(folder: str, array: AnyArray, there: Collection[str]) -> ArrayFile:
    """The array in its file, written unless it is there and whole."""
    flat = np.ascontiguousarray(array).reshape(-1)
    header = _header(flat.dtype, flat.size)
    data = flat.view(np.uint8).data
    digest = hashlib.sha256(header)
    digest.update(data)
    found = ArrayFile(digest.hexdigest(), flat.dtype.str, int(flat.size))
    path = os.path.join(folder, found.file)
    with disk.telling(f"{path} cannot be written"):
        if found.file not in there or not _is_whole(path, found.sha256):
            disk.write_new(folder, found.file, (header, data))
    return found


def _is_whole(path: str, sha256: str) -> bool:
    try:
        return _checksum(path) == sha256
    except OSError:
        return False


def _checksum(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def mapped(folder: str, array: ArrayFile) -> AnyArray:
    """The array over the pages of its file; nothing is read until somebody looks."""
    path, dtype = os.path.join(folder, array.file), np.dtype(array.dtype)
    header = _header(dtype, array.length)
    size = len(header) + array.length * dtype.itemsize
    with disk.telling(f"{path} cannot be read"):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.fstat(file).st_size
            if there != size:
                raise DatabaseError(
                    f"{path} is damaged: it has {there:,} bytes where the catalog says {size:,}",
                    hint="restore the folder from a copy; other tensors can still be read")
            pages = mmap(file, size, access=ACCESS_READ)
        finally:
            os.close(file)
    if pages[: len(header)] != header:
        raise DatabaseError(f"{path} is damaged: it is not the array that the catalog names",
                            hint="restore the folder from a copy; other tensors can still be read")
    return np.frombuffer(pages, dtype, array.length, len(header))


def verify(path: str, sha256: str) -> None:
    """The content of a file is what its name says."""
    with disk.telling(f"{path} cannot be read"):
        found = _checksum(path)
    if found != sha256:
        raise DatabaseError(f"{path} is damaged: its checksum is not the one in the catalog",
                            hint="restore the folder from a copy; other tensors can still be read")
