"""Aggregations over joins of tensors as programs of the calculus.

    Aggregate(keys: indices; sum, count, avg, min, max of formulas)
      over inner joins, with any tests, of relations that are tensors, two at least

is a comprehension: each tensor is a generator, equal indices have one name, other tests are guards.
Then it is ordered, planned and compiled as an einsum is, and no pair of rows is ever made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tensorel.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    TensorProgram,
)
from tensorel.sql.catalog import Catalog
from tensorel.sql.optimizer.domains import rebuilt
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.optimizer.joins import order_joins
from tensorel.sql.scalars import Call, Column, Literal, Scalar, columns_of, replaced
from tensorel.sql.scalars import walk as parts_of
from tensorel.sql.types import Type
from tensorel.sql.unnesting import changed_call

_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})
#: Functions that are total on numbers: a formula of these is never null.
_FORMULAS = frozenset({"+", "-", "*", "/", "negative", "abs", "sqrt", "exp", "ln", "power", "sin",
                       "cos", "tan", "floor", "ceil", "sign"})
_TESTS = frozenset({"=", "<>", "<", "<=", ">", ">=", "and", "or", "not", "in"})
#: The scan of an index, and the number of its labels.
Indices: TypeAlias = dict[Column, tuple[Scan, int | None]]
_NUMBERS = (Type.INTEGER, Type.FLOAT, Type.DOUBLE)


def find_tensor_programs(plan: Plan, catalog: Catalog) -> Plan:
    """The plan with such aggregations as programs."""
    return rebuilt(plan, lambda p: _program(p, catalog) if isinstance(p, Aggregate) else p)


def _program(plan: Aggregate, catalog: Catalog) -> Plan:
    values: dict[Column, Scalar] = {}
    scans: list[Scan] = []
    tests: list[Scalar] = []
    if not _gather(plan.input, scans, tests, values):
        return plan
    if len(scans) < 2 or not all(catalog[s.source].is_tensor for s in scans):
        return plan
    keys = tuple([(c, replaced(e, values)) for c, e in plan.keys])
    calls = tuple([(c, changed_call(a, lambda e: replaced(e, values))) for c, a in plan.calls])
    tests = [replaced(t, values) for t in tests]
    indices = _indices(scans, catalog)
    joins = [t for t in tests if _is_join(t, indices)]
    if not all(isinstance(e, Column) and e in indices for _, e in keys):
        return plan
    labelled = {c for c, (_, labels) in indices.items() if labels is not None}
    for _, call in calls:
        if call.function not in _AGGREGATES or call.distinct or call.where is not None:
            return plan
        if not all(_is_formula(a) and not columns_of(a) & labelled for a in call.args):
            return plan
    if not all(t in joins or (_is_test(t) and not columns_of(t) & labelled) for t in tests):
        return plan
    if not _is_connected(scans, joins, indices):
        return plan
    by_rows = order_joins(plan, Estimates(catalog))
    return TensorProgram(
        Aggregate(plan.input, keys, calls), by_rows, tuple(scans), tuple(tests))


def _gather(plan: Plan, scans: list[Scan], tests: list[Scalar], values: dict[Column, Scalar]
            ) -> bool:
    """The scans and tests below; ``values``: what columns made on the way are of theirs."""
    match plan:
        case Scan():
            scans.append(plan)
            return True
        case Filter():
            tests += plan.tests
            return _gather(plan.input, scans, tests, values)
        case Project():
            if not _gather(plan.input, scans, tests, values):
                return False
            for c, e in plan.items:
                if c != e:
                    values[c] = replaced(e, values)
            return True
        case Join(kind="inner"):
            tests += plan.on
            return _gather(plan.left, scans, tests, values) and _gather(
                plan.right, scans, tests, values)
    return False


def _indices(scans: Iterable[Scan], catalog: Catalog) -> Indices:
    """The columns that are indices of tensors, or stand for them by labels."""
    found: Indices = {}
    for s in scans:
        fields = {f.name: f for f in catalog[s.source].fields}
        found.update({c: (s, fields[name].labels) for c, name in s.fields
                      if fields[name].axis is not None})
    return found


def _is_join(test: Scalar, indices: Indices) -> bool:
    """Whether a test says that two indices are equal; labels are, where they are the same ones."""
    if not isinstance(test, Call) or test.function != "=":
        return False
    a, b = test.args
    return isinstance(a, Column) and isinstance(b, Column) and a in indices and b in indices and (
        indices[a][1] == indices[b][1])


def _is_formula(e: Scalar) -> bool:
    return all(x.type in _NUMBERS and not x.nullable and (
        not isinstance(x, Call) or x.function in _FORMULAS) and (
        not isinstance(x, Literal) or x.value is not None) for x in parts_of(e))


def _is_test(e: Scalar) -> bool:
    if isinstance(e, Call) and e.function in _TESTS and not e.nullable:
        return all(_is_test(a) if a.type is Type.BOOLEAN else _is_formula(a) for a in e.args)
    return False


def _is_connected(scans: list[Scan], joins: list[Scalar], indices: Indices) -> bool:
    """Whether equal indices connect all tensors: else a product of all rows is made, which is
    no smaller as a tensor."""
    groups = {id(s): {id(s)} for s in scans}
    for t in joins:
        a, b = (indices[c][0] for c in columns_of(t)) if len(columns_of(t)) == 2 else (None, None)
        if a is not None and b is not None:
            one = groups[id(a)] | groups[id(b)]
            for s in one:
                groups[s] = one
    return len({id(g) for g in groups.values()}) == 1
