"""Between which numbers the values of whole expressions lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tensorel.sql.scalars import Column, Literal, Scalar
from tensorel.sql.types import Type

Interval: TypeAlias = tuple[int, int]
WHOLE = 2**63


def interval(e: Scalar, of: Callable[[Column], Interval | None]) -> Interval | None:
    """The least and the largest value, from those of columns; None where nothing is known, or a
    value on the way may need more than 64 bits.

    >>> a = Column(0, Type.INTEGER, False, "a")
    >>> interval(Call("*", (a, Literal(-2, Type.INTEGER)), Type.INTEGER, False), lambda c: (1, 5))
    (-10, -2)
    """
    if isinstance(e, Column):
        return of(e)
    if isinstance(e, Literal):
        return (int(e.value), int(e.value)) if isinstance(e.value, int) else (0, 0) \
            if e.value is None else None
    if e.function == "cast" and e.args[0].type is Type.BOOLEAN:
        return 0, 1
    values = {"case": (*e.args[1::2], e.args[-1]), "nullif": e.args[:1]}.get(e.function, e.args)
    if e.function not in _RULES or any(v.type not in (Type.INTEGER, Type.NULL) for v in values):
        return None
    known = [interval(v, of) for v in values]
    if any(k is None for k in known):
        return None
    low, high = _RULES[e.function]([k for k in known if k is not None])
    return (low, high) if low > -WHOLE and high < WHOLE else None


def _hull(known: list[Interval]) -> Interval:
    return min(k[0] for k in known), max(k[1] for k in known)


def _product(known: list[Interval]) -> Interval:
    corners = [a * b for a in known[0] for b in known[1]]
    return min(corners), max(corners)


def _magnitude(known: list[Interval]) -> Interval:
    return 0, max(map(abs, known[0]))


_RULES: dict[str, Callable[[list[Interval]], Interval]] = {
    "+": lambda k: (k[0][0] + k[1][0], k[0][1] + k[1][1]),
    "-": lambda k: (k[0][0] - k[1][1], k[0][1] - k[1][0]),
    "*": _product, "negative": lambda k: (-k[0][1], -k[0][0]), "abs": _magnitude,
    "case": _hull, "coalesce": _hull, "greatest": _hull, "least": _hull, "nullif": _hull,
    "cast": _hull,
}
