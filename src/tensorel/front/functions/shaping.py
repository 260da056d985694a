"""Views: the same entries under other indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import bulk, ops
from tensorel.errors import ShapeError, UnsupportedError, ValueError_
from tensorel.front.array.base import (
    Base,
    Exprs,
    Shape,
    as_shape,
    axes_of,
    broadcast,
    formed,
    indices,
    one_axis,
    read,
    reduce_axes,
    some_axes,
    summed,
    whole,
    within,
    wrap,
)
from tensorel.front.array.convert import asarray, copied
from tensorel.front.functions.reductions import accumulator
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert, minus, plus
from tensorel.ir.extents import check_extents

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def view(t: Base, shape: Shape, at: Callable[[Exprs], Sequence[ir.Expr]]) -> Tensor:
    """The tensor of ``shape`` whose entry at ``i`` is that of ``t`` at ``at(i)``."""
    return wrap(ir.Lambda(axes_of(shape), ir.Read(t.node, tuple(at(indices(len(shape)))))))


# -- reshape --------------------------------------------------------------------------------------
def reshape(x: object, shape: object, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """The same entries under another shape, counted with the last axis fastest (``order="F"``: the
    first); one extent may be -1. ``copy=True``: as they are now, whatever is written later.

    >>> import tensorel as tr
    >>> tr.reshape([1, 2, 3, 4], (2, -1)).shape
    (2, 2)
    """
    t = asarray(x)
    into = _resolve_shape(t.shape, t.size, shape)
    first_fastest = _is_f_order(order, t, "reshape")
    found = _turned(_reshaped(_turned(t), into[::-1])) if first_fastest else _reshaped(t, into)
    return copied(found) if copy else found  # type: ignore[return-value]


def _is_f_order(order: object, t: Base, name: str) -> bool:
    """Whether entries are counted with the first axis fastest."""
    if order not in ("C", "F", "A", "K"):
        raise ValueError_(f"{name}: order {order!r} is not known", hint="'C' or 'F'")
    if order in ("A", "K") and t.ndim > 1:
        raise UnsupportedError(
            f"{name}: order {order!r} follows the memory of an array, which tensors do not have",
            hint="say 'C' or 'F'")
    return order == "F" and t.ndim > 0


def _reshaped(t: Tensor, into: Shape) -> Tensor:
    if into == t.shape:
        return t
    check_extents(into, f"reshape: {t.shape} to {into}")
    kept = [k for k, n in enumerate(t.shape) if n != 1]
    places = [k for k, n in enumerate(into) if n != 1]
    if [t.shape[k] for k in kept] == [into[k] for k in places]:
        return _respaced(t, into, dict(zip(kept, places)))
    return wrap(ir.Bulk(bulk.reshape, (t.node,), (into,)))


def _resolve_shape(own: Shape, size: int, shape: object) -> Shape:
    listed = shape if isinstance(shape, (tuple, list)) else (shape,)
    wanted = [whole(n, "reshape: extent") for n in listed]
    unknown = wanted.count(-1)
    known = 1
    for n in wanted:
        known *= n if n != -1 else 1
    if unknown == 1 and known > 0 and size % known == 0:
        wanted[wanted.index(-1)] = size // known
        known = size
        unknown = 0
    if unknown or known != size or any(n < 0 for n in wanted):
        raise ShapeError(f"reshape: {size} entries of shape {own} do not fit {tuple(listed)}",
                         hint="the product of the extents must stay the same")
    return tuple(wanted)


def _respaced(t: Tensor, shape: Shape, places: dict[int, int]) -> Tensor:
    """Only axes of extent 1 come or go."""
    zero = ir.const(0, ir.INT64)
    return view(t, shape, lambda i: [
        i[places[k]] if k in places else zero for k in range(t.ndim)
    ])


def ravel(x: object, order: str = "C") -> Tensor:
    """All entries along one axis, the last axis fastest (``order="F"``: the first)."""
    t = asarray(x)
    return reshape(t, (-1,) if t.size else (0,), order)


def squeeze(x: object, axis: object = None) -> Tensor:
    """Without axes of extent 1 (all of them, or those given)."""
    t = asarray(x)
    if axis is None:
        gone: Shape = tuple(k for k, n in enumerate(t.shape) if n == 1)
    else:
        gone = some_axes(axis, t.ndim, "squeeze")
        for k in gone:
            if t.shape[k] != 1:
                raise ShapeError(f"squeeze: axis {k} of shape {t.shape} has {t.shape[k]} entries",
                                 hint="only axes of extent 1 can go")
    kept = [k for k in range(t.ndim) if k not in gone]
    return _respaced(t, tuple(t.shape[k] for k in kept), {k: p for p, k in enumerate(kept)})


def expand_dims(x: object, axis: object = 0) -> Tensor:
    """With new axes of extent 1 at the given places of the result."""
    t = asarray(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = some_axes(axis, t.ndim + count, "expand_dims")
    places = [k for k in range(t.ndim + count) if k not in new]
    shape = [1] * (t.ndim + count)
    for k, p in enumerate(places):
        shape[p] = t.shape[k]
    return _respaced(t, tuple(shape), dict(enumerate(places)))


# -- order of the axes ----------------------------------------------------------------------------
def permute_dims(x: object, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order (None: reversed)."""
    t = asarray(x)
    if axes is None:
        return _turned(t)
    rank = t.ndim
    order = tuple(one_axis(a, rank, "permute_dims") for a in axes)
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"permute_dims: {tuple(axes)} is no order of {rank} axes",
                         hint="name each axis once")
    return formed(("permute_dims", order), partial(_permuted, order), t, takes_extents=True)


def _turned(t: Base) -> Tensor:
    return formed(_TURNED, _reversed, t, takes_extents=True)


def _reversed(t: Base) -> ir.Tensor:
    return _permuted(tuple(range(t.ndim))[::-1], t)


_TURNED = ("reversed",)


def _permuted(order: Shape, t: Base) -> ir.Tensor:
    node = t.node
    at = indices(len(order))
    place = {k: p for p, k in enumerate(order)}
    return ir.Lambda(axes_of([node.shape[k] for k in order]),
                     ir.Read(node, tuple([at[place[k]] for k in range(len(order))])))


transpose = permute_dims


def matrix_transpose(x: object) -> Tensor:
    """The last two axes exchanged."""
    t = asarray(x)
    if t.ndim < 2:
        raise ShapeError(f"matrix_transpose: shape {t.shape} has no two axes")
    return swapaxes(t, -1, -2)


def swapaxes(x: object, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    t = asarray(x)
    order = list(range(t.ndim))
    a, b = one_axis(axis1, t.ndim, "swapaxes"), one_axis(axis2, t.ndim, "swapaxes")
    order[a], order[b] = b, a
    return permute_dims(t, order)


def moveaxis(x: object, source: object, destination: object) -> Tensor:
    """Axes moved to other places, the rest in order."""
    t = asarray(x)
    many = isinstance(source, (tuple, list)), isinstance(destination, (tuple, list))
    sources = list(source) if many[0] else [source]  # type: ignore[call-overload]
    targets = list(destination) if many[1] else [destination]  # type: ignore[call-overload]
    moved = [one_axis(s, t.ndim, "moveaxis") for s in sources]
    to = [one_axis(d, t.ndim, "moveaxis") for d in targets]
    if len(moved) != len(to) or len(set(moved)) != len(moved) or len(set(to)) != len(to):
        raise ShapeError(f"moveaxis: {source!r} and {destination!r} do not pair up")
    order = [k for k in range(t.ndim) if k not in moved]
    for d, s in sorted(zip(to, moved)):
        order.insert(d, s)
    return permute_dims(t, order)


# -- broadcasting ---------------------------------------------------------------------------------
def broadcast_to(x: object, shape: object) -> Tensor:
    """The tensor repeated along axes of extent 1 to the given shape."""
    t = asarray(x)
    into = as_shape(shape, "broadcast_to")
    if broadcast("broadcast_to", t.shape, into) != into:
        raise ShapeError(f"broadcast_to: shape {t.shape} does not broadcast to {into}")
    return wrap(ir.Lambda(axes_of(into), read(t, indices(len(into)), into)))


def broadcast_arrays(*xs: object) -> list[Tensor]:
    """Tensors broadcast against each other."""
    tensors = [asarray(x) for x in xs]
    shape = broadcast("broadcast_arrays", *(t.shape for t in tensors)) if tensors else ()
    return [broadcast_to(t, shape) for t in tensors]


# -- diagonals ------------------------------------------------------------------------------------
def _diagonal_at(t: Tensor, offset: int, axis1: int, axis2: int, name: str) -> tuple[
        int, int, int, int, int]:
    if t.ndim < 2:
        raise ShapeError(f"{name}: shape {t.shape} has no two axes")
    a, b = one_axis(axis1, t.ndim, name), one_axis(axis2, t.ndim, name)
    if a == b:
        raise ShapeError(f"{name}: axis1 and axis2 are both {a}")
    offset = within(whole(offset, f"{name}: offset"), t.shape[a], t.shape[b])
    down, right = max(-offset, 0), max(offset, 0)
    return a, b, down, right, max(min(t.shape[a] - down, t.shape[b] - right), 0)


def diagonal(x: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of two axes, as a new last axis."""
    t = asarray(x)
    a, b, down, right, count = _diagonal_at(t, offset, axis1, axis2, "diagonal")
    rest = [k for k in range(t.ndim) if k not in (a, b)]

    def at(i: Exprs) -> list[ir.Expr]:
        place = dict(zip(rest, i))
        place[a], place[b] = plus(i[-1], down), plus(i[-1], right)
        return [place[k] for k in range(t.ndim)]

    return view(t, tuple(t.shape[k] for k in rest) + (count,), at)


def trace(x: object, offset: int = 0, axis1: int = 0, axis2: int = 1,
          dtype: object = None) -> Tensor:
    """The sum of the diagonal of two axes."""
    t = asarray(x)
    a, b, down, right, count = _diagonal_at(t, offset, axis1, axis2, "trace")
    into = accumulator(t.dtype, dtype)

    def build(t: Base) -> ir.Tensor:
        rest = [k for k in range(t.ndim) if k not in (a, b)]
        place: dict[int, ir.Expr] = dict(zip(rest, indices(len(rest))))
        r = summed(1)[0]
        place[a], place[b] = plus(r, down), plus(r, right)
        entry = convert(ir.Read(t.node, tuple(place[k] for k in range(t.ndim))), into)
        body = ir.Reduce(ops.add, reduce_axes([count]), entry)
        return ir.Lambda(axes_of([t.shape[k] for k in rest]), body)

    return formed(("trace", a, b, down, right, count, into), build, t)


def flip(x: object, axis: object = None) -> Tensor:
    """The entries in reversed order along axes (None: all)."""
    t = asarray(x)
    axes = some_axes(axis, t.ndim, "flip")
    return view(t, t.shape, lambda i: [
        minus(t.shape[k] - 1, i[k]) if k in axes else i[k] for k in range(t.ndim)
    ])


class Shaping(Base):
    """The methods of this chapter."""

    __slots__ = ()

    @property
    def T(self) -> Tensor:
        """The axes reversed."""
        return _turned(self)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return matrix_transpose(self)

    def transpose(self, *axes: object) -> Tensor:
        """The axes in another order (none given: reversed)."""
        if not axes or axes == (None,):
            return permute_dims(self)
        if len(axes) == 1 and isinstance(axes[0], (tuple, list, np.ndarray)):
            return permute_dims(self, list(axes[0]))
        return permute_dims(self, axes)  # type: ignore[arg-type]

    def reshape(self, *shape: object, order: str = "C", copy: bool | None = None) -> Tensor:
        """The same entries under another shape."""
        one = len(shape) == 1 and isinstance(shape[0], (tuple, list))
        return reshape(self, shape[0] if one else shape, order, copy=copy)

    def ravel(self, order: str = "C") -> Tensor:
        """All entries along one axis."""
        return ravel(self, order)

    flatten = ravel

    def squeeze(self, axis: object = None) -> Tensor:
        """Without axes of extent 1."""
        return squeeze(self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes exchanged."""
        return swapaxes(self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The diagonal of two axes, as a new last axis."""
        return diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1,
              dtype: object = None) -> Tensor:
        """The sum of the diagonal of two axes."""
        return trace(self, offset, axis1, axis2, dtype)


__all__ = [
    "broadcast_arrays", "broadcast_to", "diagonal", "expand_dims", "flip", "matrix_transpose",
    "moveaxis", "permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "trace", "transpose",
]
