"""Texts as syntax trees of sqlglot, in DuckDB's dialect, and places in the text for errors.

Nothing else knows sqlglot but ``binding`` and ``expressions``, which read its trees."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, NoReturn, TypeAlias

from tensorel.errors import ParseError, TypeError_, UnsupportedError

#: A node of sqlglot.
Node: TypeAlias = Any


def _sqlglot() -> Any:
    try:
        return import_module("sqlglot")
    except ImportError:
        raise UnsupportedError("SQL is parsed with sqlglot, which is not installed",
                               hint="pip install 'tensorel[sql]'") from None


@lru_cache(maxsize=256)
def parse(text: str) -> Node:
    """The tree of one query. Trees are shared: nobody changes them."""
    if not isinstance(text, str):
        raise TypeError_(f"sql: a query is a text, not {type(text).__name__}",
                         hint="e.g. tr.sql('SELECT i0, val FROM A', A=A)")
    glot = _sqlglot()
    try:
        found = [t for t in glot.parse(text, read="duckdb") if t is not None]
    except glot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        place = _offset(text, first.get("line") or 1, first.get("col") or 1,
                        len(first.get("highlight") or ""))
        message = str(first.get("description") or error).split("\n")[0]
        if "<class" in message:
            message = "the query is not complete here"
        raise ParseError(message, text=text, position=place) from None
    except glot.errors.TokenError as error:
        raise ParseError(str(error).split("\n")[0], text=text) from None
    except RecursionError:
        raise ParseError("nested too deep", text=text) from None
    if len(found) != 1:
        raise ParseError(f"one query is wanted, not {len(found)}", text=text,
                         position=place_of(found[1], text) if found else 0)
    return found[0]


def _offset(text: str, line: int, column: int, width: int) -> int:
    lines = text.split("\n")
    start = sum(len(one) + 1 for one in lines[: line - 1])
    return max(min(start + column - max(width, 1), len(text)), 0)


def place_of(node: Node, text: str) -> int:
    """Where a node begins, as far as its tokens are known."""
    places = [n.meta["start"] for n in node.walk() if "start" in n.meta] if hasattr(
        node, "walk") else []
    return min(places, default=0)


#: Parts of nodes that say how other dialects would write them.
_IDLE = frozenset({"safe", "typed", "coalesce", "ignore_nulls", "date_part_boundary", "big_int",
                   "position", "is_left", "dialect", "dayofweek_iso", "strict", "requires_string",
                   "zone_", "_type"})


class Places:
    """Errors at nodes of a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, message: str, node: Node, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=place_of(node, self.text), hint=hint)

    def only(self, node: Node, *known: str) -> None:
        """Refuse a node that says more than these parts: nothing is left out silently."""
        for part, value in node.args.items():
            if part not in known and part not in _IDLE and value not in (None, False, [], ""):
                self.outside(f"{part.rstrip('_').upper()} of {node.key.upper()}", node)

    def outside(self, what: str, node: Node, hint: str | None = None) -> NoReturn:
        """Fail: SQL has it, and our subset does not."""
        self.fail(f"{what} is outside of the SQL that tensorel runs", node,
                  hint or "docs/reference/sql.md lists what is inside")


def kind(node: Node) -> str:
    """The class of a node."""
    return type(node).__name__


def names_in(text: str) -> frozenset[str]:
    """The names that stand for relations in a text, as they are written."""
    return frozenset(str(n.name) for n in parse(text).walk() if kind(n) == "Table")


def relations_in(text: str) -> frozenset[str]:
    """The same in small letters."""
    return frozenset(n.lower() for n in names_in(text))


def mentioned(text: str) -> frozenset[str] | None:
    """The names of columns in a text, in small letters; None where ``*`` means all."""
    found: set[str] = set()
    for n in parse(text).walk():
        if kind(n) == "Star" and kind(n.parent) != "Count":
            return None
        if kind(n) == "Join" and n.args.get("method") == "NATURAL":
            return None
        if kind(n) == "Identifier":
            found.add(str(n.name).lower())
    return frozenset(found)
