"""The edge between files and the library: what a file or the system does wrong becomes an error of
ours, in words; and what a file claims is believed as far as the bytes that are there justify it.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EIO, ENOSPC, EROFS

from tensorel import config
from tensorel.errors import FileError, MemoryLimitError, StorageError, TensorelError
from tensorel.storage.limits import show_bytes

#: What unpacking archives and texts raises for bytes that make no sense.
DAMAGE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, struct.error, ValueError,
    TypeError, AttributeError, OverflowError, LookupError, RecursionError, NotImplementedError,
    RuntimeError,
)
_HINTS = {
    ENOSPC: "the disk is full; free some room and try again",
    EDQUOT: "the quota of the disk is used up",
    EFBIG: "the file system or a limit of the process allows no file of this size",
    EROFS: "the file system is read-only",
    EIO: "the disk or the network fails",
}
#: No deflate stream unpacks to more bytes for each of its own.
DEFLATE_RATIO = 1032
#: So many bytes are made for a file of any size, and so many for each byte of its arrays.
_MIN_ALLOWED_BYTES, _BYTES_PER_BYTE = 1 << 24, 16


@contextmanager
def unpacking(where: str) -> Iterator[None]:
    """What goes wrong with an archive in the block is told as damage of the file."""
    try:
        yield
    except TensorelError:
        raise
    except DAMAGE as error:
        raise _damaged(where, error) from error


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors of the library that the arrays of a file cause are told as errors of the file."""
    try:
        yield
    except MemoryLimitError:
        raise
    except TensorelError as error:
        if isinstance(error, StorageError) and where in error.message:
            raise
        raise StorageError(f"{where}: {error.message}", hint=error.hint) from error


@contextmanager
def telling(where: str, done: str) -> Iterator[None]:
    """Refusals of the system, and of the memory limit, are told as errors about the file that is
    to be ``done``."""
    try:
        yield
    except MemoryLimitError as error:
        if where in error.message:
            raise
        raise MemoryLimitError(f"{where}: {error.message}", needed=error.needed, limit=error.limit,
                               step=error.step, hint=error.hint) from error
    except TensorelError:
        raise
    except OSError as error:
        message = f"{where} cannot be {done}: {error.strerror or error}"
        raise FileError.of(error, message, _HINTS.get(error.errno or 0)) from error
    except MemoryError as error:
        raise MemoryLimitError(f"{where} cannot be {done}: the machine's memory is exhausted",
                               limit=config.current().memory, step=where,
                               hint="lower the limit with tr.options(memory=...)") from error


def _damaged(where: str, error: BaseException) -> StorageError:
    reason = str(error) or type(error).__name__
    return StorageError(f"{where} cannot be read: {reason[:200]}",
                        hint="the file is truncated or damaged")


def check_memory(needed: int, where: str, what: str) -> None:
    """Refuse before allocating what passes the memory limit."""
    limit = config.current().memory
    if needed > limit:
        raise MemoryLimitError(
            f"{where}: {what} needs {needed:,} bytes; the memory limit is {limit:,}",
            needed=needed,
            limit=limit,
            step=f"read {where}",
            hint="raise the limit: tr.options(memory=...)",
        )


def check_array(shape: Sequence[int], itemsize: int, where: str) -> int:
    """The bytes of a dense array. Its extents must fit together into 63 bits even where one of
    them is 0, as NumPy has it."""
    if math.prod([n for n in shape if n]) * itemsize >= 2**63:
        raise StorageError(f"{where}: the shape {tuple(shape)} is too large for an array",
                           hint="the file is damaged")
    needed = math.prod(shape) * itemsize
    check_memory(needed, where, f"an array of shape {tuple(shape)}")
    return needed


def is_justified(needed: int, there: int) -> bool:
    """Whether so many bytes may be made of a file that holds so many. A few bytes can declare any
    extents, and the result of reading them must not grow with a number."""
    return needed <= max(_MIN_ALLOWED_BYTES, there * _BYTES_PER_BYTE)


def check_justified(needed: int, there: int, where: str, what: str) -> None:
    """Refuse what the file's extents ask for and its entries do not."""
    check_memory(needed, where, what)
    if not is_justified(needed, there):
        raise StorageError(
            f"{where}: {what} would take {show_bytes(needed)}; the file holds {show_bytes(there)}",
            hint="read it with format='coo', which grows with the entries alone")
