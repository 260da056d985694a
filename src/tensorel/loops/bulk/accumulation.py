"""Statements that combine a value with what a variable or an entry holds."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.loops.syntax import (
    Apply,
    Assign,
    Body,
    Choice,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    Number,
    Stmt,
    Store,
    operands,
    parts,
    subexpressions,
    walk,
)
from tensorel.loops.typing import Typing

_MONOIDS = {"+": ops.add, "*": ops.multiply, "np.minimum": ops.minimum, "np.maximum": ops.maximum,
            "&": ops.bitwise_and, "|": ops.bitwise_or, "^": ops.bitwise_xor,
            "np.logical_and": ops.logical_and, "np.logical_or": ops.logical_or}
_EXTREMES = {"min": ops.minimum, "max": ops.maximum}
_LARGER, _SMALLER = ("<", "<="), (">", ">=")


@dataclass(frozen=True, slots=True)
class Accumulation:
    """``target = target op value``, with a minus before the value if it is ``negated``.
    ``skips_nan``: a value that is nan leaves the target as it is."""

    op: Operator
    value: Expr
    negated: bool = False
    skips_nan: bool = False


def accumulation(stmt: Stmt, typing: Typing) -> Accumulation | None:
    """What a statement adds to its target, None if it does anything else."""
    match stmt:
        case Assign(name=name, value=Apply(args=(a, b)) as e):
            found = _of(e, isinstance(a, Name) and a.name == name,
                        isinstance(b, Name) and b.name == name, typing)
        case Store(array=array, indices=at, value=Apply(args=(a, b)) as e):
            name = array
            found = _of(e, _is_entry(a, array, at), _is_entry(b, array, at), typing)
        case _:
            return None
    if found is None or (isinstance(stmt, Assign) and name in reads(found.value)):
        return None
    return found


def _of(e: Apply, first: bool, second: bool, typing: Typing) -> Accumulation | None:
    if first == second:
        return None
    value = e.args[1] if first else e.args[0]
    if e.function in _MONOIDS:
        return Accumulation(_MONOIDS[e.function], value)
    if e.function == "-" and first:
        return Accumulation(ops.add, value, negated=True)
    if e.function in _EXTREMES:
        if first:
            return Accumulation(_EXTREMES[e.function], value, skips_nan=True)
        if typing.number(e).dtype.kind in "iu":
            return Accumulation(_EXTREMES[e.function], value)
    return None


def _is_entry(e: Expr, array: str, indices: tuple[Expr, ...]) -> bool:
    return isinstance(e, Item) and e.array == array and all(
        same(a, b) for a, b in zip(e.indices, indices))


def same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are written alike."""
    match a, b:
        case Number(), Number():
            return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)
        case (Name(), Name()):
            return a.name == b.name
        case (Item(), Item()):
            alike = a.array == b.array
        case (Extent(), Extent()):
            return (a.array, a.axis) == (b.array, b.axis)
        case (Apply(), Apply()):
            alike = a.function == b.function
        case (Choice(), Choice()):
            alike = True
        case _:
            return False
    inside, other = parts(a), parts(b)
    return alike and len(inside) == len(other) and all(map(same, inside, other))


def reads(*roots: Expr) -> set[str]:
    """The variables that expressions read."""
    return {e.name for e in subexpressions(*roots) if isinstance(e, Name)}


def simplified(stmt: Stmt) -> Stmt:
    """``if e > x: x = e`` is ``x = max(x, e)``."""
    match stmt:
        case If(test=Apply(function=symbol, args=(a, b)), then=(Assign() as inner,), other=()):
            x = Name(inner.name, inner.line)
            for big, other, larger in ((a, b, _SMALLER), (b, a, _LARGER)):
                word = "max" if symbol in larger else "min" if symbol in (*_LARGER, *_SMALLER) \
                    else None
                if word and isinstance(other, Name) and other.name == inner.name \
                        and same(inner.value, big):
                    return Assign(inner.name, Apply(word, (x, big), stmt.line), stmt.line)
    return stmt


def sums_of(body: Body, typing: Typing) -> dict[str, Operator]:
    """The variables that a loop does nothing with but combine values, by one operator each."""
    found: dict[str, Operator] = {}
    refused: set[str] = set()
    used: set[str] = set()
    for stmt in walk(body):
        made = accumulation(stmt, typing) if isinstance(stmt, Assign) else None
        if made is not None:
            assert isinstance(stmt, Assign)
            if found.setdefault(stmt.name, made.op) is not made.op:
                refused.add(stmt.name)
            used |= reads(made.value)
            continue
        if isinstance(stmt, Assign):
            refused.add(stmt.name)
        used |= reads(*operands(stmt))
    return {n: op for n, op in found.items() if n not in refused | used}


def shortened(body: Sequence[Stmt]) -> Body:
    """The statements with their short forms, also inside others."""
    found: list[Stmt] = []
    for stmt in body:
        stmt = simplified(stmt)
        match stmt:
            case For():
                stmt = For(stmt.target, stmt.start, stmt.stop, stmt.step, shortened(stmt.body),
                           stmt.line)
            case If():
                stmt = If(stmt.test, shortened(stmt.then), shortened(stmt.other), stmt.line)
        found.append(stmt)
    return tuple(found)
