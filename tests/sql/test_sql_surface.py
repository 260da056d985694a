"""``tr.sql`` beside its rows: inputs, results, errors, plans, memory, the command line."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.cli import main
from tensorel.errors import MemoryLimitError, ParseError, TypeError_, ValueError_

pa: Any = __import__("pyarrow")
pd: Any = __import__("pandas")
pl: Any = __import__("polars")

DENSE = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, -3.0]])
A = tr.tensor(DENSE, format="csr")
PRODUCT = ("SELECT X.i0, Y.i1, SUM(X.val * Y.val) AS val FROM X JOIN Y ON X.i1 = Y.i0 "
           "GROUP BY X.i0, Y.i1")
FRAME = {"k": [0, 1, 1], "name": ["a", "b", None], "x": [1.5, None, 2.5]}


# -- inputs ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("format", ["dense", "dense_f", "coo", "csr", "csc", "dcsr", "csf", "dok",
                                    "trie", "bitmap"])
def test_the_format_of_a_tensor_changes_no_rows(format: str) -> None:
    given = DENSE > 1 if format == "bitmap" else DENSE
    t = tr.tensor(given, format=format)
    wanted = [(int(i), int(j), given[i, j].item()) for i, j in np.argwhere(given)]
    assert tr.sql("SELECT * FROM T ORDER BY i0, i1", T=t).rows() == wanted


def test_explicit_zeros_and_lazy_tensors() -> None:
    t = tr.from_coo([[0, 0, 1], [0, 1, 1]], [0.0, 2.0, 5.0], (2, 2))
    assert tr.sql("SELECT COUNT(*), SUM(val) FROM T", T=t).rows() == [(2, 7.0)]
    assert tr.sql("SELECT SUM(val) FROM T", T=t * 2 + t).rows() == [(21.0,)]
    assert tr.sql(PRODUCT, X=t, Y=t).rows() == [(0, 1, 10.0), (1, 1, 25.0)]


def test_groups_exist_where_their_sum_is_zero() -> None:
    x = tr.asarray([[1.0, -1.0], [0.0, 0.0]])
    y = tr.asarray([[2.0, 0.0], [2.0, 0.0]])
    assert tr.sql(PRODUCT, X=x, Y=y).rows() == [(0, 0, 0.0)]
    assert tr.sql("SELECT SUM(X.val * Y.val) FROM X, Y WHERE X.i1 = Y.i0 AND Y.i1 = 1",
                  X=x, Y=y).rows() == [(None,)]


def test_products_that_underflow_are_groups() -> None:
    x = tr.asarray([[1e-200]])
    assert tr.sql(PRODUCT, X=x, Y=x).rows() == [(0, 0, 0.0)]


def test_nan_is_a_value() -> None:
    x = tr.asarray([[np.nan, 1.0]])
    assert tr.sql("SELECT COUNT(*) FROM X WHERE val > 5", X=x).rows() == [(1,)]
    assert tr.sql("SELECT COUNT(*) FROM X a JOIN X b ON a.val = b.val", X=x).rows() == [(2,)]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_all_libraries(make: Any) -> None:
    given = make(FRAME)
    text = "SELECT name, COUNT(*), SUM(x) FROM t GROUP BY name ORDER BY name"
    assert tr.sql(text, t=given).rows() == [("a", 1, 1.5), ("b", 1, None), (None, 1, 2.5)]


def test_parquet_reads_the_columns_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pa.parquet = __import__("pyarrow.parquet").parquet
    pa.parquet.write_table(pa.table(FRAME), path)
    assert tr.sql("SELECT SUM(k) AS s FROM t", t=str(path)).rows() == [(2,)]


def test_results_are_relations() -> None:
    first = tr.sql("SELECT i0, SUM(val) AS s FROM A GROUP BY i0", A=A)
    again = tr.sql("SELECT MAX(s) FROM r WHERE i0 < 5", r=first)
    assert again.rows() == [(3.0,)]
    grouped = A.group_by("rid").agg("count")
    assert tr.sql("SELECT SUM(count) FROM g", g=grouped).rows() == [(4,)]


def test_data_that_change_between_queries() -> None:
    frame = pd.DataFrame({"k": np.array([1, 2, 3])})
    assert tr.sql("SELECT MAX(k) FROM t", t=frame).rows() == [(3,)]
    frame.loc[0, "k"] = 900
    assert tr.sql("SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k DESC LIMIT 1",
                  t=frame).rows() == [(900, 1)]
    held = np.array([1, 2, 3])
    query = tr.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k", t={"k": held})
    held[0] = 10**9
    assert query.rows() == [(2, 1), (3, 1), (10**9, 1)]


# -- labels ----------------------------------------------------------------------------------------
def rated() -> tr.Tensor:
    frame = {"user": ["ann", "bob", "ann"], "item": ["x", "y", "y"], "stars": [1.0, 2.0, -3.0]}
    return tr.from_table(frame, keys=["user", "item"], value="stars")


def test_labels_are_columns() -> None:
    assert tr.sql('SELECT * FROM R ORDER BY "user", item', R=rated()).rows() == [
        ("ann", "x", 1.0), ("ann", "y", -3.0), ("bob", "y", 2.0)]
    assert tr.sql("SELECT i0, i1 FROM R WHERE item = 'y' ORDER BY i0", R=rated()).rows() == [
        (0, 1), (1, 1)]


def test_joins_on_labels_are_programs_where_the_labels_are_equal() -> None:
    text = ('SELECT a."user", b."user" AS other, SUM(a.val * b.val) AS s FROM R a JOIN R b '
            'ON a.item = b.item GROUP BY ALL ORDER BY 1, 2')
    query = tr.sql(text, R=rated())
    assert "tensor program" in query.explain()
    assert query.rows() == [("ann", "ann", 10.0), ("ann", "bob", -6.0), ("bob", "ann", -6.0),
                            ("bob", "bob", 4.0)]
    tags = tr.from_table({"item": ["y", "z"], "w": [2.0, 5.0]}, keys=["item"], value="w")
    text = 'SELECT R."user", SUM(R.val * W.val) FROM R JOIN W ON R.item = W.item GROUP BY 1 ' \
        'ORDER BY 1'
    query = tr.sql(text, R=rated(), W=tags)
    assert "tensor program" not in query.explain()
    assert query.rows() == [("ann", -6.0), ("bob", 4.0)]


def test_names_of_axes() -> None:
    t = A.named("row", "column")
    assert tr.sql('SELECT "row", rid, i0 FROM T WHERE "column" = 2', T=t).rows() == [(1, 1, 1)]


# -- results ---------------------------------------------------------------------------------------
def test_results_in_all_forms() -> None:
    query = tr.sql(PRODUCT, X=A, Y=tr.asarray(DENSE.T))
    assert query.columns == ["i0", "i1", "val"]
    assert np.array_equal(query.to_tensor(keys=["i0", "i1"], value="val").to_numpy(),
                          DENSE @ DENSE.T)
    assert query.to_pandas()["val"].tolist() == query.to_arrow()["val"].to_pylist()
    assert query.to_polars()["val"].to_list() == [row[2] for row in query.rows()]


def test_the_shape_of_a_result_is_that_of_the_axes() -> None:
    query = tr.sql("SELECT i0, SUM(val) AS s FROM A WHERE i0 = 0 GROUP BY i0", A=A)
    assert query.to_tensor(keys=["i0"], value="s").shape == (2,)


def test_dates_and_texts_come_back() -> None:
    day = dt.date(2024, 2, 29)
    query = tr.sql("SELECT DATE '2024-02-29' AS d, 'x' AS t, TIMESTAMP '2024-02-29 12:00:00' AS s")
    assert query.rows() == [(day, "x", dt.datetime(2024, 2, 29, 12))]


def test_names_of_columns_are_different() -> None:
    assert tr.sql("SELECT val, val, SUM(val) FROM A GROUP BY val", A=A).columns == [
        "val", "val_1", "sum(val)"]


def test_printing() -> None:
    query = tr.sql("SELECT i1, SUM(val) AS s FROM A GROUP BY i1 ORDER BY i1", A=A)
    assert str(query).splitlines() == ["i1  s", "--  --", "0   1", "1   5", "2   -3"]


# -- plans -----------------------------------------------------------------------------------------
def test_a_contraction_is_a_tensor_program() -> None:
    chain = ("SELECT a.i0, c.i1, SUM(a.val * b.val * c.val) FROM A a, B b, C c "
             "WHERE a.i1 = b.i0 AND b.i1 = c.i0 GROUP BY a.i0, c.i1")
    assert "tensor program" in tr.sql(chain, A=A, B=A.T, C=A).explain()
    filled = tr.tensor(DENSE, format="csr", fill=2.0)
    assert "tensor program" not in tr.sql(PRODUCT, X=filled, Y=A.T).explain()


def test_filters_go_to_the_scans_and_subqueries_become_joins() -> None:
    text = ("SELECT a.i0 FROM A a JOIN A b ON a.i1 = b.i1 WHERE b.val > 1 AND EXISTS "
            "(SELECT 1 FROM A c WHERE c.i0 = a.i0 AND c.val < 0)")
    plan = tr.sql(text, A=A).explain()
    assert "semi join" in plan and "domain" not in plan
    lines = plan.splitlines()
    scan = next(k for k, line in enumerate(lines) if "filter" in line and "> 1.0" in line)
    assert "scan A" in lines[scan + 1]


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "marked", "message"), [
    ("SELECT z FROM A", "z", "no column 'z'"),
    ("SELECT A.i9 FROM A", "A.i9", "no column 'A.i9'"),
    ("SELECT i0 FROM B", "B", "no relation 'B'"),
    ("SELECT i0, SUM(val) FROM A", "i0", "several values in a group"),
    ("SELECT MEDIAN(val) OVER () FROM A", "MEDIAN", "median as a window"),
    ("SELECT frob(val) FROM A", "frob", "frob"),
    ("SELECT val + 'x' FROM A", "val", r"\+"),
    ("SELECT i0 FROM A a, A b", "i0", "may be a column of"),
    ("SELECT SUM(SUM(val)) FROM A", "SUM(val)", "inside of an aggregate"),
    ("SELECT i0 FROM A WHERE val", "val", "a condition is wanted"),
    ("SELECT i0 FROM A LIMIT 10%", "10", "LIMIT_OPTIONS"),
    ("SELECT i0 FROM A ORDER BY 3", "3", "no column 3"),
    ("SELECT i0 FROM A TABLESAMPLE 10%", "A", "SAMPLE"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", "t AS", "RECURSIVE"),
    ("SELECT i0 FROM A GROUP BY ROLLUP (i0)", "i0)", "ROLLUP"),
    ("SELECT (SELECT i0, i1 FROM A) FROM A", "i0", "one column"),
    ("SELECT i0 FROM A UNION SELECT i0, i1 FROM A", "i0", "1 and 2 columns"),
    ("SELECT DATE '2024-13-01'", "'2024", "is no DATE"),
    ("INSERT INTO A VALUES (1)", "A", "INSERT"),
])
def test_errors_mark_their_place(text: str, marked: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        tr.sql(text, A=A)
    assert error.value.position == text.index(marked)
    assert error.value.line == 1 and error.value.column == text.index(marked) + 1


@pytest.mark.parametrize("text", ["SELECT i0 FROM A WHERE (", "SELECT", "FROM WHERE", "SELEC 1",
                                  "SELECT 'x", "SELECT 1; SELECT 2", ""])
def test_texts_that_are_no_query(text: str) -> None:
    with pytest.raises(ParseError):
        tr.sql(text, A=A)


def test_errors_while_it_runs() -> None:
    with pytest.raises(ValueError_, match="more than one row"):
        tr.sql("SELECT (SELECT i0 FROM A)", A=A).rows()
    with pytest.raises(ValueError_, match="cast"):
        tr.sql("SELECT CAST(name AS INTEGER) FROM t", t=FRAME).rows()
    for text in ("name LIKE 'ax' ESCAPE 'a'", "name LIKE 'a' ESCAPE 'xy'",
                 "regexp_matches(name, '(')", "strftime(DATE '0001-01-01' - 9, '%Y') = name"):
        with pytest.raises(ValueError_, match="sql: "):
            tr.sql(f"SELECT {text} FROM t", t=FRAME).rows()
    with pytest.raises(TypeError_, match="text of the query"):
        tr.sql(A)  # type: ignore[arg-type]
    with pytest.raises(TypeError_, match="complex"):
        tr.sql("SELECT i0 FROM Z", Z=tr.asarray(np.ones(2) * 1j))


def test_reals_that_no_whole_number_holds() -> None:
    given = {"x": np.array([1.5, np.nan, 1e30])}
    for text in ("SELECT CAST(x AS BIGINT) FROM t", "SELECT CAST(1e30 AS BIGINT)"):
        with pytest.raises(ValueError_, match="cannot be cast to BIGINT"):
            tr.sql(text, t=given).rows()
    assert tr.sql("SELECT CAST(x AS BIGINT) FROM t WHERE x < 2", t=given).rows() == [(2,)]


def test_long_texts() -> None:
    given = {"k": np.arange(5000)}
    listed = ",".join(map(str, range(0, 6000, 2)))
    assert tr.sql(f"SELECT COUNT(*) FROM t WHERE k IN ({listed})", t=given).rows() == [(2500,)]
    for text in ("+".join(["1"] * 5000), "(" * 5000 + "1" + ")" * 5000):
        with pytest.raises(ParseError, match="nested too deep"):
            tr.sql("SELECT " + text).rows()


def test_keys_that_are_labels_are_no_indices() -> None:
    frame = {"k": [3, 7], "x": [1.0, 2.0]}
    labelled = tr.from_table(frame, keys="k", value="x")
    query = tr.sql("SELECT k, val FROM t", t=labelled)
    assert query.to_tensor(keys=["k"], value="val").to_numpy()[[3, 7]].tolist() == [1.0, 2.0]


def test_a_cast_that_no_row_needs_does_not_fail() -> None:
    given = {"s": ["7", "x"], "ok": [True, False]}
    assert tr.sql("SELECT CAST(s AS INTEGER) FROM t WHERE ok", t=given).rows() == [(7,)]


def test_the_memory_limit_is_kept() -> None:
    wide = tr.sql("SELECT a.k FROM t a, t b WHERE a.k <> b.k + 1",
                  t={"k": np.arange(3000)})
    with tr.options(memory="4MB"), pytest.raises(MemoryLimitError):
        wide.rows()


# -- many rows -------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_threads_share(threads: int) -> None:
    rng = np.random.default_rng(3)
    count = 300_000
    k, x = rng.integers(0, 40_000, count), rng.normal(size=count)
    big = {"k": k * 10**12, "x": x, "g": k % 7}
    names = {"g": np.arange(7), "name": [f"n{i}" for i in range(7)]}
    with tr.options(threads=threads):
        text = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t WHERE x > 0 GROUP BY k ORDER BY k"
        found = tr.sql(text, t=big).held()
        keep = x > 0
        assert np.array_equal(found["k"].values, np.unique(k[keep]) * 10**12)
        assert np.allclose(found["s"].values, np.bincount(k[keep], x[keep])[np.unique(k[keep])])
        text = ("SELECT name, SUM(x), MAX(x), COUNT(*) FROM t JOIN d ON t.g = d.g GROUP BY name "
                "ORDER BY name")
        rows = tr.sql(text, t=big, d=names).rows()
        assert np.allclose([r[1] for r in rows], np.bincount(k % 7, x))
        assert [r[3] for r in rows] == np.bincount(k % 7).tolist()
        text = "SELECT COUNT(*), SUM(a.x) FROM t a JOIN t b ON a.k = b.k WHERE b.g = 3 AND a.g = 3"
        pairs = np.bincount(k)
        assert tr.sql(text, t=big).rows()[0][0] == int((pairs[3::7] ** 2).sum())


# -- tiles -----------------------------------------------------------------------------------------
TILED = ("SELECT A.r, B.c, SUM(matmul(A.mat, B.mat)) AS mat FROM A, B WHERE A.c = B.r "
         "GROUP BY A.r, B.c")


@pytest.mark.parametrize("engine", [None, 2])
def test_a_product_of_tiled_relations(engine: int | None) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((6, 4)), rng.random((4, 5))
    tiles = {"A": tr.relation(a, tile=(2, 2)), "B": tr.relation(b, tile=(2, 3))}
    if engine is None:
        query = tr.sql(TILED, **tiles)
        found = query.to_tensor(keys=["r", "c"], value="mat").to_numpy()
    else:
        with tr.engines.local(sites=engine) as e, tr.options(engine=e):
            query = tr.sql(TILED, **tiles)
            found = query.to_tensor(keys=["r", "c"], value="mat").to_numpy()
    assert np.allclose(found, a @ b)


def test_blocks_meet_tables_and_operators() -> None:
    a = np.arange(16.0).reshape(4, 4)
    given = {"A": tr.relation(a, tile=2), "w": {"r": [0, 1], "f": [2.0, 0.5]}}
    rows = tr.sql("SELECT A.r, SUM(mat * f) AS m FROM A JOIN w ON A.r = w.r GROUP BY A.r "
                  "ORDER BY A.r", **given).rows()
    assert np.array_equal(rows[0][1], (a[:2, :2] + a[:2, 2:]) * 2.0)
    assert np.array_equal(rows[1][1], (a[2:, :2] + a[2:, 2:]) * 0.5)
    rows = tr.sql("SELECT r, c, matrix_transpose(mat) + mat AS s FROM A WHERE r = c ORDER BY r",
                  **given).rows()
    assert np.array_equal(rows[1][2], a[2:, 2:] + a[2:, 2:].T)
    with pytest.raises(ParseError, match="order of matrices"):
        tr.sql("SELECT mat FROM A ORDER BY mat", **given)


# -- databases and the command line ----------------------------------------------------------------
def test_databases() -> None:
    db = tr.connect()
    db["A"] = A
    db["other"] = [1, 2]
    assert db.sql("SELECT SUM(val) FROM a").rows() == [(3.0,)]
    assert db.sql("SELECT SUM(A.val * v.val) FROM A, v WHERE A.i1 = v.i0",
                  v=tr.asarray([1.0, 2.0, 4.0])).rows() == [(-1.0,)]
    with pytest.raises(ParseError, match="no relation 'B'"):
        db.sql("SELECT * FROM B")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.mtx")
    tr.write(path, A)
    text = "SELECT i0, SUM(val) AS s FROM A GROUP BY i0 ORDER BY i0"
    assert main(["sql", text, "--table", f"A={path}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["i0  s", "--  -", "0   3", "1   0"]
    assert main(["sql", text, "--table", f"A={path}", "--explain"]) == 0
    assert "scan A" in capsys.readouterr().out
    csv = tmp_path / "b.csv"
    csv.write_text("k,name\n0,x\n1,y\n")
    text = f"SELECT name, SUM(val) AS s FROM A JOIN '{csv}' b ON A.i0 = b.k GROUP BY 1 ORDER BY 1"
    assert main(["sql", text, "--table", f"A={path}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["name  s", "----  -", "x     3", "y     0"]
    assert main(["sql", "SELECT COUNT(*) AS n FROM t", "--table", f"t={csv}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["n", "-", "2"]
    assert main(["sql", "SELECT z FROM A", "--table", f"A={path}"]) == 1
    assert "line 1, column 8" in capsys.readouterr().err
