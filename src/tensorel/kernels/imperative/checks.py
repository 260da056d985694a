"""What can go wrong in a running program, and how it is told.

A kernel that finds something wrong writes three words to its last array and returns: the number of
the check, and two values. All checks of a kernel are in one table, with their lines.
"""

from __future__ import annotations

from tensorel.algebra.ops import INT64
from tensorel.ir.build import convert
from tensorel.ir.nodes import Expr, const
from tensorel.kernels.loopir.statements import If, Return, Stmt, Store, array
from tensorel.loops.wrong import Check

REPORT = array(".report", INT64)
REPORT_WORDS = 4


class Checks:
    """The table of a kernel."""

    def __init__(self) -> None:
        self.table: list[Check] = []

    def unless(self, fails: Expr | None, check: Check, a: Expr | None = None,
               b: Expr | None = None) -> Stmt:
        """Stop where a condition holds; always without one."""
        self.table.append(check)
        words = [const(len(self.table), INT64), a, b]
        stores = [Store(REPORT, const(k, INT64), convert(w, INT64))
                  for k, w in enumerate(words) if w is not None]
        return If(const(True) if fails is None else fails, (*stores, Return()))
