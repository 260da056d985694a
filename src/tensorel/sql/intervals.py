"""Between which numbers the values of whole expressions lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tensorel.sql.functions import FIELDS
from tensorel.sql.scalars import Call, Column, Literal, Scalar, walk
from tensorel.sql.types import Type

Interval: TypeAlias = tuple[int, int]
WHOLE = 2**63
LIMITS: Interval = (-WHOLE, WHOLE - 1)


def interval(e: Scalar, of: Callable[[Column], Interval | None]) -> Interval | None:
    """The least and the largest value, from those of columns; None where nothing is known, or a
    value that it is made of may need more than 64 bits.

    >>> a = Column(0, Type.INTEGER, False, "a")
    >>> interval(Call("*", (a, Literal(-2, Type.INTEGER)), Type.INTEGER, False), lambda c: (1, 5))
    (-10, -2)
    """
    if isinstance(e, Column):
        return of(e)
    if isinstance(e, Literal):
        return (int(e.value), int(e.value)) if isinstance(e.value, int) else (0, 0) \
            if e.value is None else None
    values = operands(e)
    if values is None:
        return None
    known = [interval(v, of) for v in values]
    if any(k is None for k in known):
        return None
    low, high = image(e, [k for k in known if k is not None])
    return (low, high) if low >= LIMITS[0] and high <= LIMITS[1] else None


def operands(e: Call) -> tuple[Scalar, ...] | None:
    """The arguments whose values say between which the result lies; None: nothing says that."""
    if e.function in FIXED or (e.function == "cast" and e.args[0].type is Type.BOOLEAN):
        return ()
    if e.function not in _RULES:
        return None
    values = {"case": (*e.args[1::2], e.args[-1]), "nullif": e.args[:1], "round": e.args[:1]}.get(
        e.function, e.args)
    whole = (Type.INTEGER, Type.NULL, Type.DATE) if e.function in ("+", "-") else (
        Type.INTEGER, Type.NULL)
    return values if all(v.type in whole for v in values) else None


def image(e: Call, known: list[Interval]) -> Interval:
    """The least and the largest exact result, from those of the operands."""
    return _RULES[e.function](known) if known else FIXED.get(e.function, (0, 1))


def may_overflow(e: Scalar) -> bool:
    """Whether the result of whole numbers may need more bits than these."""
    return isinstance(e, Call) and e.function in _GROWING and e.type in (
        Type.INTEGER, Type.DATE) and all(a.type is not Type.INTERVAL for a in e.args)


def is_beyond(e: Call, known: list[Interval]) -> bool:
    """Whether bounds of the operands let the result need more than 64 bits."""
    low, high = image(e, known)
    return low < LIMITS[0] or high > LIMITS[1]


def is_exact(e: Scalar, of: Callable[[Column], Interval | None]) -> bool:
    """Whether no value inside needs more than 64 bits."""
    return all(interval(x, of) is not None for x in walk(e) if may_overflow(x))


def _hull(known: list[Interval]) -> Interval:
    return min(k[0] for k in known), max(k[1] for k in known)


def _product(known: list[Interval]) -> Interval:
    corners = [a * b for a in known[0] for b in known[1]]
    return min(corners), max(corners)


def _magnitude(known: list[Interval]) -> Interval:
    low, high = known[0]
    return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _quotient(known: list[Interval]) -> Interval:
    """No further from zero than the dividend; of the opposite sign where the divisor is less than
    zero."""
    (low, high), (least, most) = known
    signs = [*([1] if most > 0 else []), *([-1] if least < 0 else [])]
    ends = [0, *[s * x for s in signs for x in (low, high)]]
    return min(ends), max(ends)


def _remainder(known: list[Interval]) -> Interval:
    """Nearer to zero than the divisor, and not further than the dividend, with its sign."""
    low, high = known[0]
    most = max(max(map(abs, known[1])) - 1, 0)
    return max(min(low, 0), -most), min(max(high, 0), most)


_RULES: dict[str, Callable[[list[Interval]], Interval]] = {
    "+": lambda k: (k[0][0] + k[1][0], k[0][1] + k[1][1]),
    "-": lambda k: (k[0][0] - k[1][1], k[0][1] - k[1][0]),
    "*": _product, "negative": lambda k: (-k[0][1], -k[0][0]), "abs": _magnitude,
    "//": _quotient, "%": _remainder,
    "case": _hull, "coalesce": _hull, "greatest": _hull, "least": _hull, "nullif": _hull,
    "cast": _hull, "floor": _hull, "ceil": _hull, "trunc": _hull,
    "round": lambda k: (k[0][0] - 10**18, k[0][1] + 10**18),
}
_GROWING = ("+", "-", "*", "negative", "abs", "//", "round")
#: Results whatever the arguments are: parts of times have 55 bits at most, as years do.
FIXED: dict[str, Interval] = {"sign": (-1, 1), **{
    f: (-(2**55), 2**55) for f in FIELDS if f != "epoch"}}
