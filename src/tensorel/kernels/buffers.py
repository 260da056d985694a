"""Growable outputs of kernels, and the control block that running kernels look at."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tensorel.ir.nodes import DType
from tensorel.kernels.growing import MAPPED
from tensorel.kernels.symbols import libc

Array = np.ndarray[Any, np.dtype[Any]]
_Two, _Four = ctypes.c_longlong * 2, ctypes.c_longlong * 4


def _c_function(name: str, result: object, *arguments: object) -> Callable[..., Any]:
    function = getattr(libc(), name)
    function.restype = result
    function.argtypes = arguments
    return cast(Callable[..., Any], function)


_free = _c_function("free", None, ctypes.c_void_p)
_realloc = _c_function("realloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_mmap = _c_function(
    "mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
    ctypes.c_int, ctypes.c_longlong,
)
_munmap = _c_function("munmap", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_madvise = _c_function("madvise", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_mremap = _c_function(
    "mremap" if sys.platform == "linux" else "realloc", ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
)
_FAILED = 2**64 - 1


def _allocate(size: int) -> int:
    """Memory for a buffer: pages of its own from ``MAPPED`` bytes on, as in kernels. Large pages
    are asked for, as NumPy does: most of the cost of fresh memory is page faults."""
    if size < MAPPED:
        return _realloc(None, size) or 0
    pointer = _mmap(None, size, 3, 34, -1, 0)  # read and write, private, anonymous
    if pointer is None or pointer == _FAILED:
        return 0
    _madvise(pointer, size, 14)  # MADV_HUGEPAGE
    return int(pointer)


def _release(pointer: int, size: int) -> None:
    """Give back memory that was allocated with ``size`` bytes."""
    if size < MAPPED:
        _free(pointer)
    else:
        _munmap(pointer, size)


def _shrink(pointer: int, size: int, wanted: int) -> int:
    """The same memory cut to ``wanted`` bytes; how it was allocated stays."""
    if size < MAPPED:
        return _realloc(pointer, wanted) or pointer
    _mremap(pointer, size, wanted, 1)
    return pointer


class _Memory:
    """Memory from C that an array owns."""

    def __init__(self, pointer: int, count: int, dtype: DType, mapped: bool) -> None:
        self.pointer = pointer
        self.mapped = count * dtype.itemsize if mapped else 0
        self.__array_interface__ = {
            "data": (pointer, False), "shape": (count,), "typestr": dtype.str, "version": 3,
        }

    def __del__(
        self, free: Callable[..., Any] = _free, unmap: Callable[..., Any] = _munmap
    ) -> None:
        if self.mapped:
            unmap(self.pointer, self.mapped)
        else:
            free(self.pointer)


class GrowBuffer:
    """A growable output of a kernel: data pointer, length, capacity, item size.

    >>> GrowBuffer(np.dtype("float64")).take()
    array([], dtype=float64)
    """

    __slots__ = ("address", "dtype", "state")

    def __init__(self, dtype: DType, capacity: int = 0) -> None:
        self.dtype = dtype
        self.state = _Four(0, 0, 0, dtype.itemsize)
        self.address = ctypes.addressof(self.state)
        if capacity > 0:
            pointer = _allocate(capacity * dtype.itemsize)
            if not pointer:
                raise MemoryError(f"no memory for {capacity} values of {dtype.name}")
            self.state[0], self.state[2] = pointer, capacity

    @property
    def length(self) -> int:
        return int(self.state[1])

    @property
    def capacity(self) -> int:
        return int(self.state[2])

    def close(self, value: int) -> Array:
        """Take the values with one more after them."""
        length, item = self.length, self.dtype.itemsize
        last = np.array([value]).astype(self.dtype)
        if length == self.capacity:
            return np.concatenate((self.take(), last))
        ctypes.memmove(self.state[0] + length * item, last.ctypes.data, item)
        self.state[1] = length + 1
        return self.take()

    def take(self) -> Array:
        """The values as an array that owns exactly their memory; the buffer is empty after."""
        pointer, length, capacity = self.state[0], self.state[1], self.state[2]
        if length == 0:
            return np.empty(0, self.dtype)
        item = self.dtype.itemsize
        if length < capacity:
            pointer = _shrink(pointer, capacity * item, length * item)
        self.state[0] = self.state[1] = self.state[2] = 0
        return np.asarray(_Memory(pointer, length, self.dtype, capacity * item >= MAPPED))

    def extend(self, other: GrowBuffer, control: Control, more: int = 0) -> bool:
        """Append the values of another buffer, each with ``more`` added (integers wrap around);
        False if that would pass the memory limit."""
        item, length = self.dtype.itemsize, self.length
        need = length + other.length
        if need > self.capacity and not self._grow(max(need, self.capacity * 3 // 2), control):
            return False
        if other.length:
            ctypes.memmove(self.state[0] + length * item, other.state[0], other.length * item)
        self.state[1] = need
        if more:
            self.view()[length:] += np.array(more).astype(self.dtype)
        return True

    def _grow(self, capacity: int, control: Control) -> bool:
        """More room, as kernels make it."""
        item = self.dtype.itemsize
        old, new = self.capacity * item, capacity * item
        if new - old > control.budget:
            return False
        if old >= MAPPED:
            pointer = _mremap(self.state[0], old, new, 1) or 0
        elif new < MAPPED:
            pointer = _realloc(self.state[0] or None, new) or 0
        else:
            pointer = _allocate(new)
            if pointer:
                ctypes.memmove(pointer, self.state[0], self.length * item)
                _free(self.state[0])
        if pointer in (0, _FAILED):
            raise MemoryError(f"no memory for {capacity} values of {self.dtype.name}")
        control.state[1] -= new - old
        self.state[0], self.state[2] = pointer, capacity
        return True

    def view(self) -> Array:
        """The values where they lie, until the buffer is grown, taken or dropped."""
        data = (ctypes.c_char * (self.length * self.dtype.itemsize)).from_address(self.state[0])
        found: Array = np.frombuffer(cast(Any, data), self.dtype)
        return found

    def clear(self) -> None:
        """Forget the values, keep the memory."""
        self.state[1] = 0

    def __del__(self, release: Callable[..., Any] = _release) -> None:
        if self.state[0]:
            release(self.state[0], self.state[2] * self.state[3])


class Control:
    """What running kernels look at: a flag to stop them, and the bytes that they may still
    allocate, shared by all threads of one computation."""

    __slots__ = ("address", "state")

    def __init__(self, budget: int = 2**62) -> None:
        self.state = _Two(0, min(budget, 2**62))
        self.address = ctypes.addressof(self.state)

    @property
    def cancelled(self) -> bool:
        return self.state[0] != 0

    def cancel(self) -> None:
        self.state[0] = 1

    @property
    def budget(self) -> int:
        """Bytes left."""
        return int(self.state[1])
