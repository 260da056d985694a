"""From the core to the calculus: each form is an operation of ``language.Builder``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.errors import TensorelError
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, convert
from tensorel.language.builder import Builder, Hints
from tensorel.language.dictionaries import Value, scalar
from tensorel.language.scalars import BOOL, INT, REAL, Semiring, arithmetic, call, truth
from tensorel.sdql import syntax as s
from tensorel.sdql.functions import KINDS, OPERATORS, ROUNDING, SEMIRINGS
from tensorel.sdql.linear import is_linear
from tensorel.sdql.typing import COMPARISONS, Types, is_zero
from tensorel.sdql.zeros import vanishes

Env = Mapping[str, Value]
HINTS = Hints(
    "declare the extents: CREATE TENSOR T(n) AS ...",
    "bounds are made of numbers, int scalars, keys and int arrays",
    "a tensor has keys from 0 on: shift them, or if (k >= 0) then")
_COMPARE = {"==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
            ">": ops.greater, ">=": ops.greater_equal}
_BIT_MASKS = (0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF)


class Lowering:
    """One expression of a program. ``types``: those of the core."""

    def __init__(self, types: Types, builder: Builder) -> None:
        self.types = types
        self.builder = builder

    def fail(self, message: str, e: s.Expr, hint: str | None = None) -> NoReturn:
        self.builder.fail(message, e.at, hint)

    def of(self, e: s.Expr, env: Env) -> Value:
        """The value of an expression."""
        build = self.builder
        match e:
            case s.Number():
                return scalar(ir.const(e.value, KINDS[e.kind].dtype), KINDS[e.kind])
            case s.Name():
                return env[e.name]
            case s.Unary():
                return self.unary(e, env)
            case s.Binary():
                return self.binary(e, env)
            case s.Call() | s.Promote():
                return scalar(self.function(e, env), self.kind(e))
            case s.Range():
                return build.span(self.scalar(e.low, env), self.scalar(e.high, env), e.at)
            case s.Apply():
                return build.lookup(self.of(e.target, env), self.scalar(e.keys[0], env))
            case s.Slice():
                target = self.of(e.target, env)
                return build.slice(
                    target, self.scalar(e.low, env), self.scalar(e.high, env), e.at)
            case s.If():
                return self.branch(e, env)
            case s.Let():
                (name, value), = e.bindings
                found = self.of(value, env)
                if sum(p == s.Name(name) for p in s.walk(e.body)) > 1:
                    found = build.shared(found)
                return self.of(e.body, {**env, name: found})
            case s.Sum():
                source = self.of(e.generators[0].source, env)
                none = Value(self.kind(e), self.types[e].depth, ())
                return build.sum(source, _Body(self, e, env), none, e.generators[0].source.at)
            case s.Dict():
                (entry,) = e.entries
                key = self.scalar(entry.keys[0], env)
                return build.entry(key, self.of(entry.value, env), "unique" in entry.marks)
            case _:
                raise TypeError(f"{type(e).__name__} is not of the core")

    def kind(self, e: s.Expr) -> Semiring:
        return KINDS[self.types[e].kind]

    def scalar(self, e: s.Expr, env: Env) -> ir.Expr:
        """The expression of a scalar."""
        return self.builder.expr(self.of(e, env))

    def part(self, e: s.Expr, env: Env, whole: s.Expr) -> Value:
        """A part in the kind of the whole; the literal 0 is any zero."""
        value, wanted = self.of(e, env), self.types[whole]
        if is_zero(e) and (wanted.depth or wanted.kind in SEMIRINGS):
            return Value(self.kind(whole), wanted.depth, ())
        return self.builder.cast(value, self.kind(whole), e.at)

    # -- conditions --------------------------------------------------------------------------
    def branch(self, e: s.If, env: Env) -> Value:
        tests = self.tests(e.test, env)
        then = self.part(e.then, env, e)
        if e.otherwise is None:
            return self.builder.guarded(then, *tests)
        return self.builder.choice(tests, then, self.part(e.otherwise, env, e))

    def tests(self, e: s.Expr, env: Env) -> list[ir.Expr]:
        """The parts of a conjunction."""
        if isinstance(e, s.Binary) and e.op == "&&":
            return self.tests(e.left, env) + self.tests(e.right, env)
        return [truth(self.scalar(e, env))]

    def comparison(self, e: s.Binary, env: Env) -> ir.Expr:
        a, b = self.of(e.left, env), self.of(e.right, env)
        left, right = self.builder.expr(a), self.builder.expr(b)
        if is_zero(e.left) and b.kind.zero:
            left = b.kind.zero_in(right.dtype)
        if is_zero(e.right) and a.kind.zero:
            right = a.kind.zero_in(left.dtype)
        return self.checked(e, _COMPARE[e.op], left, right)

    # -- arithmetic --------------------------------------------------------------------------
    def unary(self, e: s.Unary, env: Env) -> Value:
        if e.op == "!":
            return scalar(call(ops.logical_not, truth(self.scalar(e.arg, env))), BOOL)
        return self.negated(self.builder.plain(self.part(e.arg, env, e)))

    def negated(self, value: Value) -> Value:
        return value.mapped(lambda x: call(ops.negative, x))

    def binary(self, e: s.Binary, env: Env) -> Value:
        if e.op in COMPARISONS:
            return scalar(self.comparison(e, env), BOOL)
        build = self.builder
        if e.op in ("&&", "||"):
            tests = [truth(self.scalar(p, env)) for p in (e.left, e.right)]
            op = ops.logical_and if e.op == "&&" else ops.logical_or
            return scalar(call(op, *tests), BOOL)
        if e.op in ("+", "-"):
            left, right = (build.plain(self.part(p, env, e)) for p in (e.left, e.right))
            return build.plus(left, self.negated(right) if e.op == "-" else right)
        kind = self.kind(e)
        left, right = (
            build.plain(build.cast(self.of(p, env), kind, p.at)) for p in (e.left, e.right))
        if e.op == "*":
            return build.times(left, right, e.at)
        divide = ops.floor_divide if kind is INT else ops.divide
        return build.divided(left, ops.remainder if e.op == "%" else divide, build.expr(right),
                             e.at)

    # -- functions ---------------------------------------------------------------------------
    def function(self, e: s.Call | s.Promote, env: Env) -> ir.Expr:
        kind = self.kind(e)
        if isinstance(e, s.Promote):
            arg = self.scalar(e.body, env)
            return truth(arg) if kind is BOOL else REAL.widened(arg)
        args = [self.scalar(a, env) for a in e.args]
        if e.function == "int":
            return convert(args[0], ir.INT64)
        if e.function == "real":
            return REAL.widened(args[0])
        args = [kind.widened(a) for a in args]
        if e.function in ("even_bits", "odd_bits"):
            return self.bits(args[0], e.function == "odd_bits")
        if e.function in ROUNDING and kind is INT:
            return args[0]
        return self.checked(e, OPERATORS[e.function], *args)

    def checked(self, e: s.Expr, op: ops.Operator, *args: ir.Expr) -> ir.Expr:
        """A call whose operator may refuse the dtypes (an order of complex numbers)."""
        try:
            return arithmetic(op, *args) if len(args) == 2 else call(op, *args)
        except TensorelError as error:
            self.fail(error.message, e, error.hint)

    def bits(self, e: ir.Expr, odd: bool) -> ir.Expr:
        """Bits 0, 2, 4, ... (odd: 1, 3, 5, ...) of a whole number, side by side: half as many as
        it can have."""
        known = self.builder.indices.range_of(e)
        bits = 32 if known is None or known[0] < 0 else (known[1].bit_length() + (not odd)) // 2
        if odd:
            e = call(ops.right_shift, e, as_expr(1))
        e = call(ops.bitwise_and, e, as_expr(0x5555555555555555))
        for k, mask in enumerate((*_BIT_MASKS, (1 << bits) - 1)):
            moved = call(ops.right_shift, e, as_expr(1 << k))
            e = call(ops.bitwise_and, call(ops.bitwise_or, e, moved), as_expr(mask))
        return e


@dataclass(frozen=True, eq=False)
class _Body:
    """The body of a sum, in the environment around it."""

    lowering: Lowering
    e: s.Sum
    env: Env

    @property
    def nested(self) -> bool:
        return any(isinstance(p, s.Sum) for p in s.walk(self.e.body))

    def of(self, key: ir.Expr, value: Value) -> Value:
        (g,) = self.e.generators
        inner = {**self.env, g.keys[0]: scalar(key, INT), g.value: value}
        return self.lowering.of(self.e.body, inner)

    def is_linear(self, distinct: bool) -> bool:
        return is_linear(self.e.body, self.e.generators[0].value, self.lowering.types, distinct)

    def vanishes(self) -> bool:
        names = frozenset({self.e.generators[0].value})
        return vanishes(self.e.body, names, self.lowering.types)
