"""Calls of functions with the types that they take: conversions are written out, and errors mark
their place."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np

from tensorel.sql.functions import FUNCTIONS
from tensorel.sql.intervals import WHOLE
from tensorel.sql.parsing import Node, Places
from tensorel.sql.scalars import Call, Literal, Scalar
from tensorel.sql.types import NUMBERS, Type, common

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "is", "is not")
#: Functions whose arguments have one type, that of the result or of a comparison.
_ALIKE = frozenset({*_COMPARISONS, "coalesce", "greatest", "least", "nullif"})
#: Operators as kernels of blocks.
_KERNELS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "negative": "negative",
            "abs": "absolute", "sqrt": "sqrt", "exp": "exp"}
_EPOCH = dt.date(1970, 1, 1)


class Typed:
    """Builds calls for one text."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def call(self, function: str, args: Sequence[Scalar], node: Node,
             detail: object = None) -> Scalar:
        """``function(args)``, or an error that names the types."""
        found = list(args)
        if any(a.type is Type.MATRIX for a in found):
            return self._of_matrices(function, found, node)
        if function in _ALIKE:
            found = self.alike(found, function, node)
        elif function in ("+", "-") and len(found) == 2:
            found = self._with_time(found, node)
        types = [a.type for a in found]
        result = FUNCTIONS[function].result(types)
        if result is None:
            shown = ", ".join(t.value for t in types)
            self.places.fail(f"{function} does not take ({shown})", node)
        made = FUNCTIONS[function]
        nullable = made.partial or (made.strict and any(a.nullable for a in found))
        if function in ("and", "or", "greatest", "least"):
            nullable = any(a.nullable for a in found)
        elif function == "coalesce":
            nullable = all(a.nullable for a in found)
        return Call(function, tuple(found), result, nullable, detail)

    def _of_matrices(self, function: str, args: list[Scalar], node: Node) -> Scalar:
        """An operator on blocks, entry by entry."""
        name = _KERNELS.get(function)
        if name is None or any(a.nullable for a in args):
            self.places.outside(f"{function} of matrices", node)
        return Call(f"matrix {name}", tuple(args), Type.MATRIX, False)

    def alike(self, args: Sequence[Scalar], what: str, node: Node) -> list[Scalar]:
        """The arguments in their common type; literals are read as what stands beside them."""
        texts = [a for a in args if isinstance(a, Literal) and a.type is Type.TEXT]
        others: list[Type] = [a.type for a in args
                              if a not in texts and a.type is not Type.NULL]
        if texts and others and Type.TEXT not in others:
            into = common(others)
            if into is not None:
                args = [self.literal(a, into, node) if isinstance(a, Literal) and
                        a.type is Type.TEXT else a for a in args]
        into = common([a.type for a in args])
        if into is None:
            shown = ", ".join(a.type.value for a in args)
            self.places.fail(f"{what} does not take values of different types: {shown}", node,
                             "cast one of them, e.g. CAST(x AS VARCHAR)")
        return [self.cast(a, into, node) for a in args]

    def _with_time(self, args: list[Scalar], node: Node) -> list[Scalar]:
        """A date beside an interval is a timestamp."""
        if any(a.type is Type.INTERVAL for a in args):
            return [self.cast(a, Type.TIMESTAMP, node) if a.type is Type.DATE else a for a in args]
        return args

    def literal(self, e: Literal, into: Type, node: Node) -> Literal:
        """A literal text read as a value of another type."""
        assert isinstance(e.value, str)
        try:
            return Literal(parsed(e.value, into), into)
        except ValueError:
            self.places.fail(f"{e.value!r} is no {into.value}", node)

    def cast(self, e: Scalar, into: Type, node: Node, lenient: bool = False) -> Scalar:
        """``e`` as a value of another type; lenient: null where it is none."""
        if e.type is into:
            return e
        if e.type is Type.NULL or (isinstance(e, Literal) and e.value is None):
            return Literal(None, into)
        if isinstance(e, Literal) and e.type is Type.TEXT and not lenient:
            return self.literal(e, into, node)
        if isinstance(e, Literal) and e.type in NUMBERS and into.is_real:
            assert isinstance(e.value, (int, float))
            return Literal(real(e.value, into), into)
        if isinstance(e, Literal) and e.type.is_real and into is Type.INTEGER:
            assert isinstance(e.value, (int, float))
            if abs(e.value) < WHOLE:
                return Literal(round(e.value), into)
        if into not in _CASTS.get(e.type, ()):
            self.places.fail(f"a {e.type.value} cannot be cast to {into.value}", node)
        may_fail = e.type is Type.TEXT or (e.type.is_real and into is Type.INTEGER)
        return Call("cast", (e,), into, e.nullable or may_fail,
                    "lenient" if lenient and may_fail else None)


_BASIC = (*NUMBERS, Type.BOOLEAN, Type.TEXT)
_CASTS: dict[Type, tuple[Type, ...]] = {
    **dict.fromkeys(NUMBERS, _BASIC),
    Type.BOOLEAN: _BASIC,
    Type.TEXT: (*_BASIC, Type.DATE, Type.TIMESTAMP),
    Type.DATE: (Type.TIMESTAMP, Type.TEXT),
    Type.TIMESTAMP: (Type.DATE, Type.TEXT),
}


def real(number: float, into: Type) -> float:
    """A number as a constant of a type of reals: one of FLOAT is a number that 32 bits hold, as the
    entries that it is compared with are.

    >>> real(0.5, Type.FLOAT), real(16777217, Type.FLOAT), real(16777217, Type.DOUBLE)
    (0.5, 16777216.0, 16777217.0)
    """
    with np.errstate(over="ignore"):
        return float(np.float32(number)) if into is Type.FLOAT else float(number)


def parsed(text: str, into: Type) -> object:
    """The value that a text says; ValueError if it says none.

    >>> parsed("1970-01-03", Type.DATE)
    2
    """
    stripped = text.strip()
    match into:
        case Type.TEXT:
            return text
        case Type.INTEGER:
            return int(stripped) if stripped.lstrip("+-").isdigit() else round(float(stripped))
        case Type.DOUBLE | Type.FLOAT:
            return real(float(stripped), into)
        case Type.BOOLEAN:
            known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
            if stripped.lower() not in known:
                raise ValueError(text)
            return known[stripped.lower()]
        case Type.DATE:
            return (dt.date.fromisoformat(stripped[:10]) - _EPOCH).days
        case Type.TIMESTAMP:
            when = dt.datetime.fromisoformat(stripped).replace(tzinfo=None)
            return (when - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    raise ValueError(text)
