"""Joins are what nested loops over the entries of both sides give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relational_support import dense, entries, joined, random_array, same, stored

import tensorel as tr

Match = Callable[..., bool]
#: Conditions: the text, its meaning over (coordinates, value) of both sides, and B's free axes.
ON: list[tuple[str, Match, tuple[int, ...]]] = [
    ("rid = rid and cid = cid", lambda p, x, q, y: p == q, ()),
    ("rid = cid and cid = rid", lambda p, x, q, y: p == q[::-1], ()),
    ("rid = rid", lambda p, x, q, y: p[0] == q[0], (1,)),
    ("rid = cid", lambda p, x, q, y: p[0] == q[1], (0,)),
    ("cid = rid", lambda p, x, q, y: p[1] == q[0], (1,)),
    ("cid = cid", lambda p, x, q, y: p[1] == q[1], (0,)),
    ("rid = rid + 1", lambda p, x, q, y: p[0] == q[0] + 1, (1,)),
    ("rid + cid = rid", lambda p, x, q, y: p[0] + p[1] == q[0], (1,)),
    ("rid = 2 * cid and cid = rid", lambda p, x, q, y: p[0] == 2 * q[1] and p[1] == q[0], ()),
    ("cid = 4 - rid", lambda p, x, q, y: p[1] == 4 - q[0], (1,)),
    ("rid = rid // 2", lambda p, x, q, y: p[0] == q[0] // 2, (0, 1)),
    ("rid % 2 = cid", lambda p, x, q, y: p[0] % 2 == q[1], (0,)),
    ("val = val", lambda p, x, q, y: x == y, (0, 1)),
    ("rid = val", lambda p, x, q, y: p[0] == y, (0, 1)),
    ("cid = val", lambda p, x, q, y: p[1] == y, (0, 1)),
    ("val = rid", lambda p, x, q, y: x == q[0], (0, 1)),
    ("val = cid and rid = rid", lambda p, x, q, y: x == q[1] and p[0] == q[0], (1,)),
    ("val = val and rid = rid", lambda p, x, q, y: x == y and p[0] == q[0], (1,)),
    ("val + 1 = val * 2", lambda p, x, q, y: x + 1 == y * 2, (0, 1)),
    ("rid between rid - 1 and rid + 1", lambda p, x, q, y: q[0] - 1 <= p[0] <= q[0] + 1, (0, 1)),
    ("rid < rid", lambda p, x, q, y: p[0] < q[0], (0, 1)),
    ("val < val", lambda p, x, q, y: x < y, (0, 1)),
    ("val >= val and rid = rid", lambda p, x, q, y: x >= y and p[0] == q[0], (1,)),
    ("val between val - 1 and val", lambda p, x, q, y: y - 1 <= x <= y, (0, 1)),
    ("rid >= rid and val > val and cid != cid",
     lambda p, x, q, y: p[0] >= q[0] and x > y and p[1] != q[1], (0, 1)),
    ("rid = rid and val != val",
     lambda p, x, q, y: p[0] == q[0] and x != y and x == x and y == y, (1,)),
    ("rid = rid and cid <= rid", lambda p, x, q, y: p[0] == q[0] and p[1] <= q[0], (1,)),
    ("cid = 2 * rid and rid != rid and val >= rid",
     lambda p, x, q, y: p[1] == 2 * q[0] and p[0] != q[0] and x >= q[0], (1,)),
    ("val > 0 and rid = rid", lambda p, x, q, y: x > 0 and p[0] == q[0], (1,)),
    ("rid = 1", lambda p, x, q, y: p[0] == 1, (0, 1)),
]
#: Merge functions of the paper, and others: each as Python's function of numbers, too.
MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x * y, "sum": lambda x, y: x + y, "first": lambda x, y: x,
    "difference": lambda x, y: x - 2 * y, "maximum": lambda x, y: np.maximum(x, y),
    "constant": lambda x, y: 1.5, "greater": lambda x, y: x > y,
    "branches": lambda x, y: x * 1.0 if x > y else y * 2.0,
}
KINDS: list[tuple[str, Any, str, Any]] = [
    ("float64", 0.0, "float64", 0.0), ("int64", 0, "float64", 0.0), ("float64", 1.0, "int64", 2),
    ("float64", np.nan, "float64", 0.0), ("int64", 0, "uint8", 0), ("float32", 0.0, "int32", 1)]


@pytest.mark.parametrize("on, match, kept", ON, ids=[o for o, _, _ in ON])
def test_inner(on: str, match: Match, kept: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(on))
    for k, (a_type, a_fill, b_type, b_fill) in enumerate(KINDS):
        a = random_array(rng, (5, 4), a_type, a_fill)
        b = random_array(rng, (4, 6) if k % 2 else (6, 3), b_type, b_fill)
        name = list(MERGES)[int(rng.integers(len(MERGES)))]
        merge = MERGES[name]
        t = stored(rng, a, a_fill).join(stored(rng, b, b_fill), on, merge)
        found = joined(entries(a, a_fill), entries(b, b_fill), match, merge, kept)
        shape = (*a.shape, *(b.shape[axis] for axis in kept))
        same(t, dense(found, shape, 0, t.dtype), (on, name, a_type, a_fill, b_type, b_fill))
        assert float(t.fill) == 0.0


@pytest.mark.parametrize("how", ["left", "outer"])
@pytest.mark.parametrize("on, match", [(o, m) for o, m, kept in ON[:2]])
@pytest.mark.parametrize("name", ["product", "sum", "difference", "maximum", "constant"])
def test_overlays(how: str, on: str, match: Match, name: str) -> None:
    rng = np.random.default_rng(len(on) + len(name))
    merge = MERGES[name]
    for a_type, a_fill, b_type, b_fill in KINDS:
        a = random_array(rng, (5, 4), a_type, a_fill)
        b = random_array(rng, (4, 6), b_type, b_fill)
        ours, others = entries(a, a_fill), entries(b, b_fill)
        found = {}
        for at in np.ndindex(a.shape):
            x, y = ours.get(at), others.get(at if "rid = rid" in on else at[::-1])
            if x is not None or (how == "outer" and y is not None):
                found[at] = merge(x or 0, y or 0)
        t = stored(rng, a, a_fill).join(stored(rng, b, b_fill), on, merge, how=how)
        same(t, dense(found, a.shape, 0, t.dtype), (how, on, name, a_type, b_type))


@pytest.mark.parametrize("on, match", [
    ("rid = rid and cid = cid and val < val", lambda p, x, q, y: p == q and x < y),
    ("rid = rid and cid = cid and val = val", lambda p, x, q, y: p == q and x == y),
    ("rid = cid and cid = rid and rid > 1", lambda p, x, q, y: p == q[::-1] and p[0] > 1),
])
def test_left_overlays_with_more_conditions(on: str, match: Match) -> None:
    rng = np.random.default_rng(8)
    for a_type, a_fill, b_type, b_fill in KINDS:
        a = random_array(rng, (5, 4), a_type, a_fill)
        b = random_array(rng, (4, 6), b_type, b_fill)
        ours, others = entries(a, a_fill), entries(b, b_fill)
        found = {p: next((x - y for q, y in others.items() if match(p, x, q, y)), x - 0)
                 for p, x in ours.items()}
        t = stored(rng, a, a_fill).join(stored(rng, b, b_fill), on, lambda x, y: x - y, how="left")
        same(t, dense(found, a.shape, 0, t.dtype), (on, a_type, b_type))


def test_left_join_by_a_function_that_branches() -> None:
    a, b = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [0.0, 2.0]])
    found = tr.asarray(a).join(b, "rid = rid and cid = cid",
                               lambda x, y: x if x > y else -y, how="left")
    same(found, np.array([[-5.0, 0.0], [3.0, 4.0]]))


@pytest.mark.parametrize("name", ["product", "sum", "constant", "branches"])
def test_cross(name: str) -> None:
    rng = np.random.default_rng(1)
    merge = MERGES[name]
    for a_type, a_fill, b_type, b_fill in KINDS:
        a = random_array(rng, (3, 4), a_type, a_fill)
        b = random_array(rng, (5,), b_type, b_fill)
        found = joined(entries(a, a_fill), entries(b, b_fill), lambda *_: True, merge, (0,))
        t = stored(rng, a, a_fill).cross(stored(rng, b, b_fill), merge)
        same(t, dense(found, (3, 4, 5), 0, t.dtype), (name, a_type, b_type))


def test_tensors_of_any_rank() -> None:
    rng = np.random.default_rng(2)
    a = random_array(rng, (3, 4, 2), "float64", 0.0)
    b = random_array(rng, (4, 3), "float64", 0.0)
    ours, others = entries(a, 0.0), entries(b, 0.0)
    for on, match, kept in [
            ("i1 = i0", lambda p, x, q, y: p[1] == q[0], (1,)),
            ("i1 = i0 and i0 = i1", lambda p, x, q, y: p[1] == q[0] and p[0] == q[1], ()),
            ("i2 < i1 and i1 = i0", lambda p, x, q, y: p[2] < q[1] and p[1] == q[0], (1,)),
            ("val = val and i1 = i0", lambda p, x, q, y: x == y and p[1] == q[0], (1,))]:
        t = stored(rng, a, 0.0).join(stored(rng, b, 0.0), on, lambda x, y: x - y)
        found = joined(ours, others, match, lambda x, y: x - y, kept)
        same(t, dense(found, (*a.shape, *(b.shape[k] for k in kept)), 0, float), on)


def test_large_joins_stay_sparse() -> None:
    """Extents whose product no array could have."""
    n = 10**6
    rng = np.random.default_rng(3)
    at = rng.integers(0, n, (2, 300))
    values = rng.integers(1, 40, 300).astype(float)
    A = tr.from_coo(at, values, (n, n), duplicates="last")
    J = A.join(A, "val = val", lambda x, y: x + y)
    assert J.shape == (n,) * 4
    counts = np.unique(values, return_counts=True)[1]
    assert J.nnz == (counts**2).sum()
    band = A.join(A, "rid between rid - 5 and rid + 5", lambda x, y: x)
    rows = at[0]
    assert band.nnz == (abs(rows[:, None] - rows) <= 5).sum()
    assert A.cross(A, lambda x, y: x * y).nnz == 300**2


def test_refusals() -> None:
    A = tr.asarray(np.eye(3))
    with pytest.raises(tr.errors.ParseError, match="comparisons joined by 'and'") as error:
        A.join(A, "rid = rid or cid = cid", lambda x, y: x)
    assert error.value.position == 0
    with pytest.raises(tr.errors.ParseError, match="no attribute 'kid'"):
        A.join(A, "rid = kid", lambda x, y: x)
    with pytest.raises(tr.errors.ValueError_, match="leaves axes 1 of B free"):
        A.join(A, "rid = rid", lambda x, y: x, how="left")
    with pytest.raises(tr.errors.ValueError_, match="by equal dimensions alone"):
        A.join(A, "rid = rid and cid = cid and val < val", lambda x, y: x, how="outer")
    with pytest.raises(tr.errors.ValueError_, match="how='full'"):
        A.join(A, "rid = rid", lambda x, y: x, how="full")
    with pytest.raises(tr.errors.TypeError_, match="merge is a function"):
        A.join(A, "rid = rid", 3)  # type: ignore[arg-type]
    with pytest.raises(tr.errors.UnsupportedError, match="cannot be traced"):
        A.join(A, "rid = rid and cid = cid", lambda x, y: x if x > y else y, how="outer")
    with pytest.raises(tr.errors.TypeError_, match="found by a trial"):
        A.join(A * 2, "rid = rid", lambda x, y: 1 if y < 2 else 0.5).compute()
