"""In which bounds the values of a relation's fields lie that a plan can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tensorel.sql.algebra import Filter, Plan, Scan, walk
from tensorel.sql.scalars import Call, Column, Literal, Scalar

#: The least and the largest value, None where there is no bound.
Bounds: TypeAlias = tuple[object, object]
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def bounds_of(plan: Plan, source: str) -> dict[str, Bounds]:
    """The bounds of the rows of a relation that a plan uses: those of the tests on it, of all the
    scans of it together. Bounds are ends included, and leave out nulls."""
    found: dict[str, Bounds] | None = None
    tested = {id(p.input): p for p in walk(plan) if isinstance(p, Filter)}
    parents = [i for p in walk(plan) for i in p.inputs]
    for p in walk(plan):
        if isinstance(p, Scan) and p.source == source:
            alone = sum(i is p for i in parents) == 1 and id(p) in tested
            mine = _tested(p, tested[id(p)].tests) if alone else {}
            found = mine if found is None else _hull(found, mine)
    return found or {}


def _tested(scan: Scan, tests: Sequence[Scalar]) -> dict[str, Bounds]:
    names = dict(scan.fields)
    found: dict[str, Bounds] = {}
    for t in tests:
        column, low, high = _bound(t)
        if column is None or column not in names:
            continue
        before = found.get(names[column], (None, None))
        found[names[column]] = (_tighter(before[0], low, max), _tighter(before[1], high, min))
    return found


def _bound(test: Scalar) -> tuple[Column | None, object, object]:
    """The bounds that a test sets to a column."""
    if not isinstance(test, Call):
        return None, None, None
    first, *others = test.args
    if test.function == "in" and isinstance(first, Column):
        values = [a.value for a in others if isinstance(a, Literal) and a.value is not None]
        if len(values) == len(others) and values and first.type is others[0].type:
            return first, min(values), max(values)  # type: ignore[type-var]
    if test.function not in _MIRRORED or len(others) != 1:
        return None, None, None
    sign, second = test.function, others[0]
    if isinstance(first, Literal):
        first, second, sign = second, first, _MIRRORED[sign]
    if not isinstance(first, Column) or not isinstance(second, Literal) or (
            second.value is None or second.value != second.value or first.type is not second.type):
        return None, None, None
    return (first, second.value if sign in ("=", ">", ">=") else None,
            second.value if sign in ("=", "<", "<=") else None)


def _tighter(a: object, b: object, of: object) -> object:
    if a is None or b is None:
        return b if a is None else a
    return of(a, b)  # type: ignore[operator]


def _hull(a: dict[str, Bounds], b: dict[str, Bounds]) -> dict[str, Bounds]:
    """What both say: a bound that one has not is none."""
    found: dict[str, Bounds] = {}
    for name in a.keys() & b.keys():
        (low, high), (other_low, other_high) = a[name], b[name]
        found[name] = (
            None if low is None or other_low is None else min(low, other_low),  # type: ignore
            None if high is None or other_high is None else max(high, other_high))  # type: ignore
    return found
