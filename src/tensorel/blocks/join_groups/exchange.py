"""Improvement of small placements: all moves of one or two join groups, targets and free blocks,
and random moves of a few, are costed at once as an array of whole placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.blocks.join_groups.cost import Rates
from tensorel.blocks.join_groups.lineage import JoinGroups, Placement

if TYPE_CHECKING:
    from tensorel.blocks.join_groups.lineage import Floats, Ints

EVEN = 0.02  # seconds of sites that are not the slowest count so much
_BATCH = 400_000  # cells (placements, blocks and targets, sites) costed at once
_MOST = 10_000_000  # such cells of all moves of one
_EFFORT = 500_000  # such cells that one improvement may visit after its first descent


class Exchange:
    """A step's choices as one vector: sites of join groups, of targets, of free blocks."""

    def __init__(self, groups: JoinGroups, sites: int, rates: Rates, memory: Floats | None) -> None:
        self.groups, self.sites, self.rates, self.memory = groups, sites, rates, memory
        used = np.unique(groups.blocks[groups.blocks >= 0])
        self.used = used
        self.free = np.flatnonzero(groups.home[used] < 0)
        self.ends = np.cumsum([len(groups.target), len(groups.made), len(self.free)])
        count = len(groups.target)
        self.reads = np.zeros((len(used), count), np.float32)
        for column in groups.blocks.T:
            rows = np.flatnonzero(column >= 0)
            self.reads[np.searchsorted(used, column[rows]), rows] = 1
        self.makes = np.zeros((len(groups.made), count), np.float32)
        self.makes[groups.target, np.arange(count)] = 1
        idle = np.setdiff1d(np.flatnonzero(groups.home >= 0), used)
        self.idle = np.bincount(groups.home[idle], groups.size[idle], sites)

    @property
    def cells(self) -> int:
        """What one placement has to be costed."""
        return (len(self.used) + len(self.groups.made) + len(self.groups.target)) * self.sites

    @property
    def small(self) -> bool:
        """Whether all moves can be looked at."""
        return int(self.ends[-1]) * self.sites * self.cells <= _MOST

    def vector(self, start: Placement) -> Ints:
        return np.concatenate([start.group_site, start.target_site,
                               start.home[self.used[self.free]]])

    def placement(self, vector: Ints, start: Placement) -> Placement:
        group_site, target_site, free = np.split(vector, self.ends[:-1])
        home = start.home.copy()
        home[self.used[self.free]] = free
        return Placement(group_site, target_site, home)

    def costs(self, vectors: Ints) -> Floats:
        size = max(_BATCH // self.cells, 1)
        return np.concatenate([self._costs(vectors[at : at + size])
                               for at in range(0, len(vectors), size)])

    def _costs(self, vectors: Ints) -> Floats:
        """As ``cost_of`` counts seconds, for each row."""
        groups, rates = self.groups, self.rates
        at, finish, free = np.split(vectors, self.ends[:-1], axis=1)
        home = np.repeat(groups.home[self.used][None], len(vectors), 0)
        home[:, self.free] = free
        where = (at[:, :, None] == np.arange(self.sites)).astype(np.float32)
        need, part = self.reads @ where > 0, self.makes @ where
        flops = groups.merge * rates.flop
        join = (groups.work * rates.flop + rates.task) @ where
        join += flops @ np.maximum(part - 1, 0)
        size, made = groups.size[self.used], groups.made
        received, sent, _ = self._moved(need, home, size * rates.byte + rates.transfer)
        scattered, gathered, arrived = self._moved(part > 0, finish, made * rates.byte
                                                   + rates.transfer, flops + rates.task)
        loads = (received, sent, join, gathered, scattered, arrived)
        peak = [x.max(1) for x in loads]
        seconds = (np.maximum(peak[0], peak[1]) + peak[2] + np.maximum(peak[3], peak[4]) + peak[5])
        seconds += EVEN * sum((x / self.sites) @ np.ones(self.sites) for x in loads)
        if self.memory is not None:
            held = self.idle + size @ (need | (home[:, :, None] == np.arange(self.sites)))
            held += made @ ((part > 0) | (finish[:, :, None] == np.arange(self.sites)))
            seconds += np.maximum(held - self.memory, 0).sum(1) * (1e6 * max(rates.byte, 1e-12))
        found: Floats = seconds
        return found

    def _moved(self, users: Floats, hub: Ints, second: Floats, extra: Floats | None = None
               ) -> tuple[Floats, Floats, Floats]:
        """Seconds of the users of each hub and of the hubs, and their ``extra`` ones."""
        away = users & (hub[:, :, None] != np.arange(self.sites))
        count = away.sum(2)
        cell = (np.arange(len(hub))[:, None] * self.sites + hub).ravel()
        shape = len(hub), self.sites

        def at_hubs(weight: Floats) -> Floats:
            found = np.bincount(cell, (count * weight).ravel(), shape[0] * shape[1])
            return found.astype(np.float64, copy=False).reshape(shape)

        return second @ away, at_hubs(second), at_hubs(extra if extra is not None else 0 * second)

    # -- search

    def improve(self, start: Placement, seed: int) -> Placement:
        random = np.random.default_rng(seed)
        best = self.vector(start)
        best, least = self._descend(best, float(self.costs(best[None])[0]), random)
        effort, turn = _EFFORT, 0
        while effort > 0 and len(best) > 2:
            trial = best.copy()
            some = random.choice(len(best), min(len(best), 3 + turn % 3), replace=False)
            trial[some] = random.integers(0, self.sites, len(some))
            self.visited = 0
            trial, cost = self._descend(trial, float(self.costs(trial[None])[0]), random)
            if cost < least * (1 - 1e-9):
                best, least = trial, cost
            effort, turn = effort - self.visited, turn + 1
        return self.placement(best, start)

    def _descend(self, vector: Ints, cost: float,
                 random: np.random.Generator) -> tuple[Ints, float]:
        """To where no move of one or of two (of many, some drawn at random) pays."""
        visited = 0
        for _ in range(4 * len(vector)):
            trials = self._neighbours(vector, random, 1)
            found = self.costs(trials)
            visited += len(trials)
            if found.min() >= cost * (1 - 1e-9):
                trials = self._neighbours(vector, random, 2)
                found = self.costs(trials)
                visited += len(trials)
                if found.min() >= cost * (1 - 1e-9):
                    break
            at = int(found.argmin())
            vector, cost = trials[at], float(found[at])
        self.visited = visited * self.cells
        return vector, cost

    def _neighbours(self, vector: Ints, random: np.random.Generator, count: int) -> Ints:
        n, others = len(vector), self.sites - 1
        if count == 1:
            places = np.repeat(np.arange(n), others)[:, None]
            steps = np.tile(np.arange(1, self.sites), n)[:, None]
        else:
            one, two = np.triu_indices(n, 1)
            pick = np.arange(len(one) * others * others)
            if len(pick) > (most := max(2 * _BATCH // self.cells, 100)):
                pick = random.integers(0, len(pick), most)
            pair, step = pick // others**2, pick % others**2
            places = np.stack([one[pair], two[pair]], 1)
            steps = np.stack([1 + step // others, 1 + step % others], 1)
        trials = np.repeat(vector[None], len(places), 0)
        rows = np.arange(len(places))[:, None]
        trials[rows, places] = (trials[rows, places] + steps) % self.sites
        return trials
