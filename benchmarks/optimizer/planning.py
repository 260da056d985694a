"""Planning time: the first plan without compiling, and what a hit in the plan cache costs."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from optimizer.peers import Contest
from suite.case import Problem
from tensorel.config import current
from tensorel.engines.in_process import engine


@dataclass(frozen=True)
class Planning:
    """Seconds. first: all passes, median of five plans made anew. hit: from the user's built
    formula to its cached plan, median of 50 (0: no answer yet). logical: the definitions.
    physical: the steps."""

    first: float
    passes: dict[str, float]
    logical: str
    physical: str
    hit: float = 0.0


def program(problem: Problem) -> Any:
    """The lazy program whose plan is looked at; for loops around one, its first round."""
    if isinstance(problem, Contest) and problem.planned is not None:
        return problem.planned()
    return problem.ours()


def measure(problem: Problem) -> Planning:
    made = program(problem)
    plans = [dict(made.explain().to_dict()["passes"]) for _ in range(5)]
    totals = sorted((sum(p.values()), k) for k, p in enumerate(plans))
    middle = totals[2]
    return Planning(middle[0], plans[middle[1]], str(made.explain(level="logical")),
                    str(made.explain()))


def hit(problem: Problem, tries: int = 50) -> float:
    """Seconds to the cached plan. Formulas are built anew each time, as a loop does; building
    is not counted."""
    config, spent = current(), []
    for _ in range(tries):
        node = program(problem).node
        start = time.perf_counter()
        bound = engine.bind([node], [None], config)
        engine.plan_for(bound, [None], config)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)
