"""SQL beside DuckDB on the same cores: ``python benchmarks/sql/run.py --rows 1000000 10000000``.

Both engines hold the tables in memory in forms of their own before the clock runs (DuckDB in
tables, ours as results of ``SELECT *``), and give columns, no Python rows. Runs alternate; the
best of ``--repeats`` counts for each. The rows of both are compared."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorel as tr

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tests/sql")]

from sql_compare import difference  # noqa: E402

from tables import QUERIES, tables  # noqa: E402

PRODUCT = ("SELECT A.i0, B.i1, SUM(A.val * B.val) AS val FROM A JOIN B ON A.i1 = B.i0 "
           "GROUP BY A.i0, B.i1")
TRIANGLES = ("SELECT COUNT(*) FROM A a, A b, A c "
             "WHERE a.i1 = b.i0 AND b.i1 = c.i0 AND c.i1 = a.i0")
#: Matrix products: rows and columns, share of entries, whether values have both signs.
PRODUCTS = [(500, 1.0, False), (1000, 0.1, False), (1000, 0.1, True), (2000, 0.05, True),
            (4000, 0.02, True), (20_000, 0.0005, True)]
MOST_COMPARED = 20_000  # rows


def best(first: Callable[[], Any], second: Callable[[], Any], repeats: int
         ) -> tuple[float, float, Any, Any]:
    """The least seconds of both, run in turns, and their results."""
    times: tuple[list[float], list[float]] = ([], [])
    results: list[Any] = [None, None]
    for _ in range(repeats):
        for k, run in enumerate((first, second)):
            start = time.perf_counter()
            results[k] = run()
            times[k].append(time.perf_counter() - start)
    return min(times[0]), min(times[1]), results[0], results[1]


def connection(threads: int) -> Any:
    found = __import__("duckdb").connect()
    found.execute(f"SET threads = {threads}")
    return found


def load(con: Any, name: str, table: Any) -> None:
    con.register("given", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
    con.unregister("given")


def matrices(con: Any, size: int, share: float, signed: bool) -> dict[str, Any]:
    """Two matrices, in both engines."""
    sp: Any = __import__("scipy.sparse").sparse
    pa: Any = __import__("pyarrow")
    rng = np.random.default_rng(size)
    made = {}
    for name in ("A", "B"):
        m = sp.random_array((size, size), density=share, format="csr", rng=rng)
        if signed:
            m.data -= 0.5
        coo = m.tocoo()
        load(con, name, pa.table({"i0": coo.row.astype(np.int64), "i1": coo.col.astype(np.int64),
                                  "val": coo.data}))
        made[name] = tr.asarray(m.toarray() if share == 1.0 else m)
    return made


def products(threads: int, repeats: int) -> list[str]:
    lines = ["| matrices | entries each | rows of the result | DuckDB ms | tensorel ms | times |",
             "| --- | --- | --- | --- | --- | --- |"]
    con = connection(threads)
    for size, share, signed in PRODUCTS:
        given = matrices(con, size, share, signed)
        theirs, ours, a, b = best(lambda: con.execute(PRODUCT).fetchnumpy(),
                                  lambda g=given: tr.sql(PRODUCT, **g).held(), repeats)
        assert len(a["i0"]) == len(b["i0"].values)
        assert np.isclose(a["val"].sum(), b["val"].values.sum())
        signs = "both signs" if signed else "positive"
        lines.append(f"| {size} x {size}, {signs} | {given['A'].nnz:,} | {len(a['i0']):,} | "
                     f"{theirs * 1e3:.0f} | {ours * 1e3:.1f} | {theirs / ours:.1f} |")
        print(lines[-1], flush=True)
    given = matrices(con, 3000, 0.01, True)
    theirs, ours, a, b = best(lambda: con.execute(TRIANGLES).fetchall(),
                              lambda: tr.sql(TRIANGLES, A=given["A"]).rows(), repeats)
    assert a == b
    lines.append(f"| triangles, 3000 x 3000 | {given['A'].nnz:,} | 1 | {theirs * 1e3:.0f} | "
                 f"{ours * 1e3:.1f} | {theirs / ours:.1f} |")
    print(lines[-1], flush=True)
    return lines


def queries(rows: int, threads: int, repeats: int) -> list[str]:
    lines = [f"| {rows:,} rows | DuckDB ms | tensorel ms | tensorel / DuckDB | rows |",
             "| --- | --- | --- | --- | --- |"]
    con, given = connection(threads), {}
    for name, table in tables(rows).items():
        load(con, name, table)
        given[name] = tr.sql("SELECT * FROM t", t=table)
        given[name].held()
    for name, text in QUERIES.items():
        theirs, ours, a, b = best(lambda t=text: con.sql(t).to_arrow_table(),
                                  lambda t=text: held(t, given), repeats)
        count = a.num_rows
        assert count == len(b), name
        if count <= MOST_COMPARED:
            wanted = list(zip(*[c.to_pylist() for c in a.columns]))
            wrong = difference(b.rows(), wanted, False)
            assert wrong is None, (name, wrong)
        lines.append(f"| {name} | {theirs * 1e3:.1f} | {ours * 1e3:.1f} | {ours / theirs:.2f} | "
                     f"{count:,} |")
        print(lines[-1], flush=True)
    return lines


def held(text: str, given: dict[str, Any]) -> Any:
    found = tr.sql(text, **given)
    found.held()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    duckdb = __import__("duckdb")
    with tr.options(threads=arguments.threads):
        lines = ["# SQL beside DuckDB", "",
                 f"DuckDB {duckdb.__version__}, {arguments.threads} threads each, "
                 f"{platform.processor() or platform.machine()}, Python "
                 f"{platform.python_version()}; best of {arguments.repeats} runs in turns.", "",
                 "## Matrix products as join and group-by", "",
                 *products(arguments.threads, arguments.repeats), "",
                 "## Queries in the manner of TPC-H", ""]
        for rows in arguments.rows:
            lines += [*queries(rows, arguments.threads, arguments.repeats), ""]
    if arguments.out is not None:
        arguments.out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
