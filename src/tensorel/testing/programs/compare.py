"""When two results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Units of roundoff of the largest value, where nothing else is said.
USUAL_ROUNDOFFS = 256.0


def difference(
    found: Array, expected: Array, tolerance: Array | float | None = None, *, values: bool = True
) -> str | None:
    """None if the arrays are equal, else what differs: dtype, shape, then values (exactly for
    integers and truth values, by ``tolerance`` for floats; nan equals nan).

    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    'values differ at (1,): found 2.0, expected 2.5 (1 of 2 entries)'
    """
    if found.shape != expected.shape:
        return f"shape is {found.shape}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"dtype is {found.dtype}, expected {expected.dtype}"
    if not values or found.size == 0:
        return None
    same = _same(found, expected, tolerance)
    if same.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return (
        f"values differ at {at}: found {found[at]}, expected {expected[at]} "
        f"({int((~same).sum())} of {same.size} entries)"
    )


def _same(found: Array, expected: Array, tolerance: Array | float | None) -> Array:
    if expected.dtype.kind not in "fc":
        return np.asarray(found == expected)
    if tolerance is None:
        tolerance = USUAL_ROUNDOFFS * float(np.finfo(expected.dtype).eps) * _peak(expected)
    with np.errstate(all="ignore"):
        close = np.abs(found - expected) <= tolerance
        both_nan = np.isnan(found) & np.isnan(expected)
        return np.asarray((found == expected) | both_nan | (np.isfinite(expected) & close))


def _peak(v: Array) -> float:
    with np.errstate(all="ignore"):
        peak = float(np.max(np.abs(v)))
    return max(peak, 1.0) if np.isfinite(peak) else 1.0
