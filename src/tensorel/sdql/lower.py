"""From the core to the calculus: every expression is a sum of terms (``terms``)."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.algebra import ops
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, compare, minus, plus
from tensorel.sdql.linear import is_linear
from tensorel.sdql.operators import Env, Operators
from tensorel.sdql.scalars import call, widened, zero_of
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
    walk,
)
from tensorel.sdql.syntax import Range as Span
from tensorel.sdql.terms import Domain, Space, Term, Value, canonical, extent, scalar
from tensorel.sdql.zeros import vanishes

#: A sum without sums inside is written out for so many terms of what it visits, others for one:
#: nested, they would multiply.
FUSED = 4


class Lowering(Operators):
    """One program."""

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

    def declared(self, root: Expr, value: Value, extents: tuple[int, ...]) -> Value:
        """The value with keys below the extents: as it is where that can be seen."""
        value = self.space.plain(value)
        ranges = [(k, self.space.range_of(k, t.guards), n) for t in value.terms
                  for k, n in zip(t.keys, extents)]
        if all(r is not None and r[0] >= 0 and (
                r[1] == n - 1 if isinstance(k, ir.Index) else r[1] < n) for k, r, n in ranges):
            return self.shared(Value(value.kind, value.depth, value.terms, None, extents))
        return tensor(self.space, self.result(root, value, extents), value.kind)

    def formula(self, keys: Sequence[ir.Index], body: ir.Expr) -> ir.Lambda:
        """The tensor with the entries ``body`` at the keys, each from the start of its range."""
        bounds = [self.space.bounds[k.name] for k in keys]
        moved = {k.name: plus(k, low) for k, (low, _) in zip(keys, bounds)}
        body = canonical(tuple([k.name for k in keys]), ir.substitute(body, moved))
        axes = [ir.Axis(f"i{k}", extent(b)) for k, b in enumerate(bounds)]
        return ir.Lambda(tuple(axes), body)

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
                target, key = self.of(e.target, env), self.scalar(e.keys[0], env)
                return self.space.at(self.grouped(target) if key.free else target, key)
            case Slice():
                return self.slice(e, env)
            case If():
                return self.branch(e, env)
            case Let():
                (name, value), = e.bindings
                found = self.of(value, env)
                if sum(p == Name(name) for p in walk(e.body)) > 1:
                    found = self.shared(found)
                return self.of(e.body, {**env, name: found})
            case Sum():
                return self.sum(e, env)
            case Dict():
                key = self.scalar(e.entries[0].keys[0], env)
                told = "unique" in e.entries[0].marks
                inner = self.space.plain(self.of(e.entries[0].value, env))
                terms = [Term(t.over, t.guards, (key, *t.keys), t.value, (told, *t.told))
                         for t in inner.terms]
                return Value(inner.kind, inner.depth + 1, tuple(terms))
            case _:
                raise TypeError(f"{type(e).__name__} is not of the core")

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
        terms = [Term((k.name, *t.over), t.guards, (k, *t.keys), t.value, (False, *t.told))
                 for t in inner.terms]
        return Value(target.kind, target.depth, tuple(terms), Domain(low, high))

    def sum(self, e: Sum, env: Env) -> Value:
        """The key becomes a summed index; the guards say where there is something to visit."""
        (g,) = e.generators
        space, source = self.space, self.of(g.source, env)
        if source.domain is None:
            distinct = len(source.terms) == 1 and source.terms[0].distinct
            if len(source.terms) <= (1 if has_sum(e.body) else FUSED) and (
                    (distinct and source.depth == 1)
                    or is_linear(e.body, g.value, self.types, distinct)):
                return self.entries(e, source, env)
        source = self.grouped(source)
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
        return self.over(Term((k.name,), guards, (), k), body)

    def entries(self, e: Sum, source: Value, env: Env) -> Value:
        """A sum over the entries that make the source: its body is linear in the value, or each
        key has one entry at most."""
        (g,) = e.generators
        whole = source.depth > 1 or vanishes(e.body, frozenset({g.value}), self.types)
        found: Value | None = None
        for t in source.terms:
            t = self.space.renamed(t)
            if source.extents and not isinstance(t.keys[0], ir.Index):
                self.space.facts[t.keys[0]] = 0, source.extents[0] - 1
            rest = Value(source.kind, source.depth - 1, (
                Term((), (), t.keys[1:], t.value, t.told[1:]),), None, source.extents[1:])
            inner = {**env, g.keys[0]: scalar(t.keys[0], "int"), g.value: rest}
            if not whole:
                t = Term(t.over, (*t.guards, self.present(g.source, rest)), t.keys, t.value)
            body = self.over(t, self.space.plain(self.of(e.body, inner)))
            found = body if found is None else Value(
                body.kind, body.depth, found.terms + body.terms)
        return Value(self.types[e].kind, self.types[e].depth, ()) if found is None else found

    def over(self, outer: Term, body: Value) -> Value:
        """The body summed over the indices of a term, where its guards hold."""
        terms = [Term(outer.over + t.over, outer.guards + t.guards, t.keys, t.value, t.told)
                 for t in body.terms]
        return Value(body.kind, body.depth, self.space.solved(terms))

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
        known = self.space.groups.get(id(value))
        if known is None:
            known = self.space.groups[id(value)] = value, self.group(value)
        return known[1]

    def shared(self, value: Value) -> Value:
        """What several places use is made once, unless its keys are data: then each place had
        better walk the data."""
        by_index = all(isinstance(k, ir.Index) for t in value.terms for k in t.keys)
        return self.grouped(value) if by_index else value

    def group(self, value: Value) -> Value:
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


def has_sum(e: Expr) -> bool:
    return any(isinstance(p, Sum) for p in walk(e))


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
