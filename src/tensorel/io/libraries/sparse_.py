"""PyData/Sparse in and out: COO, GCXS and DOK, seen by their attributes; fill values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.algebra.ops import check_dtype
from tensorel.errors import StorageError, TypeError_, UnsupportedError
from tensorel.io.libraries.compressed import from_compressed, index_array, rebased
from tensorel.storage.convert import pack, to_coo, to_format
from tensorel.storage.ingest import inspect, settle
from tensorel.storage.lending import lend
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
        found = settle(inspect(axes, lend(coo.data), shape, x.fill_value, "sum",
                               check_dtype(x.dtype), keep_width=True))
    except (IndexError, ValueError) as error:
        raise StorageError(f"the sparse array is corrupt: {error}") from error
    return pack(found, layout)


def _from_gcxs(x: Any) -> Stored | None:
    """The same memory as csr or csc; None where the layout is neither."""
    layout = {(0,): "csr", (1,): "csc"}.get(tuple(x.compressed_axes))
    return None if layout is None else from_compressed(
        x, layout, check_dtype(x.dtype), x.fill_value, "the GCXS array")


def to_pydata(stored: Stored) -> Any:
    """A sparse.GCXS of csr and csc, a DOK of dok, a COO of all others."""
    try:
        import sparse
    except ImportError as error:
        raise UnsupportedError("to_pydata needs sparse", hint="pip install sparse") from error
    name = stored.format.name
    if name in ("csr", "csc"):
        held = to_format(stored, name)  # a user's storage may have such a name
        pos, idx, val = rebased(held)
        axes = (1,) if name == "csc" else (0,)
        return sparse.GCXS(
            (val, idx, pos.copy()), shape=stored.shape, compressed_axes=axes,
            fill_value=stored.fill,
        )
    coo = to_coo(stored)
    coords = np.stack(coo.coords) if coo.coords else np.empty((0, coo.count), np.int64)
    made = sparse.COO(
        coords, coo.values, shape=stored.shape, has_duplicates=False, sorted=True,
        fill_value=stored.fill,
    )
    return made.asformat("dok") if name == "dok" else made
