"""Strategies and checks for authors of formats and engines.

``tensorel.testing.strategies`` needs hypothesis; the rest needs NumPy alone.
"""

from tensorel.testing.checks import check_format
from tensorel.testing.compare import Tolerance, difference
from tensorel.testing.fuzzing import Report, fuzz, sample_program
from tensorel.testing.programs import Leaf, Program, Step, check, run_numpy
from tensorel.testing.shrink import shrink

__all__ = [
    "Leaf", "Program", "Report", "Step", "Tolerance", "check", "check_format", "difference",
    "fuzz", "run_numpy", "sample_program", "shrink",
]
