"""From what is written to the core: Table 1 of Schleich, Shaikhha, Suciu (SIGMOD 2023).

    e(e1, e2)                           e(e1)(e2)
    { (e1, e2) -> e }                   { e1 -> { e2 -> e } }
    { () -> e }                         e
    { k1 -> e1, k2 -> e2 }              { k1 -> e1 } + { k2 -> e2 }
    sum(<(k1, k2), v> in e1) e2         sum(<k1, w> in e1) sum(<k2, v> in w) e2
    sum(<(), v> in e1) e2               let v = e1 in if (v != 0) then e2
    sum(<k1, v1> in e1, ...) e          sum(<k1, v1> in e1) sum(...) e
    a key that is bound in this sum     sum(<k', v> in e1) if (k == k') then ...
    let v1 = e1, v2 = e2 in e           let v1 = e1 in let v2 = e2 in e
    merge(<k1, k2, v> in <e1, e2>) e    sum(<k1, v> in e1) sum(<k2, u> in e2) if (v == u) then e

New names are _1, _2, ... where the program does not have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

from tensorel.sdql import syntax as s

Layer: TypeAlias = s.Sum | s.If | s.Let


def desugar(root: s.Expr) -> s.Expr:
    """The core of an expression.

    >>> from tensorel.sdql.parser import parse
    >>> from tensorel.sdql.printer import show
    >>> show(desugar(parse("sum(<i, a> in A, <i, b> in B) { (i, i) -> a * b }")))
    'sum(<i, a> in A) sum(<_1, b> in B) if (i == _1) then { i -> { i -> a * b } }'
    """
    taken = s.names(root)
    fresh = (f"_{k}" for k in count(1) if f"_{k}" not in taken)
    return _Core(fresh).of(root)


class _Core:
    def __init__(self, fresh: Iterator[str]) -> None:
        self.fresh = fresh

    def of(self, e: s.Expr) -> s.Expr:
        match e:
            case s.Apply():
                found = self.of(e.target)
                for key in e.keys:
                    found = s.Apply(found, (self.of(key),), e.at)
                return found
            case s.Let():
                values = [(name, self.of(value)) for name, value in e.bindings]
                found = self.of(e.body)
                for binding in reversed(values):
                    found = s.Let((binding,), found, e.at)
                return found
            case s.Dict():
                return self.dictionary(e)
            case s.Sum():
                return self.sum(e)
            case s.Merge():
                return self.merge(e)
            case _:
                return s.mapped(e, self.of)

    def dictionary(self, e: s.Dict) -> s.Expr:
        found: s.Expr | None = None
        for entry in e.entries:
            one = self.of(entry.value)
            for key in reversed(entry.keys):  # marks of a tuple stand at each of its keys
                one = s.Dict((s.Entry((self.of(key),), one, entry.marks, entry.at),), e.at)
            found = one if found is None else s.Binary("+", found, one, e.at)
        assert found is not None
        return found

    def sum(self, e: s.Sum) -> s.Expr:
        """Generators from the left, each with the names bound so far; nested from the right."""
        bound: set[str] = set()
        layers: list[Layer] = []
        hole = s.Number(0, "int", e.at)
        for g in e.generators:
            layers += self.generator(g, bound, hole)
        found = self.of(e.body)
        for layer in reversed(layers):
            match layer:
                case s.Sum():
                    found = s.Sum(layer.generators, found, layer.at)
                case s.If():
                    found = s.If(layer.test, found, None, layer.at)
                case s.Let():
                    found = s.Let(layer.bindings, found, layer.at)
        return found

    def generator(self, g: s.Generator, bound: set[str], hole: s.Expr) -> list[Layer]:
        source = self.of(g.source)
        layers: list[Layer] = []
        if not g.keys:
            value = next(self.fresh) if g.value == "_" else g.value
            bound.add(value)
            test = s.Binary("!=", s.Name(value, g.at), hole, g.at)
            return [s.Let(((value, source),), hole, g.at), s.If(test, hole, None, g.at)]
        for k, key in enumerate(g.keys):
            last = k == len(g.keys) - 1
            value = g.value if last else next(self.fresh)
            name = next(self.fresh) if key in bound else key
            layers.append(s.Sum((s.Generator((name,), value, source, g.at),), hole, hole.at))
            if name != key:
                test = s.Binary("==", s.Name(key, g.at), s.Name(name, g.at), g.at)
                layers.append(s.If(test, hole, None, g.at))
            bound |= {key, value} - {"_"}
            source = s.Name(value, g.at)
        return layers

    def merge(self, e: s.Merge) -> s.Expr:
        left, right = e.left, e.right
        held = None
        if {e.keys[0], e.value} & s.free(right):  # the right source is outside their scope
            held = next(self.fresh)
            right = s.Name(held, e.at)
        value = next(self.fresh) if e.value == "_" else e.value
        other = next(self.fresh)
        test = s.Binary("==", s.Name(value, e.at), s.Name(other, e.at), e.at)
        first = s.Generator((e.keys[0],), value, left, e.at)
        second = s.Generator((e.keys[1],), other, right, e.at)
        found = self.sum(s.Sum((first, second), s.If(test, e.body, None, e.at), e.at))
        return found if held is None else s.Let(((held, self.of(e.right)),), found, e.at)
