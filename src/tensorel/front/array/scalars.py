"""Scalars beside tensors: Python's are weak (NEP 50), NumPy's keep their dtype; and the tracer,
a scalar that records what a Python function does with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import RangeError, TypeError_, UnsupportedError, ValueError_
from tensorel.front.array.base import call, choose
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert

_COMPARISONS = frozenset(
    (ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal)
)
_WEAK = frozenset((bool, int, float, complex))
#: NumPy's shortcuts for powers; zero to a positive power stays zero, which planners use.
_POWERS: dict[object, ops.Operator] = {2: ops.square, 0.5: ops.sqrt, -1: ops.reciprocal}
UFUNCS: dict[object, ops.Operator] = {
    op.meaning: op for op in ops.operators() if isinstance(op.meaning, np.ufunc)
}


def is_weak(x: object) -> bool:
    """A Python scalar, which takes the dtype of what it meets."""
    return type(x) in _WEAK


MAX_KEPT_FLOATS = 256
_floats: dict[tuple[float, ops.DType], ir.Const] = {}
_weak_dtypes: dict[tuple[ops.DType, type], ops.DType] = {}


def _weak_dtype(dtype: ops.DType, kind: type) -> ops.DType:
    found = _weak_dtypes.get((dtype, kind))
    if found is None:
        found = _weak_dtypes[dtype, kind] = np.result_type(dtype, kind())
    return found


def weak(value: Any, dtype: ops.DType, op: ops.Operator) -> ir.Const:
    """A Python scalar beside entries of ``dtype`` (NEP 50: it takes their dtype if it can)."""
    if type(value) is not float or value == 0:  # zeros have signs
        return _weak(value, dtype, op)
    found = _floats.get((value, dtype))
    if found is None:
        if len(_floats) >= MAX_KEPT_FLOATS:
            _floats.clear()
        found = _floats[value, dtype] = _weak(value, dtype, op)
    return found


def _weak(value: Any, dtype: ops.DType, op: ops.Operator) -> ir.Const:
    into = _weak_dtype(dtype, type(value))
    if type(value) is int and into.kind in "iu":
        info = np.iinfo(into)  # type: ignore[type-var]
        if not info.min <= value <= info.max:
            return _out_of_range(value, into, op)
    return ir.const(value, into)


def _out_of_range(value: int, dtype: ops.DType, op: ops.Operator) -> ir.Const:
    # Comparisons are exact in NumPy whatever the size of the number.
    if op in _COMPARISONS:
        for wide in (np.dtype("int64"), np.dtype("uint64")):
            if np.iinfo(wide).min <= value <= np.iinfo(wide).max:
                return ir.const(value, wide)
        return ir.const(float("inf") if value > 0 else float("-inf"), ops.FLOAT64)
    into = op.resolve(*(dtype,) * op.arity)[0][-1]
    if into.kind == "f":  # true division and the like never see the integer
        return ir.const(value, into)
    raise RangeError(
        f"{op.name}: {value} does not fit in {dtype.name}",
        hint="convert the tensor first, e.g. T.astype(tr.int64)",
    )


def entry_of(value: Any, dtype: ops.DType, name: str) -> ir.Const:
    """A scalar as an entry of ``dtype``; as in NumPy, a Python number that does not fit is an
    error, and is never cut to the bits that there are."""
    if type(value) is int and dtype.kind in "iu":
        info = np.iinfo(dtype)  # type: ignore[type-var]
        if not info.min <= value <= info.max:
            raise RangeError(f"{name}: {value} does not fit in {dtype.name}",
                             hint="use a wider dtype")
    return ir.const(value, dtype)


CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def can_cast_to(found: ops.DType, into: ops.DType, casting: Any) -> bool:
    """Whether NumPy's rule ``casting`` lets entries be converted."""
    if casting not in CASTINGS:
        raise ValueError_(f"casting {casting!r} is not known", hint=f"one of {', '.join(CASTINGS)}")
    return np.can_cast(found, into, casting)


def check_cast(name: str, found: ops.DType, into: ops.DType, casting: Any) -> None:
    """Refuse a conversion that NumPy's rule ``casting`` forbids."""
    if not can_cast_to(found, into, casting):
        raise TypeError_(f"{name}: {found} does not become {into} under casting={casting!r}",
                         hint="say casting='unsafe', or convert first: T.astype(...)")


def power(base: ir.Expr, exponent: Any) -> ir.Expr:
    """``base ** exponent`` for a Python scalar, by the shortcuts that NumPy takes."""
    found = power_with(base.dtype, exponent)
    if isinstance(found, ir.Const):
        return call(ops.power, base, found)
    return found(base)


def power_with(base: ops.DType, exponent: Any) -> ir.Const | Callable[[ir.Expr], ir.Expr]:
    """A Python scalar as the exponent of entries of a dtype, or what NumPy computes instead."""
    literal = weak(exponent, base, ops.power)
    dtype = np.result_type(base, literal.dtype)
    if dtype.kind in "iu" and isinstance(exponent, int) and exponent < 0:
        raise TypeError_(
            f"power: integers of dtype {dtype.name} have no negative powers",
            hint="convert to a float dtype first, or write the exponent as a float",
        )
    op = None if isinstance(exponent, bool) else _POWERS.get(exponent)
    if op is ops.square and base.kind == "b" and type(exponent) is int:
        return partial(call, op)  # NumPy's square of booleans is int8
    if op is None or (dtype.kind in "iub" and op is not ops.square):
        return literal
    return lambda e: ir.Call(op, (convert(e, dtype),))


def literal(x: Any) -> ir.Const:
    """A scalar that stands alone: Python's get their default dtype."""
    array = np.asarray(x)
    if array.ndim:
        raise TypeError_(f"an array of shape {array.shape} stands where a scalar is needed")
    return ir.const(array, ops.check_dtype(array.dtype))


# -- tracing --------------------------------------------------------------------------------------
def apply(op: ops.Operator, *args: object) -> Tracer:
    """``op`` of tracers and scalars."""
    strong = [a.expr.dtype if isinstance(a, Tracer) else np.asarray(a).dtype
              for a in args if not is_weak(a)]
    if op is ops.power and is_weak(args[1]) and strong:
        return Tracer(power(_expr(args[0]), args[1]))
    common = np.result_type(*strong) if strong else None
    exprs = [
        weak(a, common, op) if common is not None and is_weak(a) else _expr(a) for a in args
    ]
    if op is ops.where:
        return Tracer(choose(*exprs))
    return Tracer(call(op, *exprs))


def where(condition: object, a: object, b: object) -> Tracer:
    """The choice between two traced values; Python's own ``if`` cannot be traced."""
    test = convert(_expr(condition), ir.BOOL)
    strong = [_expr(x).dtype for x in (a, b) if not is_weak(x)]
    if strong:
        first, second = (
            weak(x, strong[0], ops.where) if is_weak(x) else _expr(x) for x in (a, b)
        )
    else:
        dtype = np.result_type(a, b)  # type: ignore[arg-type]
        first, second = ir.const(a, dtype), ir.const(b, dtype)
    return Tracer(choose(test, first, second))


def _expr(x: object) -> ir.Expr:
    return x.expr if isinstance(x, Tracer) else literal(x)


def traced(value: object) -> ir.Expr:
    """The expression that a traced function returned."""
    if isinstance(value, Tracer):
        return value.expr
    if is_weak(value) or isinstance(value, np.generic):
        return literal(value)
    raise TypeError_(
        f"the function returned {type(value).__name__}, not a scalar",
        hint="return one number computed from the arguments",
    )


def _method(op: ops.Operator) -> Callable[[Tracer, object], Tracer]:
    def method(self: Tracer, other: object) -> Tracer:
        return apply(op, self, other)

    return method


def _reflected(op: ops.Operator) -> Callable[[Tracer, object], Tracer]:
    def method(self: Tracer, other: object) -> Tracer:
        return apply(op, other, self)

    return method


def _single(op: ops.Operator) -> Callable[[Tracer], Tracer]:
    def method(self: Tracer) -> Tracer:
        return apply(op, self)

    return method


class Tracer:
    """A scalar that records the expression computed from it."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: ir.Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> ops.DType:
        return self.expr.dtype

    __add__, __radd__ = _method(ops.add), _reflected(ops.add)
    __sub__, __rsub__ = _method(ops.subtract), _reflected(ops.subtract)
    __mul__, __rmul__ = _method(ops.multiply), _reflected(ops.multiply)
    __truediv__, __rtruediv__ = _method(ops.divide), _reflected(ops.divide)
    __floordiv__, __rfloordiv__ = _method(ops.floor_divide), _reflected(ops.floor_divide)
    __mod__, __rmod__ = _method(ops.remainder), _reflected(ops.remainder)
    __pow__, __rpow__ = _method(ops.power), _reflected(ops.power)
    __and__, __rand__ = _method(ops.bitwise_and), _reflected(ops.bitwise_and)
    __or__, __ror__ = _method(ops.bitwise_or), _reflected(ops.bitwise_or)
    __xor__, __rxor__ = _method(ops.bitwise_xor), _reflected(ops.bitwise_xor)
    __lshift__, __rlshift__ = _method(ops.left_shift), _reflected(ops.left_shift)
    __rshift__, __rrshift__ = _method(ops.right_shift), _reflected(ops.right_shift)
    __eq__, __ne__ = _method(ops.equal), _method(ops.not_equal)  # type: ignore[assignment]
    __lt__, __le__ = _method(ops.less), _method(ops.less_equal)
    __gt__, __ge__ = _method(ops.greater), _method(ops.greater_equal)
    __neg__, __pos__ = _single(ops.negative), _single(ops.positive)
    __abs__, __invert__ = _single(ops.absolute), _single(ops.invert)
    __floor__, __ceil__, __trunc__ = _single(ops.floor), _single(ops.ceil), _single(ops.trunc)
    conjugate = _single(ops.conjugate)

    def __round__(self, digits: int | None = None) -> Tracer:
        if digits:
            raise UnsupportedError("round to digits cannot be traced", hint="scale, then round")
        return apply(ops.rint, self)

    @property
    def real(self) -> Tracer:
        return apply(ops.real, self)

    @property
    def imag(self) -> Tracer:
        return apply(ops.imag, self)

    def __bool__(self) -> NoReturn:
        raise TypeError_(
            "a function that is traced cannot branch on a value (if, and, or, not, min, max)",
            hint="use tr.where(condition, a, b), & | ~, tr.minimum, tr.maximum",
        )

    def _refuse(self) -> NoReturn:
        raise TypeError_(
            "a traced value is not a number yet: math functions and float() cannot take it",
            hint="use NumPy's or ours, e.g. np.exp(x) or tr.exp(x) instead of math.exp(x)",
        )

    def __float__(self) -> float:
        self._refuse()

    def __int__(self) -> int:
        self._refuse()

    def __index__(self) -> int:
        self._refuse()

    def __complex__(self) -> complex:
        self._refuse()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: object,
                        **options: object) -> Tracer:
        op = UFUNCS.get(ufunc)
        if op is None or method != "__call__" or options:
            raise UnsupportedError(f"np.{ufunc.__name__} ({method}) cannot be traced")
        return apply(op, *args)

    def __array_function__(self, function: Any, types: object, args: Any, options: Any) -> Tracer:
        if function is np.where and len(args) == 3:
            return where(*args)
        if function in (np.real, np.imag):
            return apply(ops.real if function is np.real else ops.imag, *args)
        if function is np.clip and len(args) == 3:
            return apply(ops.minimum, apply(ops.maximum, args[0], args[1]), args[2])
        raise UnsupportedError(f"np.{function.__name__} cannot be traced")

    def __repr__(self) -> str:
        return f"<traced {self.expr.dtype.name}>"
