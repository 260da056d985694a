"""What guards and builders of rules share."""

from __future__ import annotations

from typing import cast

from tensorel.algebra.ops import DType, Operator
from tensorel.ir.nodes import Axis, Call, Const, Expr, Reduce, const
from tensorel.rewrite.engine import Given, Lit, Match, Var

A, B, C, D = Var("a"), Var("b"), Var("c"), Var("d")
N = Lit("n")
Axes = tuple[Axis, ...]


def ex(m: Match, name: str = "a") -> Expr:
    return cast(Expr, m[name])


def op(m: Match, name: str = "f") -> Operator:
    return cast(Operator, m[name])


def literal(m: Match, name: str = "n") -> Const:
    return cast(Const, m[name])


def axes(m: Match, name: str = "axes") -> Axes:
    return cast(Axes, m[name])


def dtype(m: Match) -> DType:
    """The dtype of the whole match."""
    return cast(DType, m["dtype"])


def given(m: Match) -> Given:
    return cast(Given, m["given"])


def call(f: Operator, *args: Expr) -> Call:
    return Call(f, args)


def reduce(m: Operator, over: Axes, body: Expr) -> Expr:
    """A reduction, or the body itself if there is nothing to reduce over."""
    return Reduce(m, over, body) if over else body


def one_dtype(m: Match, *names: str) -> bool:
    """Whether these have the dtype of the whole: no conversion hides between them."""
    d = m["dtype"]
    return all(ex(m, n).dtype == d for n in names)


def names(over: Axes) -> frozenset[str]:
    return frozenset([a.name for a in over])


def nonempty(over: Axes) -> bool:
    return all(a.extent for a in over)


def semiring(times: Operator, plus: Operator, d: DType) -> bool:
    """Whether ``times`` distributes over ``plus`` from both sides."""
    return times.commutative and times.associative and times.distributes(plus, d)


def over(times: Operator, plus: Operator) -> bool:
    """For patterns with ``times`` at the root."""
    return plus.name in times.distributes_over


def below(plus: Operator, times: Operator) -> bool:
    """For patterns with ``plus`` at the root."""
    return plus.name in times.distributes_over


def identity(f: Operator, d: DType) -> Const:
    assert f.identity is not None
    return const(f.identity(d), d)


def is_literal(e: Expr) -> bool:
    return isinstance(e, Const)
