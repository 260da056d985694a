"""Labels that meet: which positions of two axes stand for the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.errors import TypeError_, ValueError_
from tensorel.io.tables.encode import encode
from tensorel.tables.column import Column, Piece
from tensorel.tables.labels import Labels
from tensorel.tables.texts import Texts

Positions = npt.NDArray[np.int64]


def meet(left: Labels, right: Labels, inner: bool) -> Labels:
    """The labels that both have (``inner``), or that one of them has. They stay in the order of the
    left, new ones behind; where both ascend, the result does."""
    a, b, labels = _numbered(left, right)
    for own, axis in ((a, left), (b, right)):
        if np.unique(own).size < own.size:
            counts = np.bincount(own)
            twice = labels.array[int(np.argmax(counts > 1))]
            raise ValueError_(
                f"axes cannot be aligned: the label {twice!r} stands at {int(counts.max())} "
                f"positions of one of them ({len(axis)} labels)",
                hint="group or select first, so that each label is there once")
    count = len(labels)
    of_left, of_right = np.full(count, -1), np.full(count, -1)
    of_left[a], of_right[b] = np.arange(a.size), np.arange(b.size)
    if inner:
        kept = np.flatnonzero((of_left >= 0) & (of_right >= 0))
    elif left.ascending and right.ascending:
        kept = np.arange(count)
    else:
        kept = np.concatenate((a, b[of_left[b] < 0]))
    if inner and not (left.ascending and right.ascending):
        kept = kept[np.argsort(of_left[kept])]
    made = labels.take(kept)
    return next((own for own in (left, right) if own.same(made)), made)


def located(wanted: Labels, own: Labels) -> Positions | None:
    """Where an axis with labels ``own`` has each of the wanted ones, -1 where it has not; None
    where these are 0, 1, 2, ..."""
    a, b, labels = _numbered(wanted, own)
    places = np.full(len(labels), -1)
    places[b] = np.arange(b.size)
    return _plain(places[a], len(own))


def _plain(positions: Positions, extent: int) -> Positions | None:
    """None where nothing has to be moved."""
    same = positions.size == extent and bool((positions == np.arange(extent)).all())
    return None if same else positions


def _numbered(left: Labels, right: Labels) -> tuple[Any, Any, Labels]:
    """Numbers of the labels among those of both, ascending."""
    a, b = left.values, right.values
    if isinstance(a, Texts) != isinstance(b, Texts) or (
            isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and not _alike(a, b)):
        raise TypeError_(
            f"axes cannot be aligned: labels of one are {kind_of(left)}, of the other "
            f"{kind_of(right)}", hint="make the tables from keys of one type")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        both = np.result_type(a, b)
        if both.kind == "f" and {a.dtype.kind, b.dtype.kind} == {"i", "u"}:
            both = np.dtype(np.uint64)  # of numbers that are not negative: see ``_alike``
        a, b = a.astype(both), b.astype(both)
    found = encode(Column([Piece(a), Piece(b)], left.zone))
    return found.codes[: len(left)], found.codes[len(left):], found.labels


def _alike(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether labels of these dtypes can be equal without rounding."""
    if a.dtype.kind == b.dtype.kind:
        return True
    if {a.dtype.kind, b.dtype.kind} <= {"i", "u"}:
        signed = a if a.dtype.kind == "i" else b
        return np.result_type(a, b).kind == "i" or not signed.size or int(signed.min()) >= 0
    return False


def kind_of(labels: Labels) -> str:
    """What labels are, in a user's words."""
    if isinstance(labels.values, Texts):
        return "texts"
    names = {"b": "booleans", "f": "real numbers", "M": "dates or times", "m": "durations"}
    return names.get(labels.values.dtype.kind, "whole numbers")


def find(labels: Labels, wanted: Sequence[Any] | npt.NDArray[Any]) -> Positions:
    """The positions of labels that are asked for, -1 for those that are not there; of a label that
    is there twice, the first."""
    array = labels.array
    if labels.is_text:
        asked = np.empty(len(wanted), object)
        asked[:] = list(wanted)
        if not all(isinstance(x, str) for x in asked):
            return np.array([_first(array, x) if isinstance(x, str) else -1 for x in asked],
                            np.int64)
    else:
        asked = np.asarray(wanted)
        if array.dtype.kind == "M" and asked.dtype.kind in "OUM":
            asked = np.asarray(wanted, "M8")
        elif asked.dtype.kind not in "biufmM" or (
                (array.dtype.kind in "mM") != (asked.dtype.kind in "mM")):
            return np.full(len(wanted), -1)
    if not len(array) or not asked.size:
        return np.full(asked.size, -1)
    order = None if labels.ascending else np.argsort(array, kind="stable")
    ordered = array if order is None else array[order]
    at = np.minimum(np.searchsorted(ordered, asked), len(array) - 1)
    there = np.asarray(ordered[at] == asked, bool)
    return np.where(there, at if order is None else order[at], -1).astype(np.int64)


def _first(array: npt.NDArray[Any], label: str) -> int:
    places = np.flatnonzero(array == label)
    return int(places[0]) if places.size else -1
