"""Arrow's C data interface: its structures, and who releases what they hold.

https://arrow.apache.org/docs/format/CDataInterface.html. A structure is moved by copying it and
clearing its ``release``; whoever holds it last calls that."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int64,
    c_void_p,
    cast,
    py_object,
    pythonapi,
)
from typing import Any
from weakref import finalize

from tensorel.errors import StorageError, TypeError_

NULLABLE, DICTIONARY_ORDERED = 2, 1


class ArrowSchema(Structure):
    """The type of a column, or of a table (a struct)."""


ArrowSchema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64),
    ("n_children", c_int64), ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)), ("release", c_void_p), ("private_data", c_void_p),
]


class ArrowArray(Structure):
    """The buffers of a column, or of a batch of rows."""


ArrowArray._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
    ("n_children", c_int64), ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))), ("dictionary", POINTER(ArrowArray)),
    ("release", c_void_p), ("private_data", c_void_p),
]


class ArrowArrayStream(Structure):
    """Batches of rows, one after the other."""


GET_SCHEMA = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowSchema))
GET_NEXT = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowArray))
GET_ERROR = CFUNCTYPE(c_void_p, POINTER(ArrowArrayStream))
RELEASE = CFUNCTYPE(None, c_void_p)

ArrowArrayStream._fields_ = [
    ("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p),
    ("release", c_void_p), ("private_data", c_void_p),
]

_pointer_of = pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [py_object, c_char_p]
_new_capsule = pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]

STREAM, SCHEMA = b"arrow_array_stream", b"arrow_schema"


def release(structure: Any) -> None:
    """Give back what a structure holds, once."""
    function = structure.release
    if function:
        RELEASE(function)(ctypes.addressof(structure))
        structure.release = None


class Held:
    """A structure that is released when nobody holds this object any more."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        finalize(self, release, structure)


def moved(kind: type[Structure], address: int) -> Any:
    """The structure that lies at an address, which is empty from now on."""
    source = kind.from_address(address)
    if not source.release:
        raise StorageError("this Arrow stream was read already",
                           hint="pass the table, or make a new reader")
    made = kind()
    ctypes.memmove(ctypes.byref(made), address, ctypes.sizeof(kind))
    source.release = None
    return made


def stream_of(table: Any) -> Held:
    """The stream of an object with ``__arrow_c_stream__``."""
    capsule = table.__arrow_c_stream__()
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError_(f"__arrow_c_stream__ of {type(table).__name__} gives no capsule")
    return Held(moved(ArrowArrayStream, _pointer_of(capsule, STREAM)))


def _failed(stream: ArrowArrayStream, code: int) -> StorageError:
    text = GET_ERROR(stream.get_last_error)(ctypes.byref(stream))
    said = cast(text, c_char_p).value if text else None
    return StorageError(f"an Arrow stream fails: {(said or b'error %d' % code).decode()}")


def schema_of(stream: Held) -> Held:
    """The type of the rows of a stream."""
    held, made = stream.structure, ArrowSchema()
    code = GET_SCHEMA(held.get_schema)(ctypes.byref(held), ctypes.byref(made))
    if code:
        raise _failed(held, code)
    return Held(made)


def next_of(stream: Held) -> Held | None:
    """The next batch of rows; None after the last."""
    held, made = stream.structure, ArrowArray()
    code = GET_NEXT(held.get_next)(ctypes.byref(held), ctypes.byref(made))
    if code:
        raise _failed(held, code)
    return Held(made) if made.release else None


def capsule_of(address: int, name: bytes, destructor: int) -> object:
    """A capsule of a structure at an address."""
    return _new_capsule(address, name, destructor)
