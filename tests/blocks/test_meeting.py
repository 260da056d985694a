"""Where entries of sparse operands meet: exact where all places are counted, near where they are
not."""

from __future__ import annotations

import numpy as np
import pytest

from tensorel.algebra import ops
from tensorel.blocks.steps.access import loops_of
from tensorel.blocks.steps.meeting import Filled, meeting_of
from tensorel.blocks.steps.spread import of_entries
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce, Source, const

F8 = np.dtype("f8")


def source(k: int, shape: tuple[int, ...]) -> Source:
    return Source(k, shape, F8, const(0.0, F8))


def read(s: Source, names: str) -> Read:
    return Read(s, tuple(Index(n) for n in names))


def filled(a: np.ndarray) -> Filled:
    return Filled(np.count_nonzero(a) / a.size, of_entries(np.nonzero(a), a.shape))


def step(axes: str, reduced: str, body: Expr, extents: dict[str, int]) -> Lambda:
    if reduced:
        body = Reduce(ops.add, tuple(Axis(n, extents[n]) for n in reduced), body)
    return Lambda(tuple(Axis(n, extents[n]) for n in axes), body)


@pytest.mark.parametrize("seed", range(10))
def test_small_products_are_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, k = (int(x) for x in rng.integers(3, 20, 3))
    a, b = rng.random((n, k)) < 0.3, rng.random((k, m)) < 0.3
    if not a.any() or not b.any():
        return
    A, B = source(0, a.shape), source(1, b.shape)
    loops = loops_of(step("ij", "k", Call(ops.multiply, (read(A, "ik"), read(B, "kj"))),
                          {"i": n, "j": m, "k": k}))
    found = meeting_of(loops, {A: filled(a), B: filled(b)}, strict=False)
    assert found is not None
    points = a.astype(int) @ b.astype(int)
    np.testing.assert_allclose(found.points, points, atol=1e-9)
    np.testing.assert_allclose(found.entries(), points > 0, atol=1e-9)
    low = np.array([[0, 0, 0], [n // 2, 0, k // 3]])
    high = np.array([[n, m, k], [n, m // 2 + 1, k]])
    each = found.work.total / max(points.sum(), 1)
    inside = [(a[lo[0]:hi[0], lo[2]:hi[2]].astype(int) @ b[lo[2]:hi[2], lo[1]:hi[1]]).sum()
              for lo, hi in zip(low, high)]
    np.testing.assert_allclose(found.work.entries(low, high), each * np.array(inside), atol=1e-6)


def test_sums_and_choices() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((9, 8)) < 0.3, rng.random((9, 8)) < 0.4
    A, B = source(0, a.shape), source(1, b.shape)
    known = {A: filled(a), B: filled(b)}
    for op, wanted in ((ops.add, a | b), (ops.multiply, a & b)):
        loops = loops_of(step("ij", "", Call(op, (read(A, "ij"), read(B, "ij"))),
                              {"i": 9, "j": 8}))
        found = meeting_of(loops, known, strict=False)
        assert found is not None
        np.testing.assert_allclose(found.entries(), wanted, atol=1e-9)
    everywhere = loops_of(step("ij", "", Call(ops.exp, (read(A, "ij"),)), {"i": 9, "j": 8}))
    assert meeting_of(everywhere, {A: Filled(1.0, None)}, strict=False) is None


def test_skewed_products_are_counted_nearly() -> None:
    """Rows and columns by a power law: independent of each other, the product would have a third of
    its points."""
    n, count = 3000, 40_000
    rng = np.random.default_rng(1)
    a = np.zeros((n, n), bool)
    a[tuple((n * rng.random((2, count)) ** 2).astype(int))] = True
    A, B = source(0, a.shape), source(1, a.shape)
    loops = loops_of(step("ij", "k", Call(ops.multiply, (read(A, "ik"), read(B, "kj"))),
                          dict.fromkeys("ijk", n)))
    found = meeting_of(loops, {A: filled(a), B: filled(a)}, strict=False)
    assert found is not None
    points = float(a.sum(axis=0) @ a.sum(axis=1))
    entries = np.count_nonzero(a.astype("f4") @ a.astype("f4"))
    assert abs(found.points.sum() - points) <= 0.1 * points
    assert abs(found.entries().sum() - entries) <= 0.15 * entries
    half = n // 2
    inside = float(a[:half].sum(axis=0).astype(float) @ a[:, :half].sum(axis=1))
    told = found.work.entries(np.array([[0, 0, 0]]), np.array([[half, half, n]]))[0]
    assert abs(told / found.work.total - inside / points) <= 0.05
    assert 0.25 < found.partial(4) < 0.4
