"""The syntax tree as text, which parses to the same tree."""

from __future__ import annotations

import re

from tensorel.comprehension import syntax as s
from tensorel.comprehension.parser import LEVELS

_SIGN, _ATOM = 8, 9


def show(node: s.Program | s.Expr) -> str:
    """The text of a program.

    >>> from tensorel.comprehension.parser import parse
    >>> show(parse("+/( a*(b) )").body)
    '+/(a * b)'
    """
    if isinstance(node, s.Expr):
        return _expr(node, 0)
    return "\n".join([*map(_typemap, node.maps), _expr(node.body, 0)])


def _expr(e: s.Expr, least: int) -> str:
    text, level = _shown(e)
    return text if level >= least else f"({text})"


def _shown(e: s.Expr) -> tuple[str, int]:
    """A text and how strongly it binds."""
    match e:
        case s.Number():
            return _number(e.value)
        case s.Name():
            return e.name, _ATOM
        case s.Unary():
            inner = _expr(e.arg, _ATOM if isinstance(e.arg, s.Number) else _SIGN)
            return f"{e.op}({inner})" if isinstance(e.arg, s.Number) else e.op + inner, _SIGN
        case s.Binary():
            level = LEVELS[e.op]
            # comparisons are not chained, so neither side may be one
            left = _expr(e.left, level + (level == LEVELS["<"]))
            return f"{left} {e.op} {_expr(e.right, level + 1)}", level
        case s.Range():
            level = LEVELS[".."]
            return f"{_expr(e.low, level + 1)}..{_expr(e.high, level + 1)}", level
        case s.Call():
            return f"{e.function}({_list(e.args)})", _ATOM
        case s.If():
            parts = (_expr(x, 0) for x in (e.test, e.then, e.otherwise))
            return "if ({}) then {} else {}".format(*parts), -1
        case s.Tuple():
            return f"({_list(e.items)})", _ATOM
        case s.Access():
            return f"{_expr(e.target, _ATOM)}[{_list(e.keys)}]", _ATOM
        case s.Aggregate():
            return f"{e.monoid}/{_expr(e.body, _SIGN)}", _SIGN
        case s.Comprehension():
            found = ", ".join(map(_qualifier, e.qualifiers))
            return f"[ {_expr(e.head, 0)} | {found} ]", _ATOM
        case s.Stored():
            word = e.mapping or ("tensor*" if e.blocks else "tensor")
            sparse = f"({_list(e.sparse)})" if e.sparse or not e.mapping else ""
            return f"{word}({_list(e.dense)}){sparse}{_expr(e.body, _SIGN)}", _SIGN
    raise TypeError(type(e).__name__)


def _number(value: int | float | bool) -> tuple[str, int]:
    if isinstance(value, bool):
        return str(value).lower(), _ATOM
    text = repr(value)
    return text, _SIGN if text.startswith("-") else _ATOM


def _list(items: tuple[s.Expr, ...]) -> str:
    return ", ".join(_expr(x, 0) for x in items)


def _pattern(p: s.AnyPattern) -> str:
    if isinstance(p, s.Bind):
        return p.name
    return f"({', '.join(map(_pattern, p.items))})"


def _qualifier(q: s.Qualifier) -> str:
    match q:
        case s.Draw():
            return f"{_pattern(q.pattern)} {'<=' if q.full else '<-'} {_expr(q.source, 0)}"
        case s.Let():
            return f"let {_pattern(q.pattern)} = {_expr(q.value, 0)}"
        case s.Group():
            key = "" if q.key is None else f" : {_expr(q.key, 0)}"
            return f"group by {_pattern(q.pattern)}{key}"
        case s.Test():
            text = _expr(q.condition, 0)
            # a bare name before <= would be a generator
            return f"({text})" if re.match(r"\w+ <=", text) else text
    raise TypeError(type(q).__name__)


def _typemap(m: s.TypeMap) -> str:
    return (f"typemap {m.name}({', '.join(m.params)}) {{ def view({', '.join(m.arrays)}) = "
            f"{_expr(m.view, 0)} }}")
