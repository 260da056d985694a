"""Tokens of the calculus' text."""

from __future__ import annotations

import ast
import re

from tensorel.base.cursor import Cursor

KEYWORDS = frozenset({"and", "or", "not", "in", "return", "True", "False", "nan", "inf"})
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PART = r"(?:nan|inf|[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?)"
_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_TOKEN = re.compile(
    rf"""
    (?P<space> [ \t\r\n]+ | \#[^\n]* )
  | (?P<number> (?: 0x[0-9a-f]+ | {_PART}[+-]{_PART}j | {_PART}j? | True | False )
        (?: :[a-z]+[0-9]* )? (?![A-Za-z0-9_.]) )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* | `(?:[^`\\]|\\.)*` )
  | (?P<string> '(?:[^'\\\n]|{_ESCAPE})*' | "(?:[^"\\\n]|{_ESCAPE})*" )
  | (?P<symbol> -> | \*\* | // | << | >> | <= | >= | == | != | [-+*/%&|^~<>=()\[\],;:$] )
    """,
    re.VERBOSE | re.DOTALL,
)


def unquote(name: str) -> str:
    """The name that a name token stands for."""
    return re.sub(r"\\(.)", r"\1", name[1:-1], flags=re.DOTALL) if name[0] == "`" else name


class CalculusCursor(Cursor):
    """A place in the tokens of a text of the calculus."""

    pattern = _TOKEN
    keywords = KEYWORDS

    def identifier(self, what: str) -> str:
        return unquote(super().identifier(what))

    def params(self) -> tuple[object, ...]:
        """Numbers, strings, truth values, None and tuples of them, up to ``)``."""
        open_: list[list[object]] = [[]]
        ready = True
        while True:
            if ready and self.skip("("):
                open_.append([])
            elif self.skip(")"):
                done = tuple(open_.pop())
                if not open_:
                    return done
                open_[-1].append(done)
                ready = False
            elif not ready and self.skip(","):
                ready = True
            elif ready:
                open_[-1].append(self.param())
                ready = False
            else:
                self.fail(f"expected ',' or ')'{self.instead()}")

    def param(self) -> object:
        sign = "-" if self.skip("-") else ""
        token = self.take()
        if token.text == "None" and not sign:
            return None
        if token.kind not in ("number", "string") or (sign and token.kind == "string"):
            self.fail("expected a number, a string, True, False, None or a tuple", token)
        return self.make(token, _python_literal, sign + token.text)


def _python_literal(text: str) -> object:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except SyntaxError as error:
        raise ValueError(f"{text} is not a parameter") from error
