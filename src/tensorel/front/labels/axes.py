"""Names and labels of axes as methods of tensors: ``labels``, ``names``, ``named``, ``loc``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tensorel.errors import IndexError_, KeyError_, ShapeError, TypeError_
from tensorel.front.array.base import Base, from_stored, wrap
from tensorel.front.array.indexing import getitem
from tensorel.front.labels.alignment import axes_of_tensor
from tensorel.front.labels.from_table import to_table
from tensorel.io.tables.meeting import find, kind_of
from tensorel.ir import nodes as ir
from tensorel.storage.labelling import index_name, labelled
from tensorel.tables.labels import PLAIN, Axes, Labels

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

_SHOWN = 6  # labels that an error message lists


def axes_or_plain(t: Base) -> Axes:
    """Names and labels of all axes."""
    return axes_of_tensor(t) or (PLAIN,) * t.ndim


class Labelling(Base):
    """The methods of this chapter."""

    __slots__ = ()

    @property
    def labels(self) -> tuple[npt.NDArray[Any] | None, ...]:
        """The labels of each axis as an array, None where it has none.

        >>> import tensorel as tr
        >>> T = tr.from_table({"day": [3, 7], "sold": [1.5, 2.0]}, keys=["day"], value="sold")
        >>> (T * 2).labels[0].tolist()
        [3, 7]
        """
        return tuple([None if a.labels is None else a.labels.array for a in axes_or_plain(self)])

    @property
    def names(self) -> tuple[str | None, ...]:
        """The name of each axis, None where it has none."""
        return tuple([a.name for a in axes_or_plain(self)])

    def named(self, *names: str | None) -> Tensor:
        """The same tensor with names for its axes (None: no name).

        >>> import tensorel as tr
        >>> tr.asarray([[1, 2]]).named("user", "item").T.names
        ('item', 'user')
        """
        if len(names) != self.ndim:
            raise ShapeError(f"named: {len(names)} names for a tensor of {self.ndim} axes")
        given = [n for n in names if n is not None]
        if not all(isinstance(n, str) and n for n in given):
            raise TypeError_(f"named: names are texts, not {names!r}")
        if len(set(given)) < len(given):
            raise TypeError_(f"named: {names!r} names two axes alike")
        axes = tuple([replace(a, name=n) for a, n in zip(axes_or_plain(self), names)])
        data = self.given
        if data is not None:
            return from_stored(labelled(data, axes if any(axes) else None))
        own = [index_name(n, k) for k, n in enumerate(names)]
        return wrap(ir.Lambda(
            tuple([ir.Axis(n, extent) for n, extent in zip(own, self.shape)]),
            ir.Read(self.node, tuple([ir.Index(n) for n in own]))))

    @property
    def loc(self) -> Locator:
        """Places by label: ``T.loc[label]`` fixes the first axis, a list of labels takes these, a
        slice takes all from a label to another, both included; a tuple says it for several axes.

        >>> import tensorel as tr
        >>> T = tr.from_table({"day": [3, 7, 9], "sold": [1, 2, 4]}, keys=["day"], value="sold")
        >>> T.loc[7].item(), T.loc[3:7].tolist(), T.loc[[9, 3]].tolist()
        (2, [1, 2], [4, 1])
        """
        return Locator(self)

    def to_table(self, value: str = "val") -> Any:
        """The entries that differ from the fill as an Arrow table: a column of labels for each axis
        (positions where it has none), then ``val``. Needs pyarrow.

        >>> import tensorel as tr
        >>> tr.asarray([0.0, 2.5]).named("day").to_table().to_pydict()
        {'day': [1], 'val': [2.5]}
        """
        return to_table(cast("Tensor", self), value)


def shown_places(t: Base) -> tuple[Callable[..., tuple[Any, ...]], str]:
    """How places are printed, by labels where there are some, and the names of the axes."""
    axes = axes_or_plain(t)
    arrays = [None if a.labels is None else a.labels.array for a in axes]

    def place(*at: int) -> tuple[Any, ...]:
        return tuple([k if own is None else _plain(own[k]) for k, own in zip(at, arrays)])

    names = tuple([a.name for a in axes])
    return place, f", axes={names}" if any(names) else ""


def _plain(label: Any) -> Any:
    if isinstance(label, np.datetime64 | np.timedelta64):
        return str(label)
    return label.item() if isinstance(label, np.generic) else label


class Locator:
    """``T.loc``."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Base) -> None:
        self._tensor = tensor

    def __getitem__(self, key: object) -> Tensor:
        t = self._tensor
        parts = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in [p for p in parts if p is Ellipsis]:
            at = next(k for k, p in enumerate(parts) if p is Ellipsis)
            parts[at:at + 1] = [slice(None)] * (t.ndim - len(parts) + 1)
        if len(parts) > t.ndim:
            raise IndexError_(f"loc: {len(parts)} labels for a tensor of {t.ndim} axes")
        # One axis after the other: lists take the product of their labels, as in pandas.
        found = cast("Tensor", t)
        left = 0
        for axis, (part, own) in enumerate(zip(parts, axes_or_plain(t))):
            place = part if own.labels is None else _place(part, own.labels, axis, own.name)
            if isinstance(place, slice) and place == slice(None):
                left += 1
                continue
            found = getitem(found, (slice(None),) * left + (place,))
            left += not isinstance(place, int | np.integer)
        return found


def _place(part: object, labels: Labels, axis: int, name: str | None) -> object:
    """The index that a label, a list or a slice of labels stands for."""
    if isinstance(part, slice):
        return _between(part, labels, axis, name)
    if isinstance(part, list | np.ndarray | Base) or (hasattr(part, "tolist") and np.ndim(
            cast(Any, part))):
        array = np.asarray(part)
        if array.dtype.kind == "b" and array.shape == (len(labels),):
            return np.flatnonzero(array)
        wanted: Sequence[Any] = list(part) if isinstance(part, list) else array  # type: ignore[assignment]
        places = find(labels, wanted)
        missing = np.flatnonzero(places < 0)
        if missing.size:
            raise _not_there(wanted[int(missing[0])], labels, axis, name)
        return places
    place = int(find(labels, [part])[0])
    if place < 0:
        raise _not_there(part, labels, axis, name)
    return place


def _between(part: slice, labels: Labels, axis: int, name: str | None) -> slice:
    if part.step is not None:
        raise TypeError_("loc: a slice of labels has no step", hint="index the result with [::k]")
    if part.start is None and part.stop is None:
        return slice(None)
    if labels.ascending:  # what is not there has a place all the same
        return slice(_bound(part.start, labels, "left", axis, name),
                     _bound(part.stop, labels, "right", axis, name))
    ends = [None if x is None else int(find(labels, [x])[0]) for x in (part.start, part.stop)]
    for given, end in ((part.start, ends[0]), (part.stop, ends[1])):
        if end is not None and end < 0:
            raise _not_there(given, labels, axis, name)
    return slice(ends[0], None if ends[1] is None else ends[1] + 1)


def _bound(label: Any, labels: Labels, side: Literal["left", "right"], axis: int,
           name: str | None) -> int | None:
    """Where labels from one on begin ("left"), or where labels up to one end ("right")."""
    if label is None:
        return None
    array = labels.array
    if labels.is_text != isinstance(label, str) and array.dtype.kind != "M":
        raise TypeError_(f"loc: {label!r} is no label of axis {_called(axis, name)}, whose "
                         f"labels are {kind_of(labels)}")
    wanted = np.asarray(label, "M8") if array.dtype.kind == "M" else label
    return int(np.searchsorted(array, wanted, side))


def _called(axis: int, name: str | None) -> str:
    return repr(name) if name is not None else str(axis)


def _not_there(label: object, labels: Labels, axis: int, name: str | None) -> KeyError_:
    shown = labels.array[:_SHOWN].tolist()
    hint = f"its labels are {', '.join(map(repr, shown))}{', ...' if len(labels) > _SHOWN else ''}"
    if labels.is_text and isinstance(label, str):
        near = difflib.get_close_matches(label, labels.array[:10_000].tolist(), 1)
        hint = f"did you mean {near[0]!r}?" if near else hint
    return KeyError_(f"axis {_called(axis, name)} has no label {label!r}", hint=hint)
