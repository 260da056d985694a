"""Addresses of the C functions that compiled kernels call."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from tensorel.errors import EngineError

#: Where to look when the process itself does not show a function.
_LIBRARIES = ("libm.so.6", "libc.so.6") if sys.platform == "linux" else ("libSystem.dylib",)


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = [ctypes.CDLL(None)]
    for name in _LIBRARIES:
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(found)


@cache
def address(name: str) -> int:
    """The address of a function of the C or math library.

    >>> address("exp") != 0
    True
    """
    for library in _libraries():
        try:
            function = getattr(library, name)
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise EngineError(
        f"the C library of this machine has no function {name}",
        hint="a glibc, musl or macOS system library with complex functions is needed",
    )


def libc() -> ctypes.CDLL:
    """The C library of the process: the one whose ``realloc`` kernels call."""
    return _libraries()[0]
