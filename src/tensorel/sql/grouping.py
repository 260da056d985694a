"""GROUP BY: which expressions are keys, and which calls are made of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensorel.sql.aggregates import AGGREGATES, ORDERED
from tensorel.sql.algebra import Aggregate, AggregateCall, SortKey
from tensorel.sql.parsing import Node, kind
from tensorel.sql.scalars import Column, Literal, Scalar
from tensorel.sql.types import Type

if TYPE_CHECKING:
    from tensorel.sql.binding import Item
    from tensorel.sql.expressions import Expressions

CALLS = {
    "Count": "count", "Sum": "sum", "Avg": "avg", "Min": "min", "Max": "max", "Median": "median",
    "Stddev": "stddev", "StddevSamp": "stddev", "StddevPop": "stddev_pop", "Variance": "variance",
    "VariancePop": "var_pop", "LogicalAnd": "bool_and", "LogicalOr": "bool_or", "First": "first",
    "Last": "last", "AnyValue": "any_value", "Mode": "mode", "CountIf": "count_if",
    "ArgMax": "arg_max", "ArgMin": "arg_min", "GroupConcat": "string_agg",
    "PercentileCont": "quantile", "WithinGroup": "",
}
_QUERIES = ("Select", "Union", "Intersect", "Except", "Subquery")


def _is_call(node: Node) -> bool:
    name = kind(node)
    if name == "Anonymous":
        return str(node.this).lower() == "product"
    if name == "Filter":
        return _is_call(node.this)
    if name == "IgnoreNulls":
        return kind(node.this) == "AnyValue"
    return name in CALLS


def aggregates_in(node: Node) -> Iterator[Node]:
    """The aggregate calls of an expression, not those of subqueries; outermost only."""
    if _is_call(node):
        yield node
        return
    if kind(node) in _QUERIES:
        return
    if kind(node) == "Window":  # its own function is none
        while kind(node.this) in ("Filter", "IgnoreNulls", "RespectNulls"):
            yield from [] if node.this.expression is None else aggregates_in(node.this.expression)
            node = node.this
        for part in [*node.this.iter_expressions(), *[
                c for c in node.iter_expressions() if c is not node.this]]:
            yield from aggregates_in(part)
        return
    for child in node.iter_expressions():
        yield from aggregates_in(child)


def with_subquery(node: Node) -> bool:
    return any(kind(n) in ("Select", "Union", "Intersect", "Except") for n in node.walk())


class Grouping:
    """The grouping of one query, if it has one."""

    def __init__(self, bind: Expressions, node: Node, items: Sequence[Item]) -> None:
        self.bind = bind
        self.scope = bind.scope
        self.places = bind.places
        self.node = node
        self.items = items

    def run(self) -> None:
        """Group the plan of the scope, where the query says so."""
        group, parts = self.node.args.get("group"), self._parts()
        calls = [c for p in parts for c in aggregates_in(p)]
        if group is None and not calls:
            return
        keys = self._keys(group)
        made: dict[AggregateCall, Column] = {}
        columns: dict[int, Column] = {}
        for c in calls:
            call, type_, nullable = self._call(c)
            if call not in made:
                made[call] = self.scope.numbers.new(type_, c.sql(dialect="duckdb").lower(),
                                                    nullable)
            columns[id(c)] = made[call]
        for e in keys:
            if e.type is Type.MATRIX:
                self.places.outside("a grouping by matrices", group)
        known = {e: self.scope.numbers.column(e) for e in keys}
        before = self.scope.plan
        self.scope.plan = Aggregate(before, tuple([(c, e) for e, c in known.items()]),
                                    tuple([(c, a) for a, c in made.items()]))
        self.scope.aggregates.update(columns)
        self.scope.keys = known
        self.scope.before = frozenset(before.columns)

    def _parts(self) -> list[Node]:
        """Where aggregates may stand."""
        found = [i.node for i in self.items if i.value is None]
        for part in ("having", "order", "qualify"):
            if self.node.args.get(part) is not None:
                found.append(self.node.args[part])
        return found

    def _keys(self, group: Node | None) -> list[Scalar]:
        if group is None:
            return []
        for part in ("grouping_sets", "cube", "rollup", "totals"):
            if group.args.get(part):
                self.places.outside(part.upper().replace("_", " "), group)
        if group.args.get("all"):
            return list(dict.fromkeys([i.value if i.value is not None else self.bind.of(i.node)
                                       for i in self.items if i.value is not None
                                       or not any(aggregates_in(i.node))]))
        return list(dict.fromkeys(self._key(e) for e in group.expressions))

    def _key(self, node: Node) -> Scalar:
        if kind(node) == "Literal" and not node.is_string:
            k = int(node.this) if node.this.isdigit() else 0
            if not 1 <= k <= len(self.items):
                self.places.fail(f"there is no column {node.this} in the SELECT list", node)
            return self._item(self.items[k - 1], node)
        if kind(node) == "Column" and not node.table and self.scope.find(node) is None:
            for item in self.items:
                if item.named and item.name.lower() == node.name.lower():
                    return self._item(item, node)
        if any(aggregates_in(node)):
            self.places.fail("a key of GROUP BY is no aggregate", node)
        return self.bind.of(node)

    def _item(self, item: Item, node: Node) -> Scalar:
        if item.value is not None:
            return item.value
        if any(aggregates_in(item.node)):
            self.places.fail("a key of GROUP BY is no aggregate", node)
        return self.bind.of(item.node)

    # -- calls ---------------------------------------------------------------------------------
    def _call(self, node: Node) -> tuple[AggregateCall, Type, bool]:
        """The call of a node, its type, and whether it may be null."""
        where: Scalar | None = None
        if kind(node) == "Filter":
            where = self.bind.test(node.expression.this)
            node = node.this
        if kind(node) == "IgnoreNulls" and kind(node.this) == "AnyValue":
            node = node.this
        name, args, order, detail = self._taken_apart(node)
        distinct = bool(args) and kind(args[0]) == "Distinct"
        if distinct:
            args = args[0].expressions
        for a in args:
            inner = next(aggregates_in(a), None)
            if inner is not None:
                self.places.fail("an aggregate inside of an aggregate", inner,
                                 "compute the inner one in a subquery")
            if with_subquery(a):
                self.places.outside("a subquery inside of an aggregate", a)
        values = [self.bind.of(a) for a in args if kind(a) != "Star"]
        result = AGGREGATES[name].result([v.type for v in values])
        if result is None:
            shown = ", ".join(v.type.value for v in values)
            self.places.fail(f"{name} does not take ({shown})", node)
        call = AggregateCall(name, tuple(values), distinct, where, tuple(order), detail)
        return call, result, AGGREGATES[name].partial

    def _taken_apart(self, node: Node) -> tuple[str, list[Node], list[SortKey], object]:
        """Name, arguments, order and detail."""
        keys: list[SortKey] = []
        if kind(node) == "WithinGroup":
            order = node.expression.expressions[0]
            node = node.this
            return "quantile", [order.this], keys, self._fraction(node.this)
        if kind(node) == "Anonymous":
            return str(node.this).lower(), list(node.expressions), keys, None
        name = CALLS[kind(node)]
        args = [node.this] if node.this is not None else []
        if args and kind(args[0]) == "Order":
            if name not in ORDERED:
                self.places.outside(f"{name} with ORDER BY", node)
            order_node = args[0]
            args = [order_node.this]
            keys = [SortKey(self.bind.of(o.this), bool(o.args.get("desc")),
                            bool(o.args.get("nulls_first"))) for o in order_node.expressions]
        detail: object = None
        if name in ("arg_min", "arg_max"):
            args.append(node.expression)
        elif name == "quantile":
            detail = self._fraction(node.expression)
        elif name == "string_agg":
            separator = node.args.get("separator")
            detail = "," if separator is None else separator.this
        elif node.args.get("expressions"):
            self.places.outside(f"{name} of several arguments", node)
        return name, args, keys, detail

    def _fraction(self, node: Node) -> float:
        value = self.bind.of(node)
        if not isinstance(value, Literal) or not isinstance(value.value, (int, float)):
            self.places.outside("a quantile that is no number", node)
        return float(value.value)
