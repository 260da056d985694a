"""The functions that programs may call: Python's own, those of ``math``, and NumPy's that are
operators of ours. Each has a name that stands in expressions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import DType, Operator

#: Functions of ``math`` that are operators of ours, on doubles, by the names of both.
MATH: dict[str, Operator] = {
    f"math.{name}": ops.operator(ours) for name, ours in {
        "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
        "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin",
        "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
        "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh",
        "atanh": "arctanh", "atan2": "arctan2", "hypot": "hypot", "fabs": "absolute",
        "copysign": "copysign", "pow": "power",
    }.items() if hasattr(math, name)}
#: Those that give truth values, and those that give whole numbers.
MATH_TESTS = {f"math.{name}": ops.operator(name) for name in ("isnan", "isinf", "isfinite")}
MATH_WHOLE = {f"math.{name}": ops.operator(name) for name in ("floor", "ceil", "trunc")}
#: NumPy's functions of numbers.
NUMPY: dict[str, Operator] = {
    f"np.{op.meaning.__name__}": op for op in ops.operators() if isinstance(op.meaning, np.ufunc)}
NUMPY["np.where"] = ops.where
#: Casts by NumPy's scalar types.
CASTS: dict[str, DType] = {f"np.{d.name}": d for d in ops.DTYPES}
BUILTINS = ("abs", "min", "max", "int", "float", "bool", "round", "pow")

_ARITHMETIC = {"+": ops.add, "-": ops.subtract, "*": ops.multiply, "/": ops.divide,
               "//": ops.floor_divide, "%": ops.remainder, "**": ops.power}
_BITS = {"<<": ops.left_shift, ">>": ops.right_shift, "&": ops.bitwise_and,
         "|": ops.bitwise_or, "^": ops.bitwise_xor}
COMPARISONS = {"==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
               ">": ops.greater, ">=": ops.greater_equal}
#: Of the text: of whole numbers NumPy's // and %, of others its / and %.
TEXT = {"text./": (ops.floor_divide, ops.divide), "text.%": (ops.remainder, ops.remainder)}
#: Python's operators of two numbers.
BINARY = _ARITHMETIC | _BITS | COMPARISONS
UNARY = {"neg": ops.negative, "pos": ops.positive, "~": ops.invert}

#: The objects that names in a Python program may lead to, with the names in expressions.
_OBJECTS: dict[int, str] = {}
_ALLOCATIONS = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like",
                "full_like", "copy")


def _enter(found: Any, name: str) -> None:
    _OBJECTS.setdefault(id(found), name)


for _name in BUILTINS:
    _enter(getattr(builtins, _name), _name)
for _name in ("len", "range", "enumerate", "zip", "reversed"):
    _enter(getattr(builtins, _name), f"builtin.{_name}")
for _name in (*MATH, *MATH_TESTS, *MATH_WHOLE):
    _enter(getattr(math, _name.removeprefix("math.")), _name)
for _name, _op in NUMPY.items():
    _enter(_op.meaning, _name)
for _name, _dtype in CASTS.items():
    _enter(_dtype.type, _name)
for _name in _ALLOCATIONS:
    _enter(getattr(np, _name), f"array.{_name}")


def name_of(found: object) -> str | None:
    """The name in expressions of a Python function, None if programs cannot call it."""
    return _OBJECTS.get(id(found))


def text_meaning(function: str, a: Any, b: Any) -> Any:
    """Of Python's numbers one of Python's, as NumPy computes it."""
    whole = all(np.asarray(x).dtype.kind in "biu" for x in (a, b))
    found: Any = TEXT[function][not whole].meaning(a, b)
    return found if isinstance(a, np.generic) or isinstance(b, np.generic) else found.item()


def meaning(function: str) -> Callable[..., Any]:
    """What a function does with Python and NumPy numbers: the definition."""
    if function in TEXT:
        return partial(text_meaning, function)
    if function in _PYTHON:
        return _PYTHON[function]
    if function in CASTS:
        return CASTS[function].type
    if function in NUMPY:
        found: Callable[..., Any] = NUMPY[function].meaning
        return found
    module, _, name = function.rpartition(".")
    return getattr(math if module == "math" else builtins, name)  # type: ignore[no-any-return]


_PYTHON: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "**": lambda a, b: a ** b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "neg": lambda a: -a, "pos": lambda a: +a, "~": lambda a: ~a, "not": lambda a: not a,
}
