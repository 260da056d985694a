"""Strategies and checks for authors of formats and engines.

``tensorel.testing.strategies`` needs hypothesis; the rest needs NumPy alone.
"""

from tensorel.testing.checks import check_format
from tensorel.testing.programs.compare import difference
from tensorel.testing.programs.fuzzing import Report, fuzz, sample_program
from tensorel.testing.programs.program import Event, Leaf, Program, Step, run_numpy
from tensorel.testing.programs.running import Outcome, check, examine
from tensorel.testing.programs.shrink import shrink

__all__ = [
    "Event", "Leaf", "Outcome", "Program", "Report", "Step", "check", "check_format",
    "difference", "examine", "fuzz", "run_numpy", "sample_program", "shrink",
]
