"""NumPy's ``.npy``: one dense array. Nothing is ever unpickled.

The header is parsed here and not by ``np.load``, so that a hostile file is refused before
anything is allocated: the sizes it declares must agree with the bytes that are there.
"""

from __future__ import annotations

import ast
import os
import struct
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra.ops import DTYPES, DType
from tensorel.errors import MemoryLimitError, StorageError
from tensorel.storage.convert import from_dense, to_dense
from tensorel.storage.stored import Stored

AnyArray = npt.NDArray[np.generic]

_MAGIC = b"\x93NUMPY"
_HEADER_LIMIT = 10_000
_PIECE = 1 << 24


def check_memory(needed: int, where: str, what: str) -> None:
    """Refuse before allocating what passes the memory limit."""
    limit = config.current().memory
    if needed > limit:
        raise MemoryLimitError(
            f"{where}: {what} needs {needed:,} bytes; the memory limit is {limit:,}",
            needed=needed,
            limit=limit,
            step=f"read {where}",
            hint="raise the limit: tr.options(memory=...)",
        )


def _header(stream: IO[bytes], where: str) -> tuple[dict[str, object], int]:
    """The header's dictionary and the number of bytes before the data."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != _MAGIC:
        raise StorageError(f"{where} is not an .npy array: the file does not start as one")
    width, code = (2, "<H") if start[6] == 1 else (4, "<I")
    if start[6] not in (1, 2, 3):
        raise StorageError(f"{where}: .npy version {start[6]}.{start[7]} is unknown")
    raw = stream.read(width)
    length = struct.unpack(code, raw)[0] if len(raw) == width else -1
    if not 0 <= length <= _HEADER_LIMIT:
        raise StorageError(f"{where}: the array's header is damaged")
    text = stream.read(length)
    if len(text) != length:
        raise StorageError(f"{where}: the file ends inside the array's header")
    try:
        found = ast.literal_eval(text.decode("latin1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise StorageError(f"{where}: the array's header is damaged") from error
    if not isinstance(found, dict) or found.keys() != {"descr", "fortran_order", "shape"}:
        raise StorageError(f"{where}: the array's header is damaged")
    return found, 8 + width + length


def _dtype(descr: object, where: str, texts: bool) -> DType:
    try:
        dtype = np.dtype(descr) if isinstance(descr, str) else None
    except (TypeError, ValueError, SyntaxError) as error:
        raise StorageError(f"{where}: {descr!r} is not a dtype") from error
    if dtype is not None and texts and dtype.kind in "SU" and dtype.itemsize <= 256:
        return dtype
    if dtype is None or dtype.newbyteorder("=") not in DTYPES:
        shown = "a structured dtype" if dtype is None else f"dtype {dtype}"
        raise StorageError(
            f"{where} holds {shown}, which is not read",
            hint="arrays of Python objects, text and records are never loaded; convert to numbers",
        )
    return dtype


def _shape(value: object, where: str) -> tuple[int, ...]:
    if (
        not isinstance(value, tuple)
        or len(value) > 64
        or not all(type(n) is int and 0 <= n < 2**63 for n in value)
    ):
        raise StorageError(f"{where}: the array's header declares the shape {value!r}")
    return value


def _fill(stream: IO[bytes], target: memoryview, where: str) -> None:
    done = 0
    while done < len(target):
        piece = stream.read(min(_PIECE, len(target) - done))
        if not piece:
            missing = len(target) - done
            raise StorageError(f"{where} is truncated: {missing:,} bytes of data are missing")
        target[done : done + len(piece)] = piece
        done += len(piece)


def read_array(stream: IO[bytes], size: int, where: str, *, texts: bool = False) -> AnyArray:
    """The array in a stream of ``size`` bytes; ``where`` names it in errors.

    ``texts`` allows short texts, which SciPy's files use for the name of the format.
    """
    header, start = _header(stream, where)
    dtype, shape = _dtype(header["descr"], where, texts), _shape(header["shape"], where)
    count = 1
    for n in shape:
        count *= n
    needed = count * dtype.itemsize
    if needed != size - start:
        raise StorageError(
            f"{where}: the header declares {needed:,} bytes of data, the file holds "
            f"{size - start:,}",
            hint="the file is truncated or damaged",
        )
    check_memory(needed, where, "the array")
    flat = np.empty(count, dtype)
    if needed:
        _fill(stream, flat.view(np.uint8).data, where)
    if dtype.kind == "b" and needed:  # bytes other than 0 and 1 are not booleans
        flat = flat.view(np.uint8) != 0
    native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
    return native.reshape(shape, order="F" if header["fortran_order"] else "C")


def read_npy(path: str | os.PathLike[str]) -> Stored:
    """The dense tensor in an ``.npy`` file.

    >>> read_npy("x.npy").shape  # doctest: +SKIP
    (3, 4)
    """
    where = str(path)
    with Path(path).open("rb") as stream:
        return from_dense(read_array(stream, os.fstat(stream.fileno()).st_size, where), 0)


def write_npy(stream: IO[bytes], stored: Stored, where: str) -> None:
    """Write the dense equivalent; refused when making it would pass ``densify``."""
    needed = stored.dtype.itemsize
    for n in stored.shape:
        needed *= n
    limit = config.current().densify
    if needed > limit and not stored.format.is_dense:
        raise MemoryLimitError(
            f"{where}: .npy is dense; shape {stored.shape} would take {needed:,} bytes",
            needed=needed,
            limit=limit,
            step=f"write {where}",
            hint="write .npz, .mtx or .tns, which stay sparse, or raise tr.options(densify=...)",
        )
    np.lib.format.write_array(stream, to_dense(stored), allow_pickle=False)
