"""Whole numbers of a row that need more than 64 bits are errors, where a row wants them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines.rows.pipelines import Pipelines
from tensorel.errors import ArithmeticError_

pd: Any = __import__("pandas")
duckdb: Any = __import__("duckdb")

HIGH, LOW = 2**63 - 1, -(2**63)
T = pd.DataFrame({"k": [0, 1, 2, 3], "a": [HIGH, LOW, 2**62, 5], "b": [1, -1, 2, 7]})
NULLS = pd.DataFrame({"a": pd.array([HIGH, None, 5], "Int64"),
                      "b": pd.array([None, 1, 2], "Int64")})


def rows_of(text: str, **relations: Any) -> list[tuple[Any, ...]] | None:
    """None where a number does not fit."""
    try:
        return tr.sql(text, **relations).rows()
    except ArithmeticError_ as error:
        assert "more than 64 bits" in str(error)
        return None


def of_duckdb(text: str, **relations: Any) -> list[tuple[Any, ...]] | None:
    with duckdb.connect() as connection:
        for name, frame in relations.items():
            connection.register(name, frame)
        try:
            found: list[tuple[Any, ...]] = connection.execute(text).fetchall()
            return found
        except duckdb.OutOfRangeException:
            return None


@pytest.mark.parametrize("text", [
    "SELECT a + b FROM t", "SELECT a - 1 FROM t", "SELECT a * 2 FROM t", "SELECT a * b FROM t",
    "SELECT -a FROM t", "SELECT abs(a) FROM t", "SELECT a // b FROM t",
    "SELECT a + b FROM t WHERE k > 1", "SELECT a * b FROM t WHERE k = 2",
    "SELECT -a FROM t WHERE k <> 1", "SELECT abs(a) FROM t WHERE k <> 1",
    "SELECT a * -1 FROM t WHERE k = 0", "SELECT a * 1, a + 0, a - 0 FROM t",
    "SELECT a % b FROM t WHERE k <> 1", "SELECT a // 2 + 1 FROM t",
    "SELECT CASE WHEN k > 2 THEN a + b ELSE b END FROM t",
    "SELECT CASE WHEN k = 0 THEN a + b ELSE b END FROM t",
    "SELECT COALESCE(b, a + a) FROM t",
    "SELECT COUNT(*) FROM t WHERE k > 1 AND a + b > 0",
    "SELECT COUNT(*) FROM t WHERE a + b > 0",
    "SELECT COUNT(*) FROM t WHERE k < 2 OR a + b > 0",
    "SELECT k % 2 AS g, MAX(a + b) FROM t GROUP BY 1",
    "SELECT a + b AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT a - k AS g, COUNT(*) FROM t WHERE k <> 1 GROUP BY g",
    "SELECT k FROM t ORDER BY a * 3", "SELECT k FROM t WHERE k = 3 ORDER BY a * 3",
    "SELECT x.k FROM t x JOIN t y ON x.a + 1 = y.a",
    "SELECT x.k FROM t x JOIN t y ON x.k + 1 = y.k",
    "SELECT x.a + y.a FROM t x JOIN t y ON x.k = y.k WHERE x.k = 3",
    "SELECT x.a + y.a FROM t x JOIN t y ON x.k = y.k",
    "SELECT x.k, y.a + 1 FROM t x LEFT JOIN (SELECT * FROM t WHERE k > 1) y ON x.k = y.k",
    "SELECT MIN(x.b * y.b) FROM t x, t y", "SELECT MIN(x.a * y.b) FROM t x, t y",
    "SELECT c + 1 FROM (SELECT a + b AS c FROM t WHERE k > 1) s",
    "SELECT a + b FROM t WHERE k > 1 UNION SELECT a FROM t",
    "SELECT MAX(a + b) OVER (PARTITION BY k) FROM t",
    "SELECT 9223372036854775807 + 1", "SELECT 9223372036854775807 * -1",
    "SELECT ROUND(a, 0), ROUND(a, 3) FROM t", "SELECT ROUND(a, -1) FROM t",
    "SELECT ROUND(a, -2), ROUND(a, -17), ROUND(k - 5, -1) FROM t WHERE k = 2",
    "SELECT SUM(a + b) FROM t", "SELECT SUM(a * b) FROM t WHERE k = 3",
])
def test_the_ends_as_in_duckdb(text: str) -> None:
    found, wanted = rows_of(text, t=T), of_duckdb(text, t=T)
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        assert sorted(found, key=str) == sorted(wanted, key=str)


def test_nulls_beside_numbers_that_overflow() -> None:
    assert tr.sql("SELECT a + b, a * b, -b FROM t", t=NULLS).rows() == [
        (None, None, None), (None, None, -1), (7, 10, -2)]
    assert rows_of("SELECT a + 1 FROM t", t=NULLS) is None
    assert tr.sql("SELECT a + 1 FROM t WHERE a + b > 0", t=NULLS).rows() == [(6,)]


def test_rows_that_an_aggregate_leaves_out_compute_nothing() -> None:
    text = "SELECT k % 2 AS g, MAX(a + b) FILTER (WHERE k > 1) FROM t GROUP BY 1 ORDER BY 1"
    assert tr.sql(text, t=T).rows() == [(0, 2**62 + 2), (1, 12)]


def test_rows_without_a_partner_compute_nothing() -> None:
    # The first row of the right, at which nulls are read, would overflow; no row has it.
    right = "(SELECT k, a * 2 AS c FROM t) y"
    found = tr.sql(f"SELECT x.k, y.c FROM x LEFT JOIN {right} ON x.k = y.k ORDER BY 1",
                   x=pd.DataFrame({"k": [3, 9]}), t=T)
    assert found.rows() == [(3, 10), (9, None)]


def test_long_expressions() -> None:
    text = " + ".join(["a"] * 150)
    assert tr.sql(f"SELECT {text} FROM t WHERE k = 3", t=T).rows() == [(750,)]
    assert rows_of(f"SELECT {text} FROM t WHERE k = 2", t=T) is None


def test_the_error_names_the_expression() -> None:
    with pytest.raises(ArithmeticError_, match=r"\(a \* b\) has more than 64 bits"):
        tr.sql("SELECT a - b, a * b FROM t WHERE k = 2", t=T).rows()


_OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@pytest.mark.parametrize("seed", range(3))
def test_random_numbers_near_the_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def numbers() -> list[int]:
        ends = [HIGH, LOW, 2**62, -(2**62), 2**32, -(2**31), 3037000499, 3037000500, 0, 1, -1]
        near = rng.choice(len(ends), 300)
        steps = rng.integers(-3, 4, 300).tolist()
        return [min(max(ends[e] + d, LOW), HIGH) for e, d in zip(near, steps)]

    a, b = numbers(), numbers()
    frame = pd.DataFrame({"k": np.arange(300), "a": a, "b": b})
    for sign, op in _OPS.items():
        fits = [LOW <= op(x, y) <= HIGH for x, y in zip(a, b)]
        text = f"SELECT a {sign} b FROM t, f WHERE t.k = f.k AND f.ok ORDER BY t.k"
        found = tr.sql(text, t=frame, f=pd.DataFrame({"k": np.arange(300), "ok": fits}))
        assert [r[0] for r in found.rows()] == [op(x, y) for x, y, ok in zip(a, b, fits) if ok]
        for k in np.flatnonzero(~np.array(fits))[:20].tolist():
            assert rows_of(f"SELECT a {sign} b FROM t WHERE k = {k}", t=frame) is None


@pytest.mark.parametrize("threads", [1, 3])
def test_one_row_of_many(threads: int) -> None:
    values = np.arange(200_000)
    values[150_001] = HIGH
    many = pd.DataFrame({"a": values})
    with tr.options(threads=threads):
        for text in ("SELECT a + 1 FROM t", "SELECT a + 1 AS c FROM t WHERE a > 3",
                     "SELECT MAX(a + 1) FROM t",
                     "SELECT a % 10 AS g, MAX(a + 1) FROM t GROUP BY g"):
            assert rows_of(text, t=many) is None
        assert rows_of("SELECT MAX(a + 1) FROM t WHERE a < 1000000", t=many) == [(200_000,)]


def test_sums_of_products_over_joins() -> None:
    x = pd.DataFrame({"g": [0] * 8, "a": [2**40] * 8})
    text = "SELECT x.g, SUM(x.a * y.a) AS s FROM x JOIN y ON x.g = y.g GROUP BY x.g"
    assert rows_of(text, x=x, y=x) is None
    small = pd.DataFrame({"g": [0] * 8, "a": [2**20] * 8})
    assert rows_of(text, x=small, y=small) == [(0, 2**46)]


def test_products_of_tensors_that_overflow() -> None:
    x = tr.tensor(np.array([[2**40, 1], [0, -(2**40)]]), format="csr")
    text = "SELECT X.i0, MIN(X.val * Y.val) AS m FROM X JOIN Y ON X.i1 = Y.i0 GROUP BY X.i0"
    assert rows_of(text, X=x, Y=x) is None
    small = tr.tensor(np.array([[4, 1], [0, -5]]), format="csr")
    assert sorted(rows_of(text, X=small, Y=small) or []) == [(0, -5), (1, 25)]


def test_bounds_leave_kernels_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bool] = []
    kernel = Pipelines._kernel

    def seen(self: Pipelines, *args: Any) -> Any:
        made = kernel(self, *args)
        checked.append(any(a is self.found for a in made[1]))
        return made

    monkeypatch.setattr(Pipelines, "_kernel", seen)
    t = pd.DataFrame({"a": np.arange(1000), "d": pd.date_range("2020-01-01", periods=1000)})
    for text in ("SELECT a * a + 2 * a - 1 FROM t", "SELECT SUM(a * (a + 1)) FROM t WHERE -a < -3",
                 "SELECT a % 7 AS g, SUM(abs(a - 500)) FROM t GROUP BY g",
                 "SELECT year(d) * 100 + month(d) FROM t",
                 "SELECT c * c FROM (SELECT a + 1 AS c FROM t) s WHERE c > 4",
                 "SELECT x.a + y.a FROM t x JOIN t y ON x.a + 1 = y.a",
                 "SELECT COALESCE(x.a, 0) + 1 FROM t x"):
        checked.clear()
        tr.sql(text, t=t).rows()
        assert checked and not any(checked), text
    checked.clear()
    tr.sql("SELECT a * a * a * a * a * a * a FROM t WHERE a < 9", t=t).rows()
    assert any(checked)


def test_sums_of_windows_that_overflow() -> None:
    frame = pd.DataFrame({"k": range(5), "a": [HIGH, LOW, LOW, -1, 2]})
    one = ("SELECT SUM(a) OVER (ORDER BY k ROWS BETWEEN {} AND CURRENT ROW) FROM t WHERE {} "
           "ORDER BY k")
    assert rows_of(one.format("UNBOUNDED PRECEDING", "k < 2"), t=frame) == [(HIGH,), (-1,)]
    assert rows_of(one.format("UNBOUNDED PRECEDING", "k < 3"), t=frame) is None
    assert rows_of(one.format("1 PRECEDING", "k > 2"), t=frame) == [(-1,), (1,)]
    assert rows_of(one.format("1 PRECEDING", "k > 1"), t=frame) is None
    rng = np.random.default_rng(5)
    values = rng.integers(LOW, HIGH, 60, endpoint=True).tolist()
    frame = pd.DataFrame({"k": range(60), "a": values})
    for size in (1, 2, 3):
        sums = [sum(values[max(k - size, 0):k + 1]) for k in range(60)]
        found = rows_of(one.format(f"{size} PRECEDING", "TRUE"), t=frame)
        assert (found is None) == any(not LOW <= s <= HIGH for s in sums)
        small = frame.assign(a=[v // 8 for v in values])
        sums = [sum(v // 8 for v in values[max(k - size, 0):k + 1]) for k in range(60)]
        assert rows_of(one.format(f"{size} PRECEDING", "TRUE"), t=small) == [(s,) for s in sums]
