"""The corpus against the interpreter: each program in one combination of storages here, in all of
them by ``make fuzz-comprehensions``."""

from collections.abc import Iterator
from typing import Any

import pytest
from comprehension_corpus import STORAGES, TARGETS, Case, cases, check
from fuzz_comprehensions import check as check_random

import tensorel as tr

CASES = cases()
WAYS = [(storage, target) for storage in STORAGES for target in TARGETS]
PLACED = CASES[::9]


def ids(case: Case) -> str:
    return case.title.replace(" ", "-")


@pytest.fixture(scope="module")
def sites() -> Iterator[Any]:
    with tr.engines.local(sites=3) as engine:
        yield engine


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 120
    assert len({c.title for c in CASES}) == len(CASES)


@pytest.mark.parametrize("k", range(len(CASES)), ids=map(ids, CASES))
def test_program(k: int) -> None:
    check(CASES[k], *WAYS[5 * k % len(WAYS)])


@pytest.mark.parametrize("k", range(len(PLACED)), ids=map(ids, PLACED))
def test_on_three_sites(k: int, sites: Any) -> None:
    check(PLACED[k], *WAYS[k % len(WAYS)], engine=sites)


@pytest.mark.parametrize("k", range(len(PLACED)), ids=map(ids, PLACED))
def test_in_blocks_of_seven(k: int, sites: Any) -> None:
    check(PLACED[k], "blocks", engine=sites)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    """``python tests/comprehension/fuzz_comprehensions.py`` draws more of them."""
    outcome = check_random(seed)
    assert not outcome.startswith("refused"), outcome
