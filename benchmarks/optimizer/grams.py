"""MatRel's ground at constant nnz and growing shape, and at constant shape and growing nnz: cost
must follow nnz, not m * n."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from optimizer import native
from optimizer.peers import Contest, c_loop, gram_work, guarded
from suite.case import Peer, add
from suite.data import uniform

NNZ = 1_000_000
#: Rows and columns, from one cell in 25 stored to one in 100,000,000.
SIDES = (5_000, 50_000, 500_000, 10_000_000)
RANK = 20
MORE = 4  # times the entries, where the growth with them is measured


def _matrix(side: int, scale: float, more: int = 1) -> Any:
    side = max(int(side * scale), 20)
    return uniform(max(int(more * NNZ * scale), 60), seed=31, rows=side, columns=side)


def _row_sum(side: int, scale: float, more: int = 1) -> Contest:
    a = _matrix(side, scale, more)
    t, ones = tr.asarray(a), np.ones(a.shape[1])
    return Contest(
        lambda: (t.T @ t).sum(axis=1),
        (
            Peer("scipy", "by hand", lambda: a.T @ (a @ ones)),
            guarded("scipy", "naive", lambda: (a.T @ a).sum(axis=1), 8 * gram_work(a)),
            c_loop(lambda: native.into(a.shape[1], "gram_row_sum", a.shape[0], a.indptr, a.indices,
                                       a.data, a.shape[1], native.OUT)),
        ),
        (t,),
    )


def _trace(side: int, scale: float, more: int = 1) -> Contest:
    a = _matrix(side, scale, more)
    t = tr.asarray(a)
    return Contest(
        lambda: tr.trace(t.T @ t),
        (
            Peer("scipy", "by hand", lambda: a.data @ a.data),
            guarded("scipy", "naive", lambda: (a.T @ a).trace(), 8 * gram_work(a)),
            c_loop(lambda: native.scalar("sum_squares", a.nnz, a.data)),
        ),
        (t,),
    )


def _cell(side: int, scale: float, more: int = 1) -> Contest:
    """From rows the two columns must be found: the expert reads all indices once; with the
    columns at hand it would be a merge of two short lists."""
    a = _matrix(side, scale, more)
    i, j = (int(x) for x in np.argsort(np.bincount(a.indices, minlength=a.shape[1]))[-2:])
    t = tr.asarray(a)

    def by_hand() -> Any:
        x, y = (a[:, [k]] for k in (i, j))
        return (x * y).sum()

    return Contest(lambda: (t.T @ t)[i, j], (Peer("scipy", "by hand", by_hand),), (t,))


def _cell_by_columns(side: int, scale: float) -> Contest:
    a = _matrix(side, scale).tocsc()
    i, j = (int(x) for x in np.argsort(np.diff(a.indptr))[-2:])
    t = tr.asarray(a)

    def by_hand() -> Any:
        x, y = (slice(a.indptr[k], a.indptr[k + 1]) for k in (i, j))
        _, p, q = np.intersect1d(a.indices[x], a.indices[y], True, True)
        return a.data[x][p] @ a.data[y][q]

    return Contest(lambda: (t.T @ t)[i, j], (Peer("scipy", "by hand", by_hand),), (t,))


def _least_squares(side: int, scale: float, more: int = 1) -> Contest:
    """One row of inv(X.T @ X) @ X.T @ Y with many right sides Y (sparse); the inverse is small
    and given, as the engine has no solver."""
    y = _matrix(side, scale, more)
    x = uniform(max(int(more * NNZ * scale), 60), seed=32, rows=y.shape[0], columns=40)
    inverse = np.linalg.inv((x.T @ x).toarray() + 0.1 * np.eye(40))
    tx, ty, tp = tr.asarray(x), tr.asarray(y), tr.asarray(inverse)
    turned, row = y.T, 3
    return Contest(
        lambda: (tp @ (tx.T @ ty))[row],
        (
            Peer("scipy", "by hand", lambda: turned @ (x @ inverse[row])),
            guarded("scipy", "naive", lambda: (inverse @ (x.T @ y))[row], 60.0 * y.shape[1]),
        ),
        (tx, ty, tp),
    )


def _pnmf(side: int, scale: float, more: int = 1) -> Contest:
    """One step for H: H * (W.T @ (A / (W @ H))) / (W.T @ E), E all ones of A's shape."""
    a = _matrix(side, scale, more)
    rng = np.random.default_rng(33)
    w, h = rng.random((a.shape[0], RANK)) + 0.1, rng.random((RANK, a.shape[1])) + 0.1
    ta, tw, th = tr.asarray(a), tr.asarray(w), tr.asarray(h)
    rows = np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))

    def by_hand() -> Any:
        turned = h.T.copy()
        cells = np.empty(a.nnz)
        for lo in range(0, a.nnz, 4096):
            part = slice(lo, lo + 4096)
            cells[part] = np.einsum("pr,pr->p", w[rows[part]], turned[a.indices[part]])
        quotient = sp.csr_array((a.data / cells, a.indices, a.indptr), shape=a.shape)
        return h * (quotient.T @ w).T / w.sum(axis=0)[:, None]

    return Contest(
        lambda: th * (tw.T @ (ta / (tw @ th))) / (tw.T @ tr.ones(ta.shape)),
        (Peer("scipy", "by hand", by_hand),),
        (ta, tw, th),
    )


def _label(side: int) -> str:
    return f"{side // 1_000_000}M" if side >= 1_000_000 else f"{side // 1000}k"


for _side in SIDES:
    add(f"gram row sum {_label(_side)}", "(A.T @ A).sum(axis=1)", partial(_row_sum, _side))
for _side in SIDES:
    add(f"gram trace {_label(_side)}", "trace(A.T @ A)", partial(_trace, _side))
for _side in SIDES:
    add(f"gram cell {_label(_side)}", "(A.T @ A)[i, j]", partial(_cell, _side))
add("gram cell 500k, by columns", "(A.T @ A)[i, j]", partial(_cell_by_columns, 500_000))
for _side in SIDES:
    add(f"least squares row {_label(_side)}", "(P @ (X.T @ Y))[i]",
        partial(_least_squares, _side))
for _side in SIDES[:3]:
    add(f"pnmf step {_label(_side)}", "H * (W.T @ (A / (W @ H))) / (W.T @ E)",
        partial(_pnmf, _side))
for _name, _text, _case in (
    ("gram row sum", "(A.T @ A).sum(axis=1)", _row_sum),
    ("gram trace", "trace(A.T @ A)", _trace),
    ("gram cell", "(A.T @ A)[i, j]", _cell),
    ("least squares row", "(P @ (X.T @ Y))[i]", _least_squares),
    ("pnmf step", "H * (W.T @ (A / (W @ H))) / (W.T @ E)", _pnmf),
):
    add(f"{_name} 500k, {MORE}x entries", _text, partial(_case, 500_000, more=MORE))
