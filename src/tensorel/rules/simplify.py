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
from tensorel.ir.nodes import Call, Const, Expr, const
from tensorel.rewrite.engine import Lit, Match, Op, Rule, Var
from tensorel.rules.table import declare

A, C = Var("a"), Lit("c")


def _op(m: Match) -> ops.Operator:
    return cast(ops.Operator, m["f"])


def _a(m: Match) -> Expr:
    return cast(Expr, m["a"])


def _literal(m: Match) -> Const:
    return cast(Const, m["c"])


def _is_identity(m: Match) -> bool:
    """c is neutral for f and the result keeps a's dtype; -0.0 + 0.0 is 0.0, so float 0 stays."""
    f, a, c = _op(m), _a(m), _literal(m)
    if f.identity is None or not f.commutative or f.resolve(a.dtype, c.dtype)[1] != a.dtype:
        return False
    if a.dtype.kind == "c":
        return False  # (inf+0j) * 1 is inf+nanj: no identity is exact in NumPy's complex numbers
    if f is ops.add and a.dtype.kind == "f" and not np.signbit(np.real(c.value)):
        return False
    if f in (ops.logical_and, ops.logical_or) and a.dtype != ops.BOOL:
        return False
    return bool(c.value == f.identity(c.dtype))


def _has_identity(f: ops.Operator) -> bool:
    return f.identity is not None and f.commutative


def _fold(m: Match) -> Expr | None:
    f = _op(m)
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
    Rule("identity: f(a, e) -> a", Op("f", (A, C), _has_identity), _a,
         "e is the identity of f", _is_identity),
    Rule("identity: f(e, a) -> a", Op("f", (C, A), _has_identity), _a,
         "e is the identity of f", _is_identity),
    Rule("divide by one: a / 1 -> a", Op(ops.divide, (A, C)), _a, "1 is the right identity of /",
         lambda m: _literal(m).value == 1 and _a(m).dtype.kind == "f"
         and ops.divide.resolve(_a(m).dtype, _literal(m).dtype)[1] == _a(m).dtype),
    Rule("power one: a ** 1 -> a", Op(ops.power, (A, C)), _a, "1 is the right identity of **",
         lambda m: _literal(m).value == 1 and _a(m).dtype.kind != "c"
         and ops.power.resolve(_a(m).dtype, _literal(m).dtype)[1] == _a(m).dtype),
    Rule("square: a ** 2 -> square(a)", Op(ops.power, (A, C)),
         lambda m: convert(Call(ops.square, (_a(m),)), cast(ops.DType, m["dtype"])),
         "definition of square",
         lambda m: _literal(m).value == 2 and _a(m).dtype.kind == "f" and
         _a(m).dtype == m["dtype"]),
    Rule("double negation: -(-a) -> a", Op(ops.negative, (Op(ops.negative, (A,)),)), _a,
         "negation is an involution"),
    Rule("double not: not not a -> a", Op(ops.logical_not, (Op(ops.logical_not, (A,)),)), _a,
         "not is an involution", lambda m: _a(m).dtype == ops.BOOL),
    Rule("double conjugate", Op(ops.conjugate, (Op(ops.conjugate, (A,)),)), _a,
         "conjugation is an involution"),
    Rule("positive: +a -> a", Op(ops.positive, (A,)), _a, "definition of unary plus"),
    Rule("cast to own dtype: cast(a) -> a", Op("f", (A,), _is_cast), _a, "identity",
         lambda m: _a(m).dtype == m["dtype"]),
    Rule("idempotence: f(a, a) -> a", Op("f", (A, A), lambda f: f.idempotent), _a,
         "f is idempotent",
         lambda m: _op(m).resolve(_a(m).dtype, _a(m).dtype)[1] == _a(m).dtype
         and (_op(m) not in (ops.logical_and, ops.logical_or) or _a(m).dtype == ops.BOOL)),
    Rule("where: where(c, a, a) -> a", Op(ops.where, (Var("p"), A, A)), _a, "both branches agree"),
    Rule("where literal", Op(ops.where, (C, A, Var("b"))),
         lambda m: _a(m) if bool(_literal(m).value) else cast(Expr, m["b"]), "definition of where",
         lambda m: _a(m).dtype == cast(Expr, m["b"]).dtype),
)

