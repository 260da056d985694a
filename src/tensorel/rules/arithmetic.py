"""Rings and fields: subtraction, squares, division, exponentials.

Subtraction as addition of the negative and products with -1 are exact, also modulo 2**n and for
unsigned integers. Division and exponentials hold for real numbers only and are marked so.
"""

from __future__ import annotations

import math

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.given import lifted
from tensorel.ir.nodes import Const, Expr, const
from tensorel.rewrite.engine import EXPLORE, Match, Op, Rule
from tensorel.rules.common import A, B, N, call, dtype, ex, given, is_literal, literal, one_dtype
from tensorel.rules.table import declare


def _number(m: Match, value: float) -> Const:
    return const(value, dtype(m))


def _square_of(inner: ops.Operator) -> Rule:
    """(a + b)**2 = a*a + 2*a*b + b*b, and the same with -."""
    def build(m: Match) -> Expr:
        a, b, times = ex(m), ex(m, "b"), ops.multiply
        mixed = call(times, _number(m, 2), call(times, a, b))
        return call(ops.add, call(inner, call(times, a, a), mixed), call(times, b, b))

    return Rule(f"square: (a {inner.symbol} b)**2 -> a*a {inner.symbol} 2*a*b + b*b",
                Op(ops.square, (Op(inner, (A, B)),)), build, "binomial law",
                lambda m: one_dtype(m, "a", "b") and dtype(m).kind != "b", EXPLORE, True)


def _is_power(m: Match, least: int, most: int) -> bool:
    value = literal(m).value
    return one_dtype(m, "a") and dtype(m).kind in "iuf" and literal(m).dtype.kind in "iuf" \
        and least <= value <= most and value == int(value)


def _divides_exactly(m: Match) -> bool:
    """1/n is a power of two in the dtype: the quotient and the product are the same real number,
    rounded once."""
    if not one_dtype(m, "a", "n") or dtype(m).kind != "f":
        return False
    return bool(lifted(_has_exact_inverse, literal(m).value, dtype(m)))


def _has_exact_inverse(divisor: float, dtype: ops.DType) -> bool:
    value = float(divisor)
    if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return False
    tiny = float(np.finfo(dtype.name).tiny)
    return tiny <= abs(value) <= 1 / tiny and tiny <= abs(1 / value)


def _is_field(m: Match, *names: str) -> bool:
    return one_dtype(m, *names) and dtype(m).kind in "fc"


def _has(m: Match, fact: str, *names: str) -> bool:
    return all(given(m).has(fact, ex(m, n)) for n in names)


declare(
    Rule("subtract: a - b -> a + -b", Op(ops.subtract, (A, B)),
         lambda m: call(ops.add, ex(m), call(ops.negative, ex(m, "b"))),
         "definition of subtraction", lambda m: one_dtype(m, "a", "b"), EXPLORE),
    Rule("subtract: a + -b -> a - b", Op(ops.add, (A, Op(ops.negative, (B,)))),
         lambda m: call(ops.subtract, ex(m), ex(m, "b")),
         "definition of subtraction", lambda m: one_dtype(m, "a", "b"), EXPLORE),
    Rule("negate: -a -> a * -1", Op(ops.negative, (A,)),
         lambda m: call(ops.multiply, ex(m), _number(m, -1)),
         "-1 times a is the negative; complex inf has no such law",
         lambda m: one_dtype(m, "a") and dtype(m).kind != "c" and not is_literal(ex(m)), EXPLORE),
    Rule("negate: a * -1 -> -a", Op(ops.multiply, (A, N)),
         lambda m: call(ops.negative, ex(m)), "-1 times a is the negative",
         lambda m: one_dtype(m, "a", "n") and dtype(m).kind in "iuf"
         and literal(m) is _number(m, -1), EXPLORE),
    Rule("square(a) -> a*a", Op(ops.square, (A,)), lambda m: call(ops.multiply, ex(m), ex(m)),
         "definition of square", lambda m: one_dtype(m, "a"), EXPLORE),
    Rule("a*a -> square(a)", Op(ops.multiply, (A, A)), lambda m: call(ops.square, ex(m)),
         "definition of square", lambda m: one_dtype(m, "a") and dtype(m).kind != "b", EXPLORE),
    _square_of(ops.add),
    _square_of(ops.subtract),
    Rule("power two: a**2 -> a*a", Op(ops.power, (A, N)),
         lambda m: call(ops.multiply, ex(m), ex(m)), "powers are repeated products",
         lambda m: _is_power(m, 2, 2), EXPLORE),
    Rule("power: a**n -> a * a**(n-1)", Op(ops.power, (A, N)),
         lambda m: call(ops.multiply, ex(m), call(
             ops.power, ex(m), const(literal(m).value - 1, literal(m).dtype))),
         "powers are repeated products", lambda m: _is_power(m, 3, 6), EXPLORE, True),
    Rule("divide by a power of two: a/n -> a*(1/n)", Op(ops.divide, (A, N)),
         lambda m: call(ops.multiply, ex(m), _number(m, 1 / float(literal(m).value))),
         "both are the same real number, rounded once", _divides_exactly, EXPLORE),
    Rule("divide: a/b -> a*(1/b)", Op(ops.divide, (A, B)),
         lambda m: call(ops.multiply, ex(m), call(ops.divide, _number(m, 1), ex(m, "b"))),
         "definition of division",
         lambda m: _is_field(m, "a", "b") and not is_literal(ex(m)), EXPLORE, True),
    Rule("divide: a*(1/b) -> a/b", Op(ops.multiply, (A, Op(ops.divide, (N, B)))),
         lambda m: call(ops.divide, ex(m), ex(m, "b")), "definition of division",
         lambda m: _is_field(m, "a", "b", "n") and literal(m).value == 1, EXPLORE, True),
    Rule("exp(a)*exp(b) -> exp(a+b)",
         Op(ops.multiply, (Op(ops.exp, (A,)), Op(ops.exp, (B,)))),
         lambda m: call(ops.exp, call(ops.add, ex(m), ex(m, "b"))),
         "exp takes sums to products", lambda m: _is_field(m, "a", "b"), EXPLORE, True),
    Rule("exp(a+b) -> exp(a)*exp(b)", Op(ops.exp, (Op(ops.add, (A, B)),)),
         lambda m: call(ops.multiply, call(ops.exp, ex(m)), call(ops.exp, ex(m, "b"))),
         "exp takes sums to products; only where neither overflows",
         lambda m: _is_field(m, "a", "b") and _has(m, "bounded", "a", "b"), EXPLORE, True),
    Rule("exp(a-b) -> exp(a)/exp(b)", Op(ops.exp, (Op(ops.subtract, (A, B)),)),
         lambda m: call(ops.divide, call(ops.exp, ex(m)), call(ops.exp, ex(m, "b"))),
         "exp takes differences to quotients; only where neither overflows",
         lambda m: _is_field(m, "a", "b") and _has(m, "bounded", "a", "b"), EXPLORE, True),
    Rule("log(a*b) -> log(a) + log(b)", Op(ops.log, (Op(ops.multiply, (A, B)),)),
         lambda m: call(ops.add, call(ops.log, ex(m)), call(ops.log, ex(m, "b"))),
         "log takes products of positive numbers to sums",
         lambda m: _is_field(m, "a", "b") and _has(m, "positive", "a", "b"), EXPLORE, True),
    Rule("log(a/b) -> log(a) - log(b)", Op(ops.log, (Op(ops.divide, (A, B)),)),
         lambda m: call(ops.subtract, call(ops.log, ex(m)), call(ops.log, ex(m, "b"))),
         "log takes quotients of positive numbers to differences",
         lambda m: _is_field(m, "a", "b") and _has(m, "positive", "a", "b"), EXPLORE, True),
    Rule("log(exp(a)) -> a", Op(ops.log, (Op(ops.exp, (A,)),)), ex,
         "log is the inverse of exp on real numbers where exp does not overflow",
         lambda m: one_dtype(m, "a") and dtype(m).kind == "f" and _has(m, "bounded", "a"),
         EXPLORE, True),
    Rule("exp(log(a)) -> a", Op(ops.exp, (Op(ops.log, (A,)),)), ex,
         "exp is the inverse of log on positive numbers",
         lambda m: one_dtype(m, "a") and dtype(m).kind == "f" and _has(m, "positive", "a"),
         EXPLORE, True),
)
