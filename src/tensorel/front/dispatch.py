"""NumPy's functions on tensors stay lazy: ``np.exp(T)``, ``np.sum(T)``, ``np.add.reduce(T)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_, UnsupportedError
from tensorel.front import (
    create,
    einsum,
    elementwise,
    joining,
    linalg,
    reductions,
    shaping,
    sorting,
    ufuncs,
)
from tensorel.front.base import Base
from tensorel.front.convert import asarray
from tensorel.front.operators import is_operand
from tensorel.front.scalars import UFUNCS, Tracer

#: Reductions that ``ufunc.reduce`` means; NumPy's default axis there is 0.
_REDUCTIONS: dict[ops.Operator, Callable[..., Any]] = {
    ops.add: reductions.sum, ops.multiply: reductions.prod, ops.minimum: reductions.min,
    ops.maximum: reductions.max, ops.logical_or: reductions.any, ops.logical_and: reductions.all,
}
_RUNNING: dict[ops.Operator, Callable[..., Any]] = {
    ops.add: sorting.cumsum, ops.multiply: sorting.cumprod,
}
_PRODUCTS: dict[object, Callable[..., Any]] = {
    np.matmul: linalg.matmul,
    getattr(np, "vecdot", None): linalg.vecdot,
    np.divmod: lambda a, b: (ufuncs.floor_divide(a, b), ufuncs.remainder(a, b)),
    np.fmin: lambda a, b: _ignoring_nan(ufuncs.minimum, a, b),
    np.fmax: lambda a, b: _ignoring_nan(ufuncs.maximum, a, b),
    np.deg2rad: lambda x: x * (np.pi / 180), np.radians: lambda x: x * (np.pi / 180),
    np.rad2deg: lambda x: x * (180 / np.pi), np.degrees: lambda x: x * (180 / np.pi),
    np.float_power: lambda a, b: ufuncs.power(a * 1.0, b),
}


def _ignoring_nan(f: Callable[..., Any], a: Any, b: Any) -> Any:
    return elementwise.where(ufuncs.isnan(a), b, elementwise.where(ufuncs.isnan(b), a, f(a, b)))


#: NumPy functions by the module that has ours, under the same name unless given.
_BY_MODULE: tuple[tuple[Any, str], ...] = (
    (reductions, "sum prod min max mean var std any all argmin argmax count_nonzero"),
    (shaping, "reshape ravel squeeze expand_dims transpose permute_dims matrix_transpose swapaxes "
     "moveaxis broadcast_to broadcast_arrays diagonal trace flip"),
    (joining, "concat stack unstack vstack hstack split roll pad tile repeat tril triu diag take "
     "take_along_axis meshgrid diff"),
    (linalg, "tensordot vdot dot inner outer kron cross"),
    (sorting, "sort argsort cumsum cumprod cumulative_sum cumulative_prod nonzero searchsorted "
     "unique_values unique_counts unique_inverse unique_all"),
    (ufuncs, "round clip isclose allclose array_equal nan_to_num real imag"),
    (create, "zeros_like ones_like full_like empty_like"),
    (elementwise, "where astype"),
    (einsum, "einsum"),
)
_ALIASES: dict[str, Callable[..., Any]] = {
    "amin": reductions.min, "amax": reductions.max, "concatenate": joining.concat,
    "around": ufuncs.round,
}


def _table() -> dict[object, Callable[..., Any]]:
    found: dict[object, Callable[..., Any]] = {}
    for module, names in _BY_MODULE:
        for name in names.split():
            theirs = getattr(np, name, None)
            if theirs is not None:
                found[theirs] = getattr(module, name)
    found.update((getattr(np, name), ours) for name, ours in _ALIASES.items())
    found[np.shape] = lambda t: t.shape
    found[np.ndim] = lambda t: t.ndim
    found[np.size] = lambda t, axis=None: t.size if axis is None else t.shape[axis]
    found[np.result_type] = lambda *xs: np.result_type(
        *(x.dtype if isinstance(x, Base) else x for x in xs))
    found[np.may_share_memory] = found[np.shares_memory] = lambda *_: False
    return found


_FUNCTIONS = _table()


def _clean(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options without those that say nothing; writing into arrays is refused."""
    out = options.pop("out", None)
    if any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise TypeError_(f"np.{name}: tensors are never written to (out=...)",
                         hint="use the returned tensor")
    if options.get("where") is True:
        del options["where"]
    dropped = {"subok", "casting", "order", "copy", "like"}
    return {k: v for k, v in options.items() if k not in dropped and v is not np._NoValue}


class Dispatch(Base):
    """NumPy's protocols."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if not all(is_operand(a) or isinstance(a, Tracer) for a in args):
            return NotImplemented
        options = _clean(ufunc.__name__, options)
        op = UFUNCS.get(ufunc)
        if method == "__call__":
            return _call(ufunc, op, args, options)
        if op is not None and method == "reduce" and op in _REDUCTIONS:
            options.setdefault("axis", 0 if len(args) == 1 else args[1])
            return _REDUCTIONS[op](args[0], **options)
        if op is not None and method == "accumulate" and op in _RUNNING:
            options.setdefault("axis", 0 if len(args) == 1 else args[1])
            return _RUNNING[op](args[0], **options)
        if op is not None and method == "outer":
            return _outer(op, *args)
        raise UnsupportedError(f"np.{ufunc.__name__}.{method} is not known for tensors",
                               hint="convert with T.to_numpy() first")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        ours = _FUNCTIONS.get(function)
        name = getattr(function, "__name__", str(function))
        if ours is None:
            raise UnsupportedError(f"np.{name} is not known for tensors",
                                   hint="convert with T.to_numpy() first")
        return ours(*args, **_clean(name, dict(options)))


def _call(ufunc: np.ufunc, op: ops.Operator | None, args: Any, options: dict[str, Any]) -> Any:
    dtype = options.pop("dtype", None)
    special = _PRODUCTS.get(ufunc)
    if (op is None and special is None) or (options and special is None):
        listed = f" with {', '.join(options)}" if options else ""
        raise UnsupportedError(f"np.{ufunc.__name__}{listed} is not known for tensors",
                               hint="convert with T.to_numpy() first")
    if special is not None:
        found = special(*args, **options)
    elif op is not None:
        one = op.arity == 1
        found = elementwise.unary(op, args[0]) if one else elementwise.binary(op, *args)
    return found if dtype is None else found.astype(dtype)


def _outer(op: ops.Operator, a: Any, b: Any) -> Any:
    x, y = asarray(a), asarray(b)
    left = shaping.reshape(x, x.shape + (1,) * y.ndim)
    return elementwise.binary(op, left, y)
