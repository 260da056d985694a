"""Names and labels of axes in files of their own: of numbers, dates and times one array, of texts
where each ends and their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tensorel.catalog.records import ArrayFile, AxisEntry, damaged
from tensorel.storage.identity import AnyArray
from tensorel.tables.labels import Axes, AxisLabels, Labels
from tensorel.tables.texts import Texts

_TEXT = "text"


def kept(axes: Axes | None, keep: Callable[[AnyArray], ArrayFile]) -> tuple[AxisEntry, ...]:
    """What a catalog says of axes whose labels ``keep`` writes."""
    return tuple([_kept(axis, keep) for axis in axes or ()])


def _kept(axis: AxisLabels, keep: Callable[[AnyArray], ArrayFile]) -> AxisEntry:
    labels = axis.labels
    if labels is None:
        return AxisEntry(axis.name, "", "", ())
    values = labels.values
    if isinstance(values, Texts):
        own = values.take(np.arange(len(values)))
        return AxisEntry(axis.name, _TEXT, labels.zone, (keep(own.ends), keep(own.data)))
    plain = values.view(np.int64) if values.dtype.kind in "mM" else values
    return AxisEntry(axis.name, values.dtype.str, labels.zone, (keep(plain),))


def loaded(entries: tuple[AxisEntry, ...], shape: tuple[int, ...],
           load: Callable[[ArrayFile], AnyArray], where: str) -> Axes | None:
    """The axes that a catalog tells of; held to what labels are before anything reads them."""
    if not entries:
        return None
    if len(entries) != len(shape):
        raise damaged(where)
    return tuple([_loaded(e, extent, load, where) for e, extent in zip(entries, shape)])


def _loaded(entry: AxisEntry, extent: int, load: Callable[[ArrayFile], AnyArray], where: str
            ) -> AxisLabels:
    if not entry.kind:
        return AxisLabels(entry.name)
    arrays = [load(a) for a in entry.arrays]
    if arrays[0].size != extent:
        raise damaged(where)
    if entry.kind != _TEXT:
        return AxisLabels(entry.name, Labels(arrays[0].view(entry.kind), entry.zone))
    ends, data = cast(list[Any], arrays)
    starts = np.concatenate((np.zeros(min(extent, 1), np.int64), ends[:-1]))
    if ends.dtype != np.int64 or data.dtype != np.uint8 or bool((starts > ends).any()) or (
            extent and int(ends[-1]) != data.size):
        raise damaged(where)
    return AxisLabels(entry.name, Labels(Texts(starts, ends, data), entry.zone))
