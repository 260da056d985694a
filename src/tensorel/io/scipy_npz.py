"""The arrays of ``scipy.sparse.save_npz``, without SciPy: csr, csc, coo, bsr and dia."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType, check_dtype
from tensorel.errors import StorageError
from tensorel.io.guard import check_justified, check_memory, naming
from tensorel.io.libraries.compressed import rebased
from tensorel.io.libraries.scipy_ import from_diagonals
from tensorel.io.npy import AnyArray
from tensorel.io.validate import check_idx, check_pos, outside
from tensorel.storage.convert import entries, from_coo, to_coo, to_format
from tensorel.storage.entries import IndexArray, make_fill
from tensorel.storage.format import FormatLike
from tensorel.storage.laws import ascends
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

KINDS = ("csr", "csc", "coo", "bsr", "dia")
Arrays = Mapping[str, AnyArray]


def from_scipy_arrays(arrays: Arrays, wanted: FormatLike | None, where: str) -> Stored:
    """The tensor, in the format of its name; duplicates are added up, as SciPy has it. Diagonals
    take room for whole rows and columns, so they are not made if another format is wanted."""
    kind, shape = _kind(arrays, where), _shape(arrays, where)
    data = _need(arrays, "data", where)
    if data.dtype.kind in "SU":
        raise StorageError(f"{where}: the data are text")
    with naming(where):
        if kind == "dia":
            return _read_dia(arrays, data, shape, wanted, where)
        return _READERS[kind](arrays, data, shape, where)


def _kind(arrays: Arrays, where: str) -> str:
    raw = arrays["format"]
    name = raw.reshape(-1)[0] if raw.size == 1 else b""
    kind = name.decode("latin1") if isinstance(name, bytes) else str(name)
    if kind not in KINDS:
        raise StorageError(
            f"{where}: the sparse format {kind!r} is unknown", hint=f"known are {', '.join(KINDS)}"
        )
    return kind


def _shape(arrays: Arrays, where: str) -> tuple[int, ...]:
    raw = arrays["shape"]
    if raw.dtype.kind not in "iu" or raw.ndim != 1 or not 1 <= raw.size <= 64 or (raw < 0).any():  # type: ignore[operator]
        raise StorageError(f"{where}: the shape is damaged")
    return tuple(int(n) for n in raw)


def _need(arrays: Arrays, name: str, where: str, ndim: int | None = None) -> AnyArray:
    found = arrays.get(name)
    if found is None:
        raise StorageError(f"{where}: array {name!r} is missing")
    if ndim is not None and (found.ndim != ndim or found.dtype.kind not in "iu"):
        raise StorageError(f"{where}: array {name!r} does not hold indices")
    return found


def _matrix(shape: tuple[int, ...], kind: str, where: str) -> tuple[int, int]:
    if len(shape) != 2:
        raise StorageError(f"{where}: a {kind} array of {len(shape)} axes is not read")
    return shape[0], shape[1]


def _compressed(
    arrays: Arrays, lines: int, across: int, axis: int, where: str
) -> tuple[AnyArray, AnyArray]:
    pos, idx = (_need(arrays, n, where, 1) for n in ("indptr", "indices"))
    check_pos(pos, lines, idx.size, f"{where}['indptr']")
    check_idx(idx, across, axis, f"{where}['indices']")
    if int(pos[0]) != 0:
        raise StorageError(f"{where}['indptr']: segment bounds do not start at 0")
    return pos, idx[: int(pos[-1])]


def _line_numbers(pos: AnyArray) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(pos.size - 1), np.diff(pos))


def _read_compressed(kind: str) -> Callable[[Arrays, AnyArray, tuple[int, ...], str], Stored]:
    first = 0 if kind == "csr" else 1

    def read(arrays: Arrays, data: AnyArray, shape: tuple[int, ...], where: str) -> Stored:
        if len(shape) == 1:
            return _read_vector(arrays, data, shape, where)
        _matrix(shape, kind, where)
        pos, idx = _compressed(arrays, shape[first], shape[1 - first], 1 - first, where)
        if data.ndim != 1 or data.size < idx.size:
            raise StorageError(f"{where}: {data.size:,} values for {idx.size:,} indices")
        data = data[: idx.size]
        if ascends(pos, idx):
            dtype = check_dtype(data.dtype)
            made = {"pos1": pos, "idx1": idx, "val": data}
            return outside(
                resolve(kind, shape, dtype), shape, dtype, make_fill(0, dtype), made, where)
        pair = [_line_numbers(pos), idx]
        coords = pair if kind == "csr" else pair[::-1]
        return from_coo(coords, data, shape, duplicates="sum", format=kind)

    return read


def _read_vector(arrays: Arrays, data: AnyArray, shape: tuple[int, ...], where: str) -> Stored:
    _, idx = _compressed(arrays, 1, shape[0], 0, where)
    return from_coo([idx], data[: idx.size], shape, duplicates="sum", format="coo")


def _read_coo(arrays: Arrays, data: AnyArray, shape: tuple[int, ...], where: str) -> Stored:
    if "coords" in arrays:
        stacked = _need(arrays, "coords", where, 2)
        coords = [stacked[k] for k in range(stacked.shape[0])]
    elif "row" in arrays:
        coords = [_need(arrays, n, where, 1) for n in ("row", "col")]
    else:
        coords = [_need(arrays, "col", where, 1)]
    return from_coo(coords, data, shape, duplicates="sum", format="coo")


def _read_bsr(arrays: Arrays, data: AnyArray, shape: tuple[int, ...], where: str) -> Stored:
    m, n = _matrix(shape, "bsr", where)
    if data.ndim != 3 or 0 in data.shape[1:]:
        raise StorageError(f"{where}: blocks have {data.ndim} dimensions, not 3")
    r, c = data.shape[1:]
    if m % r or n % c:
        raise StorageError(f"{where}: blocks of {r} x {c} do not tile {m} x {n}")
    pos, idx = _compressed(arrays, m // r, n // c, 1, where)
    if data.shape[0] < idx.size:
        raise StorageError(f"{where}: {data.shape[0]:,} blocks for {idx.size:,} indices")
    check_memory(idx.size * r * c * 16, where, "the list of entries")
    block, di, dj = (x.reshape(-1) for x in np.indices((idx.size, r, c)))
    rows = _line_numbers(pos)[block] * r + di
    columns = idx.astype(np.int64)[block] * c + dj
    return from_coo(
        [rows, columns], data[: idx.size].reshape(-1), shape, duplicates="sum",
        format=f"bsr({r},{c})",
    )


def _read_dia(
    arrays: Arrays, data: AnyArray, shape: tuple[int, ...], wanted: FormatLike | None, where: str
) -> Stored:
    m, n = _matrix(shape, "dia", where)
    offsets = _need(arrays, "offsets", where, 1).astype(np.int64)
    if data.ndim != 2 or data.shape[0] != offsets.size:
        raise StorageError(f"{where}: diagonals and offsets do not fit together")
    if np.unique(offsets).size != offsets.size:
        raise StorageError(f"{where}: an offset is given twice")
    inside = (offsets > -m) & (offsets < n)
    if not inside.all():
        data, offsets = data[inside], offsets[inside]
    if wanted is None:
        room = offsets.size * n * data.itemsize + 32 * m  # values, and bounds for each row
        check_justified(room, data.nbytes, where, f"{offsets.size} diagonals of {m} x {n}")
        return from_diagonals(data, offsets, shape, check_dtype(data.dtype))
    check_memory(5 * 8 * data.size, where, "the list of entries")
    d, columns = np.nonzero(data[:, : min(n, data.shape[1])])
    rows = columns - offsets[d]
    kept = (rows >= 0) & (rows < m)
    return from_coo([rows[kept], columns[kept]], data[d, columns][kept], shape, format=wanted)


_READERS = {
    "csr": _read_compressed("csr"), "csc": _read_compressed("csc"), "coo": _read_coo,
    "bsr": _read_bsr,
}


# -- writing -----------------------------------------------------------------------------------
def arrays_for_scipy(stored: Stored, where: str) -> dict[str, AnyArray]:
    """The arrays that ``scipy.sparse.load_npz`` reads."""
    kind = stored.format.name
    if kind not in KINDS or not stored.shape:
        raise StorageError(
            f"{where}: SciPy's files hold {', '.join(KINDS)}; this tensor's format is {kind!r}",
            hint="convert it first, e.g. to 'csr'",
        )
    if stored.fill != 0:
        raise StorageError(
            f"{where}: SciPy's matrices have no fill value; this tensor's is {stored.fill}",
            hint="write our own layout (scipy=False), which keeps it",
        )
    head: dict[str, AnyArray] = {
        "format": np.array(kind.encode("ascii")),
        "shape": np.asarray(stored.shape, np.int64),
        "_is_array": np.asarray(True),
    }
    return head | _WRITERS[kind](to_format(stored, kind))  # users' storages may have such names


def _write_compressed(stored: Stored, block: tuple[int, ...] = ()) -> dict[str, AnyArray]:
    pos, idx, val = rebased(stored, block)
    wide = np.dtype(np.promote_types(pos.dtype, idx.dtype))
    return {"indptr": pos.astype(wide, copy=False), "indices": idx.astype(wide, copy=False),
            "data": val}


def _write_coo(stored: Stored) -> dict[str, AnyArray]:
    coo = to_coo(stored)
    if len(stored.shape) == 2:
        return {"row": coo.coords[0], "col": coo.coords[1], "data": coo.values}
    wide: DType = np.result_type(*coo.coords)
    coords: IndexArray = np.stack([c.astype(wide) for c in coo.coords])
    return {"coords": coords, "data": coo.values}


def _write_bsr(stored: Stored) -> dict[str, AnyArray]:
    r, c = stored.format.block  # type: ignore[attr-defined]
    m, n = stored.shape
    if m % r or n % c:  # SciPy's blocks tile the matrix
        return _write_bsr(to_format(stored, "bsr(1,1)"))
    return _write_compressed(stored, (r, c))


def _write_dia(stored: Stored) -> dict[str, AnyArray]:
    coo = entries(stored)
    n = stored.shape[1]
    offsets = coo.coords[1].astype(np.int64) - coo.coords[0]
    off, which = np.unique(offsets, return_inverse=True)
    check_memory(prod((off.size, n)) * stored.dtype.itemsize, "SciPy's file", "the diagonals")
    data = np.zeros((off.size, n), stored.dtype)
    data[which.reshape(-1), coo.coords[1]] = coo.values
    return {"offsets": off, "data": data}


_WRITERS: dict[str, Callable[[Stored], dict[str, AnyArray]]] = {
    "csr": _write_compressed, "csc": _write_compressed, "coo": _write_coo, "bsr": _write_bsr,
    "dia": _write_dia,
}
