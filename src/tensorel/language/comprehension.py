"""Comprehensions: generators, bindings, guards, a group key and a head, in any monoid.

    { key -> head | ((k1, ..., kn), v) <- source, let x = e, test, ..., combined by + }

At each key stands the monoid over the heads of all choices of entries for which the tests hold. A
flat language (queries, array comprehensions, loops without a carried dependence) names its parts
so; what it computes with them are functions from the environment to values, made by the operations
of the ``Builder``. A source may be a comprehension: its tests are then those after grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir import nodes as ir
from tensorel.ir.build import compare
from tensorel.ir.ranges import subexpressions
from tensorel.language.builder import Builder
from tensorel.language.dictionaries import Term, Value, scalar
from tensorel.language.scalars import INT, REAL, Semiring, call, truth

Env: TypeAlias = Mapping[str, Value]
Formula: TypeAlias = Callable[[Env], Value]
#: Names of keys, in tuples as the language writes them; the order alone counts.
Keys: TypeAlias = "str | tuple[Keys, ...]"


@dataclass(frozen=True, slots=True)
class Generator:
    """``(keys, value) <- source``: the entries that differ from zero, all positions of a total
    source. ``_`` names nothing; a key whose name this comprehension has bound is a join."""

    keys: Keys
    value: str
    source: Value | Formula
    at: int = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """``let name = formula``."""

    name: str
    formula: Formula


@dataclass(frozen=True, slots=True)
class Guard:
    """``if test``, over keys, values and what is made of them."""

    test: Formula


@dataclass(frozen=True, slots=True)
class Comprehension:
    """``kind``: the semiring whose addition combines the heads at one key."""

    qualifiers: Sequence[Generator | Binding | Guard]
    head: Formula
    key: Sequence[Formula] = ()
    kind: Semiring = REAL

    def lower(self, build: Builder, env: Env) -> Value:
        """The dictionary, or the scalar if there is no key."""
        scope = _Scope(build, dict(env))
        for q in self.qualifiers:
            match q:
                case Generator():
                    scope.generate(q)
                case Binding():
                    scope.name(q.name, q.formula(scope.env))
                case Guard():
                    scope.guards += conjuncts(truth(build.expr(q.test(scope.env))))
        found = self.head(scope.env)
        found = build.cast(found, self.kind, 0)
        for key in reversed(self.key):
            found = build.entry(build.expr(key(scope.env)), found)
        return scope.closed(build.plain(found))


class _Scope:
    """What the qualifiers so far have bound: summed indices, tests, names. ``visited``: values of
    generators that need not be there, each with its place."""

    def __init__(self, build: Builder, env: dict[str, Value]) -> None:
        self.build = build
        self.env = env
        self.bound: set[str] = set()
        self.over: list[str] = []
        self.guards: list[ir.Expr] = []
        self.visited: list[tuple[Value, int]] = []

    def generate(self, g: Generator) -> None:
        source = g.source if isinstance(g.source, Value) else g.source(self.env)
        names = flat(g.keys)
        # A row that is itself walked needs no test: where it has no entry, nothing is visited.
        self.visited = [(v, at) for v, at in self.visited if v is not source or source.domain]
        if source.domain is None and len(source.terms) == 1 and source.terms[0].distinct and (
                len(names) == source.depth):
            ((term, keys, source),) = self.build.entries(source, source.depth)
            self.enter(term)
            for name, key in zip(names, keys):
                self.bind(name, key)
            self.visited.append((source, g.at))
        else:
            for name in names:
                total = source.domain is not None
                term, key, source = self.build.visited(source, g.at)
                self.enter(term)
                self.bind(name, key)
            if not total:
                self.visited.append((source, g.at))
        self.name(g.value, source)

    def enter(self, term: Term) -> None:
        self.over += term.over
        self.guards += term.guards

    def name(self, name: str, value: Value) -> None:
        if name != "_":
            self.env[name] = value
            self.bound.add(name)

    def bind(self, name: str, key: ir.Expr) -> None:
        if name in self.bound:
            self.guards.append(compare(ops.equal, self.build.expr(self.env[name]), key))
        else:
            self.name(name, scalar(key, INT))

    def closed(self, body: Value) -> Value:
        """The body summed over all that was visited; a value is asked to be there unless nothing
        comes of one that is not."""
        needed = [self.build.present(v, at) for v, at in self.visited
                  if v.depth or not self.vanishes(body, v)]
        outer = Term(tuple(self.over), (*self.guards, *needed), (), ir.const(True))
        return self.build.summed(outer, body)

    def vanishes(self, body: Value, value: Value) -> bool:
        entry = self.build.expr(value)
        zero = {entry: value.kind.zero_in(entry.dtype)}
        if fails(self.guards, zero):
            return True
        return all(fails(t.guards, zero) or is_value(folded(t.value, zero), body.kind.zero)
                   for t in body.terms)


def flat(keys: Keys) -> list[str]:
    """The names in a pattern, in order.

    >>> flat((("i", "j"), "k"))
    ['i', 'j', 'k']
    """
    return [keys] if isinstance(keys, str) else [n for k in keys for n in flat(k)]


def conjuncts(test: ir.Expr) -> list[ir.Expr]:
    """The tests whose conjunction it is: each may be an equation that is solved."""
    if isinstance(test, ir.Call) and test.op is ops.logical_and:
        return [c for a in test.args for c in conjuncts(a)]
    return [test]


def folded(e: ir.Expr, known: Mapping[ir.Expr, ir.Const]) -> ir.Const | None:
    """The value of an expression where parts of it are known, None if it depends on more. A zero
    annihilates products, and an infinity sums."""
    found: dict[ir.Expr, ir.Const | None] = {}
    for part in subexpressions(e):
        found[part] = known.get(part) or _folded(part, found)
    return found[e]


def _folded(e: ir.Expr, found: Mapping[ir.Expr, ir.Const | None]) -> ir.Const | None:
    match e:
        case ir.Const():
            return e
        case ir.Reduce(op=op, body=body):
            inner = found[body]
            none = None if op.identity is None else op.identity(e.dtype)
            return inner if is_value(inner, none) else None
        case ir.Call(op=op, args=args):
            values = [found[a] for a in args]
            if op is ops.where and (test := values[0]) is not None:
                return values[1 if test.value else 2]
            sure = [v for v in values if v is not None]
            if len(sure) == len(values):
                whole = call(op, *sure)
                return whole if isinstance(whole, ir.Const) else None
            if op in (ops.multiply, ops.add) or op.exact_annihilators:
                for k, v in enumerate(values):
                    decided = None if v is None else op.decided(k, v.value, e.dtype)
                    if decided is not None:
                        return ir.const(decided, e.dtype)
    return None


def is_value(found: ir.Const | None, value: object) -> bool:
    return found is not None and value is not None and bool(found.value == value)


def fails(tests: Sequence[ir.Expr], known: Mapping[ir.Expr, ir.Const]) -> bool:
    return any(is_value(folded(t, known), False) for t in tests)
