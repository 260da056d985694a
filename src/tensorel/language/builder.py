"""The operations that a language is lowered to: values from values, in the end a tensor.

A ``Builder`` belongs to one text at one time. ``at`` is the place in the text that an error marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

from tensorel.algebra import ops
from tensorel.errors import ParseError
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, both, compare, minus, plus
from tensorel.ir.ranges import Range
from tensorel.ir.replacing import substitute
from tensorel.language.canonical_names import canonical
from tensorel.language.data_joins import Data
from tensorel.language.dictionaries import Domain, Term, Value, scalar
from tensorel.language.indices import Indices, extent
from tensorel.language.scalars import BOOL, INT, Semiring, arithmetic, call, truth
from tensorel.language.solving import Solver

#: A sum without sums inside is written out for so many terms of what it visits, others for one:
#: nested, they would multiply.
FUSED = 4


class Body(Protocol):
    """What a sum makes of each entry that it visits, and what is known of that."""

    @property
    def nested(self) -> bool:
        """Whether there are sums inside."""

    def of(self, key: ir.Expr, value: Value) -> Value:
        """What is summed, for a key and its value."""

    def is_linear(self, distinct: bool) -> bool:
        """Whether f(a + b) = f(a) + f(b) as a function of the value. ``distinct``: for
        dictionaries that have no key in common."""

    def vanishes(self) -> bool:
        """Whether it is zero where the value is: then keys without a value may be visited."""


class Hints(NamedTuple):
    """What errors advise, in the words of the language."""

    unbounded: str = "declare the extents of the result"
    unknown_range: str = "bounds are made of numbers, whole scalars, keys and whole arrays"
    negative: str = "a tensor has keys from 0 on: shift them, or leave out those below"


HINTS = Hints()


class Builder:
    """One program at work. ``indices``: those of the program; ``solver``: sums of terms."""

    def __init__(self, text: str, data: Data, hints: Hints = HINTS) -> None:
        self.text = text
        self.hints = hints
        self.indices = Indices(data)
        self.solver = Solver(self.indices)
        #: As the solver has them: without a domain, as an expression, zero where a test fails.
        self.plain, self.expr, self.guarded = (
            self.solver.plain, self.solver.expr, self.solver.guarded)
        self.groups: dict[int, tuple[Value, Value]] = {}  # the value, so that the id stays its own

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=at, hint=hint)

    def hull(self, value: Value, at: int, level: int = 0) -> Range:
        """Bounds of the keys of a level."""
        found = self.solver.hull(value, level)
        if found is None:
            self.fail("the keys here have no bounds that can be seen", at, self.hints.unbounded)
        return found

    # -- sources -----------------------------------------------------------------------------
    def tensor(self, node: ir.Tensor, kind: Semiring, total: bool = False, name: str = "") -> Value:
        """A tensor as a value; ``total``: each position of a vector is visited, also those that
        hold zero. The axes of a tensor with a name are joined with others of the same extent, or
        ``indices.unequal`` tells."""
        keys = tuple([
            self.indices.axis(f"axis {k} of {name}", n) if name else self.indices.fresh(0, n - 1)
            for k, n in enumerate(node.shape)])
        entry = kind.widened(ir.Read(node, keys))
        domain = Domain(as_expr(0), as_expr(node.shape[0])) if total else None
        return Value(kind, len(keys), (Term(tuple([k.name for k in keys]), (), keys, entry),),
                     domain)

    def span(self, low: ir.Expr, high: ir.Expr, at: int) -> Value:
        """The dictionary of the positions low <= k < high, each its own value."""
        k = self._position(low, high, at)
        return Value(INT, 1, (Term((k.name,), (), (k,), k),), Domain(low, high))

    def _position(self, low: ir.Expr, high: ir.Expr, at: int) -> ir.Index:
        first, last = self.indices.range_of(low), self.indices.range_of(high)
        if first is None or last is None:
            self.fail("the bounds of the range are not known before it runs", at,
                      self.hints.unknown_range)
        return self.indices.fresh(first[0], max(last[1] - 1, first[0] - 1))

    def lookup(self, target: Value, key: ir.Expr) -> Value:
        """The value at a key, zero where there is none."""
        return self.solver.at(self.grouped(target) if key.free else target, key)

    def slice(self, target: Value, low: ir.Expr, high: ir.Expr, at: int) -> Value:
        """The total dictionary of the values at low <= k < high."""
        target = self.plain(target)
        k = self._position(low, high, at)
        inner = self.solver.inner(target, k)
        terms = [Term((k.name, *t.over), t.guards, (k, *t.keys), t.value, (False, *t.unique))
                 for t in inner.terms]
        return Value(target.kind, target.depth, tuple(terms), Domain(low, high))

    def entry(self, key: ir.Expr, value: Value, unique: bool = False) -> Value:
        """``{ key -> value }``; ``unique``: the program says that no other entry has this key."""
        terms = [Term(t.over, t.guards, (key, *t.keys), t.value, (unique, *t.unique))
                 for t in self.plain(value).terms]
        return Value(value.kind, value.depth + 1, tuple(terms))

    # -- sums --------------------------------------------------------------------------------
    def sum(self, source: Value, body: Body, result: Value, at: int) -> Value:
        """The sum of the body over a dictionary: its key becomes a summed index, and guards say
        where there is something to visit. ``result``: the sum over none."""
        if source.domain is None:
            distinct = len(source.terms) == 1 and source.terms[0].distinct
            if len(source.terms) <= (1 if body.nested else FUSED) and (
                    (distinct and source.depth == 1) or body.is_linear(distinct)):
                return self._sum_entries(source, body, result, at)
        outer, k, value = self.visited(source, at)
        if source.domain is None and not body.vanishes():
            outer = outer.guarded(self.present(value, at))
        return self.summed(outer, body.of(k, value))

    def visited(self, source: Value, at: int) -> tuple[Term, ir.Index, Value]:
        """A new index over the keys of a dictionary, and the value there; the term says which the
        positions of a total one are."""
        source = self.grouped(source)
        d = source.domain
        if d is None:
            k = self.indices.fresh(*self.hull(source, at))
            guards: tuple[ir.Expr, ...] = ()
        else:
            k = self._position(d.low, d.high, at)
            guards = (*d.guards, compare(ops.less_equal, d.low, k), compare(ops.less, k, d.high))
        return Term((k.name,), guards, (), k), k, self.solver.inner(source, k)

    def _sum_entries(self, source: Value, body: Body, result: Value, at: int) -> Value:
        """A sum over the entries that make the source: its body is linear in the value, or each
        key has one entry at most."""
        whole = source.depth > 1 or body.vanishes()
        for count, (t, (k,), rest) in enumerate(self.entries(source, 1)):
            found = body.of(k, rest)
            if not whole:
                t = Term(t.over, (*t.guards, self.present(rest, at)), t.keys, t.value)
            found = self.summed(t, found)
            result = found if count == 0 else Value(
                found.kind, found.depth, result.terms + found.terms)
        return result

    def entries(self, source: Value, depth: int
                ) -> Iterator[tuple[Term, tuple[ir.Expr, ...], Value]]:
        """Each entry of a dictionary with new indices: its term, so many keys, what they have."""
        for t in map(self.solver.renamed, source.terms):
            for key, n in zip(t.keys[:depth], source.extents):
                if not isinstance(key, ir.Index):
                    self.indices.facts[key] = 0, n - 1
            inner = Term((), (), t.keys[depth:], t.value, t.unique[depth:])
            yield t, t.keys[:depth], Value(
                source.kind, source.depth - depth, (inner,), None, source.extents[depth:])

    def summed(self, outer: Term, body: Value) -> Value:
        """The body summed over the indices of a term, where its guards hold."""
        terms = [Term(outer.over + t.over, outer.guards + t.guards, t.keys, t.value, t.unique)
                 for t in self.plain(body).terms]
        return Value(body.kind, body.depth, self.solver.solved(terms))

    def present(self, value: Value, at: int) -> ir.Expr:
        """Some entry of the value is not zero."""
        inner, keys = self._opened(value, at)
        entry = self.expr(inner)
        test = call(ops.not_equal, entry, value.kind.zero_in(entry.dtype))
        return self.expr(Value(BOOL, 0, (Term(tuple([k.name for k in keys]), (), (), test),)))

    def _opened(self, value: Value, at: int) -> tuple[Value, list[ir.Index]]:
        """The scalar at new indices."""
        keys: list[ir.Index] = []
        while value.depth:
            keys.append(self.indices.fresh(*self.hull(value, at)))
            value = self.solver.inner(value, keys[-1])
        return value, keys

    # -- dictionaries that are made ----------------------------------------------------------
    def shared(self, value: Value) -> Value:
        """What several places use is made once, unless its keys are data: then each place had
        better walk the data."""
        by_index = all(isinstance(k, ir.Index) for t in value.terms for k in t.keys)
        return self.grouped(value) if by_index else value

    def grouped(self, value: Value) -> Value:
        """A dictionary that several terms, or values of a summed index, may add to at one key is
        a tensor of its own, made once, if it depends on no index from outside."""
        if value.depth == 0 or value.domain is not None or value.is_plainly_keyed:
            return value
        known = self.groups.get(id(value))
        if known is None:
            known = self.groups[id(value)] = value, self._group(value)
        return known[1]

    def _group(self, value: Value) -> Value:
        free = {n for t in value.terms for e in (*t.guards, *t.keys, t.value) for n in e.free}
        if free - {n for t in value.terms for n in t.over}:
            return value
        spans = [self.solver.hull(value, level) for level in range(value.depth)]
        keys: list[ir.Index] = []
        inner = value
        for span in spans:
            if span is None:
                return value
            keys.append(self.indices.fresh(*span))
            inner = self.solver.inner(inner, keys[-1])
        if len(inner.terms) < 2 and not any(t.over for t in inner.terms):
            return value
        node = self.formula(keys, self.expr(inner))
        at = tuple([minus(k, self.indices.bounds[k.name][0]) for k in keys])
        return Value(inner.kind, len(keys), (
            Term(tuple([k.name for k in keys]), (), tuple(keys), ir.Read(node, at)),))

    def formula(self, keys: Sequence[ir.Index], body: ir.Expr) -> ir.Lambda:
        """The tensor with the entries ``body`` at the keys, each from the start of its range."""
        bounds = [self.indices.bounds[k.name] for k in keys]
        moved = {k.name: plus(k, low) for k, (low, _) in zip(keys, bounds)}
        body = canonical(tuple([k.name for k in keys]), substitute(body, moved))
        axes = [ir.Axis(f"i{k}", extent(b)) for k, b in enumerate(bounds)]
        return ir.Lambda(tuple(axes), body)

    def result(self, value: Value, at: int, extents: Sequence[int] | None = None) -> ir.Tensor:
        """The tensor of a value; keys outside of given extents are left out."""
        value = self.plain(value)
        shape = list(extents or ())
        for level in range(value.depth if extents is None else 0):
            low, high = self.hull(value, at, level)
            if low < 0:
                self.fail(f"keys may be negative, from {low} to {high}", at, self.hints.negative)
            shape.append(high + 1)
        keys = [self.indices.fresh(0, n - 1) for n in shape]
        for key in keys:
            value = self.solver.inner(value, key)
        return self.formula(keys, self.expr(value))

    def declared(self, value: Value, at: int, extents: tuple[int, ...]) -> Value:
        """The value with keys below the extents: as it is where that can be seen."""
        value = self.plain(value)
        ranges = [(k, self.indices.range_of(k, t.guards), n) for t in value.terms
                  for k, n in zip(t.keys, extents)]
        if all(r is not None and r[0] >= 0 and (
                r[1] == n - 1 if isinstance(k, ir.Index) else r[1] < n) for k, r, n in ranges):
            return self.shared(Value(value.kind, value.depth, value.terms, None, extents))
        return self.tensor(self.result(value, at, extents), value.kind)

    def moved(self, e: ir.Expr, by: Mapping[str, ir.Expr]) -> ir.Expr:
        """An expression with indices replaced."""
        return substitute(e, by)

    # -- choices -----------------------------------------------------------------------------
    def choice(self, tests: Sequence[ir.Expr], then: Value, otherwise: Value) -> Value:
        """One value where all tests hold, else another of its type."""
        whole = both(*tests)
        assert whole is not None
        rest = self.guarded(self.plain(otherwise), call(ops.logical_not, whole))
        return self.plus(self.plain(self.guarded(then, *tests)), rest)

    # -- arithmetic --------------------------------------------------------------------------
    def cast(self, value: Value, kind: Semiring, at: int) -> Value:
        """The same entries in another kind. Where several are added up to one, that is done
        first, by the addition of their own."""
        old = value.kind
        if old is kind or old.add is kind.add or not value.terms or value.is_plainly_keyed:
            return value if old is kind else value.mapped(kind.widened, kind)
        inner, keys = self._opened(self.plain(value), at)
        entry = self.expr(inner)
        found = scalar(kind.widened(entry), kind)
        if keys and old.zero != kind.zero:
            found = self.guarded(found, call(ops.not_equal, entry, old.zero_in(entry.dtype)))
        return self._keyed(found, keys)

    def plus(self, a: Value, b: Value) -> Value:
        """The sum of two plain values of one kind and, but for zero, of one depth."""
        if a.depth or b.depth:
            return Value(a.kind, max(a.depth, b.depth), a.terms + b.terms)
        if not (a.terms and b.terms):
            return a if a.terms else b
        return scalar(arithmetic(a.kind.add, self.expr(a), self.expr(b)), a.kind)

    def times(self, a: Value, b: Value, at: int) -> Value:
        """The product of two plain values of one kind: at each key that both may have, or every
        entry by a scalar."""
        if not (a.depth and b.depth):
            return self._scaled(b, a, flip=True) if b.depth else self._scaled(a, b)
        keys: list[ir.Index] = []
        while a.depth:
            first, second = self.hull(a, at), self.hull(b, at)
            keys.append(self.indices.fresh(max(first[0], second[0]), min(first[1], second[1])))
            a, b = self.solver.inner(a, keys[-1]), self.solver.inner(b, keys[-1])
        return self._keyed(self._scaled(a, b), keys)

    def _scaled(self, value: Value, factor: Value, flip: bool = False) -> Value:
        """Every value times a scalar, whose guards join those of the terms."""
        guards: tuple[ir.Expr, ...] = ()
        if len(factor.terms) == 1 and not factor.terms[0].over:
            guards, by = factor.terms[0].guards, factor.terms[0].value
        else:
            by = self.expr(factor)
        if not value.depth and any(t.over for t in value.terms):
            value = scalar(self.expr(value), value.kind)
        times = value.kind.times
        found = value.mapped(lambda x: times(by, x) if flip else times(x, by))
        return Value(value.kind, value.depth, tuple([t.guarded(*guards) for t in found.terms])
                     ) if guards else found

    def divided(self, value: Value, op: ops.Operator, by: ir.Expr, at: int) -> Value:
        """``op(entry, by)`` at every key of a plain value: one without an entry has none
        afterwards, whatever the divisor."""
        if not value.depth:
            return scalar(arithmetic(op, self.expr(value), by), value.kind)
        inner, keys = self._opened(value, at)
        value = self._keyed(scalar(self.expr(inner), value.kind), keys)
        sure = value.kind is INT or (isinstance(by, ir.Const) and by.value != 0)
        terms = [Term(t.over, t.guards if sure else (*t.guards, truth(t.value)), t.keys,
                      arithmetic(op, t.value, by), t.unique) for t in value.terms]
        return Value(value.kind, value.depth, tuple(terms))

    def _keyed(self, inner: Value, keys: Sequence[ir.Index]) -> Value:
        """The dictionary of scalars at summed keys."""
        over = tuple([k.name for k in keys])
        terms = [Term(over + t.over, t.guards, tuple(keys), t.value) for t in inner.terms]
        return Value(inner.kind, len(keys), self.solver.solved(terms))
