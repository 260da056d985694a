"""Arrays that users hand in stay theirs, and what is handed out is not to be written to.

Law: an array of a user comes in as a read-only view of it (``lend``), so that nothing here writes
to it, and whatever shares memory with it, sliced, turned or handed out, is read-only as well. An
array made here is writable until a tensor holds it (``freeze``). So an array tells, wherever
it went, whether somebody else may change it (``may_change``).

Values are read where they lie. What says where entries lie is copied before a program reads it
(``private``), for kernels jump to where it sends them: written to meanwhile, it would send them
outside of the arrays. A copy remembers whose it is (``lender``), so that a change there can be
noticed and taken over.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from tensorel.base.memory_regions import Owner

Array = np.ndarray[Any, np.dtype[Any]]
#: Elements that a watch looks at, of each array.
WATCHED_ELEMENTS = 32


def lend(given: object) -> Array:
    """What a user handed in as an array of ours to read: the same memory, read-only. Lists and
    numbers have no memory of their own; elements that no kernel could load are copied."""
    array = np.asarray(given)
    if not array.flags.aligned:
        return array.copy()
    if isinstance(given, (list, tuple, int, float, complex)) or not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(False)  # type: ignore[call-arg]
    return view


def freeze(arrays: Iterable[Array]) -> None:
    """A tensor holds these from now on: views of them that are handed out are read-only. One that
    is writable was made here, and so was what it is a view of."""
    for array in arrays:
        if array.flags.writeable:  # by position: a third of the time
            array.setflags(False)  # type: ignore[call-arg]
            base = array.base
            if type(base) is np.ndarray:
                base.setflags(False)  # type: ignore[call-arg]


def may_change(array: Array) -> bool:
    """Whether the memory is somebody else's who can write to it."""
    if array.flags.writeable:
        return False  # made here: what was handed in is lent
    base: Any = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    if base is None or isinstance(base, (bytes, Owner)):
        return False
    try:
        seen = memoryview(base)  # perhaps a view that cannot write of what others can write to
        return not (seen.readonly and memoryview(seen.obj).readonly)
    except (TypeError, ValueError, BufferError):
        return True


class Lender:
    """A user's array without gaps, as long as somebody else holds it: who copied it does not keep
    its memory."""

    __slots__ = ("_at", "_dtype", "_held", "_root", "_size")

    def __init__(self, given: Array) -> None:
        root = given
        while isinstance(root.base, np.ndarray):
            root = root.base
        alone = root.base is None and root is not given and type(root) is np.ndarray
        self._held = None if alone and root.flags.c_contiguous else given
        self._root = weakref.ref(root)
        self._at = given.ctypes.data - root.ctypes.data
        self._size, self._dtype = given.size, given.dtype

    def array(self, first: int = 0, step: int = 1) -> Array | None:
        """Each ``step``-th element from ``first`` on; None where nobody holds the array now."""
        if self._held is not None:
            return self._held[first::step]
        root, width = self._root(), self._dtype.itemsize
        if root is None:
            return None
        count = -(-(self._size - first) // step)
        return np.ndarray((count,), self._dtype, root, self._at + first * width, (step * width,))


_lenders: dict[int, tuple[weakref.ref[Array], Lender]] = {}


def private(given: Array) -> Array:
    """A copy that knows its lender as long as it lives."""
    held = np.array(given)
    held.setflags(False)  # type: ignore[call-arg]
    key = id(held)
    _lenders[key] = weakref.ref(held, partial(_forget, key)), Lender(given)
    return held


def _forget(key: int, _: object) -> None:
    _lenders.pop(key, None)


def lender(held: Array) -> Lender | None:
    """Of a private copy, whose it is."""
    found = _lenders.get(id(held))
    return found[1] if found is not None and found[0]() is held else None


class Watch:
    """A few elements of users' arrays, beside what private copies of them hold: the last one and
    others at equal distances."""

    __slots__ = ("_seen",)

    def __init__(self, copies: Iterable[tuple[Lender, Array]]) -> None:
        """Lenders with the copies."""
        self._seen: list[tuple[Lender, int, int, bytes]] = []
        for given, held in copies:
            if held.size:
                step = max(held.size // WATCHED_ELEMENTS, 1)
                first = (held.size - 1) % step
                self._seen.append((given, first, step, held[first::step].tobytes()))

    def differs(self) -> bool:
        """Whether one of them is another now."""
        for given, first, step, before in self._seen:
            part = given.array(first, step)
            if part is not None and part.tobytes() != before:
                return True
        return False
