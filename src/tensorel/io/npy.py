"""NumPy's ``.npy``: one dense array. Nothing is ever unpickled.

The header is parsed here and not by ``np.load``, so that a hostile file is refused before
anything is allocated: the sizes it declares must agree with the bytes that are there.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.algebra.ops import DTYPES, DType
from tensorel.errors import MemoryLimitError, StorageError
from tensorel.io.guard import check_array
from tensorel.storage.convert import from_dense, to_dense
from tensorel.storage.stored import Stored

AnyArray = npt.NDArray[np.generic]

_MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 10_000
_PIECE_BYTES = 1 << 24
#: One item of the header: a text, a truth value, a tuple of whole numbers, or a list (of records).
_ITEM = re.compile(
    r"""\s*['"](?P<key>[a-z_]+)['"]\s*:\s*(?:['"](?P<text>[^'"\\]{0,64})['"]"""
    r"""|(?P<truth>True|False)|\((?P<tuple>[0-9L,\s]*)\)|(?P<list>\[.*\]))\s*(?:,|(?=\}))""")
_NUMBERS = re.compile(r"\s*(?:[0-9]{1,19}L?\s*(?:,\s*[0-9]{1,19}L?\s*)*,?\s*)?")
_DTYPE = re.compile(r"[<>|=]?[biufcSUOVmM][0-9]{0,4}(\[[0-9a-zA-Z]+\])?|\?|[a-z]+[0-9]{0,3}")
_Value = str | bool | tuple[int, ...] | None


def _header(stream: IO[bytes], where: str) -> tuple[dict[str, _Value], int]:
    """The header's dictionary and the number of bytes before the data."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != _MAGIC:
        raise StorageError(f"{where} is not an .npy array: the file does not start as one")
    width, code = (2, "<H") if start[6] == 1 else (4, "<I")
    if start[6] not in (1, 2, 3):
        raise StorageError(f"{where}: .npy version {start[6]}.{start[7]} is unknown")
    raw = stream.read(width)
    length = struct.unpack(code, raw)[0] if len(raw) == width else -1
    if not 0 <= length <= _MAX_HEADER_BYTES:
        raise StorageError(f"{where}: the array's header is damaged")
    text = stream.read(length)
    if len(text) != length:
        raise StorageError(f"{where}: the file ends inside the array's header")
    found = _items(text.decode("latin1").strip())
    if found is None or found.keys() != {"descr", "fortran_order", "shape"} \
            or not isinstance(found["fortran_order"], bool):
        raise StorageError(f"{where}: the array's header is damaged")
    return found, 8 + width + length


def _items(text: str) -> dict[str, _Value] | None:
    """The dictionary that the text writes down; None if it is not one of a header. Records have
    the value None."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    found: dict[str, _Value] = {}
    at = 1
    while item := _ITEM.match(text, at):
        at, key = item.end(), item["key"]
        if key in found:
            return None
        if item["tuple"] is not None:
            found[key] = _numbers(item["tuple"])
        elif item["truth"]:
            found[key] = item["truth"] == "True"
        else:
            found[key] = item["text"]
    return found if not text[at:-1].strip() else None


def _numbers(text: str) -> _Value:
    """The numbers of a tuple; its text if they are none."""
    if not _NUMBERS.fullmatch(text):
        return text
    words = text.replace("L", "").replace(",", " ").split()
    return tuple([int(w) for w in words]) if len(words) != 1 or "," in text else text


def _dtype(descr: _Value, where: str, texts: bool) -> DType:
    if descr is not None and not (isinstance(descr, str) and _DTYPE.fullmatch(descr)):
        raise StorageError(f"{where}: {descr!r} is not a dtype")
    try:
        dtype = None if descr is None else np.dtype(descr)
    except (TypeError, ValueError) as error:
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


def is_shape(value: Sequence[object]) -> bool:
    return len(value) <= 64 and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _shape(value: _Value, where: str) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not is_shape(value):
        raise StorageError(f"{where}: the array's header declares the shape {value!r}")
    return value


def _fill(stream: IO[bytes], target: memoryview, where: str) -> None:
    done = 0
    while done < len(target):
        piece = stream.read(min(_PIECE_BYTES, len(target) - done))
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
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - start:
        raise StorageError(
            f"{where}: the header declares {needed:,} bytes of data, the file holds "
            f"{size - start:,}",
            hint="the file is truncated or damaged",
        )
    check_array(shape, dtype.itemsize, where)
    flat = np.empty(math.prod(shape), dtype)
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


def head_of_npy(path: str | os.PathLike[str]) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype of the array in an ``.npy`` file, which is not read."""
    with Path(path).open("rb") as stream:
        return head_of_array(stream, str(path))


def head_of_array(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype of the array that follows in a stream."""
    header, _ = _header(stream, where)
    return _shape(header["shape"], where), _dtype(
        header["descr"], where, True).newbyteorder("=")


def write_npy(stream: IO[bytes], stored: Stored, where: str) -> None:
    """Write the dense equivalent; refused when making it would pass ``densify``."""
    needed = stored.dtype.itemsize * math.prod(stored.shape)
    limit = config.current().densify
    if needed > limit and not stored.format.is_dense:
        raise MemoryLimitError(
            f"{where}: .npy is dense; shape {stored.shape} would take {needed:,} bytes",
            needed=needed,
            limit=limit,
            step=f"write {where}",
            hint="write .npz, .mtx or .tns, which stay sparse, or raise tr.options(densify=...)",
        )
    write_array(stream, to_dense(stored))


def write_array(stream: IO[bytes], array: AnyArray) -> None:
    """The array as NumPy writes it. NumPy hands files to the C library, which does not say why the
    system refused."""
    head = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, head)
    flat = np.ascontiguousarray(array.T if head["fortran_order"] else array).reshape(-1)
    stream.write(flat.view(np.uint8).data)
