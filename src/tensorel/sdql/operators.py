"""Operators and functions of SDQLite on sums of terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from tensorel.algebra import ops
from tensorel.errors import ParseError, TensorelError
from tensorel.ir import nodes as ir
from tensorel.ir.build import convert
from tensorel.ir.ranges import Range
from tensorel.sdql.functions import OPERATORS, ROUNDING, SEMIRINGS
from tensorel.sdql.scalars import (
    adder,
    arithmetic,
    call,
    every_second_bit,
    times,
    truth,
    widened,
    zero_of,
)
from tensorel.sdql.syntax import Binary, Call, Expr, Promote, Unary
from tensorel.sdql.terms import Space, Term, Value, scalar
from tensorel.sdql.typing import COMPARISONS, Types, is_zero

Env = Mapping[str, Value]
_COMPARE = {"==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
            ">": ops.greater, ">=": ops.greater_equal}
_DIVIDE = {"/": ops.divide, "%": ops.remainder}


class Operators:
    """Values of expressions from the values of their parts. ``types`` are those of the core,
    ``text`` is what errors show."""

    def __init__(self, types: Types, text: str, space: Space) -> None:
        self.types = types
        self.text = text
        self.space = space

    def of(self, e: Expr, env: Env) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def fail(self, message: str, e: Expr, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=e.at, hint=hint)

    def hull(self, e: Expr, value: Value, level: int = 0) -> Range:
        found = self.space.hull(value, level)
        if found is None:
            self.fail("the keys here have no bounds that can be seen", e,
                      "declare the extents: CREATE TENSOR T(n) AS ...")
        return found

    def scalar(self, e: Expr, env: Env) -> ir.Expr:
        """The expression of a scalar."""
        return self.space.expr(self.of(e, env))

    def tests(self, e: Expr, env: Env) -> list[ir.Expr]:
        """The parts of a conjunction."""
        if isinstance(e, Binary) and e.op == "&&":
            return self.tests(e.left, env) + self.tests(e.right, env)
        return [truth(self.scalar(e, env))]

    def cast(self, e: Expr, value: Value, into: Expr) -> Value:
        """The value of a part in the kind of the whole; the literal 0 is any zero."""
        wanted = self.types[into]
        if is_zero(e) and (wanted.depth or wanted.kind in SEMIRINGS):
            return Value(wanted.kind, wanted.depth, ())
        return self.cast_to(value, wanted.kind)

    def cast_to(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        terms = [Term(t.over, t.guards, t.keys, widened(t.value, kind), t.told)
                 for t in value.terms]
        return Value(kind, value.depth, tuple(terms), value.domain)

    def joined(self, kind: str, a: Value, b: Value) -> Value:
        """The sum of two values of one type."""
        if a.depth or b.depth:
            return Value(kind, max(a.depth, b.depth), a.terms + b.terms)
        both = [self.space.expr(v) for v in (a, b) if v.terms]
        if len(both) < 2:
            return Value(kind, 0, a.terms + b.terms)
        return scalar(arithmetic(adder(kind), *both), kind)

    def unary(self, e: Unary, env: Env) -> Value:
        if e.op == "!":
            return scalar(call(ops.logical_not, truth(self.scalar(e.arg, env))), "bool")
        value = self.space.plain(self.cast(e.arg, self.of(e.arg, env), e))
        return self.mapped(value, lambda x: call(ops.negative, x))

    def mapped(self, value: Value, f: Callable[[ir.Expr], ir.Expr]) -> Value:
        """A linear function of every value."""
        terms = [Term(t.over, t.guards, t.keys, f(t.value), t.told) for t in value.terms]
        return Value(value.kind, value.depth, tuple(terms))

    def binary(self, e: Binary, env: Env) -> Value:
        if e.op in COMPARISONS:
            return scalar(self.comparison(e, env), "bool")
        if e.op in ("&&", "||"):
            tests = [truth(self.scalar(p, env)) for p in (e.left, e.right)]
            op = ops.logical_and if e.op == "&&" else ops.logical_or
            return scalar(call(op, *tests), "bool")
        kind = self.types[e].kind
        left, right = self.of(e.left, env), self.of(e.right, env)
        if e.op in ("+", "-"):
            left = self.space.plain(self.cast(e.left, left, e))
            right = self.space.plain(self.cast(e.right, right, e))
            if e.op == "-":
                right = self.mapped(right, lambda x: call(ops.negative, x))
            return self.joined(kind, left, right)
        left, right = (self.space.plain(self.cast_to(v, kind)) for v in (left, right))
        if e.op == "*":
            return self.product(e, left, right)
        return self.quotient(e, left, self.space.expr(right))

    def quotient(self, e: Binary, a: Value, by: ir.Expr) -> Value:
        kind = a.kind
        op = ops.floor_divide if kind == "int" and e.op == "/" else _DIVIDE[e.op]
        if not a.depth:
            return scalar(arithmetic(op, self.space.expr(a), by), kind)
        sure = kind == "int" or (isinstance(by, ir.Const) and by.value != 0)
        return self.divided(self.grouped_by(e, a), op, by, sure)

    def divided(self, value: Value, op: ops.Operator, by: ir.Expr, sure: bool) -> Value:
        """A key without a value has none after the division, by 0 or not (``sure``: not)."""
        terms = [
            Term(t.over, t.guards if sure else (*t.guards, truth(t.value)), t.keys,
                 arithmetic(op, t.value, by), t.told)
            for t in value.terms
        ]
        return Value(value.kind, value.depth, tuple(terms))

    def comparison(self, e: Binary, env: Env) -> ir.Expr:
        a, b = self.of(e.left, env), self.of(e.right, env)
        left, right = self.space.expr(a), self.space.expr(b)
        if is_zero(e.left) and b.kind in SEMIRINGS:
            left = zero_of(b.kind, right.dtype)
        if is_zero(e.right) and a.kind in SEMIRINGS:
            right = zero_of(a.kind, left.dtype)
        return self.checked(e, _COMPARE[e.op], left, right)

    def checked(self, e: Expr, op: ops.Operator, *args: ir.Expr) -> ir.Expr:
        """A call whose operator may refuse the dtypes (an order of complex numbers)."""
        try:
            return arithmetic(op, *args) if len(args) == 2 else call(op, *args)
        except TensorelError as error:
            self.fail(error.message, e, error.hint)

    def product(self, e: Expr, a: Value, b: Value) -> Value:
        if a.depth and b.depth:
            return self.pointwise(e, a, b)
        if b.depth:
            return self.scaled(b, a, flip=True)
        return self.scaled(a, b)

    def scaled(self, value: Value, factor: Value, flip: bool = False) -> Value:
        """Every value times a scalar, whose guards join those of the terms."""
        guards: tuple[ir.Expr, ...] = ()
        if len(factor.terms) == 1 and not factor.terms[0].over:
            guards, by = factor.terms[0].guards, factor.terms[0].value
        else:
            by = self.space.expr(factor)
        if not value.depth and any(t.over for t in value.terms):
            value = scalar(self.space.expr(value), value.kind)
        kind = value.kind
        terms = [
            Term(t.over, (*guards, *t.guards), t.keys,
                 times(kind, by, t.value) if flip else times(kind, t.value, by), t.told)
            for t in value.terms
        ]
        return Value(kind, value.depth, tuple(terms))

    def pointwise(self, e: Expr, a: Value, b: Value) -> Value:
        """The product at each key that both may have."""
        keys: list[ir.Index] = []
        while a.depth:
            first, second = self.hull(e, a), self.hull(e, b)
            keys.append(self.space.fresh(max(first[0], second[0]), min(first[1], second[1])))
            a, b = self.space.inner(a, keys[-1]), self.space.inner(b, keys[-1])
        return self.keyed(self.scaled(a, b), keys)

    def keyed(self, inner: Value, keys: Sequence[ir.Index]) -> Value:
        """The dictionary of scalars at summed keys."""
        over = tuple([k.name for k in keys])
        terms = [Term(over + t.over, t.guards, tuple(keys), t.value) for t in inner.terms]
        return Value(inner.kind, len(keys), self.space.solved(terms))

    def grouped_by(self, e: Expr, value: Value) -> Value:
        """The dictionary as a function of its keys: one scalar at each."""
        keys: list[ir.Index] = []
        while value.depth:
            keys.append(self.space.fresh(*self.hull(e, value)))
            value = self.space.inner(value, keys[-1])
        return self.keyed(scalar(self.space.expr(value), value.kind), keys)

    def function(self, e: Call | Promote, env: Env) -> ir.Expr:
        kind = self.types[e].kind
        if isinstance(e, Promote):
            arg = self.scalar(e.body, env)
            return truth(arg) if kind == "bool" else widened(arg, "real")
        args = [self.scalar(a, env) for a in e.args]
        if e.function == "int":
            return convert(args[0], ir.INT64)
        if e.function == "real":
            return widened(args[0], "real")
        args = [widened(a, kind) for a in args]
        if e.function in ("even_bits", "odd_bits"):
            return self.bits(args[0], e.function == "odd_bits")
        if e.function in ROUNDING and kind == "int":
            return args[0]
        return self.checked(e, OPERATORS[e.function], *args)

    def bits(self, arg: ir.Expr, odd: bool) -> ir.Expr:
        """Every second bit; half as many as the argument can have."""
        known = self.space.range_of(arg)
        if known is None or known[0] < 0:
            return every_second_bit(arg, odd)
        return every_second_bit(arg, odd, (known[1].bit_length() + (not odd)) // 2)
