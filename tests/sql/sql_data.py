"""Relations for queries: tensors and tables for us, the same rows as tables for DuckDB."""

from __future__ import annotations

import datetime as dt
from functools import cache
from typing import Any

import numpy as np

import tensorel as tr

duckdb: Any = __import__("duckdb")
pa: Any = __import__("pyarrow")
pd: Any = __import__("pandas")


def _matrix(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> np.ndarray:
    values = rng.integers(-3, 4, shape) * 0.5
    return np.where(rng.random(shape) < share, values, 0.0)


@cache
def tensors() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    adjacent = (rng.random((9, 9)) < 0.35).astype(np.int64)
    return {
        "A": tr.tensor(_matrix(rng, (8, 7), 0.5), format="csr"),
        "B": tr.tensor(_matrix(rng, (7, 9), 0.5), format="csc"),
        "C": tr.tensor(_matrix(rng, (9, 8), 0.4), format="coo"),
        "G": tr.tensor(adjacent, format="csr"),
        "T": tr.tensor(_matrix(rng, (5, 4, 6), 0.3), format="csf"),
        "V": tr.asarray(_matrix(rng, (7,), 0.7)),
        "F": tr.tensor(np.where(rng.random((6, 6)) < 0.3, 2.0, 1.0), format="csr", fill=1.0),
        "M": tr.tensor(rng.random((7, 9)) < 0.3, format="csr"),
        "E": tr.tensor(np.zeros((4, 5)), format="csr"),
    }


@cache
def tables() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    names = ["pen", "ink", "paper", "Desk", "chair", "lamp", "éclair", "zip tie", "", "pen"]
    day = dt.date(2023, 12, 25)
    items = pd.DataFrame({
        "id": np.arange(len(names)),
        "name": names,
        "kind": ["office", "office", None, "room", "room", "room", "food", None, "none", "office"],
        "price": [1.5, 3.0, 0.25, 120.0, 80.5, 33.0, 2.75, None, 0.0, 1.75],
        "stock": pd.array([5, None, 100, 1, 0, 7, None, 12, -3, 5], dtype="Int64"),
        "added": [day + dt.timedelta(days=17 * k) for k in range(len(names))],
    })
    count = 160
    amount = np.round(rng.normal(10, 6, count), 1)
    sales = pd.DataFrame({
        "id": np.arange(count),
        "item": pd.array([int(k) if rng.random() > 0.08 else None
                          for k in rng.integers(0, 13, count)], dtype="Int64"),
        "day": [day + dt.timedelta(days=int(k)) for k in rng.integers(0, 430, count)],
        "amount": pd.array([None if rng.random() < 0.1 else a for a in amount], dtype="Float64"),
        "qty": rng.integers(1, 6, count).astype(np.int32),
        "note": [None if rng.random() < 0.2 else str(rng.choice(["ok", "late", "gift", "return"]))
                 for _ in range(count)],
        "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, count), "s"),
        "paid": rng.random(count) < 0.6,
    })
    people = pd.DataFrame({
        "id": np.arange(7),
        "name": ["Ada", "Bob", "Cy", "Dee", "Eve", "Flo", "Gus"],
        "boss": pd.array([None, 0, 0, 1, 1, 2, 9], dtype="Int64"),
        "axis": [0, 1, 2, 3, 4, 5, 20],
    })
    return {"items": items, "sales": sales, "people": people, "nums": _numbers(), "void": _none()}


def _numbers() -> Any:
    """Values at the edges: nan, infinities, zeros of both signs, dates before 1970, nulls in every
    column, texts with the characters of patterns."""
    rng, count = np.random.default_rng(13), 30
    reals = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 0.1, None]
    texts = ["50%", "a_b", "pen", "Ada", " p ", "ok", "é", None]
    days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1900, 3, 1), None,
            dt.date(2000, 1, 31)]
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12), None,
             dt.datetime(2024, 1, 5, 10)]

    def drawn(values: list[Any]) -> list[Any]:
        return [values[k] for k in rng.integers(0, len(values), count)]

    return pa.table({
        "k": pa.array(drawn([0, 1, 2, 3, -1, None]), pa.int64()),
        "g": pa.array(drawn([0, 1, 2, 2**40, None]), pa.int64()),
        "x": pa.array(drawn(reals), pa.float64()),
        "f": pa.array(drawn([np.nan, -0.0, 0.0, 1.5, -2.5, 0.5, None]), pa.float32()),
        "b": pa.array(drawn([True, False, None]), pa.bool_()),
        "t": pa.array(drawn(texts), pa.string()),
        "d": pa.array(drawn(days), pa.date32()),
        "ts": pa.array(drawn(times), pa.timestamp("us")),
    })


def _none() -> Any:
    types = {"k": pa.int64(), "x": pa.float64(), "t": pa.string(), "d": pa.date32(),
             "b": pa.bool_()}
    return pa.table({name: pa.array([], t) for name, t in types.items()})


@cache
def relations() -> dict[str, Any]:
    return {**tensors(), **tables()}


@cache
def oracle() -> Any:
    """A connection of DuckDB with the same relations."""
    found = duckdb.connect()
    found.execute("SET error_on_division_by_zero = false")
    for name, t in tensors().items():
        coords, values = t.to_coo()
        frame = pd.DataFrame({**{f"i{k}": c for k, c in enumerate(coords)}, "val": values})
        _create(found, name, frame, "*")
    for name, frame in tables().items():
        if isinstance(frame, pa.Table):
            _create(found, name, frame, "*")
            continue
        columns = ", ".join(f'CAST("{c}" AS DATE) AS "{c}"' if c in ("added", "day") else f'"{c}"'
                            for c in frame.columns)
        _create(found, name, frame, columns)
    return found


def _create(connection: Any, name: str, frame: Any, columns: str) -> None:
    connection.register("frame", frame)
    connection.execute(f'CREATE TABLE "{name}" AS SELECT {columns} FROM frame')
    connection.unregister("frame")
