"""Passes say of themselves when they run and what they may change; the driver does the rest."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import Config
from tensorel.engines.checking import OTHERS
from tensorel.errors import TypeError_
from tensorel.plan.definitions import is_flat, is_nested, is_sum_product
from tensorel.plan.pipeline import PASSES, Stage

NOTES = Path(__file__).parents[2] / "docs" / "design" / "optimizer" / "passes.md"
RNG = np.random.default_rng(0)
A = np.where(RNG.random((60, 60)) < 0.05, RNG.integers(1, 5, (60, 60)), 0).astype(float)
U, X = RNG.integers(1, 4, (60, 3)).astype(float), RNG.integers(1, 4, 60).astype(float)
Operand = Any

PROGRAMS: dict[str, Callable[[Operand, Operand, Operand], Operand]] = {
    "expand": lambda a, u, x: ((a - u @ u.T) ** 2).sum(),
    "inline": lambda a, u, x: (a * (u @ u.T)).sum() - (u @ u.T).sum(),
    "factor": lambda a, u, x: a @ x + a @ (2.0 * x),
    "fuse": lambda a, u, x: a.T @ (a @ x),
    "chain": lambda a, u, x: a @ a @ u,
    "pieces": lambda a, u, x: a[:40] @ u + u[:40],
}


def ran(program: tr.Tensor, **options: object) -> set[str]:
    with tr.options(**options):
        return set(program.explain().to_dict()["passes"]) - {"choose_loops"}


def operands() -> list[tr.Tensor]:
    return [tr.tensor(A, format="csr"), tr.asarray(U), tr.asarray(X)]


def test_each_pass_is_declared_once_and_stages_follow_one_another() -> None:
    names = [p.name for p in PASSES]
    assert len(set(names)) == len(names)
    assert [stage for stage, _ in itertools.groupby(p.stage for p in PASSES)] == list(Stage)
    assert all(p.text and p.optional for p in PASSES if p.stage is Stage.VARIANT)
    forms = [is_nested, is_flat, is_sum_product]  # each is implied by the next
    for before, after in itertools.pairwise(PASSES):
        assert forms.index(after.requires) <= forms.index(before.ensures)
        assert forms.index(before.ensures) <= forms.index(after.ensures)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_pass_declares_says_when_it_runs(name: str) -> None:
    program = PROGRAMS[name](*operands())
    usual, strict, as_written = ran(program), ran(program, strict=True), ran(
        program, optimize=False)
    for p in PASSES:
        assert (p.name in strict) == (not p.reassociates) or p.stage is Stage.VARIANT
        assert (p.name in as_written) == (not p.optional)
    assert not strict & {p.name for p in PASSES if p.reassociates}
    assert usual >= {p.name for p in PASSES if p.stage is not Stage.VARIANT}
    assert any(p.reassociates for p in PASSES if p.name in usual)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_can_be_disabled_by_name(name: str) -> None:
    program, wanted = PROGRAMS[name](*operands()), PROGRAMS[name](A, U, X)
    for p in PASSES:
        assert (p.name in ran(program, disabled=[p.name])) == (not p.optional)
        np.testing.assert_array_equal(np.asarray(program.compute(disabled=[p.name])), wanted)
    every = [p.name for p in PASSES]
    assert ran(program, disabled=every) == {p.name for p in PASSES if not p.optional}
    np.testing.assert_array_equal(np.asarray(program.compute(disabled=every)), wanted)


def test_a_variant_that_combines_is_the_base_of_others() -> None:
    a, u, x = operands()
    ways = ran(PROGRAMS["inline"](a, u, x))
    assert {p.name for p in PASSES if p.stage is Stage.VARIANT and p.combines} == {"inline"}
    assert ways >= {"inline", "expand"}


def test_a_pass_that_does_not_exist_cannot_be_disabled() -> None:
    a, _, x = operands()
    with pytest.raises(TypeError_, match="no pass is called 'expnad'"):
        (a @ x).compute(disabled=["expnad"])


def test_what_checks_switch_off_exists() -> None:
    names = {p.name for p in PASSES}
    for _, changes in OTHERS:
        assert Config(**changes).disabled <= names  # type: ignore[arg-type]


def test_the_design_notes_list_the_passes_as_they_declare_themselves() -> None:
    words = {Stage.WRITTEN: "once", Stage.VARIANT: "variant", Stage.EACH_WAY: "each way"}
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*)\|", NOTES.read_text(), re.MULTILINE)
    listed = [(name, runs.removesuffix(", and others of it"), bool(yes.strip()))
              for name, runs, yes in rows if name != "choose_loops"]
    assert listed == [(p.name, words[p.stage] + ("" if p.optional else ", always"), p.reassociates)
                      for p in PASSES]
