"""Products of matrices: SpMV, SpMM, sparse @ sparse, sum of a product, SDDMM, dense chains."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr
from suite import data
from suite.case import Peer, Problem, add, case

MILLION = 1_000_000


def gcxs(a: Any) -> Any:
    """PyData/Sparse's compressed rows over the same arrays."""
    return sparse.GCXS.from_scipy_sparse(a)


def matrix(kind: str, nnz: int, scale: float, **more: Any) -> Any:
    make = {"banded": data.banded, "power-law": data.power_law, "uniform": data.uniform}[kind]
    return make(int(nnz * scale), **more)


def _spmv(kind: str, nnz: int, scale: float) -> Problem:
    a = matrix(kind, nnz, scale)
    x = data.dense(a.shape[1])
    c, g, ta, tx = a.tocsc(), gcxs(a), tr.asarray(a), tr.asarray(x)
    return Problem(
        lambda: ta @ tx,
        (
            Peer("scipy", "csr", lambda: a @ x),
            Peer("scipy", "csc", lambda: c @ x),
            Peer("sparse", "gcxs", lambda: g @ x),
        ),
        (ta, tx),
    )


def _spmm(kind: str, nnz: int, scale: float) -> Problem:
    a = matrix(kind, nnz, scale)
    x = data.dense(a.shape[1], 32)
    c, g, ta, tx = a.tocsc(), gcxs(a), tr.asarray(a), tr.asarray(x)
    return Problem(
        lambda: ta @ tx,
        (
            Peer("scipy", "csr", lambda: a @ x),
            Peer("scipy", "csc", lambda: c @ x),
            Peer("sparse", "gcxs", lambda: g @ x),
        ),
        (ta, tx),
    )


for _kind, _nnz in (("banded", 2), ("power-law", 2), ("uniform", 5)):
    add(f"spmv {_kind}", "A @ x", partial(_spmv, _kind, _nnz * MILLION))
add("spmv uniform 0.5M", "A @ x", partial(_spmv, "uniform", MILLION // 2))
for _kind in ("banded", "power-law"):
    add(f"spmm {_kind}", "A @ X  (32 columns)", partial(_spmm, _kind, 2 * MILLION))


def _spgemm_peers(a: Any, b: Any) -> tuple[Peer, ...]:
    ac, bc, ga, gb = a.tocsc(), b.tocsc(), gcxs(a), gcxs(b)
    return (
        Peer("scipy", "csr", lambda: a @ b),
        Peer("scipy", "csc", lambda: ac @ bc),
        Peer("sparse", "gcxs", lambda: ga @ gb),
    )


def _thin(a: Any) -> Any:
    """The right operand with 250 columns, four entries in a row."""
    return data.uniform(4 * a.shape[1], seed=7, columns=250, rows=a.shape[1])


def _spgemm(kind: str, nnz: int, thin: bool, scale: float) -> Problem:
    a = matrix(kind, nnz, scale)
    b = _thin(a) if thin else a
    ta, tb = tr.asarray(a), tr.asarray(b)
    return Problem(lambda: ta @ tb, _spgemm_peers(a, b), (ta, tb) if thin else (ta,))


add("spgemm 250 columns", "A @ B", partial(_spgemm, "banded", 2 * MILLION, True))
add("spgemm power-law", "A @ A", partial(_spgemm, "power-law", MILLION // 2, False))
add("spgemm uniform", "A @ A", partial(_spgemm, "uniform", MILLION // 2, False))
add("spgemm banded", "A @ A", partial(_spgemm, "banded", MILLION // 2, False))


@case("sum of product", "(A @ B).sum()")
def sum_of_product(scale: float) -> Problem:
    a = data.banded(int(2 * MILLION * scale))
    b = _thin(a)
    ga, gb, ta, tb = gcxs(a), gcxs(b), tr.asarray(a), tr.asarray(b)
    ones, wide = np.ones(a.shape[0]), np.ones(250)
    return Problem(
        lambda: (ta @ tb).sum(),
        (
            Peer("scipy", "naive", lambda: (a @ b).sum()),
            Peer("scipy", "by hand", lambda: (ones @ a) @ (b @ wide)),
            Peer("sparse", "naive", lambda: (ga @ gb).sum()),
        ),
        (ta, tb),
    )


def _sampled(a: Any, rows: Any, u: Any, v: Any, block: int) -> Any:
    """The expert's SDDMM: dot products at the stored cells, in blocks that stay in cache."""
    out = np.empty_like(a.data)
    for lo in range(0, out.size, block):
        part = slice(lo, lo + block)
        out[part] = np.einsum("pr,pr->p", u[rows[part]], v[a.indices[part]])
    return sp.csr_array((a.data * out, a.indices, a.indptr), shape=a.shape)


def _sddmm(rank: int, scale: float) -> Problem:
    a = data.banded(int(2 * MILLION * scale))
    u, v = data.dense(a.shape[0], rank, seed=1), data.dense(a.shape[1], rank, seed=2)
    rows = np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))
    ta, tu, tv = tr.asarray(a), tr.asarray(u), tr.asarray(v)
    size = f"{8 * a.shape[0] * a.shape[1] / 1e9:.0f} GB dense intermediate"
    naive = Peer("scipy", "naive", skip=size)
    if a.shape[0] <= 8000:
        naive = Peer("scipy", "naive", lambda: a.multiply(u @ v.T).tocsr())
    return Problem(
        lambda: ta * (tu @ tv.T),
        (
            naive,
            Peer("scipy", "gather", lambda: _sampled(a, rows, u, v, a.nnz)),
            Peer("scipy", "gather in blocks", lambda: _sampled(a, rows, u, v, 16384)),
            Peer("sparse", "naive", skip=size),
        ),
        (ta, tu, tv),
    )


for _rank in (32, 128):
    add(f"sddmm rank {_rank}", "S * (U @ V.T)", partial(_sddmm, _rank))


@case("dense matmul", "A @ B  (1500 x 1500)")
def dense_matmul(scale: float) -> Problem:
    n = int(1500 * scale**0.5)
    a, b = data.dense(n, n, seed=1), data.dense(n, n, seed=2)
    ta, tb = tr.asarray(a), tr.asarray(b)
    return Problem(lambda: ta @ tb, (Peer("numpy", "", lambda: a @ b),), (ta, tb))


@case("dense chain", 'einsum("ij,jk,kl->il", A, B, C)  (C narrow)')
def dense_chain(scale: float) -> Problem:
    n = int(1500 * scale**0.5)
    a, b, c = data.dense(n, n, seed=1), data.dense(n, n, seed=2), data.dense(n, 40, seed=3)
    ta, tb, tc = tr.asarray(a), tr.asarray(b), tr.asarray(c)
    text = "ij,jk,kl->il"
    naive = f"0.86e9 products/s measured at n = 300, so about {n**3 * 40 / 0.86e9:.0f} s here"
    return Problem(
        lambda: tr.einsum(text, ta, tb, tc),
        (
            Peer("numpy", "einsum", skip=naive),
            Peer("numpy", "einsum optimize", lambda: np.einsum(text, a, b, c, optimize=True)),
            Peer("numpy", "by hand", lambda: a @ (b @ c)),
        ),
        (ta, tb, tc),
    )


@case("dense batched", 'einsum("bij,bjk,bk->bi", A, B, x)')
def dense_batched(scale: float) -> Problem:
    n, batch = 120, max(int(200 * scale), 4)
    a, b = data.dense(batch, n, n, seed=1), data.dense(batch, n, n, seed=2)
    x = data.dense(batch, n, seed=3)
    ta, tb, tx = tr.asarray(a), tr.asarray(b), tr.asarray(x)
    text = "bij,bjk,bk->bi"
    return Problem(
        lambda: tr.einsum(text, ta, tb, tx),
        (
            Peer("numpy", "einsum optimize", lambda: np.einsum(text, a, b, x, optimize=True)),
            Peer("numpy", "by hand", lambda: (a @ (b @ x[:, :, None]))[:, :, 0]),
        ),
        (ta, tb, tx),
    )
