"""How many threads NumPy's matrix products take.

OpenBLAS wakes its own threads from a quarter of a million multiply-adds on, whatever
``tr.options(threads=...)`` says, and they go on looking for work afterwards, on cores that kernels
need then (docs/design/lowering.md). So beside kernels on several threads a product takes one, and a
large one is cut into parts for ours (``engines.in_process.blas_products``)."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable
from functools import cache

import numpy as np

from tensorel.base.forks import renewed

#: What builds of OpenBLAS call it: those in NumPy's wheels, those of distributions.
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads64_", "openblas_{}_num_threads")


@cache
def controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How to ask and how to set the number; None if NumPy uses another library."""
    name = "numpy._core._multiarray_umath" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" \
        else "numpy.core._multiarray_umath"
    try:  # a library shows what those that it needs have
        library = ctypes.CDLL(str(importlib.import_module(name).__file__))
    except (ImportError, OSError):
        return None
    for names in _NAMES:
        ask, tell = (getattr(library, names.format(verb), None) for verb in ("get", "set"))
        if ask is not None and tell is not None:
            ask.restype, ask.argtypes = ctypes.c_int, ()
            tell.restype, tell.argtypes = None, (ctypes.c_int,)
            return ask, tell
    return None


def is_controlled() -> bool:
    """Whether ``OneThread`` has an effect."""
    return controls() is not None


class OneThread:
    """Products inside take the thread that asks for them, no other. The number is one for the
    whole process: the first that comes changes it, the last that leaves puts it back."""

    _guard = renewed(threading.Lock())
    _inside = 0
    _before = 0

    def __enter__(self) -> None:
        functions = controls()
        if functions is not None:
            with OneThread._guard:
                if OneThread._inside == 0:
                    OneThread._before = functions[0]()
                    if OneThread._before > 1:
                        functions[1](1)
                OneThread._inside += 1

    def __exit__(self, *about: object) -> None:
        functions = controls()
        if functions is not None:
            with OneThread._guard:
                OneThread._inside -= 1
                if OneThread._inside == 0 and OneThread._before > 1:
                    functions[1](OneThread._before)

    @classmethod
    def _leave_all(cls) -> None:
        """A forked child has none of the threads that were inside."""
        functions = controls()
        if cls._inside and functions is not None:
            cls._inside = 0
            functions[1](cls._before)


os.register_at_fork(after_in_child=OneThread._leave_all)
