"""NumPy's functions on tensors stay lazy: ``np.exp(T)``, ``np.sum(T)``, ``np.add.reduce(T)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tensorel.algebra import bulk, ops
from tensorel.errors import TypeError_, UnsupportedError, ValueError_
from tensorel.front.array import create, info
from tensorel.front.array.base import Base, from_stored, some_axes
from tensorel.front.array.convert import asarray, copied, sources, stored_of
from tensorel.front.array.numpy_calls import call_ours, parameters, refusal, says_nothing
from tensorel.front.array.operators import is_operand
from tensorel.front.array.scalars import UFUNCS, Tracer, entry_of, is_weak
from tensorel.front.functions import (
    diagonals,
    einsum,
    elementwise,
    joining,
    nan_reductions,
    products,
    reductions,
    shaping,
    sorting,
    ufuncs,
)

#: Reductions that ``ufunc.reduce`` means; NumPy's default axis there is 0.
_REDUCTIONS: dict[ops.Operator, Callable[..., Any]] = {
    ops.add: reductions.sum, ops.multiply: reductions.prod, ops.minimum: reductions.min,
    ops.maximum: reductions.max, ops.logical_or: reductions.any, ops.logical_and: reductions.all,
}
_RUNNING = {op.running: op for op in bulk.BULK_OPERATORS.values() if op.running is not None}
PRODUCTS: dict[object, Callable[..., Any]] = {
    np.matmul: products.matmul, np.vecdot: products.vecdot,
}
#: Ufuncs that are formulas over others; their operands have NumPy's dtypes already.
COMPOSED: dict[object, Callable[..., Any]] = {
    np.divmod: lambda a, b: (ufuncs.floor_divide(a, b), ufuncs.remainder(a, b)),
    np.fmin: lambda a, b: _ignoring_nan(ufuncs.minimum, a, b),
    np.fmax: lambda a, b: _ignoring_nan(ufuncs.maximum, a, b),
    np.deg2rad: lambda x: x * (np.pi / 180), np.radians: lambda x: x * (np.pi / 180),
    np.rad2deg: lambda x: x * (180 / np.pi), np.degrees: lambda x: x * (180 / np.pi),
    np.float_power: ufuncs.power,
}


def _ignoring_nan(f: Callable[..., Any], a: Any, b: Any) -> Any:
    return elementwise.where(ufuncs.isnan(a), b, elementwise.where(ufuncs.isnan(b), a, f(a, b)))


#: Chapters whose functions are NumPy's of the same name, where NumPy has one.
_CHAPTERS = (reductions, shaping, joining, diagonals, products, sorting, nan_reductions, ufuncs,
             elementwise)
_CREATING = "zeros_like ones_like full_like empty_like zeros ones full empty identity"
_ALIASES: dict[str, Callable[..., Any]] = {
    "amin": reductions.min, "amax": reductions.max, "concatenate": joining.concat,
    "around": ufuncs.round, "asarray": asarray, "can_cast": info.can_cast, "einsum": einsum.einsum,
    "copy": lambda t: copied(asarray(t)),
    "eye": lambda n, M=None, k=0, dtype=None, device=None: create.eye(
        n, M, k=k, dtype=dtype, device=device),
    "array": lambda x, dtype=None, copy=True: asarray(x, dtype, copy=copy),
    "ptp": lambda t, axis=None, keepdims=False: (
        reductions.max(t, axis, keepdims) - reductions.min(t, axis, keepdims)),
    "result_type": lambda *xs: np.result_type(
        *(x.dtype if isinstance(x, Base) else x for x in xs)),
    "shape": lambda t: asarray(t).shape, "ndim": lambda t: asarray(t).ndim,
    "size": lambda t, axis=None: math.prod(
        asarray(t).shape[k] for k in some_axes(axis, asarray(t).ndim, "size")),
    "iscomplexobj": lambda t: asarray(t).dtype.kind == "c",
    "isrealobj": lambda t: asarray(t).dtype.kind != "c",
}


def _table() -> dict[object, Callable[..., Any]]:
    found: dict[object, Callable[..., Any]] = {}
    for chapter, names in [*((c, c.__all__) for c in _CHAPTERS), (create, _CREATING.split())]:
        for name in names:
            theirs = getattr(np, name, None)
            if theirs is not None and not isinstance(theirs, np.ufunc):
                found[theirs] = getattr(chapter, name)
    found.update((getattr(np, name), ours) for name, ours in _ALIASES.items())
    found[np.may_share_memory], found[np.shares_memory] = _may_share, _shares
    return found


def _may_share(a: object, b: object, max_work: object = None) -> bool:
    """Whether writing to one could change the other; nothing is computed to find out."""
    return any(np.may_share_memory(x, y) for x in _memory(a) for y in _memory(b))


def _shares(a: object, b: object, max_work: Any = None) -> bool:
    """Whether writing to one changes the other."""
    a, b = (from_stored(stored_of(t)) if isinstance(t, Base) else t for t in (a, b))
    return any(np.shares_memory(x, y, max_work) for x in _memory(a) for y in _memory(b))


def _memory(x: object) -> list[Any]:
    """The arrays that a tensor reads; any other object itself."""
    if not isinstance(x, Base):
        return [x]
    held = sources(x) if x.known is None else [x.known]
    return [a for s in held for form in (s, *s.alternatives) for a in form.arrays.values()]


FUNCTIONS = _table()


class Dispatch(Base):
    """NumPy's protocols."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if not all(is_operand(a) or isinstance(a, Tracer) for a in args):
            return NotImplemented
        if options:
            options = {k: v for k, v in options.items() if not says_nothing(k, v)}
        op = UFUNCS.get(ufunc)
        if method == "__call__":
            return _call(ufunc, op, args, options)
        if op is not None and method == "reduce" and op in _REDUCTIONS:
            return _reduce(ufunc, op, args[0], options)
        if op is not None and method == "accumulate" and op in _RUNNING:
            _refuse_others(ufunc, options, ("axis", "dtype"))
            axis, dtype = options.get("axis", 0), options.get("dtype")
            return sorting.running(_RUNNING[op], args[0], axis, dtype)
        if op is not None and method == "outer" and op.arity == 2:
            return _outer(op, *_cast(ufunc, [asarray(a) for a in args], options))
        raise UnsupportedError(f"np.{ufunc.__name__}.{method} is not known for tensors",
                               hint="convert with T.to_numpy() first")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        ours = FUNCTIONS.get(function)
        if ours is None:
            name = getattr(function, "__name__", str(function))
            raise UnsupportedError(f"np.{name} is not known for tensors",
                                   hint="convert with T.to_numpy() first")
        return call_ours(function, ours, args, options)


def _call(ufunc: np.ufunc, op: ops.Operator | None, args: Any, options: dict[str, Any]) -> Any:
    composed, product = COMPOSED.get(ufunc), PRODUCTS.get(ufunc)
    if op is None and composed is None and product is None:
        raise UnsupportedError(f"np.{ufunc.__name__} is not known for tensors",
                               hint="convert with T.to_numpy() first")
    axis = {"axis": options.pop("axis")} if product is products.vecdot and "axis" in options else {}
    if options or composed is not None:
        args = _cast(ufunc, args, options)
    if product is not None:
        return product(*args, **axis)
    if composed is not None or op is None:
        assert composed is not None
        return composed(*args)
    return elementwise.unary(op, args[0]) if op.arity == 1 else elementwise.binary(op, *args)


def _refuse_others(ufunc: np.ufunc, options: dict[str, Any], known: Iterable[str]) -> None:
    for name, value in options.items():
        if name not in known:
            raise refusal(ufunc.__name__, name, value)


def _cast(ufunc: np.ufunc, args: Any, options: dict[str, Any]) -> Any:
    """The operands in the dtypes that NumPy computes in, where the call names these (``dtype``,
    ``signature``) or which conversions are allowed (``casting``)."""
    _refuse_others(ufunc, options, ("dtype", "signature", "casting"))
    asked = signature = options.get("signature")
    into = options.get("dtype")
    if into is not None:
        signature = (None,) * ufunc.nin + (ops.check_dtype(into),) * ufunc.nout
    elif not options and ufunc not in COMPOSED:
        return args
    operands = [a if is_weak(a) or isinstance(a, np.generic) else asarray(a) for a in args]
    kinds = [np.dtype("bool") if type(a) is bool else type(a) if is_weak(a) else a.dtype
             for a in operands]
    try:
        found = ufunc.resolve_dtypes(
            (*kinds, *(None,) * ufunc.nout), casting=options.get("casting", "same_kind"),
            signature=(None,) * ufunc.nargs if signature is None else signature)
    except TypeError as error:
        raise TypeError_(f"np.{ufunc.__name__}: {error}",
                         hint="convert the operands first, or say casting='unsafe'") from error
    except ValueError as error:
        raise ValueError_(f"np.{ufunc.__name__}: {error}") from error
    # there is no float16 here: where NumPy takes it for small integers, we take float32
    wanted = [np.dtype("float32") if d == np.float16 and asked is None else ops.check_dtype(d)
              for d in found[: ufunc.nin]]
    return [_as(a, d, ufunc) for a, d in zip(operands, wanted)]


def _as(x: Any, dtype: ops.DType, ufunc: np.ufunc) -> Any:
    if isinstance(x, Base):
        return elementwise.astype(x, dtype)
    if type(x) is int:
        entry_of(x, dtype, ufunc.__name__)  # refuses what does not fit
    return np.asarray(x).astype(dtype)[()]


def _reduce(ufunc: np.ufunc, op: ops.Operator, x: Any, options: dict[str, Any]) -> Any:
    ours = _REDUCTIONS[op]
    options.setdefault("axis", 0)
    if "dtype" in options and op not in (ops.add, ops.multiply):
        # extremes and truth: of converted entries
        into = ops.check_dtype(options.pop("dtype"))
        if op in (ops.logical_or, ops.logical_and):
            if into != ops.BOOL:
                raise TypeError_(f"np.{ufunc.__name__}.reduce: the result is bool, not {into}")
        else:
            x = asarray(x).astype(into)
    _refuse_others(ufunc, options, parameters(np.sum, ours).taken - {"x"})
    return ours(x, **options)


def _outer(op: ops.Operator, a: Any, b: Any) -> Any:
    x, y = asarray(a), asarray(b)
    left = shaping.reshape(x, x.shape + (1,) * y.ndim)
    return elementwise.binary(op, left, y)
