"""Programs in blocks over sites: the results of the program on one machine, the bytes that the plan
foretold, and nothing left behind."""

from __future__ import annotations

import gc
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.blocks.planning.cells import Rates
from tensorel.engines.sites.cluster import Task
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.testing import difference, run_numpy, sample_program

SITES = (1, 3, 4, 8)
#: Tasks cost nothing and work costs much, so that small programs are spread over all sites.
SPREAD = Rates(flop=1e-5, task=0.0, send=0.0)


@pytest.fixture(params=SITES)
def engine(request: pytest.FixtureRequest) -> Iterator[SitesEngine]:
    with SitesEngine(ThreadCluster(request.param), rates=SPREAD) as found:
        yield found


def tiles(rng: np.random.Generator, extent: int) -> list[int]:
    """Uneven tiles of an axis."""
    cuts = np.unique(rng.integers(1, max(extent, 2), int(rng.integers(0, 5))))
    return np.diff([0, *[c for c in cuts.tolist() if c < extent], extent]).tolist()


def blocked(array: np.ndarray, rng: np.random.Generator, engine: SitesEngine,
            format: str | None = None, fill: float = 0) -> tr.Tensor:
    """A tensor that comes into being in uneven blocks."""
    sizes = [tiles(rng, n) for n in array.shape]
    edges = [np.cumsum([0, *s]) for s in sizes]

    def block(key: tuple[int, ...]) -> Any:
        part = array[tuple(slice(e[k], e[k + 1]) for e, k in zip(edges, key))]
        return part if format is None else tr.tensor(part, format=format, fill=fill)

    return tr.from_blocks(block, array.shape, sizes, dtype=array.dtype, engine=engine, fill=fill)


def data(rng: np.random.Generator, shape: tuple[int, ...], density: float = 1.0) -> np.ndarray:
    return np.where(rng.random(shape) < density, rng.integers(-4, 5, shape) * 0.5, 0.0)


PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "product": lambda xp, a, b, v: a @ b,
    "sum of products": lambda xp, a, b, v: a @ b + (a + 1) @ b,
    "sum of matrices first": lambda xp, a, b, v: (a + a * a) @ b,
    "chain": lambda xp, a, b, v: a @ b @ a @ v,
    "Gram": lambda xp, a, b, v: a.T @ a,
    "Gram row sums": lambda xp, a, b, v: xp.sum(a.T @ a, axis=1),
    "all": lambda xp, a, b, v: xp.sum(a),
    "greatest of columns": lambda xp, a, b, v: xp.max(a, axis=0),
    "mean and rest": lambda xp, a, b, v: a - xp.mean(a, axis=0),
    "softmax": lambda xp, a, b, v: xp.exp(a) / xp.sum(xp.exp(a), axis=1)[:, None],
    "rolled": lambda xp, a, b, v: xp.roll(a, 3, axis=0) - a,
    "windows": lambda xp, a, b, v: a[2:] + 2 * a[1:-1] - a[:-2],
    "every other, backwards": lambda xp, a, b, v: a[::-2, 1::3],
    "transposed": lambda xp, a, b, v: a.T * b,
    "joined": lambda xp, a, b, v: xp.concat([a, b.T], axis=0) @ v if xp is tr
    else np.concatenate([a, b.T], axis=0) @ v,
    "reshaped": lambda xp, a, b, v: xp.reshape(a, (-1,))[5:40] + 1,
    "choice": lambda xp, a, b, v: xp.where(a > xp.mean(a), a, 0.5),
    "triangle": lambda xp, a, b, v: xp.tril(a @ b),
    "outer": lambda xp, a, b, v: v[:, None] * v[None, :],
    "scalar": lambda xp, a, b, v: v @ v + 3,
    "any": lambda xp, a, b, v: xp.any(a > 1.5, axis=1),
    "counted": lambda xp, a, b, v: xp.sum(a != 0, axis=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_one_machine(name: str, engine: SitesEngine) -> None:
    rng = np.random.default_rng([4, engine.cluster.sites])
    n, m = 40, 33
    a, b, v = data(rng, (n, m), 0.4), data(rng, (m, n)), data(rng, (m,))
    program = PROGRAMS[name]
    expected = program(np, a, b, v)
    for make in (lambda x: tr.asarray(x), lambda x: blocked(x, rng, engine),
                 lambda x: tr.tensor(x, format="csr" if x.ndim == 2 else "coo"),
                 lambda x: blocked(x, rng, engine, "csr" if x.ndim == 2 else "coo")):
        lazy = program(tr, make(a), make(b), make(v))
        found = lazy.compute(engine=engine)
        assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sites", [2, 3])
def test_join_groups_one_by_one(sites: int) -> None:
    """The other planner, however long it takes."""
    rng = np.random.default_rng([5, sites])
    a, b, v = data(rng, (24, 18), 0.4), data(rng, (18, 24)), data(rng, (18,))
    with SitesEngine(ThreadCluster(sites), "lineage", SPREAD) as engine:
        for name in ("product", "chain", "all", "softmax", "transposed", "windows", "scalar"):
            for format in (None, "csr"):
                make = [blocked(x, rng, engine, format if x.ndim == 2 else None) for x in (a, b, v)]
                found = PROGRAMS[name](tr, *make).compute()
                np.testing.assert_allclose(found.to_numpy(), PROGRAMS[name](np, a, b, v),
                                           rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_random_programs(first: int) -> None:
    for number in range(first, first + 40):
        program = sample_program(77, number)
        trace = run_numpy(program)
        if not trace.comparable:
            continue
        named: dict[str, Any] = {leaf.name: leaf.build() for leaf in program.leaves}
        with warnings.catch_warnings(), tr.options(effort="quick"), \
                SitesEngine(ThreadCluster(number % 5 + 1), rates=SPREAD) as engine:
            warnings.simplefilter("ignore")
            for step in program.steps:
                named[step.name] = eval(step.code, {"xp": tr, "np": np, "pickle": pickle} | named)
            root = program.root
            found = named[root].compute(engine=engine).to_numpy()
        wrong = difference(found, trace.values[root], trace.tolerances.get(root))
        assert wrong is None, (number, wrong, program.text)


def test_what_is_moved_is_foretold(engine: SitesEngine) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((120, 90)), rng.random((90, 110))
    for make in (lambda x: tr.asarray(x), lambda x: blocked(x, rng, engine)):
        for program in (lambda a, b: a @ b, lambda a, b: (a @ b).sum(axis=0),
                        lambda a, b: ((a + 1) @ b) @ (b.T @ b)):
            lazy = program(make(a), make(b))
            foretold = lazy.explain(engine=engine).predicted_moved
            engine.reset()
            np.testing.assert_allclose(lazy.compute(engine=engine).to_numpy(),
                                       program(a, b), rtol=1e-9)
            assert engine.stats()["bytes_moved"] == foretold


def test_no_algorithm_moves_less() -> None:
    """Broadcast, co-partitioned, 2-D, 2.5-D and 3-D products."""
    for sites in (4, 16, 64):
        with tr.engines.local(sites=sites) as engine:
            for m, k, n in ((8000, 8000, 8000), (1000, 64000, 1000), (1000, 16000, 16000),
                            (64000, 512, 512), (16000, 64, 16000), (64000, 2000, 3000)):
                a, b = (tr.from_blocks(lambda key: None, s, [max(x // 64, 1) for x in s],
                                       engine=engine) for s in ((m, k), (k, n)))
                known = min(
                    8 * (m * k * (pj - 1) + k * n * (pi - 1) + m * n * (pk - 1))
                    for pi in range(1, sites + 1) if sites % pi == 0
                    for pk in range(1, sites // pi + 1) if sites // pi % pk == 0
                    for pj in (sites // pi // pk,))
                moved = (a @ b).explain(engine=engine).predicted_moved
                assert moved <= 1.1 * known, (sites, m, k, n)


def test_join_groups_are_placed_one_by_one_where_blocks_lie_anywhere() -> None:
    """Blocks that lie where they were made, for another program."""
    rng = np.random.default_rng(2)
    a, b = rng.random((120, 120)), rng.random((120, 120))
    for planner in ("grids", "lineage"):
        with SitesEngine(ThreadCluster(4), planner) as engine:
            A, B = (tr.from_blocks(
                lambda k, x=x: x[k[0] * 30:k[0] * 30 + 30, k[1] * 30:k[1] * 30 + 30], (120, 120),
                30, engine=engine) for x in (a, b))
            (A @ A).persist(), (B.T + 1).persist()
            lazy = A @ B
            plan = lazy.explain()
            assert ("one by one" in str(plan)) == (planner == "lineage")
            np.testing.assert_allclose(lazy.compute().to_numpy(), a @ b, rtol=1e-9)

def test_persisted_results_stay(engine: SitesEngine) -> None:
    rng = np.random.default_rng(8)
    a, x = rng.random((60, 60)), rng.random(60)
    A, X = tr.asarray(a).persist(engine=engine), tr.asarray(x)
    for _ in range(3):
        X, x = (A @ X).persist(), a @ x
    assert X.explain().predicted_moved == 0
    np.testing.assert_allclose(X.compute().to_numpy(), x, rtol=1e-9)
    np.testing.assert_allclose((X + 1).to_numpy(), x + 1, rtol=1e-9)
    held = sum(engine.stats()["bytes_held"])
    assert held >= a.nbytes
    del A, X
    gc.collect()
    assert sum(engine.stats()["bytes_held"]) == 0


def test_blocks_are_made_once_and_where_they_are_needed() -> None:
    calls: list[tuple[int, ...]] = []

    def block(key: tuple[int, ...]) -> np.ndarray:
        calls.append(key)
        return np.full((10, 10), key[0] * 2.0 + key[1])

    with tr.engines.local(sites=4) as engine:
        A = tr.from_blocks(block, (20, 20), 10, engine=engine)
        assert not calls
        total = A.sum().item()
        assert total == 100 * (0 + 1 + 2 + 3)
        assert (A * 2).sum().item() == 2 * total
        assert sorted(calls) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_strict_sums_are_not_cut() -> None:
    rng = np.random.default_rng(1)
    a = rng.random((300, 5)) * 10.0 ** rng.integers(-9, 9, (300, 5))
    with tr.engines.local(sites=4) as engine:
        for tensor in (tr.asarray(a), tr.tensor(a, format="csr")):
            here = tensor.sum(axis=0).compute(strict=True).to_numpy()
            there = tensor.sum(axis=0).compute(strict=True, engine=engine).to_numpy()
            assert np.array_equal(here, there)


def test_fills(engine: SitesEngine) -> None:
    rng = np.random.default_rng(6)
    for fill in (1.0, -2.5):
        a, b = (np.where(rng.random((30, 20)) < 0.1, rng.random((30, 20)), fill) for _ in "ab")
        A, B = (tr.tensor(x, format="csr", fill=fill) for x in (a, b))
        for program in (lambda a, b: a * b, lambda a, b: a @ b.T, lambda a, b: a.sum(axis=0),
                        lambda a, b: a.prod(axis=1), lambda a, b: a.max()):
            here = program(A, B).compute()
            there = program(A, B).compute(engine=engine)
            assert there.fill == here.fill
            np.testing.assert_allclose(there.to_numpy(), program(a, b), rtol=1e-9)


def test_empty_blocks_are_neither_stored_nor_sent() -> None:
    a = np.zeros((80, 80))
    a[:10, :10] = 1
    with tr.engines.local(sites=4) as engine:
        A = blocked(a, np.random.default_rng(0), engine, "csr").persist(engine=engine)
        B = tr.tensor(a, format="csr").persist(engine=engine)
        engine.reset()
        assert (A @ B).compute().nnz == 100
        assert engine.stats()["bytes_moved"] < a.nbytes / 4


def test_errors_name_the_block(engine: SitesEngine) -> None:
    def block(key: tuple[int, ...]) -> np.ndarray:
        if key == (1, 0):
            raise ZeroDivisionError("a kernel of the user")
        return np.ones((5, 5))

    A = tr.from_blocks(block, (10, 10), 5, engine=engine)
    with pytest.raises(ZeroDivisionError, match="a kernel of the user") as caught:
        A.sum().compute()
    assert any("(1, 0)" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="shape"):
        tr.from_blocks(lambda key: np.ones(3), (10, 10), 5, engine=engine).sum().compute()
    assert tr.asarray(np.ones((6, 6))).sum().compute(engine=engine).item() == 36


def test_what_is_refused() -> None:
    a = np.ones((400, 400))
    with tr.engines.local(sites=4, memory="100kB") as engine, \
            pytest.raises(tr.errors.MemoryLimitError, match="each may hold 100 kB"):
        (tr.asarray(a) @ tr.asarray(a)).compute(engine=engine)
    with pytest.raises(tr.errors.EngineError, match="closed"):
        tr.asarray(a).sum().compute(engine=engine)
    with pytest.raises(ValueError, match="sites"):
        tr.engines.local(sites=0)
    with pytest.raises(ValueError, match="tiles"):
        tr.from_blocks(lambda key: a, (4, 4), [[1, 2], 4], engine=tr.engines.local(sites=1))
    with pytest.raises(tr.errors.UnsupportedError, match="sites"):
        tr.from_blocks(lambda key: a, (4, 4), 2)
    with tr.engines.local(sites=2) as one, tr.engines.local(sites=2) as other:
        here = tr.asarray(a).persist(engine=one)
        with pytest.raises(tr.errors.EngineError, match="another engine"):
            here.sum().compute(engine=other)


def test_the_engine_of_a_block_of_settings() -> None:
    a = np.arange(36.0).reshape(6, 6)
    with tr.engines.local(sites=3) as engine, tr.options(engine=engine):
        assert (tr.asarray(a) @ tr.asarray(a)).sum().item() == (a @ a).sum()
        assert engine.stats()["tasks"] > 0
        text = str((tr.asarray(a) @ tr.asarray(a)).explain())
        assert "3 sites" in text and "moved between sites" in text


def test_a_task_starts_when_its_inputs_have_arrived() -> None:
    """No step waits for another: what one site has to do goes on while another site is held up."""
    held, done = threading.Event(), []
    with ThreadCluster(2) as cluster:
        slow = Task(cluster.number(), 0, held.wait)
        first = [Task(cluster.number(), 1, partial(done.append, k)) for k in range(3)]
        second = [Task(cluster.number(), 1, partial(_noted, done, 3 + k), (t.number,))
                  for k, t in enumerate(first)]
        last = Task(cluster.number(), 1, partial(_noted, done, 6), (slow.number,))
        cluster.submit([slow, last, *first, *second])
        cluster.wait([t.number for t in second])
        assert sorted(done) == [0, 1, 2, 3, 4, 5]
        held.set()
        cluster.wait([last.number])
        assert done[-1] == 6


def _noted(done: list[int], what: int, arrived: object) -> None:
    done.append(what)


def test_plans_for_thousands_of_sites_need_no_data() -> None:
    with tr.engines.local(sites=2048) as engine:
        def never(key: tuple[int, ...]) -> np.ndarray:
            raise AssertionError

        tall = tr.from_blocks(never, (2**21, 64), (2**10, 64), engine=engine)
        small = tr.from_blocks(never, (64, 64), 64, engine=engine)
        plan = (tall @ small).explain(engine=engine)
        assert plan.to_dict()["sites"] == 2048
        assert plan.predicted_moved == 2047 * 64 * 64 * 8


@pytest.mark.parametrize("format", ["dense", "csr", "coo"])
def test_operands_at_hand_are_cut_here_where_the_engine_is_a_setting(format: str) -> None:
    a = np.arange(40.0).reshape(8, 5)
    with SitesEngine(ThreadCluster(4), rates=SPREAD) as engine, tr.options(engine=engine):
        T = tr.tensor(a, format=format)
        np.testing.assert_array_equal((T * 2 + 1).to_numpy(), a * 2 + 1)
        assert engine.stats()["tasks"] >= 4
