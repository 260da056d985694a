"""``.npz``: a zip archive of arrays. Three layouts are read, and nothing is ever unpickled.

**Ours** keeps any format. The archive holds one array per physical array of the format, under
its name (``pos1``, ``idx1``, ``val``, ...), and the member ``tensorel``: bytes of a JSON text

    {"version": 1, "format": "csr", "shape": [3, 4], "dtype": "float64", "fill": ["0x0.0p+0"]}

``fill`` is exact: integers in decimal, floats in hexadecimal, a complex number as two floats.

**SciPy's** (``scipy.sparse.save_npz``): csr, csc, coo, bsr and dia, read and written.

**Plain**: one array (``np.savez(file, x)``), read as a dense tensor.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

import numpy as np

from tensorel.algebra.ops import DTYPES, DType, check_dtype
from tensorel.errors import StorageError
from tensorel.io.guard import DEFLATE_RATIO, check_memory, naming, unpacking
from tensorel.io.npy import AnyArray, head_of_array, is_shape, read_array, write_array
from tensorel.io.scipy_npz import arrays_for_scipy, from_scipy_arrays
from tensorel.io.validate import checked
from tensorel.storage.convert import from_dense, to_format
from tensorel.storage.format import FormatLike
from tensorel.storage.identity import compact
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

_HEADER = "tensorel"
_VERSION = 1
_MAX_MEMBERS = 1000
_MAX_HEADER_BYTES = 1 << 20


def _members(archive: zipfile.ZipFile, size: int, where: str) -> dict[str, AnyArray]:
    infos = archive.infolist()
    if len(infos) > _MAX_MEMBERS:
        raise StorageError(f"{where} holds {len(infos):,} arrays; a tensor has a few")
    if sum(i.compress_size for i in infos) > size or not all(_is_possible(i) for i in infos):
        raise StorageError(f"{where} declares more data than an archive of its size holds",
                           hint="the file is truncated or damaged")
    check_memory(sum(i.file_size for i in infos), where, "the unpacked archive")
    found: dict[str, AnyArray] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name in found:
            raise StorageError(f"{where} holds two arrays called {name!r}")
        with archive.open(info) as stream:
            found[name] = read_array(stream, info.file_size, f"{where}[{name!r}]", texts=True)
            if stream.read(1):  # the end is where the checksum is compared
                raise StorageError(f"{where}[{name!r}] is longer than it says")
    return found


def _is_possible(info: zipfile.ZipInfo) -> bool:
    """Whether the member's sizes can be true. NumPy stores and deflates; other packings, which
    hold any number of bytes in a few, are refused when they are opened."""
    most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}
    return info.file_size <= info.compress_size * most.get(info.compress_type, 0)


def read_npz(path: str | os.PathLike[str], format: FormatLike | None = None) -> Stored:
    """The tensor in an ``.npz`` file: ours, SciPy's, or one plain array; in the given format or
    its own.

    >>> read_npz("a.npz").format.name  # doctest: +SKIP
    'csr'
    """
    where = str(path)
    with Path(path).open("rb") as raw, unpacking(where):
        with zipfile.ZipFile(raw) as archive:
            arrays = _members(archive, os.fstat(raw.fileno()).st_size, where)
        found = _tensor(arrays, format, where)
    return found if format is None else to_format(found, format)


def _tensor(arrays: Mapping[str, AnyArray], format: FormatLike | None, where: str) -> Stored:
    if _HEADER in arrays:
        return _from_ours(arrays, where)
    if "format" in arrays and "shape" in arrays:
        return from_scipy_arrays(arrays, format, where)
    if len(arrays) == 1:
        (only,) = arrays.values()
        if only.dtype.kind in "SU":
            raise StorageError(f"{where} holds text, not numbers")
        return from_dense(only, 0)
    raise StorageError(
        f"{where} holds {len(arrays)} arrays ({', '.join(sorted(arrays)[:8])}) and no tensor",
        hint="read one of them with numpy.load(...)[name] and pass it to tr.asarray",
    )


# -- our layout --------------------------------------------------------------------------------
def fill_texts(fill: np.generic) -> list[str]:
    """The exact texts of a fill value."""
    value = fill.item()
    if isinstance(value, complex):
        return [value.real.hex(), value.imag.hex()]
    return [value.hex()] if isinstance(value, float) else [str(int(value))]


def fill_value(texts: object, dtype: DType, where: str) -> np.generic:
    """The fill value that the texts say."""
    bad = StorageError(f"{where}: the header's fill value is damaged")
    if not isinstance(texts, list) or not all(isinstance(t, str) and len(t) < 99 for t in texts):
        raise bad
    if len(texts) != (2 if dtype.kind == "c" else 1):
        raise bad
    try:
        if dtype.kind in "biu":
            return cast(np.generic, np.array(int(texts[0]), dtype)[()])
        parts = [float.fromhex(t) for t in texts]
    except (ValueError, OverflowError, TypeError) as error:
        raise bad from error
    with np.errstate(all="ignore"):
        value = np.asarray(parts[0] if len(parts) == 1 else complex(*parts)).astype(dtype)
        return cast(np.generic, value[()])


def _header(raw: AnyArray, where: str) -> dict[str, object]:
    damaged = StorageError(f"{where}: the tensor's header is damaged")
    if raw.dtype != np.uint8 or raw.size > _MAX_HEADER_BYTES:
        raise damaged
    try:
        found = json.loads(raw.tobytes())
    except (ValueError, RecursionError) as error:
        raise damaged from error
    if not isinstance(found, dict):
        raise damaged
    if found.get("version") != _VERSION:
        raise StorageError(
            f"{where} has version {found.get('version')!r} of the layout; this tensorel reads "
            f"{_VERSION}",
            hint="update tensorel",
        )
    return found


def _from_ours(arrays: Mapping[str, AnyArray], where: str) -> Stored:
    header = _header(arrays[_HEADER], where)
    shape, name = header.get("shape"), header.get("format")
    if not isinstance(shape, list) or not is_shape(shape) or not isinstance(name, str) \
            or header.get("dtype") not in [d.name for d in DTYPES]:
        raise StorageError(f"{where}: the tensor's header is damaged")
    extents = tuple(shape)
    with naming(where):
        dtype = check_dtype(header.get("dtype"))
        format_ = resolve(name, extents, dtype)
    fill = fill_value(header.get("fill"), dtype, where)
    physical = {n: a for n, a in arrays.items() if n != _HEADER}
    return checked(format_, extents, dtype, fill, physical, where)


def head_of_npz(archive: zipfile.ZipFile, where: str
                ) -> tuple[tuple[int, ...], DType, np.generic, float]:
    """Shape, dtype, fill and the number of stored entries; entries are not read."""
    infos = {i.filename.removesuffix(".npy"): i for i in archive.infolist()[:_MAX_MEMBERS]}

    def small(name: str) -> AnyArray:
        if infos[name].file_size > _MAX_HEADER_BYTES:
            raise StorageError(f"{where}: the tensor's header is damaged")
        with archive.open(infos[name]) as stream:
            return read_array(stream, infos[name].file_size, where, texts=True)

    def size(name: str) -> tuple[tuple[int, ...], DType]:
        with archive.open(infos[name]) as stream:
            return head_of_array(stream, where)

    if _HEADER in infos:
        about = _header(small(_HEADER), where)
        shape, dtype = about.get("shape"), check_dtype(about.get("dtype"))
        if not isinstance(shape, list) or not is_shape(shape):
            raise StorageError(f"{where}: the tensor's header is damaged")
        stored = math.prod(size("val")[0]) if "val" in infos else math.prod(shape)
        return tuple(shape), dtype, fill_value(about.get("fill"), dtype, where), float(stored)
    if "format" in infos and "shape" in infos and "data" in infos:
        extents, dtype = size("data")
        found = small("shape").reshape(-1).tolist()
        return tuple(map(int, found)), dtype, dtype.type(0), float(math.prod(extents))
    only = next(iter(infos), None)
    if only is None:
        raise StorageError(f"{where} holds no tensor")
    shape_, dtype = size(only)
    return shape_, dtype, dtype.type(0), float(math.prod(shape_))


def write_npz(stream: IO[bytes], stored: Stored, where: str, *, scipy: bool = False) -> None:
    """Write in our layout, or in SciPy's (``scipy=True``: csr, csc, coo, bsr, dia, fill 0)."""
    if scipy:
        arrays = arrays_for_scipy(stored, where)
    else:
        header = {
            "version": _VERSION,
            "format": stored.format.text,
            "shape": list(stored.shape),
            "dtype": stored.dtype.name,
            "fill": fill_texts(stored.fill),
        }
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        arrays = {_HEADER: text, **compact(stored)}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                write_array(member, np.asarray(array))
