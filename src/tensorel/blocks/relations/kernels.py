"""Kernels: functions of blocks that operations of relations are given.

A kernel computes with stored blocks. It may know more of its result than that: the shape and dtype
before it runs (``Outline``), and that an operand of which nothing is stored decides the result,
whatever the others are: such blocks are never computed. Whoever makes a kernel says what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorel.algebra.ops import DType, Operator
from tensorel.base.records import dataclass
from tensorel.blocks.relations.tiles import Shape
from tensorel.storage.stored import Stored


@dataclass(frozen=True, eq=False, slots=True)
class Outline:
    """What is known of a block without its entries; ``constant``: the value of all of them, None
    where entries are stored."""

    shape: Shape
    dtype: DType
    constant: np.generic | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """``run``: stored blocks in, a stored block out. ``outline``: what is known of the result, from
    what is known of the operands; None if nothing is. ``operator``: the operator that works entry
    by entry in blocks of these shapes and dtypes, if it is one. ``unread`` is told of blocks that
    are not read where absent ones decide the result."""

    name: str
    arity: int
    run: Callable[..., Stored]
    outline: Callable[..., Outline | None]
    operator: Callable[..., Operator | None] = lambda *outlines: None
    unread: Callable[[Sequence[Stored]], None] = lambda blocks: None
