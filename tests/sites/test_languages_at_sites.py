"""Comprehensions, loops, windows and relational operators with an engine of sites as a setting: the
results are those of one machine, or the same refusal."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from random_sites import SPREAD, in_blocks

import tensorel as tr
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comprehension"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "loops"))

from fuzz_comprehensions import check
from random_loops import Drawn, compare


def sites(number: int) -> SitesEngine:
    return SitesEngine(ThreadCluster(1 + number % 8), rates=SPREAD)


def test_random_comprehensions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(200, 206):
            with sites(seed) as engine:
                assert check(seed, engine=engine) == check(seed)


def test_random_loops() -> None:
    seen = Counter[str]()
    for seed in range(24):
        with sites(seed) as engine, tr.options(engine=engine):
            seen[compare(Drawn(seed, ("regular", "tame", "wild")[seed % 3]))] += 1
    assert seen["equal"] + seen["bulk"] > 12


@pytest.mark.parametrize("format", [None, "coo"])
def test_windows_and_relational_operators(format: str | None) -> None:
    rng = np.random.default_rng(5)
    a = np.where(rng.random((9, 7)) < 0.5, rng.integers(-3, 4, (9, 7)), 0).astype(float)
    kernel = np.array([[1.0, -2.0], [0.5, 3.0]])
    seen = np.lib.stride_tricks.sliding_window_view(a, kernel.shape)
    with sites(3) as engine, tr.options(engine=engine):
        A = in_blocks(a, rng, engine, format)
        np.testing.assert_array_equal(tr.windows(A, kernel.shape).to_numpy(), seen)
        np.testing.assert_allclose(tr.convolve(A, kernel, mode="valid").to_numpy(),
                                   (seen * kernel[::-1, ::-1]).sum(axis=(2, 3)))
        np.testing.assert_allclose(A.aggregate("mean", "row").to_numpy(), a.mean(axis=1))
        assert A.aggregate("argmax", "all").item() == a.argmax()
        np.testing.assert_array_equal(A.select("rid < 5 and val > 0").to_numpy(), np.where(
            (np.arange(9)[:, None] < 5) & (a > 0), a, 0))
        B = tr.asarray(a)
        for way in (A, B):
            groups = way.group_by("rid % 3").agg("sum").rows()
            np.testing.assert_allclose([s for _, s in groups], a.reshape(3, 3, 7).sum(axis=(0, 2)))
            joined = way.join(B, "rid = rid", lambda x, y: x * y).to_numpy()
            np.testing.assert_allclose(joined, a[:, :, None] * a[:, None, :])
