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
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, cast

import numpy as np

from tensorel.algebra.ops import DTYPES, DType, check_dtype
from tensorel.errors import StorageError, TensorelError
from tensorel.io.npy import AnyArray, check_memory, read_array
from tensorel.io.scipy_npz import arrays_for_scipy, from_scipy_arrays
from tensorel.io.validate import checked
from tensorel.storage.convert import from_dense
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

_HEADER = "tensorel"
_VERSION = 1
_MEMBERS_LIMIT = 1000


def _members(archive: zipfile.ZipFile, where: str) -> dict[str, AnyArray]:
    infos = archive.infolist()
    if len(infos) > _MEMBERS_LIMIT:
        raise StorageError(f"{where} holds {len(infos):,} arrays; a tensor has a few")
    check_memory(sum(i.file_size for i in infos), where, "the unpacked archive")
    found: dict[str, AnyArray] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name in found:
            raise StorageError(f"{where} holds two arrays called {name!r}")
        with archive.open(info) as stream:
            found[name] = read_array(stream, info.file_size, f"{where}[{name!r}]", texts=True)
    return found


def read_npz(path: str | os.PathLike[str]) -> Stored:
    """The tensor in an ``.npz`` file: ours, SciPy's, or one plain array.

    >>> read_npz("a.npz").format.name  # doctest: +SKIP
    'csr'
    """
    where = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _members(archive, where)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise StorageError(f"{where} is not a readable .npz archive: {error}") from error
    except (ValueError, OverflowError, UnicodeError) as error:
        if isinstance(error, TensorelError):
            raise
        raise StorageError(f"{where} is not a readable .npz archive: {error}") from error
    if _HEADER in arrays:
        return _from_ours(arrays, where)
    if "format" in arrays and "shape" in arrays:
        return from_scipy_arrays(arrays, where)
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
    try:
        found = json.loads(raw.astype(np.uint8).tobytes())
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{where}: the tensor's header is damaged") from error
    if not isinstance(found, dict):
        raise StorageError(f"{where}: the tensor's header is damaged")
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
    if (
        not isinstance(shape, list)
        or len(shape) > 64
        or not all(type(n) is int and 0 <= n < 2**63 for n in shape)
        or not isinstance(name, str)
        or header.get("dtype") not in [d.name for d in DTYPES]
    ):
        raise StorageError(f"{where}: the tensor's header is damaged")
    extents = tuple(shape)
    try:
        dtype = check_dtype(header.get("dtype"))
        format_ = resolve(name, extents, dtype)
    except TensorelError as error:
        raise StorageError(f"{where}: {error.message}", hint=error.hint) from error
    fill = fill_value(header.get("fill"), dtype, where)
    physical = {n: a for n, a in arrays.items() if n != _HEADER}
    return checked(Stored(format_, extents, dtype, fill, physical), where)


def write_npz(
    stream: IO[bytes], stored: Stored, where: str, *, scipy: bool = False, compress: bool = True
) -> None:
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
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", kind, compresslevel=1 if compress else None) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def compact(stored: Stored) -> Mapping[str, AnyArray]:
    """The arrays; packed anew where they are windows on larger ones."""
    val = stored.arrays.get("val")
    if isinstance(stored.format, Stack) and val is not None and stored.count != val.size:
        coo = stored.format.unpack(stored.arrays, stored.shape, stored.fill, stored.dtype)
        return stored.format.pack(coo)
    return stored.arrays
