"""Linear programs of the small size that bounds need: maximize c x where A x <= b, x >= 0.

All b are >= 0, so x = 0 is a start. Many are 0 here, where the simplex method can cycle: b is
raised by tiny amounts, all different, and the answer is taken from the dual solution with the
true b: any dual solution gives an upper bound, whatever the rounding of the steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
_TINY = 1e-9
MAX_PIVOTS = 400


def dual_solution(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray | None:
    """y >= 0 with y A >= c up to rounding and least y b; None when unbounded or too far."""
    rows, columns = a.shape
    table = np.zeros((rows + 1, columns + rows + 1))
    table[:rows, :columns] = a
    table[:rows, columns:-1] = np.eye(rows)
    # Geometric spacing: no two rows tie after a few pivots.
    table[:rows, -1] = b + 1e-7 * (1.0 + 0.37 * np.arange(rows) % 1.0 + np.arange(rows) / rows)
    table[-1, :columns] = -c
    for _ in range(MAX_PIVOTS):
        costs = table[-1, :-1]
        enter = int(costs.argmin())
        if costs[enter] >= -_TINY:
            return np.maximum(table[-1, columns:-1], 0.0)
        column = table[:rows, enter]
        candidates = np.flatnonzero(column > _TINY)
        if not candidates.size:
            return None
        leave = int(candidates[(table[candidates, -1] / column[candidates]).argmin()])
        table[leave] /= table[leave, enter]
        factors = table[:, enter].copy()
        factors[leave] = 0.0
        table -= np.outer(factors, table[leave])
    return None


def maximum(a: FloatArray, b: FloatArray, c: FloatArray, largest: float) -> float | None:
    """An upper bound of the maximum, its value up to rounding. ``largest`` bounds sum(x)."""
    y = dual_solution(a, b, c)
    if y is None:
        return None
    short = float((c - y @ a).max(initial=0.0))
    if short > 1e-6:
        return None
    return float(y @ b) + short * largest
