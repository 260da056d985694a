"""Tasks of plans over sites: few of them, and equal programs are planned once."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from measures import calls
from tensorel.blocks.planning.cells import Rates
from tensorel.engines.sites.cluster import Task
from tensorel.engines.sites.fusing import fused
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

#: Small programs are spread over all sites; tasks that cost nothing, and such that cost something.
NO_TASKS, TASKS = Rates(flop=1e-6, task=0.0, send=0.0), Rates(flop=1e-6, task=1e-4, send=0.0)


def made(a: np.ndarray, tile: int, engine: SitesEngine, seen: list[Any] | None = None
         ) -> tr.Tensor:
    def block(key: tuple[int, ...]) -> np.ndarray:
        if seen is not None:
            seen.append(key)
        return a[tuple(slice(tile * k, tile * k + tile) for k in key)]

    return tr.from_blocks(block, a.shape, tile, engine=engine)


# -- blocks that come into being ------------------------------------------------------------------
def test_small_blocks_come_into_being_together() -> None:
    """A product of 8 x 8 blocks an operand: 12 tasks by hand, 148 with one for each block. What is
    moved stays the same, and each block is asked for once."""
    rng = np.random.default_rng(0)
    a, b = rng.random((160, 160)), rng.random((160, 160))
    counted = []
    for rates in (NO_TASKS, TASKS):
        seen: list[Any] = []
        with SitesEngine(ThreadCluster(4), "grids", rates) as engine:
            A, B = made(a, 20, engine, seen), made(b, 20, engine, seen)
            found = (A @ B).persist(engine=engine)
            counted.append((engine.stats()["tasks"], engine.stats()["bytes_moved"]))
            assert sorted(seen) == sorted(2 * list(np.ndindex(8, 8)))
            np.testing.assert_allclose(found.to_numpy(), a @ b)
            np.testing.assert_allclose((A + 1).to_numpy(), a + 1)
            assert len(seen) == 128
    assert counted[1][0] <= 50 < 128 < counted[0][0]
    assert counted[1][1] == counted[0][1]


@pytest.mark.parametrize("seed", range(20))
def test_uneven_and_sparse_blocks(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    shape = tuple(int(n) for n in rng.integers(1, 40, int(rng.integers(1, 4))))
    a = rng.random(shape) * (rng.random(shape) < rng.choice([0.05, 0.4, 1.0]))
    sizes = []
    for n in shape:
        cuts = np.unique(np.r_[0, rng.integers(0, n + 1, 9), n])
        sizes.append(np.diff(cuts).tolist())
    edges = [np.cumsum([0, *s]) for s in sizes]
    sparse = seed % 2 == 0

    def block(key: tuple[int, ...]) -> Any:
        part = a[tuple(slice(e[k], e[k + 1]) for e, k in zip(edges, key))]
        return tr.tensor(part, format="coo") if sparse else part

    with SitesEngine(ThreadCluster(int(rng.integers(1, 5)))) as engine:
        x = tr.from_blocks(block, shape, sizes, engine=engine)
        lazy = [x * 2, x.sum(axis=0), x[tuple(slice(n // 3, None) for n in shape)] + 1, tr.exp(x)]
        found = tr.compute(*lazy, engine=engine)
        wanted = [a * 2, a.sum(axis=0), a[tuple(slice(n // 3, None) for n in shape)] + 1, np.exp(a)]
        for f, w in zip(found, wanted):
            np.testing.assert_allclose(f.to_numpy(), w)
        np.testing.assert_allclose(x.compute().to_numpy(), a)


def test_an_error_names_its_block() -> None:
    def block(key: tuple[int, ...]) -> np.ndarray:
        if key == (5, 2):
            raise LookupError("no such file")
        return np.ones((2, 2))

    with tr.engines.local(sites=1) as engine:
        x = tr.from_blocks(block, (40, 40), 2, engine=engine)
        with pytest.raises(LookupError) as error:
            (x + 1).compute(engine=engine)
        assert "(5, 2)" in " ".join(error.value.__notes__)


# -- tasks as one ---------------------------------------------------------------------------------
def _sum(number: int, *given: int) -> int:
    return number + sum([k * x for k, x in enumerate(given, 1)])


@pytest.mark.parametrize("seed", range(30))
def test_tasks_as_one_make_the_same(seed: int) -> None:
    rng = np.random.default_rng([8, seed])
    tasks, light = [], set()
    for n in range(1, 40):
        needs = tuple(rng.integers(1, n, int(rng.integers(0, min(n, 4)))).tolist()) if n > 1 else ()
        tasks.append(Task(n, int(rng.integers(2)), partial(_sum, n), needs, 1.0, f"{n}"))
        if rng.random() < 0.5:
            light.add(n)
    stay = set(rng.integers(1, 40, 5).tolist())

    def run(given: list[Task]) -> dict[int, int]:
        found: dict[int, int] = {}
        for t in given:
            found[t.number] = t.call(*[found[n] for n in t.needs])
        return found

    once, again = run(tasks), fused(tasks, light, stay)
    found = run(again)
    assert stay <= found.keys()
    assert all(once[n] == x for n, x in found.items())
    assert sum(t.work for t in again) == len(tasks)
    readers = {n for t in tasks for n in t.needs}
    assert {t.number for t in tasks} - readers <= found.keys()


# -- plans that are known -------------------------------------------------------------------------
def test_an_iteration_is_planned_once() -> None:
    rng = np.random.default_rng(1)
    a, w, h = rng.random((80, 60)) + 1, rng.random((80, 4)), rng.random((4, 60))
    with SitesEngine(ThreadCluster(4)) as engine:
        A, W, H = (made(x, 20, engine).persist(engine=engine) for x in (a, w, h))
        effort = []
        for _ in range(5):
            W = W * ((A / (W @ H)) @ H.T) / H.sum(axis=1)
            H = H * (W.T @ (A / (W @ H))) / W.sum(axis=0)[:, None]
            effort.append(calls(lambda W=W, H=H: tr.explain(W, H, engine=engine))[0])
            W, H = tr.persist(W, H, engine=engine)
            w = w * ((a / (w @ h)) @ h.T) / h.sum(axis=1)
            h = h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None]
        np.testing.assert_allclose(W.to_numpy(), w)
        assert effort[-1] < effort[0] / 10


def test_other_programs_and_layouts_have_plans_of_their_own() -> None:
    rng = np.random.default_rng(2)
    a = rng.random((60, 60))
    with SitesEngine(ThreadCluster(4)) as engine:
        X = made(a, 15, engine).persist(engine=engine)
        Y = made(a + 1, 20, engine).persist(engine=engine)
        for k in range(3):
            np.testing.assert_allclose((X @ X + k).compute(engine=engine).to_numpy(), a @ a + k)
            np.testing.assert_allclose((Y @ Y + k).compute(engine=engine).to_numpy(),
                                       (a + 1) @ (a + 1) + k)
        with tr.options(strict=True):
            np.testing.assert_allclose((X @ X).compute(engine=engine).to_numpy(), a @ a)
        B = tr.asarray(a)
        for _ in range(2):
            np.testing.assert_allclose((X @ B).compute(engine=engine).to_numpy(), a @ a)
            B = tr.tensor(a * (a > 0.9), format="csr")
            np.testing.assert_allclose((X @ B).compute(engine=engine).to_numpy(),
                                       a @ (a * (a > 0.9)))
            B = tr.asarray(a)
