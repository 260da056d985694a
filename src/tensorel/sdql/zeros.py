"""Which expressions are zero when variables are: where a sum need not ask for entries.

A sum visits the keys whose values are not zero. Where its body is zero for a value that is zero,
visiting all keys gives the same, and the guard ``v != 0`` can be left out. Decided by
annihilators: a product by one factor, a sum by all terms, a function by its value at zero.
"""

from __future__ import annotations

import numpy as np

from tensorel.sdql import syntax as s
from tensorel.sdql.functions import SEMIRINGS
from tensorel.sdql.meaning import meaning, zero_of
from tensorel.sdql.typing import Types, is_zero

Names = frozenset[str]


def vanishes(e: s.Expr, zeros: Names, types: Types) -> bool:
    """Whether a core expression is zero wherever the variables ``zeros`` are."""
    match e:
        case s.Name():
            return e.name in zeros
        case s.Apply():
            return vanishes(e.target, zeros, types)
        case s.Slice():
            return vanishes(e.target, zeros, types)
        case s.Dict():
            return vanishes(e.entries[0].value, zeros, types)
        case s.If():
            return _branch(e, zeros, types)
        case s.Let():
            (name, value), = e.bindings
            inner = zeros | {name} if vanishes(value, zeros, types) else zeros - {name}
            return vanishes(e.body, inner, types)
        case s.Sum():
            return _sum(e, zeros, types)
        case s.Binary(op="*" | "&&"):
            return vanishes(e.left, zeros, types) or vanishes(e.right, zeros, types)
        case s.Binary(op="+" | "-" | "||"):
            return all(is_zero(p) or vanishes(p, zeros, types) for p in (e.left, e.right))
        case s.Binary(op="/" | "%"):  # 0/0 is not zero
            sure = isinstance(e.right, s.Number) and e.right.value != 0
            return sure and vanishes(e.left, zeros, types)
        case s.Unary(op="-"):
            return vanishes(e.arg, zeros, types)
        case _:
            return _decided(e, zeros, types)


def _branch(e: s.If, zeros: Names, types: Types) -> bool:
    rest = e.otherwise is None or is_zero(e.otherwise) or vanishes(e.otherwise, zeros, types)
    return rest and (is_zero(e.then) or vanishes(e.then, zeros, types)
                     or vanishes(e.test, zeros, types))


def _sum(e: s.Sum, zeros: Names, types: Types) -> bool:
    (g,) = e.generators
    source = vanishes(g.source, zeros, types)
    if source and not types[g.source].total:
        return True
    inner = zeros - {*g.keys, g.value}
    return vanishes(e.body, inner | {g.value} if source else inner, types)


def _decided(e: s.Expr, zeros: Names, types: Types) -> bool:
    """An expression of zeros and numbers is what it is; one that reads others may still be a
    function of parts that are zero."""
    if types[e].depth or types[e].kind in SEMIRINGS:
        return False
    if isinstance(e, s.Call) and all(types[a].kind not in SEMIRINGS for a in e.args) and all(
            vanishes(a, zeros, types) for a in e.args):
        blank = s.Call(e.function, tuple([s.Number(0, types[a].kind) for a in e.args]))
        return _is_zero(blank, {}, Types(blank, {}, ""))
    if any(isinstance(p, (s.Sum, s.Slice)) for p in s.walk(e)) or not s.parts(e):
        return False
    names = s.free(e)
    if not names <= zeros:
        return False
    return _is_zero(e, {n: zero_of(_kind(e, n, types)) for n in names}, types)


def _kind(e: s.Expr, name: str, types: Types) -> str:
    return next(types[p].kind for p in s.walk(e) if isinstance(p, s.Name) and p.name == name)


def _is_zero(e: s.Expr, env: dict[str, object], types: Types) -> bool:
    try:
        return bool(np.equal(meaning(e, env, types), 0))
    except AttributeError:  # a dictionary that is zero was read
        return False
