"""Selections are what a comprehension over the entries gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relational_support import dense, entries, random_array, same, stored

import tensorel as tr

#: Predicates that keep the shape: as text, as Python's lambda, and as a function that is traced.
KEPT: list[tuple[str, Callable[..., Any]]] = [
    ("val > 0.5", lambda i, j, v: v > 0.5),
    ("val = 1", lambda i, j, v: v == 1),
    ("val != 1", lambda i, j, v: v != 1),
    ("val <> 1 and rid >= 2", lambda i, j, v: (v != 1) & (i >= 2)),
    ("rid between 1 and 3", lambda i, j, v: (i >= 1) & (i <= 3)),
    ("rid not between 1 and 3", lambda i, j, v: ~((i >= 1) & (i <= 3))),
    ("cid in (0, 2)", lambda i, j, v: (j == 0) | (j == 2)),
    ("not (cid in (0, 2) or val < 0)", lambda i, j, v: ~((j == 0) | (j == 2) | (v < 0))),
    ("rid < cid", lambda i, j, v: i < j),
    ("rid % 2 = 0 and (cid + rid) // 2 <= 2", lambda i, j, v: (i % 2 == 0) & ((j + i) // 2 <= 2)),
    ("abs(val) >= 2 or rid = cid", lambda i, j, v: (abs(v) >= 2) | (i == j)),
    ("RID <= 3 AND VAL * 2 > cid - 1", lambda i, j, v: (i <= 3) & (v * 2 > j - 1)),
    ("i0 = 1 or i1 = 1", lambda i, j, v: (i == 1) | (j == 1)),
    ("true", lambda i, j, v: (i == i)),
]
FILLS: list[tuple[str, Any]] = [("float64", 0.0), ("float64", 2.0), ("float64", np.nan),
                                ("int64", 0), ("int32", 1), ("float32", 0.0), ("bool", False),
                                ("uint8", 0)]


@pytest.mark.parametrize("text, function", KEPT, ids=[t for t, _ in KEPT])
def test_same_shape(text: str, function: Callable[..., Any]) -> None:
    rng = np.random.default_rng(len(text))
    for dtype, fill in FILLS:
        if dtype == "bool" and "val *" in text.lower():
            continue
        array = random_array(rng, (5, 4), dtype, fill)
        t = stored(rng, array, fill)
        wanted = dense({at: v for at, v in entries(array, fill).items()
                        if bool(function(np.int64(at[0]), np.int64(at[1]), np.float64(v)))},
                       (5, 4), fill, dtype)
        same(t.select(text), wanted, (text, dtype, fill))
        same(t.select(function), wanted, (text, dtype, fill))
        assert t.select(text).dtype == dtype


def test_equalities_take_axes_away() -> None:
    rng = np.random.default_rng(3)
    for dtype, fill in FILLS:
        a = random_array(rng, (5, 4), dtype, fill)
        t = stored(rng, a, fill)
        same(t.select("rid = 3"), a[3])
        same(t.select("3 = cid"), a[:, 3])
        same(t.select(lambda i, j, v: i == 3), a[3])
        same(t.select("rid = cid"), np.diagonal(a))
        same(t.select("cid = rid and rid = 2"), a[2, 2])
        same(t.select("rid = 1 and cid = 2"), a[1, 2])
        same(t.select("not (rid != 1)"), a[1])
        nothing = np.full(4, fill, dtype)
        for outside in ("rid = 5", "rid = -1", "rid = 2.5", "rid = 1 and rid = 2"):
            same(t.select(outside), nothing, outside)
        kept = np.where([bool(v > 0.5) for v in a[3].astype(float)], a[3],
                        np.asarray(fill, dtype))
        same(t.select("rid = 3 and val > 0.5"), kept)


def test_tensors_of_any_rank() -> None:
    rng = np.random.default_rng(4)
    a = random_array(rng, (3, 5, 4), "float64", 0.0)
    t = stored(rng, a, 0.0)
    same(t.select("i1 = 2"), a[:, 2])
    merged = np.stack([a[k, :, k] for k in range(3)])
    same(t.select("i0 = i2"), merged)
    same(t.select("i2 = i0 and i1 = 4"), merged[:, 4])
    same(t.select(lambda i, j, k, v: (i == j) & (j == k)), a[range(3), range(3), range(3)])
    at = np.indices(a.shape)
    same(t.select("i0 + i1 > i2 and val < 0"), np.where((at[0] + at[1] > at[2]) & (a < 0), a, 0))
    v = tr.asarray(a[0, 0])
    same(v.select("rid = 1"), a[0, 0, 1])
    same(v.select("i0 >= 1"), np.where(np.arange(4) >= 1, a[0, 0], 0))


def test_empty() -> None:
    t = tr.zeros((0, 3))
    assert t.select("val > 1").shape == (0, 3)
    assert t.select("rid = 0").to_numpy().tolist() == [0, 0, 0]
    assert t.select("rid = cid").shape == (0,)


@pytest.mark.parametrize("fill", [0.0, 1.0, np.nan])
def test_drop_empty(fill: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(4):
        a = random_array(rng, (6, 5), "float64", fill)
        a[:, 2] = fill
        t = stored(rng, a, fill)
        differs = (a == a) if fill != fill else ~(a == fill)
        same(t.drop_empty(0), a[differs.any(axis=1)])
        same(t.drop_empty(1), a[:, differs.any(axis=0)])
    cube = tr.asarray(np.zeros((2, 3, 4)))
    assert cube.drop_empty(1).shape == (2, 0, 4)


@pytest.mark.parametrize("text, place, message", [
    ("rid = ", 6, "expected an attribute"), ("rid = 1 and", 11, "expected an attribute"),
    ("row = 1", 0, "no attribute 'row'"), ("val", 0, "a number, not a condition"),
    ("rid + (val > 1) = 2", 11, "a condition stands"), ("1 < rid < 3", 8, "cannot be chained"),
    ("rid between 1", 13, "expected 'and'"), ("rid = 'pen'", 6, "a text stands"),
    ("rid ? 1", 4, "unexpected character"), ("val and rid = 1", 0, "this is a number"),
    ("nosuch(val) > 1", 0, "no function"), ("rid not 3", 8, "'between' or 'in'"),
    ("rid = 1 / 0", 8, "division by zero"),
])
def test_errors_mark_their_place(text: str, place: int, message: str) -> None:
    with pytest.raises(tr.errors.ParseError, match=message) as error:
        tr.asarray(np.eye(3)).select(text)
    assert error.value.position == place


def test_functions_that_cannot_be_traced() -> None:
    t = tr.asarray(np.eye(3))
    with pytest.raises(tr.errors.TypeError_, match="cannot branch"):
        t.select(lambda i, j, v: i == 0 and v > 0)
    with pytest.raises(tr.errors.TypeError_, match="not a condition"):
        t.select(lambda i, j, v: v)
    with pytest.raises(tr.errors.TypeError_, match="is no predicate"):
        t.select(3)  # type: ignore[arg-type]
