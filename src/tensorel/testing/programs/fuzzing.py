"""Runs of many random programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensorel.base.records import dataclass, field
from tensorel.testing.builders import pointwise, products, relational, structural, whole
from tensorel.testing.programs.generate import Builder, random_program
from tensorel.testing.programs.program import Program
from tensorel.testing.programs.running import examine
from tensorel.testing.programs.shrink import shrink
from tensorel.testing.programs.sizes import SIZES

#: Families of operators with their weights.
BUILDERS: tuple[tuple[float, Builder], ...] = (
    (12, pointwise.unary), (24, pointwise.arithmetic), (6, pointwise.division),
    (3, pointwise.power), (6, pointwise.extremes), (6, pointwise.comparison),
    (6, pointwise.logic), (8, pointwise.where), (3, pointwise.astype), (2, pointwise.mapped),
    (14, structural.reduction), (1, structural.folded), (2, structural.trace),
    (5, structural.transpose), (7, structural.basic_index), (3, structural.gather),
    (1.5, structural.mask), (3, structural.reshape), (8, structural.reframe), (4, structural.join),
    (2, structural.parted), (2, structural.made), (1, structural.differences),
    (12, products.matmul), (3, products.inner_products), (2, products.outer),
    (16, products.einsum),
    (3, whole.ordered), (2, whole.sought), (3, whole.running), (4, whole.held),
    (2, relational.selected), (2, relational.aggregated),
)
#: One program in so many is compiled with full effort; one in so many runs as users' do, unchecked.
FULL_EVERY, UNCHECKED_EVERY = 8, 4


def sample_program(seed: int, number: int = 0, *, size: str = "small",
                   tensors: int | None = None, operators: int | None = None) -> Program:
    """The random program of a seed and a number: the same in every process.

    >>> "import tensorel as tr" in sample_program(0, 1).text.splitlines()
    True
    """
    rng = np.random.default_rng([seed, number])
    return random_program(rng, BUILDERS, size=SIZES[size], tensors=tensors, operators=operators)


@dataclass
class Report:
    """What a run found. skipped: programs of which no values were compared: not finite, or a
    floating-point flag; refused: how often for which reason."""

    programs: int = 0
    skipped: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, Program]] = field(default_factory=list)

    @property
    def skipped_share(self) -> float:
        return self.skipped / max(self.programs, 1)

    def merge(self, other: Report) -> None:
        self.programs += other.programs
        self.skipped += other.skipped
        self.refused += other.refused
        self.failures += other.failures


def fuzz(
    seed: int, numbers: range, *, size: str = "small", shrinking: bool = True, most: int = 10,
    effort: str | None = None, checked: bool | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Check the programs with these numbers; stops after ``most`` failures.

    Most of the time goes to compiling, so without ``effort`` one program in eight is compiled
    with full effort. ``checked``: kernels check every position and each stored intermediate is
    checked as a whole; without it three programs in four, as the others run other loops."""
    report = Report()
    for number in numbers:
        program = _set(sample_program(seed, number, size=size), number, effort, checked)
        outcome = examine(program)
        report.programs += 1
        report.skipped += not outcome.compared
        if outcome.refused is not None:
            report.refused[_reason(outcome.refused)] += 1
        if outcome.wrong is not None:
            small = _smallest(program, outcome.wrong) if shrinking else program
            report.failures.append((number, examine(small).wrong or outcome.wrong, small))
            if len(report.failures) >= most:
                break
        if progress is not None:
            progress(report)
    return report


def _set(program: Program, number: int, effort: str | None, checked: bool | None) -> Program:
    chosen = effort or ("quick" if number % FULL_EVERY else "full")
    safe = number % UNCHECKED_EVERY > 0 if checked is None else checked
    settings = {**program.settings, "effort": chosen}
    return replace(program, settings=settings | ({"bounds": True, "verify": True} if safe else {}))


def _kind(wrong: str) -> str:
    """What a failure is about, without its numbers."""
    return wrong.split(" ")[0]


def _reason(refused: str) -> str:
    """A refusal without its numbers."""
    return re.sub(r"[0-9][0-9.,_]*", "#", refused.splitlines()[0])


def _smallest(program: Program, wrong: str) -> Program:
    kind = _kind(wrong)

    def fails(candidate: Program) -> bool:
        again = examine(candidate).wrong
        return again is not None and _kind(again) == kind

    return shrink(program, fails)
