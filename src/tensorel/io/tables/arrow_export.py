"""Our tables as tables of Arrow, by pyarrow: the same memory where Arrow lays it out so."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tensorel.errors import UnsupportedError
from tensorel.tables.column import Column, Piece
from tensorel.tables.table import Table
from tensorel.tables.texts import Texts

_INT32_MAX = 2**31 - 1


def arrow_table(table: Table) -> Any:
    """The ``pyarrow.Table`` of a table."""
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise UnsupportedError("tables of Arrow are made by pyarrow, which is not installed",
                               hint="pip install 'tensorel[arrow]', or use T.to_coo()") from error
    columns = {name: _chunked(arrow, column) for name, column in table.items()}
    return arrow.table(columns) if columns else arrow.table({})


def _chunked(arrow: Any, column: Column) -> Any:
    parts = [_array(arrow, p, column.zone) for p in column.pieces]
    if not parts:
        parts = [_array(arrow, Piece(np.empty(0, column.dtype) if column.dtype is not None
                                     else Texts.of([])), column.zone)]
    return arrow.chunked_array(parts)


def _array(arrow: Any, piece: Piece, zone: str) -> Any:
    """An array of Arrow; dictionaries are written out, as users of tables expect."""
    if piece.dictionary is not None:
        assert isinstance(piece.values, np.ndarray)
        entries = _array(arrow, Piece(piece.dictionary), zone)
        if arrow.types.is_string(entries.type) and _is_long(piece):
            entries = entries.cast(arrow.large_string())
        codes = arrow.array(piece.values, mask=piece.mask)
        return entries.take(codes)
    values = piece.values
    if not isinstance(values, np.ndarray):
        return _texts(arrow, values.block(0, len(values)), piece)
    if zone:
        unit = np.datetime_data(values.dtype)[0]
        return arrow.array(values, mask=piece.mask).cast(arrow.timestamp(unit, tz=zone))
    return arrow.array(values, mask=piece.mask)


def _texts(arrow: Any, texts: Texts, piece: Piece) -> Any:
    own = texts.take(np.arange(len(texts)))
    large = own.data.size > _INT32_MAX
    offsets = np.append(own.starts[:1] if len(own) else np.zeros(1, np.int64), own.ends)
    kind = arrow.LargeStringArray if large else arrow.StringArray
    nulls = None if piece.mask is None else arrow.py_buffer(
        np.packbits(~piece.mask, bitorder="little"))
    return kind.from_buffers(
        len(own), arrow.py_buffer(offsets.astype(np.int64 if large else np.int32)),
        arrow.py_buffer(np.ascontiguousarray(own.data)), nulls)


def _is_long(piece: Piece) -> bool:
    """Whether the texts of all rows have more bytes than Arrow's usual texts may have."""
    entries = piece.dictionary
    if not isinstance(entries, Texts) or not len(entries):
        return False
    most = int((entries.ends - entries.starts).max())
    if most * len(piece) <= _INT32_MAX:
        return False
    codes = piece.values
    assert isinstance(codes, np.ndarray)
    counts = np.bincount(codes if piece.mask is None else codes[~piece.mask],
                         minlength=len(entries))
    return int((counts * (entries.ends - entries.starts)).sum()) > _INT32_MAX
