"""How large the data of random programs are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorel.algebra.ops import DTYPES, DType
from tensorel.base.records import dataclass
from tensorel.testing.programs.data import PATTERNS

Rng = np.random.Generator
#: Extents of small tensors.
DIMS = (0, 1, 2, 3, 5)
_SHRUNK_EXTENTS = (1, 2, 3, 7, 16, 40)
_USUAL = ("float64", "float64", "float64", "float32", "int64", "int32", "bool", "complex128")


@dataclass(frozen=True)
class Size:
    """largest: cells of a value at most; work: of a product, at most; extents: of long axes;
    entries: of a tensor, at most; line: extent of a vector, at most; count: programs of a run."""

    name: str
    largest: int
    work: int
    extents: tuple[int, int]
    entries: int
    line: int
    tensors: int
    operators: int
    events: int
    count: int

    @property
    def is_small(self) -> bool:
        return self.name == "small"

    def program_dims(self, rng: Rng) -> list[int]:
        """The extents that most tensors of a program have: they fit together."""
        if self.is_small:
            distinct = int(rng.integers(1, 3))
            return [int(d) for d in rng.choice(DIMS, distinct, p=[0.02, 0.08, 0.3, 0.3, 0.3])]
        low, high = (math.log(e) for e in self.extents)
        return [int(math.exp(rng.uniform(low, high))) for _ in range(2)]

    def leaf_shape(self, rng: Rng, dims: Sequence[int]) -> tuple[int, ...]:
        if self.is_small:
            rank = int(rng.choice(5, p=[0.06, 0.24, 0.4, 0.2, 0.1]))
            usual = dims if rng.random() < 0.9 else DIMS
            return tuple(int(rng.choice(usual)) for _ in range(rank))
        rank = 1 + int(rng.choice(4, p=[0.25, 0.5, 0.2, 0.05]))
        if rank == 1:
            long = rng.random() < 0.3
            return (int(rng.integers(self.line // 10, self.line)) if long else int(dims[0]),)
        shape = [int(rng.choice(dims)) for _ in range(rank)]
        while math.prod(shape) > self.largest:
            shape[int(rng.integers(rank))] = int(rng.choice(_SHRUNK_EXTENTS))
        if rng.random() < 0.15:
            shape[int(rng.integers(rank))] = int(rng.choice(_SHRUNK_EXTENTS))
        return tuple(shape)

    def leaf_dtype(self, rng: Rng) -> DType:
        if rng.random() < (0.5 if self.is_small else 0.8):
            return np.dtype(str(rng.choice(_USUAL)))
        return DTYPES[int(rng.integers(13))]

    def pattern(self, rng: Rng, shape: Sequence[int]) -> tuple[str, int]:
        """Where the entries of a large tensor lie, and how many they are."""
        cells = math.prod(shape)
        if rng.random() < 0.12 or not shape:
            return "full", cells
        most = min(self.entries, max(cells // 2, 1))
        least = min(self.entries // 1000, most)
        entries = int(math.exp(rng.uniform(math.log(least), math.log(most))))
        return str(rng.choice(list(PATTERNS))), entries


SMALL = Size("small", 3000, 60_000, (1, 5), 3000, 5, 5, 8, 3, 100_000)
MEDIUM = Size("medium", 1_500_000, 30_000_000, (300, 5000), 100_000, 300_000, 3, 4, 3, 10_000)
LARGE = Size("large", 9_000_000, 400_000_000, (1000, 5000), 1_000_000, 10_000_000, 2, 3, 2, 1_000)
SIZES = {size.name: size for size in (SMALL, MEDIUM, LARGE)}
