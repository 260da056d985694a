"""What SDQLite knows of the data of its tensors: bounds of entries, and integer vectors as
matrices. Remembered with the stored tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import BOOL
from tensorel.front.base import wrap
from tensorel.front.reductions import max as largest
from tensorel.front.reductions import min as smallest
from tensorel.ir import nodes as ir
from tensorel.ir.ranges import Range
from tensorel.storage.convert import to_dense
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

Ints = npt.NDArray[np.integer[Any]]


class GivenData:
    """The data of tensors that are stored; of others nothing is known."""

    def entries(self, tensor: ir.Tensor) -> Range | None:
        stored = _stored(tensor)
        if stored is None:
            return None
        if 0 in stored.shape:
            return 0, -1
        found = stored.facts.get("entries_between")
        if found is None:
            t = wrap(tensor)
            found = int(smallest(t).to_numpy()), int(largest(t).to_numpy())
            stored.facts["entries_between"] = found
        return found  # type: ignore[return-value]

    def places(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        stored = _stored(tensor)
        if stored is None:
            return None
        key = f"places_below_{extent}"
        if key not in stored.facts:
            idx = _indices(to_dense(stored))
            pos = np.arange(len(idx) + 1, dtype=idx.dtype)
            inside = (idx >= 0) & (idx < extent)
            if not inside.all():
                pos[1:] = np.cumsum(inside)
                idx = idx[inside]
            stored.facts[key] = _matrix(pos, idx, (len(pos) - 1, extent))
        return _node(stored.facts[key])

    def segments(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        stored = _stored(tensor)
        if stored is None or stored.shape[0] == 0:
            return None
        key = f"segments_below_{extent}"
        if key not in stored.facts:
            pos = _indices(to_dense(stored))
            sound = pos[0] == 0 and pos[-1] <= extent and bool(np.all(pos[1:] >= pos[:-1]))
            shape = (len(pos) - 1, extent)
            stored.facts[key] = _matrix(
                pos, np.arange(pos[-1], dtype=pos.dtype), shape) if sound else None
        return _node(stored.facts[key])


def _stored(tensor: ir.Tensor) -> Stored | None:
    if isinstance(tensor, ir.Source) and isinstance(tensor.data, Stored):
        return tensor.data
    return None


def _indices(array: npt.NDArray[Any]) -> Ints:
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _matrix(pos: Ints, idx: Ints, shape: tuple[int, int]) -> Stored:
    arrays = {"pos1": pos, "idx1": idx, "val": np.ones(len(idx), np.bool_)}
    return Stored(resolve("csr", shape, BOOL), shape, BOOL, np.bool_(False), arrays)


def _node(found: object) -> ir.Tensor | None:
    if not isinstance(found, Stored):
        return None
    return ir.Source(found, found.shape, found.dtype, found.fill_const)
