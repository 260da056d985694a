"""Whole-tensor operators by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType

Array = npt.NDArray[Any]
Params = tuple[Any, ...]
Meaning = Callable[[list[Array], Params, DType], Array]


def order(array: Array, axis: int, descending: bool) -> Array:
    """Positions in sorted order, nan last when ascending, ties by lower position."""
    if not descending:
        return np.argsort(array, axis=axis, kind="stable")
    positions = np.argsort(np.flip(array, axis), axis=axis, kind="stable")
    return np.flip(array.shape[axis] - 1 - positions, axis)


def _reshape(args: list[Array], params: Params, dtype: DType) -> Array:
    return args[0].reshape(params[0])


def _take(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.take(args[0], args[1], axis=params[0])


def _sort(args: list[Array], params: Params, dtype: DType) -> Array:
    axis, descending = params
    ascending = np.sort(args[0], axis=axis)
    return np.flip(ascending, axis) if descending else ascending


def _argsort(args: list[Array], params: Params, dtype: DType) -> Array:
    return order(args[0], params[0], params[1])


def _argmin(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.asarray(np.argmin(args[0], axis=params[0]))


def _argmax(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.asarray(np.argmax(args[0], axis=params[0]))


def _cumulative_sum(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.cumsum(args[0], axis=params[0], dtype=dtype)


def _cumulative_prod(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.cumprod(args[0], axis=params[0], dtype=dtype)


def _topk_indices(args: list[Array], params: Params, dtype: DType) -> Array:
    k, axis, largest = params
    return np.take(order(args[0], axis, largest), np.arange(k), axis=axis)


def _topk_values(args: list[Array], params: Params, dtype: DType) -> Array:
    return np.take_along_axis(args[0], _topk_indices(args, params, dtype), axis=params[1])


BULK: dict[str, Meaning] = {
    "reshape": _reshape,
    "take": _take,
    "sort": _sort,
    "argsort": _argsort,
    "argmin": _argmin,
    "argmax": _argmax,
    "cumulative_sum": _cumulative_sum,
    "cumulative_prod": _cumulative_prod,
    "topk_values": _topk_values,
    "topk_indices": _topk_indices,
}
