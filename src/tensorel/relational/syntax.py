"""The tree of a predicate or an arithmetic expression over attributes, and its parser.

    or     ::= and {"or" and}                      and ::= not {"and" not}
    not    ::= "not" not | test
    test   ::= sum [cmp sum | ["not"] "between" sum "and" sum | ["not"] "in" "(" sum {"," sum} ")"]
    sum    ::= term {("+" | "-") term}             term ::= sign {("*" | "/" | "//" | "%") sign}
    sign   ::= ("-" | "+") sign | atom
    atom   ::= number | 'text' | true | false | name | name "(" sum {"," sum} ")" | "(" or ")"

Words are read in any case, as in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from typing import Any

from tensorel.base.cursor import Cursor, Token
from tensorel.base.records import dataclass

KEYWORDS = frozenset({"and", "or", "not", "between", "in", "true", "false"})
_DEEPEST = 2000
_COMPARISONS = {"=": "==", "==": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">",
                ">=": ">="}
_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ )
  | (?P<number> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? (?![A-Za-z0-9_.]) )
  | (?P<name> [^\W\d]\w* )
  | (?P<string> '(?:[^']|'')*' )
  | (?P<quoted> "(?:[^"]|"")*" )
  | (?P<symbol> // | == | != | <> | <= | >= | [-+*/%<>=(),] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Term:
    """A node; ``token``: its place in the text."""

    token: Token


@dataclass(frozen=True, slots=True)
class Number(Term):
    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Text(Term):
    value: str


@dataclass(frozen=True, slots=True)
class Name(Term):
    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic(Term):
    """Of two operands, or of one with the sign ``-``."""

    op: str
    operands: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Function(Term):
    name: str
    operands: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Compare(Term):
    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Logical(Term):
    """``and``, ``or`` of several, ``not`` of one."""

    op: str
    operands: tuple[Term, ...]


Rule = Generator[Any, Any, Term]


class Parser(Cursor):
    """A predicate, or an arithmetic expression, from its text."""

    pattern = _TOKEN
    keywords = KEYWORDS
    deepest = _DEEPEST

    def predicate(self) -> Term:
        """The text, which is a predicate, or an expression where one may stand."""
        found = self.run(self._or())
        self.finish("'and', 'or', an operator or the end")
        return found

    def expressions(self) -> list[Term]:
        """Arithmetic expressions with commas between them."""
        found = [self.run(self._sum())]
        while self.skip(","):
            found.append(self.run(self._sum()))
        self.finish("',', an operator or the end")
        return found

    def _word(self, *words: str) -> Token | None:
        if self.token.kind == "name" and self.token.text.lower() in words:
            return self.take()
        return None

    def _or(self) -> Rule:
        return (yield from self._joined("or", self._and))

    def _and(self) -> Rule:
        return (yield from self._joined("and", self._not))

    def _joined(self, word: str, below: Any) -> Rule:
        token = self.token
        parts = [(yield below())]
        while self._word(word):
            parts.append((yield below()))
        return parts[0] if len(parts) == 1 else Logical(token, word, tuple(parts))

    def _not(self) -> Rule:
        token = self._word("not")
        if token is None:
            return (yield self._test())  # type: ignore[no-any-return]
        return Logical(token, "not", ((yield self._not()),))

    def _test(self) -> Rule:
        left = yield self._sum()
        token = self.token
        if token.kind == "symbol" and token.text in _COMPARISONS:
            self.take()
            found: Term = Compare(token, _COMPARISONS[token.text], left, (yield self._sum()))
            if self.token.kind == "symbol" and self.token.text in _COMPARISONS:
                self.fail("comparisons cannot be chained", hint="join them by 'and'")
            return found
        negated = self._word("not")
        token = self.token
        if self._word("between"):
            low = yield self._sum()
            if not self._word("and"):
                self.fail(f"expected 'and' after 'between'{self.instead()}")
            high = yield self._sum()
            found = Logical(token, "and", (
                Compare(token, ">=", left, low), Compare(token, "<=", left, high)))
        elif self._word("in"):
            found = yield self._listed(token, left)
        elif negated:
            self.fail(f"expected 'between' or 'in' after 'not'{self.instead()}")
        else:
            return left  # type: ignore[no-any-return]
        return Logical(negated, "not", (found,)) if negated else found

    def _listed(self, token: Token, left: Term) -> Rule:
        self.expect("(")
        found = [Compare(token, "==", left, (yield self._sum()))]
        while self.skip(","):
            found.append(Compare(token, "==", left, (yield self._sum())))
        self.expect(")")
        # One value is no equality: what is listed keeps the shape, however long the list is.
        return Logical(token, "or", tuple(found))

    def _sum(self) -> Rule:
        return (yield from self._chain(("+", "-"), self._term))

    def _term(self) -> Rule:
        return (yield from self._chain(("*", "/", "//", "%"), self._sign))

    def _chain(self, symbols: tuple[str, ...], below: Any) -> Rule:
        left = yield below()
        while self.token.kind == "symbol" and self.token.text in symbols:
            token = self.take()
            left = Arithmetic(token, token.text, (left, (yield below())))
        return left  # type: ignore[no-any-return]

    def _sign(self) -> Rule:
        token = self.token
        if self.skip("-"):
            return Arithmetic(token, "-", ((yield self._sign()),))
        if self.skip("+"):
            return (yield self._sign())  # type: ignore[no-any-return]
        return (yield self._atom())  # type: ignore[no-any-return]

    def _atom(self) -> Rule:
        token = self.token
        if token.kind == "number":
            self.take()
            whole = token.text.isdigit()
            return Number(token, int(token.text) if whole else float(token.text))
        if token.kind == "string":
            self.take()
            return Text(token, token.text[1:-1].replace("''", "'"))
        if self._word("true", "false"):
            return Number(token, token.text.lower() == "true")
        if self.skip("("):
            inner = yield self._or()
            self.expect(")")
            return inner  # type: ignore[no-any-return]
        if token.kind == "quoted":
            self.take()
            return Name(token, token.text[1:-1].replace('""', '"'))
        if token.kind != "name" or token.text.lower() in KEYWORDS:
            self.fail(f"expected an attribute, a number or '('{self.instead()}")
        name = self.take().text
        if not self.skip("("):
            return Name(token, name)
        operands = [(yield self._sum())]
        while self.skip(","):
            operands.append((yield self._sum()))
        self.expect(")")
        return Function(token, name, tuple(operands))


@lru_cache(maxsize=256)
def parse_predicate(text: str) -> Term:
    """The tree of a predicate.

    >>> type(parse_predicate("rid = 3 and val > 0.5")).__name__
    'Logical'
    """
    return Parser(text).predicate()


@lru_cache(maxsize=256)
def parse_expressions(text: str) -> tuple[Term, ...]:
    """The trees of expressions with commas between them."""
    return tuple(Parser(text).expressions())


def conjuncts(term: Term) -> list[Term]:
    """What holds together wherever the predicate does."""
    if isinstance(term, Logical) and term.op == "and":
        return [c for part in term.operands for c in conjuncts(part)]
    return [term]


def names_in(term: Term) -> list[Name]:
    """The attributes that are mentioned, in their order."""
    match term:
        case Name():
            return [term]
        case Compare():
            return names_in(term.left) + names_in(term.right)
        case Arithmetic() | Function() | Logical():
            return [n for part in term.operands for n in names_in(part)]
        case _:
            return []
