"""Sparse operands over sites: bytes are those of what is in boxes, tiles have equal work, blocks
that are all fill are neither joined nor sent, and explain says which planner won."""

from __future__ import annotations

import re

import numpy as np
import pytest
from random_sites import SPREAD

import tensorel as tr
from tensorel.blocks.planning.cells import Rates
from tensorel.blocks.steps.spread import of_blocks, of_entries
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

NO_TASKS = Rates(task=0.0, send=0.0)


def skewed(n: int, count: int, power: float = 3.0) -> tr.Tensor:
    """Rows and columns by a power law."""
    rng = np.random.default_rng(n)
    at = (n * rng.random((2, count)) ** power).astype(np.int64)
    at = np.unique(at, axis=1)
    return tr.from_coo(at, np.ones(at.shape[1]), (n, n), format="csr")


# -- how entries are spread -----------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(30,), (20, 30), (9, 8, 7), (5, 4, 6, 3)])
def test_entries_of_boxes_of_small_tensors_are_counted(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    there = rng.random(shape) < 0.3 * rng.random(shape[:1]).reshape(-1, *[1] * (len(shape) - 1))
    found = of_entries(np.nonzero(there), shape)
    assert found is not None and found.total == there.sum()
    ends = np.sort(np.stack([rng.integers(0, n + 1, (2, 40)) for n in shape], axis=2), axis=0)
    if len(shape) > 3:  # the axes beyond the third count as independent
        ends[:, :, 3] = [[0], [shape[3]]]
    counted = [there[tuple(slice(a, b) for a, b in zip(lo, hi))].sum() for lo, hi in zip(*ends)]
    np.testing.assert_allclose(found.entries(*ends), counted, atol=1e-9)


def test_large_and_skewed_tensors_are_counted_nearly() -> None:
    n = 50_000
    rng = np.random.default_rng(1)
    at = (n * rng.random((2, 300_000)) ** 4).astype(np.int64)
    found = of_entries(list(at), (n, n))
    assert found is not None
    for lo, hi in (((0, 0), (1, n)), ((0, 0), (30, 40)), ((1000, 0), (20_000, n)),
                   ((5, 300), (777, 9_000))):
        inside = ((at >= np.array([lo]).T) & (at < np.array([hi]).T)).all(axis=0).sum()
        near = found.entries(np.array([lo]), np.array([hi]))[0]
        assert abs(near - inside) <= 0.03 * inside + 0.002 * at.shape[1]


def test_blocks_that_are_known() -> None:
    counts = np.array([[4.0, 0.0], [2.0, 6.0]])
    found = of_blocks([np.array([0, 10, 20]), np.array([0, 5, 10])], counts)
    assert found is not None
    low = np.array([[0, 0], [0, 5], [5, 0], [0, 0]])
    high = np.array([[10, 5], [10, 10], [15, 5], [20, 10]])
    np.testing.assert_allclose(found.entries(low, high), [4, 0, 3, 12])


# -- tiles and bytes ------------------------------------------------------------------------------
@pytest.mark.parametrize("sites", [4, 8])
def test_tiles_of_skewed_data_have_equal_work(sites: int) -> None:
    S = skewed(4000, 60_000)
    b = np.random.default_rng(0).random((4000, 10))
    with SitesEngine(ThreadCluster(sites), rates=SPREAD) as engine:
        lazy = S @ tr.asarray(b)
        plan = lazy.explain(engine=engine).plan
        edges = plan.inputs["S0"].edges
        pos, idx = S.stored.arrays["pos1"], S.stored.arrays["idx1"]
        rows = np.repeat(np.arange(4000), np.diff(pos))
        counts = np.histogram2d(rows, idx, edges)[0]
        assert counts.size > 1 and counts.max() <= 1.2 * counts.mean()
        even = np.histogram2d(rows, idx, [np.linspace(0, 4000, len(e)) for e in edges])[0]
        assert even.max() > 1.5 * even.mean()  # tiles of equal extent would not do
        np.testing.assert_allclose(lazy.compute(engine=engine).to_numpy(), S.to_numpy() @ b)


def test_a_skewed_product_is_spread() -> None:
    """Cells have equal work: the pairs of entries that meet in them, not their entries."""
    n, sites = 20_000, 4
    S = skewed(n, 150_000, 2.0)
    with SitesEngine(ThreadCluster(sites), rates=Rates(1e-8, 1e-9, 0.0, 0.0)) as engine:
        lazy = S @ S
        plan = lazy.explain(engine=engine).plan
        cuts, cell = plan.steps[0].placed.cuts, plan.steps[0].placed.sites
        assert sorted(cell) == list(range(sites))
        pos, idx = S.stored.arrays["pos1"], S.stored.arrays["idx1"]
        rows = np.repeat(np.arange(n), np.diff(pos))
        i, j, k = (np.searchsorted(c, np.arange(n), "right") - 1 for c in cuts)
        left = np.zeros((len(cuts[0]) - 1, n))
        np.add.at(left, (i[rows], idx), 1)
        right = np.zeros((n, len(cuts[1]) - 1))
        np.add.at(right, (rows, j[idx]), 1)
        work = np.stack([left[:, k == p] @ right[k == p] for p in range(len(cuts[2]) - 1)])
        assert work.size == sites and work.max() <= 1.35 * work.mean()
        told = lazy.explain(engine=engine).predicted_moved
        engine.reset()
        found = lazy.compute(engine=engine)
        assert abs(engine.stats()["bytes_moved"] - told) <= 0.05 * told
        assert told <= 3.05 * S.nbytes  # one operand to all
        total = np.bincount(idx, minlength=n).astype(float) @ np.diff(pos)
        assert found.sum().item() == total


@pytest.mark.parametrize("sites", [2, 4, 8])
def test_bytes_of_sparse_operands_are_foretold(sites: int) -> None:
    """Within 5% of what is moved, or 2% of the operands. What programs make on the way is an
    estimate, and so are parts of blocks that lie at sites."""
    S, T = skewed(3000, 60_000), skewed(3000, 50_000, 1.0)
    with SitesEngine(ThreadCluster(sites), rates=NO_TASKS) as engine:
        for lazy in (S * T, S.T + T, S.T * T, S[500:] + S[:-500], T @ tr.ones(3000)):
            told = lazy.explain(engine=engine).predicted_moved
            engine.reset()
            lazy.compute(engine=engine)
            moved = engine.stats()["bytes_moved"]
            assert abs(moved - told) <= 0.05 * max(told, moved) + 0.02 * (S.nbytes + T.nbytes)
        A, B = S.persist(engine=engine), T.persist(engine=engine)
        sizes = [x.node.data.layout.sizes().sum() for x in (A, B)]
        np.testing.assert_allclose(sizes, [S.nbytes, T.nbytes], rtol=0.05)


# -- what is absent -------------------------------------------------------------------------------
@pytest.mark.parametrize("planner", ["grids", "lineage"])
def test_blocks_that_are_all_fill_are_not_joined(planner: str) -> None:
    """Block (i, j) of the product of two block diagonals needs one pair of blocks, if any."""
    n, tile = 160, 20
    a = np.kron(np.eye(8), np.random.default_rng(0).random((tile, tile)) < 0.3).astype(float)

    def block(key: tuple[int, ...]) -> tr.Tensor:
        i, j = key
        return tr.tensor(a[tile * i:tile * i + tile, tile * j:tile * j + tile], format="csr")

    with SitesEngine(ThreadCluster(4), planner, SPREAD) as engine:
        A = tr.from_blocks(block, (n, n), tile, engine=engine).persist()
        B = (A * 2).persist()
        engine.reset()
        found = (A @ B).compute()
        np.testing.assert_allclose(found.to_numpy(), 2 * a @ a)
        stats = engine.stats()
        assert sum(stats["bytes_held"]) < a.nbytes / 2
        if planner == "lineage":
            plan = (A @ B).explain().plan
            assert sum(s >= 0 for s in plan.steps[0].placed.sites) <= 8
        np.testing.assert_allclose((A + B).compute().to_numpy(), 3 * a)
        np.testing.assert_allclose((A + 1).sum(axis=0).compute().to_numpy(), (a + 1).sum(axis=0))
        np.testing.assert_allclose(tr.exp(A).max(axis=1).compute().to_numpy(),
                                   np.exp(a).max(axis=1))
        c = np.full((n, n), np.inf)
        with tr.options(strict=True):
            strict = (A * tr.asarray(c)).compute(engine=engine).to_numpy()
            np.testing.assert_array_equal(np.isnan(strict), a == 0)


# -- two planners ---------------------------------------------------------------------------------
def verdict(lazy: tr.Tensor, **options: object) -> str:
    text = re.search(r"^planner: (.*)$", str(lazy.explain(**options)), re.M)
    assert text is not None
    return text[1]


def test_explain_says_which_planner_won_and_by_how_much() -> None:
    rng = np.random.default_rng(2)
    a = rng.random((120, 120))

    def made(engine: SitesEngine, x: np.ndarray) -> tr.Tensor:
        return tr.from_blocks(lambda k: x[k[0] * 30:k[0] * 30 + 30, k[1] * 30:k[1] * 30 + 30],
                              x.shape, 30, engine=engine)

    with SitesEngine(ThreadCluster(4), "both", Rates(flop=1e-3)) as engine:
        engine.cluster.copies_bytes = 0
        A, B = made(engine, a), made(engine, a + 1)
        (A @ A).persist(), (B.T + 1).persist()
        found = verdict(A @ B)
        assert re.search(r"two-phase \(\w+ \d+\.\d\d times cheaper than algebraic\)|"
                         r"algebraic \(two-phase: \d\.\d\d times its cost for \w+\)", found), found
        assert "blocks are not given" in verdict(tr.asarray(a) @ tr.asarray(a),
                                                   engine=engine)
    with SitesEngine(ThreadCluster(4), "lineage") as engine:
        engine.cluster.copies_bytes = 0
        A, B = made(engine, a), made(engine, a + 1)
        (A @ A).persist(), (B.T + 1).persist()
        assert "two-phase (" in verdict(A @ B)
    with SitesEngine(ThreadCluster(4), "both") as engine:  # all of it takes less than a millisecond
        A, B = made(engine, a), made(engine, a + 1)
        assert "pilot run takes longer than the work" in verdict(A @ B)
    with SitesEngine(ThreadCluster(4), "both", Rates(flop=1e-7)) as engine:
        A, B = made(engine, a), made(engine, a + 1)
        assert re.search(r"pilot run takes \d+% of the work", verdict(A @ B))
