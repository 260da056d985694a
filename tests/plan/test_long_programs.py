"""Programs that go on and on, each step reading the one before it at several places: what is
computed, planned and compiled grows with their length, not with the number of ways through them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from measures import allowed, calls, processor_seconds
from tensorel import config
from tensorel.engines.binding import bind
from tensorel.engines.in_process import engine
from tensorel.storage.convert import to_dense

Step = Callable[[Any, Any], Any]
LENGTH, SECONDS = 20, 12.0  # seconds of the processor: they take 0.1 to 2.5
VECTOR = np.array([0, 1.0, 0, 2, 0, 0, 3, 0.5])
MATRIX = np.outer(VECTOR, VECTOR[::-1])
STEPS: dict[str, Step] = {
    "branches": lambda m, t: m.where(t > 3, t * 0.9, t + 1),
    "doubled": lambda m, t: t + t,
    "halved": lambda m, t: (t + t) * 0.5,
    "newton": lambda m, t: t - (t * t - 2.0) / (2.0 * t + 1.0),
    "transposed": lambda m, t: (t + t.T) * 0.5,
    "sums taken off": lambda m, t: t - t.sum(axis=-1, keepdims=True) * 0.01,
    "shares of sums": lambda m, t: m.exp(t) / m.exp(t).sum(axis=-1, keepdims=True),
    "norm": lambda m, t: t / (1.0 + (t * t).sum()),
    "shifted": lambda m, t: m.roll(t, 1, axis=-1) * 0.5 + t * 0.5,
    "gram": lambda m, t: (t @ t.T) * 0.01,
    "smooth": lambda m, t: 1.0 / (1.0 + m.exp(-t)) * t,
}


STARTS = [(VECTOR, "dense"), (VECTOR, "coo"), (MATRIX, "csr")]
CASES = [(name, start, format) for name in STEPS for start, format in STARTS
         if name != "gram" or start.ndim == 2]


@pytest.mark.measured
@pytest.mark.parametrize(("name", "start", "format"), CASES)
def test_long_programs(name: str, start: np.ndarray, format: str) -> None:
    t: Any = tr.asarray(start).to_format(format).compute()
    wanted: Any = start
    with np.errstate(all="ignore"):
        for _ in range(LENGTH):
            t, wanted = STEPS[name](tr, t), STEPS[name](np, wanted)
        with tr.options(disk_cache=False):  # kernels are made anew, as on a new machine
            seconds, found = processor_seconds(t.to_numpy)
    assert seconds < allowed(SECONDS)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_thousand_slices_of_slices() -> None:
    x = np.arange(3000.0)
    t: Any = tr.asarray(x)
    for _ in range(1000):
        t = t[1:]
    np.testing.assert_array_equal(t.to_numpy(), x[1000:])
    assert "A[i0 + 1000]" in str(t.explain())


@pytest.mark.measured
def test_power_iteration() -> None:
    """Forty steps before anybody asks for a result."""
    rng = np.random.default_rng(1)
    dense = rng.random((30, 30)) * (rng.random((30, 30)) < 0.2)
    a, x, y = tr.asarray(dense).to_format("csr").compute(), tr.asarray(np.ones(30)), np.ones(30)
    for _ in range(40):
        x, y = a @ x, dense @ y
        x, y = x / (x * x).sum() ** 0.5, y / (y * y).sum() ** 0.5
    seconds, found = processor_seconds(x.to_numpy)
    np.testing.assert_allclose(found, y, rtol=1e-9, atol=1e-12)
    assert seconds < allowed(SECONDS)


# -- longer ones: growth --------------------------------------------------------------------------
RNG = np.random.default_rng(3)
DENSE = RNG.random((8, 8)) / 4
SPARSE = DENSE * (RNG.random((8, 8)) < 0.4)
STORED = {id(a): tr.asarray(a).to_format(f).compute()
          for a, f in [(DENSE, "dense"), (SPARSE, "csr"), (VECTOR, "dense")]}
PLACES = np.array([1, 0, 2, 3, 7, 5, 6, 4])


def own(m: Any, a: np.ndarray) -> Any:
    """The same operand for each side."""
    return STORED[id(a)] if m is tr else a


def joined(m: Any, parts: list[Any]) -> Any:
    return tr.concat(parts) if m is tr else np.concatenate(parts)


def summed(m: Any, t: Any) -> Any:
    return tr.cumulative_sum(t) if m is tr else np.cumsum(t)


def shares(m: Any, t: Any) -> Any:
    return m.exp(t) / m.exp(t).sum()


#: Steps from a vector of eight entries to another one; the number of the step is the last argument.
LOOPS: dict[str, Callable[[Any, Any, int], Any]] = {
    "product": lambda m, t, k: own(m, DENSE) @ t,
    "sparse product": lambda m, t, k: own(m, SPARSE) @ t + 0.1,
    "addition": lambda m, t, k: t + own(m, VECTOR),
    "scaling": lambda m, t, k: t * (0.9 + 0.01 * (k % 7)),
    "branches": lambda m, t, k: m.where(t > 0.5, t * 0.9, t + 0.1),
    "layer": lambda m, t, k: m.maximum(own(m, DENSE) @ t, 0),
    "softmax": lambda m, t, k: shares(m, t),
    "reshape": lambda m, t, k: m.reshape(m.reshape(t + 1, (2, 4)).T, (8,)) * 0.5,
    "roll": lambda m, t, k: m.roll(t, 1 + k % 3),
    "flip": lambda m, t, k: m.flip(t, axis=0),
    "backwards": lambda m, t, k: t[::-1],
    "halves": lambda m, t, k: joined(m, [t[::-2], t[::2]]),
    "joined": lambda m, t, k: joined(m, [t[1:], t[:1]]),
    "padded": lambda m, t, k: m.pad(t, (1, 1))[1:9],
    "gathered": lambda m, t, k: t[PLACES] if m is np else t[tr.asarray(PLACES)],
    "prefix sums": lambda m, t, k: summed(m, t) * 0.1,
    "sort": lambda m, t, k: m.sort(t) - m.flip(t, axis=0) * 0.1,
    "centred": lambda m, t, k: (t - t.mean()) / (1 + t.var()),
    "norm": lambda m, t, k: t / m.sqrt(1 + (t * t).sum()),
    "ranks": lambda m, t, k: 0.85 * (own(m, SPARSE) @ t) + 0.15 / 8,
    "descent": lambda m, t, k: t - 0.1 * (own(m, DENSE).T @ (own(m, DENSE) @ t - own(m, VECTOR))),
    "repeated": lambda m, t, k: m.repeat(t, 2)[:8],
    "outer": lambda m, t, k: (t[None, :] * own(m, DENSE)).sum(axis=1),
}


def mixture(m: Any, names: list[str]) -> Any:
    t = own(m, VECTOR)
    with np.errstate(all="ignore"):
        for k, name in enumerate(names):
            t = LOOPS[name](m, t, k)
    return t


@pytest.mark.parametrize("name", [n for n in LOOPS if n != "centred"])
def test_loops_grow_with_their_length(name: str) -> None:
    """Building, planning and running."""
    few, _ = calls(lambda: mixture(tr, [name] * 50).to_numpy())
    many, found = calls(lambda: mixture(tr, [name] * 200).to_numpy())
    np.testing.assert_allclose(found, mixture(np, [name] * 200), rtol=1e-6, atol=1e-9)
    assert many < 5 * few


@pytest.mark.parametrize("seed", range(2))
def test_mixtures_grow_with_their_length(seed: int) -> None:
    """Planning where no part is like another."""
    names = random.Random(seed).choices(list(LOOPS), k=240)

    def planned(count: int) -> int:
        t = mixture(tr, names[:count])
        bound = bind([t.node], [None], config.current())
        return calls(lambda: engine.planned(bound, [None], config.current()))[0]

    few, many = planned(60), planned(240)
    assert many < 6 * few


def test_mixtures_are_right() -> None:
    """Window by window, each planned with what those before it have made; and as one plan."""
    names = random.Random(100).choices(list(LOOPS), k=80)
    t, wanted = mixture(tr, names), mixture(np, names)
    np.testing.assert_allclose(t.to_numpy(), wanted, rtol=1e-6, atol=1e-9)
    settings = config.current()
    bound = bind([t.node], ["dense"], settings)
    found = engine.planned(bound, ["dense"], settings)
    assert found.plan.windows > 1
    (result,) = engine.execute(engine.Run(found, bound.stored, settings))
    np.testing.assert_allclose(to_dense(result), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.measured
@pytest.mark.parametrize("name", ["backwards", "flip", "roll", "reshape", "branches"])
def test_thousands_of_steps_that_become_one(name: str) -> None:
    """Places that are moved again and again stay one multiple and one shift, and no walk over an
    expression is as deep as the program is long."""
    t, wanted = mixture(tr, [name] * 2001), mixture(np, [name] * 2001)
    seconds, found = processor_seconds(t.to_numpy)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert seconds < allowed(2 * SECONDS)


@pytest.mark.measured
def test_ten_thousand_products() -> None:
    """From the first line to the result, in a few seconds: planned as a whole they would take
    minutes."""
    scaled = DENSE / np.abs(np.linalg.eigvals(DENSE)).max()

    def product() -> np.ndarray:
        t: Any = own(tr, VECTOR)
        a = tr.asarray(scaled)
        for _ in range(10_000):
            t = a @ t
        return t.to_numpy()

    wanted = VECTOR
    for _ in range(10_000):
        wanted = scaled @ wanted
    seconds, found = processor_seconds(product)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert seconds < allowed(30)


@pytest.mark.measured
@pytest.mark.parametrize("count", [65, 2000])
def test_many_tensors_joined(count: int) -> None:
    parts = [VECTOR[: 3 + k % 5] + k for k in range(count)]
    joined, found = processor_seconds(
        lambda: tr.concat([tr.asarray(p) for p in parts]).to_numpy())
    np.testing.assert_array_equal(found, np.concatenate(parts))
    stacked, found = processor_seconds(lambda: tr.stack([own(tr, VECTOR)] * count).to_numpy())
    np.testing.assert_array_equal(found, np.stack([VECTOR] * count))
    assert joined + stacked < allowed(15)


def test_a_tree_of_sums_and_many_results() -> None:
    leaves = [VECTOR + k for k in range(1000)]
    level: list[Any] = [tr.asarray(x) for x in leaves]
    results = [x * 2 for x in level]
    while len(level) > 1:
        level = [sum(level[k + 1 : k + 2], level[k]) for k in range(0, len(level), 2)]
    total, *found = tr.compute(level[0], *results)
    np.testing.assert_allclose(total.to_numpy(), np.sum(leaves, axis=0))
    np.testing.assert_array_equal([t.to_numpy() for t in found], [x * 2 for x in leaves])


def test_a_thousand_reshapes() -> None:
    x = np.arange(24.0)
    t: Any = tr.asarray(x)
    shapes = [(4, 6), (2, 12), (3, 8), (24,)]
    for k in range(1200):
        t = tr.reshape(t + 1, shapes[k % 4])
    np.testing.assert_array_equal(t.to_numpy(), x + 1200)


def test_long_programs_that_nobody_runs_are_dropped() -> None:
    t: Any = own(tr, VECTOR)
    for _ in range(10_000):
        t = own(tr, DENSE) @ t + 1
    assert t.shape == (8,)
    assert t.fill == 1
    del t
