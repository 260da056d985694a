"""Running values and rankings along axes that are cut over sites: results are those of NumPy in
every storage, and what is moved is as small as a cut through the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_sites import SPREAD, in_blocks

import tensorel as tr
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster

Function = Callable[..., Any]


def first(a: np.ndarray, k: int, axis: int, largest: bool = True) -> np.ndarray:
    """Places of the first k, of equal ones those that come first."""
    n = a.shape[axis]
    turned = np.argsort(np.flip(a, axis), axis=axis, kind="stable")
    order = np.flip(n - 1 - turned, axis) if largest else np.argsort(a, axis=axis, kind="stable")
    return np.take(order, range(k), axis=axis)


ALONG: dict[str, tuple[Function, Function]] = {
    "cumulative_sum": (lambda t, k: tr.cumulative_sum(t, axis=k), lambda a, k: np.cumsum(a, k)),
    "cumulative_prod": (lambda t, k: tr.cumulative_prod(t, axis=k), lambda a, k: np.cumprod(a, k)),
    "argmax": (lambda t, k: tr.argmax(t, axis=k), lambda a, k: np.argmax(a, axis=k)),
    "argmin": (lambda t, k: tr.argmin(t, axis=k), lambda a, k: np.argmin(a, axis=k)),
    "topk values": (lambda t, k: tr.topk(t, 3, axis=k)[0],
                    lambda a, k: np.take_along_axis(a, first(a, 3, k), k)),
    "topk places": (lambda t, k: tr.topk(t, 3, axis=k)[1], lambda a, k: first(a, 3, k)),
    "smallest": (lambda t, k: tr.topk(t, 4, axis=k, largest=False)[1],
                 lambda a, k: first(a, 4, k, False)),
}
OF_ALL: dict[str, tuple[Function, Function]] = {
    "argmax": (tr.argmax, np.argmax), "argmin": (tr.argmin, np.argmin)}


def data(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values, so that many are equal; nan in some."""
    a = np.where(rng.random(shape) < 0.5, rng.integers(-2, 3, shape), 0)
    if dtype == "complex128":
        return a + 1j * rng.integers(0, 2, shape)
    found = a.astype(dtype)
    if dtype.startswith("float") and rng.random() < 0.4:
        found[rng.random(shape) < 0.1] = np.nan
    return found


@pytest.mark.parametrize("dtype, sites, shapes", [
    ("float64", 3, ((23,), (9, 4))), ("int8", 8, ((23,), (4, 2, 5))), ("complex128", 1, ((9, 4),))])
def test_results_are_those_of_numpy(dtype: str, sites: int, shapes: tuple[tuple[int, ...], ...]
                                    ) -> None:
    rng = np.random.default_rng([sites, len(dtype)])
    for shape in shapes:
        a = data(rng, shape, dtype)
        with SitesEngine(ThreadCluster(sites), rates=SPREAD) as engine, np.errstate(all="ignore"):
            fill = a.dtype.type(int(rng.integers(2)))
            for T in (tr.asarray(a), tr.tensor(a, format="coo", fill=fill),
                      in_blocks(a, rng, engine),
                      in_blocks(a, rng, engine, "coo", fill).persist()):
                for axis in range(len(shape)):
                    for name, (ours, theirs) in ALONG.items():
                        if a.shape[axis] < 4 or (name in OF_ALL and dtype == "complex128"):
                            continue
                        found = ours(T, axis).compute(engine=engine).to_numpy()
                        np.testing.assert_allclose(found, theirs(a, axis), rtol=1e-6, err_msg=name)
                for name, (ours, theirs) in OF_ALL.items():
                    if dtype != "complex128":
                        assert ours(T).compute(engine=engine).item() == theirs(a), name


def steps_of(tensor: tr.Tensor, engine: SitesEngine) -> str:
    return str(tensor.explain(engine=engine))


@pytest.mark.parametrize("name", ALONG)
def test_what_is_moved_is_small(name: str) -> None:
    """A tall matrix in strips: columns are not brought together."""
    a = np.random.default_rng(0).random((40_000, 3))
    with SitesEngine(ThreadCluster(4)) as engine:
        A = tr.from_blocks(lambda key: a[10_000 * key[0]:10_000 * key[0] + 10_000], a.shape,
                           (10_000, 3), engine=engine).persist()
        found = ALONG[name][0](A, 0)
        plan = found.explain(engine=engine)
        assert "of each block, combined" in str(plan)
        engine.reset()
        result = found.persist(engine=engine)
        assert engine.stats()["bytes_moved"] == plan.predicted_moved <= 16 * 3 * 4 * 4
        assert all(w > 0 for w in engine.stats()["work"])
        np.testing.assert_allclose(result.to_numpy(), ALONG[name][1](a, 0))


def test_long_vectors_and_what_follows() -> None:
    v = np.random.default_rng(1).standard_normal(100_000)
    with SitesEngine(ThreadCluster(4)) as engine:
        V = tr.asarray(v)
        shares = tr.cumulative_sum(V * V) / (V * V).sum()
        assert "of each block, combined" in steps_of(shares, engine)
        np.testing.assert_allclose(shares.compute(engine=engine).to_numpy(),
                                   np.cumsum(v * v) / (v * v).sum())
        best, at = tr.topk(V, 5)
        found = tr.compute(best, at, tr.argmin(V), engine=engine)
        np.testing.assert_array_equal(found[0].to_numpy(), -np.sort(-v)[:5])
        np.testing.assert_array_equal(found[1].to_numpy(), np.argsort(-v)[:5])
        assert found[2].item() == v.argmin()
        strict = tr.cumulative_sum(V).compute(engine=engine, strict=True).to_numpy()
        assert strict.tobytes() == np.cumsum(v).tobytes()


def test_small_tensors_stay_together() -> None:
    with SitesEngine(ThreadCluster(4)) as engine:
        assert "whole, at site" in steps_of(tr.cumulative_sum(tr.asarray(np.ones(20))), engine)


def test_sparse_operands_are_not_made_dense() -> None:
    """Of a sparse vector of 10**9 entries the blocks rank what is stored."""
    extent = 10**9
    at = np.sort(np.random.default_rng(2).choice(extent, 50_000, replace=False))
    values = np.random.default_rng(3).standard_normal(50_000)
    V = tr.from_coo((at,), values, (extent,))
    with SitesEngine(ThreadCluster(4), rates=SPREAD) as engine, tr.options(memory="200MB"):
        best, where = tr.topk(V, 7)
        assert "of each block, combined" in steps_of(where, engine)
        order = np.argsort(-values)[:7]
        found = tr.compute(best, where, tr.argmax(V), engine=engine)
        np.testing.assert_array_equal(found[0].to_numpy(), values[order])
        np.testing.assert_array_equal(found[1].to_numpy(), at[order])
        assert found[2].item() == at[order[0]]
        with pytest.raises(tr.errors.MemoryLimitError, match="dense result"):
            tr.cumulative_sum(V).persist(engine=engine)


def test_more_data_than_a_site_may_hold() -> None:
    """Rankings in rounds: blocks come into being, are ranked, and go."""
    def block(key: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(key).random(10_000)

    v = np.concatenate([block((k,)) for k in range(60)])
    with SitesEngine(ThreadCluster(2, memory=1_000_000), rates=SPREAD) as engine:
        V = tr.from_blocks(block, (600_000,), 10_000, engine=engine)
        assert tr.argmax(V).compute().item() == v.argmax()
        np.testing.assert_array_equal(tr.topk(V, 9)[1].compute().to_numpy(), np.argsort(-v)[:9])
        assert max(engine.stats()["bytes_peak"]) <= 1_000_000
        with pytest.raises(tr.errors.MemoryLimitError):
            tr.cumulative_sum(V).persist()
