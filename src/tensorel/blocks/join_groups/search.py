"""Local improvement of a placement: items, targets and homes move, one at a time.

An item is a set of join groups that move together. What a move changes is computed for all sites
at once and from counts, so that costs are those of ``cost_of``, whatever the items are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.join_groups.cost import Rates
from tensorel.blocks.join_groups.lineage import FREE, JoinGroups, Placement, distinct, needed

if TYPE_CHECKING:
    from tensorel.blocks.join_groups.lineage import Floats, Ints

EVEN = 0.1  # seconds that a site spends count so much even where another site is slower
FULL = 1e6  # a byte above the memory of a site counts as so many seconds of its transfer


@dataclass(frozen=True, eq=False, slots=True)
class Hubs:
    """Blocks or targets that the same items touch, as one: ``seconds`` to move, ``extra`` to add
    an arrival, ``local`` to add at the place where it was made, and ``bytes``."""

    member: Ints  # the merged one of each
    ends: Ints  # where the list of each item ends, one more than there are items
    index: Ints  # the merged ones that an item touches
    seconds: Floats
    extra: Floats
    local: Floats
    bytes: Floats


def _merge(owner: Ints, item: Ints, items: int, kind: Ints, weights: Floats) -> Hubs:
    """Merges what is in the same items and of the same ``kind``; ``weights`` are four rows."""
    random = np.random.default_rng(0).integers(0, 2**63, items, np.uint64)
    code = np.random.default_rng(1).integers(0, 2**63, int(kind.max(initial=0)) + 1, np.uint64)
    signature = code[kind]
    by_owner = np.searchsorted(owner, np.arange(len(kind) + 1))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(random[item])])
    signature = signature + sums[by_owner[1:]] - sums[by_owner[:-1]]
    _, member = np.unique(signature, return_inverse=True)
    width = int(member.max(initial=-1)) + 1
    which, index, _ = distinct(item, member[owner], max(width, 1))
    ends = np.searchsorted(which, np.arange(items + 1))
    total = [np.bincount(member, w, width).astype(np.float64, copy=False) for w in weights]
    return Hubs(member, ends, index, *total)


def _turns(owner: Ints, count: int) -> Ints:
    """Numbers for what may go anywhere: as many different ones as items touch it, so that what is
    merged can still be spread over them."""
    degree = np.bincount(owner, minlength=count)
    found: Ints = np.arange(count) % np.maximum(degree, 1)
    return found


class Search:
    """A placement of items, the load that it puts on each site, and what changes cost."""

    def __init__(self, groups: JoinGroups, item: Ints, start: Placement, sites: int, rates: Rates,
                 memory: Floats | None, *, placed: bool = True) -> None:
        self.sites, self.memory = sites, memory
        self.full = FULL * max(rates.byte, 1e-12)
        self.item, self.fixed_home = item, groups.home >= 0
        items = int(item.max(initial=-1)) + 1
        transfer = [groups.size * rates.byte + rates.transfer, 0 * groups.size, 0 * groups.size,
                    groups.size]
        block, at = needed(groups, item, items)
        self.unused = np.ones(len(groups.home), bool)
        self.unused[block] = False
        home = np.where(start.home >= 0, start.home, sites + _turns(block, len(groups.home)))
        kind = 2 * home + self.fixed_home
        self.blocks = _merge(block, at, items, kind, np.stack(transfer))
        target, at, count = distinct(groups.target, item, items)
        flops = groups.merge * rates.flop
        partial = [groups.made * rates.byte + rates.transfer, flops + rates.task, flops,
                   groups.made]
        finish = np.where(start.target_site >= 0, start.target_site,
                          sites + _turns(target, len(groups.made)))
        self.targets = _merge(target, at, items, finish, np.stack(partial))
        self.work = np.bincount(item, groups.work * rates.flop + rates.task, items)
        self.work += np.bincount(at, (count - 1) * flops[target], items)
        self.home = np.full(len(self.blocks.seconds), FREE)
        self.home[self.blocks.member] = start.home
        self.fixed = np.zeros(len(self.home), bool)
        self.fixed[self.blocks.member] = self.fixed_home
        self.finish = np.full(len(self.targets.seconds), FREE)
        counts = np.int32 if items > 30000 else np.int16
        self.need = np.zeros((len(self.home), sites), counts)
        self.part = np.zeros((len(self.finish), sites), counts)
        self.site = np.full(items, FREE)
        self.fetched, self.sent, self.joined, self.gathered, self.scattered, self.added, \
            self.held = np.zeros((7, sites))
        known = np.flatnonzero(self.home >= 0)
        np.add.at(self.held, self.home[known], self.blocks.bytes[known])
        if placed:
            where = np.full(items, FREE)
            where[item] = start.group_site
            for i in range(items):
                self.insert(i, int(where[i]))
            wanted = np.full(len(self.finish), FREE)
            wanted[self.targets.member] = start.target_site
            self._finish_rows(np.arange(len(wanted)), wanted)

    def of(self, hubs: Hubs, item: int) -> Ints:
        return hubs.index[hubs.ends[item] : hubs.ends[item + 1]]

    # -- changes: each keeps all loads; sign -1 takes back what sign 1 did

    def insert(self, item: int, s: int, sign: int = 1) -> None:
        """Puts an item at a site; what is free and first needed here comes into being here."""
        b, t = self.of(self.blocks, item), self.of(self.targets, item)
        self.site[item] = s if sign > 0 else FREE
        for counts, index in ((self.need, b), (self.part, t)):
            if sign < 0:
                counts[index, s] -= 1
        b, fresh = b[self.need[b, s] == 0], t[self.part[t, s] == 0]
        for counts, item_hubs in ((self.need, self.blocks), (self.part, self.targets)):
            if sign > 0:
                counts[self.of(item_hubs, item), s] += 1
        self.joined[s] += sign * (self.work[item] + self.targets.local[t].sum()
                                  - self.targets.local[fresh].sum())
        if len(b):
            self._fetch(b, s, sign)
        if len(fresh):
            finish = self.finish[fresh]
            here = fresh[finish != s]
            self.held[s] += sign * self.targets.bytes[here].sum()
            known = finish >= 0
            self._gather(fresh[known & (finish != s)], s, sign)

    def _fetch(self, b: Ints, s: int, sign: int) -> None:
        free = b[self.home[b] == FREE]
        if sign > 0 and len(free):
            self.home[free] = s
            self.held[s] += self.blocks.bytes[free].sum()
        away = b[self.home[b] != s]
        seconds = self.blocks.seconds[away]
        self.fetched[s] += sign * seconds.sum()
        np.add.at(self.sent, self.home[away], sign * seconds)
        self.held[s] += sign * self.blocks.bytes[away].sum()
        if sign < 0 and not self.fixed[b].all():
            idle = b[~self.fixed[b]]
            idle = idle[~self.need[idle].any(1)]
            np.subtract.at(self.held, self.home[idle], self.blocks.bytes[idle])
            self.home[idle] = FREE

    def _gather(self, t: Ints, s: int, sign: int) -> None:
        seconds, to = sign * self.targets.seconds[t], self.finish[t]
        self.scattered[s] += seconds.sum()
        np.add.at(self.gathered, to, seconds)
        np.add.at(self.added, to, sign * self.targets.extra[t])

    def finish_at(self, t: int, y: int, sign: int = 1) -> None:
        """Finishes a target at a site."""
        parts = self.part[t] > 0
        away = int(parts.sum()) - int(parts[y])
        seconds = sign * self.targets.seconds[t]
        self.scattered[parts] += seconds
        self.scattered[y] -= seconds * parts[y]
        self.gathered[y] += seconds * away
        self.added[y] += sign * self.targets.extra[t] * away
        self.held[y] += sign * self.targets.bytes[t] * (1 - parts[y])
        self.finish[t] = y if sign > 0 else FREE

    def _finish_rows(self, targets: Ints, at: Ints) -> None:
        """Finishes each of these targets at its site; as ``finish_at`` one after another."""
        parts, hubs = self.part[targets] > 0, self.targets
        there = parts[np.arange(len(at)), at]
        away = parts.sum(1) - there
        seconds = hubs.seconds[targets]

        def add(load: Floats, weight: Floats) -> None:
            load += np.bincount(at, weight, self.sites)

        self.scattered += seconds @ parts
        add(self.scattered, -seconds * there)
        add(self.gathered, seconds * away)
        add(self.added, hubs.extra[targets] * away)
        add(self.held, hubs.bytes[targets] * (1 - there))
        self.finish[targets] = at

    def finish_cheapest(self, targets: Ints) -> None:
        """Finishes targets where it is cheapest; they do not see each other."""
        parts = self.targets
        found = self.hub(self.gathered, self.scattered, self.added,
                         (self.part[targets] > 0).astype(np.float64), parts.seconds[targets, None],
                         parts.extra[targets, None], parts.bytes[targets, None])
        self._finish_rows(targets, found.argmin(1))

    def lie_at(self, b: int, h: int, sign: int = 1) -> None:
        """Has a free block come into being at a site."""
        users = self.need[b] > 0
        away = int(users.sum()) - int(users[h])
        seconds = sign * self.blocks.seconds[b]
        self.fetched[users] += seconds
        self.fetched[h] -= seconds * users[h]
        self.sent[h] += seconds * away
        size = sign * self.blocks.bytes[b]
        self.held[users] += size
        self.held[h] += size * (1 - users[h])
        self.home[b] = h if sign > 0 else FREE

    # -- costs: of the placement as it is, and with one change, for all sites

    def cost(self) -> float:
        loads = (self.fetched, self.sent, self.joined, self.gathered, self.scattered, self.added)
        peaks = [float(x.max()) for x in loads]
        even = float(sum(x.sum() for x in loads)) * EVEN / self.sites
        return (max(peaks[0], peaks[1]) + peaks[2] + max(peaks[3], peaks[4]) + peaks[5] + even
                + self._over(self.held))

    def _over(self, held: Floats) -> float:
        if self.memory is None:
            return 0.0
        return float(np.maximum(held - self.memory, 0.0).sum()) * self.full

    def _squeezed(self, more: Floats) -> Floats | float:
        if self.memory is None:
            return 0.0
        over = np.maximum(self.held - self.memory, 0.0)
        found: Floats = np.maximum(self.held + more - self.memory, 0.0) - over + over.sum()
        return self.full * found

    def insertion(self, b: Ints, t: Ints, work: float) -> Floats:
        """The cost with an item of these blocks, targets and work more, at each site."""
        hubs, parts = self.blocks, self.targets
        missing = self.need[b] == 0
        home = self.home[b]
        known = np.flatnonzero(home >= 0)
        missing[known, home[known]] = False
        size = hubs.bytes[b] @ missing if self.memory is not None else 0.0
        if len(known) < len(b):
            b, missing, home = b[known], missing[known], home[known]
        moving = missing * hubs.seconds[b][:, None]
        fetched = moving.sum(0)
        sent = _peak(self.sent, home, moving)
        there = self.part[t] > 0
        joined = work + parts.local[t] @ there
        finish = self.finish[t]
        np.logical_not(there, out=there)
        known = np.flatnonzero(finish >= 0)
        there[known, finish[known]] = False
        if self.memory is not None:
            size = size + parts.bytes[t] @ there
        if len(known) < len(t):
            t, there, finish = t[known], there[known], finish[known]
        moving = there * parts.seconds[t][:, None]
        scattered = moving.sum(0)
        added = there * parts.extra[t][:, None]
        total = 2 * (fetched + scattered) + joined + added.sum(0)
        after = self.joined + joined
        peaks = (np.maximum(np.maximum(self.fetched + fetched, self.fetched.max()), sent)
                 + np.maximum(after, self.joined.max())
                 + np.maximum(np.maximum(self.scattered + scattered, self.scattered.max()),
                              _peak(self.gathered, finish, moving))
                 + _peak(self.added, finish, added))
        busy = self.fetched + after + self.scattered + self.gathered + self.sent
        found: Floats = (peaks + (total + EVEN * busy) * (EVEN / self.sites)
                         + self._squeezed(size + np.zeros(self.sites)))
        return found

    def hub(self, inward: Floats, outward: Floats, others: Floats, users: Floats,
            second: float | Floats, extra: float | Floats, size: float | Floats) -> Floats:
        """The cost of each site as the one that ``users`` exchange ``second`` with: it loads them
        ``outward`` and the hub ``inward``, which has ``extra`` for each in ``others``. Of one hub,
        or of several, one in a row."""
        away = users.sum(-1, keepdims=True) - users
        spoke = outward + second * users
        if self.sites > 1:
            top = np.partition(spoke, -2)[..., -2:]
        else:
            top = np.concatenate([np.zeros_like(spoke), spoke], axis=-1)
        rest = np.where(spoke == top[..., 1:], top[..., :1], top[..., 1:])
        peak = np.maximum(np.maximum(rest, outward), np.maximum(inward + second * away,
                                                               inward.max()))
        found: Floats = (peak + np.maximum(others + extra * away, others.max())
                         + (2 * second + extra) * away * (EVEN / self.sites)
                         + (EVEN * EVEN / self.sites) * (inward + others)
                         + self._squeezed(size * (1 - users)))
        return found

    def finishing(self, t: int) -> Floats:
        users = (self.part[t] > 0).astype(np.float64)
        parts = self.targets
        return self.hub(self.gathered, self.scattered, self.added, users,
                        float(parts.seconds[t]), float(parts.extra[t]), float(parts.bytes[t]))

    def lying(self, b: int) -> Floats:
        users = (self.need[b] > 0).astype(np.float64)
        return self.hub(self.sent, self.fetched, np.zeros(self.sites), users,
                        float(self.blocks.seconds[b]), 0.0, float(self.blocks.bytes[b]))

    def place_item(self, item: int) -> None:
        b, t = self.of(self.blocks, item), self.of(self.targets, item)
        self.insert(item, int(self.insertion(b, t, float(self.work[item])).argmin()))

    # -- improvement

    def improve(self, budget: int) -> None:
        """Moves items, targets and homes, one after another, while it pays and budget is left."""
        free = np.flatnonzero(~self.fixed & (self.home >= 0))
        order = np.argsort(-self.work, kind="stable")
        for _ in range(8):
            before = self.cost()
            for chosen, step in ((order, self._move), (np.arange(len(self.finish)), self._refinish),
                                 (free, self._rehome)):
                for one in chosen[:max(budget, 0)].tolist():
                    step(one)
                budget -= len(chosen)
            if budget <= 0 or self.cost() >= before * (1 - 1e-6):
                return

    def _move(self, item: int) -> None:
        s = int(self.site[item])
        self.insert(item, s, -1)
        b, t = self.of(self.blocks, item), self.of(self.targets, item)
        found = self.insertion(b, t, float(self.work[item]))
        best = int(found.argmin())
        self.insert(item, best if found[best] < found[s] * (1 - 1e-9) else s)

    def _refinish(self, t: int) -> None:
        y = int(self.finish[t])
        self.finish_at(t, y, -1)
        found = self.finishing(t)
        best = int(found.argmin())
        self.finish_at(t, best if found[best] < found[y] * (1 - 1e-9) else y)

    def _rehome(self, b: int) -> None:
        h = int(self.home[b])
        if h == FREE:
            return
        self.lie_at(b, h, -1)
        found = self.lying(b)
        best = int(found.argmin())
        self.lie_at(b, best if found[best] < found[h] * (1 - 1e-9) else h)

    def placement(self, start: Placement) -> Placement:
        """What was found; what no item touches stays as in ``start``."""
        home = np.where(self.unused, start.home, self.home[self.blocks.member])
        return Placement(self.site[self.item], self.finish[self.targets.member], home)


def _peak(load: Floats, rows: Ints, more: Floats) -> Floats:
    """The largest load, for each column of ``more``, which is added to ``load`` at ``rows``."""
    top = float(load.max())
    if not len(rows):
        return np.full(more.shape[1], top)
    if len(rows) == 1:
        sums = load[rows[0]] + more
    else:
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        sums = np.add.reduceat(more[order], starts, axis=0) + load[rows[starts]][:, None]
    found: Floats = np.maximum(sums.max(0), top)
    return found
