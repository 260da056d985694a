"""Scalars of SQL as expressions of the calculus.

Null is a mask beside the value. Tests are two expressions, whether they are true and whether they
are false: null is neither, and the connectives of three-valued logic are those of each of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.engines.rows.frames import Arrays, Cell, both, null_cell
from tensorel.engines.rows.scalars import times
from tensorel.engines.rows.scalars.comparing import MANY, among, compared
from tensorel.engines.rows.scalars.dictionaries import Dictionaries
from tensorel.engines.rows.scalars.overflowing import overflow, written
from tensorel.engines.rows.scalars.truths import (
    FALSE,
    TRUE,
    Truth,
    chosen,
    conjunction,
    disjunction,
    either,
    negation,
    truth_of,
    where,
)
from tensorel.engines.rows.vectors import words_of
from tensorel.ir.build import convert
from tensorel.ir.nodes import BOOL, INT64, Call, Expr, const
from tensorel.language.scalars import call
from tensorel.sql import scalars as sql
from tensorel.sql.functions import FIELDS
from tensorel.sql.intervals import LIMITS, image, is_beyond, may_overflow, operands
from tensorel.sql.scalars import Column, Literal, Scalar
from tensorel.sql.types import Type

_REAL = {"sqrt": ops.sqrt, "cbrt": ops.cbrt, "ln": ops.log, "exp": ops.exp, "sin": ops.sin,
         "cos": ops.cos, "tan": ops.tan, "asin": ops.arcsin, "acos": ops.arccos,
         "atan": ops.arctan, "sinh": ops.sinh, "cosh": ops.cosh, "tanh": ops.tanh}
_ARITHMETIC = {"+": ops.add, "-": ops.subtract, "*": ops.multiply}
_TENS = 10 ** np.arange(19)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Lowering:
    """Lowers the scalars over the columns of one frame."""

    def __init__(self, arrays: Arrays, cells: Mapping[Column, Cell]) -> None:
        self.arrays = arrays
        self.cells = cells
        self.dictionaries = Dictionaries(arrays)
        self._cells: dict[Scalar, Cell] = {}
        self._tests: dict[Scalar, Truth] = {}

    # -- values ------------------------------------------------------------------------------
    def of(self, e: Scalar) -> Cell:
        """The value of a scalar, and where there is one."""
        if isinstance(e, Column):
            return self.cells[e]
        found = self._cells.get(e)
        if found is None:
            found = self._cells[e] = self._literal(e) if isinstance(e, Literal) else (
                self._bounded(e, self._call(e)))
        return found

    def _bounded(self, e: sql.Call, found: Cell) -> Cell:
        """The value of a call, with bounds where its arguments have some."""
        over = operands(e) if e.type in (Type.INTEGER, Type.DATE) else None
        if over is None:
            return found
        low, high = image(e, [self.of(v).span for v in over])
        return replace(found, known=(max(low, LIMITS[0]), min(high, LIMITS[1])))

    def _literal(self, e: Literal) -> Cell:
        if e.value is None or e.type is Type.INTERVAL:
            return null_cell(e.type)
        if e.type is Type.TEXT:
            return Cell(e.type, const(0, INT64), None, words_of([str(e.value)]))
        if e.type is Type.BOOLEAN:
            return Cell(e.type, const(bool(e.value), BOOL))
        known = (e.value, e.value) if isinstance(e.value, int) else None
        return Cell(e.type, self.arrays.number(e.value, e.type.dtype), known=known)

    def _call(self, e: sql.Call) -> Cell:
        if e.type is Type.BOOLEAN and e.function not in ("coalesce", "case", "cast"):
            truth = self.test(e)
            valid = None if truth.false is None else disjunction(truth.true, truth.false)
            return Cell(e.type, truth.true, valid)
        match e.function:
            case "case":
                return self._case(e)
            case "coalesce":
                return self._coalesce(e)
            case "greatest" | "least":
                return self._extreme(e)
            case "nullif":
                first = self.of(e.args[0])
                same = self.test(sql.compare("=", *e.args)).true
                return Cell(e.type, first.value, both(first.valid, negation(same)), first.words)
        if self.dictionaries.takes(e):
            return self.dictionaries.call(e, [self.of(a) for a in e.args])
        return self._strict(e)

    def _strict(self, e: sql.Call) -> Cell:
        """A function that is null where an argument is."""
        cells = [self.of(a) for a in e.args]
        valid: Expr | None = None
        for c in cells:
            if c.type is not Type.INTERVAL:
                valid = both(valid, c.valid)
        if e.function in ("//", "%") and not e.type.is_real:
            zero = const(0, INT64)
            present = Call(ops.not_equal, (convert(cells[1].value, INT64), zero))
            if not (isinstance(e.args[1], Literal) and e.args[1].value):
                valid = both(valid, present)
        value = self._value(e, [c.value for c in cells])
        if may_overflow(e) and is_beyond(e, [c.span for c in cells]):
            bad = overflow(e.function, [c.value for c in cells], value)
            if valid is not None:
                bad = Call(ops.bitwise_and, (valid, bad))
            value = self.arrays.checked(value, bad, written(e))
        return Cell(e.type, value, valid)

    def _value(self, e: sql.Call, args: list[Expr]) -> Expr:
        name, dtype = e.function, e.type.dtype
        types = [a.type for a in e.args]
        if name in ("+", "-") and Type.INTERVAL in types:
            return self._with_interval(e, args)
        if name in _ARITHMETIC:
            a, b = (convert(x, dtype) for x in args)
            return Call(_ARITHMETIC[name], (a, b))
        if name in _REAL:
            return Call(_REAL[name], (convert(args[0], FLOAT64),))
        if name in FIELDS:
            return times.field(name, args[0], types[0])
        if name.startswith("trunc "):
            return times.truncated(name[6:], args[0])
        if name.endswith("s between"):
            unit = name[: -len("s between")]
            return times.sub(times.count(unit, args[1], types[1]),
                             times.count(unit, args[0], types[0]))
        special: Callable[[sql.Call, list[Expr]], Expr] = getattr(self, "_" + _NAMES[name])
        return special(e, args)

    def _with_interval(self, e: sql.Call, args: list[Expr]) -> Expr:
        k = 0 if isinstance(e.args[0], Literal) and e.args[0].type is Type.INTERVAL else 1
        interval = e.args[k]
        assert isinstance(interval, Literal)
        by: tuple[int, int, int] = interval.value  # type: ignore[assignment]
        return times.shifted(args[1 - k], by, -1 if e.function == "-" else 1)

    # -- functions of numbers ------------------------------------------------------------------
    def _divide(self, e: sql.Call, args: list[Expr]) -> Expr:
        a, b = (convert(x, e.type.dtype) for x in args)
        return Call(ops.divide, (a, b))

    def _whole_divide(self, e: sql.Call, args: list[Expr]) -> Expr:
        """Rounded to zero."""
        a, b = args
        down = Call(ops.floor_divide, (a, b))
        rest = times.sub(a, times.mul(down, b))
        zero = const(0, INT64)
        inexact = Call(ops.not_equal, (rest, zero))
        apart = Call(ops.not_equal, (Call(ops.less, (a, zero)), Call(ops.less, (b, zero))))
        return times.add(down, convert(conjunction(inexact, apart), INT64))

    def _modulo(self, e: sql.Call, args: list[Expr]) -> Expr:
        """With the sign of the dividend."""
        if not e.type.is_real:
            return times.sub(args[0], times.mul(self._whole_divide(e, args), args[1]))
        a, b = (convert(x, e.type.dtype) for x in args)
        rest = Call(ops.remainder, (Call(ops.absolute, (a,)), Call(ops.absolute, (b,))))
        return chosen(Call(ops.less, (a, const(0, a.dtype))), Call(ops.negative, (rest,)), rest)

    def _negative(self, e: sql.Call, args: list[Expr]) -> Expr:
        return Call(ops.negative, (args[0],))

    def _abs(self, e: sql.Call, args: list[Expr]) -> Expr:
        return Call(ops.absolute, (args[0],))

    def _sign(self, e: sql.Call, args: list[Expr]) -> Expr:
        zero = const(0, args[0].dtype)
        return times.sub(*[convert(Call(op, (args[0], zero)), INT64)
                           for op in (ops.greater, ops.less)])

    def _rounding(self, e: sql.Call, args: list[Expr]) -> Expr:
        op = {"floor": ops.floor, "ceil": ops.ceil, "trunc": ops.trunc}[e.function]
        return Call(op, (args[0],)) if e.type.is_real else args[0]

    def _round(self, e: sql.Call, args: list[Expr]) -> Expr:
        """Halves go away from zero."""
        scale: Expr | None = None
        if not e.type.is_real:
            return args[0] if len(args) == 1 else self._round_whole(args[0], args[1])
        if len(args) == 2:
            scale = Call(ops.power, (const(10.0), convert(args[1], FLOAT64)))
        x = convert(args[0], FLOAT64)
        scaled = x if scale is None else Call(ops.multiply, (x, scale))
        up = Call(ops.floor, (Call(ops.add, (Call(ops.absolute, (scaled,)), const(0.5))),))
        signed = Call(ops.copysign, (up, scaled))
        found = signed if scale is None else Call(ops.divide, (signed, scale))
        return convert(found, e.type.dtype)

    def _round_whole(self, x: Expr, digits: Expr) -> Expr:
        """Whole numbers exactly: to the multiple of a power of ten that is nearest."""
        most = len(_TENS) - 1
        cut = Call(ops.maximum, (digits, const(-len(_TENS), INT64)))
        at = Call(ops.negative, (Call(ops.minimum, (cut, const(0, INT64))),))
        ten = self.arrays.read(_TENS, Call(ops.minimum, (at, const(most, INT64))), INT64)
        rest = Call(ops.remainder, (x, ten))  # from below
        down = times.sub(x, rest)
        beyond = times.sub(ten, rest)
        less = Call(ops.less, (x, const(0, INT64)))
        up = chosen(less, Call(ops.greater, (rest, beyond)),
                    Call(ops.greater_equal, (rest, beyond)))
        found = chosen(up, times.add(down, ten), down)
        return chosen(Call(ops.greater, (at, const(most, INT64))), const(0, INT64), found)

    def _log_to(self, e: sql.Call, args: list[Expr]) -> Expr:
        op = {"log2": ops.log2, "log10": ops.log10}[e.function]
        return Call(op, (convert(args[0], FLOAT64),))

    def _power(self, e: sql.Call, args: list[Expr]) -> Expr:
        return Call(ops.power, (convert(args[0], FLOAT64), convert(args[1], FLOAT64)))

    def _pi(self, e: sql.Call, args: list[Expr]) -> Expr:
        return const(float(np.pi))

    def _make_date(self, e: sql.Call, args: list[Expr]) -> Expr:
        return times.days_from(args[0], args[1], args[2])

    def _last_day(self, e: sql.Call, args: list[Expr]) -> Expr:
        year, month, _ = times.civil(times.days_of(args[0], e.args[0].type))
        first = times.days_from(year, month, const(1, INT64))
        return times.sub(times.add(first, times.month_length(year, month)), 1)

    def _cast(self, e: sql.Call, args: list[Expr]) -> Expr:
        source, value = e.args[0].type, args[0]
        if source.is_real and e.type is Type.INTEGER:
            return convert(Call(ops.rint, (value,)), INT64)
        if source is Type.DATE and e.type is Type.TIMESTAMP:
            return times.mul(value, times.DAY)
        if source is Type.TIMESTAMP and e.type is Type.DATE:
            return times.div(value, times.DAY)
        if e.type is Type.BOOLEAN:
            return call(ops.not_equal, value, const(0, value.dtype))
        return convert(value, e.type.dtype)

    # -- choices -------------------------------------------------------------------------------
    def _branches(self, scalars: list[Scalar]) -> list[Cell]:
        """Cells of one type; texts with one dictionary."""
        return self.dictionaries.unified([self.of(s) for s in scalars])

    def _case(self, e: sql.Call) -> Cell:
        tests = [self.test(t).true for t in e.args[:-1:2]]
        values = self._branches([*e.args[1:-1:2], e.args[-1]])
        found = values[-1]
        for test, cell in zip(reversed(tests), reversed(values[:-1])):
            found = either(test, cell, found, e.type)
        return found

    def _coalesce(self, e: sql.Call) -> Cell:
        cells = self._branches(list(e.args))
        found = cells[-1]
        for cell in reversed(cells[:-1]):
            found = cell if cell.valid is None else either(cell.valid, cell, found, e.type)
        return found

    def _extreme(self, e: sql.Call) -> Cell:
        """Nulls do not count."""
        cells = self._branches(list(e.args))
        sign = ">" if e.function == "greatest" else "<"
        found = cells[0]
        for cell in cells[1:]:
            test = compared(sign, cell, found, e.type)
            if found.valid is not None:
                test = disjunction(test, negation(found.valid))
            if cell.valid is not None:
                test = conjunction(test, cell.valid)
            valid = None if found.valid is None or cell.valid is None else disjunction(
                found.valid, cell.valid)
            found = Cell(e.type, chosen(test, cell.value, found.value), valid, found.words)
        return found

    # -- tests -----------------------------------------------------------------------------------
    def test(self, e: Scalar) -> Truth:
        """When a condition is true, and when false."""
        found = self._tests.get(e)
        if found is None:
            found = self._tests[e] = self._truth(e)
        return found

    def _truth(self, e: Scalar) -> Truth:
        if not isinstance(e, sql.Call):
            return truth_of(self.of(e))
        match e.function:
            case "and":
                return self._connected(e, conjunction, disjunction)
            case "or":
                return self._connected(e, disjunction, conjunction)
            case "not":
                inner = self.test(e.args[0])
                return Truth(inner.fails, None if inner.false is None else inner.true)
            case "is null":
                valid = self.of(e.args[0]).valid
                return Truth(FALSE if valid is None else negation(valid))
            case "is" | "is not":
                same = self._is(e)
                return Truth(same if e.function == "is" else negation(same))
            case "in":
                equal: list[Scalar] = [sql.compare("=", e.args[0], a) for a in e.args[1:]]
                return self._in(e, equal)
            case "in result":
                mark, unknown = (self.test(a).true for a in e.args)
                return Truth(mark, conjunction(negation(mark), negation(unknown)))
            case "is nan":
                cell = self.of(e.args[0])
                return where(call(ops.isnan, convert(cell.value, FLOAT64)), cell.valid)
        if e.function in COMPARISONS:
            return self._compared(e)
        if e.function in ("case", "coalesce", "cast"):
            return truth_of(self.of(e))
        return truth_of(self.dictionaries.call(e, [self.of(a) for a in e.args]))

    def _connected(self, e: sql.Call, of_true: Callable[[Expr, Expr], Expr],
                   of_false: Callable[[Expr, Expr], Expr]) -> Truth:
        parts = [self.test(a) for a in e.args]
        true, total = parts[0].true, parts[0].false is None
        false = None if total else parts[0].fails
        for p in parts[1:]:
            if p.false is None and false is None:
                true = of_true(true, p.true)
                continue
            false = of_false(negation(true) if false is None else false, p.fails)
            true = of_true(true, p.true)
        return Truth(true, false)

    def _in(self, e: sql.Call, equal: list[Scalar]) -> Truth:
        cell = self.of(e.args[0])
        literals = [a for a in e.args[1:] if isinstance(a, Literal)]
        if cell.words is not None and len(literals) == len(equal):
            wanted = {a.value for a in literals}
            table = np.array([w in wanted for w in cell.words.tolist()], bool)
            found = where(self.arrays.read(table, cell.value), cell.valid)
            if None in wanted:  # what is not found may be the null
                return Truth(found.true, FALSE)
            return found
        if len(literals) == len(equal) > MANY:
            there = [a.value for a in literals if a.value is not None]
            found = where(among(self.arrays, cell, there), cell.valid)
            return found if len(there) == len(literals) else Truth(found.true, FALSE)
        parts = [self.test(t) for t in equal]
        true, false = parts[0].true, parts[0].false
        for p in parts[1:]:
            false = None if false is None and p.false is None else conjunction(
                negation(true) if false is None else false, p.fails)
            true = disjunction(true, p.true)
        return Truth(true, false)

    def _compared(self, e: sql.Call) -> Truth:
        a, b = (self.of(x) for x in e.args)
        found = self._order(e.function, e.args, a, b)
        return where(found, both(a.valid, b.valid))

    def _order(self, sign: str, args: tuple[Scalar, ...], a: Cell, b: Cell) -> Expr:
        if a.words is not None and b.words is not None:
            return self.dictionaries.compared(sign, a, b)
        sure = [isinstance(x, Literal) and x.value == x.value for x in args]
        return compared(sign, a, b, args[0].type, sure[0], sure[1])

    def _is(self, e: sql.Call) -> Expr:
        """Equal, null being equal to null."""
        a, b = (self.of(x) for x in e.args)
        same = self._order("=", e.args, a, b)
        if a.valid is None and b.valid is None:
            return same
        first, second = (TRUE if c.valid is None else c.valid for c in (a, b))
        none = negation(disjunction(first, second))
        return disjunction(none, conjunction(conjunction(first, second), same))


_NAMES = {
    "/": "divide", "//": "whole_divide", "%": "modulo", "negative": "negative", "abs": "abs",
    "sign": "sign", "floor": "rounding", "ceil": "rounding", "trunc": "rounding",
    "round": "round", "log2": "log_to", "log10": "log_to", "power": "power", "pi": "pi",
    "make_date": "make_date", "last_day": "last_day", "cast": "cast",
}
