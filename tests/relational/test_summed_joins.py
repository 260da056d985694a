"""Sums of joins on data are the sums of what nested loops give, and their pairs are not made."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from relational_support import dense, entries, joined, random_array, stored
from test_join import KINDS, MERGES, ON

import tensorel as tr
from tensorel.algebra.separation import separated
from tensorel.engines.in_process.entry_joins import sums
from tensorel.engines.in_process.entry_joins.meetings import Ranged
from tensorel.front.array.scalars import Tracer, traced
from tensorel.ir.monoids import steps_of
from tensorel.ir.nodes import Local

DATA = [case for case in ON if "val" in case[0] or "between" in case[0] or "<" in case[0]
        or "// 2" in case[0]]


@pytest.mark.parametrize("on, match, kept", DATA, ids=[o for o, _, _ in DATA])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_over_any_axes(on: str, match: Any, kept: tuple[int, ...],
                            monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(len(on))
    monkeypatch.setattr(sums, "_BLOCK_PAIRS", 3)
    monkeypatch.setattr(sums, "_WAITING_PAIRS", 5)
    rank = 2 + len(kept)
    over = [axes for n in range(1, rank + 1) for axes in itertools.combinations(range(rank), n)]
    for k, (a_type, a_fill, b_type, b_fill) in enumerate(KINDS):
        a = random_array(rng, (5, 4), a_type, a_fill)
        b = random_array(rng, (4, 6) if k % 2 else (6, 3), b_type, b_fill)
        name = list(MERGES)[int(rng.integers(len(MERGES)))]
        merge = MERGES[name]
        made = stored(rng, a, a_fill).join(stored(rng, b, b_fill), on, merge)
        found = joined(entries(a, a_fill), entries(b, b_fill), match, merge, kept)
        shape = (*a.shape, *(b.shape[axis] for axis in kept))
        pairs = dense(found, shape, 0, made.dtype)
        for axes in rng.permutation(np.array(over, object))[:3]:
            about = (on, name, a_type, a_fill, b_type, b_fill, axes)
            np.testing.assert_allclose(made.sum(axis=axes).to_numpy(), pairs.sum(axis=axes),
                                       rtol=1e-5, atol=1e-12, err_msg=str(about))


def tensors(values: int = 9) -> tuple[tr.Tensor, tr.Tensor]:
    rng = np.random.default_rng(0)
    return tuple(tr.from_coo(rng.integers(0, 40, (2, 300)), rng.integers(1, values, 300).astype(
        float), (40, 40), duplicates="last", format="csr") for _ in "ab")


def product(x: Any, y: Any) -> Any:
    return x * y


#: What is written, and over what its pairs are summed.
WRITTEN: dict[str, tuple[Any, str]] = {
    "all": (lambda A, B: A.join(B, "val = val", product).sum(), "a0, a1, b0, b1"),
    "rows": (lambda A, B: A.join(B, "val = val", product).aggregate("sum", (1, 2, 3)),
             "a1, b0, b1"),
    "rows of both": (lambda A, B: A.join(B, "val = val", product).sum(axis=(1, 3)), "a1, b1"),
    "average of entries": (lambda A, B: A.join(B, "rid = val", product).aggregate("avg"),
                           "a0, a1, b0, b1"),
    "count": (lambda A, B: A.join(B, "val < val", product).aggregate("count"), "a0, a1, b0, b1"),
    "band": (lambda A, B: A.join(B, "rid between rid - 1 and rid + 1", product).sum(),
             "a0, a1, b0, b1"),
    "scaled": (lambda A, B: (A.join(B, "val = val", product) * 3.5).sum(), "a0, a1, b0, b1"),
    "squares": (lambda A, B: (A.join(B, "val = val", product) ** 2).sum(axis=(0, 1)), "a0, a1"),
    "times a matrix": (lambda A, B: tr.einsum(
        "ijkl,lm->im", A.join(B, "val = val", product), B), "a1, b0"),
    "one after the other": (lambda A, B: A.join(B, "val = val", product).sum(axis=3).sum(axis=0),
                            "a0, b1"),
    "a function that branches": (lambda A, B: A.join(
        B, "val < val", lambda x, y: x if x > 3 else y).sum(), "a0, a1, b0, b1"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_pairs_are_not_made(name: str) -> None:
    write, over = WRITTEN[name]
    A, B = tensors()
    found = write(A, B)
    plan = str(found.explain())
    assert f"summed over {over}" in plan, plan
    with tr.options(disabled={"sum_joins"}):
        wanted = write(A, B)
        assert "summed over" not in str(wanted.explain())
        np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy())


def test_pairs_that_are_needed_otherwise_are_made_once() -> None:
    A, B = tensors()
    made = A.join(B, "val = val", product)
    total, whole = tr.compute(made.sum(), made)
    assert total.item() == pytest.approx(whole.to_coo()[1].sum())
    shifted = (made + 1.0).sum(axis=(0, 1, 2))  # 1 where there is no pair
    assert "summed over" not in str(shifted.explain())
    np.testing.assert_allclose(shifted.to_numpy(), (made.to_numpy() + 1).sum((0, 1, 2)))


def test_numbers_of_another_call() -> None:
    """A plan holds for other numbers in its formulas, or is made anew."""
    A, B = tensors()
    for number in (3.5, 4.5, -2.0, 7.25):
        made = A.join(B, "val = val", product)
        np.testing.assert_allclose(float(np.minimum(made * 0.5, number).sum()),
                                   np.minimum(made.to_numpy() * 0.5, number).sum())
        np.testing.assert_allclose(float((made * number).sum()), made.to_numpy().sum() * number)


def test_what_is_not_finite_is_looked_at_pair_by_pair() -> None:
    a, b = np.array([np.inf, 1.0, 2.0]), np.array([0.0, 3.0, 1e308])
    A, B = tr.tensor(a, fill=9), tr.tensor(b, fill=9)
    on = "rid >= rid - 5"
    assert np.isnan(A.join(B, on, product).sum().item())
    large = tr.asarray(np.array([1e308, 1e308]))
    small = tr.asarray(np.array([1e-308, -1e-308]))
    assert large.join(small, on, product).sum().item() == pytest.approx(0.0)


def test_large_sums() -> None:
    """Of more pairs than memory could hold."""
    n = 300_000
    rng = np.random.default_rng(1)
    values = rng.integers(1, 4, n).astype(float)
    A = tr.from_coo((np.arange(n),), values, (10**9,))
    counts = np.bincount(values.astype(int))
    with tr.options(memory="200MB"):
        assert A.join(A, "val = val", lambda x, y: 1).sum().item() == (counts**2).sum()
        assert A.join(A, "val <= val", lambda x, y: 1).sum().item() == sum(
            int(counts[k]) * int(counts[k:].sum()) for k in range(4))
        each = A.join(A, "val < val", lambda x, y: y).sum(axis=1)
        above = np.array([sum(k * counts[k] for k in range(v + 1, 4)) for v in range(4)])
        np.testing.assert_array_equal(each.to_coo()[1], above[values.astype(int)][values < 3])


def test_sums_over_ranges_subtract_nothing() -> None:
    """A small sum beside large ones keeps its digits."""
    rng = np.random.default_rng(2)
    for count in (0, 1, 2, 3, 7, 64, 100):
        weights = rng.random(count) * 10.0 ** rng.integers(-18, 18, count)
        order = rng.permutation(count)
        starts = np.unique(np.append(rng.integers(0, count + 1, count // 2), [0, count]))
        keys = starts.size - 1
        low, high = (rng.integers(0, keys + 1, 50) for _ in "ab")
        askers = np.unique(np.append(rng.integers(0, 70, 49), 0))
        low, high = low[: askers.size], high[: askers.size]
        met = Ranged(order, starts, askers, low, high, (count, 70))
        which = np.searchsorted(askers, np.arange(70), side="right") - 1
        wanted = [weights[order[starts[low[k]] : starts[high[k]]]].sum() for k in which]
        np.testing.assert_allclose(met.over_a(weights), wanted, rtol=1e-14)
        others, over = rng.random(70), np.zeros(count)
        for w, k in zip(others, which):
            over[order[starts[low[k]] : starts[high[k]]]] += w
        np.testing.assert_allclose(met.over_b(others), over, rtol=1e-13)


@pytest.mark.parametrize("f, count", [
    (lambda x, y: x * y, 1), (lambda x, y: (x + 1) * (y - 2), 1), (lambda x, y: -(x * y) / 2.0, 1),
    (lambda x, y: (x * y + 1) * (y - 2 * x), 4), (lambda x, y: x / y + np.sqrt(y), 2),
    (lambda x, y: np.maximum(x, 1) * tr.where(y > 2, y, 0), 1), (lambda x, y: (x - y) ** 2, None),
    (lambda x, y: np.maximum(x, y), None), (lambda x, y: (x * y) / (x + y), None),
    (lambda x, y: 3.0, 1)])
def test_sums_of_products(f: Any, count: int | None) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random(4) + 1, rng.random(5) + 1
    formula = traced(f(*[Tracer(Local(n, np.dtype(float))) for n in "ab"]))
    found = separated(steps_of(formula), {"a": a}, {"b": b}, np.dtype(float))
    assert (None if found is None else len(found)) == count
    if found is not None:
        total = sum(np.multiply.outer(np.broadcast_to(p, 4), np.broadcast_to(q, 5))
                    for p, q in found)
        with np.errstate(all="ignore"):
            wanted = np.broadcast_to([[float(np.asarray(
                f(x, y) if not isinstance(f(1.0, 1.0), tr.Tensor) else f(x, y).item()))
                for y in b] for x in a], (4, 5))
        np.testing.assert_allclose(total, wanted)
