"""All orders of contraction that the search considers, for those who want another than the best."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import TYPE_CHECKING

from tensorel.plan.decide import Option
from tensorel.plan.sizes import Group

if TYPE_CHECKING:
    from tensorel.plan.contract import Elimination, Search

    Steps = tuple[Elimination, ...]


LISTED = 5  # indices at most, and one more factors: beyond, the best is all there is
MOST = 400


def is_listed(factors: Sized, left: Sized) -> bool:
    """The orders are few enough to be listed."""
    return len(left) <= LISTED and len(factors) <= LISTED + 1


def sequences(search: Search, factors: Group, left: frozenset[str]) -> list[Option[Steps]]:
    """The ``MOST`` cheapest. Those that differ only in the order of independent steps count as
    one; the cheapest sequences end in cheapest sequences, so each state keeps so many."""
    memo: dict[tuple[Group, frozenset[str]], list[tuple[float, Steps]]] = {}

    def go(factors: Group, left: frozenset[str]) -> list[tuple[float, Steps]]:
        if not left:
            return [search.best(factors, left)]
        if (factors, left) not in memo:
            found: dict[object, tuple[float, Steps]] = {}
            for option in search.options(factors, left):
                rest = (factors - set(option.factors)) | {option.result}
                for cost, steps in go(rest, left - option.indices):
                    whole = (option, *steps)
                    key = frozenset((s.factors, s.indices) for s in whole)
                    found.setdefault(key, (option.cost + cost, whole))
            memo[factors, left] = sorted(found.values(), key=lambda x: x[0])[:MOST]
        return memo[factors, left]

    possible = [x for x in go(factors, left) if x[0] < math.inf] or [search.best(factors, left)]
    return [Option(cost, steps, _words(steps)) for cost, steps in possible]


def _words(steps: Steps) -> str:
    if len(steps) == 1:
        return "all at once"
    return " then ".join(", ".join(sorted(s.indices)) or "the rest" for s in steps)
