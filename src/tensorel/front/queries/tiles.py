"""Tiled relations in SQL: key columns and a column of matrices.

    SELECT A.r, B.c, SUM(matmul(A.mat, B.mat)) FROM A, B WHERE A.c = B.r GROUP BY A.r, B.c

Kernels are those of ``tr.relation``, by name, on stored blocks; programs of blocks run on the
engine that the options say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorel.base.records import cached_property
from tensorel.engines.rows.vectors import Vector
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.functions.block_kernels import as_kernel
from tensorel.front.functions.relations import TensorRelation
from tensorel.front.queries.given import Given
from tensorel.sql.catalog import Field
from tensorel.sql.types import Type
from tensorel.storage.stored import Stored


class BlockPool:
    """The blocks of one query by their numbers."""

    def __init__(self) -> None:
        self.blocks: list[Stored] = []

    def add(self, block: object) -> int:
        assert isinstance(block, Stored)
        self.blocks.append(block)
        return len(self.blocks) - 1

    def get(self, number: int) -> Stored:
        return self.blocks[number]

    def call(self, kernel: str, args: Sequence[object]) -> Stored:
        """The block that a kernel makes of blocks and numbers."""
        given = [a if isinstance(a, Stored) else stored_of(asarray(a)) for a in args]
        return as_kernel(kernel, len(args)).run(*given)


class GivenTiles(Given):
    """The blocks of a tensor relation."""

    def __init__(self, relation: TensorRelation, pool: BlockPool) -> None:
        given = relation.relation
        # Blocks of zeros may stay away, as entries of a tensor do.
        self.blocks = given if given.fill == 0 else given.filled()
        self.pool = pool

    @property
    def rows(self) -> int:
        return len(self.blocks.blocks)

    @cached_property
    def fields(self) -> Sequence[Field]:
        extents = self.blocks.domain.extents
        names = ["r", "c"] if len(extents) == 2 else [f"i{k}" for k in range(len(extents))]
        found = [Field(n, Type.INTEGER, False, extent) for n, extent in zip(names, extents)]
        found.append(Field("mat", Type.MATRIX, False))
        if len(extents) == 2:
            found += [Field(f"i{k}", Type.INTEGER, False, n, None, True)
                      for k, n in enumerate(extents)]
        return found

    @cached_property
    def _numbers(self) -> Vector:
        numbers = [self.pool.add(b) for b in self.blocks.blocks]
        return Vector(Type.MATRIX, np.array(numbers, np.int64))

    def read(self, names: Sequence[str]) -> Mapping[str, Vector]:
        keys = np.asarray(self.blocks.keys, np.int64)
        axes = {f.name: k for k, f in enumerate(self.fields) if f.type is Type.INTEGER}
        arity = keys.shape[1]
        found: dict[str, Vector] = {}
        for n in names:
            if n == "mat":
                found[n] = self._numbers
            else:
                axis = axes[n] if axes[n] < arity else axes[n] - arity - 1
                found[n] = Vector(Type.INTEGER, np.ascontiguousarray(keys[:, axis]))
        return found
