"""Rules from text: ``sqrt(square(a)) -> absolute(a)``.

Both sides are written in the calculus. A name stands for any expression, a literal for itself in
whatever dtype the match has. Reductions have indices and extents and are not said in text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tensorel.algebra.ops import DType
from tensorel.errors import ParseError, TypeError_
from tensorel.ir.nodes import Call, Const, Expr, Index, const
from tensorel.ir.parser import parse
from tensorel.ir.replacing import with_parts
from tensorel.rewrite.engine import SIMPLIFY, Lit, Match, Op, Pattern, Rule, Var


def rule(text: str, *, law: str, when: Callable[[Match], bool] | None = None,
         name: str | None = None, family: str = SIMPLIFY, reassociates: bool = False) -> Rule:
    """A rule read from text, to be given to ``tensorel.rules.add``.

    >>> rule("sqrt(square(a)) -> absolute(a)", law="for real a",
    ...      when=lambda m: m["a"].dtype.kind == "f").name
    'sqrt(square(a)) -> absolute(a)'
    """
    before, arrow, after = text.partition("->")
    if not arrow or "->" in after:
        raise ParseError("a rule is 'before -> after'", text=text, position=0)
    left, right = _side(before), _side(after)
    values: dict[str, Const] = {}
    pattern = _pattern(left, values)
    if not isinstance(pattern, Op):
        raise TypeError_(f"the left side of {text!r} is no operation",
                         hint="start from an operator, as in 'sqrt(square(a)) -> absolute(a)'")
    unknown = right.free - left.free
    if unknown:
        raise TypeError_(f"{', '.join(sorted(unknown))} stands only on the right of {text!r}")

    def applies(m: Match) -> bool:
        return all(_same(m[n], v) for n, v in values.items()) and (when is None or when(m))

    return Rule(name or text, pattern, lambda m: _build(right, m), law, applies, family,
                reassociates)


def _side(text: str) -> Expr:
    found = parse(text.strip())
    if not isinstance(found, Expr):
        raise TypeError_(f"{text.strip()!r} is a tensor where a rule needs a value")
    return found


def _pattern(e: Expr, values: dict[str, Const]) -> Pattern:
    match e:
        case Index(name):
            return Var(name)
        case Const():
            name = f"#{len(values)}"
            values[name] = e
            return Lit(name)
        case Call():
            return Op(e.op, tuple(_pattern(a, values) for a in e.args))
        case _:
            raise TypeError_("rules in text are over operators, names and literals",
                             hint="build a tensorel.rewrite.engine.Rule for reductions")


def _same(found: object, wanted: Const) -> bool:
    return isinstance(found, Const) and bool(found.value == wanted.value)


def _build(e: Expr, m: Match) -> Expr:
    dtype: DType = m["dtype"]  # type: ignore[assignment]
    match e:
        case Index(name):
            return m[name]  # type: ignore[return-value]
        case Const():
            return const(e.value, dtype)
        case _:
            return with_parts(e, partial(_build, m=m))


__all__ = ["rule"]
