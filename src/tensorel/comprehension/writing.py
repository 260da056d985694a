"""One cell of a tensor from each choice: what is checked, and what is asked of data for it.

Two choices never write one cell, and no key is outside of the shape without a warning. Where that
cannot be seen in the program, the data are asked when it is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorel.algebra import bulk, ops
from tensorel.errors import ExtentWarning, ValueError_
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, compare
from tensorel.ir.ranges import Range, is_affine
from tensorel.language.builder import Builder
from tensorel.language.choices import (
    Choices,
    at_keys,
    combined,
    counted,
    exists,
    is_one_to_one,
    reduced,
    semiring,
    terms_of,
)
from tensorel.language.scalars import call

_CLASH = ("combine them: group by the key and aggregate (+/v, max/v, ...), or take last/v")


class Answers(Protocol):
    """What is found out of data while a program is built."""

    def value(self, tensor: ir.Tensor) -> npt.NDArray[Any]:
        """The entries of a small tensor, computed."""

    def largest(self, tensor: ir.Tensor) -> tuple[int, tuple[int, ...]]:
        """The largest entry of a tensor of whole numbers that are not negative, and its place."""

    def codes(self, tensor: ir.Tensor, there: ir.Tensor) -> tuple[ir.Tensor, ir.Tensor]:
        """The different values of a tensor where it is there, sorted, and for each place which of
        them it has."""


class Writer:
    """Makes tensors of choices. ``answers``: of the data that programs run over."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def written(self, build: Builder, choices: Choices, keys: Sequence[ir.Expr], value: ir.Expr,
                shape: Sequence[int] | None, at: int) -> ir.Tensor:
        """The tensor with the value at the keys of each choice, zero elsewhere."""
        if shape is None:
            shape = [self._extent(build, choices, k, at) for k in keys]
        else:
            self._warn_outside(build, choices, keys, shape)
        whole = _counted_through(build, choices, keys, value, shape)
        if whole is not None:
            return ir.Bulk(bulk.reshape, (whole,), (tuple(shape),))
        places = [build.indices.fresh(0, n - 1) for n in shape]
        here = at_keys(choices, keys, places)
        terms = terms_of(build, here, value, 0)
        if 0 not in shape and not is_one_to_one(build, terms) and not is_one_to_one(
                build, terms_of(build, here, value, 0, scatters=False)):
            count = build.formula(places, counted(build, here))
            most, where = self.answers.largest(count)
            if most > 1:
                cell = ", ".join(map(str, where))
                raise ValueError_(f"comprehension: {most} choices write the cell [{cell}]",
                                  hint=_CLASH)
        kind = semiring(ops.logical_or if value.dtype == ir.BOOL else ops.add, value.dtype)
        return build.formula(places, combined(build, terms, kind, value.dtype))

    def _extent(self, build: Builder, choices: Choices, key: ir.Expr, at: int) -> int:
        found = build.indices.range_of(key)
        if found is None:
            found = self.hull(build, choices, key)
        if found[0] < 0:
            build.fail(f"keys may be negative, from {found[0]} to {found[1]}", at,
                       "say the shape; keys outside of it are left out")
        return found[1] + 1

    def _warn_outside(self, build: Builder, choices: Choices, keys: Sequence[ir.Expr],
                      shape: Sequence[int]) -> None:
        for axis, (key, n) in enumerate(zip(keys, shape)):
            known = build.indices.range_of(key, choices.guards)
            if known is not None and (known[1] < known[0] or (known[0] >= 0 and known[1] < n)):
                continue
            out = call(ops.logical_or, compare(ops.less, key, 0), compare(ops.less_equal, n, key))
            found = exists(build, choices.tested(out))
            if bool(self._scalar(build, found)):
                warnings.warn(f"comprehension: keys of axis {axis} outside of its extent {n} are "
                              "left out", ExtentWarning, stacklevel=2)

    def hull(self, build: Builder, choices: Choices, key: ir.Expr) -> Range:
        """Bounds of a key by the data."""
        low = int(self._scalar(build, reduced(build, choices, ops.minimum, key)))
        high = int(self._scalar(build, reduced(build, choices, ops.maximum, key)))
        return (low, high) if low <= high else (0, -1)

    def _scalar(self, build: Builder, e: ir.Expr) -> Any:
        if isinstance(e, ir.Const):
            return e.value
        if e.free:
            names = sorted(e.free)  # of choices around: in any of them
            places = [build.indices.fresh(*build.indices.bounds[n]) for n in names]
            moved = build.moved(e, dict(zip(names, places)))
            entries = self.answers.value(build.formula(places, moved))
            if e.dtype == ir.BOOL:
                return entries.any() if entries.size else np.False_
            return entries.max() if entries.size else entries.dtype.type(0)
        return self.answers.value(build.formula([], e))[()]

    def coded(self, build: Builder, choices: Choices, key: ir.Expr, at: int
              ) -> tuple[ir.Tensor, ir.Expr]:
        """The different values of a key of reals, and which of them a choice has."""
        free = key.free - set(choices.over)
        if free:
            build.fail("a group key of reals cannot depend on generators around", at,
                       "int(x) makes a whole number")
        names = [n for n in choices.over if n in key.free]
        if not names:
            return build.formula([build.indices.fresh(0, 0)], key), as_expr(0)
        places = [build.indices.fresh(*build.indices.bounds[n]) for n in names]
        by = dict(zip(names, places))
        moved = choices.moved(by)
        there = exists(build, Choices(
            tuple([n for n in choices.over if n not in by]), moved.guards, moved.conditions))
        values, which = self.answers.codes(
            build.formula(places, build.moved(key, by)), build.formula(places, there))
        at_keys_ = tuple([call(ops.subtract, ir.Index(n), as_expr(build.indices.bounds[n][0]))
                          for n in names])
        code = ir.Read(which, at_keys_)
        build.indices.facts[code] = 0, max(values.shape[0] - 1, 0)
        return values, code


def _counted_through(build: Builder, choices: Choices, keys: Sequence[ir.Expr], value: ir.Expr,
                     shape: Sequence[int]) -> ir.Tensor | None:
    """The tensor that is read, if the keys count through all of its cells in their order: each key
    is made of the next axes as a number is of its digits, and reaches every place once. Then the
    result is another shape of it."""
    if not isinstance(value, ir.Read) or value.tensor.shape == tuple(shape) or 0 in shape or \
            choices.guards or choices.needed(value, 0):
        return None
    found: list[ir.Expr] = []
    for key, n in zip(keys, shape):
        form = is_affine(key)
        if form is None or form.constant or any(c <= 0 for c in form.coefficients.values()):
            return None
        digits = sorted(form.coefficients.items(), key=lambda d: d[1])
        below = 1
        for name, c in digits:
            low, high = build.indices.bounds[name]
            if c != below or low != 0:
                return None
            below *= high + 1
        if below != n:
            return None
        found += [ir.Index(name) for name, _ in reversed(digits)]
    names = [e.name for e in found if isinstance(e, ir.Index)]
    same = tuple(found) == value.indices and sorted(names) == sorted(choices.over)
    extents = tuple([build.indices.bounds[n][1] + 1 for n in names])
    return value.tensor if same and extents == value.tensor.shape else None
