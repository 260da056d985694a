"""Random small instances of placement, and the best of all placements of one."""

from __future__ import annotations

import itertools

import numpy as np

from tensorel.blocks.join_groups.cost import Rates
from tensorel.blocks.join_groups.lineage import JoinGroups

RATES = {"bytes": Rates(byte=1.0, flop=0.01, transfer=0.0, task=0.0),
         "work": Rates(byte=0.02, flop=1.0, transfer=0.0, task=0.1),
         "mixed": Rates(byte=1.0, flop=1.0, transfer=0.3, task=0.3)}


def instance(seed: int, *, sites: int = 3, count: int = 6) -> JoinGroups:
    """Random lineage, homes and sizes: a few free blocks, absent operands, a few targets."""
    rng = np.random.default_rng(seed)
    blocks, targets = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    operands = int(rng.integers(1, 4))
    needs = rng.integers(0, blocks, (count, operands))
    if rng.random() < 0.3:
        needs[rng.random(needs.shape) < 0.2] = -1
    home = rng.integers(0, sites, blocks)
    if rng.random() < 0.4:
        home[rng.permutation(blocks)[:2]] = -1
    if rng.random() < 0.2:
        home[home >= 0] = 0
    uneven = rng.random() < 0.5
    return JoinGroups(
        needs, rng.integers(0, targets, count), home,
        rng.integers(1, 10, blocks) if uneven else np.full(blocks, 4),
        rng.integers(1, 10, count) if uneven else np.full(count, 5),
        rng.integers(1, 10, targets) if uneven else np.full(targets, 4),
        np.full(targets, 1.0)).check(sites)


def optimum(groups: JoinGroups, sites: int, rates: Rates) -> float:
    """The least seconds of all placements, all computed at once."""
    count, targets = len(groups.target), len(groups.made)
    free = np.flatnonzero(groups.home < 0)
    X = np.array(list(itertools.product(range(sites), repeat=count)), np.int8)
    at = X[:, :, None] == np.arange(sites)  # plans, groups, sites
    join = np.einsum(
        "pgs,g->ps", at, groups.work * rates.flop + rates.task)
    part = np.zeros((len(X), targets, sites))
    for g, t in enumerate(groups.target):
        part[:, t] += at[:, g]
    adds = np.einsum("pts,t->ps", np.maximum(part - 1, 0), groups.merge * rates.flop)
    join = (join + adds).max(1)
    part = part > 0
    need = np.zeros((len(X), len(groups.home), sites), bool)
    for g, row in enumerate(groups.blocks):
        for b in row[row >= 0]:
            need[:, b] |= at[:, g]
    seconds = groups.size * rates.byte + rates.transfer
    best_fetch = np.full(len(X), np.inf)
    for chosen in itertools.product(range(sites), repeat=len(free)):
        home = groups.home.copy()
        home[free] = chosen
        away = need.copy()
        away[:, np.arange(len(home)), home] = False
        received = np.einsum("pbs,b->ps", away, seconds)
        sent = np.zeros_like(received)
        for b, h in enumerate(home):
            sent[:, h] += away[:, b].sum(1) * seconds[b]
        best_fetch = np.minimum(best_fetch, np.maximum(received, sent).max(1))
    seconds = groups.made * rates.byte + rates.transfer
    best = np.full(len(X), np.inf)
    for finish in itertools.product(range(sites), repeat=targets):
        away = part.copy()
        away[:, np.arange(targets), finish] = False
        sent = np.einsum("pts,t->ps", away, seconds)
        received, added = np.zeros_like(sent), np.zeros_like(sent)
        for t, y in enumerate(finish):
            arrived = away[:, t].sum(1)
            received[:, y] += arrived * seconds[t]
            added[:, y] += arrived * (groups.merge[t] * rates.flop + rates.task)
        best = np.minimum(best, np.maximum(received, sent).max(1) + added.max(1))
    return float((best + best_fetch + join).min())
