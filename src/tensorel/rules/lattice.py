"""Lattices: absorption, de Morgan, order and its negation."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.nodes import const
from tensorel.rewrite.engine import EXPLORE, SIMPLIFY, Match, Op, Red, Rule
from tensorel.rules.common import (
    A,
    B,
    C,
    N,
    axes,
    call,
    dtype,
    ex,
    given,
    literal,
    one_dtype,
    op,
    over,
    reduce,
)
from tensorel.rules.table import declare


def _no_nan(m: Match, *names: str) -> bool:
    return all(given(m).has("no_nan", ex(m, n)) for n in names)


def _absorbs(m: Match) -> bool:
    """f and g are the two operations of a distributive lattice, and b cannot spoil a with nan."""
    f, g, d = op(m), op(m, "g"), dtype(m)
    return f.idempotent and g.idempotent and f.distributes(g, d) and g.distributes(f, d) \
        and one_dtype(m, "a", "b") and _no_nan(m, "b")


def _absorption(swapped: bool) -> Rule:
    inner = Op("g", (B, A) if swapped else (A, B), under=over)
    shown = "g(b, a)" if swapped else "g(a, b)"
    return Rule(f"absorb: f(a, {shown}) -> a", Op("f", (A, inner), lambda f: f.idempotent), ex,
                "absorption in a lattice; of floats up to the sign of zero", _absorbs, SIMPLIFY,
                True)


def _de_morgan(outer: ops.Operator, inner: ops.Operator) -> tuple[Rule, Rule]:
    """Holds for every dtype: all three operators go by truth."""
    negation = ops.logical_not
    one, other = outer.symbol, inner.symbol
    return (
        Rule(f"de Morgan: not (a {one} b) -> not a {other} not b",
             Op(negation, (Op(outer, (A, B)),)),
             lambda m: call(inner, call(negation, ex(m)), call(negation, ex(m, "b"))),
             "de Morgan", family=EXPLORE),
        Rule(f"de Morgan: not a {one} not b -> not (a {other} b)",
             Op(outer, (Op(negation, (A,)), Op(negation, (B,)))),
             lambda m: call(negation, call(inner, ex(m), ex(m, "b"))),
             "de Morgan", family=EXPLORE),
    )


def _negated(compare: ops.Operator, opposite: ops.Operator, total: bool) -> Rule:
    """not (a < b) is a >= b unless one is nan; == and != are opposite for nan, too."""
    return Rule(f"not (a {compare.symbol} b) -> a {opposite.symbol} b",
                Op(ops.logical_not, (Op(compare, (A, B)),)),
                lambda m: call(opposite, ex(m), ex(m, "b")),
                "the order is total" if total else "definition of !=",
                lambda m: not total or (_no_nan(m, "a", "b") and ex(m).dtype.kind != "c"
                                        and ex(m, "b").dtype.kind != "c"), SIMPLIFY)


def _same(compare: ops.Operator, value: bool) -> Rule:
    """Comparing with itself; nan equals nothing, but it is not less than itself either."""
    always = compare in (ops.less, ops.greater)
    return Rule(f"a {compare.symbol} a -> {value}", Op(compare, (A, A)),
                lambda m: const(value), "the order is reflexive" if value else "and irreflexive",
                lambda m: always or _no_nan(m, "a"), SIMPLIFY)


def _turned(outer: ops.Operator, inner: ops.Operator) -> tuple[Rule, Rule]:
    """-min(a, b) = max(-a, -b) for floats; the least integer has no negative."""
    def is_float(m: Match) -> bool:
        return one_dtype(m, "a") and dtype(m).kind == "f"

    return (
        Rule(f"{outer.name}(-a, -b) -> -{inner.name}(a, b)",
             Op(outer, (Op(ops.negative, (A,)), Op(ops.negative, (B,)))),
             lambda m: call(ops.negative, call(inner, ex(m), ex(m, "b"))),
             "negation turns the order round",
             lambda m: is_float(m) and one_dtype(m, "b"), EXPLORE, True),
        Rule(f"reduce {outer.name}(-a) -> -reduce {inner.name}(a)",
             Red(outer, "axes", Op(ops.negative, (A,))),
             lambda m: call(ops.negative, reduce(inner, axes(m), ex(m))),
             "negation turns the order round", is_float, EXPLORE, True),
    )


def _is_scale(m: Match) -> bool:
    """a > 0 and finite: a*b grows with b, and rounding keeps the order."""
    return one_dtype(m, "a", "b") and dtype(m).kind == "f" and all(
        given(m).has(f, ex(m)) for f in ("positive", "finite"))


def _scaled(choose: ops.Operator, opposite: ops.Operator) -> tuple[Rule, ...]:
    """MatRel's equations 24 and 25, for one reduction."""
    law = "multiplication by a positive number keeps the order"

    def moves(m: Match) -> bool:
        return _is_scale(m) and ex(m).free.isdisjoint([x.name for x in axes(m)]) \
            and all(x.extent for x in axes(m))

    def turns(m: Match) -> bool:
        value = literal(m).value
        return one_dtype(m, "n", "b") and dtype(m).kind == "f" and bool(-np.inf < value < 0) \
            and all(x.extent for x in axes(m))

    return (
        Rule(f"reduce {choose.name}(a*b) -> a*reduce {choose.name}(b), a > 0",
             Red(choose, "axes", Op(ops.multiply, (A, B))),
             lambda m: call(ops.multiply, ex(m), reduce(choose, axes(m), ex(m, "b"))),
             law, moves, EXPLORE, True),
        Rule(f"reduce {choose.name}(n*b) -> n*reduce {opposite.name}(b), n < 0",
             Red(choose, "axes", Op(ops.multiply, (N, B))),
             lambda m: call(ops.multiply, literal(m), reduce(opposite, axes(m), ex(m, "b"))),
             "multiplication by a negative number turns the order round", turns, EXPLORE, True),
        Rule(f"{choose.name}(a*b, a*c) -> a*{choose.name}(b, c), a > 0",
             Op(choose, (Op(ops.multiply, (A, B)), Op(ops.multiply, (A, C)))),
             lambda m: call(ops.multiply, ex(m), call(choose, ex(m, "b"), ex(m, "c"))),
             law, lambda m: _is_scale(m) and one_dtype(m, "c"), EXPLORE, True),
    )


declare(
    _absorption(False),
    _absorption(True),
    Rule("excluded middle: a or not a -> True", Op(ops.logical_or, (A, Op(ops.logical_not, (A,)))),
         lambda m: const(True), "complement"),
    Rule("contradiction: a and not a -> False",
         Op(ops.logical_and, (A, Op(ops.logical_not, (A,)))),
         lambda m: const(False), "complement"),
    _negated(ops.equal, ops.not_equal, False),
    _negated(ops.not_equal, ops.equal, False),
    _negated(ops.less, ops.greater_equal, True),
    _negated(ops.less_equal, ops.greater, True),
    _negated(ops.greater, ops.less_equal, True),
    _negated(ops.greater_equal, ops.less, True),
    _same(ops.equal, True),
    _same(ops.less_equal, True),
    _same(ops.greater_equal, True),
    _same(ops.not_equal, False),
    _same(ops.less, False),
    _same(ops.greater, False),
    *_de_morgan(ops.logical_and, ops.logical_or),
    *_de_morgan(ops.logical_or, ops.logical_and),
    *_turned(ops.minimum, ops.maximum),
    *_turned(ops.maximum, ops.minimum),
    *_scaled(ops.minimum, ops.maximum),
    *_scaled(ops.maximum, ops.minimum),
)
