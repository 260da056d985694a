"""STOREL's Table 3 over rank-3 tensors: TTM and MTTKRP, sparse and dense factors, on Table 2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr
from optimizer import data, native
from optimizer.peers import Contest, c_loop, coo, duck_peer, guarded, torch_csr, torch_peer
from suite.case import Job, Peer, add
from suite.data import Entries, dense

RANK = 25


def _stored(x: Entries) -> Any:
    return tr.from_coo(x.coords, x.values, x.shape, format="csf")


def _relation(x: Entries) -> dict[str, Any]:
    i, k, l = x.coords  # noqa: E741
    return {"i": i, "k": k, "l": l, "v": x.values}


def _pydata(x: Entries) -> Any:
    return sparse.COO(np.stack(x.coords), x.values, x.shape, sorted=True, has_duplicates=False)


def _spread(x: Entries, root: Any, middle: Any) -> Any:
    """From the rows of all fibres to a matrix over (i, k) pairs that compares with ours."""
    first = np.repeat(np.arange(x.shape[0]), np.diff(root.indptr))

    def read(rows: Any) -> Any:
        got = sp.coo_array(rows)
        f, r = got.coords
        coords = np.stack([first[f], middle[f], r])
        return _dense_or_flat(coords, got.data, (*x.shape[:2], RANK))

    return read


def _dense_or_flat(coords: Any, values: Any, shape: tuple[int, int, int]) -> Any:
    """A large rank-3 result as a sparse matrix with its first two axes joined."""
    rows = coords[0].astype(np.int64) * shape[1] + coords[1]
    return sp.csr_array((values, (rows, coords[2])), shape=(shape[0] * shape[1], shape[2]))


def flat(result: Any) -> Any:
    """Our rank-3 result in the same form."""
    coords, values = result.to_coo()
    return _dense_or_flat(np.asarray(coords), np.asarray(values), result.shape)


def flat_coo(result: Any) -> Any:
    return _dense_or_flat(result.coords, result.data, result.shape)


def _ttm_loop(leaf: Any, by_row: Any) -> Job:
    work = int(np.diff(by_row.indptr)[leaf.indices].sum())
    bound = min(work, leaf.shape[0] * RANK)
    operands = (leaf.indptr, leaf.indices, leaf.data, by_row.indptr, by_row.indices, by_row.data)

    def job() -> Any:
        pos, idx = np.empty(leaf.shape[0] + 1, np.int32), np.empty(bound, np.int32)
        val = np.empty(bound)
        top = native.counted("ttm", leaf.shape[0], *operands, pos, idx, val)()
        return sp.csr_array((val[:top], idx[:top], pos), shape=(leaf.shape[0], RANK))

    return job


def _ttm(name: str, layout: str, scale: float) -> Contest:
    x = data.tensor(name, scale)
    by_row = data.factor(x.shape[2], RANK)
    b = by_row.T.tocsr() if layout == "csr" else by_row.T
    tx, tb = _stored(x), tr.asarray(b)
    leaf, root, middle = x.fibres()
    s, sb = _pydata(x), sparse.COO.from_scipy_sparse(b)
    read = _spread(x, root, middle)
    sql = ("SELECT A.i, A.k, B.j AS r, sum(A.v * B.v) AS v FROM A JOIN B ON A.l = B.i "
           "GROUP BY A.i, A.k, B.j")
    shape = (*x.shape[:2], RANK)
    return Contest(
        lambda: tr.einsum("ijl,kl->ijk", tx, tb),
        (
            Peer("scipy", "fibres", lambda: leaf @ by_row, read=read),
            torch_peer("fibres", lambda t: partial(
                _product, torch_csr(t, leaf), torch_csr(t, by_row)), read=read),
            guarded("sparse", "naive", lambda: sparse.tensordot(s, sb, axes=([2], [1])),
                    x.values.size * 150.0, flat_coo),
            duck_peer("by hand", sql, {"A": _relation(x), "B": coo(by_row)},
                      lambda c: _dense_or_flat(np.stack([c["i"], c["k"], c["r"]]), c["v"], shape)),
            c_loop(lambda: _ttm_loop(leaf, by_row), read),
        ),
        (tx, tb),
        read=flat,
    )


def _tree(x: Entries) -> tuple[Any, ...]:
    leaf, root, middle = x.fibres()
    return x.shape[0], root.indptr, np.ascontiguousarray(middle), leaf.indptr, leaf.indices, \
        leaf.data


def _mttkrp_sparse(name: str, layout: str, scale: float) -> Contest:
    x = data.tensor(name, scale)
    b, c = data.factor(x.shape[1], RANK, 8), data.factor(x.shape[2], RANK, 9)
    tx, tb, tc = _stored(x), tr.asarray(b), tr.asarray(c if layout == "csr" else c.tocsc())
    leaf, root, middle = x.fibres()
    shape = (x.shape[0], RANK)
    sql = ("WITH f AS (SELECT A.i, A.k, C.j AS r, sum(A.v * C.v) AS v FROM A JOIN C ON A.l = C.i "
           "GROUP BY A.i, A.k, C.j) SELECT f.i, f.r AS j, sum(f.v * B.v) AS v FROM f JOIN B "
           "ON f.k = B.i AND f.r = B.j GROUP BY f.i, f.r")
    tables = {"A": _relation(x), "B": coo(b), "C": coo(c)}
    parts = (b.indptr, b.indices, b.data, c.indptr, c.indices, c.data)
    return Contest(
        lambda: tr.einsum("ikl,kj,lj->ij", tx, tb, tc),
        (
            Peer("scipy", "fibres", lambda: root @ ((leaf @ c) * b[middle])),
            Peer("torch", "fibres", skip="no product of two sparse matrices by entries"),
            Peer("sparse", "naive", skip="makes all nnz x 25 products: over 20 s"),
            duck_peer("by hand", sql, tables, lambda t: sp.csr_array(
                (t["v"], (t["i"], t["j"])), shape=shape)),
            c_loop(lambda: native.into(shape, "mttkrp_sparse", *_tree(x), *parts, RANK,
                                       native.OUT)),
        ),
        (tx, tb, tc),
    )


def _mttkrp_dense(name: str, scale: float) -> Contest:
    x = data.tensor(name, scale)
    b, c = dense(x.shape[1], RANK, seed=1), dense(x.shape[2], RANK, seed=2)
    tx, tb, tc = _stored(x), tr.asarray(b), tr.asarray(c)
    leaf, root, middle = x.fibres()
    shape = (x.shape[0], RANK)
    return Contest(
        lambda: tr.einsum("ikl,kj,lj->ij", tx, tb, tc),
        (
            Peer("scipy", "fibres", lambda: root @ (b[middle] * (leaf @ c))),
            torch_peer("fibres", partial(_torch_mttkrp, root, leaf, middle, b, c)),
            Peer("sparse", "naive", skip="makes all nnz x 25 products: over 20 s"),
            Peer("duckdb", "by hand", skip="dense factors as relations: over 10 s"),
            c_loop(lambda: native.into(shape, "mttkrp_dense", *_tree(x), b, c, RANK, native.OUT)),
        ),
        (tx, tb, tc),
    )


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _torch_mttkrp(root: Any, leaf: Any, middle: Any, b: Any, c: Any, t: Any) -> Job:
    top, low = torch_csr(t, root), torch_csr(t, leaf)
    tb, tc, at = t.from_numpy(b), t.from_numpy(c), t.from_numpy(middle.astype(np.int64))
    return lambda: top @ (tb[at] * (low @ tc))


for _name in data.TENSORS:
    add(f"ttm {_name}", 'einsum("ijl,kl->ijk", A, B)', partial(_ttm, _name, "csc"))
add("ttm enron, B by rows", 'einsum("ijl,kl->ijk", A, B)', partial(_ttm, "enron", "csr"))
for _name in data.TENSORS:
    add(f"mttkrp {_name}, sparse", 'einsum("ikl,kj,lj->ij", A, B, C)',
        partial(_mttkrp_sparse, _name, "csr"))
add("mttkrp enron, C by columns", 'einsum("ikl,kj,lj->ij", A, B, C)',
    partial(_mttkrp_sparse, "enron", "csc"))
for _name in data.TENSORS:
    add(f"mttkrp {_name}, dense", 'einsum("ikl,kj,lj->ij", A, B, C)',
        partial(_mttkrp_dense, _name))
