"""Formulas of very many axes are written over fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from measures import allowed, processor_seconds
from tensorel.plan.logical import merge_axes
from tensorel.testing import fuzz

#: NumPy has had 64 axes since version 2.
RANK = 60 if int(np.__version__.split(".")[0]) >= 2 else 32
ONES = np.full((1,) * RANK, 2.0)
Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {
    "pointwise": lambda m, t: t * 2 + 1,
    "together": lambda m, t: t + t * t,
    "sum": lambda m, t: t.sum(),
    "sum over one": lambda m, t: t.sum(axis=3),
    "kept": lambda m, t: t.sum(axis=(1, 3), keepdims=True) - t,
    "transposed": lambda m, t: m.permute_dims(t, tuple(range(RANK))[::-1]) + t,
    "reshaped": lambda m, t: m.reshape(t * 3, (1,)),
    "squeezed": lambda m, t: m.squeeze(t, axis=tuple(range(RANK - 2))) + 1,
    "product": lambda m, t: t @ t,
    "flipped": lambda m, t: m.flip(t) + 1,
    "indexed": lambda m, t: t[0] + t[0, 0],
    "broadcast": lambda m, t: t + np.arange(3.0),
    "joined": lambda m, t: m.concat([t, t]) * 2,
    "branches": lambda m, t: m.where(t > 1, t, 0),
}


@pytest.mark.measured
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("format", ["dense", "coo"])
def test_sixty_axes_of_one_place(name: str, format: str) -> None:
    seconds, found = processor_seconds(
        lambda: PROGRAMS[name](tr, tr.tensor(ONES, format=format)).to_numpy())
    np.testing.assert_array_equal(found, PROGRAMS[name](np, ONES))
    assert seconds < allowed(5)


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_random_programs_with_all_formulas_merged(
        first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_axes, "MAX_LOOPS", 0)
    report = fuzz(78, range(first, first + 50), most=1)
    for number, wrong, program in report.failures:
        pytest.fail(f"program {number}: {wrong}\n\n{program.text}")


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes_of_many_axes(seed: int) -> None:
    """Axes of one and of two places in any order, beside each other in some operands only."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(13, 24))
    full = np.ones(rank, int)
    full[rng.permutation(rank)[: rng.integers(2, 9)]] = 2
    some = np.where(rng.random(rank) < 0.6, full, 1)
    a, b = rng.random(tuple(full.tolist())), rng.random(tuple(some.tolist()))
    swapped = rng.permutation(rank).tolist()
    axes = tuple(sorted(rng.permutation(rank)[: rng.integers(1, rank)].tolist()))
    x, y = tr.asarray(a), tr.asarray(b)
    found = [(x + y).sum(axis=axes), x * y - x.mean(axis=axes, keepdims=True),
             tr.permute_dims(x * 2, swapped), tr.flip(x, axis=axes[0]) * y]
    wanted = [(a + b).sum(axis=axes), a * b - a.mean(axis=axes, keepdims=True),
              (a * 2).transpose(swapped), np.flip(a, axis=axes[0]) * b]
    for t, w in zip(found, wanted):
        np.testing.assert_allclose(t.to_numpy(), w)


def test_ordinary_formulas_are_left_alone() -> None:
    t = tr.asarray(np.ones((2,) * merge_axes.MAX_LOOPS))
    assert "merge-axes" not in str((t * 2 + 1).explain())
    more = tr.asarray(np.ones((2,) * (merge_axes.MAX_LOOPS + 1)))
    assert "merge-axes" in str((more * 2 + 1).explain())
