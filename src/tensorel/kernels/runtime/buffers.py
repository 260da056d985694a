"""Growable outputs of kernels, and the control block that running kernels look at."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tensorel.base.memory_regions import MIN_MAPPED_BYTES, REGIONS, Owner, c_function, resized, span
from tensorel.ir.nodes import DType

Array = np.ndarray[Any, np.dtype[Any]]
_Two, _Four = ctypes.c_longlong * 2, ctypes.c_longlong * 4
MIN_USED_SHARE = 0.5  # a region is cut where less of it is used

_free = c_function("free", None, ctypes.c_void_p)
_realloc = c_function("realloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def _allocate(size: int) -> int:
    """Memory for a buffer, as in kernels: from ``MIN_MAPPED_BYTES`` bytes on a region."""
    return _realloc(None, size) or 0 if size < MIN_MAPPED_BYTES else REGIONS.take(size)[0]


def _release(pointer: int, size: int) -> None:
    """Give back memory that was allocated with ``size`` bytes."""
    if size < MIN_MAPPED_BYTES:
        _free(pointer)
    else:
        REGIONS.give(pointer, size)


def _free_heap(pointer: int, size: int) -> None:
    _free(pointer)


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
        """The values as an array that owns their memory; the buffer is empty after. Room behind
        them that nothing was written to is address space alone: it stays for the next of its
        kind, unless there is much of it."""
        pointer, length, capacity = self.state[0], self.state[1], self.state[2]
        if length == 0:
            return np.empty(0, self.dtype)
        room, size = capacity * self.dtype.itemsize, length * self.dtype.itemsize
        self.state[0] = self.state[1] = self.state[2] = 0
        if room < MIN_MAPPED_BYTES:
            if size < room:
                pointer = _realloc(pointer, size) or pointer
            return np.asarray(Owner(pointer, length, self.dtype, _free_heap, size))
        if span(size) < MIN_USED_SHARE * span(room):
            resized(pointer, span(room), span(size))
            room = size
        return np.asarray(Owner(pointer, length, self.dtype, REGIONS.give, room))

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
        if old >= MIN_MAPPED_BYTES:
            pointer = resized(self.state[0], span(old), span(new))
        elif new < MIN_MAPPED_BYTES:
            pointer = _realloc(self.state[0] or None, new) or 0
        else:
            pointer = _allocate(new)
            if pointer:
                ctypes.memmove(pointer, self.state[0], self.length * item)
                _free(self.state[0])
        if not pointer:
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

    @budget.setter
    def budget(self, left: int) -> None:
        self.state[1] = left
