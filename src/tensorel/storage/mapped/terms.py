"""Whole-number terms of a storage mapping: SDQLite's scalar expressions over cursors, coordinates,
scalars and physical arrays, evaluated on arrays at once, turned into the calculus, solved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.errors import StorageError
from tensorel.ir import build
from tensorel.ir.nodes import Call as Operation
from tensorel.ir.nodes import Expr as Calculus
from tensorel.sdql.syntax import Apply, Binary, Call, Expr, If, Name, Number, Unary, free, parts
from tensorel.storage.levels import Arrays

IntArray = npt.NDArray[np.int64]
Values = npt.NDArray[np.generic]


def coordinate(axis: int) -> str:
    """The name of a cell's coordinate in a term; no name of the language begins like this."""
    return f"@{axis}"


def number(value: int) -> Expr:
    return Number(value, "int") if value >= 0 else Unary("-", Number(-value, "int"))


ZERO, ONE = number(0), number(1)


def literal(e: Expr) -> int | None:
    """The value of a whole-number literal."""
    match e:
        case Number(value=value, kind="int"):
            return int(value)
        case Unary(op="-", arg=Number(value=value, kind="int")):
            return -int(value)
        case _:
            return None


def add(a: Expr, b: Expr) -> Expr:
    return _fold("+", a, b, lambda x, y: x + y, ZERO)


def subtract(a: Expr, b: Expr) -> Expr:
    return ZERO if a == b else _fold("-", a, b, lambda x, y: x - y, None, ZERO)


def multiply(a: Expr, b: Expr) -> Expr:
    if 0 in (literal(a), literal(b)):
        return ZERO
    return _fold("*", a, b, lambda x, y: x * y, ONE)


def divide(a: Expr, b: Expr) -> Expr:
    """The quotient, rounded down."""
    return _fold("/", a, b, lambda x, y: x // y, None, ONE)


def _fold(op: str, a: Expr, b: Expr, at_once: Callable[[int, int], int],
          left: Expr | None, right: Expr | None = None) -> Expr:
    x, y = literal(a), literal(b)
    if a == left:
        return b
    if b == (left if right is None else right):
        return a
    if x is not None and y is not None and not (op == "/" and y == 0):
        return number(at_once(x, y))
    return Binary(op, a, b)


def conjunction(tests: Iterable[Expr]) -> Expr | None:
    """All of them; None if there are none."""
    found = list(tests)
    return reduce(lambda a, b: Binary("&&", a, b), found) if found else None


def substitute(e: Expr, by: Mapping[str, Expr]) -> Expr:
    """``e`` with names replaced; a term binds no names."""
    match e:
        case Name(name=name):
            return by.get(name, e)
        case Unary(op=op, arg=arg):
            return Unary(op, substitute(arg, by), e.at)
        case Binary(op=op, left=left, right=right):
            return _again(op, substitute(left, by), substitute(right, by), e.at)
        case Call(function=f, args=args):
            return Call(f, tuple(substitute(a, by) for a in args), e.at)
        case Apply(target=target, keys=keys):
            return Apply(substitute(target, by), tuple(substitute(k, by) for k in keys), e.at)
        case If(test=test, then=then, otherwise=otherwise):
            rest = None if otherwise is None else substitute(otherwise, by)
            return If(substitute(test, by), substitute(then, by), rest, e.at)
        case _:
            return e


_SIMPLE = {"+": add, "-": subtract, "*": multiply, "/": divide}


def _again(op: str, left: Expr, right: Expr, at: int) -> Expr:
    simple = _SIMPLE.get(op)
    return Binary(op, left, right, at) if simple is None else simple(left, right)


def affine(e: Expr, name: str) -> tuple[Expr, Expr] | None:
    """(a, b) with ``e == a * name + b``, both free of ``name``; None if e is not of that form."""
    if name not in free(e):
        return ZERO, e
    match e:
        case Name():
            return ONE, ZERO
        case Unary(op="-", arg=arg):
            found = affine(arg, name)
            return found and (subtract(ZERO, found[0]), subtract(ZERO, found[1]))
        case Binary(op="+" | "-" as op, left=left, right=right):
            x, y = affine(left, name), affine(right, name)
            if x is None or y is None:
                return None
            join = add if op == "+" else subtract
            return join(x[0], y[0]), join(x[1], y[1])
        case Binary(op="*", left=left, right=right):
            for factor, other in ((left, right), (right, left)):
                found = affine(other, name)
                if name not in free(factor) and found is not None:
                    return multiply(found[0], factor), multiply(found[1], factor)
            return None
        case _:
            return None


# -- on arrays, all at once -------------------------------------------------------------------

_EVEN = 0x5555555555555555
_COMPACT = ((1, 0x3333333333333333), (2, 0x0F0F0F0F0F0F0F0F), (4, 0x00FF00FF00FF00FF),
            (8, 0x0000FFFF0000FFFF), (16, 0x00000000FFFFFFFF))
_SPREAD = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
           (2, 0x3333333333333333), (1, _EVEN))

_ON_ARRAYS: dict[str, Callable[..., Values]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "%": np.remainder, "/": np.floor_divide,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "&&": np.logical_and, "||": np.logical_or, "min": np.minimum,
    "max": np.maximum, "abs": np.abs,
    "even_bits": lambda x: _every_other_bit(x), "odd_bits": lambda x: _every_other_bit(x >> 1),
    "interleave": lambda x, y: _spread(x) | (_spread(y) << 1),
}


def _every_other_bit(x: IntArray) -> IntArray:
    """Bits 0, 2, 4, ... of x, side by side."""
    x = x & _EVEN
    for shift, mask in _COMPACT:
        x = (x | (x >> shift)) & mask
    return x


def _spread(x: IntArray) -> IntArray:
    """The bits of x at the places 0, 2, 4, ..."""
    for shift, mask in _SPREAD:
        x = (x | (x << shift)) & mask
    return x


def evaluate(e: Expr, env: Mapping[str, IntArray], arrays: Mapping[str, Values]
             ) -> npt.NDArray[Any]:
    """The values of ``e`` for all rows of ``env``. A read outside of an array is 0, as the
    language says."""
    match e:
        case Number(value=value):
            return np.asarray(value)
        case Name(name=name) if name in env:
            return env[name]
        case Name(name=name) if name in arrays and arrays[name].ndim == 0:
            return arrays[name]
        case Unary(op=op, arg=arg):
            x = evaluate(arg, env, arrays)
            return np.logical_not(x) if op == "!" else -x
        case Binary(op=op, left=left, right=right):
            with np.errstate(all="ignore"):  # i/0 is 0 here, and refused where it is a key
                return _ON_ARRAYS[op](evaluate(left, env, arrays), evaluate(right, env, arrays))
        case Call(function=f, args=args) if f in _ON_ARRAYS:
            return _ON_ARRAYS[f](*(evaluate(a, env, arrays) for a in args))
        case Apply(target=Name(name=name), keys=(key,)) if name in arrays:
            return _element(arrays[name], evaluate(key, env, arrays))
        case If(test=test, then=then, otherwise=otherwise):
            rest = np.asarray(0) if otherwise is None else evaluate(otherwise, env, arrays)
            return np.where(evaluate(test, env, arrays), evaluate(then, env, arrays), rest)
        case _:
            raise unsupported(e)


def _element(array: Values, at: Values) -> Values:
    wide = at.astype(np.int64)
    inside = (wide >= 0) & (wide < array.size)
    if inside.all():
        return _widened(array[wide])
    found = np.zeros(wide.shape, dtype=array.dtype)
    found[inside] = array[wide[inside]]
    return _widened(found)


def _widened(values: Values) -> Values:
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


# -- in the calculus --------------------------------------------------------------------------

_IN_CALCULUS: dict[str, Callable[..., Calculus]] = {
    "+": build.plus, "-": build.minus, "*": build.times, "%": build.modulo, "/": build.floordiv,
    **{sign: lambda a, b, op=op: Operation(op, (a, b)) for sign, op in {
        "==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
        ">": ops.greater, ">=": ops.greater_equal, "&&": ops.logical_and, "||": ops.logical_or,
        "min": ops.minimum, "max": ops.maximum}.items()},
    "abs": lambda x: Operation(ops.absolute, (x,)),
    "!": lambda x: Operation(ops.logical_not, (x,)),
    "negative": lambda x: build.minus(0, x),
    "even_bits": lambda x: _bits(_with(ops.bitwise_and, x, _EVEN), ops.right_shift, _COMPACT),
    "odd_bits": lambda x: _bits(_with(ops.bitwise_and, _with(ops.right_shift, x, 1), _EVEN),
                                ops.right_shift, _COMPACT),
    "interleave": lambda x, y: Operation(ops.bitwise_or, (
        _bits(x, ops.left_shift, _SPREAD),
        _with(ops.left_shift, _bits(y, ops.left_shift, _SPREAD), 1))),
}


def _with(op: ops.Operator, x: Calculus, k: int) -> Calculus:
    return Operation(op, (x, build.as_expr(k)))


def _bits(x: Calculus, move: ops.Operator, steps: tuple[tuple[int, int], ...]) -> Calculus:
    for shift, mask in steps:
        x = _with(ops.bitwise_and, Operation(ops.bitwise_or, (x, _with(move, x, shift))), mask)
    return x


def translate(e: Expr, env: Mapping[str, Calculus], arrays: Arrays) -> Calculus:
    """``e`` in the calculus. The packer has seen to it that no array is read outside."""
    match e:
        case Number(value=value):
            return build.as_expr(int(value))
        case Name(name=name) if name in env:
            return env[name]
        case Name(name=name) if name in arrays:
            return build.element(arrays[name], 0)
        case Unary(op=op, arg=arg):
            return _IN_CALCULUS["!" if op == "!" else "negative"](translate(arg, env, arrays))
        case Binary(op=op, left=left, right=right):
            return _IN_CALCULUS[op](translate(left, env, arrays), translate(right, env, arrays))
        case Call(function=f, args=args) if f in _IN_CALCULUS:
            return _IN_CALCULUS[f](*(translate(a, env, arrays) for a in args))
        case Apply(target=Name(name=name), keys=(key,)) if name in arrays:
            return build.element(arrays[name], translate(key, env, arrays))
        case If(test=test, then=then, otherwise=otherwise):
            rest = build.as_expr(0) if otherwise is None else translate(otherwise, env, arrays)
            return Operation(ops.where, (
                translate(test, env, arrays), translate(then, env, arrays), rest))
        case _:
            raise unsupported(e)


def reads(e: Expr) -> set[str]:
    """The arrays that a term reads."""
    found = {e.target.name} if isinstance(e, Apply) and isinstance(e.target, Name) else set()
    return found.union(*(reads(p) for p in parts(e)))


def unsupported(e: Expr) -> StorageError:
    return StorageError(
        f"a storage mapping computes keys, bounds and places from whole numbers; "
        f"{type(e).__name__} is none of its operations",
        hint="+ - * / %, comparisons, min, max, abs, even_bits, odd_bits, if, and reads of arrays",
    )
