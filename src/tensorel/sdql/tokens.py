"""Tokens of SDQLite's text."""

from __future__ import annotations

import re

from tensorel.base.cursor import Cursor, Token
from tensorel.sdql.functions import FUNCTIONS

#: Words that are no names of variables; ``create`` in any case.
KEYWORDS = frozenset({
    "sum", "in", "let", "if", "then", "else", "merge", "promote", "true", "false", "inf", "and",
    "or", "not",
})

TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ | //[^\n]* )
  | (?P<number> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? (?![A-Za-z0-9_.]) )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<symbol> -> | == | != | <= | >= | && | \|\| | [-+*/%<>=!(){}\[\],;:@] )
    """,
    re.VERBOSE,
)


class Reader(Cursor):
    """A place in the tokens of a program."""

    pattern = TOKEN
    keywords = KEYWORDS

    def word(self, *words: str) -> str | None:
        """Take the next token if it is one of these words in any case; words are upper case."""
        if self.token.kind == "name" and self.token.text.upper() in words:
            return self.take().text.upper()
        return None

    def variable(self, what: str) -> str:
        """A name that a program may bind."""
        token: Token = self.token
        name = self.identifier(what)
        if name.upper() == "CREATE" or name in FUNCTIONS:
            what = "a statement" if name not in FUNCTIONS else "a function"
            self.fail(f"{name!r} is the word of {what}", token, "choose another name")
        return name
