"""A stored tensor: a format and its physical arrays."""

from __future__ import annotations

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.ir.nodes import Const, const
from tensorel.records import dataclass, field
from tensorel.storage.format import Format, PhysicalArrays

PSEUDO = ("shape", "count")
THICK = 24


@dataclass(eq=False, slots=True, weakref_slot=True)
class Stored:
    """Immutable by convention: arrays may be views of the user's own, and are never written.

    ``fill`` is a NumPy scalar of ``dtype``. The pseudo arrays ``shape`` (int64, one per axis)
    and ``count`` (int64, one element: stored entries) are added for kernels by ``physical``.
    """

    format: Format
    shape: tuple[int, ...]
    dtype: DType
    fill: np.generic
    arrays: PhysicalArrays
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Stored entries, explicit fills included."""
        found = self.facts.get("count")
        if found is None:
            found = self.facts["count"] = self.format.stored_count(self.arrays, self.shape)
        return found  # type: ignore[return-value]

    @property
    def nbytes(self) -> int:
        found = self.facts.get("nbytes")
        if found is None:
            found = self.facts["nbytes"] = sum([a.nbytes for a in self.arrays.values()])
        return found  # type: ignore[return-value]

    @property
    def fill_const(self) -> Const:
        found = self.facts.get("fill")
        if found is None:
            found = self.facts["fill"] = const(self.fill, self.dtype)
        return found  # type: ignore[return-value]

    def physical(self, name: str) -> np.ndarray:
        """A physical array by name, pseudo arrays included."""
        if name == PSEUDO[0]:
            return np.asarray(self.shape, dtype=np.int64)
        if name == PSEUDO[1]:
            return np.asarray([self.count], dtype=np.int64)
        return self.arrays[name]

    @property
    def sound(self) -> bool:
        """Whether kernels can read the arrays as they lie."""
        found = self.facts.get("sound")
        if found is None:
            flags = [a.flags for a in self.arrays.values()]
            found = self.facts["sound"] = all(f.c_contiguous and f.aligned for f in flags)
        return found  # type: ignore[return-value]

    @property
    def signature(self) -> tuple[object, ...]:
        """What kernels depend on: the format, the dtypes of the arrays, and whether the last of
        the lists are long; not the sizes."""
        found = self.facts.get("signature")
        if found is None:
            dtypes = tuple((n, a.dtype.str) for n, a in self.arrays.items())
            found = self.facts["signature"] = (self.format, dtypes, self._is_thick())
        return found  # type: ignore[return-value]

    def _is_thick(self) -> bool:
        """There are many entries in a list, such as a row, on average."""
        bounds = [n for n in self.arrays if n.startswith("pos")]
        return bool(bounds) and self.count >= THICK * (self.arrays[max(bounds)].size - 1) > 0

    @property
    def kind(self) -> int:
        """A number for the signature, quicker to compare than what it stands for."""
        found = self.facts.get("kind")
        if found is None:
            found = self.facts["kind"] = _kinds.setdefault(self.signature, len(_kinds))
        return found  # type: ignore[return-value]


_kinds: dict[object, int] = {}
