"""Where join groups run, where targets are finished and free blocks come into being.

The greedy rules of the paper on two-phase execution and starts that follow the structure of the
lineage are compared by cost; the best are improved. Deterministic: the work is bounded by counts,
and what is drawn at random depends on the seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.join_groups import starts as structured
from tensorel.blocks.join_groups.cost import Cost, Rates, cost_of
from tensorel.blocks.join_groups.exchange import Exchange
from tensorel.blocks.join_groups.lineage import FREE, JoinGroups, Placement
from tensorel.blocks.join_groups.search import Search
from tensorel.errors import MemoryLimitError, ValueError_

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tensorel.blocks.join_groups.lineage import Floats, Ints

SMALL = 64  # so many join groups are also moved two by two, and at random
ITEMS = 2048  # more join groups are placed in clusters


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """What is to be placed."""

    groups: JoinGroups
    sites: int
    rates: Rates
    memory: Floats | None
    seed: int

    def score(self, found: Placement) -> float:
        """Seconds; bytes above the memory of sites come first."""
        cost = cost_of(self.groups, found, self.sites, self.rates)
        return cost.seconds + self.over(cost) * 1e6

    def over(self, cost: Cost) -> float:
        return 0.0 if self.memory is None else float(np.maximum(cost.held - self.memory, 0).sum())

    def search(self, item: Ints, start: Placement, placed: bool = True) -> Search:
        _, item = np.unique(item, return_inverse=True)
        return Search(self.groups, item.astype(np.int64), start, self.sites, self.rates,
                      self.memory, placed=placed)


def place(groups: JoinGroups, sites: int, rates: Rates, memory: ArrayLike | None = None,
          seed: int = 0, starts: Sequence[Placement] = (), keys: Ints | None = None) -> Placement:
    """A placement of low cost, on sites of ``memory`` bytes each (or one number for all).

    ``starts`` are placements to improve beside our own; ``keys`` of the join groups (those that
    ``pilot`` gives) say along what lineage may be cut, else this is found from the lineage."""
    if sites < 1:
        raise ValueError_(f"a placement on {sites} sites")
    groups = groups.check(sites)
    limit = None if memory is None else np.broadcast_to(np.asarray(memory, np.float64), (sites,))
    task = Instance(groups, sites, rates, limit, seed)
    _check_room(task)
    labels = structured.indices(groups, keys) if len(groups.target) and sites > 1 else []
    cluster = structured.clusters(groups, labels, ITEMS)
    found = [s.check(groups, sites) for s in starts]
    found += [structured.complete(groups, c, sites) for c in _sites_of_groups(task, labels)]
    found.append(greedy(task, cluster))
    scores = [task.score(p) for p in found]
    order = sorted(range(len(found)), key=lambda at: (scores[at], at))
    few = order[: 3 if len(groups.target) <= SMALL else 2 if len(groups.target) <= ITEMS else 1]
    given = [at for at in order if at < len(starts)][:1]
    best, least = found[order[0]], scores[order[0]]
    for at in dict.fromkeys([*few, *given]):
        made = improved(task, found[at], cluster)
        score = task.score(made)
        if score < least:
            best, least = made, score
    if 0 < len(groups.target) <= SMALL and sites > 1:
        exchange = Exchange(groups, sites, rates, limit)
        made = exchange.improve(best, seed) if exchange.small else best
        best = made if task.score(made) < least else best
    _check_fits(task, best)
    return best


def _sites_of_groups(task: Instance, labels: list[Ints]) -> Iterator[Ints]:
    groups, sites = task.groups, task.sites
    yield np.zeros(len(groups.target), np.int64)
    if sites == 1 or not len(groups.target):
        return
    yield from structured.at_data(groups, sites)
    work = structured.loads(groups)
    open_ = _with_room(task)
    count = len(open_)
    cells = [structured.bisection(groups, labels, count), *structured.grids(groups, labels, count)]
    cells += [structured.chunks(column, work, count) for column in
              (groups.target, *groups.blocks.T[:2]) if column.min() >= 0]
    for cell in cells:
        yield structured.named(groups, cell, sites, open_)


def _with_room(task: Instance) -> Ints:
    """The sites that an even share of work may go to: those with half of the most room or more."""
    if task.memory is None:
        return np.arange(task.sites)
    room = task.memory - _lying(task.groups, task.sites)
    return np.flatnonzero(room >= room.max() / 2)


def greedy(task: Instance, cluster: Ints) -> Placement:
    """Aggregation groups, largest first, each by the cheaper of two rules: all its join groups and
    itself at one site, or each join group at its cheapest site and then itself."""
    groups = task.groups
    nowhere = Placement(np.full(len(groups.target), FREE), np.full(len(groups.made), FREE),
                        groups.home)
    search = task.search(cluster, nowhere, placed=False)
    hubs = search.targets
    owner = np.repeat(np.arange(len(search.work)), np.diff(hubs.ends))
    order = np.argsort(hubs.index, kind="stable")
    ends = np.searchsorted(hubs.index[order], np.arange(len(hubs.seconds) + 1))
    items_of = owner[order]
    size = np.bincount(hubs.index, search.work[owner], len(hubs.seconds)) + hubs.seconds
    later: list[int] = []  # targets of which all is placed; where they are many, they wait
    most = max(1, min(len(size) // 256, 64))
    for t in np.argsort(-size, kind="stable").tolist():
        items = items_of[ends[t] : ends[t + 1]]
        items = items[search.site[items] < 0]
        if len(items):
            items = items[np.argsort(-search.work[items], kind="stable")]
            _place_target(search, t, items)
            continue
        later.append(t)
        if len(later) == most:
            search.finish_cheapest(np.array(later))
            later.clear()
    search.finish_cheapest(np.array(later, np.int64))
    found = search.placement(nowhere)
    home = np.where(found.home >= 0, found.home, np.arange(len(found.home)) % task.sites)
    return Placement(found.group_site, found.target_site, home)


def _place_target(search: Search, t: int, items: Ints) -> None:
    def put(at: Sequence[int], y: int, sign: int = 1) -> None:
        if sign < 0:
            search.finish_at(t, y, -1)
        for item, s in zip(items.tolist(), at):
            search.insert(item, s, sign)
        if sign > 0:
            search.finish_at(t, y)

    blocks = np.unique(np.concatenate([search.of(search.blocks, i) for i in items]))
    parts, count = np.unique(np.concatenate([search.of(search.targets, i) for i in items]),
                             return_counts=True)
    work = float(search.work[items].sum() + search.targets.local[parts] @ (count - 1))
    s = int(search.insertion(blocks, parts, work).argmin())
    together = [s] * len(items)
    put(together, s)
    if len(items) == 1:
        return
    cost = search.cost()
    put(together, s, -1)
    for item in items.tolist():
        search.place_item(item)
    y = int(search.finishing(t).argmin())
    search.finish_at(t, y)
    if search.cost() > cost:
        put([int(search.site[i]) for i in items], y, -1)
        put(together, s)


def improved(task: Instance, start: Placement, cluster: Ints) -> Placement:
    """By local improvement, of sets of join groups and then of single ones."""
    count = len(task.groups.target)
    if not count or task.sites == 1:
        return start
    if count > SMALL:
        while count > ITEMS and _pieces(cluster, start, task.sites) > 2 * ITEMS:
            cluster = cluster // 4
        search = task.search(cluster * task.sites + start.group_site, start)
        search.improve(3 * ITEMS)
        return search.placement(start)
    best, least = start, task.score(start)
    for kind in (task.groups.target, *task.groups.blocks.T[:3], np.arange(count)):
        search = task.search((kind + 1) * task.sites + best.group_site, best)
        search.improve(20 * count)
        made = search.placement(best)
        if (score := task.score(made)) < least:
            best, least = made, score
    return best


def _pieces(cluster: Ints, start: Placement, sites: int) -> int:
    return len(np.unique(cluster * sites + start.group_site))


def _check_room(task: Instance) -> None:
    """An error for what fits nowhere, before any work."""
    groups, limit = task.groups, task.memory
    if limit is None:
        return
    lying = _lying(groups, task.sites)
    for s in np.flatnonzero(lying > limit)[:1]:
        _refuse(float(lying[s]), float(limit[s]), f"the blocks that lie at site {s}")
    least = float(groups.size.sum() + groups.made.sum())
    if least > float(limit.sum()):
        _refuse(least, float(limit.sum()), "all blocks and results, on all sites together")
    rows = np.sort(groups.blocks, 1)
    once = (rows >= 0) & (np.diff(rows, axis=1, prepend=-1) != 0)
    size = (groups.size[rows] * once).sum(1) if groups.size.size else np.zeros(len(rows))
    size += groups.made[groups.target]
    if len(size) and size.max() > limit.max():
        _refuse(float(size.max()), float(limit.max()), "the blocks of one join group")


def _lying(groups: JoinGroups, sites: int) -> Floats:
    fixed = groups.home >= 0
    found = np.bincount(groups.home[fixed], groups.size[fixed], sites)
    return found.astype(np.float64, copy=False)


def _check_fits(task: Instance, found: Placement) -> None:
    if task.memory is None:
        return
    held = cost_of(task.groups, found, task.sites, task.rates).held
    over = held - task.memory
    if (s := int(over.argmax())) >= 0 and over[s] > 1e-6 * task.memory[s]:
        _refuse(float(held[s]), float(task.memory[s]), f"the share of site {s} in the best plan")


def _refuse(needed: float, limit: float, what: str) -> None:
    raise MemoryLimitError(
        f"{what}: {needed:.0f} bytes, and there is room for {limit:.0f}",
        needed=int(needed), limit=int(limit), step="place",
        hint="give more sites or more memory, or cut the operands into smaller blocks")
