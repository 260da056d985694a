"""Aggregates and groups are what plain Python gives: some see every cell, some the entries."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relational_support import entries, random_array, same, stored

import tensorel as tr


def nan_or(values: list[Any], f: Callable[[list[Any]], Any]) -> Any:
    return math.nan if any(v != v for v in values) else f(values)


def first_of(values: list[Any], best: Any) -> int:
    for k, v in enumerate(values):
        if v != v or (v == best and not any(x != x for x in values)):
            return k
    raise AssertionError


def distinct(values: list[Any]) -> int:
    return len({v for v in values if v == v}) + any(v != v for v in values)


#: Of all cells of a group.
CELLS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum, "mean": lambda v: nan_or(v, statistics.fmean), "max": lambda v: nan_or(v, max),
    "min": lambda v: nan_or(v, min), "nnz": lambda v: sum(x != 0 for x in v),
    "median": lambda v: nan_or(v, statistics.median),
    "argmax": lambda v: first_of(v, max(v)), "argmin": lambda v: first_of(v, min(v)),
    "quantile(0.25)": lambda v: nan_or(v, lambda x: float(np.quantile(x, 0.25))),
    "quantile(1.0)": lambda v: nan_or(v, max),
}
#: Of the entries of a group.
ENTRIES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len, "avg": lambda v: sum(v) / len(v) if v else math.nan,
    "count_distinct": distinct, "count distinct": distinct,
    "first": lambda v: v[0] if v else None, "last": lambda v: v[-1] if v else None,
}
DIMS: dict[Any, tuple[int, ...]] = {"row": (1,), "col": (0,), "all": (0, 1), (0,): (0,), 1: (1,),
                                    (1, 0): (0, 1), (): ()}
FILLS: list[tuple[str, Any]] = [("float64", 0.0), ("float64", 1.0), ("float64", np.nan),
                                ("int64", 0), ("float32", 0.0)]


def cells(a: np.ndarray, axes: tuple[int, ...], at: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The cells of one group, in C order."""
    ranges, given = [], iter(at)
    for k, n in enumerate(a.shape):
        ranges.append(range(n) if k in axes else [next(given)])
    return [p for p in np.ndindex(a.shape) if all(i in r for i, r in zip(p, ranges))]


def expected(a: np.ndarray, fill: Any, fn: str, axes: tuple[int, ...]) -> np.ndarray:
    there = entries(a, fill)
    shape = tuple(n for k, n in enumerate(a.shape) if k not in axes)
    made = np.empty(shape)
    for at in np.ndindex(shape):
        group = cells(a, axes, at)
        if fn in CELLS:
            made[at] = CELLS[fn]([a[p].item() for p in group])
        else:
            value = ENTRIES[fn]([there[p] for p in group if p in there])
            made[at] = fill if value is None else value
    return made


@pytest.mark.parametrize("fn", [*CELLS, *ENTRIES])
def test_aggregates(fn: str) -> None:
    rng = np.random.default_rng(len(fn))
    for dtype, fill in FILLS:
        a = random_array(rng, (5, 4), dtype, fill)
        t = stored(rng, a, fill)
        for dim, axes in DIMS.items():
            if dim == () and fn.startswith(("arg", "quant", "median")):
                continue
            same(t.aggregate(fn, dim), expected(a, fill, fn, axes), (fn, dtype, fill, dim))
        diagonal = np.diagonal(a).copy()
        same(t.aggregate(fn, "diag"), expected(diagonal, fill, fn, (0,)), (fn, dtype, "diag"))


@pytest.mark.parametrize("fn", ["sum", "avg", "median", "argmax", "last", "count_distinct"])
def test_tensors_of_any_rank(fn: str) -> None:
    rng = np.random.default_rng(9)
    a = random_array(rng, (3, 2, 4), "float64", 0.0)
    t = stored(rng, a, 0.0)
    for axes in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
        same(t.aggregate(fn, axes), expected(a, 0.0, fn, axes), (fn, axes))


def test_sparse_aggregates_of_many_cells() -> None:
    n = 10**9
    t = tr.from_coo([[5, 5, 7], [1, n - 1, 3]], [4.0, 2.0, 4.0], (10, n))
    assert t.aggregate("last", "row").to_numpy()[5] == 2.0
    assert t.aggregate("median", "row").to_numpy().tolist() == [0.0] * 10
    assert t.aggregate("quantile(1)", "all").item() == 4.0
    assert t.aggregate("count_distinct", "all").item() == 2
    assert t.aggregate("argmax", "row").to_numpy()[7] == 3


@pytest.mark.parametrize("keys, f", [
    ("rid", lambda i, j: (i,)), ("cid", lambda i, j: (j,)), ("rid % 3", lambda i, j: (i % 3,)),
    (["rid", "cid"], lambda i, j: (i, j)), ("rid // 2, cid % 2", lambda i, j: (i // 2, j % 2)),
    ("abs(rid - cid)", lambda i, j: (abs(i - j),)), ("rid / 2", lambda i, j: (i / 2,)),
])
@pytest.mark.parametrize("fn", ["sum", "count", "avg", "mean", "max", "min", "first", "last",
                                "nnz", "median", "count distinct"])
def test_groups(keys: Any, f: Callable[..., Any], fn: str) -> None:
    rng = np.random.default_rng(11)
    plain: dict[str, Callable[[list[Any]], Any]] = {**CELLS, **ENTRIES, "mean": ENTRIES["avg"]}
    for dtype, fill in FILLS:
        a = random_array(rng, (7, 4), dtype, fill)
        groups: dict[Any, list[Any]] = {}
        for at, v in entries(a, fill).items():
            groups.setdefault(f(*at), []).append(v)
        found = stored(rng, a, fill).group_by(keys).agg(fn)
        wanted = [(*k, plain[fn](groups[k])) for k in sorted(groups)]
        assert [r[:-1] for r in found.rows()] == [r[:-1] for r in wanted]
        np.testing.assert_allclose([r[-1] for r in found.rows()], [r[-1] for r in wanted],
                                   rtol=1e-6)


def test_having_and_several_aggregates() -> None:
    A = tr.asarray([[1, 0, 2], [0, 0, 3], [4, 4, 4]])
    found = A.group_by("rid").agg(["sum", "count"], having="count >= 2 and sum < 12")
    assert found.columns == ["rid", "sum", "count"]
    assert found.rows() == [(0, 3, 2)]
    assert A.group_by("rid").agg("sum", having="avg = 4 or rid = 1").rows() == [(1, 3), (2, 12)]
    assert A.group_by("cid").agg("max", having="max > 9").rows() == []
    assert (A * 0).group_by("rid").agg("sum").rows() == []


def test_a_relation_becomes_other_things() -> None:
    A = tr.asarray([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    found = A.group_by(["rid", "cid"]).agg("sum")
    assert "not computed yet" in repr(found)
    same(found.to_tensor(keys=["rid", "cid"], value="sum"), A.to_numpy())
    same(found.to_tensor(keys=["cid", "rid"], value="sum"), A.to_numpy().T)
    assert found.to_pandas().to_dict("list") == {
        "rid": [0, 0, 1], "cid": [0, 2, 2], "sum": [1.0, 2.0, 3.0]}
    assert found.to_polars().rows() == found.rows() == [(0, 0, 1.0), (0, 2, 2.0), (1, 2, 3.0)]
    assert found.to_arrow().num_rows == len(found) == 3
    with pytest.raises(tr.errors.KeyError_, match="no column 'row'"):
        found.to_tensor(keys=["row"], value="sum")


def test_refusals() -> None:
    A = tr.asarray(np.eye(3))
    with pytest.raises(tr.errors.ValueError_, match="'total' is not known"):
        A.aggregate("total", "row")
    with pytest.raises(tr.errors.ValueError_, match="dim 'rows'"):
        A.aggregate("sum", "rows")
    with pytest.raises(tr.errors.ShapeError, match="'row' is of matrices"):
        A[0].aggregate("sum", "row")
    with pytest.raises(tr.errors.ParseError, match="no attribute 'val'"):
        A.group_by("val")
    with pytest.raises(tr.errors.ParseError, match="no attribute 'total'"):
        A.group_by("rid").agg("sum", having="total > 3")
    with pytest.raises(tr.errors.ValueError_, match="'mode' is not known"):
        A.group_by("rid").agg("mode")
