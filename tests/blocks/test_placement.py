"""Placements: beside the best of all, within memory, on structures that are known, in time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from placement_support import RATES, instance, optimum

from measures import allowed
from tensorel.blocks.join_groups.cost import Rates, cost_of, moved
from tensorel.blocks.join_groups.lineage import JoinGroups, Placement
from tensorel.blocks.join_groups.pilot import Join, Scan, pilot
from tensorel.blocks.join_groups.placement import Instance, greedy, place
from tensorel.errors import MemoryLimitError


def product(extent: int, home: object = -1, sites: int = 1) -> JoinGroups:
    """Of two square matrices of blocks."""
    keys = np.array([(i, k) for i in range(extent) for k in range(extent)])
    found = pilot([keys, keys], Join(Scan(0), Scan(1), ((1, 0),)), (0, 3))
    if isinstance(home, str):
        home = np.random.default_rng(0).integers(0, sites, 2 * extent**2)
    return found.groups(home=home, size=8e6, work=2e9, made=8e6, merge=1e6)


@pytest.mark.slow
@pytest.mark.parametrize("name", RATES)
def test_small_placements_are_nearly_the_best(name: str) -> None:
    ratios = []
    for seed in range(70):
        groups = instance(seed)
        found = place(groups, 3, RATES[name]).check(groups, 3)
        best = optimum(groups, 3, RATES[name])
        cost = cost_of(groups, found, 3, RATES[name]).seconds
        assert cost >= best * (1 - 1e-6)
        ratios.append(cost / best if best else 1.0)
    assert max(ratios) <= 1.2
    assert np.mean(ratios) <= 1.05


@pytest.mark.parametrize("extent", [4, 8])
def test_products_are_placed_as_cubes(extent: int) -> None:
    """On 8 sites each face of a cube is needed twice: its blocks move once, results too."""
    groups, rates = product(extent), Rates(flop=1e-9)
    found = place(groups, 8, rates)
    cost = cost_of(groups, found, 8, rates)
    assert moved(groups, found) <= 3 * extent**2 * 8e6 * 1.01
    assert cost.joined.max() <= cost.joined.min() * 1.05


def test_lineage_that_is_numbered_at_random_is_placed_as_well() -> None:
    groups, rng = product(8), np.random.default_rng(1)
    rename, retarget, order = rng.permutation(128), rng.permutation(64), rng.permutation(512)
    mixed = JoinGroups(rename[groups.blocks][order], retarget[groups.target][order], groups.home,
                       groups.size, groups.work, groups.made, groups.merge)
    rates = Rates(flop=1e-9)
    assert moved(mixed, place(mixed, 8, rates)) <= 3 * 64 * 8e6 * 1.01


def test_what_lies_together_stays() -> None:
    count, sites = 3000, 7
    home = np.random.default_rng(0).integers(0, sites, count)
    groups = JoinGroups(np.stack([np.arange(count), np.arange(count) + count], 1),
                        np.arange(count), np.concatenate([home, home]), np.full(2 * count, 8e6),
                        np.full(count, 1e6), np.full(count, 8e6), np.full(count, 1e6))
    assert moved(groups, place(groups, sites, Rates())) == 0


def test_keys_say_where_to_cut_a_stencil() -> None:
    n, sites = 48, 16
    at = np.array([(i, j) for i in range(n) for j in range(n)])
    near = at[:, None] + np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])
    inside = ((near >= 0) & (near < n)).all(2)
    groups = JoinGroups(np.where(inside, near @ np.array([n, 1]), -1), np.arange(n * n),
                        np.full(n * n, -1), np.full(n * n, 8e6), np.full(n * n, 1e8),
                        np.full(n * n, 8e6), np.full(n * n, 1e6))
    found = place(groups, sites, Rates(), keys=at)
    squares = 2 * 2 * 3 * n  # both ways over three cuts along each axis
    assert moved(groups, found) <= squares * 8e6 * 1.1


def test_starts_are_kept_or_improved_and_the_seed_decides() -> None:
    groups, rates = product(5, "random", 4), Rates()
    start = place(groups, 4, rates, seed=3)
    again = place(groups, 4, rates, seed=3)
    assert np.array_equal(start.group_site, again.group_site)
    assert np.array_equal(start.home, again.home)
    rng = np.random.default_rng(0)
    other = Placement(rng.integers(0, 4, 125), rng.integers(0, 4, 25), groups.home)
    found = place(groups, 4, rates, starts=[other, start])
    assert cost_of(groups, found, 4, rates).seconds <= cost_of(groups, start, 4, rates).seconds


def test_greedy_alone_follows_the_rules_of_the_paper() -> None:
    """A group whose partial results are dear is joined where it is finished, one whose blocks are
    dear where they lie."""
    def two(size: float, made: float) -> Placement:
        groups = JoinGroups(np.array([[0], [1]]), np.zeros(2, int), np.array([0, 1]),
                            np.full(2, size), np.ones(2), np.array([made]), np.ones(1)).check()
        return greedy(Instance(groups, 2, Rates(1.0, 0.0, 0.0, 0.0), None, 0), np.arange(2))

    assert len(set(two(1.0, 100.0).group_site.tolist())) == 1
    assert two(100.0, 1.0).group_site.tolist() == [0, 1]


@pytest.mark.parametrize("extent", [3, 8])
def test_memory_is_respected(extent: int) -> None:
    groups, rates = product(extent), Rates()
    free = cost_of(groups, place(groups, 4, rates), 4, rates).held
    limit = np.array([0.0, 1.0, 1.0, 1.0]) * free.max() * 1.4
    found = place(groups, 4, rates, memory=limit)
    assert (cost_of(groups, found, 4, rates).held <= limit).all()
    assert not (found.group_site == 0).any()


def test_what_does_not_fit_is_refused_with_its_bytes() -> None:
    groups = product(3)
    with pytest.raises(MemoryLimitError, match="216000000 bytes, and there is room for 80000000"):
        place(groups, 4, Rates(), memory=2e7)
    with pytest.raises(MemoryLimitError, match="one join group"):
        place(groups, 40, Rates(), memory=2e7)
    with pytest.raises(MemoryLimitError, match="blocks that lie at site 0") as caught:
        place(product(3, np.zeros(18, int)), 4, Rates(), memory=1e8)
    assert caught.value.needed == 144_000_000
    with pytest.raises(MemoryLimitError, match="in the best plan"):
        place(groups, 9, Rates(), memory=2.5e7)


def test_corners() -> None:
    one = product(2)
    assert place(one, 1, Rates()).check(one, 1).group_site.tolist() == [0] * 8
    none = one.subset(np.zeros(0, int))
    assert place(none, 3, Rates()).check(none, 3).target_site.shape == (4,)
    many = place(one, 50, Rates()).check(one, 50)
    assert len(many.group_site) == 8
    idle = JoinGroups(np.full((3, 1), -1), np.arange(3), np.zeros(0, int), np.zeros(0),
                      np.zeros(3), np.zeros(3), np.zeros(3)).check()
    place(idle, 2, Rates(), memory=1.0).check(idle, 2)


@pytest.mark.measured
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["product", "pairs", "random"])
def test_large_placements_in_time(kind: str) -> None:
    """Two seconds of a free machine for 100,000 join groups on 64 sites; here three times that."""
    rng, count, sites = np.random.default_rng(0), 100_000, 64
    groups = product(46, "random", sites)
    if kind != "product":
        blocks = (np.arange(2 * count).reshape(2, count).T if kind == "pairs"
                  else rng.integers(0, count, (count, 2)))
        targets = count if kind == "pairs" else count // 10
        groups = JoinGroups(blocks, np.arange(count) % targets, rng.integers(0, sites, 2 * count),
                            np.full(2 * count, 8e6), np.full(count, 1e8), np.full(targets, 8e6),
                            np.full(targets, 1e6)).check(sites)
    start = time.process_time()
    found = place(groups, sites, Rates())
    assert time.process_time() - start < allowed(6.0)
    found.check(groups, sites)
