"""Whole-number terms of a storage mapping: SDQLite's scalar expressions over cursors, coordinates,
scalars and physical arrays, evaluated on arrays at once, turned into the calculus, solved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.errors import StorageError
from tensorel.ir import build
from tensorel.ir.build import IntLike
from tensorel.ir.nodes import Call as Operation
from tensorel.ir.nodes import Expr as Calculus
from tensorel.sdql.syntax import (
    Apply,
    Binary,
    Call,
    Expr,
    If,
    Name,
    Number,
    Unary,
    free,
    mapped,
    parts,
)
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
        case Binary(op=op, left=left, right=right):
            return _again(op, substitute(left, by), substitute(right, by), e.at)
        case _:
            return mapped(e, lambda part: substitute(part, by))


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


# -- folds ------------------------------------------------------------------------------------

T = TypeVar("T")
Operations = dict[str, Callable[..., T]]

_EVEN = 0x5555555555555555
_COMPACT = ((1, 0x3333333333333333), (2, 0x0F0F0F0F0F0F0F0F), (4, 0x00FF00FF00FF00FF),
            (8, 0x0000FFFF0000FFFF), (16, 0x00000000FFFFFFFF))
_SPREAD = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
           (2, 0x3333333333333333), (1, _EVEN))


def _with_bits(table: Operations[T]) -> Operations[T]:
    """The table with the functions that take the bits of numbers apart and put them together."""
    both, join, left, right = (table[sign] for sign in ("&", "|", "<<", ">>"))

    def moved(x: T, move: Callable[..., T], steps: tuple[tuple[int, int], ...]) -> T:
        for shift, mask in steps:
            x = both(join(x, move(x, shift)), mask)
        return x

    return table | {  # bits 0, 2, 4, ... side by side, and back to these places
        "even_bits": lambda x: moved(both(x, _EVEN), right, _COMPACT),
        "odd_bits": lambda x: moved(both(right(x, 1), _EVEN), right, _COMPACT),
        "interleave": lambda x, y: join(
            moved(x, left, _SPREAD), left(moved(y, left, _SPREAD), 1))}


_ON_ARRAYS: Operations[npt.NDArray[Any]] = _with_bits({
    "+": np.add, "-": np.subtract, "*": np.multiply, "%": np.remainder, "/": np.floor_divide,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "&&": np.logical_and, "||": np.logical_or, "min": np.minimum,
    "max": np.maximum, "abs": np.abs, "!": np.logical_not, "negative": np.negative,
    "&": np.bitwise_and, "|": np.bitwise_or, "<<": np.left_shift, ">>": np.right_shift,
    "number": np.asarray, "where": np.where,
})
_IN_CALCULUS: Operations[Calculus] = _with_bits({
    "+": build.plus, "-": build.minus, "*": build.times, "%": build.modulo, "/": build.floordiv,
    **{sign: lambda a, b, op=op: Operation(op, (a, build.as_expr(b))) for sign, op in {
        "==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
        ">": ops.greater, ">=": ops.greater_equal, "&&": ops.logical_and, "||": ops.logical_or,
        "min": ops.minimum, "max": ops.maximum, "&": ops.bitwise_and, "|": ops.bitwise_or,
        "<<": ops.left_shift, ">>": ops.right_shift}.items()},
    "abs": lambda x: Operation(ops.absolute, (x,)),
    "!": lambda x: Operation(ops.logical_not, (x,)),
    "negative": lambda x: build.minus(0, x),
    "number": lambda value: build.as_expr(int(value)),
    "where": lambda *args: Operation(ops.where, args),
})


def _folded(e: Expr, table: Operations[T], named: Callable[[str], T | None],
            element: Callable[[str, T], T | None]) -> T:
    """The value of a term, made by the operations of a table. ``named``: what a name stands for;
    ``element``: an element of an array; None where there is none."""
    def go(x: Expr) -> T:
        found: T | None = None
        match x:
            case Number(value=value):
                found = table["number"](value)
            case Name(name=name):
                found = named(name)
            case Unary(op=op, arg=arg):
                found = table["!" if op == "!" else "negative"](go(arg))
            case Binary(op=op, left=left, right=right):
                found = table[op](go(left), go(right))
            case Call(function=f, args=args) if f in table:
                found = table[f](*map(go, args))
            case Apply(target=Name(name=name), keys=(key,)):
                found = element(name, go(key))
            case If(test=test, then=then, otherwise=otherwise):
                rest = table["number"](0) if otherwise is None else go(otherwise)
                found = table["where"](go(test), go(then), rest)
        if found is None:
            raise unsupported(x)
        return found

    return go(e)


def evaluate(e: Expr, env: Mapping[str, IntArray], arrays: Mapping[str, Values]
             ) -> npt.NDArray[Any]:
    """The values of ``e`` for all rows of ``env``. A read outside of an array is 0, as the
    language says."""
    def named(name: str) -> npt.NDArray[Any] | None:
        scalar = arrays.get(name)
        return env.get(name, scalar if scalar is not None and scalar.ndim == 0 else None)

    with np.errstate(all="ignore"):  # i/0 is 0 here, and refused where it is a key
        return _folded(e, _ON_ARRAYS, named, lambda name, at: _element(
            arrays[name], at) if name in arrays else None)


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


def translate(e: Expr, env: Mapping[str, Calculus], arrays: Arrays) -> Calculus:
    """``e`` in the calculus. The packer has seen to it that no array is read outside."""
    def element(name: str, at: IntLike) -> Calculus | None:
        return build.element(arrays[name], at) if name in arrays else None

    return _folded(e, _IN_CALCULUS, lambda name: env.get(name) or element(name, 0), element)


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
