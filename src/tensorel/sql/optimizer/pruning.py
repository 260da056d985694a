"""Columns that nobody uses are not made."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.sql.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    Window,
    postorder,
    scalars_of,
    with_inputs,
)
from tensorel.sql.scalars import Column, columns_of


def prune_columns(plan: Plan, kept: Sequence[Column]) -> Plan:
    """The plan with the columns that it is asked for, and what these need."""
    order = postorder(plan)
    needed: dict[int, set[Column]] = {id(p): set() for p in order}
    needed[id(plan)] |= set(kept)
    for p in reversed(order):  # all users before what they use
        wanted = _asked_below(p, needed[id(p)])
        for i in p.inputs:
            needed[id(i)] |= wanted & set(i.columns)
    made: dict[int, Plan] = {}
    for p in order:
        inputs = tuple([made[id(i)] for i in p.inputs])
        made[id(p)] = _pruned(with_inputs(p, inputs), needed[id(p)])
    return made[id(plan)]


def _asked_below(plan: Plan, needed: set[Column]) -> set[Column]:
    match plan:
        case Project():
            return columns_of(*[e for c, e in plan.items if c in needed])
        case Aggregate():
            return columns_of(*[e for _, e in plan.keys], *[
                s for _, a in _needed_calls(plan, needed) for s in a.scalars])
        case SetOperation():
            return {c for side in plan.inputs for c in side.columns}
        case Window():
            return needed | columns_of(*[
                e for c, w in plan.calls if c in needed for e in w.scalars])
        case Filter() | Join() | Sort() | Limit():
            return needed | columns_of(*scalars_of(plan))
    return set()


def _needed_calls(plan: Aggregate, needed: set[Column]
                  ) -> tuple[tuple[Column, AggregateCall], ...]:
    """A grouping without keys is a row, whatever is asked of it."""
    found = tuple([c for c in plan.calls if c[0] in needed])
    return found if plan.keys or found else plan.calls[:1]


def _pruned(plan: Plan, needed: set[Column]) -> Plan:
    match plan:
        case Scan():
            fields = tuple([f for f in plan.fields if f[0] in needed])
            return Scan(plan.source, fields)
        case Project():
            items = tuple([i for i in plan.items if i[0] in needed])
            return _merged(Project(plan.input, items))
        case Aggregate():
            return Aggregate(plan.input, plan.keys, _needed_calls(plan, needed))
        case Window():
            calls = tuple([c for c in plan.calls if c[0] in needed])
            return Window(plan.input, calls) if calls else plan.input
    return plan


def _merged(plan: Project) -> Plan:
    """A projection of the same columns says nothing."""
    if all(c is e for c, e in plan.items) and len(plan.items) == len(plan.input.columns) and (
            [c for c, _ in plan.items] == list(plan.input.columns)):
        return plan.input
    return plan
