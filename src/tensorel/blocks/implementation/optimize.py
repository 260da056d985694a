"""The cheapest plan that rules reach.

First the shapes of the plan: what R1 makes of it where every relation is everywhere, so that no
law stands in the way. Then, for each of the best shapes, where its operators run: from the inputs
upwards, for each partition that a result can have the cheapest plan that leaves it so. What an
operator may do is what R2 and the 3-D rule build over the plans of its operands. All is bounded by
counts, so that every process finds the same plan."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tensorel.base.records import dataclass
from tensorel.blocks.implementation import rules
from tensorel.blocks.implementation.cost import RATES, Cost, Costing, Rates
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalJoin,
    Node,
    Relation,
    Shuffle,
)
from tensorel.blocks.implementation.partitions import Partition, grids
from tensorel.errors import TensorelError

MAX_SHAPES = 200  # shapes that are looked at
PLACED_SHAPES = 8  # the best of them are placed, and the one that was given
MAX_PARTITIONS = 48  # plans that are kept for an operator, the cheapest for each partition


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan, its cost, and its time."""

    plan: Node
    cost: Cost
    seconds: float


@dataclass(frozen=True, slots=True)
class Choices:
    """The cheapest plan, the cheapest one whose joins run elsewhere, and how many were compared."""

    best: Choice
    runner_up: Choice | None
    plans: int


def optimize(plan: Node, sites: int, rates: Rates = RATES, *, keep_partition: bool = False
             ) -> Choices:
    """Search the plans equal to this one; with ``keep_partition`` the result lies as it does here.

    >>> from tensorel.blocks.implementation.functions import ADD, MATMUL
    >>> A, B = (Input(name, (8, 8), (500, 500), free=True) for name in "AB")
    >>> product = LocalJoin(Broadcast(A), B, (1,), (0,), MATMUL)
    >>> plan = LocalAggregate(Shuffle(product, Partition((2,), (4,))), (0, 2), ADD)
    >>> best = optimize(plan, 4).best
    >>> str(best.plan.relation.partition), best.cost.bytes / (64 * 500 * 500 * 8)
    ('by 0/2, 1/2', 2.0)
    """
    shape, inputs = _everywhere(plan)
    wanted = plan.relation.partition if keep_partition else False
    found: list[Node] = []
    compared = 0
    for candidate in dict.fromkeys((*_shapes(shape, rates)[:PLACED_SHAPES], shape)):
        search = Search(sites, rates, inputs)
        found += search.results(candidate, wanted)
        compared += search.compared
    costing = Costing(sites)
    rows = [Choice(p, cost := costing.of(p), cost.seconds(rates)) for p in dict.fromkeys(found)]
    rows.sort(key=lambda c: (c.seconds, _size(c.plan)))
    scheme = _scheme(rows[0].plan)
    others = (c for c in rows[1:] if not scheme or _scheme(c.plan) != scheme)
    return Choices(rows[0], next(others, None), compared)


class Search:
    """The plans of one shape, by partition."""

    def __init__(self, sites: int, rates: Rates, inputs: Mapping[str, Input]) -> None:
        self.sites = sites
        self.rates = rates
        self.inputs = dict(inputs)
        self.compared = 0
        self._costing = Costing(sites)
        self._seconds: dict[Node, float] = {}
        self._tables: dict[Node, list[Node]] = {}

    def results(self, shape: Node, wanted: Partition | bool | None) -> list[Node]:
        """The best plans of the whole; each input has one home."""
        found = self._ranked(shape, lambda p: (p.relation.partition, _scheme(p)))
        if not isinstance(wanted, bool):
            found = [min((p for r in found for p in _bring(r, wanted)), key=self.seconds)]
        homes = {name: [i for i in dict.fromkeys(_inputs(found[0])) if i.name == name]
                 for name in self.inputs}
        for name, used in homes.items():
            if len(used) > 1:
                tries = [Search(self.sites, self.rates, self.inputs | {name: home})
                         for home in used if not home.free]
                results = [t.results(shape, wanted) for t in tries]
                self.compared += sum(t.compared for t in tries)
                return min(results, key=lambda plans: self.seconds(plans[0]))
        return found

    def seconds(self, plan: Node) -> float:
        """The time of a plan, one operator after the other."""
        if plan not in self._seconds:
            own = self._costing.operator(plan).seconds(self.rates)
            self._seconds[plan] = own + sum(map(self.seconds, plan.children))
        return self._seconds[plan]

    def table(self, shape: Node) -> list[Node]:
        """The cheapest plan for each partition of a result, cheapest first."""
        if shape not in self._tables:
            self._tables[shape] = self._ranked(shape, lambda p: p.relation.partition)
        return self._tables[shape]

    def _ranked(self, shape: Node, kind: Callable[[Node], object]) -> list[Node]:
        """The cheapest candidate of each kind, cheapest first."""
        best: dict[object, tuple[float, int, Node]] = {}
        for plan in self._candidates(shape):
            try:
                if not _means(shape.relation, plan.relation):
                    continue
            except TensorelError:
                continue
            self.compared += 1
            row = (self.seconds(plan), _size(plan), plan)
            at = kind(plan)
            if at not in best or row[:2] < best[at][:2]:
                best[at] = row
        rows = sorted(best.values(), key=lambda row: row[:2])
        return [plan for *_, plan in rows[:MAX_PARTITIONS]]

    def _candidates(self, shape: Node) -> Iterator[Node]:
        match shape:
            case Input(name):
                yield self.inputs[name]
            case LocalJoin():
                yield from self._joins(shape)
            case LocalAggregate():
                yield from self._aggregations(shape)
            case _:
                yield from map(shape.over, self.table(shape.children[0]))

    def _aggregations(self, shape: LocalAggregate) -> Iterator[Node]:
        grid = grids(shape.relation.extents, self.sites)[0]
        for child in self.table(shape.child):
            start = shape.over(Shuffle(child, Partition.of(shape.group, grid)))
            in_place = list(rules.aggregate_in_place.apply(start, self.sites))
            yield from in_place
            if not in_place or child.relation.partition is None:
                for plan in (start, *rules.aggregate_twice.apply(start, self.sites)):
                    yield plan
                    (move,) = plan.children
                    yield from map(plan.over, rules.shuffle_otherwise.apply(move, self.sites))

    def _joins(self, shape: LocalJoin) -> Iterator[Node]:
        tables = [self.table(c) for c in shape.children]
        first = [t[0] for t in tables]
        base = shape.over(Broadcast(first[0]), first[1])
        for rule in (rules.place_join, rules.replicate_join):
            for plan in rule.apply(base, self.sites):
                ways = [self._ways(*of) for of in zip(plan.children, first, tables)]
                yield from (plan.over(left, right) for left in ways[0] for right in ways[1])
        yield from self._meeting(shape, *tables)

    def _meeting(self, shape: LocalJoin, lefts: list[Node], rights: list[Node]) -> Iterator[Node]:
        """Operands that lie together, or where one of them lies by join keys."""
        to_right = dict(zip(shape.left_keys, shape.right_keys))
        to_left = dict(zip(shape.right_keys, shape.left_keys))
        for here, there, names, order in (
                (lefts, rights, to_right, 1), (rights, lefts, to_left, -1)):
            for plan in here:
                at = plan.relation.partition
                if at is None:
                    yield from (shape.over(*(plan, other)[::order]) for other in there)
                elif at.grid is not None and at.dims <= set(names):
                    to = at.renamed(names, 0)
                    other = min((p for r in there for p in _bring(r, to)), key=self.seconds)
                    yield shape.over(*(plan, other)[::order])

    def _ways(self, move: Node, first: Node, table: list[Node]) -> list[Node]:
        """A join's operand over all plans of what it moves: the cheapest if it is moved, all if
        it stays where it lies."""
        if move is first:
            return [*table, *self._homes(first)]
        ways = []
        for plan in table:
            moved = _put(move, first, plan)
            ways += [moved, *rules.last_move.apply(moved, self.sites),
                     *rules.map_after_move.apply(moved, self.sites)]
            for old, new in rules.homes(moved, self.sites):
                at_home = _put(moved, old, new)
                ways += [at_home, *rules.last_move.apply(at_home, self.sites)]
        return [min(ways, key=lambda p: (self.seconds(p), _size(p)))]

    def _homes(self, node: Node) -> Iterator[Node]:
        if isinstance(node, Input) and node.free:
            for grid in grids(node.extents, self.sites):
                yield replace(node, partition=Partition.of(range(len(grid)), grid), free=False)


def _bring(plan: Node, to: Partition | None) -> Iterator[Node]:
    """A plan whose result lies by a partition."""
    if plan.relation.partition == to:
        yield plan
    elif to is None:
        yield Broadcast(plan)
    else:
        yield Shuffle(plan, to)
        if isinstance(plan, Input) and plan.free:
            yield replace(plan, partition=to, free=False)


def _put(plan: Node, old: Node, new: Node) -> Node:
    if plan == old:
        return new
    return plan.over(*(_put(c, old, new) for c in plan.children)) if plan.children else plan


def _inputs(plan: Node) -> Iterator[Input]:
    if isinstance(plan, Input):
        yield plan
    for child in plan.children:
        yield from _inputs(child)


def _everywhere(plan: Node) -> tuple[Node, dict[str, Input]]:
    """The plan without moves over inputs that are at all sites, and the inputs as they are."""
    inputs: dict[str, Input] = {}

    def visit(node: Node) -> Node:
        match node:
            case Input(name):
                inputs[name] = node
                return replace(node, partition=None)
            case Shuffle(child) | Broadcast(child):
                return visit(child)
        node = node.over(*map(visit, node.children))
        match node:  # two phases are one where nothing is partial
            case LocalAggregate(LocalAggregate(child, group, first), outer, second, finish) if (
                    first is second and outer == tuple(range(len(group)))):
                return LocalAggregate(child, group, first, finish)
        return node

    return visit(plan), inputs


def _shapes(shape: Node, rates: Rates) -> list[Node]:
    """What R1 makes of a plan, by the work and by the size of what is made."""
    costing = Costing(1)

    def price(plan: Node) -> float:
        return sum(costing.operator(n).seconds(rates) + n.relation.bytes / rates.bytes
                   for n in _operators(plan))

    found = {shape: price(shape)}
    queue = [(found[shape], 0, shape)]
    while queue and len(found) < MAX_SHAPES:
        *_, plan = heapq.heappop(queue)
        for _, other in neighbours(plan, 1, rules.SHAPING):
            if other not in found and len(found) < MAX_SHAPES:
                found[other] = price(other)
                heapq.heappush(queue, (found[other], len(found), other))
    return sorted(found, key=lambda p: (found[p], _size(p)))


def neighbours(plan: Node, sites: int, of: Iterable[rules.Rule] = rules.RULES
               ) -> Iterator[tuple[rules.Rule, Node]]:
    """The plans that differ by one rule at one place, in which all laws hold."""
    for node in _operators(plan):
        for rule in of:
            for built in rule.apply(node, sites):
                if (whole := replaced(plan, node, built)) is not None:
                    yield rule, whole


def replaced(plan: Node, old: Node, new: Node) -> Node | None:
    """The plan with one node for another; None where a law breaks, or where something that was
    complete becomes partial."""
    done: dict[Node, Node] = {old: new}

    def visit(node: Node) -> Node:
        if node not in done:
            done[node] = node.over(*map(visit, node.children))
        return done[node]

    try:
        whole = visit(plan)
        return whole if all(_means(a.relation, b.relation) for a, b in done.items()) else None
    except TensorelError:
        return None


def _means(old: Relation, new: Relation) -> bool:
    return old.extents == new.extents and old.block == new.block and old.partial is new.partial


def _operators(plan: Node) -> list[Node]:
    seen: dict[Node, None] = {}
    stack = [plan]
    while stack:
        if (node := stack.pop()) not in seen:
            seen[node] = None
            stack += node.children
    return list(seen)


def _size(plan: Node) -> int:
    return len(_operators(plan))


def _scheme(plan: Node) -> tuple[Partition | None, ...]:
    """Where the joins of a plan run."""
    return tuple(n.relation.partition for n in _operators(plan) if isinstance(n, LocalJoin))
