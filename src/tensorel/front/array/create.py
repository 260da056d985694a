"""Tensors without data: constants are formulas, never arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.config import current
from tensorel.engines.registry import engine_of
from tensorel.errors import ShapeError, TypeError_
from tensorel.front.array.base import as_shape, axes_of, from_stored, lift, whole, within, wrap
from tensorel.front.array.convert import asarray, to_device_check
from tensorel.front.array.scalars import entry_of
from tensorel.ir import nodes as ir
from tensorel.ir.build import plus, times
from tensorel.ir.extents import check_extents
from tensorel.storage import convert as storage
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


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
    entry = entry_of(fill_value if type(fill_value) is int else value, into, "full")
    return wrap(ir.Lambda(axes_of(as_shape(shape, "full")), entry))


def zeros(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero."""
    return full(as_shape(shape, "zeros"), 0, dtype=dtype or ops.FLOAT64, device=device)


def ones(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries one."""
    return full(as_shape(shape, "ones"), 1, dtype=dtype or ops.FLOAT64, device=device)


def empty(shape: object, *, dtype: object = None, device: object = None) -> Tensor:
    """All entries zero: memory is never left uninitialized."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: object, fill_value: Any, *, dtype: object = None, device: object = None,
              shape: object = None) -> Tensor:
    """All entries equal; dtype and shape of another tensor unless given."""
    t = asarray(x)
    return full(t.shape if shape is None else shape, fill_value, dtype=dtype or t.dtype,
                device=device)


def zeros_like(x: object, *, dtype: object = None, device: object = None,
               shape: object = None) -> Tensor:
    """All entries zero; dtype and shape of another tensor unless given."""
    return full_like(x, 0, dtype=dtype, device=device, shape=shape)


def ones_like(x: object, *, dtype: object = None, device: object = None,
              shape: object = None) -> Tensor:
    """All entries one; dtype and shape of another tensor unless given."""
    return full_like(x, 1, dtype=dtype, device=device, shape=shape)


def empty_like(x: object, *, dtype: object = None, device: object = None,
               shape: object = None) -> Tensor:
    """All entries zero; dtype and shape of another tensor unless given."""
    return zeros_like(x, dtype=dtype, device=device, shape=shape)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: object = None,
           device: object = None) -> Tensor:
    """Evenly spaced numbers; whole ones are a formula of the index."""
    to_device_check(device)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise TypeError_("arange: step 0 never reaches the end")
    into = None if dtype is None else ops.check_dtype(dtype)
    if not all(isinstance(x, (int, np.integer)) for x in (start, stop, step)) or (
            into is not None and into != ops.INT64):
        return _spaced(_steps(start, stop, step), "arange", into,
                       lambda: np.arange(start, stop, step))
    steps = range(int(start), int(stop), int(step))
    count = max(-((steps.start - steps.stop) // steps.step), 0)  # len() works up to 2**63 only
    check_extents((count,), "arange")
    for end in (int(start), int(start) + int(step) * max(count - 1, 0)):
        ir.const(end, ops.INT64)  # refuses what does not fit
    return lift((count,), lambda i: plus(
        int(start), times(int(step) if count > 1 else 1, i[0])))


def _steps(start: Any, stop: Any, step: Any) -> float:
    """How many numbers ``np.arange`` makes, about."""
    try:
        return max(float((stop - start) / step), 0.0) + 1
    except (TypeError, ValueError, OverflowError):  # NumPy raises the error
        return 0.0


def _spaced(count: float, name: str, dtype: ops.DType | None,
            make: Callable[[], npt.NDArray[Any]]) -> Tensor:
    """Numbers that NumPy makes, if they and their conversion fit into memory."""
    if not math.isfinite(count):
        raise ShapeError(f"{name}: the number of entries is not finite")
    check_extents((int(count),), name)
    item = 8 if dtype is None else 8 + dtype.itemsize
    require(int(count) * item, f"{name} of {count:.3g} entries")
    values = make()
    return asarray(values if dtype is None else values.astype(dtype))


def linspace(start: Any, stop: Any, /, num: int = 50, *, dtype: object = None,
             device: object = None, endpoint: bool = True) -> Tensor:
    """Numbers from start to stop at equal distances."""
    to_device_check(device)
    count = whole(num, "linspace: num")
    if count < 0:
        raise ShapeError(f"linspace: {count} numbers are not possible")
    # NumPy works in a second array of the same size.
    return _spaced(2 * count, "linspace", None if dtype is None else ops.check_dtype(dtype),
                   lambda: np.linspace(start, stop, count, endpoint=endpoint))


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = None,
        device: object = None, format: str | None = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere; stored sparse."""
    to_device_check(device)
    n = whole(n_rows, "eye: rows")
    m = n if n_cols is None else whole(n_cols, "eye: columns")
    n, m = as_shape((n, m), "eye")
    offset = within(whole(k, "eye: k"), n, m)
    down, right = max(-offset, 0), max(offset, 0)
    count = max(min(n - down, m - right), 0)
    into = ops.check_dtype(dtype or ops.FLOAT64)
    width = index_dtype(max(n, m))
    require(count * (into.itemsize + 2 * width.itemsize), f"the {count} entries of eye({n}, {m})")
    coords = [np.arange(first, first + count, dtype=width) for first in (down, right)]
    return from_stored(storage.from_coo(
        coords, np.ones(count, into), (n, m), format=format or "csr"
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


def from_blocks(f: Callable[[tuple[int, ...]], object], shape: object, tile: object,
                dtype: object = float, engine: object = None, fill: Any = 0) -> Tensor:
    """A tensor whose blocks come into being at the sites of an engine: ``f(key)`` gives the block,
    as an array or a tensor, and is called at the site where the first program needs it. ``tile``:
    the size of blocks, or a list of sizes, for all axes or for each.

    >>> import tensorel as tr
    >>> with tr.engines.local(sites=2) as e:
    ...     A = tr.from_blocks(lambda key: np.full((2, 2), key[0]), (4, 2), 2, engine=e)
    ...     A.sum(axis=0).to_numpy().tolist()
    [2.0, 2.0]
    """
    into = as_shape(shape, "from_blocks")
    sizes = tile if isinstance(tile, (tuple, list)) else [tile] * len(into)
    if len(sizes) != len(into):
        raise ShapeError(f"from_blocks: {len(sizes)} tile sizes for {len(into)} axes",
                         hint="give one size, or one (or a list of sizes) for each axis")
    edges = [_edges(n, size, k) for k, (n, size) in enumerate(zip(into, sizes))]
    kind = ops.check_dtype(dtype)
    source = engine_of(engine if engine is not None else current().engine).from_blocks(
        f, edges, kind, entry_of(fill, kind, "from_blocks")).source
    return wrap(source)


def _edges(extent: int, size: object, axis: int) -> npt.NDArray[np.int64]:
    """Where blocks begin along an axis, and its extent."""
    if isinstance(size, (tuple, list, np.ndarray)):
        sizes = [whole(n, "from_blocks: tile") for n in size]
        if sum(sizes) != extent or any(n < 1 for n in sizes):
            raise ShapeError(f"from_blocks: tiles {sizes} of axis {axis} do not make up {extent}",
                             hint="sizes of tiles are positive, and add up to the extent")
        return np.cumsum([0, *sizes])
    each = whole(size, "from_blocks: tile")
    if each < 1:
        raise ShapeError(f"from_blocks: a tile of {each} entries", hint="sizes begin at 1")
    return np.array([*range(0, extent, each), extent] if extent else [0, 0], np.int64)


__all__ = [
    "arange", "empty", "empty_like", "eye", "from_blocks", "from_dlpack", "full", "full_like",
    "identity", "linspace", "ones", "ones_like", "zeros", "zeros_like",
]
