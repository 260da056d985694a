"""Reductions that leave out nan. A nan among the stored entries is replaced by a value that changes
nothing, so operands stay sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorel.algebra.ops import check_dtype
from tensorel.errors import TypeError_, UnsupportedError
from tensorel.front.array.convert import asarray
from tensorel.front.functions import reductions
from tensorel.front.functions.elementwise import where as choose_entries
from tensorel.front.functions.reductions import AxisLike
from tensorel.front.functions.ufuncs import isnan

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def _without_nan(t: Tensor, value: float) -> Tensor:
    """``value`` in place of nan."""
    found: Tensor = t if t.dtype.kind not in "fc" else choose_entries(isnan(t), value, t)
    return found


def nansum(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
           initial: object = None, where: object = True) -> Tensor:
    """Sum along axes of the entries that are not nan.

    >>> import tensorel as tr
    >>> tr.nansum([1.0, tr.nan, 2.0]).item()
    3.0
    """
    return reductions.sum(_without_nan(asarray(x), 0), axis, dtype, keepdims, initial, where)


def nanprod(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
            initial: object = None, where: object = True) -> Tensor:
    """Product along axes of the entries that are not nan."""
    return reductions.prod(_without_nan(asarray(x), 1), axis, dtype, keepdims, initial, where)


def nanmin(x: object, axis: AxisLike = None, keepdims: bool = False, initial: object = None,
           where: object = True) -> Tensor:
    """Smallest entry along axes that is not nan; nan where there is none."""
    return _nan_extreme(reductions.min, float("inf"), x, axis, keepdims, initial, where)


def nanmax(x: object, axis: AxisLike = None, keepdims: bool = False, initial: object = None,
           where: object = True) -> Tensor:
    """Largest entry along axes that is not nan; nan where there is none."""
    return _nan_extreme(reductions.max, float("-inf"), x, axis, keepdims, initial, where)


def _nan_extreme(extreme: Any, beyond: float, x: object, axis: AxisLike, keepdims: bool,
                 initial: object, where: object) -> Tensor:
    t = asarray(x)
    if t.dtype.kind == "c":
        raise UnsupportedError("nanmin and nanmax of complex entries are not known",
                               hint="treat real and imag apart")
    found: Tensor = extreme(_without_nan(t, beyond), axis, keepdims, initial, where)
    if t.dtype.kind != "f" or initial is not None:
        return found
    nothing: Tensor = choose_entries(
        reductions.all(isnan(t), axis, keepdims), float("nan"), found)
    return nothing


def nanmean(x: object, axis: AxisLike = None, dtype: object = None, keepdims: bool = False,
            where: object = True) -> Tensor:
    """Arithmetic mean along axes of the entries that are not nan."""
    t = asarray(x)
    if t.dtype.kind not in "fc":
        return reductions.mean(t, axis, dtype, keepdims, where)
    if dtype is not None and check_dtype(dtype).kind not in "fc":
        raise TypeError_(f"nanmean of {t.dtype} in {dtype}: only floats hold nan",
                         hint="name a float dtype")
    held: Any = ~isnan(t)
    return reductions.mean(t, axis, dtype, keepdims, held if where is True else held & where)


__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nansum"]
