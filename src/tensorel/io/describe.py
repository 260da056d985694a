"""What a stored tensor is like: the facts behind ``tensorel info``."""

from __future__ import annotations

from math import isfinite, prod
from typing import TypedDict

import numpy as np

from tensorel.io.npy import AnyArray
from tensorel.storage.convert import canonical, count_nonfill, dense_view, to_coo
from tensorel.storage.entries import Coo, differs
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


def _range(stored: Stored, values: AnyArray) -> tuple[list[Number] | None, int]:
    """Smallest and largest value, the fill included where it occurs; and the number of nans."""
    absent = prod(stored.shape) - values.size
    seen = np.append(values, stored.fill) if absent else values
    if seen.dtype.kind == "c":
        seen = np.abs(seen)
    nans = 0
    if seen.dtype.kind == "f":
        bad = np.isnan(seen)
        nans = int(np.count_nonzero(bad))
        if nans and absent and bad[-1]:
            nans += absent - 1
        seen = seen[~bad] if nans else seen
    return ([_number(seen.min()), _number(seen.max())] if seen.size else None), nans


class _Structure(TypedDict):
    nonempty: list[int]
    symmetric: bool | None
    bandwidth: list[int] | None


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1]


def _same(a: AnyArray, b: AnyArray) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _sparse_structure(coo: Coo, fill: np.generic) -> _Structure:
    """From the entries unlike the fill; one sort for the symmetry."""
    kept = differs(coo.values, fill)
    if not kept.all():
        coo = coo.where(kept)
    symmetric, bandwidth = None, None
    if _is_square(coo.shape):
        turned = canonical(coo, (1, 0))
        there, here = turned.coords[::-1], coo.coords
        symmetric = all(map(np.array_equal, there, here)) and _same(turned.values, coo.values)
    if len(coo.shape) == 2 and coo.count:
        offsets = coo.coords[1].astype(np.int64) - coo.coords[0]
        bandwidth = [max(-int(offsets.min()), 0), max(int(offsets.max()), 0)]
    nonempty = [int(np.unique(c).size) for c in coo.coords]
    return _Structure(nonempty=nonempty, symmetric=symmetric, bandwidth=bandwidth)


def _dense_structure(view: AnyArray, fill: np.generic) -> _Structure:
    """The same from the array itself, with a byte per entry."""
    mask, axes = differs(view, fill), range(view.ndim)
    used = [mask.any(axis=tuple(a for a in axes if a != axis)) for axis in axes]
    bandwidth = None
    if view.ndim == 2 and mask.any():
        rows = np.flatnonzero(used[0])
        first = mask[rows].argmax(axis=1) - rows
        last = view.shape[1] - 1 - mask[rows, ::-1].argmax(axis=1) - rows
        bandwidth = [max(-int(first.min()), 0), max(int(last.max()), 0)]
    return _Structure(
        nonempty=[int(np.count_nonzero(u)) for u in used],
        symmetric=_same(view, view.T) if _is_square(view.shape) else None,
        bandwidth=bandwidth,
    )


def describe(stored: Stored) -> Facts:
    """The facts of a tensor; a few passes over its entries, never over cells not stored."""
    nnz, whole = count_nonfill(stored), prod(stored.shape)
    view = dense_view(stored)
    if view is not None:
        values, structure = view.reshape(-1), _dense_structure(view, stored.fill)
    else:
        coo = to_coo(stored)
        values, structure = coo.values, _sparse_structure(coo, stored.fill)
    found, nans = _range(stored, values)
    return Facts(
        shape=list(stored.shape),
        dtype=stored.dtype.name,
        format=stored.format.text,
        fill=_number(stored.fill),
        stored=stored.count,
        nnz=nnz,
        density=nnz / whole if whole else 0.0,
        bytes=stored.nbytes,
        range=found,
        nan=nans,
        **structure,
    )
