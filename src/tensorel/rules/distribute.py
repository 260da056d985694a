"""Semirings: association, distribution, factoring; the operators say which laws they have."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.build import repeated
from tensorel.ir.nodes import Expr, const
from tensorel.rewrite.engine import EXPLORE, Match, Op, Rule
from tensorel.rules.common import (
    A,
    B,
    C,
    N,
    below,
    call,
    dtype,
    ex,
    identity,
    literal,
    one_dtype,
    op,
    over,
    semiring,
)
from tensorel.rules.table import declare


def _is_product(f: ops.Operator) -> bool:
    return bool(f.distributes_over)


def _is_sum(g: ops.Operator) -> bool:
    return g.is_monoid and g.commutative


def _can_distribute(m: Match) -> bool:
    return semiring(op(m), op(m, "g"), dtype(m)) and one_dtype(m, "a", "b", "c")


def _distribute(m: Match) -> Expr:
    f, a = op(m), ex(m)
    return call(op(m, "g"), call(f, a, ex(m, "b")), call(f, a, ex(m, "c")))


def _factor(m: Match) -> Expr:
    return call(op(m), ex(m), call(op(m, "g"), ex(m, "b"), ex(m, "c")))


def _can_factor_one(m: Match) -> bool:
    return semiring(op(m), op(m, "g"), dtype(m)) and one_dtype(m, "a", "b") \
        and op(m).identity is not None


def _factor_one(m: Match) -> Expr:
    f = op(m)
    return call(f, ex(m), call(op(m, "g"), identity(f, dtype(m)), ex(m, "b")))


def _twice(m: Match) -> Expr | None:
    """n copies under f are r(a, n)."""
    return repeated(op(m), ex(m), 2)


declare(
    Rule("associate: f(f(a, b), c) -> f(a, f(b, c))",
         Op("f", (Op("f", (A, B)), C), lambda f: f.associative),
         lambda m: call(op(m), ex(m), call(op(m), ex(m, "b"), ex(m, "c"))),
         "f is associative", lambda m: one_dtype(m, "a", "b", "c"), EXPLORE, True),
    Rule("associate: f(a, f(b, c)) -> f(f(a, b), c)",
         Op("f", (A, Op("f", (B, C))), lambda f: f.associative and not f.commutative),
         lambda m: call(op(m), call(op(m), ex(m), ex(m, "b")), ex(m, "c")),
         "f is associative (commutative ones need only the other direction)",
         lambda m: one_dtype(m, "a", "b", "c"), EXPLORE, True),
    Rule("distribute: a*(b+c) -> a*b + a*c",
         Op("f", (A, Op("g", (B, C), _is_sum, over)), _is_product), _distribute,
         "* distributes over +", _can_distribute, EXPLORE, True),
    Rule("factor: a*b + a*c -> a*(b+c)",
         Op("g", (Op("f", (A, B), _is_product, below), Op("f", (A, C))), _is_sum), _factor,
         "* distributes over +", _can_distribute, EXPLORE, True),
    Rule("factor one: a + a*b -> a*(1+b)",
         Op("g", (A, Op("f", (A, B), _is_product, below)), _is_sum), _factor_one,
         "* distributes over + and has an identity", _can_factor_one, EXPLORE, True),
    Rule("distribute: a*(b-c) -> a*b - a*c",
         Op(ops.multiply, (A, Op(ops.subtract, (B, C)))),
         lambda m: call(ops.subtract, call(ops.multiply, ex(m), ex(m, "b")),
                        call(ops.multiply, ex(m), ex(m, "c"))),
         "* distributes over -", lambda m: one_dtype(m, "a", "b", "c"), EXPLORE, True),
    Rule("factor: a*b - a*c -> a*(b-c)",
         Op(ops.subtract, (Op(ops.multiply, (A, B)), Op(ops.multiply, (A, C)))),
         lambda m: call(ops.multiply, ex(m), call(ops.subtract, ex(m, "b"), ex(m, "c"))),
         "* distributes over -", lambda m: one_dtype(m, "a", "b", "c"), EXPLORE, True),
    Rule("factor one: a - a*b -> a*(1-b)",
         Op(ops.subtract, (A, Op(ops.multiply, (A, B)))),
         lambda m: call(ops.multiply, ex(m), call(ops.subtract, const(1, dtype(m)), ex(m, "b"))),
         "* distributes over - and has an identity",
         lambda m: one_dtype(m, "a", "b"), EXPLORE, True),
    Rule("repeat: a + a -> a*2", Op("f", (A, A), lambda f: f.repeat is not None), _twice,
         "n copies under f are repeat(a, n)", lambda m: one_dtype(m, "a"), EXPLORE, True),
    Rule("unrepeat: a*2 -> a + a", Op(ops.multiply, (A, N)),
         lambda m: call(ops.add, ex(m), ex(m)), "n copies under + are n*a",
         lambda m: literal(m).value == 2 and dtype(m).kind != "b" and one_dtype(m, "a", "n"),
         EXPLORE, True),
)
