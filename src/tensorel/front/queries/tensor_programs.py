"""Aggregations over joins of tensors, run as programs of the calculus.

A sum may be zero, so which groups there are is a program of its own: how many rows they have. It is
left out where sums cannot vanish: products of positive numbers that do not underflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TypeAlias

import numpy as np

from tensorel import config as settings
from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64, DType
from tensorel.engines.rows.frames import Arrays, Cell
from tensorel.engines.rows.scalars.lowering import Lowering
from tensorel.engines.rows.vectors import Array, Vector
from tensorel.front.array.base import wrap
from tensorel.front.array.convert import run
from tensorel.front.array.tensor import Tensor
from tensorel.front.languages.given_data import GivenData
from tensorel.front.queries.given import GivenTensor
from tensorel.front.queries.group_entries import gathered
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Expr, const
from tensorel.ir.nodes import Call as IrCall
from tensorel.language.builder import Builder
from tensorel.language.comprehension import Comprehension, Env, Formula, Generator, Guard
from tensorel.language.dictionaries import Value, scalar
from tensorel.language.scalars import BOOL, INT, MAX_PLUS, MIN_PLUS, REAL, Semiring
from tensorel.sql.algebra import AggregateCall, TensorProgram
from tensorel.sql.intervals import WHOLE, interval, is_exact
from tensorel.sql.scalars import Call, Column, Scalar, columns_of
from tensorel.sql.types import Type

_KINDS = {"min": MIN_PLUS, "max": MAX_PLUS}
_SMALLEST = 1e-290
#: What is summed: from the columns, and from the values of all tensors.
Head: TypeAlias = Callable[[Lowering, list[Expr]], Expr]


class _Constants(Arrays):
    """Numbers of the text are part of the program."""

    def number(self, value: object, dtype: DType) -> Expr:
        return const(value, dtype)

    def checked(self, value: Expr, bad: Expr, text: str) -> Expr:
        return value  # what may overflow is no program


class TensorPrograms:
    """Runs the programs of one query."""

    def __init__(self, sources: Mapping[str, object], text: str) -> None:
        self.sources = sources
        self.text = text

    def __call__(self, plan: TensorProgram) -> list[Vector] | None:
        """The columns of the groups. None where a result is nan: in SQL nan is above all numbers,
        and a zero that a tensor stores is no row that could meet an infinity; rows tell."""
        parts = [part for _, call in plan.of.calls for part in _parts(call)]
        if not self._is_exact(plan) or not all(self._is_small(plan, part) for part in parts):
            return None
        programs = [self.program(plan, part) for part in parts]
        known = next((k for k, part in enumerate(parts) if part.function == "count" or (
            part.function == "sum" and self._is_positive(plan, part.args[0]))), None)
        if known is None or not plan.of.keys:
            programs.append(self.rows(plan))
            known = len(parts)
        results = run(programs, settings.current(), [None] * len(programs))
        coords, made = gathered(results, known)
        if any(_has_nan(a) for a in made):
            return None
        there = bool(made[known].any()) if not plan.of.keys else True
        columns = [self._key(plan, e, c) for (_, e), c in zip(plan.of.keys, coords)]
        values = iter(made)
        for column, call in plan.of.calls:
            arrays = [next(values) for _ in _parts(call)]
            columns.append(_column(column.type, call, arrays, there))
        return columns

    def _key(self, plan: TensorProgram, e: Scalar, coords: Array) -> Vector:
        """A key as the query sees it: indices, or their labels."""
        for scan in plan.scans:
            source = self._source(scan.source)
            fields = {f.name: f for f in source.fields}
            for c, name in scan.fields:
                field = fields[name]
                if c == e and field.labels is not None and field.axis is not None:
                    return source.label_vector(field.axis).take(coords)
        return Vector(Type.INTEGER, coords)

    def _bounds(self, plan: TensorProgram) -> Callable[[Column], tuple[int, int] | None]:
        """Between which whole numbers the values of a column lie."""
        fields = {c: (self._source(s.source), name) for s in plan.scans for c, name in s.fields}
        return lambda c: fields[c][0].whole_bounds(fields[c][1])

    def _is_exact(self, plan: TensorProgram) -> bool:
        """Whether whole numbers of a row surely have 64 bits."""
        used = [*plan.tests, *[a for _, call in plan.of.calls for a in call.args]]
        return all(is_exact(e, self._bounds(plan)) for e in used)

    def _is_small(self, plan: TensorProgram, part: AggregateCall) -> bool:
        """Whether a sum of whole numbers surely has 64 bits."""
        if part.function != "sum" or part.args[0].type is not Type.INTEGER:
            return True
        known = interval(part.args[0], self._bounds(plan))
        return known is not None and max(map(abs, known)) * self._terms(plan) < WHOLE

    # -- programs ------------------------------------------------------------------------------
    def rows(self, plan: TensorProgram) -> Tensor:
        """How many rows each group has; as a real number where those hold it exactly."""
        if any(self._is_value(plan, c) for c in columns_of(*plan.tests)):
            return self._made(plan, lambda lower, values: const(1, INT64), INT)
        most = prod(self._source(s.source).rows for s in plan.scans)
        if most >= 2**53:
            return self._made(plan, lambda lower, values: const(1, INT64), INT)
        ones = np.dtype(np.float32 if self._terms(plan) < 2**24 else np.float64)
        return self._made(plan, lambda lower, values: _product(values), REAL, ones)

    def _terms(self, plan: TensorProgram) -> int:
        """How many rows a group has at most: one for each choice of the other indices."""
        names, _ = _named(plan)
        keys = {names[e] for _, e in plan.of.keys if isinstance(e, Column)}
        extents: dict[str, int] = {}
        for number, scan in enumerate(plan.scans):
            source = self._source(scan.source)
            axes = {f.name: f.axis for f in source.fields}
            named = {axes[field]: names[c] for c, field in scan.fields}
            for k, n in enumerate(source.tensor.shape):
                extents[named.get(k, f"{number} {k}")] = n
        return prod(n for name, n in extents.items() if name not in keys)

    def _source(self, name: str) -> GivenTensor:
        source = self.sources[name]
        assert isinstance(source, GivenTensor)
        return source

    def program(self, plan: TensorProgram, call: AggregateCall) -> Tensor:
        """The tensor of one aggregate by its keys."""
        if call.function == "count":
            return self.rows(plan)
        (arg,) = call.args
        whole = arg.type is Type.INTEGER and call.function == "sum"
        into = INT64 if whole else FLOAT64
        return self._made(plan, lambda lower, values: convert(lower.of(arg).value, into),
                          INT if whole else _KINDS.get(call.function, REAL))

    def _is_value(self, plan: TensorProgram, column: Column) -> bool:
        return not _is_index(plan, column)

    def _is_positive(self, plan: TensorProgram, e: Scalar) -> bool:
        """Whether no sum of the formula is zero: a product of values that are all positive, and
        together no smaller than what the numbers can hold."""
        factors = _factors(e)
        if factors is None or e.type is Type.INTEGER:
            return False
        owners = {c: s for s in plan.scans for c, _ in s.fields}
        least = 1.0
        for c in factors:
            source = self._source(owners[c].source)
            if _is_index(plan, c) or not source.rows:
                return False
            low = source.least
            if not low > 0.0:
                return False
            least = min(least * low, least)
        return least > _SMALLEST

    def _made(self, plan: TensorProgram, head: Head, kind: Semiring,
              ones: DType | None = None) -> Tensor:
        """The sum of ``head`` over the rows of each group; ``ones``: entries count as 1."""
        build = Builder(self.text, GivenData())
        names, tests = _named(plan)
        generators = []
        cells: dict[Column, str] = {}
        for number, scan in enumerate(plan.scans):
            source = self._source(scan.source)
            axes = {f.name: f.axis for f in source.fields}
            keys = [f"t{number} i{k}" for k in range(source.tensor.ndim)]
            for c, field in scan.fields:
                axis = axes[field]
                if axis is None:
                    cells[c] = f"t{number} val"
                else:
                    keys[axis] = names[c]
                    cells[c] = names[c]
            tensor = source.tensor if ones is None else source.ones(ones)
            of = INT if tensor.dtype.kind in "iu" else REAL
            generators.append(Generator(tuple(keys), f"t{number} val",
                                        build.tensor(tensor.node, of)))

        def lowering(env: Env) -> Lowering:
            return Lowering(_Constants(), {
                c: Cell(c.type, build.expr(env[name])) for c, name in cells.items()})

        def guard(test: Scalar) -> Guard:
            return Guard(lambda env: scalar(lowering(env).test(test).true, BOOL))

        found: Value = Comprehension(
            [*generators, *map(guard, tests)],
            key=[_key(names[e]) for _, e in plan.of.keys if isinstance(e, Column)],
            head=lambda env: scalar(head(lowering(env), [
                build.expr(env[g.value]) for g in generators]), kind),
            kind=kind).lower(build, {})
        return wrap(build.result(found, 0, self._extents(plan)))

    def _extents(self, plan: TensorProgram) -> list[int]:
        """The extent of each key: that of its axis."""
        extents = {}
        for scan in plan.scans:
            source = self._source(scan.source)
            known = {f.name: f.distinct for f in source.fields}
            extents.update({c: known[n] for c, n in scan.fields})
        return [int(extents[e] or 0) for _, e in plan.of.keys if isinstance(e, Column)]


def _key(name: str) -> Formula:
    return lambda env: env[name]


def _named(plan: TensorProgram) -> tuple[dict[Column, str], list[Scalar]]:
    """A name for each column, one for those that are equal indices; the other tests. Indices of one
    tensor keep names of their own."""
    owner = {c: k for k, s in enumerate(plan.scans) for c, _ in s.fields}
    group = {c: {c} for c in owner}
    rest: list[Scalar] = []
    for t in plan.tests:
        if isinstance(t, Call) and t.function == "=":
            a, b = t.args
            if isinstance(a, Column) and isinstance(b, Column) and _is_index(plan, a) and (
                    _is_index(plan, b)):
                merged = group[a] | group[b]
                if len({owner[c] for c in merged}) == len(merged):
                    for c in merged:
                        group[c] = merged
                    continue
        rest.append(t)
    return {c: f"c{min(x.number for x in g)}" for c, g in group.items()}, rest


def _is_index(plan: TensorProgram, column: Column) -> bool:
    return any(c == column and name != "val" for s in plan.scans for c, name in s.fields)


def _parts(call: AggregateCall) -> list[AggregateCall]:
    """The calls that an aggregate is made of."""
    if call.function == "avg":
        return [AggregateCall("sum", call.args), AggregateCall("count")]
    return [call]


def _factors(e: Scalar) -> list[Column] | None:
    """The columns whose product an expression is."""
    if isinstance(e, Column):
        return [e]
    if isinstance(e, Call) and e.function == "*":
        found: list[Column] = []
        for a in e.args:
            inner = _factors(a)
            if inner is None:
                return None
            found += inner
        return found
    return None


def _has_nan(values: Array) -> bool:
    """Without an array of tests: the least is nan where one is."""
    return values.dtype.kind == "f" and bool(values.size) and bool(np.isnan(values.min()))


def _product(values: list[Expr]) -> Expr:
    found = values[0]
    for v in values[1:]:
        found = IrCall(ops.multiply, (found, v))
    return found


def _column(type_: Type, call: AggregateCall, arrays: list[Array], there: bool) -> Vector:
    if call.function == "count":
        return Vector(Type.INTEGER, arrays[0].astype(np.int64))
    values = arrays[0]
    if call.function == "avg":
        values = values / np.maximum(arrays[1], 1)
    if type_ is Type.INTEGER:
        values = values.astype(np.int64) if there else np.zeros(1, np.int64)
    elif type_ is Type.FLOAT:
        values = values.astype(np.float32)
    return Vector(type_, values, None if there else np.zeros(1, bool))
