"""Random loop programs: equal to running the same Python code, or rightly refused."""

from __future__ import annotations

import collections

import pytest
from random_loops import Drawn, compare

COUNTS = {"regular": 50, "tame": 25, "wild": 25}


@pytest.mark.parametrize("mode", COUNTS)
def test_random_programs(mode: str) -> None:
    seen = collections.Counter[str]()
    for seed in range(COUNTS[mode]):
        drawn = Drawn(seed, mode)
        try:
            seen[compare(drawn)] += 1
        except BaseException:
            print(drawn.text)
            raise
    assert seen["equal"] + seen["bulk"] > COUNTS[mode] // 3
    assert mode != "regular" or seen["bulk"] > 3
