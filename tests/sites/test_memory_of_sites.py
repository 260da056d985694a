"""What sites hold at once stays within their memory: plans that need more run in rounds, or are
refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.blocks.planning.cells import Rates
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.errors import MemoryLimitError

NO_TASKS = Rates(task=0.0, send=0.0)
N, M, TILE = 960, 64, 10  # 3 times what a site may hold
MEMORY = 8 * N * M // 3


def strip(key: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(key[0]).random((TILE, M))


def whole() -> np.ndarray:
    return np.concatenate([strip((k, 0)) for k in range(N // TILE)])


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "entries": lambda xp, x: x * 2 + 1,
    "Gram": lambda xp, x: x.T @ x,
    "product": lambda xp, x: x @ np.eye(M)[:, :8],
    "rows": lambda xp, x: xp.sum(x * x, axis=1),
    "columns": lambda xp, x: xp.max(x, axis=0),
    "shifted": lambda xp, x: x[1:] - x[:-1],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sites", [1, 4])
def test_more_data_than_one_node_has_memory(name: str, sites: int, tmp_path: Path) -> None:
    """Blocks come into being at the sites and go again; results are written by the sites."""
    with SitesEngine(ThreadCluster(sites, MEMORY), rates=NO_TASKS) as engine:
        X = tr.from_blocks(strip, (N, M), (TILE, M), engine=engine)
        lazy = PROGRAMS[name](tr, X)
        lazy.write(tmp_path / "out.parts", engine=engine)
        assert max(engine.stats()["bytes_peak"]) <= MEMORY
        assert max(engine.stats()["bytes_held"]) <= MEMORY
    np.testing.assert_allclose(tr.read(tmp_path / "out.parts").to_numpy(),
                               PROGRAMS[name](np, whole()))


def test_a_chain_out_of_more_than_all_sites_have(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    with SitesEngine(ThreadCluster(2, MEMORY), rates=NO_TASKS) as engine:
        tr.asarray(whole()).write(tmp_path / "x.zarr", tile=(TILE, M))
        X = tr.read(tmp_path / "x.zarr", engine=engine)
        mean = X.mean(axis=0).persist()
        (X.T @ X - N * mean[:, None] * mean[None, :]).write(tmp_path / "cov.zarr")
        assert max(engine.stats()["bytes_peak"]) <= MEMORY
        assert engine.stats()["largest_driver"] == 0
    found = tr.read(tmp_path / "cov.zarr").to_numpy()
    np.testing.assert_allclose(found / (N - 1), np.cov(whole().T))


def test_what_fits_stays() -> None:
    calls: list[tuple[int, ...]] = []

    def noted(key: tuple[int, ...]) -> np.ndarray:
        calls.append(key)
        return strip(key)

    for memory, times in ((None, 1), (10 * MEMORY, 1), (MEMORY, 2)):
        calls.clear()
        with SitesEngine(ThreadCluster(1, memory), rates=NO_TASKS) as engine:
            X = tr.from_blocks(noted, (N, M), (TILE, M), engine=engine)
            for _ in range(2):
                np.testing.assert_allclose(X.sum(axis=0).compute().to_numpy(), whole().sum(axis=0))
        assert len(calls) == times * N // TILE


def test_what_cannot_fit_is_refused_before_anything_is_done() -> None:
    calls: list[tuple[int, ...]] = []

    def noted(key: tuple[int, ...]) -> np.ndarray:
        calls.append(key)
        return strip(key)

    with SitesEngine(ThreadCluster(2, MEMORY), rates=NO_TASKS) as engine:
        X = tr.from_blocks(noted, (N, M), (TILE, M), engine=engine)
        for lazy in (X @ X.T, tr.sort(X + 1, axis=0)):
            with pytest.raises(MemoryLimitError, match="each may hold") as caught:
                lazy.persist()
            assert caught.value.needed > caught.value.limit == MEMORY
        assert not calls


@pytest.mark.parametrize("seed", range(6))
def test_peaks_are_those_that_plans_foretell(seed: int) -> None:
    """A plan that fits by its own account does fit, whatever the memory."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((120, 80)), rng.random((80, 120))
    run = 0
    for memory in (30_000, 60_000, 120_000, 240_000):
        with SitesEngine(ThreadCluster(int(rng.integers(1, 6)), memory), rates=NO_TASKS) as engine:
            A, B = [tr.from_blocks(
                lambda k, x=x: x[k[0] * 10:k[0] * 10 + 10, k[1] * 10:k[1] * 10 + 10], x.shape, 10,
                engine=engine) for x in (a, b)]
            for lazy, wanted in (((A @ B).sum(axis=0), (a @ b).sum(axis=0)), (A @ B, a @ b),
                                 (A + B.T, a + b.T), ((A @ B) @ A, a @ b @ a)):
                try:
                    found = lazy.compute()
                except MemoryLimitError:
                    continue
                run += 1
                np.testing.assert_allclose(found.to_numpy(), wanted)
                assert max(engine.stats()["bytes_peak"]) <= memory
    assert run
