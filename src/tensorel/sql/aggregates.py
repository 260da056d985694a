"""Aggregate functions by name: what they take and give."""

from __future__ import annotations

from tensorel.sql.functions import BOOL, REAL, Function, takes
from tensorel.sql.types import Type


def _any_kept(types: list[Type]) -> Type | None:
    return None if types[0] in (Type.INTERVAL, Type.MATRIX) else types[0]


def _summed(types: list[Type]) -> Type | None:
    if types[0] in (Type.INTEGER, Type.BOOLEAN, Type.NULL):
        return Type.INTEGER
    if types[0] is Type.MATRIX:
        return Type.MATRIX
    return Type.DOUBLE if types[0].is_real else None


_MEAN = Function(1, 1, takes(Type.DOUBLE, REAL), partial=True)
_SAME = Function(1, 1, _any_kept, partial=True)
#: ``partial``: null for a group without a value.
AGGREGATES: dict[str, Function] = {
    "count": Function(0, 1, lambda t: Type.INTEGER),
    "sum": Function(1, 1, _summed, partial=True),
    "avg": _MEAN, "median": _MEAN, "stddev": _MEAN, "variance": _MEAN, "stddev_pop": _MEAN,
    "var_pop": _MEAN, "product": _MEAN,
    "quantile": Function(1, 1, takes(Type.DOUBLE, REAL), partial=True),
    "min": _SAME, "max": _SAME, "first": _SAME, "last": _SAME, "any_value": _SAME, "mode": _SAME,
    "bool_and": Function(1, 1, takes(Type.BOOLEAN, BOOL), partial=True),
    "bool_or": Function(1, 1, takes(Type.BOOLEAN, BOOL), partial=True),
    "count_if": Function(1, 1, takes(Type.INTEGER, BOOL)),
    "arg_min": Function(2, 2, _any_kept, partial=True),
    "arg_max": Function(2, 2, _any_kept, partial=True),
    "string_agg": Function(1, 1, takes(Type.TEXT, (Type.TEXT,)), partial=True),
}
#: Those that need the rows of a group in an order.
ORDERED = frozenset({"median", "quantile", "mode", "string_agg", "first", "last", "arg_min",
                     "arg_max"})
