"""Shared by the tests of databases: random tensors in all formats, and what a folder holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.catalog.folder import Folder
from tensorel.catalog.records import Entry, State, files_of
from tensorel.errors import TensorelError
from tensorel.storage.registry import names, resolve
from tensorel.storage.stored import Stored

SHAPES = ((), (0,), (1,), (7,), (3, 4), (5, 5), (0, 3), (1, 6), (2, 3, 4), (3, 1, 0), (2, 3, 1, 2))
FILLS = {"b": (False, True), "i": (0, 3), "u": (0, 3), "f": (0.0, 1.5, np.nan, np.inf, -0.0),
         "c": (0.0, 1 + 2j, complex(np.nan, 0), complex(-0.0, np.inf))}


def texts(shape: tuple[int, ...], dtype: Any) -> list[str]:
    """Formats that take every tensor of the shape and dtype."""
    axes = [str(a) for a in range(len(shape))]
    found = [n for n in names() if n not in ("tril", "triu", "symmetric")]
    if len(shape) > 1:
        found += [f"csf({','.join(reversed(axes))})", f"trie({','.join(axes[1:] + axes[:1])})",
                  f"{axes[0]};{','.join(axes[1:])}", f";{','.join(axes[:-1])};{axes[-1]}",
                  "bsr(2,3)"]
    return [n for n in found if _takes(n, shape, np.dtype(dtype))]


def _takes(name: str, shape: tuple[int, ...], dtype: Any) -> bool:
    try:
        resolve(name, shape, dtype)
    except TensorelError:
        return False
    return name != "bitmap" or dtype.kind == "b"


def random_tensor(rng: np.random.Generator, format: str | None = None) -> tr.Tensor:
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype = np.dtype(rng.choice(["bool", "int8", "uint16", "int64", "float32", "float64",
                                 "complex64", "complex128"]))
    fills = FILLS[dtype.kind]
    fill = fills[rng.integers(len(fills))]
    array = np.full(shape, fill, dtype)
    mask = rng.random(shape) < rng.choice([0.0, 0.3, 1.0])
    array[mask] = rng.integers(0, 5, int(mask.sum()))
    known = texts(shape, dtype)
    return tr.tensor(array, fill=fill, format=format or known[rng.integers(len(known))])


def exactly(a: Stored, b: Stored) -> bool:
    """The same format, shape, dtype, fill and arrays, bit by bit."""
    return (
        (a.format, a.shape, a.dtype) == (b.format, b.shape, b.dtype)
        and a.fill.tobytes() == b.fill.tobytes()
        and list(a.arrays) == list(b.arrays)
        and all(x.dtype == y.dtype and x.tobytes() == y.tobytes()
                for x, y in zip(a.arrays.values(), b.arrays.values())))


def data_files(path: Path | str) -> set[str]:
    return set(os.listdir(os.path.join(path, "data")))


def catalogs(path: Path | str) -> list[str]:
    return sorted(n for n in os.listdir(path) if n.startswith("catalog-"))


def state_of(path: Path | str) -> State[Entry]:
    """The last committed state of a folder, as a reader sees it that comes now."""
    store = Folder(os.fspath(path), read_only=True)
    try:
        return store.current()
    finally:
        store.close()


def files_in_use(path: Path | str) -> set[str]:
    """The files of the last committed state."""
    return files_of(state_of(path))


class Careless:
    """``os`` that synchronizes nothing: quick."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, file: int) -> None:
        return None
