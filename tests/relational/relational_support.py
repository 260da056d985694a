"""The oracle: dictionaries of entries and comprehensions over them, in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorel as tr

Entries = dict[tuple[int, ...], Any]
FORMATS = ("dense", "dense_f", "coo", "csr", "csc", "dcsr", "dcsc", "csf", "dok", "trie", "bsr",
           "dia", "zorder")


def is_nan(x: Any) -> bool:
    return bool(x != x)


def entries(array: np.ndarray, fill: Any) -> Entries:
    """The cells that differ from the fill, where nan is nan."""
    return {at: array[at].item() for at in np.ndindex(array.shape)
            if not (array[at] == fill or (is_nan(fill) and is_nan(array[at])))}


def dense(found: Entries, shape: tuple[int, ...], fill: Any, dtype: Any) -> np.ndarray:
    made = np.full(shape, fill, dtype)
    for at, value in found.items():
        made[at] = value
    return made


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, fill: Any
                 ) -> np.ndarray:
    """Few entries; values of a small range, negative ones and nan among them; empty rows."""
    values = rng.integers(0 if dtype in ("bool", "uint8") else -3, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values = np.where(rng.random(shape) < 0.1, np.nan, values).astype(dtype)
    made = np.where(rng.random(shape) < rng.choice([0.2, 0.5, 0.9]), values, fill).astype(dtype)
    if shape and shape[0] and rng.random() < 0.5:
        made[rng.integers(shape[0])] = fill
    return made


def stored(rng: np.random.Generator, array: np.ndarray, fill: Any) -> tr.Tensor:
    """The array in some format, sometimes with entries stored that equal the fill, sometimes not
    computed yet."""
    kind = rng.integers(4)
    if kind == 0 and array.ndim:  # explicit fills
        keep = rng.random(array.shape) < 0.5
        keep |= ~((array == fill) | (is_nan(fill) & (array != array)))
        at = np.nonzero(keep)
        return tr.from_coo(at, array[at], array.shape, fill=fill)
    usable = [f for f in FORMATS if array.ndim == 2 or f in ("dense", "coo", "csf", "dok", "trie")]
    if array.ndim == 0:
        usable = ["dense"]
    return tr.tensor(array, format=str(rng.choice(usable)), fill=fill)


def same(found: Any, wanted: np.ndarray, about: object = "") -> None:
    got = found.to_numpy()
    assert got.shape == wanted.shape, (about, got.shape, wanted.shape)
    loose = got.dtype in ("float32", "complex64")
    np.testing.assert_allclose(got, wanted, rtol=1e-6 if loose else 1e-9, err_msg=str(about))


def joined(a: Entries, b: Entries, on: Callable[..., bool], merge: Callable[[Any, Any], Any],
           kept: tuple[int, ...]) -> Entries:
    """An inner join by nested loops."""
    return {(*p, *(q[k] for k in kept)): merge(x, y)
            for (p, x), (q, y) in itertools.product(a.items(), b.items()) if on(p, x, q, y)}
