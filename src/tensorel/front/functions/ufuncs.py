"""The elementwise functions of the namespace, by the Array API's names and NumPy's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import TypeError_
from tensorel.front.array.convert import asarray
from tensorel.front.array.scalars import Tracer, apply
from tensorel.front.functions.elementwise import binary, unary
from tensorel.front.functions.elementwise import where as _where

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


class Elementwise:
    """A function of tensors or of traced scalars; ``op`` is its operator."""

    def __init__(self, op: ops.Operator, name: str | None = None) -> None:
        self.op = op
        self.__name__ = name or op.name
        self.__doc__ = f"{op.name.replace('_', ' ')} of the entries, as in NumPy."

    def __repr__(self) -> str:
        return f"<function tensorel.{self.__name__}>"


class Unary(Elementwise):
    """An elementwise function of one argument."""

    def __call__(self, x: Any, /) -> Any:
        if isinstance(x, Tracer):
            return apply(self.op, x)
        return unary(self.op, x)


class Binary(Elementwise):
    """An elementwise function of two arguments, broadcast."""

    def __call__(self, x1: Any, x2: Any, /) -> Any:
        if isinstance(x1, Tracer) or isinstance(x2, Tracer):
            return apply(self.op, x1, x2)
        return binary(self.op, x1, x2)


add = Binary(ops.add)
subtract = Binary(ops.subtract)
multiply = Binary(ops.multiply)
divide = true_divide = Binary(ops.divide)
floor_divide = Binary(ops.floor_divide)
remainder = mod = Binary(ops.remainder)
power = pow = Binary(ops.power, "pow")
minimum = Binary(ops.minimum)
maximum = Binary(ops.maximum)
atan2 = arctan2 = Binary(ops.arctan2, "atan2")
hypot = Binary(ops.hypot)
copysign = Binary(ops.copysign)
logaddexp = Binary(ops.logaddexp)
nextafter = Binary(ops.nextafter)
equal = Binary(ops.equal)
not_equal = Binary(ops.not_equal)
less = Binary(ops.less)
less_equal = Binary(ops.less_equal)
greater = Binary(ops.greater)
greater_equal = Binary(ops.greater_equal)
logical_and = Binary(ops.logical_and)
logical_or = Binary(ops.logical_or)
logical_xor = Binary(ops.logical_xor)
bitwise_and = Binary(ops.bitwise_and)
bitwise_or = Binary(ops.bitwise_or)
bitwise_xor = Binary(ops.bitwise_xor)
bitwise_left_shift = left_shift = Binary(ops.left_shift, "bitwise_left_shift")
bitwise_right_shift = right_shift = Binary(ops.right_shift, "bitwise_right_shift")

negative = Unary(ops.negative)
positive = Unary(ops.positive)
abs = absolute = Unary(ops.absolute, "abs")
sign = Unary(ops.sign)
logical_not = Unary(ops.logical_not)
bitwise_invert = bitwise_not = invert = Unary(ops.invert, "bitwise_invert")
isnan = Unary(ops.isnan)
isinf = Unary(ops.isinf)
isfinite = Unary(ops.isfinite)
signbit = Unary(ops.signbit)
conj = conjugate = Unary(ops.conjugate, "conj")
real = Unary(ops.real)
imag = Unary(ops.imag)
square = Unary(ops.square)
reciprocal = Unary(ops.reciprocal)
sqrt = Unary(ops.sqrt)
cbrt = Unary(ops.cbrt)
exp = Unary(ops.exp)
exp2 = Unary(ops.exp2)
expm1 = Unary(ops.expm1)
log = Unary(ops.log)
log2 = Unary(ops.log2)
log10 = Unary(ops.log10)
log1p = Unary(ops.log1p)
sin = Unary(ops.sin)
cos = Unary(ops.cos)
tan = Unary(ops.tan)
asin = arcsin = Unary(ops.arcsin, "asin")
acos = arccos = Unary(ops.arccos, "acos")
atan = arctan = Unary(ops.arctan, "atan")
sinh = Unary(ops.sinh)
cosh = Unary(ops.cosh)
tanh = Unary(ops.tanh)
asinh = arcsinh = Unary(ops.arcsinh, "asinh")
acosh = arccosh = Unary(ops.arccosh, "acosh")
atanh = arctanh = Unary(ops.arctanh, "atanh")
floor = Unary(ops.floor)
ceil = Unary(ops.ceil)
trunc = Unary(ops.trunc)
rint = Unary(ops.rint)


def round(x: object, decimals: int = 0) -> Tensor:
    """To the nearest number with so many decimals, halves to even; integers stay."""
    t = asarray(x)
    if t.dtype.kind == "b":
        raise TypeError_("round does not take bool", hint="convert first: T.astype(tr.int64)")
    if t.dtype.kind in "iu" and decimals >= 0:
        return t
    if decimals == 0:
        return unary(ops.rint, t)
    scale: float = 10.0 ** math.fabs(decimals)
    if t.dtype.kind in "iu":
        return (unary(ops.rint, t / scale) * scale).astype(t.dtype)
    if decimals > 0:
        return unary(ops.rint, t * scale) / scale
    return unary(ops.rint, t / scale) * scale


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Entries below ``min`` raised to it, entries above ``max`` lowered to it. As in NumPy, a
    Python number below (above) everything that the dtype holds has no effect as a lower (upper)
    bound.

    >>> import tensorel as tr
    >>> clip(tr.asarray([1, 9, 255], dtype=tr.uint8), -1, 7).to_numpy().tolist()
    [1, 7, 7]
    """
    found = x if isinstance(x, Tracer) else asarray(x)
    if found.dtype.kind in "iu":
        info = np.iinfo(found.dtype)  # type: ignore[type-var]
        min = None if type(min) is int and min <= info.min else min
        max = None if type(max) is int and max >= info.max else max
    if min is not None:
        found = maximum(found, min)
    return found if max is None else minimum(found, max)


def isclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8,
            equal_nan: bool = False) -> Tensor:
    """Whether entries are equal within ``atol + rtol * |b|``."""
    x, y = asarray(a), asarray(b)
    y = y.astype(np.result_type(y.dtype, 1.0))  # differences of whole numbers do not wrap
    if isinstance(b, (bool, int, float, complex, np.generic)):
        return _close_to(x, y.to_numpy()[()], rtol, atol, equal_nan)
    near = (unary(ops.absolute, x - y) <= atol + rtol * unary(ops.absolute, y)) & isfinite(y)
    close: Tensor = near | (x == y)
    return close | (isnan(x) & isnan(y)) if equal_nan else close


def _close_to(x: Tensor, y: Any, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """The same for a number: plans see what it makes of entries that are not stored."""
    close: Tensor = isnan(x) if equal_nan and np.isnan(y) else x == y
    if not np.isfinite(y):
        return close
    with np.errstate(over="ignore"):
        most = atol + rtol * np.abs(y)
    near: Tensor = unary(ops.absolute, x - y) <= most
    return close | near


def allclose(a: object, b: object, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = False) -> bool:
    """Whether all entries are equal within a tolerance; computes."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a: object, b: object, equal_nan: bool = False) -> bool:
    """Whether two tensors have the same shape and entries; computes."""
    x, y = asarray(a), asarray(b)
    if x.shape != y.shape:
        return False
    same = x == y
    return bool((same | (isnan(x) & isnan(y)) if equal_nan else same).all())


def nan_to_num(x: object, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Tensor:
    """Entries that are not finite replaced by finite ones."""
    t = asarray(x)
    if t.dtype.kind not in "fc":
        return t
    if t.dtype.kind == "c":
        raise TypeError_("nan_to_num does not take complex entries here",
                         hint="treat real and imag apart")
    info = np.finfo(t.dtype)  # type: ignore[type-var]
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    found: Tensor = binary(ops.minimum, binary(ops.maximum, t, low), high) if (
        posinf is None and neginf is None) else _replaced(t, high, low)
    result: Tensor = _where(isnan(t), nan, found)
    return result


def _replaced(t: Tensor, high: float, low: float) -> Tensor:
    found: Tensor = _where(t == math.inf, high, _where(t == -math.inf, low, t))
    return found


__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "allclose", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "array_equal", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil", "clip", "conj", "conjugate",
    "copysign", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "invert", "isclose",
    "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "log", "log10", "log1p",
    "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "mod", "multiply", "nan_to_num", "negative", "nextafter", "not_equal",
    "positive", "pow", "power", "real", "reciprocal", "remainder", "right_shift", "rint",
    "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
    "true_divide", "trunc",
]
