"""All orders of contraction that the search considers, for those who want another than the best."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import combinations, product

from tensorel.plan.contraction.eliminate import Search
from tensorel.plan.contraction.join_sizes import bits
from tensorel.plan.contraction.step_costs import TOO_LARGE, Node
from tensorel.plan.decisions import Option

MAX_LISTED_INDICES = 5  # indices at most, and one more factors: beyond, the best is all there is
MAX_LISTED_ORDERS = 400


def is_listed(factors: Sized, left: Sized) -> bool:
    """The orders are few enough to be listed."""
    return len(left) <= MAX_LISTED_INDICES and len(factors) <= MAX_LISTED_INDICES + 1


def sequences(search: Search) -> list[Option[Node]]:
    """The cheapest, the best first. Those that differ only in the order of independent
    steps are one; the cheapest ways are made of cheapest ways, so each set keeps so many."""
    found = _All(search).ways()
    possible = [n for n in found if n.cost < TOO_LARGE] or found[:1]
    return [Option(n.cost, n, _words(search, n)) for n in possible]


class _All:
    def __init__(self, search: Search) -> None:
        self.search = search
        self.memo: dict[tuple[int, int], list[Node]] = {}

    def ways(self) -> list[Node]:
        s = self.search
        untouched = s.all & ~s.touched(s.reduced)
        if untouched or s.loose or len(s.parts(s.reduced)) != 1:
            return self._list(s.reduced, untouched, [0, *_subsets(s.reduced)], s.loose)
        return self.solve(s.reduced, 0)

    def solve(self, indices: int, masks: int) -> list[Node]:
        key = (indices, masks)
        if key not in self.memo:
            self.memo[key] = self._list(indices, masks, list(_subsets(indices)))
        return self.memo[key]

    def _list(self, indices: int, masks: int, last_sets: list[int], loose: int = 0
              ) -> list[Node]:
        s, found = self.search, dict[object, Node]()
        made = s.factor(indices, masks)
        for last in last_sets:
            for inputs in self._inputs(indices, last, masks):
                node = inputs[0] if len(inputs) == 1 and not last | loose else s.step(
                    made, last | loose, inputs)
                if node is not None:
                    found.setdefault(_steps(node), node)
        return sorted(found.values(), key=lambda n: n.cost)[: MAX_LISTED_ORDERS]

    def _inputs(self, indices: int, last: int, masks: int) -> Iterator[list[Node]]:
        s = self.search
        parts = s.parts(indices & ~last)
        direct = (s.touched(indices) | masks) & ~s.touched(indices & ~last)
        own = [{0, s.masks(p, direct)} for p in parts]
        for taken in product(*[sorted(o) for o in own]):
            together = 0
            for t in taken:
                together |= t
            if together.bit_count() == sum([t.bit_count() for t in taken]):
                rest = s.members(direct & ~together)
                for nodes in product(*[self.solve(p, t) for p, t in zip(parts, taken)]):
                    yield [*nodes, *rest]


def _steps(node: Node) -> frozenset[tuple[int, frozenset[int]]]:
    """The steps that make a factor, in no order."""
    found: set[tuple[int, frozenset[int]]] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if n.inputs:
            found.add((n.indices, frozenset([m.factor.parts for m in n.inputs])))
            stack += n.inputs
    return frozenset(found)


def _subsets(indices: int) -> Iterator[int]:
    singles = bits(indices)
    for size in range(1, len(singles) + 1):
        yield from [sum(some) for some in combinations(singles, size)]


def _words(search: Search, last: Node) -> str:
    words: list[str] = []
    stack = [last]
    while stack:
        node = stack.pop()
        if node.inputs:
            words.append(", ".join(search.sizes.named(node.indices)) or "the rest")
            stack += node.inputs
    return " then ".join(reversed(words)) if len(words) > 1 else "all at once"
