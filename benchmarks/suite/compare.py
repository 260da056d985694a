"""Equality of results across libraries, checked before anything is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr

_TOLERANCE = 1e-9
_SMALL = 20_000_000


def canonical(result: Any) -> Any:
    """A result of any library as an ndarray, or as a CSR array where it is a sparse matrix."""
    if isinstance(result, tr.Tensor):
        if result.ndim == 2 and not result.format.startswith("dense"):
            return _csr(result.to_scipy("csr"))
        return result.to_numpy()
    if sp.issparse(result):
        return _csr(result)
    if isinstance(result, sparse.SparseArray):
        return _csr(result.to_scipy_sparse()) if result.ndim == 2 else result.todense()
    return np.asarray(result)


def _csr(matrix: Any) -> Any:
    made = sp.csr_array(matrix)
    made.sum_duplicates()
    return made


def difference(ours: Any, theirs: Any) -> str:
    """Empty where the results agree, else what differs."""
    a, b = canonical(ours), canonical(theirs)
    if a.shape != b.shape:
        return f"shape {a.shape} against {b.shape}"
    if sp.issparse(a) != sp.issparse(b):
        if int(np.prod(a.shape)) > _SMALL:
            a, b = sp.csr_array(a), sp.csr_array(b)
        else:
            a, b = (m.toarray() if sp.issparse(m) else m for m in (a, b))
    gap, size = (abs(a - b), abs(b)) if sp.issparse(a) else (np.abs(a - b), np.abs(b))
    largest, scale = (float(m.max()) if min(m.shape, default=1) else 0.0 for m in (gap, size))
    if not largest <= _TOLERANCE * max(scale, 1.0):
        return f"values differ by up to {largest:.3g} where the largest is {scale:.3g}"
    return ""
