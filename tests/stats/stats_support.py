"""Shared by the statistics tests: random patterns and counting by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.stats.collected.collect import collect
from tensorel.stats.estimates.pointset import Relation
from tensorel.stats.estimates.reads import of_read
from tensorel.storage.convert import from_dense, to_format
from tensorel.storage.stored import Stored

Bools = np.ndarray[Any, np.dtype[np.bool_]]
KINDS = ("uniform", "skewed", "empty", "one_hot", "banded", "full", "block")


def random_pattern(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Bools:
    cells = rng.random(shape)
    if kind == "uniform":
        return cells < rng.random()
    if kind == "skewed":
        chance = np.ones(shape)
        for axis, n in enumerate(shape):
            weights = 1.0 / (1 + rng.permutation(n)) ** 1.2
            chance = chance * weights.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return cells < 2 * chance
    if kind == "empty":
        return np.zeros(shape, bool)
    if kind == "one_hot":
        flat = np.zeros((shape[0], int(np.prod(shape[1:]))), bool)
        if flat.size:
            flat[np.arange(shape[0]), rng.integers(0, flat.shape[1], shape[0])] = True
        return flat.reshape(shape)
    if kind == "banded" and len(shape) > 1:
        i, j = np.indices(shape[:2])
        band = (j - i >= -rng.integers(0, 3)) & (j - i <= rng.integers(0, 3))
        return (cells < 0.8) & band.reshape(band.shape + (1,) * (len(shape) - 2))
    if kind == "block":
        cells[tuple([slice(0, n // 2) for n in shape])] = 0.0
        return cells < 0.05
    return np.ones(shape, bool)


def stored_pattern(pattern: Bools, fmt: str) -> Stored:
    return to_format(from_dense(pattern.astype(np.float64)), fmt)


def relation_of(pattern: Bools, names: str, extents: dict[str, int], fmt: str = "coo"
                ) -> Relation:
    return of_read(collect(stored_pattern(pattern, fmt)), tuple(names), extents)


def joined(extents: dict[str, int], terms: list[tuple[Bools, str]], op: Any = np.logical_and
           ) -> Bools:
    """The points over all indices by brute force, axes in the order of ``extents``."""
    order = list(extents)
    result: Any = None
    for pattern, names in terms:
        axes = sorted(range(len(names)), key=lambda k: order.index(names[k]))
        turned = np.transpose(pattern, axes)
        spread = turned.reshape([extents[n] if n in names else 1 for n in order])
        result = spread if result is None else op(result, spread)
    return np.broadcast_to(result, tuple(extents.values()))
