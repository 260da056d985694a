"""Queries as plans: names and types bound, subqueries attached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorel.base.records import dataclass
from tensorel.sql.algebra import (
    Aggregate,
    Filter,
    Limit,
    Plan,
    Project,
    SetOperation,
    Sort,
    SortKey,
    Values,
)
from tensorel.sql.catalog import Catalog
from tensorel.sql.expressions import Expressions
from tensorel.sql.from_clause import FromClause
from tensorel.sql.grouping import Grouping, with_subquery
from tensorel.sql.parsing import Node, Places, kind, parse
from tensorel.sql.scalars import Column, Scalar, conjuncts
from tensorel.sql.scope import Numbers, Scope
from tensorel.sql.subqueries import Subqueries
from tensorel.sql.types import Type, common
from tensorel.sql.windows import Windows


@dataclass(frozen=True, slots=True)
class Bound:
    """A query: its plan, and the names of its columns."""

    plan: Plan
    columns: tuple[Column, ...]
    names: tuple[str, ...]


Ctes = Mapping[str, Bound]
_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
          "distinct", "with_", "qualify", "windows")


def bound(text: str, catalog: Catalog, numbers: Numbers) -> Bound:
    """The plan of a text, as it is written."""
    places = Places(text)
    return _Binder(places, catalog, numbers).query(parse(text), None, {})


class _Binder:
    def __init__(self, places: Places, catalog: Catalog, numbers: Numbers) -> None:
        self.places = places
        self.catalog = catalog
        self.numbers = numbers
        self.ctes: dict[int, Ctes] = {}

    # -- queries -------------------------------------------------------------------------------
    def query(self, node: Node, parent: Scope | None, ctes: Ctes) -> Bound:
        """Any query: SELECT, a set operation, VALUES, one in parentheses."""
        ctes = self._with(node, parent, ctes)
        match kind(node):
            case "Select":
                return self.select(node, parent, ctes)
            case "Union" | "Intersect" | "Except":
                return self.set_operation(node, parent, ctes)
            case "Subquery":
                if node.args.get("order") or node.args.get("limit"):
                    found = self.query(node.this, parent, ctes)
                    return self._ordered(found, node)
                return self.query(node.this, parent, ctes)
            case "Values":
                return self.values(node, parent)
        self.places.outside(node.key.upper(), node, "a query begins with SELECT, WITH or VALUES")

    def _with(self, node: Node, parent: Scope | None, ctes: Ctes) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            self.places.outside("WITH RECURSIVE", clause)
        known = dict(ctes)
        for cte in clause.expressions:
            found = self.query(cte.this, parent, known)
            named = cte.args["alias"].args.get("columns") or []
            names = tuple([c.name for c in named]) + found.names[len(named):]
            known[cte.alias.lower()] = Bound(found.plan, found.columns, names)
        return known

    def _subquery(self, node: Node, scope: Scope, ctes: Ctes) -> tuple[Plan, list[Column]]:
        found = self.query(node, scope, ctes)
        return found.plan, list(found.columns)

    def select(self, node: Node, parent: Scope | None, ctes: Ctes) -> Bound:
        self.places.only(node, *_PARTS)
        source = FromClause(self.places, self.catalog, self.numbers, ctes, self.query)
        scope = source.scope(node, parent)
        inner = Subqueries(self.places, self.numbers,
                           lambda n, s: self._subquery(n, s, ctes))
        bind = Expressions(self.places, scope, inner)
        items = self._items(node, scope)
        scope.aliases = {i.name.lower(): i.node for i in items if i.named}
        where = node.args.get("where")
        if where is not None:
            filtered(bind, where.this)
        Grouping(bind, node, items).run()
        having = node.args.get("having")
        if having is not None:
            self._having(bind, having.this)
        ordered, qualify = node.args.get("order"), node.args.get("qualify")
        Windows(bind, node).run([*[i.node for i in items if i.value is None],
                                 *[n for n in (ordered, qualify) if n is not None]])
        if qualify is not None:
            filtered(bind, qualify.this)
        return self._selected(bind, node, items)

    def _having(self, bind: Expressions, node: Node) -> None:
        if bind.scope.keys is None:
            self.places.fail("HAVING is about groups", node, "use WHERE")
        filtered(bind, node)

    # -- the select list -----------------------------------------------------------------------
    def _items(self, node: Node, scope: Scope) -> list[Item]:
        """The select list with ``*`` written out."""
        found: list[Item] = []
        for e in node.expressions:
            if kind(e) == "Star" or (kind(e) == "Column" and kind(e.this) == "Star"):
                found += self._star(e, scope)
            else:
                found.append(Item(_name_of(e), e.unalias(), None, bool(e.alias)))
        if not found:
            self.places.fail("a SELECT list is wanted", node)
        return found

    def _star(self, node: Node, scope: Scope) -> list[Item]:
        star = node if kind(node) == "Star" else node.this
        if any(star.args.get(k) for k in ("replace", "rename")):
            self.places.outside("* with REPLACE or RENAME", node)
        left_out = {c.name.lower() for c in star.args.get("except_") or ()}
        table = "" if node is star else node.table.lower()
        found: list[Item] = []
        merged = set[str]()
        for relation, field in scope.fields():
            name = field.name.lower()
            if field.hidden or name in left_out or (table and relation.alias.lower() != table):
                continue
            if not table and name in scope.merged:
                if name not in merged:
                    merged.add(name)
                    found.append(Item(field.name, node, scope.merged[name]))
                continue
            found.append(Item(field.name, node, field.column))
        if not found:
            self.places.fail("* stands for no column here", node)
        return found

    def _selected(self, bind: Expressions, node: Node, items: Sequence[Item]) -> Bound:
        scope = bind.scope
        made: list[tuple[Column, Scalar]] = []
        for item in items:
            value = item.of(bind)
            made.append((self.numbers.column(value, item.name), value))
        columns = tuple([c for c, _ in made])
        keys, more = self._order(bind, node, items, made)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            self.places.outside("DISTINCT ON", distinct)
        plan: Plan = Project(scope.plan, (*made, *more))
        if distinct is not None:
            if any(c.type is Type.MATRIX for c in columns):
                self.places.outside("DISTINCT of matrices", distinct)
            if more:
                self.places.fail("with DISTINCT, ORDER BY is about what is selected",
                                 node.args["order"])
            fresh = {c: self.numbers.column(c) for c in columns}
            plan = Aggregate(plan, tuple([(fresh[c], c) for c in columns]), ())
            columns = tuple(fresh.values())
            keys = [SortKey(fresh[k.value], k.descending, k.nulls_first)  # type: ignore[index]
                    for k in keys]
        if keys:
            plan = Sort(plan, tuple(keys))
        plan = self._limited(plan, node)
        if more:
            plan = Project(plan, tuple([(c, c) for c in columns]))
        return Bound(plan, columns, tuple([i.name for i in items]))

    def _order(self, bind: Expressions, node: Node, items: Sequence[Item],
               made: Sequence[tuple[Column, Scalar]]
               ) -> tuple[list[SortKey], list[tuple[Column, Scalar]]]:
        """The keys of ORDER BY, and columns that it needs beside those that are selected."""
        order = node.args.get("order")
        keys: list[SortKey] = []
        more: list[tuple[Column, Scalar]] = []
        for one in order.expressions if order is not None else ():
            column = _selected_by(one.this, items, [c for c, _ in made], self.places)
            if column is None:
                value = bind.scope.grouped(bind.of(one.this), one.this)
                column = next((c for c, e in (*made, *more) if e == value), None)
                if column is None:
                    column = self.numbers.column(value)
                    more.append((column, value))
            keys.append(_sort_key(one, column, self.places))
        return keys, more

    def _limited(self, plan: Plan, node: Node) -> Plan:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return plan
        if limit is not None and kind(limit) != "Limit":
            self.places.outside("FETCH", limit, "say LIMIT")
        if limit is not None:
            self.places.only(limit, "expression")
        return Limit(plan, None if limit is None else self._whole(limit.expression),
                     0 if offset is None else self._whole(offset.expression))

    def _whole(self, node: Node) -> int:
        if kind(node) != "Literal" or node.is_string or not node.this.isdigit():
            self.places.outside("a limit that is no whole number", node)
        return int(node.this)

    # -- several queries -------------------------------------------------------------------------
    def set_operation(self, node: Node, parent: Scope | None, ctes: Ctes) -> Bound:
        self.places.only(node, "this", "expression", "distinct", "with_", "order", "limit",
                         "offset")
        sides = [self.query(n, parent, ctes) for n in (node.this, node.expression)]
        counts = [len(s.columns) for s in sides]
        if counts[0] != counts[1]:
            self.places.fail(f"the queries have {counts[0]} and {counts[1]} columns", node)
        if any(c.type is Type.MATRIX for s in sides for c in s.columns):
            self.places.outside("a set operation on matrices", node)
        types = []
        for a, b in zip(sides[0].columns, sides[1].columns):
            into = common([a.type, b.type])
            if into is None:
                self.places.fail(f"the columns {a.name!r} and {b.name!r} are {a.type.value} and "
                                 f"{b.type.value}", node, "cast one of them")
            types.append(into)
        plans = [self._as_types(s, types, node) for s in sides]
        made = tuple([self.numbers.new(t, name, a.nullable or b.nullable) for t, name, a, b in zip(
            types, sides[0].names, plans[0].columns, plans[1].columns)])
        plan = SetOperation(kind(node).lower(), not node.args.get("distinct"), plans[0], plans[1],
                            made)
        return self._ordered(Bound(plan, made, sides[0].names), node)

    def _as_types(self, side: Bound, types: Sequence[Type], node: Node) -> Plan:
        typed = Expressions(self.places, Scope(side.plan, [], None, self.places, self.numbers),
                            Subqueries(self.places, self.numbers, lambda n, s: (side.plan, []))
                            ).typed
        items = [(c, typed.cast(c, t, node)) for c, t in zip(side.columns, types)]
        return Project(side.plan, tuple([(self.numbers.column(e, c.name), e) for c, e in items]))

    def _ordered(self, found: Bound, node: Node) -> Bound:
        """ORDER BY and LIMIT behind a query, by its columns."""
        order = node.args.get("order")
        plan = found.plan
        if order is not None:
            items = [Item(n, None, c) for n, c in zip(found.names, found.columns)]
            keys = []
            for one in order.expressions:
                column = _selected_by(one.this, items, found.columns, self.places)
                if column is None:
                    self.places.fail("ORDER BY is about the columns of the result here", one)
                keys.append(_sort_key(one, column, self.places))
            plan = Sort(plan, tuple(keys))
        return Bound(self._limited(plan, node), found.columns, found.names)

    def values(self, node: Node, parent: Scope | None) -> Bound:
        scope = Scope(Values((), ((),)), [], parent, self.places, self.numbers)
        bind = Expressions(self.places, scope, Subqueries(
            self.places, self.numbers, lambda n, s: self._subquery(n, s, {})))
        rows = [[bind.of(e) for e in row.expressions] for row in node.expressions]
        if len({len(r) for r in rows}) != 1:
            self.places.fail("the rows of VALUES have different lengths", node)
        columns = [bind.typed.alike(list(c), "a column of VALUES", node) for c in zip(*rows)]
        names = tuple([f"col{k}" for k in range(len(columns))])
        made = tuple([self.numbers.new(c[0].type, n, any(e.nullable for e in c))
                      for n, c in zip(names, columns)])
        return Bound(Values(made, tuple(zip(*columns))), made, names)


@dataclass(frozen=True, slots=True)
class Item:
    """One of a select list: a node, or the value that ``*`` stands for."""

    name: str
    node: Node
    value: Scalar | None = None
    named: bool = False

    def of(self, bind: Expressions) -> Scalar:
        value = bind.of(self.node) if self.value is None else self.value
        return bind.scope.grouped(value, self.node)


def filtered(bind: Expressions, node: Node) -> None:
    """The plan of the scope where a condition is true; tests with subqueries come last."""
    parts = _conjunct_nodes(node)
    plain = [p for p in parts if not with_subquery(p)]
    for group in (plain, [p for p in parts if with_subquery(p)]):
        tests = [c for p in group for c in conjuncts(bind.scope.grouped(bind.test(p), p))]
        if tests:
            bind.scope.plan = Filter(bind.scope.plan, tuple(tests))


def _conjunct_nodes(node: Node) -> list[Node]:
    while kind(node) == "Paren":
        node = node.this
    if kind(node) == "And":
        return _conjunct_nodes(node.this) + _conjunct_nodes(node.expression)
    return [node]


def _name_of(e: Node) -> str:
    if e.alias:
        return str(e.alias)
    if kind(e) == "Column":
        return str(e.name)
    return str(e.sql(dialect="duckdb")).lower()


def _selected_by(node: Node, items: Sequence[Item], columns: Sequence[Column], places: Places
                 ) -> Column | None:
    """The column that a position or a name of the select list means."""
    if kind(node) == "Literal" and not node.is_string:
        k = int(node.this) if node.this.isdigit() else 0
        if not 1 <= k <= len(items):
            places.fail(f"there is no column {node.this} in the SELECT list", node)
        return columns[k - 1]
    if kind(node) == "Column" and not node.table:
        for item, column in zip(items, columns):
            if item.name.lower() == node.name.lower():
                return column
    return None


def _sort_key(node: Node, column: Column, places: Places) -> SortKey:
    if column.type is Type.MATRIX:
        places.outside("an order of matrices", node)
    return SortKey(column, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
