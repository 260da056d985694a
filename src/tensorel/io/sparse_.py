"""PyData/Sparse in and out: COO, GCXS and DOK, seen by their attributes; fill values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.algebra.ops import check_dtype
from tensorel.errors import StorageError, TypeError_, UnsupportedError
from tensorel.io.compressed import check_compressed, index_array, is_canonical
from tensorel.storage.convert import pack, to_coo, to_format
from tensorel.storage.ingest import clean
from tensorel.storage.registry import resolve
from tensorel.storage.scalars import make_fill
from tensorel.storage.stored import Stored


def from_pydata(x: Any) -> Stored:
    """A stored tensor from a sparse.COO, sparse.GCXS or sparse.DOK."""
    if not hasattr(x, "fill_value") or not hasattr(x, "shape"):
        raise TypeError_(f"{type(x).__name__} is not a PyData/Sparse array")
    if hasattr(x, "indptr") and len(x.shape) == 2:
        made = _from_gcxs(x)
        if made is not None:
            return made
    layout = "dok" if type(x).__name__ == "DOK" and x.shape else "coo" if x.shape else "dense"
    coo = x if hasattr(x, "coords") else x.asformat("coo")
    shape = tuple(int(n) for n in coo.shape)
    axes = [index_array(c, "coordinates") for c in coo.coords]
    try:
        found = clean(
            axes, coo.data, shape, x.fill_value, "sum", check_dtype(x.dtype), keep_width=True
        )
    except (IndexError, ValueError) as error:
        raise StorageError(f"the sparse array is corrupt: {error}") from error
    return pack(found, layout)


def _from_gcxs(x: Any) -> Stored | None:
    """The same memory as csr or csc; None where the layout is neither."""
    layout = {(0,): "csr", (1,): "csc"}.get(tuple(x.compressed_axes))
    if layout is None:
        return None
    shape = (int(x.shape[0]), int(x.shape[1]))
    major, minor = shape if layout == "csr" else shape[::-1]
    pos, idx = index_array(x.indptr, "indptr"), index_array(x.indices, "indices")
    dtype = check_dtype(x.dtype)
    val = np.ascontiguousarray(x.data, dtype=dtype)
    check_compressed(pos, idx, val.size, major, minor, "the GCXS array")
    if not is_canonical(pos, idx):
        return None
    fill = make_fill(x.fill_value, dtype)
    arrays = {"pos1": pos, "idx1": idx, "val": val}
    return Stored(resolve(layout, shape, dtype), shape, dtype, fill, arrays)


def to_pydata(stored: Stored, format: str | None = None) -> Any:
    """A sparse.COO, or "gcxs" or "dok"; csr and csc go to GCXS unless told otherwise."""
    try:
        import sparse
    except ImportError as error:
        raise UnsupportedError("to_pydata needs sparse", hint="pip install sparse") from error
    name = stored.format.name
    layout = format or {"csr": "gcxs", "csc": "gcxs", "dok": "dok"}.get(name, "coo")
    if layout not in ("coo", "gcxs", "dok"):
        raise StorageError(f"PyData/Sparse has no format {layout!r}", hint="coo, gcxs or dok")
    if layout == "gcxs" and len(stored.shape) == 2:
        held = stored if name == "csc" else to_format(stored, "csr")
        pos, idx, val = (held.arrays[n] for n in ("pos1", "idx1", "val"))
        used = slice(int(pos[0]), int(pos[-1]))
        axes = (1,) if held.format.name == "csc" else (0,)
        return sparse.GCXS(
            (val[used], idx[used], pos - pos[0]), shape=stored.shape, compressed_axes=axes,
            fill_value=stored.fill,
        )
    coo = to_coo(stored)
    coords = np.stack(coo.coords) if coo.coords else np.empty((0, coo.count), np.int64)
    made = sparse.COO(
        coords, coo.values, shape=stored.shape, has_duplicates=False, sorted=True,
        fill_value=stored.fill,
    )
    return made if layout == "coo" else made.asformat(layout)
