"""When two results are the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Tolerance(NamedTuple):
    """Reassociation may change floats by a few units of ``eps`` of the largest value met."""

    eps: float
    scale: float

    @classmethod
    def of(cls, values: Iterable[Array], factor: float = 256.0) -> Tolerance:
        """The coarsest precision and the largest magnitude among a program's values."""
        eps, scale = 0.0, 1.0
        for v in values:
            if v.dtype.kind in "fc":
                eps = max(eps, float(np.finfo(v.dtype).eps))
            scale = max(scale, _peak(v))
        return cls(factor * eps, scale)

    def widened(self, operands: Iterable[Array]) -> Tolerance:
        """For sums of products of the operands (of squares, for one operand)."""
        peaks = [_peak(v) for v in operands]
        largest = float(np.prod(peaks if len(peaks) > 1 else peaks * 2))
        return self._replace(scale=max(self.scale, largest))


def _peak(v: Array) -> float:
    if v.size == 0 or v.dtype.kind == "b":
        return 1.0
    with np.errstate(all="ignore"):
        peak = float(np.max(np.abs(v)))
    return max(peak, 1.0) if np.isfinite(peak) else 1.0


def difference(
    found: Array, expected: Array, tolerance: Tolerance | None = None, *, values: bool = True
) -> str | None:
    """None if the arrays are equal, else what differs: dtype, shape, then values (exactly for
    integers and truth values; nan equals nan).

    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    'values differ at (1,): found 2.0, expected 2.5 (1 of 2 entries)'
    """
    if found.shape != expected.shape:
        return f"shape is {found.shape}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"dtype is {found.dtype}, expected {expected.dtype}"
    if not values or found.size == 0:
        return None
    same = _same(found, expected, tolerance or Tolerance.of([expected]))
    if same.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return (
        f"values differ at {at}: found {found[at]}, expected {expected[at]} "
        f"({int((~same).sum())} of {same.size} entries)"
    )


def _same(found: Array, expected: Array, tolerance: Tolerance) -> Array:
    if expected.dtype.kind not in "fc":
        return np.asarray(found == expected)
    with np.errstate(all="ignore"):
        bound = tolerance.eps * max(tolerance.scale, 1.0) + tolerance.eps * np.abs(expected)
        close = np.abs(found - expected) <= bound
        both_nan = np.isnan(found) & np.isnan(expected)
        return np.asarray((found == expected) | both_nan | (np.isfinite(expected) & close))
