"""Convolutions over sites: planned in one step however they are written, near the bytes of the best
exchange of halos."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from random_sites import SPREAD

import tensorel as tr
from measures import calls

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from cluster.programs import best_convolution, convolution, convolution_by_windows
from cluster.table import never, part, tiles
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

WAYS = [convolution, convolution_by_windows]


@pytest.mark.parametrize("sites", [4, 8])
@pytest.mark.parametrize("way", WAYS)
def test_a_film(way, sites: int) -> None:
    """At full size, in as many small blocks as an axis has room for."""
    shape = (70, 540, 960)
    with tr.engines.local(sites=sites) as engine:
        def make(shape: tuple[int, ...], parts: object = "any") -> tr.Tensor:
            sizes = tiles(shape, tuple(min(8, n) for n in shape) if parts else None, sites)
            return tr.from_blocks(never, shape, sizes, engine=engine)

        effort, plan = calls(lambda: tr.explain(*way(shape, 3, 10, 3, make, sites), engine=engine))
        best, _ = best_convolution(shape, 3, 10, 3, sites)
        assert plan.predicted_moved <= 1.1 * best <= 349e6 / 2, str(plan)
        assert effort <= 300_000  # a fifth of a second


@pytest.mark.parametrize("way", WAYS)
def test_halos_are_what_is_moved(way) -> None:
    shape, sites = (18, 24, 30), 4
    rng = np.random.default_rng(0)
    with SitesEngine(ThreadCluster(sites), rates=SPREAD) as engine:
        arrays: list[np.ndarray] = []

        def make(shape: tuple[int, ...], parts: object = "any") -> tr.Tensor:
            arrays.append(rng.random(shape))
            sizes = tiles(shape, tuple(min(6, n) for n in shape) if parts else None, sites)
            edges = [np.cumsum([0, *s]) for s in sizes]
            return tr.from_blocks(partial(part, arrays[-1], edges), shape, sizes, engine=engine)

        lazy, = way(shape, 2, 3, 3, make, sites)
        told = lazy.explain(engine=engine).predicted_moved
        engine.reset()
        found = lazy.compute(engine=engine).to_numpy()
        assert engine.stats()["bytes_moved"] == told
        assert told <= 1.1 * best_convolution(shape, 2, 3, 3, sites)[0]
        x, bank = arrays
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3, 3), axis=(1, 2, 3))
        np.testing.assert_allclose(found, np.einsum("fcabd,cijkabd->fijk", bank, windows))
