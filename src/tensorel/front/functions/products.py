"""Products of tensors: matmul and its relatives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError
from tensorel.front.array.base import (
    ZERO,
    Base,
    axes_of,
    broadcast,
    call,
    formed,
    indices,
    one_axis,
    read,
    summed,
    whole,
    wrap,
)
from tensorel.front.array.convert import asarray
from tensorel.front.labels.alignment import Places, aligned
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_SUM = "r0"
_OR_AND = (ops.logical_or, ops.logical_and)
_SUM_PRODUCT = (ops.add, ops.multiply)


def _semiring(dtype: ops.DType) -> tuple[ops.Operator, ops.Operator]:
    """NumPy's products of booleans are "or" of "and"."""
    return _OR_AND if dtype.kind == "b" else _SUM_PRODUCT


def _common(a: Base, b: Base) -> ops.DType:
    x, y = a.node.dtype, b.node.dtype
    return x if x == y else np.result_type(x, y)


def matmul(a: object, b: object) -> Tensor:
    """The matrix product; vectors and stacks of matrices as NumPy has them.

    >>> import tensorel as tr
    >>> tr.matmul([[1, 2]], [[3], [4]]).to_numpy().tolist()
    [[11]]
    """
    x = a if isinstance(a, Base) else asarray(a)
    y = b if isinstance(b, Base) else asarray(b)
    if x.program.is_labelled or y.program.is_labelled:
        x, y = aligned("matmul", ops.multiply, (x, y), _matrix_places(x.ndim, y.ndim))
    return formed(("matmul",), _product, x, y, takes_extents=True)


def _matrix_places(m: int, n: int) -> list[Places]:
    """What stands at the axes of factors of a matrix product: "k" at those that are summed over."""
    left = ["k"] if m == 1 else [*range(2 - m, 0), "row", "k"]
    right = ["k"] if n == 1 else [*range(2 - n, 0), "k", "column"]
    return [left, right]


def _product(x: Base, y: Base) -> ir.Tensor:
    s, t = x.node.shape, y.node.shape
    if not s or not t:
        raise ShapeError(f"matmul: a scalar has no matrix product (shapes {s} and {t})",
                         hint="multiply with * instead")
    inner, other = s[-1], t[-2] if len(t) > 1 else t[0]
    if inner != other:
        raise ShapeError(
            f"matmul: shapes {s} and {t} do not fit: {inner} columns against {other} rows",
            hint="the last axis of the left must equal the first matrix axis of the right",
        )
    batch = () if len(s) <= 2 and len(t) <= 2 else broadcast("matmul", s[:-2], t[:-2])
    shape = batch + s[-2:-1] + (t[-1:] if len(t) > 1 else ())
    at = indices(len(shape))
    k = summed(1)
    row = at[len(batch):len(batch) + (len(s) > 1)]
    column = at[len(shape) - 1:] if len(t) > 1 else ()
    dtype = _common(x, y)
    left = convert(ir.Read(x.node, _batch_at(s[:-2], batch, at) + row + k), dtype)
    right = convert(ir.Read(y.node, _batch_at(t[:-2], batch, at) + k + column), dtype)
    add, mul = _semiring(dtype)
    body = ir.Reduce(add, (ir.Axis(_SUM, inner),), ir.Call(mul, (left, right)))
    return ir.Lambda(axes_of(shape), body)


def _batch_at(
    own: tuple[int, ...], batch: tuple[int, ...], at: tuple[ir.Expr, ...]
) -> tuple[ir.Expr, ...]:
    if not own:
        return ()
    skip = len(batch) - len(own)
    return tuple(
        ZERO if n == 1 and batch[skip + j] != 1 else at[skip + j] for j, n in enumerate(own)
    )


def tensordot(a: object, b: object, axes: object = 2) -> Tensor:
    """The sum of products over pairs of axes (a number: the last of a, the first of b)."""
    x, y = asarray(a), asarray(b)
    left, right = _paired_axes(axes, x.ndim, y.ndim)
    if x.program.is_labelled or y.program.is_labelled:
        pairs = dict(zip(left, right))
        x, y = aligned("tensordot", ops.multiply, (x, y), [
            [pairs.get(k, (k,)) for k in range(x.ndim)], range(y.ndim)])
    for p, q in zip(left, right):
        if x.shape[p] != y.shape[q]:
            raise ShapeError(
                f"tensordot: axis {p} of shape {x.shape} and axis {q} of shape {y.shape} "
                f"have {x.shape[p]} and {y.shape[q]} entries"
            )
    kept_x = [k for k in range(x.ndim) if k not in left]
    kept_y = [k for k in range(y.ndim) if k not in right]
    shape = tuple([x.shape[k] for k in kept_x] + [y.shape[k] for k in kept_y])
    at, r = indices(len(shape)), summed(len(left))
    of_x = dict(zip(kept_x, at)) | dict(zip(left, r))
    of_y = dict(zip(kept_y, at[len(kept_x):])) | dict(zip(right, r))
    dtype = _common(x, y)
    add, mul = _semiring(dtype)
    body: ir.Expr = ir.Call(mul, (
        convert(ir.Read(x.node, tuple(of_x[k] for k in range(x.ndim))), dtype),
        convert(ir.Read(y.node, tuple(of_y[k] for k in range(y.ndim))), dtype),
    ))
    if left:
        over = tuple(ir.Axis(f"r{k}", x.shape[p]) for k, p in enumerate(left))
        body = ir.Reduce(add, over, body)
    return wrap(ir.Lambda(axes_of(shape), body))


def _paired_axes(axes: object, m: int, n: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ShapeError(f"tensordot: axes {axes!r} is not a pair",
                             hint="e.g. axes=2 or axes=([1], [0])")
        first, second = (list(a) if isinstance(a, Sequence) else [a] for a in axes)
        left = [one_axis(k, m, "tensordot") for k in first]
        right = [one_axis(k, n, "tensordot") for k in second]
        if len(left) != len(right):
            raise ShapeError(f"tensordot: {len(left)} axes against {len(right)}")
        return left, right
    count = whole(axes, "tensordot: axes")
    if not 0 <= count <= min(m, n):
        raise ShapeError(f"tensordot: {count} axes of tensors with {m} and {n} axes")
    return list(range(m - count, m)), list(range(count))


def vecdot(a: object, b: object, *, axis: int = -1) -> Tensor:
    """Inner products along an axis, the left conjugated."""
    x, y = asarray(a), asarray(b)
    k, j = one_axis(axis, x.ndim, "vecdot"), one_axis(axis, y.ndim, "vecdot")
    if x.program.is_labelled or y.program.is_labelled:
        x, y = aligned("vecdot", ops.multiply, (x, y), [
            _vector_places(n, at) for n, at in ((x.ndim, k), (y.ndim, j))])
    if x.shape[k] != y.shape[j]:
        raise ShapeError(f"vecdot: shapes {x.shape} and {y.shape} differ along axis {axis}")
    own, other = x.shape[:k] + x.shape[k + 1:], y.shape[:j] + y.shape[j + 1:]
    shape = broadcast("vecdot", own, other)
    at, r = indices(len(shape)), summed(1)
    dtype = _common(x, y)
    first = list(_batch_at(own, shape, at))
    second = list(_batch_at(other, shape, at))
    first.insert(k, r[0])
    second.insert(j, r[0])
    left = convert(ir.Read(x.node, tuple(first)), dtype)
    if dtype.kind == "c":
        left = call(ops.conjugate, left)
    add, mul = _semiring(dtype)
    body = ir.Call(mul, (left, convert(ir.Read(y.node, tuple(second)), dtype)))
    total = ir.Reduce(add, (ir.Axis(_SUM, x.shape[k]),), body)
    return wrap(ir.Lambda(axes_of(shape), total))


def _vector_places(rank: int, axis: int) -> Places:
    """What stands at the axes of an operand whose fibres along one axis are vectors."""
    rest: list[Hashable] = list(range(1 - rank, 0))
    return [*rest[:axis], "k", *rest[axis:]]


def vdot(a: object, b: object) -> Tensor:
    """The inner product of all entries, the left conjugated."""
    x, y = asarray(a), asarray(b)
    if x.shape == y.shape and x.ndim > 1:  # entry by entry, without flat positions
        return tensordot(x.conj(), y, x.ndim)
    return vecdot(x.ravel(), y.ravel())


def dot(a: object, b: object) -> Tensor:
    """NumPy's dot: the last axis of a with the last but one of b."""
    x, y = asarray(a), asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ([x.ndim - 1], [max(y.ndim - 2, 0)]))


def inner(a: object, b: object) -> Tensor:
    """The sum of products over the last axes."""
    x, y = asarray(a), asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ([x.ndim - 1], [y.ndim - 1]))


def outer(a: object, b: object) -> Tensor:
    """All products of entries, both flattened."""
    return tensordot(asarray(a).ravel(), asarray(b).ravel(), 0)


def kron(a: object, b: object) -> Tensor:
    """The Kronecker product: an outer product with axes paired, then joined."""
    return formed((kron,), _kron, asarray(a), asarray(b))


def _kron(x: Base, y: Base) -> ir.Tensor:
    own, other = x.node.shape, y.node.shape
    rank = max(len(own), len(other))
    s = (1,) * (rank - len(own)) + own
    t = (1,) * (rank - len(other)) + other
    paired = tuple(n for pair in zip(s, t) for n in pair)
    at = indices(len(paired))
    left = ir.Read(x.node, at[0::2][rank - len(own):])
    right = ir.Read(y.node, at[1::2][rank - len(other):])
    product = wrap(ir.Lambda(axes_of(paired), call(ops.multiply, left, right)))
    return product.reshape(tuple(m * n for m, n in zip(s, t))).node


def cross(a: object, b: object, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three entries."""
    x, y = asarray(a), asarray(b)
    shape = broadcast("cross", x.shape, y.shape)
    k = one_axis(axis, len(shape), "cross")
    if shape[k] != 3:
        raise ShapeError(f"cross: axis {axis} of shape {shape} must have 3 entries")
    at = indices(len(shape))

    def turned(t: Tensor, step: int) -> ir.Expr:
        index = call(ops.remainder, call(ops.add, at[k], ir.const(step, ir.INT64)),
                     ir.const(3, ir.INT64))
        return read(t, at[:k] + (index,) + at[k + 1:], shape)

    body = call(
        ops.subtract,
        call(ops.multiply, turned(x, 1), turned(y, 2)),
        call(ops.multiply, turned(x, 2), turned(y, 1)),
    )
    return wrap(ir.Lambda(axes_of(shape), body))


__all__ = ["cross", "dot", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot"]
