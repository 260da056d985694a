"""FROM: relations by name, joins, and queries in place of relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tensorel.sql.algebra import Join, Plan, Project, Scan, Values, free_columns
from tensorel.sql.catalog import Catalog
from tensorel.sql.expressions import Expressions
from tensorel.sql.grouping import aggregates_in, with_subquery
from tensorel.sql.parsing import Node, Places, kind
from tensorel.sql.scalars import Call, Column, Scalar, conjuncts
from tensorel.sql.scope import Named, Numbers, Relation, Scope
from tensorel.sql.subqueries import Subqueries
from tensorel.sql.typed import Typed

if TYPE_CHECKING:
    from tensorel.sql.binding import Bound

_SIDES = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


class FromClause:
    """The relations of one query. ``query`` binds a query in place of a relation."""

    def __init__(self, places: Places, catalog: Catalog, numbers: Numbers,
                 ctes: Mapping[str, Bound],
                 query: Callable[[Node, Scope | None, Mapping[str, Bound]], Bound]) -> None:
        self.places = places
        self.catalog = catalog
        self.numbers = numbers
        self.ctes = ctes
        self.query = query

    def scope(self, node: Node, parent: Scope | None) -> Scope:
        """The scope of a SELECT."""
        source = node.args.get("from_")
        scope = Scope(Values((), ((),)), [], parent, self.places, self.numbers)
        if source is None:
            return scope
        self._first(scope, source.this)
        for join in [*(source.this.args.get("joins") or ()), *(node.args.get("joins") or ())]:
            self._join(scope, join)
        return scope

    def _first(self, scope: Scope, node: Node) -> None:
        scope.plan, relation = self.relation(node, scope)
        scope.relations = [relation]

    # -- relations -----------------------------------------------------------------------------
    def relation(self, node: Node, scope: Scope) -> tuple[Plan, Relation]:
        """A table, a query or VALUES, with its alias."""
        match kind(node):
            case "Table":
                self.places.only(node, "this", "alias", "joins")
                if kind(node.this) not in ("Identifier", "Literal"):
                    self.places.outside("a function in FROM", node)
                return self._table(node)
            case "Subquery" | "Values":
                inner = node.this if kind(node) == "Subquery" else node
                if kind(inner) in ("Table", "Join") or node.args.get("joins"):
                    self.places.outside("joins in parentheses", node, "use a subquery")
                found = self.query(inner, scope.parent, self.ctes)
                return self._renamed(found, node, node.alias or "subquery")
            case "Lateral":
                self.places.outside("LATERAL", node)
        self.places.outside(node.key.upper() + " in FROM", node)

    def _table(self, node: Node) -> tuple[Plan, Relation]:
        name = node.name
        shared = self.ctes.get(name.lower())
        if shared is not None:
            return self._renamed(shared, node, node.alias or name)
        found = next((n for n in self.catalog if n == name), None) or next(
            (n for n in self.catalog if n.lower() == name.lower()), None)
        if found is None:
            known = ", ".join([*self.catalog, *self.ctes])
            self.places.fail(f"there is no relation {name!r}", node,
                             f"there are {known}" if known else
                             "give it by name: tr.sql(text, A=A)")
        fields = self.catalog[found].fields
        axes = {f.axis: self.numbers.new(f.type, f.name) for f in fields
                if f.is_index and not f.hidden}
        # Another name of an index is the same column.
        made = [axes[f.axis] if f.is_index and f.axis in axes else self.numbers.new(
            f.type, f.name, f.nullable) for f in fields]
        renamed = self._names(node, [f.name for f in fields])
        relation = Relation(node.alias or name, tuple([
            Named(n, c, f.hidden) for n, c, f in zip(renamed, made, fields)]))
        scanned = {c: f.name for c, f in reversed(list(zip(made, fields)))}
        return Scan(found, tuple([(c, scanned[c]) for c in dict.fromkeys(made)])), relation

    def _renamed(self, found: Bound, node: Node, alias: str) -> tuple[Plan, Relation]:
        """A query as a relation, with columns of its own."""
        made = tuple([(self.numbers.column(c, n), c) for n, c in zip(found.names, found.columns)])
        names = self._names(node, list(found.names))
        return Project(found.plan, made), Relation(
            alias, tuple([Named(n, c) for n, (c, _) in zip(names, made)]))

    def _names(self, node: Node, names: list[str]) -> list[str]:
        alias = node.args.get("alias")
        given = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
        if len(given) > len(names):
            self.places.fail(f"{len(given)} names for {len(names)} columns", node)
        return given + names[len(given):]

    # -- joins ---------------------------------------------------------------------------------
    def _join(self, scope: Scope, node: Node) -> None:
        how, method = node.args.get("kind") or "", node.args.get("method") or ""
        side = node.args.get("side") or ""
        self.places.only(node, "this", "on", "using", "side", "kind", "method")
        if method not in ("", "NATURAL"):
            self.places.outside(f"{method} JOIN", node)
        right, relation = self.relation(node.this, scope)
        if free_columns(right) & set(scope.plan.columns):
            self.places.outside("a subquery in FROM that depends on other relations", node)
        if relation.alias.lower() in [r.alias.lower() for r in scope.relations]:
            self.places.fail(f"two relations are named {relation.alias!r}", node.this,
                             "name one of them: ... AS b")
        kind_ = how.lower() if how in ("SEMI", "ANTI") else _SIDES[side]
        before = list(scope.relations)
        scope.relations = [*before, relation]
        using = self._using(node, before, relation, method)
        tests = self._tests(scope, node, using, before, relation)
        if kind_ in ("left", "full"):
            relation = relation.made_nullable()
        if kind_ in ("right", "full"):
            before = [r.made_nullable() for r in before]
        scope.relations = before if kind_ in ("semi", "anti") else [*before, relation]
        self._merge(scope, using, kind_, before, relation, node)
        if kind_ == "right":
            scope.plan = Join("left", right, scope.plan, tuple(tests))
        else:
            scope.plan = Join(kind_, scope.plan, right, tuple(tests))

    def _using(self, node: Node, before: Sequence[Relation], relation: Relation, method: str
               ) -> list[str]:
        if method == "NATURAL":
            known = {f.name.lower() for r in before for f in r.fields if not f.hidden}
            return [f.name.lower() for f in relation.fields
                    if f.name.lower() in known and not f.hidden]
        return [c.name.lower() for c in node.args.get("using") or ()]

    def _tests(self, scope: Scope, node: Node, using: Sequence[str], before: Sequence[Relation],
               relation: Relation) -> list[Scalar]:
        typed = Typed(self.places)
        tests: list[Scalar] = []
        for name in using:
            left = scope.merged.get(name) or self._only(before, name, node)
            tests.append(typed.call("=", [left, self._only([relation], name, node)], node))
        on = node.args.get("on")
        if on is not None:
            if with_subquery(on) or any(aggregates_in(on)):
                self.places.outside("a subquery or an aggregate in ON", on, "say it in WHERE")
            bind = Expressions(self.places, scope, Subqueries(
                self.places, self.numbers, lambda n, s: (scope.plan, [])))
            tests += conjuncts(bind.test(on))
        return tests

    def _only(self, relations: Sequence[Relation], name: str, node: Node) -> Column:
        found = [f.column for r in relations for f in r.fields if f.name.lower() == name]
        if len(found) != 1:
            self.places.fail(f"USING: {name!r} is a column of {len(found)} relations on one side",
                             node)
        return found[0]

    def _merge(self, scope: Scope, using: Sequence[str], kind_: str, before: Sequence[Relation],
               relation: Relation, node: Node) -> None:
        """What a name of USING means from now on."""
        for name in using:
            left = scope.merged.get(name) or self._only(before, name, node)
            right = self._only([relation], name, node)
            if kind_ == "right":
                scope.merged[name] = right
            elif kind_ == "full":
                scope.merged[name] = Call("coalesce", (left, right), left.type, True)
            else:
                scope.merged[name] = left
