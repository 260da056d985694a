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

from tensorel.base.directory import Directory
from tensorel.catalog import disk
from tensorel.catalog.records import ArrayFile, checksum_of, stem
from tensorel.errors import DatabaseError

AnyArray = npt.NDArray[np.generic]
_PIECE_BYTES = 1 << 22


def _header(dtype: np.dtype[np.generic], length: int) -> bytes:
    """NumPy's header; its length is a multiple of 64."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        made, {"descr": dtype.str, "fortran_order": False, "shape": (length,)})
    return made.getvalue()


def keep(folder: Directory, array: AnyArray, there: Collection[str], tag: str,
         durable: bool = False) -> ArrayFile:
    """Write the array to its file, unless a whole file is there. ``durable``: it is synchronized
    here, for a commit of another machine."""
    flat = np.ascontiguousarray(array).reshape(-1)
    header = _header(flat.dtype, flat.size)
    data = flat.view(np.uint8).data
    digest = hashlib.sha256(header)
    digest.update(data)
    found = ArrayFile(stem(tag, digest.hexdigest()), flat.dtype.str, int(flat.size))
    with disk.telling(f"{folder.place(found.file)} cannot be written"):
        if found.file not in there or not _is_whole(folder, found.file):
            disk.write_new(folder, found.file, (header, data), tag, durable)
    return found


def _is_whole(folder: Directory, name: str) -> bool:
    try:
        return _checksum(folder, name) == checksum_of(name)
    except OSError:
        return False


def _checksum(folder: Directory, name: str) -> str:
    digest = hashlib.sha256()
    with open(folder.open(name), "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def mapped(folder: Directory, array: ArrayFile) -> AnyArray:
    """The array over the pages of its file, which are read when they are used."""
    path, dtype = folder.place(array.file), np.dtype(array.dtype)
    header = _header(dtype, array.length)
    size = len(header) + array.length * dtype.itemsize
    with disk.telling(f"{path} cannot be read"):
        file = folder.open(array.file)
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


def verify(folder: Directory, name: str) -> None:
    """Compare the content of a file with the checksum in its name."""
    path = folder.place(name)
    with disk.telling(f"{path} cannot be read"):
        found = _checksum(folder, name)
    if found != checksum_of(name):
        raise DatabaseError(f"{path} is damaged: its checksum is not the one in the catalog",
                            hint="restore the folder from a copy; other tensors can still be read")
