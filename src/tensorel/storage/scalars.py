"""Fill values: making them, and telling entries that differ from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.errors import TypeError_

BoolArray = npt.NDArray[np.bool_]


def make_fill(fill: object, dtype: DType) -> np.generic:
    """``fill`` as a NumPy scalar of ``dtype``; refused when the dtype cannot hold it."""
    given = np.asarray(fill)
    if given.ndim or given.dtype.kind not in "biufc":
        raise TypeError_(f"fill {fill!r} is not a scalar", hint="pass a number such as 0 or 1.5")
    if given.dtype == dtype:
        return given[()]  # type: ignore[return-value]
    with np.errstate(all="ignore"):
        made = given.astype(dtype) if dtype.kind == "c" or given.dtype.kind != "c" else (
            given.real.astype(dtype)
        )
        exact = dtype.kind in "fc" and given.dtype.kind in "biuf"
        same = exact or bool(made == given) or bool(given != given and made != made)
    if not same:
        raise TypeError_(
            f"fill {fill!r} cannot be held by dtype {dtype.name}",
            hint="convert the values to a dtype that holds both, e.g. float64",
        )
    return made[()]  # type: ignore[return-value]


def is_nan(value: object) -> bool:
    return bool(np.not_equal(value, value))  # type: ignore[call-overload]


def differs(values: npt.NDArray[np.generic], fill: np.generic) -> BoolArray:
    """Where ``values`` is another value than ``fill``, as NumPy's != has it, but nan is nan."""
    unequal: BoolArray = np.not_equal(values, fill)
    if is_nan(fill):
        unequal &= values == values
    return unequal


def distinguishable(values: npt.NDArray[np.generic], fill: np.generic) -> BoolArray:
    """Where dropping the entry could be seen: as ``differs``, but -0.0 is not 0.0.

    1 / -0.0 is -inf: an entry that is dropped must equal the fill bit for bit (nans alike)."""
    kind = values.dtype.kind
    if kind == "c":
        parts = np.ascontiguousarray(values).view(values.real.dtype)
        pair = parts.reshape(*values.shape, 2)
        return distinguishable(pair[..., 0], fill.real) | distinguishable(pair[..., 1], fill.imag)
    if kind != "f" or is_nan(fill) or fill != 0:
        return differs(values, fill)
    bits = np.dtype(f"u{values.dtype.itemsize}")
    return np.not_equal(values.view(bits), fill.view(bits))  # type: ignore[no-any-return]
