"""From the core to the calculus: every expression is a sum of terms (``terms``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from tensorel.algebra import ops
from tensorel.errors import ParseError, TensorelError
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, compare, convert, minus, plus
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
from tensorel.sdql.syntax import (
    Apply,
    Binary,
    Call,
    Dict,
    Expr,
    If,
    Let,
    Name,
    Number,
    Promote,
    Slice,
    Sum,
    Unary,
)
from tensorel.sdql.syntax import Range as Span
from tensorel.sdql.terms import Domain, Space, Term, Value, canonical, scalar
from tensorel.sdql.typing import COMPARISONS, Types, is_zero
from tensorel.sdql.zeros import vanishes

Env = Mapping[str, Value]
_COMPARE = {"==": ops.equal, "!=": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
            ">": ops.greater, ">=": ops.greater_equal}
_DIVIDE = {"/": ops.divide, "%": ops.remainder}


class Lowering:
    """One program. ``types`` are those of its core, ``text`` is what errors show."""

    def __init__(self, types: Types, text: str, space: Space) -> None:
        self.types = types
        self.text = text
        self.space = space

    def fail(self, message: str, e: Expr, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=e.at, hint=hint)

    def result(self, root: Expr, value: Value, extents: Sequence[int] | None = None) -> ir.Tensor:
        """The tensor of a value; keys outside of given extents are left out."""
        space, value = self.space, self.space.plain(value)
        shape = []
        for level in range(value.depth):
            if extents is None:
                found = self.hull(root, value, level)
                if found[0] < 0:
                    self.fail(f"keys may be negative, from {found[0]} to {found[1]}", root,
                              "a tensor has keys from 0 on: shift them, or if (k >= 0) then")
                shape.append(found[1] + 1)
            else:
                shape.append(extents[level])
        keys = [space.fresh(0, n - 1) for n in shape]
        for key in keys:
            value = space.inner(value, key)
        return self.formula(keys, space.expr(value))

    def formula(self, keys: Sequence[ir.Index], body: ir.Expr) -> ir.Lambda:
        """The tensor with the entries ``body`` at the keys, each from the start of its range."""
        bounds = [self.space.bounds[k.name] for k in keys]
        moved = {k.name: plus(k, low) for k, (low, _) in zip(keys, bounds)}
        body = canonical(tuple([k.name for k in keys]), ir.substitute(body, moved))
        axes = [ir.Axis(f"i{k}", high - low + 1) for k, (low, high) in enumerate(bounds)]
        return ir.Lambda(tuple(axes), body)

    def hull(self, e: Expr, value: Value, level: int = 0) -> Range:
        found = self.space.hull(value, level)
        if found is None:
            self.fail("the keys here have no bounds that can be seen", e,
                      "declare the extents: CREATE TENSOR T(n) AS ...")
        return found

    # -- expressions ---------------------------------------------------------------------------
    def of(self, e: Expr, env: Env) -> Value:
        """The value of an expression."""
        match e:
            case Number():
                dtype = {"int": ir.INT64, "bool": ir.BOOL}.get(e.kind, ops.FLOAT64)
                return scalar(ir.const(e.value, dtype), e.kind)
            case Name():
                return env[e.name]
            case Unary():
                return self.unary(e, env)
            case Binary():
                return self.binary(e, env)
            case Call() | Promote():
                return scalar(self.function(e, env), self.types[e].kind)
            case Span():
                low, high = self.scalar(e.low, env), self.scalar(e.high, env)
                k = self.positions(e, low, high)
                return Value("int", 1, (Term((k.name,), (), (k,), k),), Domain(low, high))
            case Apply():
                return self.space.at(self.of(e.target, env), self.scalar(e.keys[0], env))
            case Slice():
                return self.slice(e, env)
            case If():
                return self.branch(e, env)
            case Let():
                (name, value), = e.bindings
                return self.of(e.body, {**env, name: self.grouped(self.of(value, env))})
            case Sum():
                return self.sum(e, env)
            case Dict():
                key = self.scalar(e.entries[0].keys[0], env)
                inner = self.space.plain(self.of(e.entries[0].value, env))
                terms = [Term(t.over, t.guards, (key, *t.keys), t.value) for t in inner.terms]
                return Value(inner.kind, inner.depth + 1, tuple(terms))
            case _:
                raise TypeError(f"{type(e).__name__} is not of the core")

    def scalar(self, e: Expr, env: Env) -> ir.Expr:
        """The expression of a scalar."""
        return self.space.expr(self.of(e, env))

    def positions(self, e: Expr, low: ir.Expr, high: ir.Expr) -> ir.Index:
        """An index for the positions low <= k < high."""
        first, last = self.space.range_of(low), self.space.range_of(high)
        if first is None or last is None:
            self.fail("the bounds of the range are not known before it runs", e,
                      "bounds are made of numbers, int scalars, keys and int arrays")
        return self.space.fresh(first[0], max(last[1] - 1, first[0] - 1))

    def slice(self, e: Slice, env: Env) -> Value:
        target = self.space.plain(self.of(e.target, env))
        low, high = self.scalar(e.low, env), self.scalar(e.high, env)
        k = self.positions(e, low, high)
        inner = self.space.inner(target, k)
        terms = [Term((k.name, *t.over), t.guards, (k, *t.keys), t.value) for t in inner.terms]
        return Value(target.kind, target.depth, tuple(terms), Domain(low, high))

    def sum(self, e: Sum, env: Env) -> Value:
        """The key becomes a summed index; the guards say where there is something to visit."""
        (g,) = e.generators
        space, source = self.space, self.grouped(self.of(g.source, env))
        guards: tuple[ir.Expr, ...] = ()
        if source.domain is not None:
            d = source.domain
            k = self.positions(g.source, d.low, d.high)
            guards = (*d.guards, compare(ops.less_equal, d.low, k), compare(ops.less, k, d.high))
            value = space.inner(source, k)
        else:
            k = space.fresh(*self.hull(g.source, source))
            value = space.inner(source, k)
            if not vanishes(e.body, frozenset({g.value}), self.types):
                guards = (self.present(g.source, value),)
        inner = {**env, g.keys[0]: scalar(k, "int"), g.value: value}
        body = space.plain(self.of(e.body, inner))
        terms = [Term((k.name, *t.over), (*guards, *t.guards), t.keys, t.value)
                 for t in body.terms]
        return Value(body.kind, body.depth, space.solved(terms))

    def present(self, e: Expr, value: Value) -> ir.Expr:
        """Some entry of the value is not zero."""
        keys = []
        while value.depth:
            keys.append(self.space.fresh(*self.hull(e, value)))
            value = self.space.inner(value, keys[-1])
        entry = self.space.expr(value)
        test = call(ops.not_equal, entry, zero_of(value.kind, entry.dtype))
        return self.space.expr(Value("bool", 0, (
            Term(tuple([k.name for k in keys]), (), (), test),)))

    def grouped(self, value: Value) -> Value:
        """A dictionary that several terms, or values of a summed index, may add to at one key is
        a tensor of its own, made once, if it depends on no index from outside."""
        if value.depth == 0 or value.domain is not None or plainly_keyed(value):
            return value
        free = {n for t in value.terms for e in (*t.guards, *t.keys, t.value) for n in e.free}
        if free - {n for t in value.terms for n in t.over}:
            return value
        spans = [self.space.hull(value, level) for level in range(value.depth)]
        keys: list[ir.Index] = []
        inner = value
        for span in spans:
            if span is None:
                return value
            keys.append(self.space.fresh(*span))
            inner = self.space.inner(inner, keys[-1])
        if len(inner.terms) < 2 and not any(t.over for t in inner.terms):
            return value
        return self.stored(inner, keys)

    def stored(self, inner: Value, keys: Sequence[ir.Index]) -> Value:
        """The dictionary of the scalars ``inner`` at ``keys``, as a tensor."""
        node = self.formula(keys, self.space.expr(inner))
        at = tuple([minus(k, self.space.bounds[k.name][0]) for k in keys])
        entry = ir.Read(node, at)
        return Value(inner.kind, len(keys), (
            Term(tuple([k.name for k in keys]), (), tuple(keys), entry),))

    def branch(self, e: If, env: Env) -> Value:
        space, kind = self.space, self.types[e].kind
        tests = self.tests(e.test, env)
        then = self.cast(e.then, self.of(e.then, env), e)
        then = space.guarded(then, *tests)
        if e.otherwise is None:
            return then
        whole = tests[0]
        for t in tests[1:]:
            whole = ir.Call(ops.logical_and, (whole, t))
        no = call(ops.logical_not, whole)
        rest = space.guarded(space.plain(self.cast(e.otherwise, self.of(e.otherwise, env), e)), no)
        return self.joined(kind, space.plain(then), rest)

    def joined(self, kind: str, a: Value, b: Value) -> Value:
        """The sum of two values of one type."""
        if a.depth or b.depth:
            return Value(kind, max(a.depth, b.depth), a.terms + b.terms)
        both = [self.space.expr(v) for v in (a, b) if v.terms]
        if len(both) < 2:
            return Value(kind, 0, a.terms + b.terms)
        return scalar(arithmetic(adder(kind), *both), kind)

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

    # -- operators -----------------------------------------------------------------------------
    def unary(self, e: Unary, env: Env) -> Value:
        if e.op == "!":
            return scalar(call(ops.logical_not, truth(self.scalar(e.arg, env))), "bool")
        value = self.space.plain(self.cast(e.arg, self.of(e.arg, env), e))
        return self.mapped(value, lambda x: call(ops.negative, x))

    def mapped(self, value: Value, f: Callable[[ir.Expr], ir.Expr]) -> Value:
        """A linear function of every value."""
        terms = [Term(t.over, t.guards, t.keys, f(t.value)) for t in value.terms]
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
                 arithmetic(op, t.value, by))
            for t in value.terms
        ]
        return Value(value.kind, value.depth, tuple(terms))

    def cast_to(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        terms = [Term(t.over, t.guards, t.keys, widened(t.value, kind)) for t in value.terms]
        return Value(kind, value.depth, tuple(terms), value.domain)

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
                 times(kind, by, t.value) if flip else times(kind, t.value, by))
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

    # -- functions -----------------------------------------------------------------------------
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
        found = every_second_bit(arg, odd)
        known = self.space.range_of(arg)
        if known is not None and known[0] >= 0 and not isinstance(found, ir.Const):
            self.space.facts[found] = 0, (1 << (known[1].bit_length() + (not odd)) // 2) - 1
        return found


def plainly_keyed(value: Value) -> bool:
    """One term, whose keys are all that it sums over: one scalar at each key."""
    return len(value.terms) == 1 and set(value.terms[0].over) <= {
        k.name for k in value.terms[0].keys if isinstance(k, ir.Index)}


def tensor(space: Space, node: ir.Tensor, kind: str, total: bool = False) -> Value:
    """A tensor as a value; ``total``: an ARRAY."""
    keys = tuple([space.fresh(0, n - 1) for n in node.shape])
    entry = widened(ir.Read(node, keys), kind)
    domain = Domain(as_expr(0), as_expr(node.shape[0])) if total else None
    return Value(kind, len(keys), (Term(tuple([k.name for k in keys]), (), keys, entry),), domain)
