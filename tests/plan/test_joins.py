"""The cheapest loops over a join against all orders of loops."""

from __future__ import annotations

import math
from itertools import permutations
from random import Random

import pytest
from test_elimination import random_search

from tensorel.plan.contraction.join_costs import Loops, cheapest_loops, least_loops
from tensorel.plan.contraction.join_sizes import Factor


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_loops_are_those_of_the_best_order(seed: int) -> None:
    rng = Random(seed)
    s = random_search(seed, rng.randint(2, 4), rng.randint(2, 5), 0.2)
    factors = [n.factor for n in s.given]
    for f in factors:  # stored by some order of their levels
        if not f.dense:
            order = [1 << k for k in range(f.free.bit_length()) if f.free >> k & 1]
            rng.shuffle(order)
            f.order = tuple(order)
    group = s.sizes.group(factors)
    if not group.sparse:
        return
    kept = group.names & rng.getrandbits(4)
    made = Factor(0, kept, None, rng.random() < 0.5, False)

    def by_order(turned: list[Factor]) -> float:
        loops, found = Loops(group, made, turned), math.inf
        for order in permutations(group.singles):
            bound, cost = 0, 0.0
            for v in order:
                cost += loops.step(bound, v)
                bound |= v
            found = min(found, cost)
        return found

    again = [s.sizes.stored_again(f) + by_order([f]) for f in group.nested]
    best = min([by_order([]), *again])
    least = by_order(group.nested)
    found = cheapest_loops(s.sizes, factors, made)
    assert found == pytest.approx(best, rel=1e-9) or found == pytest.approx(least, rel=1e-9)
    assert least_loops(group, math.inf)[0] <= least * (1 + 1e-9)
    assert cheapest_loops(s.sizes, factors, made, found * 0.999) == math.inf
    assert cheapest_loops(s.sizes, factors, made, found * 1.001) == pytest.approx(found)
