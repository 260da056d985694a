"""Columns of matrices: numbers of blocks, and kernels on these. Work is per block, never per
entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tensorel.engines.rows.vectors import Array, Vector
from tensorel.sql.algebra import AggregateCall
from tensorel.sql.scalars import Call, Column, Literal, Scalar
from tensorel.sql.types import Type


class Blocks(Protocol):
    """The blocks of one query by their numbers."""

    def call(self, kernel: str, args: Sequence[object]) -> object:
        """The block that a kernel makes of blocks and numbers."""

    def add(self, block: object) -> int:
        """The number of a block."""

    def get(self, number: int) -> object: ...


def is_matrix_sum(call: AggregateCall) -> bool:
    return call.function == "sum" and bool(call.args) and call.args[0].type is Type.MATRIX


def leaves_of(e: Scalar) -> list[Scalar]:
    """What the matrix expression is made of: columns of matrices, and scalars."""
    if isinstance(e, Call) and e.type is Type.MATRIX and e.function.startswith("matrix "):
        return list(dict.fromkeys(x for a in e.args for x in leaves_of(a)))
    return [] if isinstance(e, Literal) else [e]


def called(blocks: Blocks, call: Call, vectors: Sequence[Vector]) -> Vector:
    """A kernel of each row; equal arguments share a block."""
    leaves = [a for a in call.args if not isinstance(a, Literal)]
    rows = len(vectors[0]) if vectors else 0
    columns = [v.values.tolist() for v in vectors]
    known: dict[tuple[object, ...], int] = {}
    numbers = np.empty(rows, np.int64)
    for k, key in enumerate(zip(*columns)):
        if key not in known:
            given: dict[Scalar, object] = dict(zip(leaves, key))
            known[key] = blocks.add(_value(blocks, call, given))
        numbers[k] = known[key]
    return Vector(Type.MATRIX, numbers)


def summed(blocks: Blocks, e: Scalar, ids: Array, leaves: Sequence[Scalar],
           vectors: Sequence[Vector], count: int) -> Vector:
    """The sum of an expression over the rows of each group, term after term."""
    totals: dict[int, object] = {}
    columns = [v.values.tolist() for v in vectors]
    for group, *values in zip(ids.tolist(), *columns):
        term = _value(blocks, e, dict(zip(leaves, values)))
        before = totals.get(group)
        totals[group] = term if before is None else blocks.call("add", [before, term])
    numbers = np.zeros(count, np.int64)
    there = np.zeros(count, bool)
    for group, block in totals.items():
        numbers[group], there[group] = blocks.add(block), True
    return Vector(Type.MATRIX, numbers, None if there.all() else there)


def _value(blocks: Blocks, e: Scalar, given: dict[Scalar, object]) -> object:
    if isinstance(e, Literal):
        return e.value
    if e in given:
        found = given[e]
        return blocks.get(int(found)) if e.type is Type.MATRIX else found  # type: ignore[call-overload]
    assert isinstance(e, Call) and not isinstance(e, Column)
    return blocks.call(e.function.removeprefix("matrix "), [
        _value(blocks, a, given) for a in e.args])
