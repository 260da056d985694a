"""scipy.sparse in and out, without copies where layouts agree; SciPy is imported on use.

The user's object is never changed: not its arrays, nor the flags that SciPy caches on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType, check_dtype
from tensorel.errors import IndexError_, StorageError, TypeError_, UnsupportedError
from tensorel.io.libraries.compressed import (
    check_compressed,
    expand_rows,
    from_compressed,
    index_array,
    rebased,
)
from tensorel.storage.convert import pack, to_coo, to_format
from tensorel.storage.entries import Coo, differs, make_fill
from tensorel.storage.format import Format
from tensorel.storage.formats.bsr import Bsr, with_block
from tensorel.storage.formats.diagonal import row_bounds
from tensorel.storage.ingest import inspect, settle
from tensorel.storage.laws import ascends
from tensorel.storage.lending import lend
from tensorel.storage.limits import require
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

Array = npt.NDArray[np.generic]
_LAYOUTS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
#: Bytes of the Python objects that SciPy makes for each row, and for each entry.
_OBJECT_BYTES = {"lil": (152, 120), "dok": (0, 240), "bsr": (24, 64)}


def from_scipy(x: Any) -> Stored:
    """A stored tensor from a scipy.sparse array or matrix of any kind; repeated entries add up.

    >>> import scipy.sparse as sp
    >>> from_scipy(sp.csr_array([[0.0, 1.0], [2.0, 0.0]])).format.name
    'csr'
    """
    layout = getattr(x, "format", None)
    if layout not in _LAYOUTS:
        raise TypeError_(f"{type(x).__name__} is not a scipy.sparse array")
    dtype = check_dtype(x.dtype)
    if layout in ("csr", "csc") and len(x.shape) == 2:
        return _from_compressed(x, layout, dtype)
    if layout == "bsr":
        return _from_bsr(x, dtype)
    if layout == "dia":
        return _from_dia(x, dtype)
    kept = {"dok": "dok", "lil": "csr"}.get(layout, "coo")
    return _from_coo(x if layout == "coo" else x.tocoo(), dtype, kept)


def _values(data: object, dtype: DType) -> Array:
    return np.ascontiguousarray(lend(data), dtype=dtype)


def _stored(format: Format, shape: tuple[int, ...], arrays: dict[str, Array]) -> Stored:
    dtype = arrays["val"].dtype
    return Stored(format, shape, dtype, make_fill(0, dtype), arrays)


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in x.shape)


def _from_compressed(x: Any, layout: str, dtype: DType) -> Stored:
    made = from_compressed(x, layout, dtype, 0, f"the {layout} matrix")
    if made is not None:
        return made
    pos, idx = index_array(x.indptr, "indptr"), index_array(x.indices, "indices")
    used = slice(int(pos[0]), int(pos[-1]))
    pair = [expand_rows(pos, pos.size - 1), idx[used]]
    coords = pair if layout == "csr" else pair[::-1]
    given = inspect(coords, _values(x.data, dtype)[used], _shape(x), 0, "sum", dtype,
                    keep_width=True)
    return pack(settle(given), layout)


def _from_coo(x: Any, dtype: DType, layout: str) -> Stored:
    coords = x.coords if hasattr(x, "coords") else (x.row, x.col)
    arrays = [index_array(c, "coordinates") for c in coords]
    try:
        coo = settle(inspect(arrays, lend(x.data), _shape(x), 0, "sum", dtype, keep_width=True))
    except (IndexError_, ValueError) as error:
        raise StorageError(f"the coo array is corrupt: {error}") from error
    return pack(coo, layout)


def _from_bsr(x: Any, dtype: DType) -> Stored:
    shape = _shape(x)
    blocks = lend(x.data)
    if blocks.ndim != 3 or 0 in blocks.shape[1:]:
        raise StorageError("the bsr matrix must hold its blocks in a three-dimensional array")
    r, c = blocks.shape[1:]
    lines, columns = -(-shape[0] // r), -(-shape[1] // c)
    pos, idx = index_array(x.indptr, "indptr"), index_array(x.indices, "indices")
    check_compressed(pos, idx, blocks.shape[0], lines, columns, "the bsr matrix")
    if ascends(pos, idx):
        room = min(idx.size, blocks.shape[0])
        val = _values(blocks[:room], dtype).reshape(-1)
        arrays: dict[str, Array] = {"pos1": pos, "idx1": idx[:room], "val": val}
        return _stored(with_block((int(r), int(c))), shape, arrays)
    used = slice(int(pos[0]), int(pos[-1]))
    i = expand_rows(pos, lines).astype(np.int64)[:, None, None] * r + np.arange(r)[:, None]
    j = idx[used].astype(np.int64)[:, None, None] * c + np.arange(c)
    coords = [np.broadcast_to(k, blocks[used].shape).reshape(-1) for k in (i, j)]
    given = inspect(coords, blocks[used].reshape(-1), shape, 0, "sum", dtype)
    return pack(settle(given), with_block((int(r), int(c))))


def _from_dia(x: Any, dtype: DType) -> Stored:
    data, off = lend(x.data), index_array(x.offsets, "offsets").astype(np.int64)
    if data.ndim != 2 or data.shape[0] != off.size:
        raise StorageError(f"the dia matrix has {off.size} offsets for data of {data.shape}")
    return from_diagonals(data, off, _shape(x), dtype)


def from_diagonals(
    data: Array, off: npt.NDArray[np.int64], shape: tuple[int, ...], dtype: DType
) -> Stored:
    """The dia tensor of SciPy's arrays, over the same memory where they are as ours."""
    m, n = shape
    fits = bool((off[1:] > off[:-1]).all()) and data.shape[1] == n
    room = 32 * m + (0 if fits else 2 * off.size * n * dtype.itemsize)
    require(room, f"{off.size} diagonals of {m} x {n}")
    if fits:
        val = _values(data, dtype).reshape(-1)
    else:
        wide = np.zeros((off.size, n), dtype=dtype)
        width = min(n, data.shape[1])
        wide[:, :width] = data[:, :width]
        off, first = np.unique(off, return_inverse=True)
        total = np.zeros((off.size, n), dtype=dtype)
        np.add.at(total, first, wide)
        val = total.reshape(-1)
    arrays: dict[str, Array] = {"off": off, **row_bounds(off, m, n), "val": val}
    return _stored(resolve("dia", (m, n), dtype), (m, n), arrays)


# -- out -------------------------------------------------------------------------------------------
def to_scipy(stored: Stored, format: str | None = None) -> Any:
    """A scipy.sparse array over the same memory where layouts agree.

    ``format`` is SciPy's name; left out, the stored one where SciPy has it, else csr (coo for
    other ranks than 2)."""
    try:
        import scipy.sparse as sp
    except ImportError as error:
        raise UnsupportedError("to_scipy needs SciPy", hint="pip install scipy") from error
    if bool(differs(np.zeros(1, stored.dtype), stored.fill)[0]):
        raise StorageError(
            f"scipy.sparse knows only fill 0; this tensor has fill {stored.fill}",
            hint="subtract the fill first, or use to_numpy() or to_coo()",
        )
    layout = format or _default_layout(stored)
    if layout not in _LAYOUTS:
        raise StorageError(f"SciPy has no format {layout!r}", hint=f"it has {', '.join(_LAYOUTS)}")
    if len(stored.shape) != 2:
        if layout != "coo" or not stored.shape:
            raise StorageError(
                f"SciPy stores tensors of {len(stored.shape)} axes only as coo, from one axis on",
                hint="use to_scipy('coo') or to_numpy()",
            )
        return _to_coo(sp, to_coo(stored))
    return _to_matrix(sp, stored, layout)


def _default_layout(stored: Stored) -> str:
    if len(stored.shape) != 2:
        return "coo"
    name = stored.format.name
    return name if name in _LAYOUTS else "dia" if name == "band" else "csr"


def _to_coo(sp: Any, coo: Coo) -> Any:
    made = sp.coo_array((coo.values, coo.coords), shape=coo.shape, copy=False)
    made.has_canonical_format = True
    return made


def _to_matrix(sp: Any, stored: Stored, layout: str) -> Any:
    if layout in ("csr", "csc"):
        return _to_compressed(sp, to_format(stored, layout), layout)
    if layout == "bsr" and isinstance(stored.format, Bsr):
        r, c = stored.format.block
        if stored.shape[0] % r == 0 and stored.shape[1] % c == 0:
            pos, idx, blocks = rebased(stored, (r, c))
            return sp.bsr_array((blocks, idx, pos), shape=stored.shape, copy=False)
    if layout == "dia":
        held = to_format(stored, "dia")
        off = held.arrays["off"]
        data = held.arrays["val"].reshape(off.size, stored.shape[1])
        return sp.dia_array((data, off), shape=stored.shape, copy=False)
    if layout in _OBJECT_BYTES:
        of_row, of_entry = _OBJECT_BYTES[layout]
        require(of_row * stored.shape[0] + of_entry * stored.count, f"SciPy's {layout} matrix")
    if layout == "bsr":
        return _to_compressed(sp, to_format(stored, "csr"), "csr").tobsr()
    coo = _to_coo(sp, to_coo(stored))
    return coo if layout == "coo" else coo.asformat(layout)


def _to_compressed(sp: Any, stored: Stored, layout: str) -> Any:
    assert isinstance(stored.format, Stack)
    pos, idx, val = rebased(stored)
    kind = sp.csr_array if layout == "csr" else sp.csc_array
    made = kind((val, idx, pos), shape=stored.shape, copy=False)
    made.has_sorted_indices = True
    made.has_canonical_format = True
    return made
