"""What a stored tensor is like: the facts behind ``tensorel info``."""

from __future__ import annotations

from math import isfinite, prod
from typing import TypedDict

import numpy as np

from tensorel.io.npy import AnyArray
from tensorel.storage.convert import canonical, count_nonfill, to_coo
from tensorel.storage.coo import Coo
from tensorel.storage.stored import Stored

Number = bool | int | float | str


class Facts(TypedDict):
    """``stored`` counts explicit fills, ``nnz`` does not; ``nonempty`` counts per axis the indices
    with an entry unlike the fill; ``range`` is of absolute values for complex numbers."""

    shape: list[int]
    dtype: str
    format: str
    fill: Number
    stored: int
    nnz: int
    density: float
    bytes: int
    nonempty: list[int]
    range: list[Number] | None
    nan: int
    symmetric: bool | None
    bandwidth: list[int] | None


def _number(value: object) -> Number:
    """A value that JSON holds: complex numbers and non-finite floats as text."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, complex) or (isinstance(plain, float) and not isfinite(plain)):
        return str(plain)
    assert isinstance(plain, (bool, int, float))
    return plain


def _range(stored: Stored, values: AnyArray, nnz: int) -> tuple[list[Number] | None, int]:
    """Smallest and largest value, the fill included where it occurs; and the number of nans."""
    whole = prod(stored.shape)
    if whole == 0:
        return None, 0
    seen = values if nnz == whole else np.append(values, stored.fill)
    if seen.dtype.kind == "c":
        seen = np.abs(seen)
    bad = np.isnan(seen) if seen.dtype.kind == "f" else np.zeros(seen.size, bool)
    nans = int(np.count_nonzero(bad))
    if nans:
        if nnz < whole and bad[-1]:
            nans += whole - nnz - 1
        seen = seen[~bad]
    return ([_number(seen.min()), _number(seen.max())] if seen.size else None), nans


def _symmetric(coo: Coo) -> bool | None:
    if len(coo.shape) != 2 or coo.shape[0] != coo.shape[1]:
        return None
    turned = canonical(coo, (1, 0))
    same = np.array_equal(turned.coords[1], coo.coords[0]) and np.array_equal(
        turned.coords[0], coo.coords[1]
    )
    exact = coo.values.dtype.kind in "fc"
    return bool(same and np.array_equal(turned.values, coo.values, equal_nan=exact))


def _bandwidth(coo: Coo) -> list[int] | None:
    """Diagonals with entries below and above the main one: the largest i - j and j - i."""
    if len(coo.shape) != 2 or not coo.count:
        return None
    offsets = coo.coords[1].astype(np.int64) - coo.coords[0]
    return [max(-int(offsets.min()), 0), max(int(offsets.max()), 0)]


def describe(stored: Stored) -> Facts:
    """The facts of a tensor; one pass over its entries, and a sort for the symmetry."""
    coo = to_coo(stored)
    nnz, whole = count_nonfill(stored), prod(stored.shape)
    found, nans = _range(stored, coo.values, nnz)
    return Facts(
        shape=list(stored.shape),
        dtype=stored.dtype.name,
        format=stored.format.text,
        fill=_number(stored.fill),
        stored=stored.count,
        nnz=nnz,
        density=nnz / whole if whole else 0.0,
        bytes=stored.nbytes,
        nonempty=[int(np.unique(c).size) for c in coo.coords],
        range=found,
        nan=nans,
        symmetric=_symmetric(coo),
        bandwidth=_bandwidth(coo),
    )
