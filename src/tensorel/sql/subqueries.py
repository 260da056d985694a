"""Subqueries in expressions: they become joins with the plan of the query around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorel.sql.algebra import (
    Aggregate,
    AggregateCall,
    Limit,
    Plan,
    Project,
    Sort,
    free_columns,
    postorder,
    with_inputs,
)
from tensorel.sql.parsing import Node, Places
from tensorel.sql.scalars import Call, Column, Literal, Scalar, both, compare, is_null, negated
from tensorel.sql.scalars import replaced as with_columns
from tensorel.sql.scope import Numbers, Scope
from tensorel.sql.types import Type
from tensorel.sql.unnesting import DependentLimit, attach, with_scalars

if TYPE_CHECKING:
    from tensorel.sql.expressions import Expressions

#: Binds a query inside a scope: its plan and its columns.
Bind = Callable[[Node, Scope], "tuple[Plan, list[Column]]"]


class Subqueries:
    """The subqueries of one text."""

    def __init__(self, places: Places, numbers: Numbers, bind: Bind) -> None:
        self.places = places
        self.numbers = numbers
        self.bind = bind

    def single(self, around: Expressions, node: Node) -> Scalar:
        """The value of a query of one column and at most one row; null if there is none."""
        plan, columns = self.bind(node, around.scope)
        self._one(columns, node)
        # A group without keys is one row in any case.
        found = self.numbers.column(columns[0], nullable=True)
        self._attach(around.scope, Project(plan, ((found, columns[0]),)), "single", (), None, node)
        return found

    def exists(self, around: Expressions, node: Node) -> Scalar:
        plan, _ = self.bind(node, around.scope)
        return self._marked(around.scope, _unordered(plan), (), node)

    def is_in(self, around: Expressions, node: Node, positive: bool) -> Scalar:
        """``x IN (query)``: null where no row equals x and one of them, or x, is null."""
        value = around.of(node.this)
        query = node.args["query"]
        plan, columns = self.bind(query.this, around.scope)
        self._one(columns, query)
        if value.type is not columns[0].type:
            value, other = around.typed.alike([value, columns[0]], "IN", node)
            if not isinstance(other, Column):
                made = self.numbers.column(other, columns[0].name)
                plan, columns = Project(plan, ((made, other),)), [made]
        entry = columns[0]
        mark = self._marked(around.scope, plan, (compare("=", value, entry),), node)
        if not value.nullable and not entry.nullable:
            return mark if positive else negated(mark)
        unknown = self._unknown(around.scope, plan, value, entry, node)
        found = Call("in result", (mark, unknown), Type.BOOLEAN, True)
        return found if positive else negated(found)

    def _unknown(self, scope: Scope, plan: Plan, value: Scalar, entry: Column, node: Node
                 ) -> Scalar:
        """Whether no row settles it: x is null and there are rows, or one of them is null."""
        if free_columns(plan) & set(scope.plan.columns) or scope.keys is not None:
            copy, (other,) = self._copied(plan, entry)
            either = [is_null(e) for e in (value, other) if e.nullable]
            on = either[0] if len(either) == 1 else Call("or", tuple(either), Type.BOOLEAN, False)
            return self._marked(scope, copy, (on,), node)
        rows, filled = (self.numbers.new(Type.INTEGER, n) for n in ("rows", "filled"))
        counted = Aggregate(plan, (), ((rows, AggregateCall("count")),
                                       (filled, AggregateCall("count", (entry,)))))
        scope.plan = attach(scope.plan, counted, "inner", (), None, self.numbers)
        tests: list[Scalar] = [compare("<", filled, rows)]
        if value.nullable:
            some = compare(">", rows, Literal(0, Type.INTEGER))
            tests.append(both([is_null(value), some]))
        return tests[0] if len(tests) == 1 else Call("or", tuple(tests), Type.BOOLEAN, False)

    def _copied(self, plan: Plan, entry: Column) -> tuple[Plan, tuple[Column]]:
        made = self.numbers.column(entry)
        return Project(plan, ((made, entry),)), (made,)

    def _marked(self, scope: Scope, plan: Plan, on: tuple[Scalar, ...], node: Node) -> Column:
        mark = self.numbers.new(Type.BOOLEAN, "exists")
        self._attach(scope, plan, "mark", on, mark, node)
        return mark

    def _attach(self, scope: Scope, plan: Plan, kind: str, on: tuple[Scalar, ...],
                mark: Column | None, node: Node) -> None:
        if scope.keys is not None:
            plan = _replaced(plan, scope, node)
            on = tuple([scope.grouped(t, node) for t in on])
        try:
            scope.plan = attach(scope.plan, plan, kind, on, mark, self.numbers)
        except DependentLimit:
            self.places.outside("LIMIT or a full join in a subquery that depends on the rows "
                                "around it", node, "take MIN or MAX, or join")

    def _one(self, columns: list[Column], node: Node) -> None:
        if len(columns) != 1:
            self.places.fail(f"a subquery of one column is wanted, this has {len(columns)}", node)


def _unordered(plan: Plan) -> Plan:
    """A plan that has rows exactly where the other has: orders and limits are of no account."""
    while isinstance(plan, (Sort, Project)) or (
            isinstance(plan, Limit) and plan.count != 0 and not plan.offset):
        plan = plan.input
    return plan


def _replaced(plan: Plan, scope: Scope, node: Node) -> Plan:
    """A subquery of groups: it sees keys, where it says columns of the rows."""
    free = free_columns(plan)
    values = {c: scope.grouped(c, node) for c in free}
    values = {c: e for c, e in values.items() if e is not c}
    if not values:
        return plan
    made: dict[int, Plan] = {}
    for p in postorder(plan):
        inputs = tuple([made.get(id(i), i) for i in p.inputs])
        made[id(p)] = with_scalars(with_inputs(p, inputs), lambda e: with_columns(e, values))
    return made[id(plan)]

