"""Scalar functions by name: what they take and give. How kernels compute them, or Python on the
entries of a dictionary, says ``engines.rows``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tensorel.base.records import dataclass
from tensorel.sql.types import NUMBERS, Type, common

#: The type of a result from those of the arguments; None where they do not fit.
Rule: TypeAlias = Callable[[list[Type]], Type | None]
ANY = 64  # as many arguments as wanted


@dataclass(frozen=True, slots=True)
class Function:
    """``strict``: null where an argument is null. ``partial``: may be null without that."""

    least: int
    most: int
    rule: Rule
    strict: bool = True
    partial: bool = False

    def result(self, types: Sequence[Type]) -> Type | None:
        if not self.least <= len(types) <= self.most:
            return None
        return self.rule(list(types))


def takes(result: Type, *wanted: Sequence[Type]) -> Rule:
    """Arguments of these types, one after the other; the last stands for all that follow."""
    def rule(types: list[Type]) -> Type | None:
        for k, t in enumerate(types):
            if t is not Type.NULL and t not in wanted[min(k, len(wanted) - 1)]:
                return None
        return result
    return rule


def _arithmetic(types: list[Type]) -> Type | None:
    return common(types) if all(t in NUMBERS or t is Type.NULL for t in types) else None


def _added(types: list[Type]) -> Type | None:
    """Numbers; and a date with days, or a time with an interval."""
    a, b = types
    for x, y in ((a, b), (b, a)):
        if x is Type.DATE and y in (Type.INTEGER, Type.NULL):
            return Type.DATE
        if x.is_time and y is Type.INTERVAL:
            return Type.TIMESTAMP
    return _arithmetic(types)


def _subtracted(types: list[Type]) -> Type | None:
    a, b = types
    if a is Type.DATE and b in (Type.DATE, Type.NULL):
        return Type.INTEGER
    if a is Type.DATE and b is Type.INTEGER:
        return Type.DATE
    if a.is_time and b is Type.INTERVAL:
        return Type.TIMESTAMP
    return _arithmetic(types)


def _divided(types: list[Type]) -> Type | None:
    found = _arithmetic(types)
    return Type.FLOAT if found is Type.FLOAT else found and Type.DOUBLE


def _compared(types: list[Type]) -> Type | None:
    return None if common(types) is None else Type.BOOLEAN


def _kept(*allowed: Type) -> Rule:
    """One type among these, that of the result too."""
    def rule(types: list[Type]) -> Type | None:
        t = types[0]
        return t if t in allowed or t is Type.NULL else None
    return rule


def _floor(types: list[Type]) -> Type | None:
    return types[0] if types[0] in NUMBERS or types[0] is Type.NULL else None


REAL = (Type.INTEGER, Type.FLOAT, Type.DOUBLE)
_TEXT, _WHOLE, _TIME = (Type.TEXT,), (Type.INTEGER,), (Type.DATE, Type.TIMESTAMP)
BOOL = (Type.BOOLEAN,)


def _table() -> dict[str, Function]:
    found: dict[str, Function] = {
        "+": Function(2, 2, _added), "-": Function(2, 2, _subtracted),
        "*": Function(2, 2, _arithmetic), "/": Function(2, 2, _divided),
        "//": Function(2, 2, takes(Type.INTEGER, _WHOLE), partial=True),
        "%": Function(2, 2, _arithmetic, partial=True),
        "negative": Function(1, 1, _kept(*NUMBERS)),
        "and": Function(2, ANY, takes(Type.BOOLEAN, BOOL), strict=False),
        "or": Function(2, ANY, takes(Type.BOOLEAN, BOOL), strict=False),
        "not": Function(1, 1, takes(Type.BOOLEAN, BOOL)),
        "coalesce": Function(1, ANY, common, strict=False),
        "greatest": Function(1, ANY, common, strict=False),
        "least": Function(1, ANY, common, strict=False),
        "nullif": Function(2, 2, lambda t: t[0] if common(t) else None, partial=True),
        "is nan": Function(1, 1, takes(Type.BOOLEAN, REAL)),
        "power": Function(2, 2, takes(Type.DOUBLE, REAL)),
        "round": Function(1, 2, lambda t: _floor(t) if t[1:] in ([], [Type.INTEGER]) else None),
        "pi": Function(0, 0, lambda t: Type.DOUBLE),
        "length": Function(1, 1, takes(Type.INTEGER, _TEXT)),
        "position": Function(2, 2, takes(Type.INTEGER, _TEXT)),
        "substring": Function(2, 3, takes(Type.TEXT, _TEXT, _WHOLE)),
        "left": Function(2, 2, takes(Type.TEXT, _TEXT, _WHOLE)),
        "right": Function(2, 2, takes(Type.TEXT, _TEXT, _WHOLE)),
        "repeat": Function(2, 2, takes(Type.TEXT, _TEXT, _WHOLE)),
        "replace": Function(3, 3, takes(Type.TEXT, _TEXT)),
        "||": Function(2, 2, takes(Type.TEXT, _TEXT)),
        "like": Function(2, 3, takes(Type.BOOLEAN, _TEXT)),
        "ilike": Function(2, 3, takes(Type.BOOLEAN, _TEXT)),
        "matches": Function(2, 2, takes(Type.BOOLEAN, _TEXT)),
        "strftime": Function(2, 2, takes(Type.TEXT, _TIME, _TEXT)),
        "make_date": Function(3, 3, takes(Type.DATE, _WHOLE)),
        "last_day": Function(1, 1, takes(Type.DATE, _TIME)),
    }
    for op in ("=", "<>", "<", "<=", ">", ">="):
        found[op] = Function(2, 2, _compared)
    for op in ("is", "is not"):
        found[op] = Function(2, 2, _compared, strict=False)
    for name in ("abs", "floor", "ceil", "trunc"):
        found[name] = Function(1, 1, _floor)
    found["sign"] = Function(1, 1, takes(Type.INTEGER, REAL))
    for name in ("sqrt", "cbrt", "ln", "log2", "log10", "exp", "sin", "cos", "tan", "asin", "acos",
                 "atan", "sinh", "cosh", "tanh"):
        found[name] = Function(1, 1, takes(Type.DOUBLE, REAL))
    for name in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse"):
        found[name] = Function(1, 2 if "trim" in name else 1, takes(Type.TEXT, _TEXT))
    for name in ("lpad", "rpad"):
        found[name] = Function(3, 3, takes(Type.TEXT, _TEXT, _WHOLE, _TEXT))
    for name in ("starts_with", "ends_with", "contains"):
        found[name] = Function(2, 2, takes(Type.BOOLEAN, _TEXT))
    for name in ("dayname", "monthname"):
        found[name] = Function(1, 1, takes(Type.TEXT, _TIME))
    for name in FIELDS:
        found[name] = Function(1, 1, takes(Type.INTEGER, _TIME))
    for unit in UNITS:
        found[f"trunc {unit}"] = Function(1, 1, takes(Type.TIMESTAMP, (Type.TIMESTAMP,)))
        found[f"{unit}s between"] = Function(2, 2, takes(Type.INTEGER, _TIME))
    return found


#: Parts of a date or a time.
FIELDS = ("year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear", "hour",
          "minute", "second", "epoch")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
FUNCTIONS = _table()
