"""Scalars of comprehensions as expressions of the calculus, with Python's meaning of numbers: truth
values count as 0 and 1, whole numbers have 64 bits, reals their own precision."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.comprehension.functions import FUNCTIONS, ROUNDING
from tensorel.ir import nodes as ir
from tensorel.ir.build import compare, convert, floordiv, minus, modulo, plus, times
from tensorel.language.scalars import arithmetic, call, truth

_COMPARE = {"==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
            ">": ops.greater, ">=": ops.greater_equal}
_ARITHMETIC = {"+": ops.add, "-": ops.subtract, "*": ops.multiply, "%": ops.remainder,
               "**": ops.power, "true/": ops.divide}
_OF_WHOLE = {"+": plus, "-": minus, "*": times}


def is_whole(e: ir.Expr) -> bool:
    return e.dtype.kind in "biu"


def widened(e: ir.Expr) -> ir.Expr:
    """An entry of a tensor as a value: whole numbers in 64 bits."""
    return convert(e, ir.INT64) if e.dtype.kind in "iu" else e


def number(e: ir.Expr) -> ir.Expr:
    """A value to calculate with."""
    return convert(e, ir.INT64) if e.dtype.kind in "biu" else e


def binary(op: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """A binary operator of the language."""
    if op in ("&&", "||"):
        return call(ops.logical_and if op == "&&" else ops.logical_or, truth(a), truth(b))
    if op in _COMPARE:
        return _compared(_COMPARE[op], a, b)
    a, b = number(a), number(b)
    if is_whole(a) and is_whole(b):
        return _of_whole(op, a, b)
    if op in ("/", "//"):
        return arithmetic(ops.divide if op == "/" else ops.floor_divide, a, b)
    return arithmetic(_ARITHMETIC[op], a, b)


def _compared(op: ops.Operator, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if a.dtype == ir.BOOL and b.dtype == ir.BOOL:
        return call(op, a, b)
    a, b = number(a), number(b)
    if is_whole(a) and is_whole(b) and not (isinstance(a, ir.Const) and isinstance(b, ir.Const)):
        return compare(op, a, b)
    return arithmetic(op, a, b)


def _of_whole(op: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if op in _OF_WHOLE:
        return _OF_WHOLE[op](a, b)
    if op in ("/", "//", "%"):
        if isinstance(b, ir.Const) and b.value != 0 and not isinstance(a, ir.Const):
            return modulo(a, b) if op == "%" else floordiv(a, b)
        return call(ops.remainder if op == "%" else ops.floor_divide, a, b)
    return call(_ARITHMETIC[op], a, b)


def negated(a: ir.Expr) -> ir.Expr:
    return call(ops.negative, number(a))


def choice(test: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    """``then`` where the test holds."""
    if then.dtype != otherwise.dtype:
        then, otherwise = number(then), number(otherwise)
        real = next((e.dtype for e in (then, otherwise)
                     if e.dtype.kind in "fc" and not isinstance(e, ir.Const)), None)
        if real is not None:
            then, otherwise = (convert(e, real) if isinstance(e, ir.Const) else e
                               for e in (then, otherwise))
    test = truth(test)
    if isinstance(test, ir.Const):
        return then if test.value else otherwise
    return call(ops.where, test, then, otherwise)


def function(name: str, args: list[ir.Expr]) -> ir.Expr:
    """A function of the language."""
    first = args[0]
    if name == "bool":
        return truth(first)
    if name == "int":
        return first if first.dtype == ir.INT64 else convert(first, ir.INT64)
    if name in ("real", "float"):
        return first if first.dtype.kind in "fc" else convert(first, ops.FLOAT64)
    args = [number(a) for a in args]
    if name in ROUNDING and is_whole(args[0]):
        return args[0]
    op = FUNCTIONS[name]
    found = args[0]
    if op.arity == 1:
        return call(op, found)
    for a in args[1:]:
        found = arithmetic(op, found, a)
    return found
