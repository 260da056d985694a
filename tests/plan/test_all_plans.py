"""Every plan that the planner considers is right, not only the one it takes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from plan_space import check_program, plans_of, small_program
from plan_support import operands, programs

import tensorel as tr
from tensorel.engines.in_process.engine import Run, execute
from tensorel.plan.decisions import Decisions, Option, plans, runner_up
from tensorel.storage.convert import to_dense


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs(first: int) -> None:
    """``python tests/plan/plan_space.py --count 500`` checks more."""
    total = 0
    for number in range(first, first + 10):
        count, wrong = check_program(small_program(31, number), most=16)
        assert wrong is None, wrong
        total += count
    assert total > 30


MATRICES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "product with a mask": lambda o: o["S"] * (o["A"] @ o["B"]),
    "three factors": lambda o: tr.einsum("ij,jk,kl->il", o["A"], o["B"], o["C"]),
    "triangles": lambda o: tr.einsum("ij,jk,ik->", o["S"], o["S"], o["S"]),
    "expanded": lambda o: ((o["S"] - o["U"] @ o["W"].T) ** 2).sum(),
    "where stored": lambda o: o["S"] / (o["U"] @ o["W"].T + 1.0),
    "factor": lambda o: (o["A"] + o["C"]).T @ o["U"],
    "mttkrp": lambda o: programs()["mttkrp"],
    "rows": lambda o: (o["A"] * o["C"] + o["A"]).sum(axis=1),
}


@pytest.mark.parametrize("name", MATRICES)
def test_plans_of_matrix_programs(name: str) -> None:
    """All plans give what the first gives, which other tests compare with NumPy."""
    tensor = MATRICES[name](operands())
    expected = tensor.compute(optimize=False).to_numpy()
    kinds = set()
    for taken, made, bound, config in plans_of(tensor.node, 40, effort="quick"):
        kinds |= {d.kind for d in taken}
        (result,) = execute(Run(made, bound.stored, config))
        assert np.allclose(to_dense(result), expected), [d.texts[d.pick] for d in taken]
    assert "loops" in kinds


def test_the_plan_taken_comes_first() -> None:
    """What is listed begins with what is chosen where nothing is prescribed."""
    for name, program in programs().items():
        chosen = [s["text"] for s in program.explain().to_dict()["steps"]]
        for taken, made, _, _ in plans_of(program.node, 1):
            assert [s.text for s in made.plan.steps] == chosen, name
            assert all(d.pick == 0 for d in taken)


class _Sum:
    """A plan that is the sum of what was picked."""

    def __init__(self, decisions: Decisions) -> None:
        self.cost = decisions.decide("a", "", [Option(3.0, 3.0, "three"), Option(1.0, 1.0, "one")])
        if self.cost == 1.0:
            self.cost += decisions.decide(
                "b", "", [Option(float(k), float(k), str(k)) for k in range(3)])


def test_every_sequence_of_picks_once() -> None:
    found = [p.cost for _, p in plans(_Sum, 100, Random(1))]
    assert found[0] == 1.0 and sorted(found) == [1.0, 2.0, 3.0, 3.0]
    assert len(list(plans(_Sum, 2, Random(1)))) == 2


def test_runner_up_is_the_closest_other_plan() -> None:
    found = runner_up(_Sum)
    assert found is not None and (found.kind, found.chosen, found.instead) == ("b", "0", "1")
    assert (found.cost, found.other) == (1.0, 2.0) and "2.00 times" in found.text
    assert runner_up(lambda d: _One()) is None


class _One:
    cost = 1.0
