"""Hypothesis strategies for tensors and programs.

Programs are drawn by a seed and shrunk by ``testing.programs.shrink``; for long runs use the plain
generator (``testing.programs.fuzzing``), which is many times faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tensorel.algebra.ops import DTYPES, DType
from tensorel.storage import registry
from tensorel.testing.programs.data import random_values
from tensorel.testing.programs.fuzzing import sample_program
from tensorel.testing.programs.leaves import random_leaf, takes
from tensorel.testing.programs.program import Leaf, Program
from tensorel.testing.programs.sizes import DIMS


def dtypes() -> st.SearchStrategy[DType]:
    """Every dtype that tensors have."""
    return st.sampled_from(DTYPES)


def shapes(max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes, with extents 0 and 1."""
    return st.lists(st.sampled_from(DIMS), max_size=max_rank).map(tuple)


@st.composite
def arrays(draw: st.DrawFn, fill: Any = 0) -> npt.NDArray[Any]:
    """Arrays of small whole numbers, mostly ``fill``."""
    shape, dtype = draw(shapes()), draw(dtypes())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    array = np.full(shape, fill, dtype)
    mask = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))
    array[mask] = random_values(rng, dtype, int(mask.sum()))
    return array


@st.composite
def leaves(draw: st.DrawFn, format: str | None = None) -> Leaf:
    """Stored tensors in any format, or in the one given."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    leaf = random_leaf(rng, "A")
    if format is None:
        return leaf
    return Leaf(leaf.name, leaf.array, format, leaf.fill)


def formats(shape: tuple[int, ...], dtype: DType) -> st.SearchStrategy[str]:
    """Names of the formats that take tensors of a shape and dtype."""
    return st.sampled_from([n for n in registry.names() if takes(n, shape, dtype)])


def programs(tensors: int = 5, operators: int = 8) -> st.SearchStrategy[Program]:
    """Random programs."""
    return st.integers(0, 2**32 - 1).map(
        lambda seed: sample_program(seed, tensors=tensors, operators=operators)
    )
