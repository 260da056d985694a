"""Elementwise work, row sums, slices, transposition and conversion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import tensorel as tr
from suite import data
from suite.case import Peer, Problem, add, case
from suite.products import MILLION, gcxs, matrix


def _sum_of_two(kind: str, scale: float) -> Problem:
    a, b = (matrix(kind, 2 * MILLION, scale, seed=s) for s in (0, 5))
    ac, bc, ga, gb = a.tocsc(), b.tocsc(), gcxs(a), gcxs(b)
    ta, tb = tr.asarray(a), tr.asarray(b)
    return Problem(
        lambda: ta + tb,
        (
            Peer("scipy", "csr", lambda: a + b),
            Peer("scipy", "csc", lambda: ac + bc),
            Peer("sparse", "gcxs", lambda: ga + gb),
        ),
        (ta, tb),
    )


for _kind in ("banded", "power-law", "uniform"):
    add(f"add {_kind}", "A + B", partial(_sum_of_two, _kind))


def _masked_sum(kind: str, scale: float) -> Problem:
    a, b, c = (matrix(kind, 2 * MILLION, scale, seed=s) for s in (0, 5, 9))
    ga, gb, gc = (sparse.COO.from_scipy_sparse(m) for m in (a, b, c))
    ta, tb, tc = tr.asarray(a), tr.asarray(b), tr.asarray(c)
    return Problem(
        lambda: (ta + tb) * tc,
        (
            Peer("scipy", "naive", lambda: (a + b).multiply(c)),
            Peer("scipy", "distributed", lambda: a.multiply(c) + b.multiply(c)),
            Peer("sparse", "coo", lambda: (ga + gb) * gc),
        ),
        (ta, tb, tc),
    )


for _kind in ("banded", "uniform"):
    add(f"masked sum {_kind}", "(A + B) * C", partial(_masked_sum, _kind))


def _row_sums(kind: str, scale: float) -> Problem:
    a = matrix(kind, 2 * MILLION, scale)
    ones, g, ta = np.ones(a.shape[1]), gcxs(a), tr.asarray(a)
    full = bool((np.diff(a.indptr) > 0).all())
    reduceat = Peer("numpy", "reduceat", lambda: np.add.reduceat(a.data, a.indptr[:-1]))
    return Problem(
        lambda: ta.sum(axis=1),
        (
            Peer("scipy", "sum", lambda: a.sum(axis=1)),
            Peer("scipy", "A @ ones", lambda: a @ ones),
            reduceat if full else Peer("numpy", "reduceat", skip="wrong for empty rows"),
            Peer("sparse", "gcxs", lambda: g.sum(axis=1)),
        ),
        (ta,),
    )


for _kind in ("banded", "power-law"):
    add(f"row sums {_kind}", "A.sum(axis=1)", partial(_row_sums, _kind))


Pick = Callable[[int], Any]


def _slice(pick: Pick, stored: str, scale: float) -> Problem:
    """All contestants read the same layout: rows or columns compressed, as ``stored`` says."""
    a = data.uniform(int(2 * MILLION * scale)).asformat(stored)
    key = pick(a.shape[0])
    g, ta = gcxs(a), tr.asarray(a)
    return Problem(
        lambda: ta[key],
        (Peer("scipy", stored, lambda: a[key]), Peer("sparse", "gcxs", lambda: g[key])),
        (ta,),
    )


def _some(n: int, count: int) -> Any:
    return np.random.default_rng(3).permutation(n)[:count]


_ALL = slice(None)
_SLICES: tuple[tuple[str, str, str, Pick], ...] = (
    ("rows contiguous", "csr", "A[a:b]", lambda n: slice(n // 4, 3 * n // 4)),
    ("rows strided", "csr", "A[::3]", lambda n: slice(None, None, 3)),
    ("rows by list", "csr", "A[rows]", lambda n: _some(n, n // 3)),
    ("columns contiguous", "csr", "A[:, a:b]", lambda n: (_ALL, slice(n // 4, 3 * n // 4))),
    ("columns strided", "csr", "A[:, ::3]", lambda n: (_ALL, slice(None, None, 3))),
    ("columns by list", "csr", "A[:, columns]", lambda n: (_ALL, np.sort(_some(n, n // 3)))),
    ("columns, csc", "csc", "A[:, a:b]", lambda n: (_ALL, slice(n // 4, 3 * n // 4))),
    ("columns by list, csc", "csc", "A[:, columns]", lambda n: (_ALL, _some(n, n // 3))),
)
for _name, _form, _text, _pick in _SLICES:
    add(f"slice {_name}", _text, partial(_slice, _pick, _form))


def _converted(kind: str, nnz: int, scale: float) -> Problem:
    a = matrix(kind, nnz, scale)
    ta, g = tr.asarray(a), gcxs(a)
    return Problem(
        lambda: ta.to_format("csc"),
        (
            Peer("scipy", "tocsc", a.tocsc),
            Peer("sparse", "change axes", lambda: g.change_compressed_axes((1,))),
        ),
        (ta,), eager=True,
    )


for _kind, _nnz in (("banded", 2), ("uniform", 5)):
    add(f"csr to csc {_kind}", 'A.to_format("csc")', partial(_converted, _kind, _nnz * MILLION))


@case("transpose", 'A.T.to_format("csr")')
def transposed(scale: float) -> Problem:
    a = data.power_law(int(2 * MILLION * scale))
    ta = tr.asarray(a)
    return Problem(
        lambda: ta.T.to_format("csr"), (Peer("scipy", "T.tocsr", lambda: a.T.tocsr()),), (ta,),
        eager=True,
    )


@case("coo to csr", 'A.to_format("csr")')
def coo_to_csr(scale: float) -> Problem:
    a = data.uniform(int(2 * MILLION * scale)).tocoo()
    ta, g = tr.asarray(a), sparse.COO.from_scipy_sparse(a)
    return Problem(
        lambda: ta.to_format("csr"),
        (Peer("scipy", "tocsr", a.tocsr), Peer("sparse", "gcxs", lambda: g.asformat("gcxs"))),
        (ta,), eager=True,
    )


def _sorted_csr(values: Any, coords: Any, shape: Any) -> Any:
    made = sp.coo_array((values, coords), shape=shape).tocsr()
    made.sum_duplicates()
    return made


@case("unsorted coo to csr", 'from_coo(coords, values, shape, format="csr", duplicates="sum")')
def unsorted_coo(scale: float) -> Problem:
    a = data.uniform(int(2 * MILLION * scale)).tocoo()
    order = np.random.default_rng(1).permutation(a.nnz)
    rows, cols, values = a.row[order], a.col[order], a.data[order]
    shape = a.shape
    return Problem(
        lambda: tr.from_coo((rows, cols), values, shape, format="csr", duplicates="sum"),
        (
            Peer("scipy", "tocsr", lambda: _sorted_csr(values, (rows, cols), shape)),
            Peer(
                "sparse",
                "gcxs",
                lambda: sparse.COO(np.stack([rows, cols]), values, shape).asformat("gcxs"),
            ),
        ),
        (rows, cols, values),
        eager=True,
    )
