"""STOREL's Table 3 over matrices: MMM, sum of MMM, BATAX, on the six matrices of Table 2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr
from optimizer import data, native
from optimizer.peers import (
    Contest,
    c_loop,
    coo,
    duck_peer,
    gram_work,
    guarded,
    matrix_of,
    torch_csr,
    torch_peer,
    vector,
    vector_of,
)
from suite.case import Job, Peer, add

COLUMNS = 250


def gcxs(a: Any) -> Any:
    """PyData/Sparse's compressed rows over the same arrays."""
    return sparse.GCXS.from_scipy_sparse(a)


def _mmm_loop(a: Any, b: Any) -> Job:
    """Rows of the result are appended to a buffer of the bound, made anew in each call."""
    work = int(np.diff(b.indptr)[a.indices].sum())
    bound = min(work, a.shape[0] * b.shape[1])
    shape = (a.shape[0], b.shape[1])
    operands = (a.indptr, a.indices, a.data, b.indptr, b.indices, b.data)

    def job() -> Any:
        pos, idx = np.empty(shape[0] + 1, np.int32), np.empty(bound, np.int32)
        val = np.empty(bound)
        top = native.counted("mmm", shape[0], *operands, pos, idx, val)()
        return sp.csr_array((val[:top], idx[:top], pos), shape=shape)

    return job


def _work(a: Any, b: Any) -> float:
    return float(np.diff(b.indptr)[a.indices].sum())


def _mmm(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    b = data.factor(a.shape[1], COLUMNS)
    ga, gb, ta, tb = gcxs(a), gcxs(b), tr.asarray(a), tr.asarray(b)
    sql = "SELECT A.i, B.j, sum(A.v * B.v) AS v FROM A JOIN B ON A.j = B.i GROUP BY A.i, B.j"
    return Contest(
        lambda: ta @ tb,
        (
            Peer("scipy", "naive", lambda: a @ b),
            guarded("sparse", "naive", lambda: ga @ gb, _work(a, b) * 8),
            torch_peer("by hand", lambda t: partial(_product, torch_csr(t, a), torch_csr(t, b))),
            duck_peer("by hand", sql, {"A": coo(a), "B": coo(b)},
                      matrix_of((a.shape[0], COLUMNS))),
            c_loop(lambda: _mmm_loop(a, b)),
        ),
        (ta, tb),
    )


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _sum_mmm(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    b = data.factor(a.shape[1], COLUMNS)
    ga, gb, ta, tb = gcxs(a), gcxs(b), tr.asarray(a), tr.asarray(b)
    left, right = np.ones(a.shape[0]), np.ones(COLUMNS)
    sql = ("WITH r AS (SELECT i, sum(v) AS v FROM B GROUP BY i) "
           "SELECT sum(A.v * r.v) FROM A JOIN r ON A.j = r.i")
    scratch = np.empty(a.shape[1])
    return Contest(
        lambda: (ta @ tb).sum(),
        (
            Peer("scipy", "by hand", lambda: (a @ (b @ right)).sum()),
            Peer("scipy", "by hand, columns", lambda: (left @ a) @ (b @ right)),
            Peer("scipy", "naive", lambda: (a @ b).sum()),
            Peer("sparse", "by hand", lambda: (ga @ (gb @ right)).sum()),
            guarded("sparse", "naive", lambda: (ga @ gb).sum(), _work(a, b) * 8),
            torch_peer("by hand", lambda t: partial(
                _torch_sum, torch_csr(t, a), torch_csr(t, b), t.ones(COLUMNS, dtype=t.float64))),
            duck_peer("by hand", sql, {"A": coo(a), "B": coo(b)}),
            c_loop(lambda: native.scalar("sum_mmm", b.shape[0], b.indptr, b.data, a.nnz,
                                         a.indices, a.data, scratch)),
        ),
        (ta, tb),
    )


def _torch_sum(a: Any, b: Any, ones: Any) -> Any:
    return (a @ (b @ ones)).sum()


BETA = 0.7


def _batax(name: str, scale: float) -> Contest:
    a = data.matrix(name, scale)
    x = np.random.default_rng(5).random(a.shape[1])
    ta, tx, turned = tr.asarray(a), tr.asarray(x), a.T
    ga, gturned = gcxs(a), gcxs(sp.csr_array(a.T))
    sql = ("WITH t AS (SELECT A.i, sum(A.v * x.v) AS v FROM A JOIN x ON A.j = x.i GROUP BY A.i) "
           f"SELECT A.j AS i, {BETA} * sum(A.v * t.v) AS v FROM A JOIN t ON A.i = t.i GROUP BY A.j")
    return Contest(
        lambda: BETA * ((ta.T @ ta) @ tx),
        (
            Peer("scipy", "by hand", lambda: BETA * (turned @ (a @ x))),
            guarded("scipy", "naive", lambda: BETA * ((a.T @ a) @ x), gram_work(a)),
            Peer("sparse", "by hand", lambda: BETA * (gturned @ (ga @ x))),
            Peer("sparse", "naive", skip="A.T @ A of PyData/Sparse takes ten times SciPy's"),
            torch_peer("by hand", lambda t: partial(
                _torch_batax, torch_csr(t, a), torch_csr(t, sp.csr_array(a.T)), t.from_numpy(x))),
            duck_peer("by hand", sql, {"A": coo(a), "x": vector(x)}, vector_of(a.shape[1])),
            c_loop(lambda: native.into(a.shape[1], "batax", a.shape[0], a.indptr, a.indices, a.data,
                                       x, BETA, a.shape[1], native.OUT)),
        ),
        (ta, tx),
    )


def _torch_batax(a: Any, turned: Any, x: Any) -> Any:
    return BETA * (turned @ (a @ x))


for _name in data.MATRICES:
    add(f"mmm {_name}", "A @ B", partial(_mmm, _name))
for _name in data.MATRICES:
    add(f"sum mmm {_name}", "(A @ B).sum()", partial(_sum_mmm, _name))
for _name in data.MATRICES:
    add(f"batax {_name}", "b * ((A.T @ A) @ x)", partial(_batax, _name))
