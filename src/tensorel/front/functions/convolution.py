"""Windows: views of the neighbourhoods of entries, convolution and correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError, ValueError_
from tensorel.front.array.base import (
    axes_of,
    call,
    indices,
    one_axis,
    reduce_axes,
    summed,
    whole,
    wrap,
)
from tensorel.front.array.convert import asarray
from tensorel.front.functions.elementwise import unary
from tensorel.front.functions.joining import pad
from tensorel.front.functions.shaping import flip
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert, plus, times

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

MODES = ("full", "same", "valid")
#: Our names of what lies beyond the ends, and ``pad``'s.
PADDINGS = {"zeros": "constant", "edge": "edge", "wrap": "wrap", "reflect": "reflect",
            "symmetric": "symmetric"}


def _each(value: object, count: int, what: str, least: int = 1) -> tuple[int, ...]:
    """A number for each axis, or one for all."""
    given = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,) * count
    if len(given) != count:
        raise ShapeError(f"{what}: {len(given)} numbers for {count} axes")
    found = tuple([whole(n, what) for n in given])
    if min(found, default=least) < least:
        raise ValueError_(f"{what}: {min(found)} is less than {least}")
    return found


def _axes(axis: object, ndim: int, count: int, name: str) -> tuple[int, ...]:
    """Axes in the order in which they are named; the last ones where none is."""
    if axis is None:
        if count > ndim:
            raise ShapeError(f"{name}: {count} sizes for a tensor of {ndim} axes")
        return tuple(range(ndim - count, ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple([one_axis(a, ndim, name) for a in given])
    if len(found) != count or len(set(found)) != count:
        raise ShapeError(f"{name}: axes {tuple(given)} for {count} sizes")
    return found


def windows(x: object, sizes: int | Sequence[int], *, axis: int | Sequence[int] | None = None,
            step: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """All windows of the sizes along axes (the last ones, if none is named), as new last axes:
    ``windows(x, 3)[i, k]`` is ``x[i * step + k * dilation]``. Nothing is copied.

    >>> import tensorel as tr
    >>> tr.windows([1, 2, 3, 4], 2).tolist()
    [[1, 2], [2, 3], [3, 4]]
    >>> tr.windows([1, 2, 3, 4], 2).max(axis=-1).tolist()
    [2, 3, 4]
    """
    t = asarray(x)
    count = len(sizes) if isinstance(sizes, (tuple, list, np.ndarray)) else 1
    extents = _each(sizes, count, "windows: size")
    axes = _axes(axis, t.ndim, count, "windows")
    steps = dict(zip(axes, _each(step, count, "windows: step")))
    apart = dict(zip(axes, _each(dilation, count, "windows: dilation")))
    places = {k: n for n, k in enumerate(axes, t.ndim)}
    shape = list(t.shape)
    for k, size in zip(axes, extents):
        reach = (size - 1) * apart[k] + 1
        if reach > t.shape[k]:
            raise ShapeError(f"windows: a window of {reach} along axis {k}, which has {t.shape[k]}",
                             hint="tr.pad makes the axis longer")
        shape[k] = (t.shape[k] - reach) // steps[k] + 1
    shape += extents
    at = indices(len(shape))
    read = ir.Read(t.node, tuple([
        plus(times(steps[k], at[k]), times(apart[k], at[places[k]])) if k in places else at[k]
        for k in range(t.ndim)]))
    return wrap(ir.Lambda(axes_of(shape), read))


def correlate(x: object, kernel: object, mode: str = "valid", *,
              axis: int | Sequence[int] | None = None, step: int | Sequence[int] = 1,
              dilation: int | Sequence[int] = 1, padding: object = "zeros") -> Tensor:
    """As ``convolve`` with the conjugated kernel turned round along all of its axes, as SciPy has
    it: sums of windows times the kernel.

    >>> import tensorel as tr
    >>> tr.correlate([1, 2, 3, 4], [1, 0, 2]).tolist()
    [7, 10]
    """
    k = asarray(kernel)
    return _correlated("correlate", x, unary(ops.conjugate, k) if k.dtype.kind == "c" else k,
                       mode, axis, step, dilation, padding)


def convolve(x: object, kernel: object, mode: str = "full", *,
             axis: int | Sequence[int] | None = None, step: int | Sequence[int] = 1,
             dilation: int | Sequence[int] = 1, padding: object = "zeros") -> Tensor:
    """The convolution with a kernel along as many axes as it has (the last ones, if none is
    named). ``mode``: "full", "same" (as large as ``x``, the middle of the full one), or "valid"
    (without what lies beyond the ends). ``step``: between places of the result; ``dilation``:
    between entries that the kernel meets; ``padding``: what lies beyond the ends: "zeros", "edge",
    "wrap", "reflect" or "symmetric".

    >>> import tensorel as tr
    >>> tr.convolve([1, 2, 3], [1, 1]).tolist()
    [1, 3, 5, 3]
    >>> tr.convolve([[1, 2], [3, 4]], [[1, 0], [0, 1]], mode="same").tolist()
    [[1, 2], [3, 5]]
    """
    return _correlated("convolve", x, flip(asarray(kernel)), mode, axis, step, dilation, padding)


def _correlated(name: str, x: object, kernel: Tensor, mode: str, axis: Any, step: object,
                dilation: object, padding: object) -> Tensor:
    t, rank = asarray(x), kernel.ndim
    beyond: object = 0 if isinstance(padding, str) else padding
    fits = padding in PADDINGS if isinstance(padding, str) else isinstance(
        padding, int | float | complex | np.number)
    if mode not in MODES or not fits:
        known = MODES if mode not in MODES else (*PADDINGS, "a number")
        raise ValueError_(f"{name}: {mode if mode not in MODES else padding!r} is not known",
                          hint=f"one of {', '.join(known)}")
    if rank == 0 or 0 in kernel.shape:
        raise ShapeError(f"{name}: a kernel of shape {kernel.shape} has no entries along axes")
    axes = _axes(axis, t.ndim, rank, name)
    apart = dict(zip(axes, _each(dilation, rank, f"{name}: dilation")))
    steps = dict(zip(axes, _each(step, rank, f"{name}: step")))
    reach = {k: (n - 1) * apart[k] for k, n in zip(axes, kernel.shape)}
    if mode != "valid":
        widths = [(0, 0)] * t.ndim
        for k, n in reach.items():
            widths[k] = (n, n) if mode == "full" else (n - n // 2, n // 2)
        t = pad(t, widths, PADDINGS[padding] if isinstance(padding, str) else "constant", beyond)
    shape = list(t.shape)
    for k in axes:
        if reach[k] >= t.shape[k]:
            raise ShapeError(f"{name}: the kernel reaches over {reach[k] + 1} entries of axis {k}, "
                             f"which has {t.shape[k]}", hint="mode='same' or 'full'")
        shape[k] = (t.shape[k] - reach[k] - 1) // steps[k] + 1
    at, r = indices(t.ndim), dict(zip(axes, summed(rank)))
    entry = ir.Read(t.node, tuple([
        plus(times(steps[k], at[k]), times(apart[k], r[k])) if k in r else at[k]
        for k in range(t.ndim)]))
    weight = ir.Read(kernel.node, tuple([r[k] for k in axes]))
    dtype = np.result_type(t.dtype, kernel.dtype)
    both = call(ops.multiply, convert(entry, dtype), convert(weight, dtype))
    add = ops.logical_or if dtype.kind == "b" else ops.add
    return wrap(ir.Lambda(axes_of(shape), ir.Reduce(add, reduce_axes(kernel.shape), both)))


__all__ = ["convolve", "correlate", "windows"]
