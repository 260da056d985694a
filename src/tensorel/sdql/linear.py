"""Which expressions are linear in a variable: f(a + b) = f(a) + f(b), in any semiring.

A sum over a dictionary that is itself a sum of entries may visit the entries one by one instead of
the keys, if its body is linear in the value: several entries at one key, or entries that are zero
or cancel, then add up to the same (fusion rule F3 without its demand for distinct keys). If the
keys are distinct, the body of the innermost sum may be anything (F3 with it).
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


def is_linear(e: Expr, name: str, types: Types, distinct: bool = False) -> bool:
    """Whether a core expression is linear in the variable. ``distinct``: for dictionaries that
    have no key in common, as a sum over the entries of one is, whatever its body."""
    match e:
        case Name():
            return e.name == name
        case Apply():
            return name not in free(e.keys[0]) and is_linear(e.target, name, types, distinct)
        case Dict():
            entry = e.entries[0]
            return name not in free(entry.keys[0]) and is_linear(
                entry.value, name, types, distinct)
        case If():
            return name not in free(e.test) and all(
                is_zero(p) or is_linear(p, name, types, distinct)
                for p in (e.then, e.otherwise) if p is not None)
        case Let():
            (bound, value), = e.bindings
            return name not in free(value) and bound != name and is_linear(
                e.body, name, types, distinct)
        case Sum():
            return _sum(e, name, types, distinct)
        case Unary(op="-"):
            return is_linear(e.arg, name, types, distinct)
        case Binary():
            return _binary(e, name, types, distinct)
        case _:
            return False


def _sum(e: Sum, name: str, types: Types, distinct: bool) -> bool:
    (g,) = e.generators
    if name not in free(g.source):
        return name not in (*g.keys, g.value) and is_linear(e.body, name, types, distinct)
    if name in free(e.body) - {*g.keys, g.value} or types[g.source].total:
        return False
    if not is_linear(g.source, name, types, distinct):
        return False
    if is_linear(e.body, g.value, types, distinct):
        return True
    return distinct and isinstance(g.source, Name) and types[g.source].depth == 1


def _binary(e: Binary, name: str, types: Types, distinct: bool) -> bool:
    left, right = name in free(e.left), name in free(e.right)
    match e.op:
        case "*":
            return left != right and is_linear(e.left if left else e.right, name, types, distinct)
        case "+" | "-":
            return all(is_zero(p) or is_linear(p, name, types, distinct) for p in (e.left, e.right))
        case "/":
            return left and not right and types[e].kind == "real" and is_linear(
                e.left, name, types, distinct)
        case _:
            return False
