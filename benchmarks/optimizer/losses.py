"""Products with a sparse matrix under a function: quotient, log-likelihood, squared losses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from optimizer import data, native
from optimizer.peers import Contest, c_loop, torch_peer
from suite.case import Peer, add

RANK = 50
BLOCK = 4096


def _factors(a: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.random((a.shape[0], RANK)) + 0.1, rng.random((a.shape[1], RANK)) + 0.1


def _sampled(a: Any, rows: Any, u: Any, v: Any) -> Any:
    """(U @ V.T) at A's entries, in blocks that stay in cache."""
    out = np.empty(a.nnz)
    for lo in range(0, a.nnz, BLOCK):
        part = slice(lo, lo + BLOCK)
        out[part] = np.einsum("pr,pr->p", u[rows[part]], v[a.indices[part]])
    return out


def _rows(a: Any) -> Any:
    return np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))


def _naive(cells: int) -> str:
    return f"a dense array of {cells * 8 / 1e9:.0f} GB" if cells > 5e7 else ""


def _quotient(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    w, v = _factors(a)
    h, rows, scratch = np.ascontiguousarray(v.T), _rows(a), np.empty((a.shape[1], RANK))
    ta, tw, th = tr.asarray(a), tr.asarray(w), tr.asarray(h)

    def by_hand() -> Any:
        return sp.csr_array((a.data / _sampled(a, rows, w, h.T.copy()), a.indices, a.indptr),
                            shape=a.shape)

    return Contest(
        lambda: ta / (tw @ th),
        (
            Peer("scipy", "by hand", by_hand),
            Peer("scipy", "naive", skip=_naive(a.shape[0] * a.shape[1]) or "0 / x is not sparse"),
            torch_peer("by hand", partial(_torch_quotient, a, w, h)),
            c_loop(lambda: native.into(a.nnz, "divide_product", a.shape[0], a.indptr, a.indices,
                                       a.data, w, h, RANK, a.shape[1], scratch, native.OUT),
                   lambda out: sp.csr_array((out, a.indices, a.indptr), shape=a.shape)),
        ),
        (ta, tw, th),
    )


def _torch_quotient(a: Any, w: Any, h: Any, t: Any) -> Any:
    """PyTorch's own SDDMM is ``sparse.sampled_addmm``."""
    pos, idx, w, h = (t.from_numpy(x) for x in (a.indptr, a.indices, w, h))
    zero = t.sparse_csr_tensor(pos, idx, t.zeros(a.nnz, dtype=t.float64), size=a.shape)
    values = t.from_numpy(a.data)

    def job() -> Any:
        made = t.sparse.sampled_addmm(zero, w, h)
        return t.sparse_csr_tensor(pos, idx, values / made.values(), size=a.shape)

    return job


def _likelihood(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    w, v = _factors(a)
    h, rows, scratch = np.ascontiguousarray(v.T), _rows(a), np.empty((a.shape[1], RANK))
    ta, tw, th = tr.asarray(a), tr.asarray(w), tr.asarray(h)
    return Contest(
        lambda: (ta * tr.log(tw @ th)).sum(),
        (
            Peer("scipy", "by hand",
                 lambda: a.data @ np.log(_sampled(a, rows, w, h.T.copy()))),
            c_loop(lambda: native.scalar("sum_log", a.shape[0], a.indptr, a.indices, a.data, w, h,
                                         RANK, a.shape[1], scratch)),
        ),
        (ta, tw, th),
    )


def _weighted(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    weight = sp.csr_array((np.random.default_rng(4).random(a.nnz) + 0.5, a.indices, a.indptr),
                          shape=a.shape)
    u, v = _factors(a)
    rows = _rows(a)
    ta, tq, tu, tv = tr.asarray(a), tr.asarray(weight), tr.asarray(u), tr.asarray(v)
    return Contest(
        lambda: (tq * (ta - tu @ tv.T) ** 2).sum(),
        (
            Peer("scipy", "by hand",
                 lambda: weight.data @ (a.data - _sampled(a, rows, u, v)) ** 2),
            c_loop(lambda: native.scalar("weighted_loss", a.shape[0], a.indptr, a.indices,
                                         weight.data, a.data, u, v, RANK)),
        ),
        (ta, tq, tu, tv),
    )


def _squared(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    u, v = _factors(a)
    ta, tu, tv = tr.asarray(a), tr.asarray(u), tr.asarray(v)
    gu, gv = np.empty((RANK, RANK)), np.empty((RANK, RANK))

    def by_hand() -> Any:
        crossed = ((a @ v) * u).sum()
        return a.data @ a.data - 2 * crossed + ((u.T @ u) * (v.T @ v)).sum()

    return Contest(
        lambda: ((ta - tu @ tv.T) ** 2).sum(),
        (
            Peer("scipy", "by hand", by_hand),
            Peer("scipy", "naive", skip=_naive(a.shape[0] * a.shape[1])
                 or "measured at full size only, where it does not fit"),
            c_loop(lambda: native.scalar("squared_loss", *a.shape, a.indptr, a.indices, a.data, u,
                                         v, RANK, gu, gv)),
        ),
        (ta, tu, tv),
    )


for _name in ("cant", "webbase"):
    add(f"quotient {_name}", "A / (W @ H)", partial(_quotient, _name))
    add(f"likelihood {_name}", "(A * log(W @ H)).sum()", partial(_likelihood, _name))
    add(f"weighted loss {_name}", "(Q * (A - U @ V.T)**2).sum()", partial(_weighted, _name))
    add(f"squared loss {_name}", "((A - U @ V.T)**2).sum()", partial(_squared, _name))
