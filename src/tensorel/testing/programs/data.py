"""Data of random programs: where entries lie, in the ways that data do, and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType

Array = npt.NDArray[Any]
Rng = np.random.Generator
Places = list[npt.NDArray[np.int64]]


def sample(pattern: str, shape: Sequence[int], dtype: object, entries: int, seed: int,
           fill: object = 0) -> Array:
    """A dense array with about so many entries other than ``fill``, laid out in a pattern.

    >>> int(np.count_nonzero(sample("diagonal", (4, 4), "float64", 4, 0))) <= 4
    True
    """
    rng = np.random.default_rng(seed)
    array = np.full(tuple(shape), fill, np.dtype(dtype))  # type: ignore[call-overload]
    if not array.size:
        return array
    if pattern == "full":
        array[...] = random_values(rng, array.dtype, array.size).reshape(array.shape)
        return array
    places = PATTERNS[pattern](rng, tuple(shape), entries)
    array[tuple(places)] = random_values(rng, array.dtype, len(places[0]))
    return array


def random_values(rng: Rng, dtype: DType, count: int) -> Array:
    """Small whole numbers in any dtype."""
    if dtype.kind == "b":
        return rng.random(count) < 0.7
    low = 0 if dtype.kind == "u" else -4
    values = rng.integers(low, 5, count)
    if dtype.kind == "c":
        return (values + 1j * rng.integers(-2, 3, count)).astype(dtype)
    if dtype.kind == "f" and rng.random() < 0.15:
        return (values / 2).astype(dtype)
    if dtype.kind == "f" and count > 1000 and rng.random() < 0.4:
        return rng.standard_normal(count).astype(dtype)
    return values.astype(dtype)


# -- patterns --------------------------------------------------------------------------------
def _uniform(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    return [rng.integers(0, n, entries) for n in shape]


def _power_law(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    """A few places of each axis have most of the entries."""
    return [_shuffled(rng, n)[(n * rng.random(entries) ** 4).astype(np.int64)] for n in shape]


def _one_row(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    """Half of all entries in one place of the first axis."""
    places = _uniform(rng, shape, entries)
    places[0][: entries // 2] = rng.integers(0, shape[0])
    return places


def _banded(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    """All axes near one diagonal."""
    width = max(1, entries // max(shape[0], 1))
    at = rng.random(entries)
    return [np.clip((at * n).astype(np.int64) + rng.integers(-width, width + 1, entries), 0, n - 1)
            for n in shape]


def _diagonal(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    at = rng.integers(0, min(shape), entries) if shape else np.zeros(1, np.int64)
    return [at for _ in shape]


def _few_rows(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    """Most places of the first axis are empty."""
    some = rng.integers(0, shape[0], max(1, shape[0] // 50))
    return [rng.choice(some, entries), *_uniform(rng, shape[1:], entries)]


def _clustered(rng: Rng, shape: tuple[int, ...], entries: int) -> Places:
    """Full blocks here and there."""
    side = 8
    inside = math.prod(min(side, n) for n in shape)
    corners = [rng.integers(0, max(n - side, 0) + 1, max(1, entries // inside)) for n in shape]
    offsets = np.meshgrid(*(np.arange(min(side, n)) for n in shape), indexing="ij")
    return [(c[:, None] + o.reshape(1, -1)).reshape(-1) for c, o in zip(corners, offsets)]


def _shuffled(rng: Rng, n: int) -> npt.NDArray[np.int64]:
    return rng.permutation(n) if n < 10**5 else np.arange(n)


PATTERNS: dict[str, Callable[[Rng, tuple[int, ...], int], Places]] = {
    "uniform": _uniform, "power_law": _power_law, "one_row": _one_row, "banded": _banded,
    "diagonal": _diagonal, "few_rows": _few_rows, "clustered": _clustered,
}
