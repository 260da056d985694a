"""Which expressions are linear in a variable: f(a + b) = f(a) + f(b), in any semiring.

A sum over a dictionary that is itself a sum of entries may visit the entries one by one instead of
the keys, if its body is linear in the value: several entries at one key, or entries that are zero
or cancel, then add up to the same (fusion rule F3 without its demand for distinct keys).
"""

from __future__ import annotations

from tensorel.sdql.syntax import (
    Apply,
    Binary,
    Dict,
    Expr,
    If,
    Let,
    Name,
    Sum,
    Unary,
    free,
)
from tensorel.sdql.typing import Types, is_zero


def is_linear(e: Expr, name: str, types: Types) -> bool:
    """Whether a core expression is linear in the variable."""
    match e:
        case Name():
            return e.name == name
        case Apply():
            return name not in free(e.keys[0]) and is_linear(e.target, name, types)
        case Dict():
            entry = e.entries[0]
            return name not in free(entry.keys[0]) and is_linear(entry.value, name, types)
        case If():
            return name not in free(e.test) and all(
                is_zero(p) or is_linear(p, name, types)
                for p in (e.then, e.otherwise) if p is not None)
        case Let():
            (bound, value), = e.bindings
            return name not in free(value) and bound != name and is_linear(e.body, name, types)
        case Sum():
            return _sum(e, name, types)
        case Unary(op="-"):
            return is_linear(e.arg, name, types)
        case Binary():
            return _binary(e, name, types)
        case _:
            return False


def _sum(e: Sum, name: str, types: Types) -> bool:
    (g,) = e.generators
    if name not in free(g.source):
        return name not in (*g.keys, g.value) and is_linear(e.body, name, types)
    inner = free(e.body) - {*g.keys, g.value}
    return name not in inner and not types[g.source].total and is_linear(
        g.source, name, types) and is_linear(e.body, g.value, types)


def _binary(e: Binary, name: str, types: Types) -> bool:
    left, right = name in free(e.left), name in free(e.right)
    match e.op:
        case "*":
            return left != right and is_linear(e.left if left else e.right, name, types)
        case "+" | "-":
            return all(is_zero(p) or is_linear(p, name, types) for p in (e.left, e.right))
        case "/":
            return left and not right and types[e].kind == "real" and is_linear(
                e.left, name, types)
        case _:
            return False
