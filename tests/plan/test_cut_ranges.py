"""Selections of ranges are made before products and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorel as tr

RNG = np.random.default_rng(0)
a = np.where(RNG.random((300, 200)) < 0.05, RNG.integers(1, 9, (300, 200)), 0).astype(float)
b = np.where(RNG.random((200, 250)) < 0.05, RNG.integers(1, 9, (200, 250)), 0).astype(float)
A, B = tr.tensor(a, format="csr"), tr.tensor(b, format="csr")
U, V = tr.asarray(RNG.random((300, 8))), tr.asarray(RNG.random((8, 250)))
PROGRAMS: dict[str, tuple[Any, Any]] = {
    "rows": ((A @ B).select("rid between 3 and 5"), lambda p, i, j: (i >= 3) & (i <= 5)),
    "rows, dense": ((U @ V).select("4 > rid and rid >= 1"), lambda p, i, j: (i < 4) & (i >= 1)),
    "columns": ((A @ B).select("cid < 7"), lambda p, i, j: j < 7),
    "both": ((A @ B).select("rid > 290 and cid <= 4 and val > 2"),
             lambda p, i, j: (i > 290) & (j <= 4) & (p > 2)),
    "none": ((A @ B).select("rid > 10 and rid < 5"), lambda p, i, j: i < 0),
    "outside": ((A @ B).select("rid >= 298 and rid < 900"), lambda p, i, j: i >= 298),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ranges_of_products(name: str) -> None:
    program, keep = PROGRAMS[name]
    dense = "dense" in name
    whole = (U.to_numpy() @ V.to_numpy()) if dense else a @ b
    i, j = np.indices(whole.shape)
    wanted = np.where(keep(whole, i, j), whole, 0)
    np.testing.assert_allclose(program.to_numpy(), wanted)
    for dim, axis in (("row", 1), ("col", 0), ("all", None)):
        np.testing.assert_allclose(program.aggregate("sum", dim).to_numpy(), wanted.sum(axis))
        np.testing.assert_allclose(program.aggregate("max", dim).to_numpy(), wanted.max(axis))
    explained = program.explain()
    assert "cut-ranges" in str(explained.rules)
    product = U @ V if dense else A @ B
    steps = explained.to_dict()["steps"]
    most = max([s["cost"] for s in steps[:-1]], default=0.0)
    assert most < 0.3 * sum(s["cost"] for s in product.explain().to_dict()["steps"])


def test_sums_over_ranges_have_so_many_terms() -> None:
    found = A.select("cid between 3 and 5").aggregate("sum", "row")
    np.testing.assert_allclose(found.to_numpy(), a[:, 3:6].sum(axis=1))
    assert "3" in found.explain().to_dict()["steps"][0]["text"]
    assert "cut-ranges" in str(found.explain().rules)
    masked = tr.where(tr.arange(200)[None, :] < 5, A, 1.0)  # what is left out counts
    np.testing.assert_allclose(masked.sum(axis=1).to_numpy(), a[:, :5].sum(axis=1) + 195)
    least = tr.where(tr.arange(300)[:, None] < 5, A, 7.0).min(axis=1)
    np.testing.assert_allclose(least.to_numpy(), np.where(np.arange(300) < 5, 0.0, 7.0))


def test_plans_are_for_their_numbers() -> None:
    """The same program with other numbers, one after the other."""
    product = a @ b
    for low, high in [(3, 5), (7, 7), (0, 299), (290, 400), (5, 3), (3, 5)]:
        found = (A @ B).select(f"rid between {low} and {high}").aggregate("sum", "all")
        assert found.item() == product[low : high + 1].sum()
        sliced = tr.kron(A, B)[low] if low < 300 else None
        assert sliced is None or sliced.sum().item() == np.kron(a[:2], b)[low].sum()
    J = A.join(A, "val = val", lambda x, y: x + y)
    for row in (3, 8, 5):
        found = J.select(f"i0 = {row}").aggregate("sum", "all").item()
        x, y = np.meshgrid(a[row][a[row] != 0], a[a != 0])
        assert found == ((x + y) * (x == y)).sum()
