"""Tensors from nothing: constants are formulas, never arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.base import as_shape, axes_of, from_stored, lift, whole, wrap
from tensorel.front.convert import asarray, to_device_check
from tensorel.ir import nodes as ir
from tensorel.ir.build import plus, times
from tensorel.storage import convert as storage

if TYPE_CHECKING:
    from tensorel.front.array import Tensor


def full(shape: object, fill_value: Any, *, dtype: object = None,
         device: object = None) -> Tensor:
    """All entries equal.

    >>> import tensorel as tr
    >>> tr.full((2,), 7).to_numpy().tolist()
    [7, 7]
    """
    to_device_check(device)
    value = np.asarray(fill_value)
    into = ops.check_dtype(value.dtype if dtype is None else dtype)
    if value.ndim:
        raise TypeError_(f"full: the value has shape {value.shape}, it must be a scalar",
                         hint="use broadcast_to for rows of values")
    return wrap(ir.Lambda(axes_of(as_shape(shape, "full")), ir.const(value, into)))


def zeros(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero."""
    return full(shape, 0, dtype=dtype or ops.FLOAT64, device=device)


def ones(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries one."""
    return full(shape, 1, dtype=dtype or ops.FLOAT64, device=device)


def empty(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero: there is no uninitialized memory here."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: object, fill_value: Any, *, dtype: object = None,
              device: object = None) -> Tensor:
    """All entries equal, in the shape of another tensor."""
    t = asarray(x)
    return full(t.shape, fill_value, dtype=dtype or t.dtype, device=device)


def zeros_like(x: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero, in the shape of another tensor."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries one, in the shape of another tensor."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero, in the shape of another tensor."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: object = None,
           device: object = None) -> Tensor:
    """Evenly spaced numbers; whole ones are a formula of the index."""
    to_device_check(device)
    whole_numbers = all(
        x is None or isinstance(x, (int, np.integer)) for x in (start, stop, step)
    ) and (dtype is None or np.dtype(dtype) == ops.INT64)  # type: ignore[call-overload]
    if not whole_numbers:
        values = np.arange(start, stop, step) if stop is not None else np.arange(0, start, step)
        return asarray(values if dtype is None else values.astype(ops.check_dtype(dtype)))
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise TypeError_("arange: step 0 never reaches the end")
    count = len(range(int(start), int(stop), int(step)))
    return lift((count,), lambda i: plus(int(start), times(int(step), i[0])))


def linspace(start: Any, stop: Any, /, num: int = 50, *, dtype: object = None,
             device: object = None, endpoint: bool = True) -> Tensor:
    """Numbers from start to stop at equal distances."""
    to_device_check(device)
    values = np.linspace(start, stop, whole(num, "linspace: num"), endpoint=endpoint)
    return asarray(values if dtype is None else values.astype(ops.check_dtype(dtype)))


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = None,
        device: object = None, format: str | None = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere; stored sparse."""
    to_device_check(device)
    n = whole(n_rows, "eye: rows")
    m = n if n_cols is None else whole(n_cols, "eye: columns")
    into = ops.check_dtype(dtype or ops.FLOAT64)
    count = max(min(n - max(-k, 0), m - max(k, 0)), 0)
    rows = np.arange(count, dtype=np.int64)
    coords = [rows + max(-k, 0), rows + max(k, 0)]
    return from_stored(storage.from_coo(
        coords, np.ones(count, into), as_shape((n, m), "eye"), format=format or "csr"
    ))


def identity(n: int, dtype: object = None) -> Tensor:
    """The square matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's dense array."""
    to_device_check(device)
    if not hasattr(x, "__dlpack__"):
        raise TypeError_(f"{type(x).__name__} has no __dlpack__",
                         hint="use tr.asarray for lists, NumPy, SciPy and PyData arrays")
    return asarray(x, copy=copy)
