"""Random programs over operands in uneven blocks, dense and sparse, on 1 to 8 sites, by both
planners: the results of NumPy. ``python tests/sites/random_sites.py 0 1000`` runs more."""

from __future__ import annotations

import pytest
from random_sites import wrong_in


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_programs_over_blocks(first: int) -> None:
    for number in range(first, first + 20):
        assert wrong_in(31, number) is None, number


@pytest.mark.parametrize("seed, number", [
    (5, 145), (7, 141), (8, 717), (77, 462), (77, 563)])
def test_programs_that_were_wrong(seed: int, number: int) -> None:
    assert wrong_in(seed, number) is None
