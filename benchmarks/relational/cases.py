"""The experiments: what is written with relational operators, the same by hand in our own terms,
and in SciPy, pandas, polars and DuckDB.

Every rival is a function that computes; results are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

import tensorel as tr
from tensorel.front.array.base import wrap
from tensorel.kernels.native import matcher


@dataclass
class Case:
    """``ours``: builds the lazy result as it is written; ``hand``: as an expert would write it in
    our own terms (None: the same); ``rivals``: by name, functions that compute; ``operands``: the
    data by name, for systems in other processes."""

    name: str
    ours: Callable[[], Any]
    hand: Callable[[], Any] | None = None
    rivals: dict[str, Callable[[], Any]] = field(default_factory=dict)
    operands: dict[str, Any] = field(default_factory=dict)


def product(x: Any, y: Any) -> Any:
    return x * y


class Data:
    """A pair of sparse matrices of n rows with ``nnz`` entries, and what rivals need of them."""

    def __init__(self, n: int, nnz: int, seed: int = 0, values: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.nnz = n, nnz
        self.tensors, self.coo = [], []
        for _ in range(2):
            at = rng.integers(0, n, (2, nnz))
            flat = np.unique(at[0] * n + at[1])
            at = np.stack([flat // n, flat % n])
            val = rng.integers(1, values, flat.size).astype(float) if values \
                else rng.random(flat.size) + 0.5
            self.coo.append((at, val))
            self.tensors.append(tr.from_coo(at, val, (n, n), format="csr"))
        self.A, self.B = self.tensors
        self.dense = rng.random((n, 8))
        self.y = rng.random(n)

    @cached_property
    def scipy(self) -> list[Any]:
        return [sp.csr_array(sp.coo_array((v, (at[0], at[1])), (self.n, self.n)))
                for at, v in self.coo]

    @cached_property
    def pandas(self) -> list[Any]:
        import pandas as pd

        return [pd.DataFrame({"r": at[0], "c": at[1], "v": v}) for at, v in self.coo]

    @cached_property
    def polars(self) -> list[Any]:
        import polars as pl

        return [pl.DataFrame({"r": at[0], "c": at[1], "v": v}) for at, v in self.coo]

    @cached_property
    def duckdb(self) -> Any:
        import duckdb

        made = duckdb.connect()
        made.execute("set threads = 2")
        for name, table in zip("AB", self.pandas):
            made.register("given", table)
            made.execute(f"create table {name} as select * from given")
        return made

    def sql(self, text: str) -> Callable[[], Any]:
        """The rows as Arrow, made and counted."""
        return lambda: self.duckdb.sql(text).arrow().read_all()


def gram(d: Data) -> list[Case]:
    """Aggregates and selections of a Gram matrix, which is never made."""
    X, (x, _) = d.A, d.scipy
    xt = x.T
    one = np.ones(d.n)
    return _with({"X": x}, [
        Case("row sums of X'X", lambda: (X.T @ X).aggregate("sum", "row"),
             lambda: X.T @ X.sum(axis=1),
             {"scipy by hand": lambda: xt @ (x @ one),
              "scipy as written": lambda: (xt @ x).sum(axis=1)}),
        Case("trace of X'X", lambda: (X.T @ X).aggregate("sum", "diag"), lambda: (X * X).sum(),
             {"scipy by hand": lambda: x.multiply(x).sum(),
              "scipy as written": lambda: (xt @ x).trace()}),
        Case("one entry of X'X", lambda: (X.T @ X).select("rid = 1 and cid = 1"),
             lambda: X[:, 1] @ X[:, 1],
             {"scipy by hand": lambda: (x[:, [1]].T @ x[:, [1]]).sum()}),
        Case("one row of X X X", lambda: (X @ X @ X).select("rid = 1"),
             lambda: (X[1] @ X) @ X,
             {"scipy by hand": lambda: ((x[[1]] @ x) @ x).toarray()[0],
              "scipy as written": lambda: (x @ x @ x)[[1]].toarray()[0]}),
        Case("ten rows of X X", lambda: (X @ X).select("rid between 5 and 14"), None,
             {"scipy by hand": lambda: _placed(x[5:15] @ x, 5, d.n)}),
    ])


def _with(operands: dict[str, Any], cases: list[Case]) -> list[Case]:
    for case in cases:
        case.operands = operands
    return cases


def _placed(rows: Any, start: int, n: int) -> Any:
    found = sp.coo_array(rows)
    return sp.csr_array(sp.coo_array(
        (found.data, (found.coords[0] + start, found.coords[1])), (n, n)))


def overlays(d: Data) -> list[Case]:
    """Joins on two dimensions."""
    A, B = d.tensors
    a, b = d.scipy
    on = "rid = rid and cid = cid"
    pa, pb = d.pandas
    return _with({"A": a, "B": b}, [
        Case("direct overlay, x*y", lambda: A.join(B, on, product), lambda: A * B,
             {"scipy": lambda: a.multiply(b).tocsr(),
              "pandas": lambda: pa.merge(pb, on=["r", "c"]).eval("v_x * v_y"),
              "duckdb": d.sql("select A.r, A.c, A.v * B.v as v from A join B "
                              "on A.r = B.r and A.c = B.c")}),
        Case("transpose overlay, x*y", lambda: A.join(B, "rid = cid and cid = rid", product),
             lambda: A * B.T,
             {"scipy": lambda: a.multiply(b.T.tocsr()).tocsr(),
              "duckdb": d.sql("select A.r, A.c, A.v * B.v as v from A join B "
                              "on A.r = B.c and A.c = B.r")}),
        Case("outer overlay, x+y", lambda: A.join(B, on, lambda x, y: x + y, how="outer"),
             lambda: A + B,
             {"scipy": lambda: a + b,
              "duckdb": d.sql("select coalesce(A.r, B.r) as r, coalesce(A.c, B.c) as c, "
                              "coalesce(A.v, 0) + coalesce(B.v, 0) as v "
                              "from A full join B on A.r = B.r and A.c = B.c")}),
        Case("left overlay, maximum", lambda: A.join(B, on, np.maximum, how="left"), None,
             {"scipy": lambda: sp.csr_array(a.maximum(b.multiply(a != 0))),
              "duckdb": d.sql("select A.r, A.c, greatest(A.v, coalesce(B.v, 0)) as v "
                              "from A left join B on A.r = B.r and A.c = B.c")}),
    ])


def joins(d: Data) -> list[Case]:
    """Joins on one dimension and on values."""
    import polars as pl

    A, B = d.tensors
    pa, pb = d.pandas
    la, lb = d.polars

    def rows(on: str, columns: str) -> str:
        return f"select {columns}, A.v * B.v as v from A join B on {on}"

    def merged(left: str, right: str) -> Callable[[], Any]:
        def run() -> Any:
            found = pa.merge(pb, left_on=left, right_on=right, suffixes=("", "_b"))
            found["v"] = found["v"] * found["v_b" if "v_b" in found else "v"]
            return found
        return run

    def polars(left: str, right: str) -> Callable[[], Any]:
        return lambda: la.join(lb, left_on=left, right_on=right, suffix="_b").with_columns(
            w=pl.col("v") * (pl.col("v_b") if left != "v" else pl.col("v")))

    return [
        Case("rid = rid, x*y", lambda: A.join(B, "rid = rid", product), None,
             {"duckdb": d.sql(rows("A.r = B.r", "A.r, A.c, B.c as d")),
              "polars": polars("r", "r"), "pandas": merged("r", "r")}),
        Case("cid = rid, x*y", lambda: A.join(B, "cid = rid", product), None,
             {"duckdb": d.sql(rows("A.c = B.r", "A.r, A.c, B.c as d")),
              "polars": polars("c", "r"), "pandas": merged("c", "r")}),
        Case("val = val, x*y", lambda: A.join(B, "val = val", product), None,
             {"duckdb": d.sql(rows("A.v = B.v", "A.r, A.c, B.r as s, B.c as d")),
              "polars": polars("v", "v"), "pandas": merged("v", "v")}),
        Case("rid = val, x*y", lambda: A.join(B, "rid = val", product), None,
             {"duckdb": d.sql(rows("A.r = B.v", "A.r, A.c, B.r as s, B.c as d"))}),
        Case("sum over rid = rid", lambda: A.join(B, "rid = rid", product).aggregate("sum", "all"),
             lambda: A.sum(axis=1) @ B.sum(axis=1),
             {"duckdb": d.sql("select sum(A.v * B.v) as v from A join B on A.r = B.r")}),
        Case("rid between rid - 1 and rid + 1",
             lambda: A.join(B, "rid between rid - 1 and rid + 1", product), None,
             {"duckdb": d.sql("select A.r, A.c, B.r as s, B.c as d, A.v * B.v as v from A join B "
                              "on A.r between B.r - 1 and B.r + 1")}),
        Case("sum over val = val", lambda: A.join(B, "val = val", product).aggregate("sum"), None,
             {"duckdb": d.sql("select sum(A.v * B.v) as v from A join B on A.v = B.v"),
              "duckdb by hand": d.sql(
                  "select sum(s * t) as v from (select v, sum(v) as s from A group by v) A join "
                  "(select v, sum(v) as t from B group by v) B on A.v = B.v")}),
        Case("rows of val = val", lambda: A.join(B, "val = val", product).sum(axis=(1, 2, 3)), None,
             {"duckdb by hand": d.sql(
                 "select r, sum(A.v * t) as v from A join (select v, sum(v) as t from B group by v)"
                 " B on A.v = B.v group by r")}),
        Case("sum over rid between rid - 1 and rid + 1",
             lambda: A.join(B, "rid between rid - 1 and rid + 1", product).sum(),
             lambda: (A.sum(axis=1) * tr.windows(tr.pad(B.sum(axis=1), 1), 3).sum(axis=1)).sum(),
             {"duckdb": d.sql("select sum(A.v * B.v) as v from A join B "
                              "on A.r between B.r - 1 and B.r + 1")}),
        Case("group by rid % 100", lambda: A.group_by("rid % 100").agg("sum"), None,
             {"duckdb": d.sql("select r % 100 as k, sum(v) as s from A group by k"),
              "pandas": lambda: pa.groupby(pa.r % 100).v.sum(),
              "polars": lambda: la.group_by(la["r"] % 100).agg(pl.col("v").sum())}),
        Case("group by cid", lambda: A.group_by("cid").agg("sum"), None,
             {"duckdb": d.sql("select c, sum(v) as s from A group by c"),
              "pandas": lambda: pa.groupby("c").v.sum()}),
    ]


def without_filter(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same with no Bloom filter before the table."""
    def other() -> Any:
        usual, matcher._FILTERED_SHARE = matcher._FILTERED_SHARE, -1.0
        try:
            return run()
        finally:
            matcher._FILTERED_SHARE = usual
    return other


def filtered(n: int) -> list[Case]:
    """Joins on values of which one in twenty has a partner, with and without the filter."""
    rng = np.random.default_rng(6)
    own = rng.permutation(10 * n)[:n].astype(float) + 1
    other = np.where(rng.random(4 * n) < 0.05, rng.choice(own, 4 * n), -rng.random(4 * n))
    A = tr.from_coo(rng.integers(0, 2**40, (1, 4 * n)), other, (2**40,), duplicates="last")
    B = tr.from_coo(rng.integers(0, 2**40, (1, n)), own, (2**40,), duplicates="last")
    import duckdb

    made = duckdb.connect()
    made.execute("set threads = 2")
    for name, t in (("A", A), ("B", B)):
        at, val = t.to_coo()
        made.register("given", _frame({"i": at[0], "v": val}))
        made.execute(f"create table {name} as select * from given")

    def run() -> Any:
        return A.join(B, "val = val", product)

    return [Case("val = val, one in twenty", run, None, {
        "without the filter": without_filter(lambda: run().compute()),
        "duckdb": lambda: made.sql("select A.i, B.i as j, A.v * B.v as v from A join B "
                                   "on A.v = B.v").arrow().read_all()})]


def _frame(table: dict[str, Any]) -> Any:
    import pandas as pd

    return pd.DataFrame(table)


def kronecker(n: int, nnz: int) -> list[Case]:
    """Kronecker products of sparse and dense matrices, made and not made."""
    d = Data(n, nnz, seed=3)
    (S, T), (s, t) = d.tensors, d.scipy
    rng = np.random.default_rng(4)
    e, f = rng.random((60, 50)), rng.random((40, 70))
    E, F = tr.asarray(e), tr.asarray(f)
    x, y = rng.random(n * n), rng.random(50 * 70)
    X, Y = tr.asarray(x), tr.asarray(y)
    return [
        Case("kron(sparse, sparse)", lambda: tr.kron(S, T), None,
             {"scipy": lambda: sp.kron(s, t, format="coo")}),
        Case("kron(dense, dense)", lambda: tr.kron(E, F), None, {"numpy": lambda: np.kron(e, f)}),
        Case("kron(sparse, sparse) @ x", lambda: tr.kron(S, T) @ X,
             lambda: (S @ X.reshape((n, n)) @ T.T).reshape((n * n,)),
             {"scipy by hand": lambda: (s @ (t @ x.reshape(n, n).T).T).reshape(-1)}),
        Case("kron(dense, dense) @ x", lambda: tr.kron(E, F) @ Y,
             lambda: (E @ Y.reshape((50, 70)) @ F.T).reshape((2400,)),
             {"numpy by hand": lambda: (e @ y.reshape(50, 70) @ f.T).reshape(-1),
              "numpy as written": lambda: np.kron(e, f) @ y}),
        Case("sum of kron", lambda: tr.kron(S, T).sum(), lambda: S.sum() * T.sum(),
             {"scipy by hand": lambda: s.sum() * t.sum()}),
        Case("trace of kron", lambda: tr.trace(tr.kron(S, T)), lambda: tr.trace(S) * tr.trace(T),
             {"scipy by hand": lambda: s.trace() * t.trace()}),
    ]


def pnmf(d: Data, rank: int = 8) -> list[Case]:
    """One iteration and the objective of Poisson factorization: W H is never made."""
    A, (a, _) = d.A, d.scipy
    rng = np.random.default_rng(5)
    w, h = rng.random((d.n, rank)) + 0.1, rng.random((rank, d.n)) + 0.1
    W, H = tr.asarray(w), tr.asarray(h)
    co = a.tocoo()
    r, c = co.coords

    def sampled() -> Any:
        return np.einsum("ij,ij->i", w[r], h.T[c])

    def update() -> Any:
        quotient = sp.csr_array((co.data / sampled(), (r, c)), a.shape)
        return w * (quotient @ h.T) / h.sum(axis=1)

    def objective() -> Any:
        return w.sum(axis=0) @ h.sum(axis=1) - (co.data * np.log(sampled())).sum()

    return _with({"A": a, "W": w, "H": h}, [
        Case("PNMF, update of W", lambda: W * ((A / (W @ H)) @ H.T) / H.sum(axis=1), None,
             {"scipy by hand": update}),
        Case("PNMF, objective", lambda: (W @ H).sum() - (A * tr.log(W @ H)).sum(), None,
             {"scipy by hand": objective}),
    ])


def regression(d: Data) -> list[Case]:
    """A row of X' y through products, and the normal equations of few features."""
    X, y, x = tr.asarray(d.dense), tr.asarray(d.y), d.dense
    return _with({"X": x, "y": d.y}, [
        Case("X'X and X'y", lambda: (X.T @ X) @ (X.T @ y), None,
             {"numpy": lambda: (x.T @ x) @ (x.T @ d.y)}),
    ])


def again(t: Any) -> Any:
    """The same program, not computed yet."""
    return wrap(t.node)
