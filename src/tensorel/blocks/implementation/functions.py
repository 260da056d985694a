"""What operators are given: kernels, key maps and predicates, with what rules ask of them.

Functions are compared by identity. What is made of other functions is made once, so that a plan
that rules reach in two ways is one plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from tensorel.base.records import dataclass
from tensorel.errors import ShapeError

Shape = tuple[int, ...]
Key = tuple[int, ...]
Dims = tuple[int, ...]
Array = np.ndarray[Any, Any]


def _same(*shapes: Shape) -> Shape:
    return shapes[0]


def _entries(*shapes: Shape) -> float:
    return float(math.prod(shapes[0]))


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function of blocks.

    shape, flops: the result's shape, and the work of one call, from the shapes of the arguments
    monoid: associative and commutative, so blocks may be combined in any order and in parts
    identity: the entry that changes nothing when it is combined, None: there is none
    distributes_over: the kernels m with f(m(x, y), ..) = m(f(x, ..), f(y, ..)), in each argument
    keyed: also takes the key of its result, ``run(key, block)``
    stacks: lays blocks one behind the other along this axis, in the order of keys
    """

    name: str
    run: Callable[..., Array]
    shape: Callable[..., Shape] = _same
    flops: Callable[..., float] = _entries
    monoid: bool = False
    identity: object = None
    distributes_over: tuple[Kernel, ...] = ()
    keyed: bool = False
    stacks: int | None = None

    def __repr__(self) -> str:
        return self.name


def _nothing(*shapes: Shape) -> float:
    return 0.0


def _product_shape(left: Shape, right: Shape) -> Shape:
    if left[-1] != right[0]:
        raise ShapeError(f"blocks of shapes {left} and {right} cannot be multiplied")
    return left[:-1] + right[1:]


def _product_flops(left: Shape, right: Shape) -> float:
    return 2.0 * math.prod(left) * math.prod(right[1:])


#: The kernel that gives the block itself: no work, and copies of a block stay one block.
KEEP = Kernel("keep", lambda block: block, flops=_nothing)
ADD = Kernel("add", np.add, monoid=True, identity=0.0)
MAXIMUM = Kernel("maximum", np.maximum, monoid=True, identity=-math.inf)
MULTIPLY = Kernel("multiply", np.multiply, monoid=True, identity=1.0, distributes_over=(ADD,))
MATMUL = Kernel("matmul", np.matmul, _product_shape, _product_flops, distributes_over=(ADD,))
TRANSPOSE = Kernel("transpose", np.transpose, lambda block: block[::-1],
                   distributes_over=(ADD, MAXIMUM, MULTIPLY))


@cache
def stack(axis: int) -> Kernel:
    """One block behind the other along an axis: no monoid, for the order of keys counts."""
    return Kernel(f"stack{axis}", lambda a, b: np.concatenate((a, b), axis), stacks=axis)


@cache
def tile(axis: int, size: int) -> Kernel:
    """The part of a block that the last number of its key says: ``size`` entries of an axis."""

    def run(key: Key, block: Array) -> Array:
        at = (slice(None),) * axis + (slice(key[-1] * size, (key[-1] + 1) * size),)
        return block[at]

    return Kernel(f"tile{axis}", run, lambda b: b[:axis] + (size,) + b[axis + 1 :], _nothing,
                  keyed=True)


@cache
def after(outer: Kernel, inner: Kernel) -> Kernel:
    """outer(inner(...)); the inner kernel may not need a key, which nobody would give it."""
    if KEEP in (outer, inner):
        return inner if outer is KEEP else outer

    def run(*args: Any) -> Array:
        key = args[:1] if outer.keyed else ()
        return outer.run(*key, inner.run(*args[len(key) :]))

    return Kernel(
        f"{outer.name}.{inner.name}", run, lambda *s: outer.shape(inner.shape(*s)),
        lambda *s: inner.flops(*s) + outer.flops(inner.shape(*s)), keyed=outer.keyed,
        distributes_over=tuple(m for m in inner.distributes_over if m in outer.distributes_over))


@dataclass(frozen=True, eq=False)
class KeyMap:
    """A function from a key to one key or several.

    Different keys have no key in common among their images, or the result would not be a tensor
    relation; a map that merges keys is right after a filter that keeps one of each.

    keeps: for each dimension of the result the one that it is taken from, None: new or computed
    new: the dimensions of the result along which each tuple is repeated
    """

    name: str
    keeps: tuple[int | None, ...]
    extents: Callable[[Shape], Shape]
    keys: Callable[[Key], Iterable[Key]]
    new: Dims = ()

    @property
    def is_identity(self) -> bool:
        """Whether keys stay as they are."""
        return self.name == "same"

    def __repr__(self) -> str:
        return self.name


@cache
def same_key(arity: int) -> KeyMap:
    """The identity."""
    return KeyMap("same", tuple(range(arity)), lambda e: e, lambda key: (key,))


@cache
def select(*dims: int) -> KeyMap:
    """The named dimensions in this order: a permutation, or a projection after a filter."""
    def pick(key: Key) -> Key:
        return tuple(key[d] for d in dims)

    return KeyMap(f"select{dims}", dims, pick, lambda key: (pick(key),))


@cache
def insert(arity: int, at: int, count: int) -> KeyMap:
    """``count`` tuples of each, numbered in a new dimension before dimension ``at``."""
    keeps = (*range(at), None, *range(at, arity))
    return KeyMap(f"insert{at}x{count}", keeps, lambda e: (*e[:at], count, *e[at:]),
                  lambda key: ((*key[:at], n, *key[at:]) for n in range(count)), (at,))


def computed(name: str, function: Callable[[Key], Key], extents: Shape) -> KeyMap:
    """Any one-to-one function of the whole key, with the extents of its results."""
    return KeyMap(name, (None,) * len(extents), lambda e: extents, lambda key: (function(key),))


@cache
def chained(outer: KeyMap, inner: KeyMap) -> KeyMap:
    """First the inner map, then the outer one."""
    if inner.is_identity or outer.is_identity:
        return outer if inner.is_identity else inner
    keeps = tuple(None if d is None else inner.keeps[d] for d in outer.keeps)
    new = outer.new + tuple(i for i, d in enumerate(outer.keeps) if d in inner.new)
    return KeyMap(f"{outer.name}.{inner.name}", keeps, lambda e: outer.extents(inner.extents(e)),
                  lambda key: (k for middle in inner.keys(key) for k in outer.keys(middle)), new)


@dataclass(frozen=True, eq=False)
class Predicate:
    """A condition on some dimensions of a key; ``holds`` takes these, as integers or as arrays."""

    name: str
    dims: Dims
    holds: Callable[..., Any]

    def __repr__(self) -> str:
        return f"{self.name}{self.dims}"

    def share(self, extents: Shape) -> float:
        """The part of all keys that it keeps; 1.0 where there are too many to be counted."""
        read = [extents[d] for d in self.dims]
        if not 0 < math.prod(read) <= 1 << 20:
            return 1.0
        grid = np.broadcast_to(self.holds(*np.indices(read, sparse=True)), read)
        return float(np.count_nonzero(grid)) / grid.size


@cache
def both(first: Predicate, second: Predicate) -> Predicate:
    """The conjunction."""
    dims = first.dims + second.dims
    cut = len(first.dims)
    return Predicate(f"{first.name}&{second.name}", dims,
                     lambda *key: first.holds(*key[:cut]) & second.holds(*key[cut:]))


@cache
def renumbered(condition: Predicate, dims: Dims) -> Predicate:
    """The same condition where the dimensions that it reads have other numbers."""
    return Predicate(condition.name, dims, condition.holds)
