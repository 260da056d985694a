"""The cheapest expression of a class.

``extract`` minimises a cost that folds over the tree: ``cost(term, costs of children)``, which
must not be less than any child's. ``extract_shared`` minimises the sum of the nodes' own costs
where each class is paid once, by the greedy fixpoint that keeps for each class the set that its
best node needs; then, given ``total``, single exchanges of nodes are kept while the whole
expression becomes cheaper.

A node that mentions an index on which its class does not depend is never taken: a rule may have
moved the class out of the scope of that index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorel.ir.nodes import Expr
from tensorel.rewrite.egraph import EGraph, Head, Term, build
from tensorel.rewrite.ematch import Kids

Cost = Callable[[Term, list[float]], float]
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


def extract(graph: EGraph, root: int, cost: Cost) -> tuple[Expr, float]:
    """The cheapest expression of a class and its cost."""
    nodes = _Nodes(graph)
    best: dict[int, float] = {}
    choice: Choice = {}
    work = dict.fromkeys(nodes.of)
    while work:
        c = next(iter(work))
        del work[c]
        better = False
        for head, kids, t in nodes.of[c]:
            costs = [best.get(k, INF) for k in kids]
            if INF in costs:
                continue
            value = cost(t, costs)
            if value < best.get(c, INF):
                best[c], choice[c], better = value, (head, kids), True
        if better:
            work.update(nodes.users.get(c, ()))
    root = graph.find(root)
    return read(graph, root, choice), best.get(root, INF)


def extract_shared(graph: EGraph, root: int, own: Own,
                   total: Callable[[Expr], float] | None = None, tries: int = 200
                   ) -> tuple[Expr, float]:
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
    if total is None:
        e = read(graph, root, choice)
        return e, sums.get(root, INF)
    return _improve(graph, root, nodes, choice, total, tries)


def _improve(graph: EGraph, root: int, nodes: _Nodes, choice: Choice,
             total: Callable[[Expr], float], tries: int) -> tuple[Expr, float]:
    """Exchange one node at a time while the whole becomes cheaper."""
    best = read(graph, root, choice)
    value = total(best)
    again = True
    while again and tries > 0:
        again = False
        for c in _used(root, choice):
            for head, kids, _ in nodes.of[c]:
                if (head, kids) == choice[c] or tries <= 0:
                    continue
                tries -= 1
                changed = {**choice, c: (head, kids)}
                if not _is_acyclic(root, changed):
                    continue
                e = read(graph, root, changed)
                found = total(e)
                if found < value:
                    best, value, choice, again = e, found, changed, True
    return best, value


def _used(root: int, choice: Mapping[int, tuple[Head, Kids]]) -> list[int]:
    seen = {root: None}
    stack = [root]
    while stack:
        for k in choice[stack.pop()][1]:
            if k not in seen:
                seen[k] = None
                stack.append(k)
    return list(seen)


def _is_acyclic(root: int, choice: Mapping[int, tuple[Head, Kids]]) -> bool:
    state: dict[int, bool] = {}  # False while open
    stack = [(root, False)]
    while stack:
        c, done = stack.pop()
        if done:
            state[c] = True
        elif c not in state:
            if c not in choice:
                return False
            state[c] = False
            stack.append((c, True))
            for k in choice[c][1]:
                if state.get(k) is False:
                    return False
                stack.append((k, False))
        elif not state[c]:
            return False
    return True


def read(graph: EGraph, root: int, choice: Mapping[int, tuple[Head, Kids]]) -> Expr:
    """The expression that a choice of nodes spells."""
    done: dict[int, Expr] = {}
    stack = [root]
    while stack:
        c = stack[-1]
        head, kids = choice[c]
        missing = [k for k in kids if k not in done]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        done[c] = build(head, [done[k] for k in kids])
    return done[root]


def operations(extents: Mapping[str, int], leaf: float = 1e-3) -> Own:
    """Own cost of a node: how often its operator runs if each value is computed once for each
    combination of the indices that it depends on. Leaves cost next to nothing, so that of two
    equally good forms the shorter is taken."""

    def own(t: Term) -> float:
        if t.op is None:
            return leaf
        count = 1.0
        for name in t.free:
            count *= extents.get(name, 1)
        for a in t.axes:
            count *= a.extent
        return count

    return own


__all__ = ["extract", "extract_shared", "operations", "read"]
