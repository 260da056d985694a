"""Subqueries freed of the combinations that they are asked for.

``D join X on D.c = X.e`` for all columns of a domain D is X with ``c := e``: combinations that D
does not have are of no account, and a null that the equation leaves out is tested for. Other
domains are groupings.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.sql.algebra import (
    Aggregate,
    Domain,
    Filter,
    Join,
    Plan,
    Project,
    postorder,
    with_inputs,
)
from tensorel.sql.scalars import Call, Column, Scalar, columns_of, is_null, negated, replaced


def rebuilt(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with what ``change`` makes of each operator, inputs first; shared parts stay so."""
    made: dict[int, Plan] = {}
    for p in postorder(plan):
        made[id(p)] = change(with_inputs(p, tuple([made[id(i)] for i in p.inputs])))
    return made[id(plan)]


def free_of_domains(plan: Plan) -> Plan:
    return rebuilt(plan, _freed)


def without_domains(plan: Plan) -> Plan:
    """The domains that are left as groupings."""
    return rebuilt(plan, lambda p: Aggregate(p.input, p.items, ()) if isinstance(p, Domain) else p)


def _freed(plan: Plan) -> Plan:
    if not isinstance(plan, Join) or plan.kind != "inner":
        return plan
    for domain, other in ((plan.left, plan.right), (plan.right, plan.left)):
        if isinstance(domain, Domain):
            found = _without(plan, domain, other)
            if found is not None:
                return found
    return plan


def _without(plan: Join, domain: Domain, other: Plan) -> Plan | None:
    theirs = set(other.columns)
    values: dict[Column, Scalar] = {}
    rest: list[Scalar] = []
    for t in plan.on:
        column, value = _solved(t, set(domain.columns), theirs)
        if column is None or column in values or value is None:
            rest.append(t)
        else:
            values[column] = value
    if set(values) != set(domain.columns):
        return None
    tests = [replaced(t, values) for t in rest]
    tests += [negated(is_null(e)) for e in values.values() if e.nullable]
    inner = Filter(other, tuple(tests)) if tests else other
    return Project(inner, (*[(c, c) for c in other.columns],
                           *values.items()))


def _solved(test: Scalar, columns: set[Column], theirs: set[Column]
            ) -> tuple[Column | None, Scalar | None]:
    """``column = expression of the other side``."""
    if isinstance(test, Call) and test.function == "=":
        for a, b in (test.args, test.args[::-1]):
            if isinstance(a, Column) and a in columns and columns_of(b) <= theirs:
                return a, b
    return None, None
