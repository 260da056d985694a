"""Rank-3 tensors: MTTKRP and TTM, with SciPy's best forms over a prepared fibre tree."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr
from suite import data
from suite.case import Peer, Problem, add, case
from suite.data import Entries
from suite.products import MILLION


def _ratings(nnz: int, scale: float) -> Entries:
    return data.tensor3(int(nnz * scale), (3000, 250, 12000))


def _stored(x: Entries) -> Any:
    return tr.from_coo(x.coords, x.values, x.shape, format="csf")


def _gathered(x: Entries, rows: Any, b: Any, c: Any) -> Any:
    """Row i gets the sum of val * B[j] * C[k] over its entries, through one indicator matrix."""
    _, j, k = x.coords
    return rows @ (b[j] * c[k])


def _pydata(x: Entries, b: Any, c: Any) -> Peer:
    """PyData/Sparse makes all nnz x columns products: linear in nnz, in time and memory."""
    if x.values.size > 2 * MILLION:
        tenth = "2.8 s and 1.3 GB measured at 0.31M nonzeros, so about 28 s and 11 GB here"
        return Peer("sparse", "einsum", skip=tenth)
    s = sparse.COO(np.stack(x.coords), x.values, x.shape, sorted=True, has_duplicates=False)
    return Peer("sparse", "einsum", lambda: sparse.einsum("ijk,jr,kr->ir", s, b, c))


def _mttkrp(nnz: int, columns: int, scale: float) -> Problem:
    x = _ratings(nnz, scale)
    b, c = data.dense(x.shape[1], columns, seed=1), data.dense(x.shape[2], columns, seed=2)
    leaf, root, middle = x.fibres()
    pointers = np.searchsorted(x.coords[0], np.arange(x.shape[0] + 1)).astype(np.int32)
    numbers = np.arange(x.values.size, dtype=np.int32)
    rows = sp.csr_array((x.values, numbers, pointers), shape=(x.shape[0], x.values.size))
    tx, tb, tc = _stored(x), tr.asarray(b), tr.asarray(c)
    return Problem(
        lambda: tr.einsum("ijk,jr,kr->ir", tx, tb, tc),
        (
            Peer("scipy", "fibres", lambda: root @ (b[middle] * (leaf @ c))),
            Peer("scipy", "gather", lambda: _gathered(x, rows, b, c)),
            _pydata(x, b, c),
        ),
        (tx, tb, tc),
    )


add(
    "mttkrp 3.1M",
    'einsum("ijk,jr,kr->ir", X, B, C)  (25 columns)',
    partial(_mttkrp, 31 * MILLION // 10, 25),
)
add(
    "mttkrp 1M",
    'einsum("ijk,jr,kr->ir", X, B, C)  (25 columns)',
    partial(_mttkrp, MILLION, 25),
)


@case("ttm", 'einsum("ijk,kr->ijr", X, C)  (16 columns)')
def ttm(scale: float) -> Problem:
    x = _ratings(31 * MILLION // 10, scale)
    c = data.dense(x.shape[2], 16, seed=2)
    leaf, root, middle = x.fibres()
    first = np.repeat(np.arange(x.shape[0]), np.diff(root.indptr))
    tx, tc = _stored(x), tr.asarray(c)
    s = sparse.COO(np.stack(x.coords), x.values, x.shape, sorted=True, has_duplicates=False)

    def spread(rows: Any) -> Any:
        whole = np.zeros((*x.shape[:2], c.shape[1]))
        whole[first, middle] = rows
        return whole

    return Problem(
        lambda: tr.einsum("ijk,kr->ijr", tx, tc),
        (
            Peer("scipy", "fibres", lambda: leaf @ c, read=spread),
            Peer("sparse", "tensordot", lambda: sparse.tensordot(s, c, axes=([2], [0]))),
        ),
        (tx, tc),
    )


@case("tensor times vector", 'einsum("ijk,k->ij", X, x)')
def ttv(scale: float) -> Problem:
    x = _ratings(31 * MILLION // 10, scale)
    v = data.dense(x.shape[2], seed=2)
    leaf, root, middle = x.fibres()
    tx, tv = _stored(x), tr.asarray(v)
    shape = x.shape[:2]
    return Problem(
        lambda: tr.einsum("ijk,k->ij", tx, tv),
        (
            Peer(
                "scipy",
                "fibres",
                lambda: sp.csr_array((leaf @ v, middle, root.indptr), shape=shape),
            ),
        ),
        (tx, tv),
    )
