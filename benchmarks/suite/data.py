"""Seeded data: banded, power-law and uniform matrices, rank-3 tensors, dense factors."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
P = ParamSpec("P")

#: Where a run keeps its matrices, so that the processes it starts need not make them again.
FOLDER = "TENSOREL_BENCH_DATA"


def remembered(make: Callable[P, Any]) -> Callable[P, Any]:
    """``make`` with its result, CSR or a rank-3 tensor, kept in this process and in the run's
    folder."""

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> Any:
        folder = os.environ.get(FOLDER)
        if not folder:
            return make(*args, **kwargs)
        words = [make.__name__, *map(str, args), *(f"{k}{v}" for k, v in sorted(kwargs.items()))]
        path = Path(folder) / ("-".join(words) + ".npz")
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}.npz")  # whole or not there at all
            _save(part, make(*args, **kwargs))
            part.rename(path)
        return _load(path)

    return lru_cache(maxsize=4)(get)  # type: ignore[return-value]


def _save(path: Path, made: Any) -> None:
    if isinstance(made, Entries):
        np.savez(path, *made.coords, values=made.values, shape=np.array(made.shape))
    else:
        sp.save_npz(path, made, compressed=False)


def _load(path: Path) -> Any:
    with np.load(path) as found:
        if "values" in found:
            coords = (found["arr_0"], found["arr_1"], found["arr_2"])
            return Entries(coords, found["values"], tuple(found["shape"].tolist()))
    return _trusted(sp.csr_array(sp.load_npz(path)))


def _trusted(matrix: Any) -> Any:
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def _distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The different keys, ascending: ``np.unique`` hashes, which takes ten times as long here."""
    ordered = np.sort(keys)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]]


def as_csr(rows: npt.NDArray[Any], cols: npt.NDArray[Any], shape: tuple[int, int], seed: int
           ) -> Any:
    """Canonical CSR with int32 indices and values in [0.5, 1.5): sums stay away from zero."""
    key = _distinct(rows.astype(np.int64) * shape[1] + cols)
    values = np.random.default_rng(seed + 1).random(key.size) + 0.5
    indptr = np.searchsorted(key, np.arange(shape[0] + 1, dtype=np.int64) * shape[1])
    indices = (key % shape[1]).astype(np.int32)
    return _trusted(sp.csr_array((values, indices, indptr.astype(np.int32)), shape=shape))


@remembered
def banded(nnz: int, seed: int = 0, per_row: int = 32, width: int = 200) -> Any:
    """``per_row`` entries in each row, within ``width`` columns of the diagonal."""
    rng = np.random.default_rng(seed)
    n = max(nnz // per_row, width + 1)
    start = np.clip(np.arange(n) - width // 2, 0, n - width)
    steps = rng.integers(1, max(width // per_row, 1) + 1, size=(n, per_row))
    cols = start[:, None] + np.cumsum(steps, axis=1) - 1
    return as_csr(np.repeat(np.arange(n), per_row), cols.ravel(), (n, n), seed)


def skewed_draw(rng: np.random.Generator, n: int, count: int, skew: float
                ) -> npt.NDArray[np.int64]:
    """Draws from 0..n-1 with P(rank r) ~ r**-skew, ranks scattered over the numbers."""
    drawn = np.minimum(n * rng.random(count) ** (1 / (1 - skew)), n - 1).astype(np.int64)
    return rng.permutation(n)[drawn]


@remembered
def power_law(nnz: int, seed: int = 0, per_row: int = 10, skew: float = 0.5) -> Any:
    """A graph whose out- and in-degrees both follow a power law."""
    rng = np.random.default_rng(seed)
    n = max(nnz // per_row, 16)
    drawn = int(nnz * 1.05)
    rows, cols = (skewed_draw(rng, n, drawn, skew) for _ in range(2))
    return as_csr(rows, cols, (n, n), seed)


@remembered
def uniform(
    nnz: int, seed: int = 0, per_row: int = 10, columns: int | None = None, rows: int | None = None
) -> Any:
    """Entries anywhere with equal chance."""
    rng = np.random.default_rng(seed)
    n = max(nnz // per_row, 16) if rows is None else rows
    m = n if columns is None else columns
    return as_csr(rng.integers(0, n, nnz), rng.integers(0, m, nnz), (n, m), seed)


@dataclass(frozen=True, eq=False)
class Entries:
    """A rank-3 tensor as a sorted, unique coordinate list."""

    coords: tuple[Ints, Ints, Ints]
    values: Floats
    shape: tuple[int, int, int]

    def fibres(self) -> tuple[Any, Any, Ints]:
        """The CSF tree in SciPy's terms: (fibres x last axis), (first axis x fibres), middle
        coordinate of each fibre. This is the storage a SciPy expert would prepare once."""
        i, j, k = self.coords
        new = np.flatnonzero(np.r_[True, (np.diff(i) != 0) | (np.diff(j) != 0)])
        ends = np.r_[new, i.size].astype(np.int32)
        leaf = sp.csr_array((self.values, k, ends), shape=(new.size, self.shape[2]))
        first = np.searchsorted(i[new], np.arange(self.shape[0] + 1)).astype(np.int32)
        ones, numbers = np.ones(new.size), np.arange(new.size, dtype=np.int32)
        root = sp.csr_array((ones, numbers, first), shape=(self.shape[0], new.size))
        return leaf, root, j[new]


@remembered
def tensor3(nnz: int, shape: tuple[int, int, int], seed: int = 0, skew: float = 0.6) -> Entries:
    """A rank-3 tensor with skewed first and second coordinates, as rating data has."""
    rng = np.random.default_rng(seed)
    drawn = int(nnz * 1.25)
    i = skewed_draw(rng, shape[0], drawn, skew)
    j = skewed_draw(rng, shape[1], drawn, skew)
    k = rng.integers(0, shape[2], drawn)
    key = _distinct((i * shape[1] + j) * shape[2] + k)
    key = np.sort(rng.permutation(key)[:nnz])
    rest, last = np.divmod(key, shape[2])
    first, middle = np.divmod(rest, shape[1])
    coords = (first.astype(np.int32), middle.astype(np.int32), last.astype(np.int32))
    return Entries(coords, rng.random(key.size) + 0.5, shape)


@lru_cache(maxsize=8)
def dense(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed + sum(shape)).random(shape)
