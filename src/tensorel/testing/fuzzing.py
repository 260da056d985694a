"""Runs of many random programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensorel.records import dataclass, field
from tensorel.testing import pointwise, structural
from tensorel.testing.generate import Builder, random_program
from tensorel.testing.programs import Program, check, run_numpy
from tensorel.testing.shrink import shrink

#: Families of operators with their weights.
BUILDERS: tuple[tuple[float, Builder], ...] = (
    (10, pointwise.unary), (24, pointwise.arithmetic), (5, pointwise.division),
    (3, pointwise.power), (6, pointwise.extremes), (6, pointwise.comparison),
    (4, pointwise.logic), (8, pointwise.where), (3, pointwise.astype), (2, pointwise.mapped),
    (14, structural.reduction), (2, structural.trace), (5, structural.transpose),
    (7, structural.basic_index), (3, structural.gather), (1, structural.mask),
    (3, structural.reshape), (6, structural.reframe), (4, structural.join),
    (12, structural.matmul), (2, structural.outer), (16, structural.einsum),
    (3, structural.ordered), (2, structural.running),
)
FULL_EVERY = 8


def sample_program(seed: int, number: int = 0, *, tensors: int = 5, operators: int = 8) -> Program:
    """The random program of a seed and a number: the same in every process.

    >>> sample_program(0, 1).text.splitlines()[1]
    'import tensorel as tr'
    """
    rng = np.random.default_rng([seed, number])
    return random_program(rng, BUILDERS, tensors=tensors, operators=operators)


@dataclass
class Report:
    """What a run found."""

    programs: int = 0
    skipped: int = 0  # values not compared: not finite, or a floating-point flag
    failures: list[tuple[int, str, Program]] = field(default_factory=list)

    @property
    def skipped_share(self) -> float:
        return self.skipped / max(self.programs, 1)

    def merge(self, other: Report) -> None:
        self.programs += other.programs
        self.skipped += other.skipped
        self.failures += other.failures


def fuzz(
    seed: int, numbers: range, *, shrinking: bool = True, most: int = 10,
    effort: str | None = None, progress: Callable[[Report], None] | None = None,
) -> Report:
    """Check the programs with these numbers; stops after ``most`` failures.

    Most of the time goes to compiling, so without ``effort`` one program in eight is compiled
    with full effort."""
    report = Report()
    for number in numbers:
        program = sample_program(seed, number)
        chosen = effort or ("quick" if number % FULL_EVERY else "full")
        program = replace(program, settings={**program.settings, "effort": chosen})
        trace = run_numpy(program)
        report.programs += 1
        report.skipped += not trace.comparable
        wrong = check(program, trace)
        if wrong is not None:
            small = _smallest(program, _kind(wrong)) if shrinking else program
            report.failures.append((number, check(small) or wrong, small))
            if len(report.failures) >= most:
                break
        if progress is not None:
            progress(report)
    return report


def _kind(wrong: str) -> str:
    """What a failure is about, without its numbers."""
    return wrong.split(" ")[0]


def _smallest(program: Program, kind: str) -> Program:
    def fails(candidate: Program) -> bool:
        wrong = check(candidate)
        return wrong is not None and _kind(wrong) == kind

    return shrink(program, fails)
