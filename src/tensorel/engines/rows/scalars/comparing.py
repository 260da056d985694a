"""Comparisons of numbers: nan equals nan and is above all other numbers."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.engines.rows.frames import Arrays, Cell
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.sql.types import Type

_OPS = {"=": ops.equal, "<>": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
        ">": ops.greater, ">=": ops.greater_equal}
#: More literals of IN are searched, not compared one after the other.
MANY = 8
_NEGATED = {"<>": "=", "<=": ">", ">=": "<"}


def compared(sign: str, a: Cell, b: Cell, type_: Type, a_is_number: bool = False,
             b_is_number: bool = False) -> Expr:
    """``a sign b``; a side that is a number is no nan."""
    x, y = convert(a.value, type_.dtype), convert(b.value, type_.dtype)
    if not type_.is_real:
        return Call(_OPS[sign], (x, y))
    if sign in _NEGATED:
        return _not(compared(_NEGATED[sign], a, b, type_, a_is_number, b_is_number))
    if sign == "=":
        equal = Call(ops.equal, (x, y))
        if a_is_number or b_is_number:
            return equal
        return Call(ops.logical_or, (equal, Call(ops.logical_and, (_nan(x), _nan(y)))))
    if sign == ">":
        x, y, a_is_number, b_is_number = y, x, b_is_number, a_is_number
    # x < y: where y is nan and x is not, too
    if b_is_number:
        return Call(ops.less, (x, y))
    above = _not(Call(ops.greater_equal, (x, y)))  # y is nan, or x is, or x < y
    return above if a_is_number else Call(ops.logical_and, (_not(_nan(x)), above))


def among(arrays: Arrays, cell: Cell, numbers: list[object]) -> Expr:
    """Whether a number is one of many: they are sorted, and bisection finds where it would be."""
    known = np.unique(np.array(numbers, cell.type.dtype))
    if not known.size:
        return const(False)
    value = convert(cell.value, known.dtype)
    found: Expr = const(False)
    if known.dtype.kind == "f" and np.isnan(known[-1]):
        known, found = known[:-1], _nan(value)
    if known.size:
        size = 1 << int(known.size).bit_length()
        table = np.append(known, np.repeat(known[-1:], size - known.size))
        at: Expr = const(0, INT64)
        step = size // 2
        while step:
            ahead = Call(ops.add, (at, const(step, INT64)))
            passed = Call(ops.less_equal, (arrays.read(table, ahead), value))
            at, step = Call(ops.where, (passed, ahead, at)), step // 2
        found = Call(ops.logical_or, (found, Call(ops.equal, (arrays.read(table, at), value))))
    return found


def _nan(e: Expr) -> Expr:
    return Call(ops.isnan, (e,))


def _not(e: Expr) -> Expr:
    return Call(ops.logical_not, (e,))
