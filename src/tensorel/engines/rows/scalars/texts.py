"""Functions of texts, on Python's values: they are computed for the entries of a dictionary, or for
the different combinations of arguments, never for rows."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tensorel.sql.typed import parsed
from tensorel.sql.types import Type

_EPOCH = dt.datetime(1970, 1, 1)


def _substring(text: str, start: int, length: int | None = None) -> str:
    """From 1 on; negative starts count from the end, and may lie before the beginning."""
    first = len(text) + start if start < 0 else start - 1
    if length is None:
        return text[max(first, 0):]
    if length < 0:
        return text[max(first + length, 0):max(first, 0)]
    return text[max(first, 0):max(first + length, 0)]


@lru_cache(maxsize=256)
def _pattern(pattern: str, escape: str, flags: int) -> re.Pattern[str]:
    """LIKE: % is any text, _ any character, and what follows ``escape`` stands for itself."""
    if len(escape) > 1:
        raise ValueError(f"{escape!r} is no single character")
    parts, characters = list[str](), iter(pattern)
    for c in characters:
        if escape and c == escape:
            c = next(characters, "")
            if c not in ("%", "_", escape):
                raise ValueError(f"the pattern {pattern!r} has nothing to escape there")
            parts.append(re.escape(c))
        else:
            parts.append("." if c == "_" else ".*" if c == "%" else re.escape(c))
    return re.compile("".join(parts), flags | re.DOTALL)


def like(text: str, pattern: str, escape: str = "") -> bool:
    return _pattern(pattern, escape, 0).fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str = "") -> bool:
    return _pattern(pattern, escape, re.IGNORECASE).fullmatch(text) is not None


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[:max(len(text) + count, 0)]


def _right(text: str, count: int) -> str:
    if count >= 0:
        return text[max(len(text) - count, 0):]
    return text[min(-count, len(text)):]


def _padded(text: str, size: int, fill: str, left: bool) -> str:
    if len(text) >= size:
        return text[:max(size, 0)]
    more = (fill * size)[: size - len(text)]
    return more + text if left else text + more


def moment(value: int, type: Type) -> dt.datetime:
    if type is Type.DATE:
        return _EPOCH + dt.timedelta(days=value)
    return _EPOCH + dt.timedelta(microseconds=value)


def shown(value: Any, type: Type) -> str:
    """A value as DuckDB casts it to a text."""
    match type:
        case Type.BOOLEAN:
            return "true" if value else "false"
        case Type.DATE:
            return moment(value, type).date().isoformat()
        case Type.TIMESTAMP:
            return moment(value, type).isoformat(sep=" ")
        case Type.DOUBLE | Type.FLOAT:
            return repr(float(value)).replace("inf", "inf")
    return str(value)


def cast(value: Any, type: Type, into: Type, lenient: bool) -> Any:
    """A text as another value, or the other way round; lenient: None where it is none."""
    if into is Type.TEXT:
        return shown(value, type)
    try:
        return parsed(value, into)
    except ValueError:
        if lenient:
            return None
        raise


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": str.upper, "lower": str.lower, "length": len, "reverse": lambda t: t[::-1],
    "substring": _substring, "left": _left, "right": _right, "like": like, "ilike": ilike,
    "trim": lambda t, c=" ": t.strip(c), "ltrim": lambda t, c=" ": t.lstrip(c),
    "rtrim": lambda t, c=" ": t.rstrip(c), "||": lambda a, b: a + b,
    "replace": lambda t, a, b: t.replace(a, b) if a else t,
    "position": lambda t, p: t.find(p) + 1, "repeat": lambda t, n: t * max(n, 0),
    "starts_with": str.startswith, "ends_with": str.endswith, "contains": lambda t, p: p in t,
    "matches": lambda t, p: re.search(p, t) is not None,
    "lpad": lambda t, n, f: _padded(t, n, f, True),
    "rpad": lambda t, n, f: _padded(t, n, f, False),
}
#: Of a time, with its type behind the other arguments.
TIME_FUNCTIONS: dict[str, Callable[..., str]] = {
    "dayname": lambda v, type: moment(v, type).strftime("%A"),
    "monthname": lambda v, type: moment(v, type).strftime("%B"),
    "strftime": lambda v, form, type: moment(v, type).strftime(form),
}
