"""Tests of three-valued logic, and choices by them."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.engines.rows.frames import Cell
from tensorel.ir.build import convert
from tensorel.ir.nodes import BOOL, Call, Expr, const
from tensorel.sql.types import Type

TRUE, FALSE = const(True, BOOL), const(False, BOOL)


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """Whether a test is true, and whether it is false; None: where it is not true."""

    true: Expr
    false: Expr | None = None

    @property
    def fails(self) -> Expr:
        return negation(self.true) if self.false is None else self.false


def negation(e: Expr) -> Expr:
    return Call(ops.logical_not, (e,))


def conjunction(a: Expr, b: Expr) -> Expr:
    if a is TRUE or b is TRUE:
        return b if a is TRUE else a
    return Call(ops.logical_and, (a, b))


def disjunction(a: Expr, b: Expr) -> Expr:
    if a is FALSE or b is FALSE:
        return b if a is FALSE else a
    return Call(ops.logical_or, (a, b))


def chosen(test: Expr, a: Expr, b: Expr) -> Expr:
    return a if a is b else Call(ops.where, (test, a, b))


def truth_of(cell: Cell) -> Truth:
    return where(cell.value, cell.valid)


def where(value: Expr, valid: Expr | None) -> Truth:
    if valid is None:
        return Truth(value)
    return Truth(conjunction(valid, value), conjunction(valid, negation(value)))


def either(test: Expr, a: Cell, b: Cell, type_: Type) -> Cell:
    """``a`` where the test holds, else ``b``."""
    valid: Expr | None = None
    if a.valid is not None or b.valid is not None:
        first, second = (TRUE if c.valid is None else c.valid for c in (a, b))
        valid = chosen(test, first, second)
    values = [convert(c.value, type_.dtype) for c in (a, b)]
    return Cell(type_, chosen(test, values[0], values[1]), valid, a.words)
