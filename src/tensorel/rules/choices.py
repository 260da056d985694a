"""Conditions: operators move into the branches of ``where`` and out again.

An operator that only some operands are allowed for (integers to negative powers raise in NumPy)
must not meet operands that were not chosen before, so it stays where it is.
"""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.nodes import Const, Expr, const
from tensorel.rewrite.engine import EXPLORE, SIMPLIFY, Match, Op, Rule, Var
from tensorel.rules.common import A, B, C, N, call, dtype, ex, given, literal, one_dtype, op
from tensorel.rules.table import declare

P, Q = Var("p"), Var("q")


def _is_total(m: Match) -> bool:
    f = op(m)
    return f.expand is None and (f is not ops.power or dtype(m).kind in "fc")


def _branches_agree(m: Match) -> bool:
    return ex(m).dtype == ex(m, "b").dtype and _is_total(m)


def _where(p: Expr, a: Expr, b: Expr) -> Expr:
    return call(ops.where, p, a, b)


def _is_binary(f: ops.Operator) -> bool:
    return f is not ops.where and f.arity == 2


def _is_zero(m: Match) -> bool:
    return literal(m) is const(0, dtype(m)) and one_dtype(m, "a")


def _factor_of(m: Match) -> Const | Expr:
    return call(ops.cast(dtype(m)), ex(m, "p"))


def _is_unary(f: ops.Operator) -> bool:
    return f.arity == 1


declare(
    Rule("where: where(not p, a, b) -> where(p, b, a)",
         Op(ops.where, (Op(ops.logical_not, (P,)), A, B)),
         lambda m: _where(ex(m, "p"), ex(m, "b"), ex(m)), "definition of where", family=SIMPLIFY),
    Rule("into branches: f(where(p, a, b)) -> where(p, f(a), f(b))",
         Op("f", (Op(ops.where, (P, A, B)),), _is_unary),
         lambda m: _where(ex(m, "p"), call(op(m), ex(m)), call(op(m), ex(m, "b"))),
         "definition of where", _branches_agree, EXPLORE),
    Rule("out of branches: where(p, f(a), f(b)) -> f(where(p, a, b))",
         Op(ops.where, (P, Op("f", (A,), _is_unary), Op("f", (B,)))),
         lambda m: call(op(m), _where(ex(m, "p"), ex(m), ex(m, "b"))),
         "definition of where", _branches_agree, EXPLORE),
    Rule("into branches: f(where(p, a, b), c) -> where(p, f(a, c), f(b, c))",
         Op("f", (Op(ops.where, (P, A, B)), C), _is_binary),
         lambda m: _where(ex(m, "p"), call(op(m), ex(m), ex(m, "c")),
                          call(op(m), ex(m, "b"), ex(m, "c"))),
         "definition of where", _branches_agree, EXPLORE),
    Rule("out of branches: where(p, f(a, c), f(b, c)) -> f(where(p, a, b), c)",
         Op(ops.where, (P, Op("f", (A, C), _is_binary), Op("f", (B, C)))),
         lambda m: call(op(m), _where(ex(m, "p"), ex(m), ex(m, "b")), ex(m, "c")),
         "definition of where", _branches_agree, EXPLORE),
    Rule("where: where(p and q, a, b) -> where(p, where(q, a, b), b)",
         Op(ops.where, (Op(ops.logical_and, (P, Q)), A, B)),
         lambda m: _where(ex(m, "p"), _where(ex(m, "q"), ex(m), ex(m, "b")), ex(m, "b")),
         "definition of where", lambda m: one_dtype(m, "a", "b"), EXPLORE),
    Rule("where: where(p, where(q, a, b), b) -> where(p and q, a, b)",
         Op(ops.where, (P, Op(ops.where, (Q, A, B)), B)),
         lambda m: _where(call(ops.logical_and, ex(m, "p"), ex(m, "q")), ex(m), ex(m, "b")),
         "definition of where", lambda m: one_dtype(m, "a", "b"), EXPLORE),
    Rule("if to product: where(p, a, 0) -> a*p", Op(ops.where, (P, A, N)),
         lambda m: call(ops.multiply, ex(m), _factor_of(m)),
         "0 annihilates finite numbers and 1 is the identity",
         lambda m: _is_zero(m) and ex(m, "p").dtype == ops.BOOL and given(m).has("finite", ex(m)),
         EXPLORE, True),
    Rule("product to if: a*p -> where(p, a, 0)",
         Op(ops.multiply, (A, Op("f", (P,), lambda f: f.name.startswith("cast_")))),
         lambda m: _where(ex(m, "p"), ex(m), const(0, dtype(m))),
         "0 annihilates finite numbers and 1 is the identity",
         lambda m: one_dtype(m, "a") and op(m) is ops.cast(dtype(m))
         and ex(m, "p").dtype == ops.BOOL and given(m).has("finite", ex(m)), EXPLORE, True),
)
