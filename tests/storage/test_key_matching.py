"""Equal keys are found as nested loops over Python's values find them, by NumPy and by kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.storage import key_matching
from tensorel.storage.key_matching import group_ids, pairs, rows_with_match
from tensorel.storage.ordered_groups import ordered_groups

Rows = list[tuple[Any, ...]]


@pytest.fixture(params=["numpy", "kernels"], autouse=True)
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(key_matching, "MIN_NATIVE_ROWS",
                        0 if request.param == "kernels" else 1 << 62)
    yield


def rows_of(columns: list[np.ndarray], valid: np.ndarray | None = None) -> Rows:
    found = list(zip(*(c.tolist() for c in columns)))
    return found if valid is None else [r if v else (float("nan"),) for r, v in zip(found, valid)]


def nested(left: Rows, right: Rows, how: str) -> list[tuple[int, int]]:
    found, met = [], set()
    for i, a in enumerate(left):
        here = [j for j, b in enumerate(right) if len(a) == len(b)
                and all(x == y for x, y in zip(a, b))]
        met |= set(here)
        found += [(i, j) for j in here] or ([(i, -1)] if how in ("left", "outer") else [])
    if how in ("right", "outer"):
        found += [(-1, j) for j in range(len(right)) if j not in met]
    return found


def column(rng: np.random.Generator, kind: str, count: int, values: int) -> np.ndarray:
    drawn = rng.integers(-values, values, count)
    if kind == "wide":
        return drawn * 10**15
    if kind == "float":
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 2.0**53, 2.0**64, 0.5])
        return np.where(rng.random(count) < 0.3, rng.choice(special, count), drawn / 2)
    if kind == "uint64":
        return np.where(drawn < 0, np.uint64(2**64 - 5), drawn.astype(np.uint64))
    if kind == "complex":
        return drawn + 1j * rng.integers(0, 2, count)
    if kind == "datetime":
        return drawn.astype("datetime64[D]")
    return drawn.astype(kind)


KINDS = ("int64", "wide", "int8", "uint64", "bool", "float", "complex")


@pytest.mark.parametrize("seed", range(24))
def test_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arity, sizes = rng.integers(1, 4), rng.integers(0, 60, 2)
    values = int(rng.integers(1, 8))
    sides = [[column(rng, rng.choice(KINDS), n, values) for _ in range(arity)] for n in sizes]
    valid = rng.random(sizes[0]) < 0.8
    for how in ("inner", "left", "right", "outer"):
        found = pairs(sides[0], sides[1], how, left_valid=valid)
        wanted = nested(rows_of(sides[0], valid), rows_of(sides[1]), how)
        assert list(zip(*(p.tolist() for p in found))) == wanted
    flags = rows_with_match(sides[0], sides[1], left_valid=valid)
    matched = {i for i, _ in nested(rows_of(sides[0], valid), rows_of(sides[1]), "inner")}
    assert set(np.flatnonzero(flags).tolist()) == matched


@pytest.mark.parametrize("seed", range(12))
def test_groups_are_numbered_by_first_appearance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, arity = int(rng.integers(1, 80)), int(rng.integers(1, 5))
    columns = [column(rng, rng.choice([*KINDS, "datetime"]), count, 3) for _ in range(arity)]
    absent = rng.random(count) < 0.2
    found = group_ids(columns, [absent] + [None] * (arity - 1))
    seen: dict[tuple[str, ...], int] = {}
    rows = [tuple("nan" if x != x else complex(x) if np.iscomplexobj(x) else x for x in row)
            for row in rows_of(columns)]
    rows = [("null", *r[1:]) if gone else r for r, gone in zip(rows, absent)]
    wanted = [seen.setdefault(r, len(seen)) for r in rows]
    assert found.ids.tolist() == wanted
    assert found.first.tolist() == [wanted.index(g) for g in range(found.count)]


@pytest.mark.parametrize("spread", [1, 10**9])
@pytest.mark.parametrize("hits", [0.05, 1.0])
def test_long_lists(spread: int, hits: float) -> None:
    """Tables that grow, filters, and threads."""
    rng = np.random.default_rng(0)
    build = rng.permutation(200_000)[:90_000] * spread
    probe = np.where(rng.random(600_000) < hits, rng.choice(build, 600_000),
                     rng.integers(200_001, 400_000, 600_000) * spread)
    with tr.options(threads=2):
        i, j = pairs([probe], [build])
    order = np.argsort(build)
    at = np.minimum(np.searchsorted(build[order], probe), build.size - 1)
    hit = build[order][at] == probe
    assert np.array_equal(i, np.flatnonzero(hit))
    assert np.array_equal(j, order[at][hit])


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_a_side_without_rows(how: str) -> None:
    some, none = [np.array([3, 1, 3])], [np.empty(0, np.int64)]
    for left, right in ((some, none), (none, some), (none, none)):
        found = list(zip(*[p.tolist() for p in pairs(left, right, how)]))
        assert found == nested(rows_of(left), rows_of(right), how)
        assert not rows_with_match(left, right).any()
    nulls = np.zeros(3, bool)
    assert [p.size for p in pairs(some, some, "inner", nulls, nulls)] == [0, 0]


@pytest.mark.parametrize("columns", [
    [[3, 1, 3, -2]], [[3.5, np.nan, -0.0, 0.0, np.nan]], [[True, False, True], [5, 5, 4]],
    [[2**63, 2**64 - 1, 2**63]], [[10**15, 0, 10**15], [1, 2, 1]], [[]]])
def test_groups_in_order_of_their_keys(columns: list[list[Any]]) -> None:
    given = [np.array(c, "u8" if c and c[0] == 2**63 else None) for c in columns]
    found = ordered_groups(given)
    rows = [tuple(r) for r in zip(*columns)]
    order = sorted(dict.fromkeys(str(r) if r != r or any(x != x for x in r) else r for r in rows),
                   key=lambda r: (isinstance(r, str), r))
    ranks = [order.index(str(r) if any(x != x for x in r) else r) for r in rows]
    assert found.ids.tolist() == ranks
    assert found.first.tolist() == [ranks.index(k) for k in range(len(order))]


def test_whole_numbers_are_not_rounded() -> None:
    exact = np.array([2**53, 2**53 + 1])
    assert rows_with_match([exact], [np.array([2.0**53])]).tolist() == [True, False]


def test_refusals() -> None:
    with pytest.raises(tr.errors.TypeError_, match="encode strings"):
        group_ids([np.array(["a"])])
    with pytest.raises(tr.errors.ShapeError, match="one length"):
        group_ids([np.zeros(2), np.zeros(3)])
    with pytest.raises(tr.errors.TensorelError, match="1 left and 2 right"):
        pairs([np.zeros(2)], [np.zeros(2), np.zeros(2)])
    with pytest.raises(tr.errors.TypeError_, match="cannot be equal"):
        pairs([np.zeros(2)], [np.zeros(2, "datetime64[D]")])
