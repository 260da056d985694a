"""Scalar simplification by declared properties of operators.

No rule here assumes that a value is finite: x*0 -> 0 and x-x -> 0 fail for nan and inf, so they
are not rules. Folding literals is NumPy's own arithmetic.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.analysis import apply
from tensorel.ir.build import convert
from tensorel.ir.given import lifted
from tensorel.ir.nodes import Call, Const, Expr, const
from tensorel.rewrite.engine import Lit, Match, Op, Rule, Var
from tensorel.rules.common import A, dtype, ex, literal, op
from tensorel.rules.table import declare

C = Lit("c")


def _is_identity(m: Match) -> bool:
    """c is neutral for f and the result keeps a's dtype; -0.0 + 0.0 is 0.0, so float 0 stays."""
    f, a, c = op(m), ex(m), literal(m, "c")
    if f.identity is None or not f.commutative or f.resolve(a.dtype, c.dtype)[1] != a.dtype:
        return False
    if a.dtype.kind == "c":
        return False  # (inf+0j) * 1 is inf+nanj: no identity is exact in NumPy's complex numbers
    if f is ops.add and a.dtype.kind == "f" and not lifted(_has_sign, c.value):
        return False
    if f in (ops.logical_and, ops.logical_or) and a.dtype != ops.BOOL:
        return False
    return bool(c.value == f.identity(c.dtype))


def _has_sign(value: ops.Scalar) -> bool:
    return bool(np.signbit(np.real(value)))


def _has_identity(f: ops.Operator) -> bool:
    return f.identity is not None and f.commutative


def _fold(m: Match) -> Expr | None:
    f = op(m)
    args = [cast(Const, m[k]) for k in ("c", "d", "e") if k in m]
    if f.expand is not None:
        return None
    try:
        return const(apply(f, *(a.value for a in args)))
    except (ValueError, TypeError, ZeroDivisionError):
        return None


def _is_cast(f: ops.Operator) -> bool:
    return f.name.startswith("cast_")


declare(
    Rule("fold-1: f(literal) -> literal", Op("f", (C,)), _fold, "evaluation"),
    Rule("fold-2: f(literal, literal) -> literal", Op("f", (C, Lit("d"))), _fold, "evaluation"),
    Rule("identity: f(a, e) -> a", Op("f", (A, C), _has_identity), ex,
         "e is the identity of f", _is_identity),
    Rule("identity: f(e, a) -> a", Op("f", (C, A), _has_identity), ex,
         "e is the identity of f", _is_identity),
    Rule("divide by one: a / 1 -> a", Op(ops.divide, (A, C)), ex, "1 is the right identity of /",
         lambda m: literal(m, "c").value == 1 and ex(m).dtype.kind == "f"
         and ops.divide.resolve(ex(m).dtype, literal(m, "c").dtype)[1] == ex(m).dtype),
    Rule("power one: a ** 1 -> a", Op(ops.power, (A, C)), ex, "1 is the right identity of **",
         lambda m: literal(m, "c").value == 1 and ex(m).dtype.kind != "c"
         and ops.power.resolve(ex(m).dtype, literal(m, "c").dtype)[1] == ex(m).dtype),
    Rule("square: a ** 2 -> square(a)", Op(ops.power, (A, C)),
         lambda m: convert(Call(ops.square, (ex(m),)), dtype(m)),
         "definition of square",
         lambda m: literal(m, "c").value == 2 and ex(m).dtype.kind == "f" and
         ex(m).dtype == dtype(m)),
    Rule("double negation: -(-a) -> a", Op(ops.negative, (Op(ops.negative, (A,)),)), ex,
         "negation is an involution"),
    Rule("double not: not not a -> a", Op(ops.logical_not, (Op(ops.logical_not, (A,)),)), ex,
         "not is an involution", lambda m: ex(m).dtype == ops.BOOL),
    Rule("double conjugate", Op(ops.conjugate, (Op(ops.conjugate, (A,)),)), ex,
         "conjugation is an involution"),
    Rule("positive: +a -> a", Op(ops.positive, (A,)), ex, "definition of unary plus"),
    Rule("cast to own dtype: cast(a) -> a", Op("f", (A,), _is_cast), ex, "identity",
         lambda m: ex(m).dtype == dtype(m)),
    Rule("idempotence: f(a, a) -> a", Op("f", (A, A), lambda f: f.idempotent), ex,
         "f is idempotent",
         lambda m: op(m).resolve(ex(m).dtype, ex(m).dtype)[1] == ex(m).dtype
         and (op(m) not in (ops.logical_and, ops.logical_or) or ex(m).dtype == ops.BOOL)),
    Rule("where: where(c, a, a) -> a", Op(ops.where, (Var("p"), A, A)), ex, "both branches agree"),
    Rule("where literal", Op(ops.where, (C, A, Var("b"))),
         lambda m: ex(m) if bool(literal(m, "c").value) else ex(m, "b"), "definition of where",
         lambda m: ex(m).dtype == ex(m, "b").dtype),
)

