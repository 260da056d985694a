"""What sites were sent of a tensor that stays there is not sent again, and plans know it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensorel as tr
from tensorel.blocks.planning.cells import Rates
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

NO_TASKS = Rates(task=0.0, send=0.0)


@pytest.mark.parametrize("sites", [2, 4, 8])
def test_what_a_loop_reads_is_moved_once(sites: int) -> None:
    """In one program or in several: plans foretell what is counted, and later ones move less."""
    rng = np.random.default_rng(sites)
    a, b = rng.random((90, 90)), rng.random((300, 90))
    with SitesEngine(ThreadCluster(sites), rates=NO_TASKS) as engine:
        A, B = tr.asarray(a).persist(engine=engine), tr.asarray(b).persist(engine=engine)
        moved = []
        for k in range(3):
            lazy = (B * (k + 1.0)) @ A + tr.exp(A).sum(axis=0)
            told = lazy.explain(engine=engine).predicted_moved
            engine.reset()
            np.testing.assert_allclose(lazy.compute(engine=engine).to_numpy(),
                                       (b * (k + 1)) @ a + np.exp(a).sum(axis=0))
            moved.append(engine.stats()["bytes_moved"])
            assert moved[-1] == told
        assert moved[1] == moved[2] < moved[0]
        del A, B, lazy
        gc.collect()
        assert sum(engine.stats()["bytes_held"]) == 0


def test_a_factorization_moves_its_factors_alone() -> None:
    """27 MB for 10000 x 10000 of rank 50, in proportion: strips of the data stay, H is sent to all
    and its update is added up."""
    n, rank, sites = 1200, 6, 4
    limit = 27e6 * (n * rank) / (10000 * 50)

    def strip(key: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(key[0]).random((n // sites, n)) + 0.1

    a = np.concatenate([strip((k, 0)) for k in range(sites)])
    rng = np.random.default_rng(0)
    w, h = rng.random((n, rank)) + 0.1, rng.random((rank, n)) + 0.1
    with SitesEngine(ThreadCluster(sites), rates=NO_TASKS) as engine:
        A = tr.from_blocks(strip, a.shape, (n // sites, n), engine=engine).persist()
        W, H = tr.asarray(w), tr.asarray(h)
        for k in range(4):
            engine.reset()
            W = (W * ((A / (W @ H)) @ H.T) / H.sum(axis=1)).persist(engine=engine)
            H = (H * (W.T @ (A / (W @ H))) / W.sum(axis=0)[:, None]).persist(engine=engine)
            assert k == 0 or engine.stats()["bytes_moved"] <= limit
            w = w * ((a / (w @ h)) @ h.T) / h.sum(axis=1)
            h = h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None]
        np.testing.assert_allclose(W.to_numpy() @ H.to_numpy(), w @ h)


def test_copies_that_are_too_large_do_not_stay() -> None:
    rng = np.random.default_rng(0)
    a = rng.random((100, 100))
    held = []
    for memory in (None, 150_000):
        with SitesEngine(ThreadCluster(4, memory), rates=NO_TASKS) as engine:
            A = tr.asarray(a).persist(engine=engine)
            for _ in range(2):
                engine.reset()
                np.testing.assert_allclose((A @ A.T).compute().to_numpy(), a @ a.T)
            held.append((sum(engine.stats()["bytes_held"]), engine.stats()["bytes_moved"]))
    assert held[0][0] > held[1][0] and held[0][1] < held[1][1]


def test_an_error_leaves_an_operand_as_it_was() -> None:
    calls: list[int] = []

    def block(key: tuple[int, ...]) -> np.ndarray:
        calls.append(key[0])
        if len(calls) == 1:
            raise ZeroDivisionError("the first time")
        return np.ones((5, 5))

    with SitesEngine(ThreadCluster(2), rates=NO_TASKS) as engine:
        A = tr.from_blocks(block, (10, 10), 5, engine=engine)
        with pytest.raises(ZeroDivisionError):
            A.sum().compute()
        assert A.sum().compute().item() == 100
        assert sum(engine.stats()["bytes_held"]) == 800
