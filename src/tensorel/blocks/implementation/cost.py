"""What a plan costs: bytes that leave their site, work, and how both fall on the busiest site.

Paper 000 charges a broadcast with s times the size and a shuffle with the size. Here a block that
is where it is needed is not sent, a block goes to a site once however many tuples of it are needed
there, and time is that of the busiest site: a partition into fewer cells than sites, or into cells
of unequal size, costs what it costs."""

from __future__ import annotations

import math

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.implementation.functions import Array
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalJoin,
    LocalMap,
    Node,
    Relation,
    Shuffle,
)
from tensorel.blocks.implementation.partitions import SPREAD, Partition
from tensorel.errors import ValueError_


@dataclass(frozen=True, slots=True)
class Rates:
    """What a site does in a second, what it holds, and what each exchange costs besides."""

    flops: float = 5e10
    bytes: float = 1e9
    exchange: float = 1e-3
    memory: float = math.inf


RATES = Rates()


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes and flops of all sites, of the busiest site, and the largest result held at a site."""

    bytes: float = 0.0
    flops: float = 0.0
    busiest_bytes: float = 0.0
    busiest_flops: float = 0.0
    exchanges: int = 0
    memory: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.bytes + other.bytes, self.flops + other.flops,
                    self.busiest_bytes + other.busiest_bytes,
                    self.busiest_flops + other.busiest_flops,
                    self.exchanges + other.exchanges, max(self.memory, other.memory))

    def seconds(self, rates: Rates) -> float:
        """One operator after the other, each as long as its busiest site; infinite where a site
        would have to hold more than it can."""
        if self.memory > rates.memory:
            return math.inf
        return (self.busiest_bytes / rates.bytes + self.busiest_flops / rates.flops
                + self.exchanges * rates.exchange)


def plan_cost(plan: Node, sites: int) -> Cost:
    """The cost of a plan; an operator that is used twice runs once."""
    return Costing(sites).of(plan)


class Costing:
    """Costs of plans that share operators."""

    def __init__(self, sites: int) -> None:
        self.sites = sites
        self._known: dict[Node, Cost] = {}

    def of(self, plan: Node) -> Cost:
        """The sum over the different operators of a plan."""
        total, seen, stack = Cost(), set[Node](), [plan]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack += node.children
                total += self.operator(node)
        return total

    def operator(self, node: Node) -> Cost:
        """The cost of one operator without its operands."""
        if node not in self._known:
            self._known[node] = _operator(node, self.sites)
        return self._known[node]


def _operator(node: Node, sites: int) -> Cost:
    made = node.relation
    used = 1 if made.partition is None else made.partition.sites
    if used > sites:
        raise ValueError_(f"a partition {made.partition} has more cells than the {sites} sites")
    here = _at_busiest(made, sites) * made.block_bytes * _copied(made)
    if isinstance(node, (Shuffle, Broadcast)):
        moved, busiest = _moved(node.child.relation, made.partition, sites)
        return Cost(moved, 0.0, busiest, 0.0, int(moved > 0), here)
    if isinstance(node, Input):
        return Cost(memory=here)
    flops, of = _calls(node), node.children[0].relation
    if isinstance(node, LocalAggregate):
        each, busy = of.tuples - made.tuples, _at_busiest(of, sites) - _at_busiest(made, sites)
        work, most = max(each, 0.0) * flops, max(busy, 0.0) * flops
        last = node.finish.flops(made.block)
        work, most = work + made.tuples * last, most + _at_busiest(made, sites) * last
    else:
        work, most = made.tuples * flops, _at_busiest(made, sites) * flops
    return Cost(0.0, work * (sites if made.partition is None else 1), 0.0, most, 0, here)


def _calls(node: Node) -> float:
    """The work of one call of the node's kernel."""
    blocks = [c.relation.block for c in node.children]
    if isinstance(node, LocalAggregate):
        return node.kernel.flops(*blocks, *blocks)
    return node.kernel.flops(*blocks) if isinstance(node, (LocalJoin, LocalMap)) else 0.0


def _copied(of: Relation) -> float:
    """Blocks for each tuple: less than one where a site has many copies of a block."""
    at = Partition((), ()) if of.partition is None else of.partition
    copies = [math.ceil(of.extents[d] / max(at.cells(d), 1)) for d in of.copies]
    return 1.0 / max(math.prod(copies), 1)


def _at_busiest(of: Relation, sites: int) -> float:
    """The tuples at the site that has most of them."""
    at = of.partition
    if at is None:
        return of.tuples
    arrays = min(of.arrays, sites) if at.grid is None else of.arrays
    if at.grid is None:
        return math.ceil(math.prod(of.extents) * of.share * arrays / sites)
    held = arrays / at.cells(SPREAD)
    return math.prod(math.ceil(e / at.cells(d)) for d, e in enumerate(of.extents)) * of.share * held


def _moved(of: Relation, to: Partition | None, sites: int) -> tuple[float, float]:
    """The bytes that leave their site, and those of the site that sends or receives most."""
    each = of.block_bytes * of.share
    if of.partition is None:
        return 0.0, 0.0
    if of.partition.grid is None:
        needed = _holders(of, to, sites)[0]
        arrays = min(of.arrays, sites)
        arriving = needed * each * arrays * (sites - 1) / sites
        return float(arriving.sum()), float(max(arriving.max(), arriving.sum() / sites))
    if SPREAD in of.partition.dims:
        sent, received = _partials(of, to, sites)
        arrays = of.arrays / of.partition.cells(SPREAD)
    else:
        sent, received = _whole(of, to, sites)
        arrays = of.arrays
    each *= arrays
    return float(sent.sum()) * each, float(max(sent.max(), received.max())) * each


def _classes(of: Relation, *partitions: Partition | None) -> tuple[list[Array], list[Array]]:
    """Keys that lie alike under both partitions are one class: for each partition the sites of all
    classes, over one axis for each dimension, and for each dimension how many keys they are."""
    counts, digits = [], []
    for d, extent in enumerate(of.extents):
        known = [p.digits(d, extent) if p is not None else np.zeros(extent, np.int64)
                 for p in partitions]
        distinct, count = np.unique(np.stack(known), axis=1, return_counts=True)
        counts.append(count)
        digits.append(distinct)
    sites = []
    for n in range(len(partitions)):
        total = np.zeros((1,) * of.arity, np.int64)
        for d in range(of.arity):
            total = total + digits[d][n].reshape([-1 if a == d else 1 for a in range(of.arity)])
        sites.append(total)
    return sites, counts


def _by_block(of: Relation, at: Array, counts: list[Array]) -> tuple[Array, Array]:
    """Sites with one row for each class of blocks, and how many blocks each row is."""
    own = [d for d in range(of.arity) if d not in of.copies]
    at = at.transpose(own + sorted(of.copies))
    blocks = np.ones((1,) * len(own))
    for n, d in enumerate(own):
        blocks = blocks * counts[d].reshape([-1 if a == n else 1 for a in range(len(own))])
    return at.reshape(blocks.size, -1), blocks.ravel()


def _marked(rows: Array, to: Partition | None, sites: int) -> Array:
    held = np.full((len(rows), sites), to is None)
    if to is not None:
        held[np.arange(len(rows))[:, None], rows] = True
    return held


def _holders(of: Relation, to: Partition | None, sites: int) -> tuple[Array, Array]:
    """For each site the blocks that it needs."""
    (at,), counts = _classes(of, to)
    rows, blocks = _by_block(of, at, counts)
    return blocks @ _marked(rows, to, sites), blocks


def _whole(of: Relation, to: Partition | None, sites: int) -> tuple[Array, Array]:
    """Blocks sent and received by each site, where a key's block lies at one site."""
    (before, after), counts = _classes(of, of.partition, to)
    rows, blocks = _by_block(of, before, counts)
    held = _marked(rows, of.partition, sites)
    missing = _marked(_by_block(of, after, counts)[0], to, sites) & ~held
    received = blocks @ missing
    sent = np.bincount(rows[:, 0], blocks * missing.sum(axis=1), sites)
    return sent, received


def _partials(of: Relation, to: Partition | None, sites: int) -> tuple[Array, Array]:
    """The same where each cell along the SPREAD axes has a block of its own for each key."""
    assert of.partition is not None
    (before, after), counts = _classes(of, of.partition, to)
    rows, blocks = _by_block(of, before, counts)
    needed = _marked(_by_block(of, after, counts)[0], to, sites)
    sent, received = np.zeros(sites), np.zeros(sites)
    for cell in of.partition.spread():
        at = rows[:, 0] + cell
        missing = needed & ~_marked(at[:, None], of.partition, sites)
        received += blocks @ missing
        sent += np.bincount(at, blocks * missing.sum(axis=1), sites)
    return sent, received
