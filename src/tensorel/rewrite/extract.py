"""The cheapest expression of a class.

``extract_shared`` minimises the sum of the nodes' own costs where each class is paid once, by the
greedy fixpoint that keeps for each class the set that its best node needs.

A node that mentions an index on which its class does not depend is never taken: a rule may have
moved the class out of the scope of that index.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.ir.nodes import Expr
from tensorel.rewrite.egraph import EGraph, Head, Term, spelled
from tensorel.rewrite.ematch import Kids

Own = Callable[[Term], float]
Choice = dict[int, tuple[Head, Kids]]
INF = float("inf")


class _Nodes:
    """The nodes that may be taken, by class, and which classes ask for which."""

    def __init__(self, graph: EGraph) -> None:
        self.graph = graph
        self.of: dict[int, list[tuple[Head, Kids, Term]]] = {}
        self.users: dict[int, dict[int, None]] = {}
        for c in graph.ids():
            self.of[c] = found = []
            free = graph.classes[c].free
            for head, kids in graph.nodes(c):
                t = graph.term(head, kids)
                if t.free <= free:
                    found.append((head, kids, t))
                    for k in kids:
                        self.users.setdefault(k, {})[c] = None


def extract_shared(graph: EGraph, root: int, own: Own) -> tuple[Expr, float]:
    """The expression of a class with the least sum of own costs, each class paid once."""
    nodes = _Nodes(graph)
    prices = {c: [own(t) for _, _, t in found] for c, found in nodes.of.items()}
    sets: dict[int, dict[int, float]] = {}
    sums: dict[int, float] = {}
    choice: Choice = {}
    work = dict.fromkeys(nodes.of)
    while work:
        c = next(iter(work))
        del work[c]
        better = False
        for (head, kids, _), price in zip(nodes.of[c], prices[c]):
            if any(k not in sets or c in sets[k] for k in kids):
                continue
            if price + max((sums[k] for k in kids), default=0.0) >= sums.get(c, INF):
                continue
            needed = dict(sets[kids[0]]) if kids else {}
            for k in kids[1:]:
                needed.update(sets[k])
            needed[c] = price
            value = sum(needed.values())
            if value < sums.get(c, INF):
                sets[c], sums[c], choice[c], better = needed, value, (head, kids), True
        if better:
            work.update(nodes.users.get(c, ()))
    root = graph.find(root)
    return spelled(root, choice.__getitem__), sums.get(root, INF)


__all__ = ["extract_shared"]
