"""Columns as codes: numbers of their different entries, which are labels in ascending order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.errors import UnsupportedError
from tensorel.kernels.native.encoder import (
    NumberBlock,
    TextBlock,
    place_codes,
    recode,
    text_codes,
)
from tensorel.storage.key_matching import group_ids
from tensorel.storage.limits import require
from tensorel.tables.column import Column, Mask, Piece, Vector
from tensorel.tables.labels import Labels
from tensorel.tables.texts import Texts

Codes = npt.NDArray[np.int32]
#: Whole numbers have a place each where there are no more places than numbers, or than these.
_MIN_PLACES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """``codes``: of each entry its position among ``labels``, -1 where it is null (nan of a float
    column is null, too). ``labels`` are the different entries, ascending: codes compare as entries
    do. ``has_nulls``: whether some code is -1."""

    codes: Codes
    labels: Labels
    has_nulls: bool


def encode(column: Column) -> Encoded:
    """The codes of a column and its labels."""
    if column.dtype is not None and column.dtype.kind == "c":
        raise UnsupportedError("complex numbers have no order, so they cannot be keys",
                               hint="use their real and imaginary parts as two keys")
    require(4 * len(column), f"the codes of {len(column)} entries")
    codes = np.empty(len(column), np.int32)
    values = _into(column, codes)
    has_nulls = bool(codes.size and codes.min() < 0)
    return Encoded(codes, Labels(values, column.zone, True), has_nulls)


def _into(column: Column, codes: Codes) -> Vector | Texts:
    """Fill in the codes of a column; its different entries, ascending."""
    if column.has_dictionary:
        return _of_dictionaries(column, codes)
    if column.dtype is None:
        return _of_texts(column, codes)
    return _of_numbers(column, codes)


def _split(column: Column, codes: Codes) -> list[tuple[Piece, Codes]]:
    ends = np.cumsum([len(p) for p in column.pieces])
    return list(zip(column.pieces, np.split(codes, ends[:-1]) if len(ends) else []))


# -- dictionaries -------------------------------------------------------------------------------
def _of_dictionaries(column: Column, codes: Codes) -> Vector | Texts:
    """Positions in dictionaries become codes of the entries that occur, these codes of their
    labels."""
    used: list[Piece] = []
    parts = _split(column, codes)
    for piece, own in parts:
        if piece.dictionary is None:
            raise UnsupportedError("a column has a dictionary in some pieces only")
        assert isinstance(piece.values, np.ndarray)
        inner = _of_numbers(Column([Piece(piece.values, piece.mask)]), own)
        entries = piece.dictionary
        used.append(Piece(entries[inner] if isinstance(entries, np.ndarray)
                          else entries.block(0, len(entries)).take(inner)))
    different = Column(used, column.zone, column.dtype)
    numbers = np.empty(len(different), np.int32)
    labels = _into(different, numbers)
    for (_, own), renamed in zip(parts, _split(different, numbers)):
        recode(own, renamed[1])
    return labels


# -- texts --------------------------------------------------------------------------------------
def _of_texts(column: Column, codes: Codes) -> Texts:
    found = text_codes([
        TextBlock(p.values, p.mask, own) for p, own in _split(column, codes)
        if not isinstance(p.values, np.ndarray)])
    order = text_order(found)
    _by_rank(codes, order)
    return found.take(order)


def _by_rank(codes: Codes, order: npt.NDArray[np.int64]) -> None:
    ranks = np.empty(order.size, np.int32)
    ranks[order] = np.arange(order.size, dtype=np.int32)
    recode(codes, ranks)


def text_order(texts: Texts) -> npt.NDArray[np.int64]:
    """The positions that sort different texts, by their bytes, which is by code points. Eight bytes
    at a time: what is decided is not looked at again."""
    lengths = (texts.ends - texts.starts).astype(np.int64)
    order = np.arange(len(texts))
    group = np.zeros(len(texts), np.int64)  # of texts in order: the place where their ties begin
    tied, depth = np.arange(len(texts)), 0
    while tied.size > 1:
        members = order[tied]
        words, rest = _words(texts, members, depth), np.clip(lengths[members] - depth, 0, 9)
        by = np.lexsort((rest, words, group[tied])) if depth else np.lexsort((rest, words))
        order[tied] = members[by]
        words, rest, own = words[by], rest[by], group[tied]
        fresh = np.ones(tied.size, bool)
        fresh[1:] = (words[1:] != words[:-1]) | (rest[1:] != rest[:-1]) | (own[1:] != own[:-1])
        begins = np.flatnonzero(fresh)
        counts = np.diff(np.append(begins, tied.size))
        group[tied] = np.repeat(tied[begins], counts)
        tied = tied[np.repeat(counts > 1, counts)]
        depth += 8
    return order


def _words(texts: Texts, members: npt.NDArray[np.int64], depth: int) -> npt.NDArray[np.uint64]:
    """Eight bytes of each text, as numbers that compare as the bytes do; zeros behind the end."""
    at = texts.starts[members].astype(np.int64) + depth
    left = texts.ends[members].astype(np.int64) - at
    words = np.zeros(members.size, np.uint64)
    for k in range(8):
        inside = left > k
        byte = texts.data[np.where(inside, at + k, 0)] if texts.data.size else np.zeros(1, np.uint8)
        words = (words << np.uint64(8)) | np.where(inside, byte, 0).astype(np.uint64)
    return words


# -- numbers ------------------------------------------------------------------------------------
def _of_numbers(column: Column, codes: Codes) -> Vector:
    assert column.dtype is not None
    dtype = column.dtype
    if not len(column):
        return np.empty(0, dtype)
    if dtype.kind != "f":
        blocks = [NumberBlock(_whole(p.values), p.mask, own) for p, own in _split(column, codes)
                  if isinstance(p.values, np.ndarray)]
        found = _bounds(blocks)
        if found is None:
            codes[:] = -1
            return np.empty(0, dtype)
        low, high = found
        if high - low < max(len(column), _MIN_PLACES) and high < 2**63:
            places = place_codes(blocks, low, high)
            return (places + low).astype(blocks[0].values.dtype).view(dtype)
    return _hashed(column.values, column.mask, codes)


def _whole(values: Vector) -> npt.NDArray[np.integer[Any]]:
    """Booleans, dates and times as whole numbers."""
    kinds = {"b": np.uint8, "M": np.int64, "m": np.int64}
    found = values.view(kinds[values.dtype.kind]) if values.dtype.kind in kinds else values
    return np.ascontiguousarray(found)


def _bounds(blocks: list[NumberBlock]) -> tuple[int, int] | None:
    """The least and the largest number; None where all are null."""
    lows, highs = [], []
    for b in blocks:
        values = b.values if b.nulls is None else b.values[~b.nulls]
        if values.size:
            lows.append(int(values.min()))
            highs.append(int(values.max()))
    return (min(lows), max(highs)) if lows else None


def _hashed(values: Vector, nulls: Mask | None, codes: Codes) -> Vector:
    if values.dtype.kind == "f" and (hidden := np.isnan(values)).any():
        nulls = hidden if nulls is None else nulls | hidden
    kept = values if nulls is None else values[~nulls]
    groups = group_ids([kept])
    labels = kept[groups.first]
    if labels.dtype.kind == "f":
        labels = labels + labels.dtype.type(0)  # one zero
    order = np.argsort(labels, kind="stable")
    if nulls is None:
        codes[:] = groups.ids
    else:
        codes[:] = -1
        codes[~nulls] = groups.ids
    _by_rank(codes, order)
    return labels[order]
