"""Subqueries as joins.

A subquery that depends on columns of rows around it is evaluated once for each combination D of
their values: ``rows join_kind (D x subquery)`` on these columns (Neumann and Kemper, Unnesting
arbitrary queries). D goes down to where the columns are used; where the subquery itself equates
them with columns of its own, ``optimizing`` takes D away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tensorel.sql.algebra import (
    Aggregate,
    AggregateCall,
    Domain,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    SetOperation,
    Sort,
    SortKey,
    Values,
    Window,
    free_columns,
)
from tensorel.sql.scalars import Call, Column, Literal, Scalar, compare, replaced
from tensorel.sql.scope import Numbers
from tensorel.sql.types import Type

Columns: TypeAlias = dict[Column, Scalar]


class DependentLimit(Exception):
    """A subquery takes the first rows for each row around it."""


def attach(outer: Plan, inner: Plan, kind: str, on: tuple[Scalar, ...], mark: Column | None,
           numbers: Numbers) -> Plan:
    """``outer`` joined with a subquery of each of its rows."""
    free = [c for c in outer.columns if c in free_columns(inner)]
    if not free:
        return Join(kind, outer, inner, on, mark)
    unnest = _Unnesting(outer, free, numbers)
    plan, known = unnest.push(inner)
    equal = [compare("is" if c.nullable else "=", c, known[c]) for c in free]
    # What the subquery says of the columns around it, the join says of its own.
    return Join(kind, outer, plan, (*on, *equal), mark)


def with_scalars(plan: Plan, change: Callable[[Scalar], Scalar]) -> Plan:
    """The operator with other expressions."""
    match plan:
        case Values():
            return Values(plan.made, tuple([tuple(map(change, row)) for row in plan.rows]))
        case Filter():
            return Filter(plan.input, tuple(map(change, plan.tests)))
        case Project():
            return Project(plan.input, tuple([(c, change(e)) for c, e in plan.items]))
        case Join():
            return Join(plan.kind, plan.left, plan.right, tuple(map(change, plan.on)), plan.mark)
        case Aggregate():
            return Aggregate(plan.input, tuple([(c, change(e)) for c, e in plan.keys]),
                             tuple([(c, changed_call(a, change)) for c, a in plan.calls]))
        case Sort():
            return Sort(plan.input, tuple([
                SortKey(change(k.value), k.descending, k.nulls_first) for k in plan.keys]))
        case Window():
            return Window(plan.input, tuple([(c, w.changed(change)) for c, w in plan.calls]))
    return plan


def changed_call(call: AggregateCall, change: Callable[[Scalar], Scalar]) -> AggregateCall:
    """The call over other expressions."""
    where = None if call.where is None else change(call.where)
    order = tuple([SortKey(change(k.value), k.descending, k.nulls_first) for k in call.order])
    return AggregateCall(call.function, tuple(map(change, call.args)), call.distinct, where,
                         order, call.detail)


class _Unnesting:
    """D for one subquery: the combinations of ``free`` columns of ``outer``."""

    def __init__(self, outer: Plan, free: list[Column], numbers: Numbers) -> None:
        self.free = free
        self.numbers = numbers
        self.outer = outer

    def copy(self) -> tuple[Plan, Columns]:
        """D with columns of its own."""
        items = tuple([(self.numbers.column(c), c) for c in self.free])
        return Domain(self.outer, items), dict(zip(self.free, [c for c, _ in items]))

    def push(self, plan: Plan) -> tuple[Plan, Columns]:
        """The plan for each combination: with columns for these, which are told."""
        if not free_columns(plan) & set(self.free):
            domain, known = self.copy()
            return Join("inner", domain, plan, ()), known
        match plan:
            case Values():
                domain, known = self.copy()
                (row,) = plan.rows
                kept = tuple([(c, c) for c in domain.columns])
                made = tuple([(c, replaced(e, known)) for c, e in zip(plan.made, row)])
                return Project(domain, kept + made), known
            case Filter():
                inner, known = self.push(plan.input)
                return Filter(inner, tuple([replaced(t, known) for t in plan.tests])), known
            case Project():
                inner, known = self.push(plan.input)
                return Project(inner, (*[(c, replaced(e, known)) for c, e in plan.items],
                                       *self._through(known))), known
            case Aggregate():
                return self._aggregate(plan)
            case Window():
                inner, known = self.push(plan.input)
                by = tuple([c for c in known.values() if isinstance(c, Column)])
                return Window(inner, tuple([(c, w.changed(lambda e: replaced(e, known), by))
                                            for c, w in plan.calls])), known
            case Join():
                return self._join(plan)
            case Sort():  # the order of a subquery means nothing without a limit
                return self.push(plan.input)
            case Limit() if plan.count is None and not plan.offset:
                return self.push(plan.input)
            case SetOperation():
                return self._set_operation(plan)
            case Domain():
                inner, known = self.push(plan.input)
                fresh = {c: self.numbers.column(e) for c, e in known.items()}
                more = [(fresh[c], e) for c, e in known.items() if isinstance(e, Column)]
                return Domain(inner, (*plan.items, *more)), dict(fresh)
        raise DependentLimit

    def _through(self, known: Mapping[Column, Scalar]) -> list[tuple[Column, Scalar]]:
        return [(c, c) for c in known.values() if isinstance(c, Column)]

    def _aggregate(self, plan: Aggregate) -> tuple[Plan, Columns]:
        inner, known = self.push(plan.input)
        fresh = {c: self.numbers.column(e) for c, e in known.items()}
        grouped = Aggregate(
            inner,
            (*[(c, replaced(e, known)) for c, e in plan.keys],
             *[(fresh[c], known[c]) for c in self.free]),
            tuple([(c, changed_call(a, lambda e: replaced(e, known))) for c, a in plan.calls]))
        after: Columns = {c: fresh[c] for c in self.free}
        if plan.keys:
            return grouped, after
        # Without keys there is a group also where no row is: counts are 0 there, others null.
        domain, whole = self.copy()
        on = tuple([compare("is", whole[c], after[c]) for c in self.free])
        counts = [(c, a) for c, a in plan.calls]
        hidden = {c: self.numbers.column(c, nullable=True) for c, _ in counts}
        renamed = Aggregate(grouped.input, grouped.keys,
                            tuple([(hidden[c], a) for c, a in grouped.calls]))
        items: list[tuple[Column, Scalar]] = []
        for c, a in counts:
            value: Scalar = hidden[c]
            if a.function in ("count", "count_if"):
                value = Call("coalesce", (value, Literal(0, Type.INTEGER)), Type.INTEGER, False)
            items.append((c, value))
        return Project(Join("left", domain, renamed, on),
                       (*items, *self._through(whole))), whole

    def _join(self, plan: Join) -> tuple[Plan, Columns]:
        free = set(self.free)
        in_left = bool(free_columns(plan.left) & free)
        in_right = bool(free_columns(plan.right) & free)
        if plan.kind == "inner" and in_right and not in_left:
            right, known = self.push(plan.right)
            return Join("inner", plan.left, right, self._on(plan, known)), known
        left, known = self.push(plan.left)
        if not in_right:
            return Join(plan.kind, left, plan.right, self._on(plan, known), plan.mark), known
        right, other = self.push(plan.right)
        equal = [compare("is", known[c], other[c]) for c in self.free]
        if plan.kind == "full":
            raise DependentLimit
        return Join(plan.kind, left, right, (*self._on(plan, known), *equal), plan.mark), known

    def _on(self, plan: Join, known: Columns) -> tuple[Scalar, ...]:
        return tuple([replaced(t, known) for t in plan.on])

    def _set_operation(self, plan: SetOperation) -> tuple[Plan, Columns]:
        sides: list[Plan] = []
        for side in plan.inputs:
            inner, known = self.push(side)
            sides.append(Project(inner, (
                *[(self.numbers.column(c), c) for c in side.columns],
                *[(self.numbers.column(c), known[c]) for c in self.free])))
        made = {c: self.numbers.column(c) for c in self.free}
        found = SetOperation(plan.kind, plan.all, sides[0], sides[1],
                             (*plan.made, *made.values()))
        return found, dict(made)
