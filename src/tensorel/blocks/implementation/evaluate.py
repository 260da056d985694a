"""Runs a plan on simulated sites: the meaning of the operators, and the oracle of rules and costs.

It asks for no law, so it shows what a plan would do in which one is broken."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorel.blocks.implementation.functions import Array, Key
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Shuffle,
    relation_of,
)
from tensorel.blocks.implementation.partitions import Partition
from tensorel.errors import ValueError_

#: The tuples of a site; several blocks of a key between a shuffle of partial aggregates and a sum.
Site = dict[Key, list[Array]]
Data = Mapping[str, Mapping[Key, Array]]


class Simulation:
    """Sites that run plans over the data of named inputs; ``moved`` counts the bytes they sent."""

    def __init__(self, data: Data, sites: int) -> None:
        self.data = data
        self.sites = sites
        self.moved = 0
        self._ran: dict[Node, list[Site]] = {}

    def run(self, node: Node) -> list[Site]:
        """The tuples of each site."""
        if node not in self._ran:
            self._ran[node] = self._run(node, [self.run(c) for c in node.children])
        return self._ran[node]

    def _run(self, node: Node, of: list[list[Site]]) -> list[Site]:
        match node:
            case Input(name, extents, partition=to):
                stored = {key: [block] for key, block in self.data[name].items()}
                return self._placed([stored], to, extents, counted=False)
            case Broadcast(child) | Shuffle(child):
                before = relation_of(child)
                to = node.to if isinstance(node, Shuffle) else None
                if before.partition is not None:
                    return self._placed(of[0], to, before.extents, counted=True)
                return [{k: b for k, b in site.items() if n in self._targets(k, to, before.extents)}
                        for n, site in enumerate(of[0])]
            case LocalJoin():
                return [_join(node, left, right) for left, right in zip(*of)]
            case LocalAggregate():
                return [_aggregate(node, site) for site in of[0]]
            case LocalFilter(where=where):
                return [{k: b for k, b in site.items() if where.holds(*(k[d] for d in where.dims))}
                        for site in of[0]]
            case LocalMap():
                return [_map(node, site) for site in of[0]]
        raise AssertionError(node)

    def _placed(self, of: list[Site], to: Partition | None, extents: Key, counted: bool
                ) -> list[Site]:
        """Each tuple where the partition wants it; a block goes to a site once."""
        placed: list[Site] = [{} for _ in range(self.sites)]
        there = [{id(b) for blocks in site.values() for b in blocks} for site in of]
        for site in of:
            for key, blocks in site.items():
                for target in self._targets(key, to, extents):
                    placed[target].setdefault(key, []).extend(blocks)
                    sent = [b for b in blocks if counted and id(b) not in there[target]]
                    self.moved += sum(b.nbytes for b in sent)
                    if sent:
                        there[target].update(map(id, sent))
        return placed

    def _targets(self, key: Key, to: Partition | None, extents: Key) -> list[int]:
        if to is None:
            return list(range(self.sites))
        if to.grid is None:
            return [hash(key) % self.sites]
        return [sum(int(to.digits(d, extents[d])[key[d]]) for d in to.dims)]


def evaluate(plan: Node, data: Data, sites: int) -> dict[Key, Array]:
    """The relation that a plan gives, by key; an error if a key has several blocks in it."""
    return gathered(Simulation(data, sites).run(plan))


def gathered(run: list[Site]) -> dict[Key, Array]:
    """The relation that lies at some sites."""
    found: dict[Key, Array] = {}
    for site in run:
        for key, blocks in site.items():
            for block in blocks:
                if not np.allclose(found.setdefault(key, block), block):
                    raise ValueError_(f"the sites have different blocks of the key {key}")
            if len(blocks) > 1:
                raise ValueError_(f"a site has {len(blocks)} blocks of the key {key}")
    return found


def _join(node: LocalJoin, left: Site, right: Site) -> Site:
    matching: dict[Key, list[Key]] = {}
    for key in right:
        matching.setdefault(tuple(key[d] for d in node.right_keys), []).append(key)
    made: Site = {}
    for key, blocks in left.items():
        for other in matching.get(tuple(key[d] for d in node.left_keys), ()):
            rest = tuple(k for d, k in enumerate(other) if d not in node.right_keys)
            whole = key + rest
            if node.where is None or node.where.holds(*(whole[d] for d in node.where.dims)):
                made[whole] = [node.kernel.run(a, b) for a in blocks for b in right[other]]
    return made


def _aggregate(node: LocalAggregate, site: Site) -> Site:
    made: Site = {}
    for key in sorted(site):
        group = tuple(key[d] for d in node.group)
        for block in site[key]:
            made[group] = [node.kernel.run(made[group][0], block)] if group in made else [block]
    return {key: [node.finish.run(b) for b in blocks] for key, blocks in made.items()}


def _map(node: LocalMap, site: Site) -> Site:
    made: Site = {}
    for key, blocks in site.items():
        for new in node.keys.keys(key):
            extra = (new,) if node.kernel.keyed else ()
            made.setdefault(new, []).extend(node.kernel.run(*extra, b) for b in blocks)
    return made
