"""Random programs over the calculus, and the meaning of every node of an e-graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Const, Expr, Index, Read, Reduce, Source, const
from tensorel.reference.interpret import evaluate_expr
from tensorel.rewrite.egraph import EGraph, Head, Term, build, spelled
from tensorel.rewrite.ematch import Kids
from tensorel.rewrite.polynomial import canonical

EXTENTS = {"i": 3, "j": 2}
LETTERS = "ABCuvw"
RANKS = {"A": 2, "B": 2, "C": 2, "u": 1, "v": 1, "w": 1}
SIZE = 4


def sources(dtype: str) -> dict[str, Source]:
    d = np.dtype(dtype)
    return {n: Source(n, (SIZE,) * r, d, const(0, d)) for n, r in RANKS.items()}


def values(dtype: str, seed: int, hard: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    d = np.dtype(dtype)
    found = {}
    for n, r in RANKS.items():
        if d.kind == "f":
            a = rng.uniform(-2, 2, (SIZE,) * r)
            if hard:
                special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308], a.shape)
                a = np.where(rng.random(a.shape) < 0.5, special, a)
        elif d.kind == "b":
            a = rng.random((SIZE,) * r) < 0.5
        else:
            info = np.iinfo(d)
            a = rng.integers(info.min, info.max, (SIZE,) * r, dtype=d, endpoint=True)
        found[n] = a.astype(d)
    return found


class Programs:
    """Expressions of one dtype whose free indices are i and j; ``pure``: of one semiring."""

    def __init__(self, seed: int, dtype: str, pure: str = "") -> None:
        self.random = random.Random(seed)
        self.dtype = np.dtype(dtype)
        self.names = sources(dtype)
        self.count = 0
        kind = self.dtype.kind
        self.binary = [ops.logical_and, ops.logical_or] if kind == "b" else [
            ops.add, ops.multiply, ops.subtract, ops.add, ops.multiply, ops.minimum, ops.maximum]
        self.unary = [ops.logical_not] if kind == "b" else [ops.negative, ops.square]
        self.monoids = [ops.logical_or, ops.logical_and] if kind == "b" else [
            ops.add, ops.add, ops.maximum, ops.minimum]
        if pure == "ring":
            self.binary = [ops.add, ops.multiply, ops.subtract, ops.multiply]
            self.monoids = [ops.add]
        elif pure == "max-plus":
            self.binary, self.unary, self.monoids = [ops.add, ops.maximum], [ops.exp], [ops.maximum]

    def make(self, depth: int, scope: tuple[str, ...] = ("i", "j")) -> Expr:
        r = self.random
        roll = r.random()
        if depth == 0 or roll < 0.1:
            return self.leaf(scope)
        if roll < 0.65:
            op = r.choice(self.binary)
            return Call(op, (self.make(depth - 1, scope), self.make(depth - 1, scope)))
        if roll < 0.75:
            return Call(r.choice(self.unary), (self.make(depth - 1, scope),))
        if roll < 0.82:
            test = Call(ops.less, (self.leaf(scope), self.leaf(scope)))
            return Call(ops.where, (
                test, self.make(depth - 1, scope), self.make(depth - 1, scope)))
        self.count += 1
        name = f"k{self.count}"
        body = self.make(depth - 1, (*scope, name))
        return Reduce(r.choice(self.monoids), (Axis(name, r.choice([1, 2, 3])),), body)

    def leaf(self, scope: tuple[str, ...]) -> Expr:
        r = self.random
        if r.random() < 0.15:
            return self.literal()
        source = self.names[r.choice(LETTERS)]
        return Read(source, tuple(Index(r.choice(scope)) for _ in source.shape))

    def literal(self) -> Const:
        return const(self.random.choice([0, 1, 2, -1, 3]), self.dtype)


def value(e: Expr, data: dict[str, np.ndarray], extents: dict[str, int] = EXTENTS) -> np.ndarray:
    with np.errstate(all="ignore"):
        return evaluate_expr(e, extents, lambda s: data[str(s.data)])


def forms(graph: EGraph, root: int) -> list[tuple[Expr, Expr]]:
    """For each node that can be part of the root: the shortest expression of its class, and the
    expression with that node on top."""
    best = {c: extract(graph, c, lambda t, kids: 1 + sum(kids))[0] for c in _below(graph, root)}
    pairs = []
    for c, shortest in best.items():
        for head, kids in graph.nodes(c):
            if graph.term(head, kids).free <= graph[c].free:
                pairs.append((shortest, build(head, [best[graph.find(k)] for k in kids])))
    return pairs


def _below(graph: EGraph, root: int) -> list[int]:
    seen = {graph.find(root): None}
    stack = [graph.find(root)]
    while stack:
        for _, kids in graph.nodes(stack.pop()):
            for k in kids:
                k = graph.find(k)
                if k not in seen:
                    seen[k] = None
                    stack.append(k)
    return list(seen)


def equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions are equal as polynomials over what they read."""
    return a is b or (a.dtype == b.dtype and canonical(a) is canonical(b))


def extract(graph: EGraph, root: int, cost: Callable[[Term, list[float]], float]
            ) -> tuple[Expr, float]:
    """The cheapest tree of a class and its cost, which folds over the tree: ``cost(term, costs of
    children)`` is not less than any child's."""
    best: dict[int, float] = {}
    choice: dict[int, tuple[Head, Kids]] = {}
    better = True
    while better:
        better = False
        for c in graph.ids():
            for head, kids in graph.nodes(c):
                term = graph.term(head, kids)
                if term.free <= graph[c].free and all(k in best for k in kids):
                    found = cost(term, [best[k] for k in kids])
                    if found < best.get(c, float("inf")):
                        best[c], choice[c], better = found, (head, kids), True
    return spelled(graph.find(root), choice.__getitem__), best[graph.find(root)]


def operations(extents: Mapping[str, int], leaf: float = 1e-3) -> Callable[[Term], float]:
    """Own cost of a node: how often its operator runs if each value is computed once for each
    combination of the indices that it depends on. Leaves cost next to nothing, so that of two
    equally good forms the shorter is taken."""

    def own(t: Term) -> float:
        if t.op is None:
            return leaf
        return prod(extents.get(name, 1) for name in t.free) * prod(a.extent for a in t.axes)

    return own
