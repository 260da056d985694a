"""All plans of a program, and whether they agree with NumPy.

``python tests/plan/plan_space.py --count 500 --seed 1`` checks more programs than the tests do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tensorel.config import current
from tensorel.engines.binding import Bound, bind
from tensorel.engines.in_process.engine import Run, execute, planned
from tensorel.engines.in_process.plan_state import PlanState
from tensorel.errors import MemoryLimitError
from tensorel.plan.decisions import Decision, plans
from tensorel.storage.convert import to_dense
from tensorel.testing import Program, difference, run_numpy, sample_program
from tensorel.testing.programs import running as testing

MOST = 60  # plans of one program


def plans_of(node: Any, most: int = MOST, **settings: Any
             ) -> Iterator[tuple[tuple[Decision, ...], PlanState, Bound, Any]]:
    """(decisions, plan, operands, settings) of the plans of a tensor's program. All are made before
    the first is run: from a run the planner learns, and then has other options."""
    config = replace(current(), **settings)
    bound = bind([node], [None], config)
    every = list(plans(lambda d: _Made(planned(bound, [None], config, d)), most, Random(0)))
    for taken, made in every:
        yield taken, made.planned, bound, config


class _Made:
    def __init__(self, made: PlanState) -> None:
        self.planned, self.cost = made, made.plan.cost


def check_program(program: Program, most: int = MOST) -> tuple[int, str | None]:
    """How many plans a program has, up to ``most``, and what is wrong with one of them."""
    trace = run_numpy(program)
    if not trace.comparable:
        return 0, None
    lazy = testing.build(program, trace)
    count = 0
    for taken, made, bound, config in plans_of(lazy.node, most, effort="quick", verify=True):
        count += 1
        try:
            (result,) = execute(Run(made, bound.stored, config))
        except MemoryLimitError:
            continue
        expected = trace.values[program.root]
        wrong = difference(to_dense(result), expected, trace.tolerance)
        if wrong is not None:
            picks = "\n".join(f"{d.kind} {d.subject}: {d.texts[d.pick]}" for d in taken)
            steps = "\n".join(s.text for s in made.plan.steps)
            return count, f"{wrong}\n{picks}\n{steps}\n\n{program.text}"
    return count, None


def small_program(seed: int, number: int) -> Program:
    return sample_program(seed, number, tensors=4, operators=5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plans", type=int, default=MOST)
    args = parser.parse_args()
    total, cut = 0, 0
    for number in range(args.count):
        count, wrong = check_program(small_program(args.seed, number), args.plans)
        total, cut = total + count, cut + (count >= args.plans)
        if wrong is not None:
            print(f"program {number} of seed {args.seed}, plan {count}: {wrong}")
            return 1
        if number % 50 == 49:
            print(f"{number + 1} programs, {total} plans, {cut} programs with more", flush=True)
    print(f"{args.count} programs, {total} plans, {cut} programs with more; all agree")
    return 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
