"""The scalar functions and semirings of SDQLite, by the names that programs use."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.language.scalars import (
    BOOL,
    INT,
    MAX_PLUS,
    MAX_TIMES,
    MIN_PLUS,
    MIN_TIMES,
    REAL,
    Semiring,
)

#: Functions that are one operator of the algebra.
OPERATORS: dict[str, ops.Operator] = {
    "exp": ops.exp, "expm1": ops.expm1, "log": ops.log, "log2": ops.log2, "log10": ops.log10,
    "log1p": ops.log1p, "sqrt": ops.sqrt, "cbrt": ops.cbrt, "square": ops.square,
    "abs": ops.absolute, "sign": ops.sign, "sin": ops.sin, "cos": ops.cos, "tan": ops.tan,
    "asin": ops.arcsin, "acos": ops.arccos, "atan": ops.arctan, "sinh": ops.sinh,
    "cosh": ops.cosh, "tanh": ops.tanh, "floor": ops.floor, "ceil": ops.ceil,
    "trunc": ops.trunc, "round": ops.rint, "pow": ops.power, "min": ops.minimum,
    "max": ops.maximum,
}
#: Functions that leave an int as it is.
ROUNDING = frozenset({"floor", "ceil", "trunc", "round"})
#: Functions that are formulas: conversions, and every second bit of a whole number.
FORMULAS: dict[str, int] = {"int": 1, "real": 1, "even_bits": 1, "odd_bits": 1}

#: Name to number of arguments.
FUNCTIONS: dict[str, int] = {name: op.arity for name, op in OPERATORS.items()} | FORMULAS

#: Semirings that values are promoted to; a truth value is one of the boolean one.
SEMIRINGS: dict[str, Semiring] = {
    s.name: s for s in (MIN_PLUS, MAX_PLUS, MIN_TIMES, MAX_TIMES)} | {"boolean": BOOL}
#: The kinds of scalars.
KINDS: dict[str, Semiring] = {"bool": BOOL, "int": INT, "real": REAL} | SEMIRINGS
#: The names that SDQL has for them.
ALIASES = {"mnsm": "min_plus", "mxsm": "max_plus", "mnpr": "min_times", "mxpr": "max_times"}
