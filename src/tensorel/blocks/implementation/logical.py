"""Tensor relational algebra without sites: what a plan is asked to compute."""

from __future__ import annotations

from tensorel.base.records import dataclass
from tensorel.blocks.implementation.functions import Dims, Kernel, KeyMap, Predicate
from tensorel.blocks.implementation.nodes import Input


@dataclass(frozen=True)
class Join:
    """The kernel over all pairs of tuples that agree in the join keys."""

    left: Expr
    right: Expr
    left_keys: Dims
    right_keys: Dims
    kernel: Kernel


@dataclass(frozen=True)
class Aggregate:
    """The blocks that agree in the group keys, combined."""

    child: Expr
    group: Dims
    kernel: Kernel


@dataclass(frozen=True)
class Rekey:
    """Other keys for the same blocks."""

    child: Expr
    keys: KeyMap


@dataclass(frozen=True)
class Filter:
    """The tuples whose keys hold a condition."""

    child: Expr
    where: Predicate


@dataclass(frozen=True)
class Transform:
    """Other blocks for the same keys."""

    child: Expr
    kernel: Kernel


@dataclass(frozen=True)
class Tile:
    """Each block cut along an axis into tiles of a size, numbered in a new last key dimension."""

    child: Expr
    axis: int
    size: int


@dataclass(frozen=True)
class Stack:
    """The blocks along a key dimension, one behind the other along an axis."""

    child: Expr
    dim: int
    axis: int


Expr = Input | Join | Aggregate | Rekey | Filter | Transform | Tile | Stack
