"""Steps for products of any size: searched whole where they are small, else greedy and improved.

Several greedy orders are made from counts alone: by what a step costs, by how much it grows, by
how many indices it leaves, and some at random near the first. The best is costed with statistics.
Then windows of a few indices below the dearest steps are searched whole, all else fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, log
from random import Random

from tensorel.base.records import dataclass
from tensorel.ir.given import estimate
from tensorel.plan.contraction.eliminate import MAX_COSTED_STEPS, MAX_SUBSET_INDICES, Search
from tensorel.plan.contraction.join_sizes import Sizes, bits
from tensorel.plan.contraction.step_costs import TOO_LARGE, Budget, Node

#: Searched with no bound, and searched below the cost of a greedy order.
MAX_UNBOUNDED_INDICES, MAX_EXACT_INDICES = 3, 12
WINDOW, WINDOWS, WINDOW_STEPS = 8, 8, 60
RESTARTS, SEED, NOISE = 4, 1, 1.0
#: Each further index of an intermediate counts as so much, in logarithms.
MAX_FREE_INDICES, INDEX_PENALTY = 8, 3.0


@estimate
def cheapest_steps(search: Search) -> Node:
    """The cheapest steps that were found; the last one makes the result."""
    indices = search.reduced.bit_count()
    if indices <= MAX_UNBOUNDED_INDICES:
        found = search.best()
        assert found is not None, "without a bound there is always a way"
        return found
    order = best_order(search.sizes, search.given, search.reduced)
    if indices <= MAX_EXACT_INDICES:
        first = follow(search, order, TOO_LARGE)
        search.budget.left = MAX_COSTED_STEPS
        search.below = inf if first is None else first.cost
        first = search.at_once() or first
        assert first is not None, "all at once stores nothing"
        search.below = first.cost
        found = search.best() or first
        if indices <= MAX_SUBSET_INDICES and search.budget.left > 0:
            return found
        return min([improved(search, found), improved(search, first)], key=lambda n: n.cost)
    first = follow(search, order)
    assert first is not None, "without a bound there is always a way"
    return improved(search, first)


def follow(search: Search, order: Sequence[int], below: float = inf) -> Node | None:
    """The steps that eliminate one index after another; None where they do not cost less than
    ``below``."""
    live: list[tuple[int, Node]] = [(0, n) for n in search.given]
    for b in order:
        group = [x for x in live if x[1].factor.free & b]
        gone = b
        for indices, _ in group:
            gone |= indices
        live = [x for x in live if not x[1].factor.free & b]
        made = search.step(search.factor(gone, 0, b), b, [n for _, n in group],
                           below - sum([n.cost for _, n in live]))
        if made is None:
            return None
        live.append((gone, made))
    nodes = [n for _, n in live]
    if len(nodes) == 1 and not search.loose:
        return nodes[0]
    untouched = search.all & ~search.touched(search.reduced)
    return search.step(search.factor(search.reduced, untouched), search.loose, nodes, below)


# -- greedy orders --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """What eliminating an index looks like; logarithms of numbers of points and entries."""

    points: float
    result: float
    inputs: float
    width: int


Score = Callable[[Look], float]

SCORES: tuple[Score, ...] = (
    lambda x: x.points,
    lambda x: exp(min(x.result, 700.0)) - exp(min(x.inputs, 700.0)),
    lambda x: x.width + 1e-3 * x.points,
    lambda x: x.points + x.result - x.inputs,
)


def best_order(sizes: Sizes, given: Sequence[Node], reduced: int) -> list[int]:
    """The order of least cost among several greedy ones."""
    random = Random(SEED)
    tries: list[Score] = list(SCORES)
    if reduced.bit_count() > MAX_EXACT_INDICES:
        tries += [lambda x: x.points + NOISE * random.expovariate(1.0)] * RESTARTS
    found = [_Counts(sizes, given, reduced).order(score) for score in tries]
    return min(found, key=lambda pair: pair[0])[1]


class _Counts:
    """Factors as indices and logarithms of counts, under independence."""

    def __init__(self, sizes: Sizes, given: Sequence[Node], reduced: int) -> None:
        self.logs = {b: log(max(e, 1.0)) for b, e in sizes.extent.items()}
        self.factors: dict[int, tuple[int, float]] = {}
        self.having: dict[int, set[int]] = {b: set() for b in bits(reduced)}
        self.reduced = reduced
        for node in given:
            f = node.factor
            self.add(f.free, log(max(sizes.entries(f), 1.0)))

    def add(self, free: int, size: float) -> None:
        key = len(self.factors)
        self.factors[key] = free, size
        for b in bits(free & self.reduced):
            self.having[b].add(key)

    def look(self, v: int) -> tuple[Look, int]:
        union, points, most, least = 0, 0.0, 0.0, inf
        for k in self.having[v]:
            free, size = self.factors[k]
            points += size
            most, least = max(most, size), min(least, size)
            for b in bits(free & union):
                points -= self.logs[b]
            union |= free
        kept = union & ~v
        room = 0.0
        for b in bits(kept):
            room += self.logs[b]
        points = max(points, least) + INDEX_PENALTY * max(kept.bit_count() - MAX_FREE_INDICES, 0)
        return Look(points, min(points, room), most, kept.bit_count()), kept

    def order(self, score: Score) -> tuple[float, list[int]]:
        """The greedy order by a score, and what its steps cost."""
        scores: dict[int, tuple[float, int]] = {}
        looks: dict[int, tuple[Look, int]] = {}
        stale, left, total, found = self.reduced, list(bits(self.reduced)), 0.0, list[int]()
        while left:
            for b in bits(stale):
                looks[b] = self.look(b)
                scores[b] = score(looks[b][0]), b
            v = min(scores.values())[1]
            look, kept = looks[v]
            total += exp(min(look.points, 700.0)) + exp(min(look.result, 700.0))
            for k in list(self.having[v]):
                for b in bits(self.factors[k][0] & self.reduced):
                    self.having[b].discard(k)
            self.add(kept, look.result)
            left.remove(v)
            del scores[v]
            found.append(v)
            stale = kept & self.reduced
        return total, found


# -- windows --------------------------------------------------------------------------------------


def improved(search: Search, root: Node) -> Node:
    """The steps with windows below the dearest of them searched whole."""
    parents: dict[Node, Node] = {}
    stack, steps = [root], list[Node]()
    while stack:
        node = stack.pop()
        if node.inputs:
            steps.append(node)
            for n in node.inputs:
                parents[n] = node
                stack.append(n)
    tops: set[Node] = set()
    for node in sorted(steps, key=lambda n: -n.own)[:WINDOWS]:
        above = parents.get(node, node)
        tops |= {node, parents.get(above, above)}
    done: dict[Node, Node] = {}
    for node in reversed(steps):  # inputs before what they go into
        fresh = _again(node, tuple([done.get(n, n) for n in node.inputs]))
        done[node] = _window(search, fresh) if node in tops else fresh
    return done[root]


def _again(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The step over other inputs for the same factors."""
    return Node(node.factor, node.indices, inputs, node.own,
                node.own + sum([n.cost for n in inputs]))


def _window(whole: Search, top: Node) -> Node:
    """The steps just below one, in a better order if there is one."""
    indices, edge = top.indices, list(top.inputs)
    while True:
        inner = [n for n in edge if n.inputs
                 and (indices | n.indices).bit_count() <= WINDOW]
        if not inner:
            break
        dearest = max(inner, key=lambda n: n.own)
        edge.remove(dearest)
        edge += dearest.inputs
        indices |= dearest.indices
    if indices == top.indices or not 2 < len(edge) <= 2 * WINDOW:
        return top
    search = Search(whole.sizes, edge, indices, whole.limits, Budget(WINDOW_STEPS), top.cost)
    found = search.best()
    return top if found is None else Node(
        top.factor, found.indices, found.inputs, found.own, found.cost)
