"""What a stored tensor is, and nothing that was found out about it: for pickles and hashes.

Equal tensors in one format have equal parts, wherever their arrays came from: windows on larger
arrays are cut out, indices are as wide as they need to be, arrays lie without gaps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError, TensorelError
from tensorel.storage.format import Format, PhysicalArrays
from tensorel.storage.lending import lend
from tensorel.storage.refreshing import look_again
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack, index_dtype

if TYPE_CHECKING:
    from tensorel.storage.stored import Stored

AnyArray = npt.NDArray[np.generic]
#: Header, format (None: the header names it), arrays in the order of the header, alternatives.
Parts = tuple[str, Format | None, tuple[AnyArray, ...], "tuple[Stored, ...]"]


def compact(stored: Stored) -> Mapping[str, AnyArray]:
    """The arrays; packed anew where they are windows on larger ones."""
    val = stored.arrays.get("val")
    if isinstance(stored.format, Stack) and val is not None and stored.count != val.size:
        coo = stored.format.unpack(stored.arrays, stored.shape, stored.fill, stored.dtype)
        return stored.format.pack(coo)
    return stored.arrays


def parts(stored: Stored) -> Parts:
    """The tensor in a form that another process understands. The metadata is one text: pickles,
    and what is made of them, then do not depend on which objects are the same one."""
    look_again(stored)
    text = _text(stored)
    arrays = compact(stored)
    names = sorted(arrays)
    header = json.dumps([text, stored.shape, stored.dtype.str, stored.fill.tobytes().hex(), names])
    plain = tuple([_plain(n, arrays[n], stored) for n in names])
    return header, stored.format if text is None else None, plain, stored.alternatives


def unparted(header: str, format: Format | None, arrays: tuple[AnyArray, ...]
             ) -> tuple[Format, tuple[int, ...], DType, np.generic, PhysicalArrays]:
    """Format, shape, dtype, fill and arrays of a tensor."""
    try:
        text, extents, kind, fill, names = json.loads(header)
        shape, dtype = tuple(extents), np.dtype(kind)
        value: np.generic = np.frombuffer(bytes.fromhex(fill), dtype)[0]
        held = dict(zip(names, arrays, strict=True))
    except (ValueError, TypeError) as error:
        raise StorageError(f"this is no pickle of a tensor: {error}") from error
    return format or resolve(text, shape, dtype), shape, dtype, value, held


def digest(stored: Stored) -> str:
    """The same text for equal tensors in one format, in every process."""
    header, format, arrays, alternatives = parts(stored)
    found = hashlib.blake2b(header.encode(), digest_size=16)
    if format is not None:
        found.update(repr(format).encode())
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.view(np.uint8).data)
    for other in alternatives:
        found.update(digest(other).encode())
    for axis in stored.axes or ():
        labels = None if axis.labels is None else (axis.labels.array.tolist(), axis.labels.zone)
        found.update(repr((axis.name, labels)).encode())
    return found.hexdigest()


def _text(stored: Stored) -> str | None:
    """What makes the format again; None where no other process would know."""
    format = stored.format
    try:
        return format.text if resolve(format.text, stored.shape, stored.dtype) == format else None
    except TensorelError:
        return None


def _plain(name: str, array: AnyArray, stored: Stored) -> AnyArray:
    """The array alone: no subclass, no gaps, no wider indices than needed; read-only, so that what
    is made of the bytes of a pickle is known not to change."""
    found: np.ndarray[Any, Any] = np.ascontiguousarray(array)
    if isinstance(stored.format, Stack) and name.startswith(("pos", "idx")):
        room = max((*stored.shape, stored.count))
        found = found.astype(index_dtype(room), copy=False)
    return lend(found if found.strides == (found.itemsize,) else found.copy())
