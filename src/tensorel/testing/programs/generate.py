"""Random programs from a seeded NumPy generator: leaves, then steps that fit the values so far.

NumPy runs along, so that each operator sees operands for which its result is finite and (for
operators that jump, such as floor or <) exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DTYPES
from tensorel.base.records import dataclass
from tensorel.testing.programs.histories import random_history, random_results, random_settings
from tensorel.testing.programs.leaves import random_leaf, result_format
from tensorel.testing.programs.program import Program, Step, is_exact, watched
from tensorel.testing.programs.sizes import SMALL, Size

Array = npt.NDArray[Any]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Value:
    """A name with its dense value. exact: whole numbers so small that no order of summation
    rounds, hence comparisons and floors of it cannot differ."""

    name: str
    array: Array
    exact: bool

    @property
    def kind(self) -> str:
        return self.array.dtype.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def within(self, low: float, high: float) -> bool:
        """Real, with all entries in [low, high]."""
        if self.kind == "c":
            return bool((np.abs(self.array) <= min(-low, high)).all())
        return bool(((self.array >= low) & (self.array <= high)).all())

    def away(self, least: float) -> bool:
        """All magnitudes at least ``least``."""
        return bool((np.abs(self.array.astype(complex)) >= least).all())


@dataclass(frozen=True)
class Draft:
    """A step before it has a name; what the fields mean, ``Step`` says. moves: it is linear, or
    moves entries, so that its template is its measure, too."""

    template: str
    args: tuple[Value, ...]
    exact: bool = True
    moves: bool = False
    measure: str | None = None
    dense: str | None = None
    settled: bool = False
    safe: bool = False

    def step(self, name: str) -> Step:
        measure = self.measure or ((self.dense or self.template) if self.moves else None)
        return Step(name, self.template, tuple(a.name for a in self.args), self.dense, measure,
                    self.exact, self.settled, self.safe)


class NoValue(Exception):
    """No value fits the step that was to be made."""


class Pool:
    """The values that the next step may use, with the random choices."""

    def __init__(self, rng: Rng, values: Sequence[Value], size: Size = SMALL) -> None:
        self.rng, self.size = rng, size
        self.values = list(values)
        self.used: set[str] = set()

    def one(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def whole(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def value(self) -> Value:
        """A value, mostly the newest."""
        return self._pick(self.values)

    def some(self, good: Callable[[Value], bool]) -> Value:
        """A value with a property; NoValue where there is none."""
        found = [v for v in self.values if good(v)]
        if not found:
            raise NoValue
        return self._pick(found)

    def other(self, good: Callable[[Value], bool]) -> Value | None:
        """A value with a property to go with the first operand: one not used yet, if possible."""
        found = [v for v in self.values if good(v)]
        fresh = [v for v in found if v.name not in self.used]
        found = fresh if fresh and self.chance(0.7) else found
        return found[int(self.rng.integers(len(found)))] if found else None

    def _pick(self, values: Sequence[Value]) -> Value:
        if self.chance(0.65):
            return values[-1]
        return values[int(self.rng.integers(len(values)))]

    def axis(self, v: Value) -> int:
        return self.whole(-v.ndim, v.ndim - 1)

    def partner(self, v: Value) -> Value | None:
        """A value that broadcasts with ``v``."""

        def fits(other: Value) -> bool:
            try:
                return int(np.prod(np.broadcast_shapes(v.shape, other.shape))) <= self.size.largest
            except ValueError:
                return False

        return self.other(fits)


# -- programs --------------------------------------------------------------------------------
Builder = Callable[[Pool], Draft | None]


def random_program(
    rng: Rng, builders: Sequence[tuple[float, Builder]], *, size: Size = SMALL,
    tensors: int | None = None, operators: int | None = None,
) -> Program:
    """A program of at most so many tensors and operators."""
    most, longest = tensors or size.tensors, operators or size.operators
    count = min(int(rng.choice([1, 2, 3, 4, 5], p=[0.15, 0.25, 0.25, 0.2, 0.15])), most)
    dims = size.program_dims(rng)
    leaves = [random_leaf(rng, "ABCDEFGH"[k], dims, size) for k in range(count)]
    pool = Pool(rng, [Value(leaf.name, leaf.array, is_exact(leaf.array)) for leaf in leaves], size)
    steps: list[Step] = []
    weights = np.array([w for w, _ in builders], dtype=float)
    weights /= weights.sum()
    wanted = min(1 + int(rng.integers(1, longest + 1)), longest)
    names = (f"t{n}" for n in itertools.count(1))
    with watched():
        for _ in range(wanted * 8):
            if len(steps) == wanted:
                break
            step = random_step(pool, builders[int(rng.choice(len(builders), p=weights))][1], names)
            if step is not None:
                steps.append(step)
    return _finished(pool, Program(tuple(leaves), tuple(steps)))


def random_step(pool: Pool, builder: Builder, names: Iterator[str]) -> Step | None:
    """A step that NumPy takes, its value put into the pool."""
    try:
        draft = builder(pool)
        if draft is None:
            return None
        array = draft.step("new").on({v.name: v.array for v in draft.args})
    except (NoValue, ValueError, TypeError, IndexError, OverflowError):
        return None  # there are none, or NumPy refuses these operands
    if array.size > pool.size.largest or array.ndim > 6 or array.dtype not in DTYPES:
        return None
    finite = bool(np.isfinite(array).all())
    if not finite and not pool.chance(0.15 if pool.size.is_small else 0.05):
        return None
    step = draft.step(next(names))
    exact = draft.exact and all(a.exact for a in draft.args) and finite and is_exact(array)
    pool.values.append(Value(step.name, array, exact))
    pool.used.update(step.args)
    return step


def _finished(pool: Pool, program: Program) -> Program:
    """The largest part of the program that gives one result, with settings and a history."""
    rng = pool.rng
    cuts = [program.cut(k) for k in range(1, len(program.steps) + 1)]
    largest = max(cuts, key=lambda p: len(p.steps), default=program.pruned())
    settings = random_settings(rng)
    format = None
    if rng.random() < 0.4 and largest.steps:
        result = next(v for v in pool.values if v.name == largest.root)
        format = result_format(rng, result.array, pool.size)
    whole = replace(largest, settings=settings, format=format, also=random_results(rng, largest))
    return replace(whole, history=random_history(rng, whole, pool.size))
