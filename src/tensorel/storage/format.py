"""Formats: how a tensor lies in memory, as a stack of levels over physical arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.build import as_expr
from tensorel.ir.nodes import Expr, Read
from tensorel.storage.laws import Look, Violation
from tensorel.storage.levels import Arrays, Level, Position, Probe

if TYPE_CHECKING:
    from tensorel.storage.entries import Coo

PhysicalArrays = dict[str, npt.NDArray[np.generic]]


class _Noted:
    """What follows from the fields of a format and is asked at every call."""

    __slots__ = ("_is_dense",)
    _is_dense: bool


@dataclass(frozen=True, slots=True)
class Format(_Noted):
    """A storage mapping. Frozen and compared by value: it is part of the key of kernels.

    name: as users write it. order: axis of each level, outermost first.
    Subclasses override ``pack`` and ``unpack`` (the packer and its inverse), ``value`` when the
    stored value is not ``val[position]``, and ``lookup`` when all coordinates together can be
    found at once (a hash map over whole keys).
    """

    name: str
    order: tuple[int, ...]
    levels: tuple[Level, ...]

    @property
    def rank(self) -> int:
        return len(self.order)

    @property
    def is_dense(self) -> bool:
        """Every entry is stored."""
        try:
            return self._is_dense
        except AttributeError:
            object.__setattr__(self, "_is_dense", all(level.full for level in self.levels))
            return self._is_dense

    @property
    def mapping(self) -> str:
        """The mapping in the calculus, for readers and for the reference interpreter."""
        return ""

    @property
    def value_array(self) -> str | None:
        """The array in which the values lie as they are; None: the format computes them."""
        return "val" if type(self).value is Format.value else None

    @property
    def text(self) -> str:
        """What ``registry.resolve`` takes to make this very format again, sizes included."""
        return self.name

    def fit(self, coo: Coo) -> Format:
        """The format with the sizes that are chosen from the data (block shapes); itself where
        there is nothing to choose."""
        return self

    def covers(self, other: Format) -> bool:
        """Whether a tensor in ``other`` is in this format already: sizes left open fit all."""
        return False

    def law(self, look: Look) -> None:
        """Look at the arrays of a tensor in this format."""
        positions = 1
        for axis, level in zip(self.order, self.levels):
            positions = level.law(look, axis, positions)
        look.values(positions)

    def check(self, arrays: PhysicalArrays, shape: tuple[int, ...], dtype: DType,
              whole: bool = False) -> None:
        """Raise a ``Violation`` where the arrays are not those of a tensor in this format."""
        if len(shape) != len(self.order):
            raise Violation(None, f"{len(shape)} axes where {len(self.order)} are needed")
        self.law(Look(arrays, shape, dtype, whole))

    def value(self, arrays: Arrays, position: Position) -> Expr:
        """The stored value at the position that the last level gave."""
        return Read(arrays["val"], (position[0] if position else as_expr(0),))

    def lookup(self, arrays: Arrays, coords: tuple[Expr, ...]) -> Probe | None:
        """One probe for all coordinates (in axis order), where the format has it."""
        return None

    def pack(self, coo: Coo) -> PhysicalArrays:
        """Physical arrays of the tensor ``coo``, which is sorted in ``self.order`` and unique."""
        raise NotImplementedError

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        """The stored entries as a coordinate list sorted in ``self.order``."""
        raise NotImplementedError

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        """Number of stored entries, explicit fills included; cheap."""
        return int(arrays["val"].size)


#: ``builder(shape, dtype, *parameters)``; parameters are the whole numbers in ``name(1,2)``.
Builder = Callable[..., Format]
B = TypeVar("B", bound=Builder)
#: The builders of formats that have names.
BUILDERS: dict[str, Builder] = {}


def named(builder: B) -> B:
    """The format has the name of its builder."""
    BUILDERS[builder.__name__] = builder
    return builder


class Packable(Protocol):
    """What makes a format for tensors of a shape: the builder behind a format name."""

    def __call__(self, shape: tuple[int, ...], dtype: DType) -> Format: ...


#: How users name a format: by name, by itself, or by a storage mapping.
FormatLike = str | Format | Packable
