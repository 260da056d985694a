"""Inputs of plans over simulated sites, their data, and comparison of relations."""

from __future__ import annotations

import numpy as np

from tensorel.blocks.implementation import Input, Partition

Tuples = dict[tuple[int, ...], np.ndarray]


def by(*axes: int) -> Partition:
    """A partition from pairs of a dimension and its cells."""
    return Partition.of(axes[::2], axes[1::2])


def data(*inputs: Input, seed: int = 0) -> dict[str, Tuples]:
    rng = np.random.default_rng(seed)
    return {i.name: {key: rng.integers(-9, 9, i.block).astype(float)
                     for key in np.ndindex(*i.extents)} for i in inputs}


def whole(relation: Tuples) -> np.ndarray:
    rows, columns = (max(k[n] for k in relation) + 1 for n in (0, 1))
    return np.block([[relation[i, j] for j in range(columns)] for i in range(rows)])


def equal(one: Tuples, other: Tuples) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[k], other[k]) for k in one)


A, B = Input("A", (4, 6), (2, 3), by(0, 2)), Input("B", (6, 4), (3, 2), by(1, 2))
