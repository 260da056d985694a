"""Tokens of the text of comprehensions."""

from __future__ import annotations

import re

KEYWORDS = frozenset({
    "tensor", "let", "group", "by", "if", "then", "else", "true", "false", "inf", "nan",
    "typemap", "def",
})

TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ | //[^\n]* | /\*.*?\*/ )
  | (?P<number> [0-9]+ (?:\.[0-9]+)? (?:[eE][+-]?[0-9]+)? (?![A-Za-z0-9_]) )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<symbol> <- | ← | ⇐ | \.\. | == | != | <= | >= | => | && | \|\| | [-+*/%<>=!()\[\]{},;:|.] )
    """,
    re.VERBOSE | re.DOTALL,
)
