"""Columns that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property, dataclass
from tensorel.sql.types import Type

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
#: The entries of a dictionary, ascending, as Python texts.
Words = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Vector:
    """``valid``: where there is a value (None: everywhere); what stands elsewhere means nothing,
    but for texts it is the number of a word too. ``words``: of texts."""

    type: Type
    values: Array
    valid: Mask | None = None
    words: Words | None = None

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def bounds(self) -> tuple[int, int] | None:
        """The smallest and the largest value of what is no real number; None if there is none."""
        if self.words is not None:
            return 0, len(self.words) - 1
        if self.type is Type.BOOLEAN:
            return 0, 1
        if self.type.is_real:
            return None
        if not self.values.size:
            return 0, 0
        return int(self.values.min()), int(self.values.max())

    def take(self, positions: Array) -> Vector:
        valid = None if self.valid is None else self.valid[positions]
        return Vector(self.type, self.values[positions], valid, self.words)


def encoded(texts: list[str | None]) -> Vector:
    """The vector of Python texts."""
    there = [t for t in texts if t is not None]
    known = sorted(set(there)) or [""]
    at = {t: k for k, t in enumerate(known)}
    codes = np.array([0 if t is None else at[t] for t in texts], np.int32)
    valid = None if len(there) == len(texts) else np.array([t is not None for t in texts], bool)
    return Vector(Type.TEXT, codes, valid, words_of(known))


def words_of(texts: list[str]) -> Words:
    found = np.empty(len(texts), object)
    found[:] = texts
    return found


def unified(dictionaries: list[Words]) -> tuple[Words, list[Array]]:
    """One dictionary of all words, and for each given one where its words are there."""
    first = dictionaries[0]
    if all(d is first for d in dictionaries):
        return first, [np.arange(len(first), dtype=np.int32)] * len(dictionaries)
    known = sorted(set().union(*[d.tolist() for d in dictionaries]))
    at = {t: k for k, t in enumerate(known)}
    return words_of(known), [np.array([at[t] for t in d.tolist()], np.int32)
                             for d in dictionaries]


def concatenated(vectors: list[Vector]) -> Vector:
    """The vectors one after the other."""
    type_, words = vectors[0].type, vectors[0].words
    values = [v.values for v in vectors]
    if type_ is Type.TEXT:
        words, tables = unified([v.words for v in vectors if v.words is not None])
        values = [t[v] if t.size else v for t, v in zip(tables, values)]
    valid = None
    if any(v.valid is not None for v in vectors):
        valid = np.concatenate([np.ones(len(v), bool) if v.valid is None else v.valid
                                for v in vectors])
    return Vector(type_, np.concatenate(values), valid, words)
