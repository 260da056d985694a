"""Tokens of the calculus' text, and a cursor over them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from tensorel.errors import ParseError, TensorelError

KEYWORDS = frozenset({"and", "or", "not", "in", "return", "True", "False", "nan", "inf"})
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
T = TypeVar("T")

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


class Token(NamedTuple):
    """kind: number, name, string, symbol or end."""

    kind: str
    text: str
    position: int


def tokens(text: str, pattern: re.Pattern[str] = _TOKEN) -> list[Token]:
    """All tokens of ``text`` and an end mark; ParseError at a character of no token. Groups of
    the pattern are the kinds of tokens; that of ``space`` is left out.

    >>> [t.text for t in tokens("A[i] + 1.5e3")]
    ['A', '[', 'i', ']', '+', '1.5e3', '']
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise ParseError(
                f"unexpected character {text[position]!r}", text=text, position=position
            )
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    found.append(Token("end", "", len(text)))
    return found


def unquote(name: str) -> str:
    """The name that a name token stands for."""
    return re.sub(r"\\(.)", r"\1", name[1:-1], flags=re.DOTALL) if name[0] == "`" else name


class Cursor:
    """A place in the tokens of a text."""

    pattern = _TOKEN
    keywords = KEYWORDS

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text, self.pattern)
        self.at = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def next_text(self) -> str:
        """The text of the token after this one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)].text

    def follows(self, *texts: str) -> bool:
        """The tokens from here on are these."""
        ahead = self.tokens[self.at : self.at + len(texts)]
        return tuple(t.text for t in ahead if t.kind != "string") == texts

    def take(self) -> Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def skip(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.take()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.skip(text):
            self.fail(f"expected {text!r}{self.instead()}")

    def instead(self) -> str:
        shown = self.token.text
        return f", not {shown!r}" if shown else ", but the text ends here"

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        place = (token or self.token).position
        raise ParseError(message, text=self.text, position=place, hint=hint)

    def identifier(self, what: str) -> str:
        if self.token.kind != "name" or self.token.text in self.keywords:
            self.fail(f"expected {what}{self.instead()}")
        return unquote(self.take().text)

    def make(self, token: Token, build: Callable[..., T], *args: object) -> T:
        """A node, or the reason why there is none at the place where it stands."""
        try:
            return build(*args)
        except TensorelError as error:
            self.fail(error.message, token, error.hint)
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(str(error), token)

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
