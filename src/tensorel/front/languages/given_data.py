"""What programs know of the data of their tensors: bounds of entries, and integer vectors as
matrices.

Keys that are data decide the shape of a result, which reads need no check, and where loops write.
So a program over such keys is made for data that cannot change, but a user may write to arrays that
were handed in at any time, and others to files that are mapped. Therefore the program reads a copy,
and what it asks about the data is asked of that copy. The copy stays with the tensor and remembers
what was found out. Where the user may write, it is compared with the tensor whenever a program is
built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import BOOL
from tensorel.front.array.base import from_stored
from tensorel.front.functions.reductions import max as largest
from tensorel.front.functions.reductions import min as smallest
from tensorel.ir import nodes as ir
from tensorel.ir.ranges import Range
from tensorel.storage.convert import to_dense
from tensorel.storage.limits import require
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

Ints = npt.NDArray[np.integer[Any]]


def settled(stored: Stored) -> Stored:
    """The data of a tensor as they are now, which cannot change: a copy, also of what cannot be
    written to here, for nobody knows who else can."""
    found = stored.derived.settled
    if found is None or (stored.shared and found is not stored and not all(
            np.array_equal(a, found.arrays[n]) for n, a in stored.arrays.items())):
        require(stored.nbytes, "the copy of keys that are data")
        arrays = {n: np.array(a) for n, a in stored.arrays.items()}
        found = Stored(stored.format, stored.shape, stored.dtype, stored.fill, arrays,
                       axes=stored.axes)
        stored.derived.settled = found.derived.settled = found
    return found


class GivenData:
    """Answers questions about the data of stored tensors; of others nothing is known. ``asked``:
    the tensors that were asked about, with their copies; ``questions``: about copies."""

    def __init__(self) -> None:
        self.asked: dict[Stored, Stored] = {}
        self.questions: dict[tuple[str, Stored, int], None] = {}

    def _stored(self, tensor: ir.Tensor, word: str, extent: int = 0) -> Stored | None:
        if not isinstance(tensor, ir.Source) or not isinstance(tensor.data, Stored):
            return None
        if tensor.data not in self.asked:
            self.asked[tensor.data] = settled(tensor.data)
        found = self.asked[tensor.data]
        self.questions[word, found, extent] = None
        return found

    def entries(self, tensor: ir.Tensor) -> Range | None:
        stored = self._stored(tensor, "entries")
        if stored is None:
            return None
        if 0 in stored.shape:
            return 0, -1
        found = stored.derived.bounds
        if found is None:
            t = from_stored(stored)
            found = int(smallest(t).to_numpy()), int(largest(t).to_numpy())
            stored.derived.bounds = found
        return found

    def places(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        stored = self._stored(tensor, "places", extent)
        if stored is None:
            return None
        known, key = _matrices(stored), ("places", extent)
        if key not in known:
            idx = _indices(to_dense(stored))
            pos = np.arange(len(idx) + 1, dtype=idx.dtype)
            inside = (idx >= 0) & (idx < extent)
            if not inside.all():
                pos[1:] = np.cumsum(inside)
                idx = idx[inside]
            known[key] = _matrix(pos, idx, (len(pos) - 1, extent))
        return _node(known[key])

    def segments(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        stored = self._stored(tensor, "segments", extent)
        if stored is None or stored.shape[0] == 0:
            return None
        known, key = _matrices(stored), ("segments", extent)
        if key not in known:
            pos = _indices(to_dense(stored))
            sound = pos[0] == 0 and pos[-1] <= extent and bool(np.all(pos[1:] >= pos[:-1]))
            shape = (len(pos) - 1, extent)
            known[key] = _matrix(
                pos, np.arange(pos[-1], dtype=pos.dtype), shape) if sound else None
        return _node(known[key])


#: A question about the data of a tensor by name.
Question = tuple[str, str, int]


class Answered:
    """Answers that were found before, by the names of tensors: bounds, and matrices."""

    def __init__(self, names: Mapping[ir.Tensor, str], found: Mapping[Question, Any]) -> None:
        self.names = names
        self.found = found

    def entries(self, tensor: ir.Tensor) -> Range | None:
        known: Range | None = self.found.get(("entries", self.names.get(tensor, ""), 0))
        return known

    def places(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        known: ir.Tensor | None = self.found.get(("places", self.names.get(tensor, ""), extent))
        return known

    def segments(self, tensor: ir.Tensor, extent: int) -> ir.Tensor | None:
        known: ir.Tensor | None = self.found.get(("segments", self.names.get(tensor, ""), extent))
        return known


def _indices(array: npt.NDArray[Any]) -> Ints:
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _matrix(pos: Ints, idx: Ints, shape: tuple[int, int]) -> Stored:
    arrays = {"pos1": pos, "idx1": idx, "val": np.ones(len(idx), np.bool_)}
    return Stored(resolve("csr", shape, BOOL), shape, BOOL, np.bool_(False), arrays)


def _matrices(stored: Stored) -> dict[tuple[str, int], Stored | None]:
    if stored.derived.matrices is None:
        stored.derived.matrices = {}
    return stored.derived.matrices


def _node(found: Stored | None) -> ir.Tensor | None:
    if found is None:
        return None
    return ir.Source(found, found.shape, found.dtype, found.fill_const)
