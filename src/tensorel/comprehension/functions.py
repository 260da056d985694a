"""Scalar functions and monoids by the names that programs use."""

from __future__ import annotations

from tensorel.algebra import ops

#: Functions that are one operator of the algebra.
FUNCTIONS: dict[str, ops.Operator] = {
    "exp": ops.exp, "expm1": ops.expm1, "log": ops.log, "log2": ops.log2, "log10": ops.log10,
    "log1p": ops.log1p, "sqrt": ops.sqrt, "cbrt": ops.cbrt, "square": ops.square,
    "abs": ops.absolute, "fabs": ops.absolute, "sign": ops.sign, "sin": ops.sin, "cos": ops.cos,
    "tan": ops.tan, "asin": ops.arcsin, "acos": ops.arccos, "atan": ops.arctan,
    "atan2": ops.arctan2, "sinh": ops.sinh, "cosh": ops.cosh, "tanh": ops.tanh,
    "floor": ops.floor, "ceil": ops.ceil, "trunc": ops.trunc, "round": ops.rint,
    "pow": ops.power, "min": ops.minimum, "max": ops.maximum, "hypot": ops.hypot,
    "isnan": ops.isnan, "isinf": ops.isinf, "isfinite": ops.isfinite,
}
#: Functions that leave a whole number as it is.
ROUNDING = frozenset({"floor", "ceil", "trunc", "round"})
#: Conversions.
CONVERSIONS = frozenset({"int", "real", "float", "bool"})
#: Functions of two or more arguments.
MANY = frozenset({"min", "max"})

#: What aggregations combine by. ``avg`` and ``count`` are made of sums, ``last`` is the value of
#: the last member in the order of the generators.
MONOIDS: dict[str, ops.Operator | None] = {
    "+": ops.add, "*": ops.multiply, "min": ops.minimum, "max": ops.maximum,
    "&&": ops.logical_and, "||": ops.logical_or, "avg": None, "count": None, "last": None,
}
MONOIDS |= {op.name: op for op in vars(ops).values()
            if isinstance(op, ops.Operator) and op.is_monoid and op.name not in MONOIDS}
#: Other spellings in texts.
ALIASES = {"sum": "+", "prod": "*", "any": "||", "all": "&&", "mean": "avg", "len": "count"}


def is_function(name: str) -> bool:
    return name in FUNCTIONS or name in CONVERSIONS


def takes(name: str, count: int) -> bool:
    """Whether a function has so many arguments."""
    if name in MANY:
        return count >= 2
    return count == (1 if name in CONVERSIONS else FUNCTIONS[name].arity)
