"""How far a result may lie from NumPy's: bounds of rounding errors, carried along a program.

Each value has a magnitude and a slack. The magnitude of a sum of products is the sum of the
products of magnitudes, whatever cancels: every order of the sum, and every regrouping by
distributivity, errs by at most a small multiple of the unit roundoff times it (Higham, Accuracy and
Stability, section 4.2: log2(n) + 1 for sums by pairs). The slack of operands goes through linear
steps as it is, and through others as far as the step moves when its operands do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
#: Units of roundoff for one operator: functions of NumPy and of LLVM's library differ by a few.
OPERATOR = 8.0
#: And for each doubling of a sum's length.
DOUBLING = 2.0


@dataclass(frozen=True, eq=False)
class Bound:
    """magnitude and slack have the shape of the value; unit: the coarsest roundoff on the way."""

    magnitude: Floats
    slack: Floats
    unit: float
    clean: bool  # no slack anywhere


def of_leaf(array: Array) -> Bound:
    return Bound(_size(array), np.broadcast_to(np.float64(0.0), array.shape), _unit(array), True)


def of_step(value: Array, args: Mapping[str, Array], bounds: Mapping[str, Bound], *, exact: bool,
            evaluate: Callable[[Mapping[str, Array]], Array],
            measure: Callable[[Mapping[str, Array]], Array] | None, walks: bool) -> Bound:
    """The bound of a step's value. evaluate: the step on other operands; measure: the step on
    magnitudes, if it is linear or moves entries; exact: nothing was rounded; walks: NumPy, or we,
    add term after term, and err by half a unit for each."""
    unit = max([_unit(value), *(b.unit for b in bounds.values())])
    if value.dtype.kind not in "fc":
        return Bound(_size(value), np.broadcast_to(np.float64(0.0), value.shape), unit, True)
    clean = all(b.clean for b in bounds.values())
    size = _size(value)
    magnitude, moved = size, np.zeros(())
    with np.errstate(all="ignore"):
        if measure is not None:
            magnitude = _floats(measure({n: b.magnitude for n, b in bounds.items()}))
            if not clean:
                wider = {n: b.magnitude + b.slack for n, b in bounds.items()}
                moved = np.abs(_floats(measure(wider)) - magnitude)
        elif not clean:
            moved = _moved(value, args, bounds, evaluate)
        magnitude = np.fmax(np.broadcast_to(magnitude, value.shape), size)  # nan of others
        slack = moved + unit * _growth(value, args, walks, measure) * magnitude
    if exact:
        return Bound(magnitude, np.broadcast_to(np.float64(0.0), value.shape), unit, True)
    return Bound(magnitude, np.where(np.isfinite(slack), slack, 64 * unit * (1 + size)), unit,
                 unit == 0.0)


def tolerance(bound: Bound) -> Floats:
    """What a result may differ by: also an exact one comes from sums in another order."""
    with np.errstate(all="ignore"):
        return np.asarray(bound.slack + OPERATOR * bound.unit * bound.magnitude)


def _moved(value: Array, args: Mapping[str, Array], bounds: Mapping[str, Bound],
           evaluate: Callable[[Mapping[str, Array]], Array]) -> Floats:
    """How far a step moves when its operands do, up or down."""
    far = np.zeros(())
    for sign in (1.0, -1.0):
        near = {n: (a + sign * bounds[n].slack).astype(a.dtype) if not bounds[n].clean else a
                for n, a in args.items()}
        try:
            found = evaluate(near)
        except (ValueError, TypeError, IndexError, ArithmeticError):
            continue
        if found.shape == value.shape:
            far = np.maximum(far, _size(found - value))
    return np.asarray(far)


def _growth(value: Array, args: Mapping[str, Array], walks: bool,
            measure: Callable[[Mapping[str, Array]], Array] | None) -> float:
    """Units of roundoff, of the magnitude. On ones a linear step counts its terms."""
    longest = max((a.size for a in args.values()), default=1)
    extents = (n for a in args.values() for n in a.shape)
    steps: float = max(longest // max(value.size, 1), *extents, 1) if walks else 0
    if walks and measure is not None:
        counts = measure({n: np.ones(a.shape) for n, a in args.items()})
        steps = max(steps, float(np.max(_floats(counts), initial=0.0)))
    return OPERATOR + DOUBLING * math.log2(longest + 1) + steps / 2


def _unit(array: Array) -> float:
    return float(np.finfo(array.dtype).eps) if array.dtype.kind in "fc" else 0.0


def _size(array: Array) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(array), dtype=np.float64)


def _floats(array: Array) -> Floats:
    return np.asarray(array, dtype=np.float64)
