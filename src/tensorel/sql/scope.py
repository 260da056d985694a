"""The names that an expression of a query can mean."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tensorel.base.records import dataclass
from tensorel.sql.algebra import Plan
from tensorel.sql.parsing import Node, Places
from tensorel.sql.scalars import Column, Scalar, columns_of, rebuilt
from tensorel.sql.types import Type


class Numbers:
    """Makes the columns of one plan."""

    def __init__(self) -> None:
        self._next = count()

    def column(self, like: Scalar, name: str | None = None, nullable: bool | None = None
               ) -> Column:
        """A new column with the values of an expression."""
        if name is None:
            name = like.name if isinstance(like, Column) else "made"
        return self.new(like.type, name, like.nullable if nullable is None else nullable)

    def new(self, type: Type, name: str, nullable: bool = False) -> Column:
        return Column(next(self._next), type, nullable, name)


@dataclass(frozen=True, slots=True)
class Named:
    """A column of a relation in FROM by its name there; ``*`` leaves out hidden ones."""

    name: str
    column: Column
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in FROM by its alias."""

    alias: str
    fields: tuple[Named, ...]

    def made_nullable(self) -> Relation:
        """Its columns where a row may have no partner."""
        return Relation(self.alias, tuple([
            Named(f.name, Column(f.column.number, f.column.type, True, f.column.name), f.hidden)
            for f in self.fields]))


class Scope:
    """The relations of a query, and of those around it. ``plan`` grows while expressions are
    bound, because subqueries become joins. After a grouping ``keys`` says which columns hold which
    expressions, and ``aggregates`` which hold calls, by their nodes."""

    def __init__(self, plan: Plan, relations: list[Relation], parent: Scope | None,
                 places: Places, numbers: Numbers) -> None:
        self.plan = plan
        self.relations = relations
        self.parent = parent
        self.places = places
        self.numbers = numbers
        self.merged: dict[str, Scalar] = {}
        self.aliases: dict[str, Node] = {}  # of the select list
        self.aggregates: dict[int, Column] = {}
        self.keys: dict[Scalar, Column] | None = None
        self.before: frozenset[Column] = frozenset()  # those that a grouping has taken away

    def column(self, node: Node) -> Scalar:
        """The column that a name means."""
        found = self.find(node)
        if found is not None:
            return found
        shown = f"{node.table}.{node.name}" if node.table else node.name
        known = sorted({f.name for _, f in self.fields()})
        aliases = [r.alias for r in self.relations]
        if node.table and node.table.lower() not in map(str.lower, aliases):
            self.places.fail(f"there is no relation {node.table!r} in FROM", node,
                             f"there are {', '.join(aliases) or 'none'}")
        self.places.fail(f"there is no column {shown!r}", node,
                         f"there are {', '.join(known[:20])}" if known else None)

    def find(self, node: Node) -> Scalar | None:
        """The same, None where no relation has it."""
        table, name = node.table.lower(), node.name.lower()
        if not table and name in self.merged:
            return self.merged[name]
        found = [f.column for r, f in self.fields()
                 if f.name.lower() == name and (not table or r.alias.lower() == table)]
        if len(found) > 1:
            owners = [r.alias for r, f in self.fields() if f.name.lower() == name]
            self.places.fail(f"{node.name!r} may be a column of {' or of '.join(owners)}", node,
                             f"say which, e.g. {owners[0]}.{node.name}")
        if found:
            return found[0]
        return None if self.parent is None else self.parent.find(node)

    def fields(self) -> Iterator[tuple[Relation, Named]]:
        return ((r, f) for r in self.relations for f in r.fields)

    # -- after a grouping ----------------------------------------------------------------------
    def grouped(self, e: Scalar, node: Node) -> Scalar:
        """An expression over the columns of groups; an error where a column has no one value."""
        keys = self.keys
        if keys is None:
            return e
        found = rebuilt(e, lambda x: keys.get(x))
        left = columns_of(found) & self.before
        if left:
            name = min(c.name for c in left)
            self.places.fail(
                f"the column {name!r} has several values in a group", node,
                f"group by it, or take one of them, e.g. ANY_VALUE({name})")
        return found

    def around(self, e: Column) -> Scalar:
        """A column as rows around a subquery have it."""
        return e if self.keys is None else self.keys.get(e, e)


