"""Texts in kernels: numbers of words in sorted dictionaries, and tables over these."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.engines.rows.frames import Arrays, Cell, both
from tensorel.engines.rows.scalars import texts
from tensorel.engines.rows.vectors import Array, Vector, Words, encoded, unified
from tensorel.errors import EngineError, ValueError_
from tensorel.ir.build import convert
from tensorel.ir.nodes import BOOL, INT64, Call, Const, Expr, const
from tensorel.sql import scalars as sql
from tensorel.sql.intervals import WHOLE
from tensorel.sql.scalars import Literal
from tensorel.sql.types import Type

_OPS = {"=": ops.equal, "<>": ops.not_equal, "<": ops.less, "<=": ops.less_equal,
        ">": ops.greater, ">=": ops.greater_equal}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def meaning(e: sql.Call) -> Callable[..., Any] | None:
    """The function on Python's values, None where kernels compute it."""
    types = [a.type for a in e.args]
    if e.function == "cast" and Type.TEXT in (e.type, types[0]):
        lenient = e.detail == "lenient"
        return lambda v: texts.cast(v, types[0], e.type, lenient)
    if e.function in texts.TIME_FUNCTIONS:
        function = texts.TIME_FUNCTIONS[e.function]
        return lambda *v: function(*v, types[0])
    return texts.FUNCTIONS.get(e.function)


def is_checked(e: sql.Call) -> bool:
    """Whether it is a conversion of reals that a whole number cannot hold."""
    return e.function == "cast" and e.type is Type.INTEGER and e.args[0].type.is_real


def rounded(e: sql.Call, values: Array, valid: Array | None) -> Vector:
    """Reals as whole numbers."""
    bad = ~(np.abs(values) < WHOLE)
    if valid is not None:
        bad &= valid
    if bad.any():
        if e.detail != "lenient":
            raise ValueError_(f"sql: {values[bad][0]} cannot be cast to {e.type.value}",
                              hint="TRY_CAST gives null there")
        valid = ~bad if valid is None else valid & ~bad
    if valid is not None:
        values = np.where(valid, values, 0.0)
    return Vector(e.type, np.rint(values).astype(np.int64), valid)


def by_rows(e: sql.Call) -> bool:
    """Whether a function of texts needs the combinations of its arguments that there are: it has
    several that vary, or one without a dictionary, or it may fail."""
    if e.type is Type.MATRIX or is_checked(e):
        return True
    if meaning(e) is None:
        return False
    varying = [a for a in e.args if not isinstance(a, Literal)]
    may_fail = e.function == "cast" and e.type is not Type.TEXT and e.detail != "lenient"
    return may_fail or len(varying) > 1 or any(a.type is not Type.TEXT for a in varying)


def vector_of(values: list[Any], type_: Type) -> Vector:
    """Python's values as a vector; None is null."""
    if type_ is Type.TEXT:
        return encoded(values)
    there = np.array([v is not None for v in values], bool)
    made = np.array([0 if v is None else v for v in values], type_.dtype)
    return Vector(type_, made, None if there.all() else there)


class Dictionaries:
    """Functions and comparisons of texts in the kernels of one query."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def takes(self, e: sql.Call) -> bool:
        return meaning(e) is not None

    def call(self, e: sql.Call, cells: list[Cell]) -> Cell:
        """A function of one text, by a table over its dictionary."""
        function = meaning(e)
        if function is None:
            raise EngineError(f"no kernel computes {e.function}")
        varying = [k for k, a in enumerate(e.args) if not isinstance(a, Literal)]
        if any(isinstance(a, Literal) and a.value is None for a in e.args):
            return Cell(e.type, const(0, e.type.dtype), const(False, BOOL),
                        np.array([""], object) if e.type is Type.TEXT else None)
        if not varying:
            found = computed(e, function, [a.value for a in e.args if isinstance(a, Literal)])
            return self._constant(found, e.type)
        (place,) = varying
        words = cells[place].words
        assert words is not None, e.function
        fixed = [a.value if isinstance(a, Literal) else None for a in e.args]
        made = []
        for word in words.tolist():
            fixed[place] = word
            made.append(computed(e, function, fixed))
        table = vector_of(made, e.type)
        at = convert(cells[place].value, INT64)
        found = self.arrays.cell(table, at)
        return Cell(e.type, found.value, both(cells[place].valid, found.valid), found.words)

    def _constant(self, value: Any, type_: Type) -> Cell:
        vector = vector_of([value], type_)
        valid = None if vector.valid is None else const(False, BOOL)
        return Cell(type_, const(vector.values[0].item(), type_.dtype), valid, vector.words)

    def unified(self, cells: list[Cell]) -> list[Cell]:
        """The same cells; texts with one dictionary."""
        dictionaries = [c.words for c in cells if c.words is not None]
        if len(dictionaries) < 2 or all(d is dictionaries[0] for d in dictionaries):
            return cells
        words, tables = unified(dictionaries)
        return [self._moved(c, t, words) for c, t in zip(
            [c for c in cells if c.words is not None], tables)]

    def _moved(self, cell: Cell, table: Array, words: Words) -> Cell:
        if isinstance(cell.value, Const):
            return Cell(cell.type, const(int(table[int(cell.value.value)]), INT64), cell.valid,
                        words)
        return Cell(cell.type, self.arrays.read(table, cell.value, INT64), cell.valid, words)

    def compared(self, sign: str, a: Cell, b: Cell) -> Expr:
        """``a sign b`` for texts."""
        assert a.words is not None and b.words is not None
        if isinstance(b.value, Const) and a.words is not b.words:
            return self._with_literal(sign, a, b.words[int(b.value.value)])
        if isinstance(a.value, Const) and a.words is not b.words:
            return self._with_literal(_MIRRORED.get(sign, sign), b, a.words[int(a.value.value)])
        first, second = self.unified([a, b])
        return Call(_OPS[sign], (convert(first.value, INT64), convert(second.value, INT64)))

    def _with_literal(self, sign: str, a: Cell, text: str) -> Expr:
        """Where the text would stand in the dictionary decides."""
        assert a.words is not None
        words = a.words.tolist()
        low, high = bisect_left(words, text), bisect_right(words, text)
        code = convert(a.value, INT64)
        if sign in ("=", "<>"):
            if low == high:
                return const(sign == "<>", BOOL)
            return Call(_OPS[sign], (code, const(low, INT64)))
        bound = {"<": (ops.less, low), "<=": (ops.less, high), ">": (ops.greater_equal, high),
                 ">=": (ops.greater_equal, low)}[sign]
        return Call(bound[0], (code, const(bound[1], INT64)))


def computed(e: sql.Call, function: Callable[..., Any], args: list[Any]) -> Any:
    """The value of a function, its errors as ours."""
    try:
        return function(*args)
    except (ValueError, OverflowError, re.error) as error:
        hint = "TRY_CAST gives null where a text is no such value" if e.function == "cast" else None
        raise ValueError_(f"sql: {e.function}: {error}", hint=hint) from None


def evaluated(e: sql.Call, combinations: list[tuple[Any, ...]]) -> Vector:
    """A function of each combination of the arguments that are no literals; null where one is."""
    function = meaning(e)
    assert function is not None
    made: list[Any] = []
    for given in combinations:
        values = iter(given)
        args = [a.value if isinstance(a, Literal) else next(values) for a in e.args]
        made.append(None if None in args else computed(e, function, args))
    return vector_of(made, e.type)


def pythonic(values: Array, valid: Array | None, words: Words | None) -> list[Any]:
    """Python's values of an array, None for null."""
    found: list[Any] = (values if words is None else words[values]).tolist()
    if valid is None:
        return found
    return [v if ok else None for v, ok in zip(found, valid.tolist())]


