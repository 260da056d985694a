"""A column of a table: pieces of a vector, as the table's owner cut it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property, dataclass
from tensorel.errors import TypeError_
from tensorel.tables.texts import AnyTexts, Texts, Views

Vector = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
#: Kinds of columns by the kind of NumPy's dtype; "date" is datetime64 in days.
_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "float", "m": "duration"}


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """``mask`` says which entries are null (None: none of them). With a ``dictionary``, ``values``
    are positions in it; what stands there where the mask holds means nothing."""

    values: Vector | AnyTexts
    mask: Mask | None = None
    dictionary: Vector | AnyTexts | None = None

    def __len__(self) -> int:
        return len(self.values)

    def block(self, lo: int, hi: int) -> Piece:
        """The entries [lo, hi), on the same memory."""
        values = self.values
        cut = values[lo:hi] if isinstance(values, np.ndarray) else values.block(lo, hi)
        return Piece(cut, None if self.mask is None else self.mask[lo:hi], self.dictionary)

    @property
    def meaning(self) -> Vector | AnyTexts:
        """What the entries are made of."""
        return self.values if self.dictionary is None else self.dictionary


class Column:
    """A vector of numbers, booleans, dates, times or texts, perhaps with nulls.

    ``kind``: "bool", "int", "float", "date", "datetime", "duration" or "text". ``zone``: the time
    zone in which datetimes are meant; they are stored in UTC, whatever it is."""

    def __init__(self, pieces: Sequence[Piece], zone: str = "",
                 dtype: np.dtype[Any] | None = None) -> None:
        """``dtype``: of a column without pieces, None for texts."""
        self.pieces = tuple(pieces)
        self.zone = zone
        if self.pieces:
            meaning = self.pieces[0].meaning
            dtype = None if isinstance(meaning, Texts | Views) else meaning.dtype
        self.dtype = dtype

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def kind(self) -> str:
        """What the entries are."""
        if self.dtype is None:
            return "text"
        if self.dtype.kind == "M":
            return "date" if np.datetime_data(self.dtype)[0] == "D" else "datetime"
        return _KINDS[self.dtype.kind]

    @property
    def has_dictionary(self) -> bool:
        """Whether its entries are positions in dictionaries."""
        return any(p.dictionary is not None for p in self.pieces)

    @cached_property
    def values(self) -> Vector:
        """One vector of all entries but texts; as it lies where the column is one piece."""
        if self.dtype is None:
            raise TypeError_("a column of texts is no vector of numbers",
                             hint="encode it: its codes are numbers")
        found = [_decoded(p) for p in self.pieces]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty(0, self.dtype)

    @cached_property
    def mask(self) -> Mask | None:
        """Which entries are null; None: none of them."""
        if all(p.mask is None for p in self.pieces):
            return None
        if len(self.pieces) == 1:
            return self.pieces[0].mask
        return np.concatenate([
            np.zeros(len(p), bool) if p.mask is None else p.mask for p in self.pieces])

    @property
    def nbytes(self) -> int:
        """Bytes of values and dictionaries, about."""
        total = 0
        for p in self.pieces:
            for part in (p.values, p.mask, p.dictionary):
                if isinstance(part, Views):
                    total += part.words.nbytes
                elif part is not None:
                    total += part.nbytes
        return total


def _decoded(piece: Piece) -> Vector:
    assert isinstance(piece.values, np.ndarray)
    if piece.dictionary is None:
        return piece.values
    assert isinstance(piece.dictionary, np.ndarray)
    if not piece.dictionary.size:  # all entries are null
        return np.zeros(len(piece), piece.dictionary.dtype)
    codes = piece.values if piece.mask is None else np.where(piece.mask, 0, piece.values)
    return piece.dictionary[codes]
