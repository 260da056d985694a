"""Large arrays are made in the memory of dropped ones.

Getting fresh pages from the system takes longer than writing to them. So the memory of dropped
arrays stays mapped for the next ones. It is marked as free: the system takes it when any process
needs memory, and pages that it took read as zeros (docs/design/lowering.md).

Regions are whole large pages. A new array gets a part of a kept region, or a region is made longer.
A program that runs again asks for the same sizes and finds them."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

DType = np.dtype[Any]
Array = np.ndarray[Any, DType]
#: Memory of at least so many bytes is mapped in regions of its own (on Linux).
MIN_MAPPED_BYTES = 1 << 22 if sys.platform == "linux" else 1 << 62
LARGE_PAGE = 1 << 21
#: At most so many regions are kept, and so many bytes or an eighth of the machine.
MAX_KEPT_REGIONS, MAX_KEPT_BYTES = 32, 1 << 30

_READ_WRITE, _PRIVATE_ANONYMOUS, _MAY_MOVE = 3, 34, 1
_LARGE, _FREE = 14, 8  # advice: large pages; contents may go
_FAILED = 2**64 - 1


def c_function(name: str, result: object, *arguments: object) -> Callable[..., Any]:
    """A function of the C library of the process."""
    function = getattr(ctypes.CDLL(None), name)
    function.restype = result
    function.argtypes = arguments
    return cast(Callable[..., Any], function)


_mmap = c_function(
    "mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
    ctypes.c_int, ctypes.c_longlong,
)
_munmap = c_function("munmap", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_madvise = c_function("madvise", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_mremap = c_function(
    "mremap" if sys.platform == "linux" else "realloc", ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
)


def span(size: int) -> int:
    """The bytes of a region for ``size``.

    >>> span(1), span(1 << 21), span((1 << 21) + 1)
    (2097152, 2097152, 4194304)
    """
    return -(-size // LARGE_PAGE) * LARGE_PAGE


class Regions:
    """Mapped regions that no array uses, the oldest first. Arrays are dropped in any thread, also
    while another one looks here, so each change is one operation on a list."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[tuple[int, int]] = []  # bytes, address

    def take(self, size: int) -> tuple[int, bool]:
        """A region for ``size`` bytes, and whether it is new and so zero; 0 if there is no
        memory."""
        wanted = span(size)
        length, pointer = self._best(wanted)
        rest = length - wanted
        if rest < 0:
            found, new = resized(pointer, length, wanted), not length
            if not found:  # there was no memory: all that is kept goes back
                self.kept += [(length, pointer)] if length else []
                self.release()
                found, new = resized(0, 0, wanted), True
            return found, new
        if rest >= max(MIN_MAPPED_BYTES, wanted // 4):
            self.kept.append((rest, pointer + wanted))
        elif rest:
            _munmap(pointer + wanted, rest)
        return pointer, False

    def _best(self, wanted: int) -> tuple[int, int]:
        """The shortest region that is long enough, else the longest, taken out of those that are
        kept; one of no length if there is none."""
        best = (0, 0)
        for region in tuple(self.kept):
            if wanted <= region[0] < best[0] or (best[0] < wanted and region[0] > best[0]):
                best = region
        try:
            self.kept.remove(best)
        except ValueError:  # there is none, or another thread has it
            return 0, 0
        return best

    def give(self, pointer: int, size: int) -> None:
        """Keep the region of an array of ``size`` bytes."""
        length = span(size)
        _madvise(pointer, length, _FREE)
        self.kept.append((length, pointer))
        while self.bytes_ > self.most or len(self.kept) > MAX_KEPT_REGIONS:
            self._drop()

    @property
    def bytes_(self) -> int:
        return sum([length for length, _ in self.kept])

    def release(self) -> None:
        """Give all back to the system."""
        while self.kept:
            self._drop()

    def _drop(self) -> None:
        """Give the oldest back."""
        try:
            length, pointer = self.kept.pop(0)
        except IndexError:  # another thread was here
            return
        _munmap(pointer, length)


def _most_kept() -> int:
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    return min(machine // 8, MAX_KEPT_BYTES)


REGIONS = Regions(_most_kept())


def resized(pointer: int, length: int, wanted: int) -> int:
    """A region, perhaps of no length, made longer or shorter, perhaps at another address; 0 if
    there is no memory."""
    found = _mremap(pointer, length, wanted, _MAY_MOVE) if length else _mmap(
        None, wanted, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if found is None or found == _FAILED:
        return 0
    if wanted > length:
        _madvise(found, wanted, _LARGE)
    return int(found)


_track = ctypes.pythonapi.PyTraceMalloc_Track
_track.argtypes = (ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t)
_untrack = ctypes.pythonapi.PyTraceMalloc_Untrack
_untrack.argtypes = (ctypes.c_uint, ctypes.c_void_p)
_NUMPY = 389047  # the domain in which tracemalloc finds memory of arrays


class Owner:
    """Memory of ``size`` bytes that an array lies in, given back with it."""

    def __init__(self, pointer: int, count: int, dtype: DType, give: Callable[[int, int], None],
                 size: int) -> None:
        self.pointer, self.give, self.size = pointer, give, size
        self.__array_interface__ = {
            "data": (pointer, False), "shape": (count,), "typestr": dtype.str, "version": 3,
        }
        _track(_NUMPY, pointer, count * dtype.itemsize)

    def shorten(self, size: int) -> None:
        """Keep so many bytes."""
        kept, now = span(self.size), span(max(size, 1))
        if now < kept:
            self.size = max(size, 1)
            _track(_NUMPY, self.pointer, size)
            self.give(self.pointer + now, kept - now)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # at the end of the process all memory goes anyway
            _untrack(_NUMPY, self.pointer)
            self.give(self.pointer, self.size)


def empty(shape: int | tuple[int, ...], dtype: DType) -> Array:
    """As np.empty."""
    return _made(shape, dtype)[0]


def zeros(shape: int | tuple[int, ...], dtype: DType) -> Array:
    """As np.zeros: fresh memory is zero when it is first read."""
    if not isinstance(shape, tuple) and shape * dtype.itemsize < MIN_MAPPED_BYTES:
        return np.zeros(shape, dtype)
    found, new = _made(shape, dtype)
    if not new:
        ctypes.memset(found.ctypes.data, 0, found.nbytes)
    return found


def full(shape: int | tuple[int, ...], value: object, dtype: DType) -> Array:
    """As np.full."""
    found = empty(shape, dtype)
    found[...] = value
    return found


def shortened(array: Array, count: int) -> Array:
    """The first values of an array of ``empty`` that nobody else holds; the memory after them is
    given back."""
    if array.size == count:
        return array
    owner = array.base
    if isinstance(owner, Owner):
        owner.shorten(count * array.itemsize)
        return array[:count]
    array.resize(count, refcheck=False)
    return array


def contiguous(array: Array) -> Array:
    """As np.ascontiguousarray: a copy, unless it is contiguous."""
    if array.flags.c_contiguous or array.nbytes < MIN_MAPPED_BYTES:
        return np.ascontiguousarray(array)
    found = empty(array.shape, array.dtype)
    found[...] = array
    return found


def _made(shape: int | tuple[int, ...], dtype: DType) -> tuple[Array, bool]:
    """An array, and whether it is known to be zero."""
    count = shape if isinstance(shape, int) else math.prod(shape)
    size = count * dtype.itemsize
    if size < MIN_MAPPED_BYTES:
        return np.empty(shape, dtype), False
    pointer, new = REGIONS.take(size)
    if not pointer:
        raise MemoryError(f"no memory for {count} values of {dtype.name}")
    found = np.asarray(Owner(pointer, count, dtype, REGIONS.give, size))
    return found if isinstance(shape, int) else found.reshape(shape), new
