"""Labels of an axis: what its positions stand for."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property, dataclass
from tensorel.tables.texts import Texts

Vector = npt.NDArray[Any]
Positions = npt.NDArray[np.integer[Any]]


class Labels:
    """One label for each position of an axis: a vector of numbers, dates, times, or texts. Never
    written to. ``zone``: the time zone in which datetimes are meant (they are stored in UTC)."""

    def __init__(self, values: Vector | Texts, zone: str = "",
                 ascending: bool | None = None) -> None:
        """``ascending``: whether each label is above the one before; None: not known yet."""
        self.values, self.zone = values, zone
        self._ascending = ascending
        #: What was found out beside other labels, as long as these live.
        self.beside: WeakKeyDictionary[Labels, dict[object, Any]] = WeakKeyDictionary()
        if isinstance(values, np.ndarray):
            values.flags.writeable = False

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def array(self) -> Vector:
        """The labels as an array of NumPy; texts as Python's, in an array of objects."""
        found = self.values
        if isinstance(found, Texts):
            made = np.empty(len(found), object)
            made[:] = found.tolist()
            found = made
            found.flags.writeable = False
        return found

    @property
    def is_text(self) -> bool:
        """Whether the labels are texts."""
        return isinstance(self.values, Texts)

    @property
    def ascending(self) -> bool:
        """Whether each label is above the one before, so that none is there twice."""
        if self._ascending is None:
            array = self.array
            self._ascending = bool((array[1:] > array[:-1]).all())
        return self._ascending

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return int(self.values.nbytes)

    def take(self, positions: Positions) -> Labels:
        """The labels at these positions."""
        found = self.values
        picked = found.take(positions) if isinstance(found, Texts) else found[positions]
        return Labels(picked, self.zone)

    def same(self, other: Labels) -> bool:
        """Whether they are the same labels in the same order."""
        if self is other:
            return True
        known = self.beside.setdefault(other, {})
        if "same" not in known:
            known["same"] = self._is_same(other)
        return bool(known["same"])

    def _is_same(self, other: Labels) -> bool:
        if len(self) != len(other) or self.is_text != other.is_text or self.zone != other.zone:
            return False
        return bool((self.array == other.array).all())

    def cut(self, start: int, step: int, count: int) -> Labels:
        """The labels at ``start``, ``start + step``, ...: so many."""
        if (start, step, count) == (0, 1, len(self)):
            return self
        if step == 1:
            found = self.values
            part = found.block(start, start + count) if isinstance(found, Texts) \
                else found[start:start + count]
            return Labels(part, self.zone, self._ascending)
        return self.take(start + step * np.arange(count))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.array, self.zone)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.array[:6].tolist()))
        return f"Labels([{shown}{', ...' if len(self) > 6 else ''}])"


def _restored(array: Vector, zone: str) -> Labels:
    return Labels(Texts.of(array.tolist()) if array.dtype.kind == "O" else array, zone)


@dataclass(frozen=True, slots=True, eq=False)
class AxisLabels:
    """What is known of an axis beside its extent."""

    name: str | None = None
    labels: Labels | None = None

    def __bool__(self) -> bool:
        return self.name is not None or self.labels is not None


#: One for each axis of a tensor.
Axes = tuple[AxisLabels, ...]
PLAIN = AxisLabels()


def joined(parts: list[Labels]) -> Labels | None:
    """The labels of several, one after the other; None where they are not of one kind."""
    first = parts[0]
    if any(p.is_text != first.is_text or p.zone != first.zone for p in parts):
        return None
    texts = [p.values for p in parts if isinstance(p.values, Texts)]
    if texts:
        return Labels(Texts.joined(texts), first.zone)
    arrays = [p.values for p in parts if isinstance(p.values, np.ndarray)]
    if len({a.dtype.kind for a in arrays}) > 1:
        return None
    return Labels(np.concatenate(arrays), first.zone)


def same_axes(a: Axes | None, b: Axes | None) -> bool:
    """Whether two tensors have the same names and labels."""
    if a is b:
        return True
    if a is None or b is None or len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if x.name != y.name or (x.labels is None) != (y.labels is None):
            return False
        if x.labels is not None and y.labels is not None and not x.labels.same(y.labels):
            return False
    return True
