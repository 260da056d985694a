"""Laws by which whole operands vanish. Each asks whether nan and inf can occur."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.nodes import Const, Expr, const
from tensorel.rewrite.engine import SIMPLIFY, Match, Op, Rule
from tensorel.rules.common import A, N, call, dtype, ex, given, literal, one_dtype, op
from tensorel.rules.table import declare


def _decides(m: Match) -> bool:
    """The literal is the annihilator of f on both sides."""
    return bool(op(m).annihilators[0] == literal(m).value)


def _is_decided(f: ops.Operator) -> bool:
    return f.arity == 2 and f.annihilators[:1] == f.annihilators[1:] and f.annihilators != ()


def _zero(m: Match) -> Const:
    value = op(m).annihilators[0]
    return const(value, dtype(m))


def _exactly(m: Match) -> bool:
    return _decides(m) and (op(m).exact_annihilators or dtype(m).kind in "biu")


def _finitely(m: Match) -> bool:
    return _decides(m) and dtype(m).kind in "fc" and one_dtype(m, "a") \
        and given(m).has("finite", ex(m))


def _is_finite(m: Match) -> bool:
    return one_dtype(m, "a") and given(m).has("finite", ex(m))


def _is_real(m: Match) -> bool:
    return one_dtype(m, "a") and dtype(m).kind in "iuf"


def _none(m: Match) -> Expr:
    return const(0, dtype(m))


declare(
    Rule("annihilate: f(a, z) -> z", Op("f", (A, N), _is_decided), _zero,
         "z annihilates every value", _exactly, SIMPLIFY),
    Rule("annihilate: f(z, a) -> z", Op("f", (N, A), _is_decided), _zero,
         "z annihilates every value", _exactly, SIMPLIFY),
    Rule("annihilate finite: f(a, z) -> z", Op("f", (A, N), _is_decided), _zero,
         "z annihilates finite numbers, up to the sign of zero", _finitely, SIMPLIFY, True),
    Rule("annihilate finite: f(z, a) -> z", Op("f", (N, A), _is_decided), _zero,
         "z annihilates finite numbers, up to the sign of zero", _finitely, SIMPLIFY, True),
    Rule("cancel: a - a -> 0", Op(ops.subtract, (A, A)), _none, "additive inverse of a finite a",
         _is_finite, SIMPLIFY),
    Rule("cancel: a ^ a -> 0", Op(ops.bitwise_xor, (A, A)), _none, "each bit is its own inverse",
         lambda m: one_dtype(m, "a"), SIMPLIFY),
    Rule("cancel: a / a -> 1", Op(ops.divide, (A, A)), lambda m: const(1, dtype(m)),
         "multiplicative inverse of a finite a that is not zero",
         lambda m: _is_finite(m) and dtype(m).kind == "f" and given(m).has("positive", ex(m)),
         SIMPLIFY),
    Rule("conjugate of a real: conjugate(a) -> a", Op(ops.conjugate, (A,)), ex,
         "real numbers are their own conjugates", _is_real, SIMPLIFY),
    Rule("real part of a real: real(a) -> a", Op(ops.real, (A,)), ex,
         "real numbers are their own real parts", _is_real, SIMPLIFY),
    Rule("absolute value twice: absolute(absolute(a)) -> absolute(a)",
         Op(ops.absolute, (Op(ops.absolute, (A,)),)), lambda m: call(ops.absolute, ex(m)),
         "a projection; the least integer stays what it is"),
)
