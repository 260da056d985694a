"""Operators along an axis run where fibres lie: nothing is brought to one site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_sites import SPREAD, in_blocks

import tensorel as tr
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

PROGRAMS: dict[str, tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = {
    "sort": (lambda t, k: tr.sort(t, axis=k), lambda a, k: np.sort(a, axis=k)),
    "argsort": (lambda t, k: tr.argsort(t, axis=k),
                lambda a, k: np.argsort(a, axis=k, kind="stable")),
    "cumulative sum": (lambda t, k: tr.cumulative_sum(t, axis=k), lambda a, k: np.cumsum(a, k)),
    "cumulative product": (lambda t, k: tr.cumulative_prod(t, axis=k),
                           lambda a, k: np.cumprod(a, k)),
    "argmax": (lambda t, k: tr.argmax(t, axis=k), lambda a, k: np.argmax(a, axis=k)),
    "topk": (lambda t, k: tr.topk(t, 3, axis=k)[0], lambda a, k: -np.sort(-a, axis=k).take(
        range(3), axis=k)),
    "then more": (lambda t, k: (tr.sort(t + 1, axis=k) * t).sum(axis=0),
                  lambda a, k: (np.sort(a + 1, axis=k) * a).sum(axis=0)),
    "two axes": (lambda t, k: tr.cumulative_sum(tr.cumulative_sum(t, axis=0), axis=1),
                 lambda a, k: np.cumsum(np.cumsum(a, 0), 1)),
}


@pytest.mark.parametrize("sites", [1, 3, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_one_machine(name: str, sites: int) -> None:
    rng = np.random.default_rng([sites, len(name)])
    ours, theirs = PROGRAMS[name]
    for shape in ((12, 9), (5, 6, 7)):
        a = np.where(rng.random(shape) < 0.6, rng.integers(-4, 5, shape) * 0.5, 0.0)
        for axis in range(len(shape)):
            with SitesEngine(ThreadCluster(sites), rates=SPREAD) as engine:
                for T in (tr.asarray(a), in_blocks(a, rng, engine),
                          in_blocks(a, rng, engine, "coo").persist()):
                    found = ours(T, axis).compute(engine=engine).to_numpy()
                    np.testing.assert_array_equal(found, theirs(a, axis))


def test_fibres_that_lie_at_one_site_stay_there() -> None:
    a = np.random.default_rng(0).random((64, 40))
    with SitesEngine(ThreadCluster(4), rates=SPREAD) as engine:
        A = tr.from_blocks(lambda key: a[16 * key[0]:16 * key[0] + 16], a.shape, (16, 40),
                           engine=engine).persist()
        for ours, _ in list(PROGRAMS.values())[:6]:
            lazy = ours(A, 1)
            assert lazy.explain().predicted_moved == 0
            engine.reset()
            lazy.persist()
            stats = engine.stats()
            assert stats["bytes_moved"] == 0 and sum(w > 0 for w in stats["work"]) == 4
        moved = tr.sort(A, axis=0).explain().predicted_moved
        assert moved == a.nbytes * 3 / 4  # columns have to come together: each site gets a quarter
