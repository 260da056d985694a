"""Random programs from a seeded NumPy generator: leaves, then steps that fit the values so far.

NumPy runs along, so that each operator sees operands for which its result is finite and (for
operators that jump, such as floor or <) exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DTYPES, DType
from tensorel.errors import TensorelError
from tensorel.records import dataclass
from tensorel.storage import registry
from tensorel.testing.own_storages import own_formats
from tensorel.testing.programs import Leaf, Program, Step, evaluate_step, watched

Array = npt.NDArray[Any]
Rng = np.random.Generator

#: Entries of an intermediate value at most.
LARGEST = 3000
DIMS = (0, 1, 2, 3, 5)


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
    """A step before it has a name; ``exact`` says whether the operator keeps exactness."""

    template: str
    args: tuple[Value, ...]
    exact: bool = True


class Pool:
    """The values that the next step may use, with the random choices."""

    def __init__(self, rng: Rng, values: Sequence[Value]) -> None:
        self.rng = rng
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

    def some(self, good: Callable[[Value], bool]) -> Value | None:
        """A value with a property, or None."""
        found = [v for v in self.values if good(v)]
        return self._pick(found) if found else None

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
                return int(np.prod(np.broadcast_shapes(v.shape, other.shape))) <= LARGEST
            except ValueError:
                return False

        return self.other(fits)


def is_exact(array: Array) -> bool:
    """Whole numbers small enough that sums of products of three of them do not round."""
    if array.dtype.kind not in "fc":
        return True
    limit = 32 if array.dtype in (np.float32, np.complex64) else 2**12
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return all(bool((np.rint(p) == p).all() and (np.abs(p) <= limit).all()) for p in parts)


# -- leaves ----------------------------------------------------------------------------------
_DENSITY_SHARES = (0.05, 0.15, 0.25, 0.25, 0.15, 0.15)
_USUAL = ("float64", "float64", "float64", "float32", "int64", "int32", "bool", "complex128")


def random_leaf(rng: Rng, name: str, dims: Sequence[int] = DIMS) -> Leaf:
    """A small tensor of any rank, dtype, density, fill and format; extents are mostly ``dims``."""
    rank = int(rng.choice(5, p=[0.06, 0.24, 0.4, 0.2, 0.1]))
    usual = dims if rng.random() < 0.9 else DIMS
    shape = tuple(int(rng.choice(usual)) for _ in range(rank))
    dtype = np.dtype(rng.choice(_USUAL)) if rng.random() < 0.5 else DTYPES[rng.integers(13)]
    fill = 0 if rng.random() < 0.8 else _random_fill(rng, dtype)
    array = np.full(shape, fill, dtype)
    density = float(rng.choice([0.0, 0.1, 0.3, 0.5, 0.8, 1.0], p=_DENSITY_SHARES))
    mask = rng.random(shape) < density
    array[mask] = random_values(rng, dtype, int(mask.sum()))
    format, array = _random_format(rng, array, fill)
    return Leaf(name, array, format, fill)


def _random_fill(rng: Rng, dtype: DType) -> object:
    if dtype.kind == "b":
        return True
    if dtype.kind in "fc" and rng.random() < 0.04:
        return float(rng.choice([np.nan, np.inf, -np.inf]))
    choices = [1, 2, 5] if dtype.kind == "u" else [1, 2, -1, -3]
    return int(rng.choice(choices))


def random_values(rng: Rng, dtype: DType, count: int) -> Array:
    """Small whole numbers in any dtype."""
    if dtype.kind == "b":
        return rng.random(count) < 0.7
    low = 0 if dtype.kind == "u" else -4
    values = rng.integers(low, 5, count)
    if dtype.kind == "c":
        return (values + 1j * rng.integers(-2, 3, count)).astype(dtype)
    if dtype.kind == "f" and rng.random() < 0.15:
        return (values / 2).astype(dtype)
    return values.astype(dtype)


def _random_format(rng: Rng, array: Array, fill: object) -> tuple[str | None, Array]:
    """A format for the array, and the array changed to fit it (triangular, symmetric)."""
    if rng.random() < 0.1:
        return None, array
    names = [*registry.names(), "csf", "coo", "csr", "dense"]
    rank = array.ndim
    if rank >= 2:
        cut = int(rng.integers(0, rank + 1))
        axes = [str(k) for k in rng.permutation(rank)] if rng.random() < 0.3 else [
            str(k) for k in range(rank)
        ]
        names += [",".join(axes[:cut]) + ";" + ",".join(axes[cut:])]
        names += [";".join(map(",".join, (axes[: cut - 1], axes[cut - 1 : -1], axes[-1:])))] * (
            0 < cut < rank)
        names += [f"csf({','.join(str(k) for k in rng.permutation(rank))})"]
    if rank == 2:
        names += [f"bsr({rng.integers(1, 4)},{rng.integers(1, 4)})"]
    names += own_formats(rank, rng)
    for _ in range(8):
        name = str(rng.choice(names))
        try:
            registry.resolve(name, array.shape, array.dtype)
        except TensorelError:
            continue
        if name == "bitmap" and (array.dtype.kind != "b" or fill):
            continue
        return name, _fitted(name, array, fill)
    return "coo", array


def _fitted(name: str, array: Array, fill: object) -> Array:
    if array.ndim != 2:
        return array
    empty = np.full(array.shape, fill, array.dtype)
    lower = np.tri(*array.shape) > 0
    if name == "tril":
        return np.where(lower, array, empty)
    if name == "triu":
        return np.where(lower.T if array.shape[0] == array.shape[1] else ~lower, array, empty)
    if name == "symmetric":
        return np.where(lower, array, array.T)
    return array


# -- programs --------------------------------------------------------------------------------
Builder = Callable[[Pool], Draft | None]


def random_program(
    rng: Rng, builders: Sequence[tuple[float, Builder]], *, tensors: int = 5, operators: int = 8
) -> Program:
    """A program of at most so many tensors and operators."""
    count = min(int(rng.choice([1, 2, 3, 4, 5], p=[0.15, 0.25, 0.25, 0.2, 0.15])), tensors)
    distinct = int(rng.integers(1, 3))
    dims = [int(d) for d in rng.choice(DIMS, distinct, p=[0.02, 0.08, 0.3, 0.3, 0.3])]
    leaves = [random_leaf(rng, "ABCDEFGH"[k], dims) for k in range(count)]
    pool = Pool(rng, [Value(leaf.name, leaf.array, is_exact(leaf.array)) for leaf in leaves])
    steps: list[Step] = []
    weights = np.array([w for w, _ in builders], dtype=float)
    weights /= weights.sum()
    wanted = min(1 + int(rng.integers(1, operators + 1)), operators)
    names = (f"t{n}" for n in itertools.count(1))
    with watched():
        for _ in range(wanted * 8):
            if len(steps) == wanted:
                break
            step = _random_step(pool, builders[int(rng.choice(len(builders), p=weights))][1], names)
            if step is not None:
                steps.append(step)
    return _finished(rng, Program(tuple(leaves), tuple(steps)), pool)


def _random_step(pool: Pool, builder: Builder, names: Any) -> Step | None:
    try:
        draft = builder(pool)
        if draft is None:
            return None
        step = Step("new", draft.template, tuple(a.name for a in draft.args))
        array = evaluate_step(step, {v.name: v.array for v in draft.args})
    except (ValueError, TypeError, IndexError, OverflowError):
        return None  # NumPy refuses these operands
    if array.size > LARGEST or array.ndim > 6 or array.dtype not in DTYPES:
        return None
    finite = bool(np.isfinite(array).all())
    if not finite and not pool.chance(0.15):
        return None
    step = Step(next(names), step.template, step.args)
    exact = draft.exact and all(a.exact for a in draft.args) and finite and is_exact(array)
    pool.values.append(Value(step.name, array, exact))
    pool.used.update(step.args)
    return step


def _finished(rng: Rng, program: Program, pool: Pool) -> Program:
    """The largest part of the program that gives one result, with settings."""
    cuts = [program.cut(k) for k in range(1, len(program.steps) + 1)]
    largest = max(cuts, key=lambda p: len(p.steps), default=program.pruned())
    settings: dict[str, object] = {}
    if rng.random() < 0.25:
        settings["optimize"] = False
    if rng.random() < 0.25:
        settings["threads"] = int(rng.integers(1, 4))
    format = None
    if rng.random() < 0.4 and largest.steps:
        result = next(v for v in pool.values if v.name == largest.root)
        format = _result_format(rng, result.array)
    return replace(largest, settings=settings, format=format)


def _result_format(rng: Rng, result: Array) -> str | None:
    """A format that any tensor of this shape fits in."""
    picky = {"tril", "triu", "symmetric", "bitmap"}
    names = [n for n in registry.names() if n not in picky] + own_formats(result.ndim, rng)
    name = str(rng.choice(names))
    try:
        registry.resolve(name, result.shape, result.dtype)
    except TensorelError:
        return None
    return name
