"""What plans do with rows that nobody needs, and with numbers at the edges."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import ArithmeticError_, FileError, ParseError, StorageError, TypeError_
from tensorel.front.queries.query import Query

pa: Any = __import__("pyarrow")
pq: Any = __import__("pyarrow.parquet").parquet


# -- first rows in order ---------------------------------------------------------------------------
def numbered(count: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    if kind == "reals":
        return np.where(rng.random(count) < 0.01, np.nan, rng.normal(size=count))
    return rng.integers(0, {"many": 10**9, "few": 5, "one": 1}[kind], count)


@pytest.mark.parametrize("kind", ["reals", "many", "few", "one"])
@pytest.mark.parametrize("descending", [False, True])
def test_first_rows(kind: str, descending: bool) -> None:
    x = numbered(50_000, kind)
    order = np.argsort(x, kind="stable")
    if descending:
        order = np.argsort(-np.nan_to_num(x.astype(float), nan=np.inf), kind="stable")
    sign = " DESC" if descending else ""
    found = tr.sql(f"SELECT n FROM t ORDER BY x{sign}, n LIMIT 20 OFFSET 5",
                   t={"x": x, "n": np.arange(len(x))})
    assert [r[0] for r in found.rows()] == order[5:25].tolist()


@pytest.mark.parametrize("where", ["NULLS FIRST", "NULLS LAST"])
def test_first_rows_with_nulls(where: str) -> None:
    x = np.arange(60_000.0)[::-1].copy()
    given = pa.table({"x": pa.array(x, mask=x % 1000 == 7), "t": [f"{v:06.0f}" for v in x]})
    nulls = [v for v in x if v % 1000 == 7]
    rest = sorted(v for v in x if v % 1000 != 7)
    wanted = sorted(nulls) + rest if where == "NULLS FIRST" else rest
    text = f"SELECT t FROM g ORDER BY x {where}, t LIMIT 100"
    assert [float(r[0]) for r in tr.sql(text, g=given).rows()] == wanted[:100]
    found = tr.sql("SELECT t FROM g WHERE x IS NOT NULL ORDER BY t DESC LIMIT 3", g=given).rows()
    assert [float(r[0]) for r in found] == rest[:-4:-1]


# -- files -----------------------------------------------------------------------------------------
def groups_read(query: Query) -> int:
    source: Any = query.planned.sources["t"]
    return int(source.source.groups_read)


@pytest.mark.parametrize(("where", "groups", "count"), [
    ("k BETWEEN 25 AND 34", 2, 10), ("k > 94", 1, 5), ("k = 50", 1, 1), ("k IN (3, 95)", 10, 2),
    ("12 > k AND x > 0", 2, 11), ("k < 10 OR k > 90", 10, 19), ("d >= DATE '2024-03-31'", 1, 10),
    ("s = 'n07'", 1, 1), ("x > 95.5", 10, 4), ("x < 9.5", 1, 10), ("k < 0", 1, 0), ("k < -1", 0, 0),
    ("moment < TIMESTAMP '1970-01-01 00:00:05'", 1, 5), ("k + 1 < 5", 10, 4),
])
def test_groups_of_rows_that_no_row_is_wanted_of(tmp_path: Path, where: str, groups: int,
                                                 count: int) -> None:
    n = np.arange(100)
    pq.write_table(pa.table({
        "k": n, "x": n.astype(float), "s": [f"n{v:02}" for v in n],
        "d": [dt.date(2024, 1, 1) + dt.timedelta(days=int(v)) for v in n],
        "moment": pa.array(n * 10**6, pa.timestamp("us"))}), tmp_path / "t.parquet",
        row_group_size=10)
    query = tr.sql(f"SELECT COUNT(*) FROM t WHERE {where}", t=tmp_path / "t.parquet")
    assert query.rows() == [(count,)]
    assert groups_read(query) == groups


def test_two_scans_of_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"k": np.arange(100)}), path, row_group_size=10)
    query = tr.sql("SELECT COUNT(*) FROM t a, t b WHERE a.k = b.k + 20 AND a.k < 35 AND b.k < 5",
                   t=path)
    assert query.rows() == [(5,)]
    assert groups_read(query) == 4


def test_nan_is_above_the_statistics(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [1.0, np.nan, 2.0, 3.0]}), path, row_group_size=2)
    assert tr.sql("SELECT COUNT(*) FROM t WHERE x > 5", t=path).rows() == [(1,)]


def test_folders_patterns_and_delimited_files(tmp_path: Path) -> None:
    for k in range(3):
        pq.write_table(pa.table({"k": [k, k]}), tmp_path / f"p{k}.parquet")
    text = "SELECT COUNT(*), SUM(k) FROM t"
    assert tr.sql(text, t=tmp_path).rows() == [(6, 6)]
    assert tr.sql(text, t=str(tmp_path / "p[12].parquet")).rows() == [(4, 6)]
    (tmp_path / "a.csv").write_text('k,a name\n1,x\n2,"y,z"\n,\n')
    assert tr.sql('SELECT k, "a name" FROM t ORDER BY k', t=tmp_path / "a.csv").rows() == [
        (1, "x"), (2, "y,z"), (None, "")]
    assert tr.from_table(tmp_path / "a.csv", keys="a name", value="k").to_numpy().sum() == 3


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("hello")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    for name, error in [("t.parquet", StorageError), ("none.parquet", FileError),
                        ("n*.parquet", FileError), ("twice.csv", StorageError),
                        ("t.json", TypeError_)]:
        with pytest.raises(error):
            tr.sql("SELECT COUNT(*) FROM t", t=tmp_path / name)


# -- aggregates before joins -----------------------------------------------------------------------
def test_aggregates_go_below_joins_that_make_many_rows() -> None:
    rng = np.random.default_rng(5)
    count = 20_000
    a = {"k": rng.integers(0, 50, count), "x": rng.integers(-5, 6, count)}
    b = {"k": rng.integers(0, 50, count), "y": rng.normal(size=count)}
    query = tr.sql("SELECT COUNT(*), SUM(a.x * b.y), AVG(a.x), MAX(b.y) FROM a JOIN b ON a.k = b.k",
                   a=a, b=b)
    assert query.explain().count("group by") == 3
    counts = [np.bincount(t["k"], minlength=50) for t in (a, b)]
    sums = np.bincount(a["k"], a["x"], 50), np.bincount(b["k"], b["y"], 50)
    pairs = int(counts[0] @ counts[1])
    wanted = (pairs, sums[0] @ sums[1], sums[0] @ counts[1] / pairs, b["y"].max())
    assert np.allclose(query.rows()[0], wanted)
    one = {"k": np.arange(50), "z": np.arange(50)}
    star = tr.sql("SELECT z, SUM(x) FROM a JOIN one ON a.k = one.k GROUP BY z", a=a, one=one)
    assert star.explain().count("group by") == 1


# -- numbers ---------------------------------------------------------------------------------------
def test_sums_of_whole_numbers_have_64_bits() -> None:
    given = {"k": np.array([2**62, 2**62, -2**62])}
    for text in ("SELECT SUM(k) FROM t WHERE k > 0", "SELECT k, SUM(k) FROM t GROUP BY k",
                 "SELECT SUM(k + k) FROM t"):
        with pytest.raises(ArithmeticError_, match="64 bits"):
            tr.sql(text, t=given).rows()
    assert tr.sql("SELECT SUM(k) FROM t", t=given).rows() == [(2**62,)]
    a = tr.asarray(np.full((1, 2), 2**40))
    with pytest.raises(ArithmeticError_, match="64 bits"):
        tr.sql("SELECT SUM(a.val * b.val) FROM a JOIN b ON a.i1 = b.i1", a=a, b=a * 2**20).rows()


def test_what_a_program_of_tensors_does_not_tell() -> None:
    """A zero that is stored meets no infinity, and nan is above all numbers."""
    a, b = tr.asarray([[0.0, 1.0]]), tr.asarray([[np.inf], [2.0]])
    text = "SELECT {}(a.val * b.val) FROM a JOIN b ON a.i1 = b.i0 GROUP BY a.i0"
    query = tr.sql(text.format("SUM"), a=a, b=b)
    assert "tensor program" in query.explain()
    assert query.rows() == [(2.0,)]
    a, b = tr.asarray([[1.0, 1.0]]), tr.asarray([[np.nan], [2.0]])
    assert tr.sql(text.format("MIN"), a=a, b=b).rows() == [(2.0,)]


# -- window functions ------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "marked", "message"), [
    ("SELECT MEDIAN(x) OVER () FROM t", "MEDIAN", "median as a window function"),
    ("SELECT SUM(x) OVER (ORDER BY x GROUPS 1 PRECEDING) FROM t", "1", "GROUPS"),
    ("SELECT SUM(x) OVER (ORDER BY x RANGE 1 PRECEDING) FROM t", "1", "RANGE"),
    ("SELECT x FROM t WHERE RANK() OVER (ORDER BY x) = 1", "RANK", "a window function stands in"),
    ("SELECT SUM(SUM(x) OVER ()) OVER () FROM t", "SUM(x)", "inside of a window"),
    ("SELECT SUM(x) OVER w FROM t", "SUM", "no window 'w'"),
    ("SELECT RANK(x) OVER (ORDER BY x) FROM t", "RANK", "EXPRESSIONS of RANK"),
    ("SELECT SUM(mat) OVER () FROM m", "SUM", "of matrices in a window"),
])
def test_windows_that_are_refused(text: str, marked: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        tr.sql(text, t={"x": [1, 2]}, m=tr.relation(np.eye(2), tile=1))
    assert error.value.position == text.index(marked)


def test_windows_over_many_rows() -> None:
    rng = np.random.default_rng(8)
    k, x = rng.integers(0, 300, 40_000), rng.normal(size=40_000)
    found = tr.sql("SELECT n, SUM(x) OVER (PARTITION BY k ORDER BY n) AS s, "
                   "ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS r FROM t ORDER BY n",
                   t={"k": k, "x": x, "n": np.arange(len(k))}).held()
    sums, ranks = np.empty(len(k)), np.empty(len(k), int)
    for group in range(300):
        at = np.flatnonzero(k == group)
        sums[at] = np.cumsum(x[at])
        ranks[at[np.argsort(x[at])]] = np.arange(1, len(at) + 1)
    assert np.allclose(found["s"].values, sums)
    assert np.array_equal(found["r"].values, ranks)


@pytest.mark.parametrize("where, found", [
    ("f = CAST(0.1 AS FLOAT)", [0]), ("f IN (CAST(0.1 AS FLOAT), 'inf'::DOUBLE)", [0, 2]),
    ("f = '0.1'", [0]), ("f >= 16777217", [1, 2]), ("f = 0.1", [])])
def test_constants_of_32_bits_are_rounded_to_them(tmp_path: Path, where: str, found: list[int]
                                                  ) -> None:
    table = pa.table({"k": [0, 1, 2], "f": np.array([0.1, 2**24, np.inf], np.float32)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    for given in (table, tmp_path / "t.parquet"):
        rows = tr.sql(f"SELECT k FROM t WHERE {where} ORDER BY k", t=given).rows()
        assert rows == [(k,) for k in found]


def test_times_are_cut_before_they_are_compared(tmp_path: Path) -> None:
    table = pa.table({"k": range(5), "t": pa.array([-1, 0, 999, 1000, -1001], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    for test in ("=", "<", "<=", ">", ">="):
        for when in ("1970-01-01", "1970-01-01 00:00:00.000001", "1969-12-31 23:59:59.999999",
                     "9999-12-31 23:59:59.999999"):
            text = f"SELECT k FROM t WHERE t {test} TIMESTAMP '{when}' ORDER BY k"
            assert tr.sql(text, t=tmp_path / "t.parquet").rows() == tr.sql(text, t=table).rows()


def test_a_file_that_is_written_to_before_the_query_runs(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": range(10)}), path, row_group_size=2)
    query = tr.sql("SELECT SUM(k) FROM t WHERE k > 6", t=path)
    pq.write_table(pa.table({"k": range(100, 110)}), path, row_group_size=2)
    with pytest.raises(tr.errors.FileError, match="was written to"):
        query.rows()
    again = tr.sql("SELECT SUM(k) FROM t WHERE k > 6", t=path)
    pq.write_table(pa.table({"k": [1]}), tmp_path / "u.parquet")
    (tmp_path / "u.parquet").rename(path)
    assert again.rows() == [(sum(range(100, 110)),)]
    assert tr.sql("SELECT SUM(k) FROM t", t=path).rows() == [(1,)]
