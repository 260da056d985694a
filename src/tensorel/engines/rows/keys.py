"""Several columns as one number.

A column whose values lie in a known range has its offset as a digit, one more digit for null; the
digits of all columns make a number where their product is small enough to address a table with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.engines.rows.frames import Arrays, Cell
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.sql.types import Type

#: A table for so many numbers is made in any case, and for so many times the rows.
FREE_SLOTS, SLOTS_PER_ROW = 1 << 16, 4
MAX_SLOTS = 1 << 27


@dataclass(frozen=True, slots=True)
class Digit:
    """Values from ``low`` on, ``size`` of them; ``null``: one more for null, the last."""

    low: int
    size: int
    null: bool

    @property
    def total(self) -> int:
        return self.size + self.null


@dataclass(frozen=True, slots=True)
class Digits:
    """One digit for each column, the last the fastest."""

    each: tuple[Digit, ...]

    @property
    def slots(self) -> int:
        found = 1
        for d in self.each:
            found *= d.total
        return found

    def fits(self, rows: int, lookups: int = 0) -> bool:
        """Whether a table by the number is worth its memory: for the rows in it, or for those that
        look it up."""
        return self.slots <= min(max(FREE_SLOTS, SLOTS_PER_ROW * rows, lookups), MAX_SLOTS)

    # -- in kernels --------------------------------------------------------------------------
    def number(self, arrays: Arrays, cells: Sequence[Cell]) -> Expr:
        """The number of a row whose values are known to be in range."""
        found: Expr = const(0, INT64)
        for d, c in zip(self.each, cells):
            digit = Call(ops.subtract, (convert(c.value, INT64), arrays.number(d.low, INT64)))
            if d.null and c.valid is not None:
                digit = Call(ops.where, (c.valid, digit, arrays.number(d.size, INT64)))
            found = digit if found == const(0, INT64) else Call(ops.add, (
                Call(ops.multiply, (found, arrays.number(d.total, INT64))), digit))
        return found

    def inside(self, arrays: Arrays, cells: Sequence[Cell]) -> Expr | None:
        """Whether the values of another relation are in range; None: surely."""
        found: Expr | None = None
        for d, c in zip(self.each, cells):
            known = None if c.vector is None else c.vector.bounds
            if known is not None and d.low <= known[0] and known[1] < d.low + d.size and (
                    c.valid is None or not d.null):
                continue
            value = convert(c.value, INT64)
            low, high = arrays.number(d.low, INT64), arrays.number(d.low + d.size - 1, INT64)
            test = Call(ops.logical_and, (Call(ops.greater_equal, (value, low)),
                                          Call(ops.less_equal, (value, high))))
            if d.null and c.valid is not None:
                test = Call(ops.logical_or, (Call(ops.logical_not, (c.valid,)), test))
            found = test if found is None else Call(ops.logical_and, (found, test))
        return found

    # -- in arrays ---------------------------------------------------------------------------
    def numbers(self, vectors: Sequence[Vector]) -> Array:
        """The number of each row."""
        found = np.zeros(1, np.int64)
        for d, v in zip(self.each, vectors):
            digit = v.values.astype(np.int64) - d.low
            if d.null and v.valid is not None:
                digit = np.where(v.valid, digit, d.size)
            found = found * d.total + digit
        return found

    def vectors(self, numbers: Array, like: Sequence[Cell]) -> list[Vector]:
        """The columns of rows with these numbers."""
        found: list[Vector] = []
        for d, c in zip(reversed(self.each), reversed(like)):
            numbers, digit = np.divmod(numbers, d.total)
            valid = None
            if d.null:
                valid = digit < d.size
                digit = np.where(valid, digit, 0)
                valid = None if valid.all() else valid
            values = (digit + d.low).astype(_stored(c.type))
            found.append(Vector(c.type, values, valid, c.words))
        return found[::-1]


def _stored(type_: Type) -> np.dtype[np.generic]:
    return np.dtype(np.bool_) if type_ is Type.BOOLEAN else np.dtype(np.int64)


def digits_of(cells: Sequence[Cell]) -> Digits | None:
    """The digits of columns whose ranges are known before their rows are."""
    found: list[Digit] = []
    for c in cells:
        bounds = (0, 1) if c.type is Type.BOOLEAN else (
            (0, len(c.words) - 1) if c.words is not None else (
                None if c.vector is None else c.vector.bounds))
        if bounds is None:
            return None
        found.append(Digit(bounds[0], bounds[1] - bounds[0] + 1, c.valid is not None))
    return Digits(tuple(found))


def digits_in(vectors: Sequence[Vector]) -> Digits | None:
    """The digits of columns that are there."""
    if any(v.bounds is None for v in vectors):
        return None
    bounds = [v.bounds or (0, 0) for v in vectors]
    return Digits(tuple([Digit(b[0], b[1] - b[0] + 1, v.valid is not None)
                         for b, v in zip(bounds, vectors)]))


def comparable(vector: Vector) -> Array:
    """Values that are equal exactly where those of the vector are, as whole numbers: nan is one
    value, and zeros of both signs are."""
    if not vector.type.is_real:
        return vector.values
    values = vector.values.astype(np.float64) + 0.0
    bits = values.view(np.int64).copy()
    bits[np.isnan(values)] = np.int64(0x7FF8000000000000)
    return bits
