"""Reading text: tokens, and a cursor over them that marks the place of every error.

A parser is a subclass of ``Cursor`` with its own pattern of tokens and its keywords. Each rule of
its grammar is a generator that yields the rules below it and is sent their results, so that
nesting is limited by memory and not by Python's stack; ``Cursor.run`` drives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, NoReturn, TypeVar

from tensorel.errors import ParseError, TensorelError

T = TypeVar("T")


class Token(NamedTuple):
    """kind: the group of the pattern that matched (name, symbol, string, ...), or end."""

    kind: str
    text: str
    position: int


def tokens(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """All tokens of ``text`` and an end mark; ParseError at a character of no token. Groups of
    the pattern are the kinds of tokens; that of ``space`` is left out.

    >>> [t.text for t in tokens("a + b", re.compile("(?P<space> )|(?P<name>[a-z])|(?P<sign>[+])"))]
    ['a', '+', 'b', '']
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


class Cursor:
    """A place in the tokens of a text. ``deepest``: how deep rules may be nested."""

    pattern: re.Pattern[str]
    keywords: frozenset[str] = frozenset()
    deepest: int | None = None

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
        """Whether these are the next tokens."""
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

    def finish(self, wanted: str = "an operator or the end") -> None:
        """Fail unless the text ends here."""
        if self.token.kind != "end":
            self.fail(f"expected {wanted}{self.instead()}")

    def identifier(self, what: str) -> str:
        if self.token.kind != "name" or self.token.text in self.keywords:
            self.fail(f"expected {what}{self.instead()}")
        return self.take().text

    # -- errors ------------------------------------------------------------------------------
    def instead(self) -> str:
        shown = self.token.text
        return f", not {shown!r}" if shown else ", but the text ends here"

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        place = (token or self.token).position
        raise ParseError(message, text=self.text, position=place, hint=hint)

    def too_deep(self, token: Token) -> NoReturn:
        self.fail("nested too deep", token)

    def make(self, token: Token, build: Callable[..., T], *args: object) -> T:
        """A node; if it cannot be built, the error marks its place."""
        try:
            return build(*args)
        except TensorelError as error:
            self.fail(error.message, token, error.hint)
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(str(error), token)

    # -- rules -------------------------------------------------------------------------------
    def run(self, rule: Generator[Any, Any, T]) -> T:
        """Drive a rule to its result."""
        stack: list[Generator[Any, Any, Any]] = [rule]
        value: Any = None
        while True:
            if self.deepest is not None and len(stack) > self.deepest:
                self.too_deep(self.token)
            try:
                stack.append(stack[-1].send(value))
                value = None
            except StopIteration as stop:
                stack.pop()
                value = stop.value
                if not stack:
                    return value  # type: ignore[no-any-return]
