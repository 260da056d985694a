"""Tables from Arrow's C stream: columns on the memory of whoever made it.

The interface gives addresses without lengths, so a producer is trusted as a library is that runs in
this process; what its offsets say is checked before kernels follow them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorel.base.records import dataclass
from tensorel.errors import StorageError, UnsupportedError
from tensorel.io.tables.arrow_structs import (
    ArrowArray,
    ArrowSchema,
    Held,
    next_of,
    schema_of,
    stream_of,
)
from tensorel.storage.lending import lend
from tensorel.tables.column import Column, Mask, Piece, Vector
from tensorel.tables.table import Range, Table, check_names
from tensorel.tables.texts import AnyTexts, Texts, Views

_NUMBERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
            "e": "f2", "f": "f4", "g": "f8"}
_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
_OTHERS = {"d": "a decimal", "z": "binary", "Z": "binary", "v": "a view of binary",
           "w": "binary of a fixed width", "+": "a nested type", "t": "an interval"}
_OFFSETS: dict[str, np.dtype[Any]] = {"u": np.dtype(np.int32), "U": np.dtype(np.int64)}
_EMPTY = Texts(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column: ``stored``, the dtype of its buffer, ``dtype``, of its entries (None:
    texts, laid out as ``format`` says)."""

    format: str
    stored: np.dtype[Any] | None
    dtype: np.dtype[Any] | None
    zone: str = ""
    dictionary: Kind | None = None


def kind_of(schema: ArrowSchema, name: str) -> Kind:
    """The type that a schema tells; what a tensor or a query cannot hold is refused."""
    text = (schema.format or b"").decode()
    if schema.dictionary:
        inner = kind_of(schema.dictionary.contents, name)
        return Kind(text, np.dtype(_NUMBERS[text]), inner.dtype, inner.zone, inner)
    if text in ("u", "U", "vu"):
        return Kind(text, None, None)
    if text == "b":
        return Kind(text, np.dtype(np.uint8), np.dtype(bool))
    if text == "n":
        return Kind(text, None, np.dtype(np.float64))
    stored, zone = _NUMBERS.get(text), ""
    dtype = "f4" if stored == "f2" else stored
    if text == "tdD":
        stored, dtype = "i4", "M8[D]"
    elif text == "tdm":
        stored = dtype = "M8[ms]"
    elif text.startswith("ts"):
        stored = dtype = f"M8[{_UNITS[text[2]]}]"
        zone = text[4:]
    elif text.startswith("tD"):
        stored = dtype = f"m8[{_UNITS[text[2]]}]"
    elif text in ("tts", "ttm", "ttu", "ttn"):
        stored = "i4" if text in ("tts", "ttm") else "i8"
        dtype = f"m8[{_UNITS[text[2]]}]"
    if stored is None or dtype is None:
        said = _OTHERS.get(text[:1], "a type")
        raise UnsupportedError(
            f"column {name!r} is {said} (Arrow's format {text!r}), which has no dtype of NumPy",
            hint="cast it first, e.g. decimals to float64 or int64")
    return Kind(text, np.dtype(stored), np.dtype(dtype), zone)


# -- buffers ------------------------------------------------------------------------------------
def _window(address: int, size: int, owner: Held) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes at an address, which belong to ``owner``; nobody writes to them through us."""
    if not size or not address:
        return np.empty(0, np.uint8)
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]
    found: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(memoryview(memory), np.uint8)
    found.flags.writeable = False
    return found


def _buffer(array: ArrowArray, k: int, dtype: np.dtype[Any], count: int, owner: Held) -> Vector:
    """Entries [offset, offset + count) of a buffer."""
    address, size = array.buffers[k] or 0, dtype.itemsize
    return _window(address + array.offset * size, count * size, owner).view(dtype)


def _bits(array: ArrowArray, k: int, count: int, owner: Held) -> Mask:
    start, shift = divmod(array.offset, 8)
    held = _window(array.buffers[k] + start, (shift + count + 7) // 8, owner)
    return np.unpackbits(held, count=shift + count, bitorder="little")[shift:].view(bool)


def _mask(array: ArrowArray, count: int, owner: Held) -> Mask | None:
    if not array.null_count or not array.n_buffers or not array.buffers[0]:
        return None
    nulls = ~_bits(array, 0, count, owner)
    return nulls if array.null_count > 0 or nulls.any() else None


def _texts(array: ArrowArray, kind: Kind, mask: Mask | None, owner: Held) -> AnyTexts:
    count = array.length
    if not count:
        return _EMPTY
    if kind.format == "vu":
        return _views(array, mask, owner)
    offsets = _buffer(array, 1, _OFFSETS[kind.format], count + 1, owner)
    low, high = int(offsets[0]), int(offsets[-1])
    if low < 0 or bool((offsets[1:] < offsets[:-1]).any()):
        raise StorageError("the offsets of a column of texts do not ascend")
    return Texts(offsets[:-1], offsets[1:], _window(array.buffers[2] or 0, high, owner))


def _views(array: ArrowArray, mask: Mask | None, owner: Held) -> Views:
    count, shared = array.length, array.n_buffers - 3
    lengths = _window(array.buffers[array.n_buffers - 1] or 0, 8 * shared, owner).view(np.int64)
    own = (array.buffers[1] or 0) + array.offset * 16
    begins = [array.buffers[2 + k] or own for k in range(shared)]
    low = min([own, *begins])
    high = max([own + 16 * count, *(b + int(n) for b, n in zip(begins, lengths))])
    words = _window(own, 16 * count, owner).view(np.int32).reshape(count, 4)
    far = words[words[:, 0] > 12 if mask is None else (words[:, 0] > 12) & ~mask]
    if far.size:
        room = lengths[np.minimum(np.maximum(far[:, 2], 0), shared - 1)] if shared else -1
        bad = (far[:, 2] < 0) | (far[:, 2] >= shared) | (far[:, 3] < 0) | (
            far[:, 3].astype(np.int64) + far[:, 0] > room)
        if bad.any():
            raise StorageError("the views of a column of texts point outside of its buffers")
    at = np.array([b - low for b in begins], np.int64)
    return Views(words, at, own - low, _window(low, high - low, owner))


def _piece(array: ArrowArray, kind: Kind, owner: Held) -> Piece:
    count, mask = array.length, _mask(array, array.length, owner)
    if kind.dictionary is not None:
        assert kind.stored is not None
        inner = _piece(array.dictionary.contents, kind.dictionary, owner)
        codes = _buffer(array, 1, kind.stored, count, owner)
        if inner.mask is not None and count:  # the dictionary has a null
            hidden = inner.mask[codes if mask is None else np.where(mask, 0, codes)]
            mask = hidden if mask is None else mask | hidden
        return Piece(codes, mask, inner.values)
    if kind.dtype is None:
        return Piece(_texts(array, kind, mask, owner), mask)
    if kind.format == "n":
        return Piece(np.zeros(count), np.ones(count, bool))
    if kind.format == "b":
        return Piece(_bits(array, 1, count, owner) if count else np.empty(0, bool), mask)
    assert kind.stored is not None
    values = _buffer(array, 1, kind.stored, count, owner)
    if kind.stored != kind.dtype:
        values = values.astype(kind.dtype)
    return Piece(lend(values), mask)


# -- tables -------------------------------------------------------------------------------------
class ArrowTable:
    """A ``TableSource`` of an object with ``__arrow_c_stream__``; a stream of one column, without
    a table around it, is a table of one column."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._stream: Held | None = stream_of(given)
        schema = self._schema = schema_of(self._stream)
        held = schema.structure
        self._is_table = (held.format or b"") == b"+s"
        fields = [held.children[k].contents for k in range(held.n_children)] \
            if self._is_table else [held]
        self._fields = {(f.name or b"").decode(): f for f in fields}
        if len(self._fields) < len(fields):
            raise StorageError("two columns of this table have one name", hint="rename one of them")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._fields)

    def read(self, columns: Sequence[str] | None = None,
             ranges: Mapping[str, Range] | None = None) -> Table:
        names = self.names if columns is None else tuple(columns)
        check_names(names, self.names)
        kinds = {name: kind_of(self._fields[name], name) for name in names}
        places = {name: k for k, name in enumerate(self._fields)}
        stream = self._stream or stream_of(self.given)
        self._stream = None  # what was read is read: another time needs another stream
        pieces: dict[str, list[Piece]] = {name: [] for name in names}
        rows = 0
        while (batch := next_of(stream)) is not None:
            held = batch.structure
            rows += held.length
            for name in names:
                array = held.children[places[name]].contents if self._is_table else held
                if held.length:
                    piece, first = _piece(array, kinds[name], batch), held.offset
                    whole = not self._is_table or (not first and len(piece) == held.length)
                    pieces[name].append(
                        piece if whole else piece.block(first, first + held.length))
        return Table({name: Column(pieces[name], kinds[name].zone, kinds[name].dtype)
                      for name in names}, rows)
