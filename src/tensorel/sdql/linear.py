"""Which expressions are linear in a variable: f(a + b) = f(a) + f(b), in any semiring.

A sum over a dictionary that is itself a sum of entries may visit the entries one by one instead of
the keys, if its body is linear in the value: several entries at one key, or entries that are zero
or cancel, then add up to the same (fusion rule F3 without its demand for distinct keys). If the
keys are distinct, the body of the innermost sum may be anything (F3 with it).
"""

from __future__ import annotations

from tensorel.sdql import syntax as s
from tensorel.sdql.typing import Types, is_zero


def is_linear(e: s.Expr, name: str, types: Types, distinct: bool = False) -> bool:
    """Whether a core expression is linear in the variable. ``distinct``: for dictionaries that
    have no key in common, as a sum over the entries of one is, whatever its body."""
    match e:
        case s.Name():
            return e.name == name
        case s.Apply():
            return name not in s.free(e.keys[0]) and is_linear(e.target, name, types, distinct)
        case s.Dict():
            entry = e.entries[0]
            return name not in s.free(entry.keys[0]) and is_linear(
                entry.value, name, types, distinct)
        case s.If():
            return name not in s.free(e.test) and all(
                is_zero(p) or _is_linear_part(p, e, name, types, distinct)
                for p in (e.then, e.otherwise) if p is not None)
        case s.Let():
            (bound, value), = e.bindings
            return name not in s.free(value) and bound != name and is_linear(
                e.body, name, types, distinct)
        case s.Sum():
            return _sum(e, name, types, distinct)
        case s.Unary(op="-"):
            return _is_linear_part(e.arg, e, name, types, distinct)
        case s.Binary():
            return _binary(e, name, types, distinct)
        case _:
            return False


def _sum(e: s.Sum, name: str, types: Types, distinct: bool) -> bool:
    (g,) = e.generators
    if name not in s.free(g.source):
        return name not in (*g.keys, g.value) and is_linear(e.body, name, types, distinct)
    if name in s.free(e.body) - {*g.keys, g.value} or types[g.source].total:
        return False
    if not is_linear(g.source, name, types, distinct):
        return False
    if is_linear(e.body, g.value, types, distinct):
        return True
    return distinct and isinstance(g.source, s.Name) and types[g.source].depth == 1


def _binary(e: s.Binary, name: str, types: Types, distinct: bool) -> bool:
    left, right = name in s.free(e.left), name in s.free(e.right)
    match e.op:
        case "*":
            part = e.left if left else e.right
            return left != right and _is_linear_part(part, e, name, types, distinct)
        case "+" | "-":
            return all(is_zero(p) or _is_linear_part(p, e, name, types, distinct)
                       for p in (e.left, e.right))
        case "/":
            return left and not right and types[e].kind == "real" and _is_linear_part(
                e.left, e, name, types, distinct)
        case _:
            return False


def _is_linear_part(part: s.Expr, whole: s.Expr, name: str, types: Types, distinct: bool) -> bool:
    """A truth value as a number is not linear: true and true is true, and 1 + 1 is 2."""
    kept = (types[part].kind == "bool") == (types[whole].kind == "bool")
    return kept and is_linear(part, name, types, distinct)
