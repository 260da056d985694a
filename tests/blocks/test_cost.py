"""What a placement costs: the paper's example, loops over sites, and changes of a search."""

from __future__ import annotations

import numpy as np
import pytest
from placement_support import RATES, instance

from tensorel.blocks.join_groups.cost import cost_of, moved, paper_cost
from tensorel.blocks.join_groups.exchange import EVEN, Exchange
from tensorel.blocks.join_groups.lineage import JoinGroups, Placement
from tensorel.blocks.join_groups.pilot import Join, Scan, pilot
from tensorel.blocks.join_groups.search import Search
from tensorel.errors import ShapeError, ValueError_


def drawn(groups: JoinGroups, sites: int, rng: np.random.Generator) -> Placement:
    home = np.where(groups.home < 0, rng.integers(0, sites, len(groups.home)), groups.home)
    return Placement(rng.integers(0, sites, len(groups.target)),
                     rng.integers(0, sites, len(groups.made)), home).check(groups, sites)


def test_the_costing_example_of_the_paper() -> None:
    """Section 5.2: the first four join groups, on sites 1 1 2 3, finished on sites 2 and 3."""
    tiles = [(1, 1), (1, 2), (2, 1), (2, 2)]
    product = pilot([tiles, tiles], Join(Scan(0), Scan(1), ((1, 0),)), (0, 3))
    groups = product.groups(np.array([1, 2, 3, 1, 3, 1, 2, 1]) - 1).subset(np.arange(4))
    two = JoinGroups(groups.blocks, groups.target, groups.home, groups.size, groups.work,
                     groups.made[:2], groups.merge[:2]).check(3)
    placed = Placement(np.array([1, 1, 2, 3]) - 1, np.array([2, 3]) - 1, groups.home)
    found = paper_cost(two, placed, 3, t_join=1.0, t_aggregate=1e2, t_fetch=1e4, t_gather=1e6)
    assert found == 2 * 1.0 + 1e2 + 2 * 1e4 + 1e6
    ours = cost_of(two, placed, 3, RATES["mixed"])
    assert ours.received.tolist() == [1, 0, 2]  # the paper says 2 at site 1, but has Y12 there
    assert ours.sent.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_costs_are_those_of_loops(seed: int) -> None:
    sites, rng = 4, np.random.default_rng(seed)
    groups = instance(seed, sites=sites, count=12)
    placed, rates = drawn(groups, sites, rng), RATES["mixed"]
    found = cost_of(groups, placed, sites, rates)
    received, sent, joined, gathered, scattered, added, held = np.zeros((7, sites))
    arrivals = np.zeros((4, sites))
    for b, h in enumerate(placed.home):
        held[h] += groups.size[b]
    for s in range(sites):
        mine = np.flatnonzero(placed.group_site == s)
        joined[s] += groups.work[mine].sum()
        for b in {int(b) for b in groups.blocks[mine].ravel() if b >= 0}:
            if (h := placed.home[b]) != s:
                received[s] += groups.size[b]
                held[s] += groups.size[b]
                sent[h] += groups.size[b]
                arrivals[0, s] += 1
                arrivals[1, h] += 1
        for t in range(len(groups.made)):
            parts, y = int((groups.target[mine] == t).sum()), placed.target_site[t]
            joined[s] += max(parts - 1, 0) * groups.merge[t]
            held[s] += groups.made[t] * (parts > 0 or y == s)
            if parts and y != s:
                scattered[s] += groups.made[t]
                gathered[y] += groups.made[t]
                added[y] += groups.merge[t]
                arrivals[2, s] += 1
                arrivals[3, y] += 1
    for name, expected in (("received", received), ("sent", sent), ("joined", joined),
                           ("gathered", gathered), ("scattered", scattered),
                           ("aggregated", added), ("held", held)):
        assert np.allclose(getattr(found, name), expected), name
    wait = arrivals * rates.transfer
    assert np.isclose(found.fetch, max((received + wait[0]).max(), (sent + wait[1]).max()))
    assert np.isclose(found.gather, max((scattered + wait[2]).max(), (gathered + wait[3]).max()))
    assert found.moved == moved(groups, placed) == received.sum() + gathered.sum()
    assert np.isclose(Exchange(groups, sites, rates, None).costs(
        Exchange(groups, sites, rates, None).vector(placed)[None])[0],
        found.seconds, rtol=10 * EVEN)


@pytest.mark.parametrize("seed", range(12))
def test_changes_of_a_search_cost_what_the_whole_costs(seed: int) -> None:
    """After any moves, the loads of a search are those of its placement counted afresh, and the
    cost foretold for a site is that of going there."""
    sites, rng = 4, np.random.default_rng(seed)
    groups, rates = instance(seed, sites=sites, count=14), RATES["mixed"]
    start = drawn(groups, sites, rng)
    _, item = np.unique(start.group_site + sites * (groups.target % 2 if seed % 2 else
                                                    np.arange(14)), return_inverse=True)
    search = Search(groups, item, start, sites, rates, np.full(sites, 20.0 + seed))
    for step in range(40):
        one, s = int(rng.integers(item.max() + 1)), int(rng.integers(sites))
        search.insert(one, int(search.site[one]), -1)
        b, t = search.of(search.blocks, one), search.of(search.targets, one)
        told = search.insertion(b, t, float(search.work[one]))
        busy = (search.fetched + search.joined + search.scattered + search.gathered + search.sent)
        more = float(busy.sum())
        search.insert(one, s)
        if step % 3 == 0 and not (search.home[b] < 0).any():
            assert told[s] > search.cost() - more  # the same peaks, and shares of what is even
        t = int(rng.integers(len(search.finish)))
        search.finish_at(t, int(search.finish[t]), -1)
        search.finish_at(t, int(rng.integers(sites)))
    placed = search.placement(start).check(groups, sites)
    found = cost_of(groups, placed, sites, rates)
    wait = np.bincount(placed.group_site, minlength=sites) * rates.task
    assert np.allclose(search.held, found.held)
    assert np.allclose(search.joined, found.joined * rates.flop + wait)
    assert np.isclose(max(search.fetched.max(), search.sent.max()), found.fetch)
    assert np.isclose(max(search.scattered.max(), search.gathered.max()), found.gather)
    assert np.isclose(search.added.max(), found.aggregate)


def test_what_does_not_fit_together_is_refused() -> None:
    groups = instance(3)
    with pytest.raises(ShapeError, match="work of join groups has shape"):
        JoinGroups(groups.blocks, groups.target, groups.home, groups.size, groups.work[:2],
                   groups.made, groups.merge).check()
    with pytest.raises(ValueError_, match=r"home lies in .*expected -1\.\.0"):
        groups.check(1)
    with pytest.raises(ValueError_, match="group_site lies in"):
        Placement(np.full(6, 3), np.zeros(len(groups.made), int), groups.home).check(groups, 3)
    assert len(groups.subset(groups.target == 0).check(3).target) == (groups.target == 0).sum()
