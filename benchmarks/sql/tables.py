"""Tables in the shape of TPC-H's, and queries on them.

Keys, dates and numbers are drawn uniformly as dbgen draws them; texts are short. Sizes follow the
number of rows of ``lineitem``."""

from __future__ import annotations

from typing import Any

import numpy as np


def tables(rows: int, seed: int = 0) -> dict[str, Any]:
    """Arrow tables by name."""
    pa: Any = __import__("pyarrow")
    rng = np.random.default_rng(seed)
    counts = {"orders": rows // 4, "customer": rows // 40, "part": rows // 30,
              "supplier": max(rows // 600, 10)}
    start = np.datetime64("1992-01-01")
    ordered = start + rng.integers(0, 2405, counts["orders"]).astype("m8[D]")
    order = np.sort(rng.integers(0, counts["orders"], rows))
    shipped = ordered[order] + rng.integers(1, 122, rows).astype("m8[D]")
    quantity = rng.integers(1, 51, rows).astype(float)

    def drawn(words: list[str], count: int) -> Any:
        codes = pa.array(rng.integers(0, len(words), count).astype(np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array(words)).cast(pa.string())

    return {
        "lineitem": pa.table({
            "l_orderkey": order * 4 + 1, "l_partkey": rng.integers(0, counts["part"], rows),
            "l_suppkey": rng.integers(0, counts["supplier"], rows), "l_quantity": quantity,
            "l_extendedprice": np.round(quantity * (900 + rng.random(rows) * 1100), 2),
            "l_discount": rng.integers(0, 11, rows) / 100, "l_tax": rng.integers(0, 9, rows) / 100,
            "l_returnflag": drawn(["A", "N", "R"], rows), "l_linestatus": drawn(["F", "O"], rows),
            "l_shipdate": shipped,
            "l_commitdate": ordered[order] + rng.integers(30, 91, rows).astype("m8[D]"),
            "l_receiptdate": shipped + rng.integers(1, 31, rows).astype("m8[D]"),
            "l_shipmode": drawn(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"], rows)}),
        "orders": pa.table({
            "o_orderkey": np.arange(counts["orders"]) * 4 + 1,
            "o_custkey": rng.integers(0, counts["customer"], counts["orders"]),
            "o_orderdate": ordered, "o_totalprice": rng.random(counts["orders"]) * 5e5,
            "o_orderpriority": drawn(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED",
                                      "5-LOW"], counts["orders"])}),
        "customer": pa.table({
            "c_custkey": np.arange(counts["customer"]),
            "c_nationkey": rng.integers(0, 25, counts["customer"]),
            "c_mktsegment": drawn(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD",
                                   "MACHINERY"], counts["customer"])}),
        "part": pa.table({
            "p_partkey": np.arange(counts["part"]), "p_size": rng.integers(1, 51, counts["part"]),
            "p_brand": drawn([f"Brand#{i}{j}" for i in range(1, 6) for j in range(1, 6)],
                             counts["part"]),
            "p_type": drawn(["ECONOMY TIN", "PROMO ANODIZED", "PROMO BRUSHED", "SMALL PLATED",
                             "STANDARD POLISHED"], counts["part"])}),
        "supplier": pa.table({
            "s_suppkey": np.arange(counts["supplier"]),
            "s_nationkey": rng.integers(0, 25, counts["supplier"])}),
        "nation": pa.table({
            "n_nationkey": np.arange(25), "n_name": [f"NATION{k:02}" for k in range(25)],
            "n_regionkey": np.arange(25) % 5}),
    }


QUERIES: dict[str, str] = {
    "Q1 pricing summary": """SELECT l_returnflag, l_linestatus, SUM(l_quantity),
        SUM(l_extendedprice), SUM(l_extendedprice * (1 - l_discount)),
        SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)), AVG(l_quantity),
        AVG(l_extendedprice), AVG(l_discount), COUNT(*) FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02' GROUP BY 1, 2 ORDER BY 1, 2""",
    "Q3 shipping priority": """SELECT l_orderkey,
        SUM(l_extendedprice * (1 - l_discount)) AS revenue,
        o_orderdate FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING'
        AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15'
        AND l_shipdate > DATE '1995-03-15' GROUP BY l_orderkey, o_orderdate
        ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    "Q4 order priority": """SELECT o_orderpriority, COUNT(*) FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey
        AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority ORDER BY 1""",
    "Q5 local supplier": """SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation WHERE c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        AND s_nationkey = n_nationkey AND n_regionkey = 2 AND o_orderdate >= DATE '1994-01-01'
        AND o_orderdate < DATE '1995-01-01' GROUP BY n_name ORDER BY revenue DESC""",
    "Q6 revenue change": """SELECT SUM(l_extendedprice * l_discount) FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q12 shipping modes": """SELECT l_shipmode, SUM(CASE WHEN o_orderpriority IN ('1-URGENT',
        '2-HIGH') THEN 1 ELSE 0 END), COUNT(*) FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
        AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
        GROUP BY l_shipmode ORDER BY 1""",
    "Q14 promotion effect": """SELECT 100 * SUM(CASE WHEN p_type LIKE 'PROMO%'
        THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / SUM(l_extendedprice * (1 - l_discount)) FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
        AND l_shipdate < DATE '1995-10-01'""",
    "Q17 small quantities": """SELECT SUM(l_extendedprice) / 7.0 FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND l_quantity <
        (SELECT 0.4 * AVG(l_quantity) FROM lineitem l2 WHERE l2.l_partkey = p_partkey)""",
    "Q18 large orders": """SELECT o_custkey, o_orderkey, SUM(l_quantity) FROM orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
        HAVING SUM(l_quantity) > 300) AND o_orderkey = l_orderkey
        GROUP BY o_custkey, o_orderkey ORDER BY 3 DESC, 2 LIMIT 100""",
    "group by one key": """SELECT l_partkey, COUNT(*), SUM(l_quantity), MAX(l_extendedprice)
        FROM lineitem GROUP BY l_partkey""",
    "group by two keys": """SELECT l_partkey, l_suppkey, SUM(l_quantity) FROM lineitem
        GROUP BY l_partkey, l_suppkey""",
    "count distinct": """SELECT l_shipmode, COUNT(DISTINCT l_suppkey) FROM lineitem
        GROUP BY l_shipmode""",
    "first rows in order": """SELECT l_orderkey, l_extendedprice FROM lineitem
        ORDER BY l_extendedprice DESC, l_orderkey LIMIT 1000""",
    "all rows in order": "SELECT l_extendedprice FROM lineitem ORDER BY l_extendedprice",
    "filter to rows": """SELECT l_orderkey, l_extendedprice * (1 - l_discount) FROM lineitem
        WHERE l_shipdate > DATE '1997-01-01' AND l_quantity < 10""",
    "join to rows": """SELECT l_orderkey, o_orderdate, l_quantity FROM lineitem
        JOIN orders ON l_orderkey = o_orderkey WHERE o_totalprice > 400000""",
}
