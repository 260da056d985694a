"""A stored tensor: a format and its physical arrays."""

from __future__ import annotations

from math import prod

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass, field
from tensorel.errors import EngineError, StorageError
from tensorel.ir.nodes import Const, const
from tensorel.storage.derived import Derived
from tensorel.storage.format import Format, PhysicalArrays
from tensorel.storage.identity import AnyArray, parts, unparted
from tensorel.storage.laws import Violation
from tensorel.storage.lending import Lender, Watch, lender, may_change
from tensorel.tables.labels import Axes

SHAPE, COUNT = PSEUDO = ("shape", "count")
#: The format, and the names and dtypes of the arrays.
Signature = tuple[Format, tuple[tuple[str, str], ...]]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Stored:
    """Never written to, but values may lie in an array of the user (``storage/lending.py``).

    None exists whose arrays are not of the kinds and lengths that its format demands
    (``storage/laws.py``): what breaks that is a fault of whoever made the arrays. Arrays from
    outside are looked at before, by ``io/validate.py``.

    ``alternatives``: the same tensor in other storages, as the user gave them. ``whole``: of a part
    of a program, whether its formula has a value everywhere; None where the format tells.
    ``axes``: names and labels of the axes, None where there are none: no plan depends on them.
    ``derived``: what was found out, to be dropped at any time.

    ``fill`` is a NumPy scalar of ``dtype``. The pseudo arrays ``shape`` (int64, one per axis)
    and ``count`` (int64, one element: stored entries) are added for kernels by ``physical``.
    """

    format: Format
    shape: tuple[int, ...]
    dtype: DType
    fill: np.generic
    arrays: PhysicalArrays
    derived: Derived = field(default_factory=Derived)
    alternatives: tuple[Stored, ...] = ()
    whole: bool | None = None
    axes: Axes | None = None

    @property
    def shared(self) -> bool:
        """Somebody else may write to the arrays."""
        found = self.derived.shared
        if found is None:
            found = self.derived.shared = any(map(may_change, self.arrays.values())) \
                or self.watch is not None
        return found

    @property
    def watch(self) -> Watch | None:
        """Of a user's arrays that say where entries lie; None if there are none."""
        found = self.derived.watched
        if found is None:
            copies = [(given, self.arrays[name]) for name, given in self.lent().items()]
            found = self.derived.watched = (Watch(copies) if copies else None,)
        return found[0]

    def lent(self) -> dict[str, Lender]:
        """Whose arrays say where entries lie, by their names. Beside values that were computed
        private copies stay as they are."""
        values = self.values
        found = {n: given for n, a in self.arrays.items() if (given := lender(a)) is not None} \
            if len(self.arrays) > 1 and (values is None or may_change(values)) else {}
        return found | {n: Lender(a) for n, a in self.arrays.items()
                        if n != self.format.value_array and may_change(a)}

    def __reduce__(self) -> tuple[object, ...]:
        return restored, (*parts(self), self.axes) if self.axes else parts(self)

    def __post_init__(self) -> None:
        val = self.arrays.get("val")
        if val is None or val.size != prod(self.shape) or val.ndim != 1 or len(self.arrays) != 1 \
                or val.dtype != self.dtype or not self.format.is_dense:
            self.check()  # all but a dense array, of which nothing else is to be said

    def check(self, whole: bool = False) -> None:
        """An EngineError where the arrays are none of this format; ``whole``: read them, too."""
        try:
            self.format.check(self.arrays, self.shape, self.dtype, whole)
        except Violation as violation:
            raise EngineError(
                f"a tensor of shape {self.shape} in format {self.format.name!r} has arrays that "
                f"break its law: {violation}",
                hint="this is a fault of tensorel, not of your program: please report it",
            ) from violation

    @property
    def count(self) -> int:
        """Stored entries, explicit fills included."""
        found = self.derived.count
        if found is None:
            found = self.derived.count = self.format.stored_count(self.arrays, self.shape)
        return found

    @property
    def values(self) -> np.ndarray | None:
        """The array of its values, with what else a format may keep there; None: it has none."""
        name = self.format.value_array
        return None if name is None else self.arrays[name]

    @property
    def nbytes(self) -> int:
        found = self.derived.nbytes
        if found is None:
            found = self.derived.nbytes = sum([a.nbytes for a in self.arrays.values()])
        return found

    @property
    def fill_const(self) -> Const:
        found = self.derived.fill
        if found is None:
            found = self.derived.fill = const(self.fill, self.dtype)
        return found

    def physical(self, name: str) -> np.ndarray:
        """A physical array by name, pseudo arrays included."""
        if name == SHAPE:
            return np.asarray(self.shape, dtype=np.int64)
        if name == COUNT:
            return np.asarray([self.count], dtype=np.int64)
        return self.arrays[name]

    @property
    def sound(self) -> bool:
        """Whether kernels can read the arrays as they lie."""
        found = self.derived.sound
        if found is None:
            flags = [a.flags for a in self.arrays.values()]
            found = self.derived.sound = all(f.c_contiguous and f.aligned for f in flags)
        return found

    @property
    def signature(self) -> Signature:
        """What kernels depend on: the format and the dtypes of the arrays, not the sizes."""
        found = self.derived.signature
        if found is None:
            dtypes = tuple((n, a.dtype.str) for n, a in self.arrays.items())
            found = self.derived.signature = (self.format, dtypes)
        return found

    @property
    def kind(self) -> int:
        """A number for the signature, quicker to compare than what it stands for."""
        found = self.derived.kind
        if found is None:
            found = self.derived.kind = _kinds.setdefault(self.signature, len(_kinds))
        return found


_kinds: dict[object, int] = {}


def restored(header: str, format: Format | None, arrays: tuple[AnyArray, ...],
             alternatives: tuple[Stored, ...], axes: Axes | None = None) -> Stored:
    """The tensor that was taken apart by ``parts``. A pickle comes from outside: what it holds is
    read before anything else reads it."""
    fmt, shape, dtype, fill, held = unparted(header, format, arrays)
    try:
        fmt.check(held, shape, dtype, whole=True)
    except Violation as violation:
        raise StorageError(
            f"this pickle of a tensor of shape {shape} in format {fmt.name!r} is damaged: "
            f"{violation}") from violation
    return Stored(fmt, shape, dtype, fill, held, alternatives=alternatives, axes=axes)
