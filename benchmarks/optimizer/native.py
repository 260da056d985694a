"""The hand-written loops of ``loops.c``, compiled once per process and called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

_SOURCE = Path(__file__).with_name("loops.c")
_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | str:
    """The loaded loops, or why there are none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "no C compiler"
    with tempfile.TemporaryDirectory(prefix="tensorel-loops-") as folder:
        path = Path(folder) / "loops.so"
        command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"cc failed: {done.stderr.strip().splitlines()[-1]}"
        return ctypes.CDLL(str(path))


def missing() -> str:
    """Why the loops cannot run; empty when they can."""
    found = _library()
    return found if isinstance(found, str) else ""


def flags() -> str:
    return "cc " + " ".join(_FLAGS[:2])


def _converted(value: Any) -> Any:
    match value:
        case np.ndarray():
            assert value.flags.c_contiguous and value.dtype in (np.int32, np.float64)
            return ctypes.c_void_p(value.ctypes.data)
        case np.integer():
            return ctypes.c_int32(int(value))
        case int():
            return ctypes.c_int64(value)
        case _:
            return ctypes.c_double(value)


def loop(name: str, *args: Any, returns: Any = None) -> Callable[[], Any]:
    """A call of one loop with its arguments converted beforehand. An ndarray is passed by
    address, an int as int64, a NumPy integer as int32, a float as double."""
    library = _library()
    assert not isinstance(library, str), library
    function = getattr(library, name)
    function.restype = returns
    converted = [_converted(a) for a in args]

    def call() -> Any:
        return function(*converted)

    call.keeps = args  # type: ignore[attr-defined]  # the arrays behind the addresses
    return call


class Fresh:
    """Stands for the result among the arguments of a loop."""


OUT = Fresh()


def into(shape: int | tuple[int, ...], name: str, *args: Any) -> Callable[[], Any]:
    """A loop that fills its result, an array made anew in each call as every contestant does."""
    library = _library()
    assert not isinstance(library, str), library
    function = getattr(library, name)
    function.restype = None
    converted = [a if a is OUT else _converted(a) for a in args]

    def call() -> Any:
        out = np.empty(shape)
        function(*[_converted(out) if a is OUT else a for a in converted])
        return out

    call.keeps = args  # type: ignore[attr-defined]  # the arrays behind the addresses
    return call


def scalar(name: str, *args: Any) -> Callable[[], float]:
    """A loop that returns a double."""
    return loop(name, *args, returns=ctypes.c_double)


def counted(name: str, *args: Any) -> Callable[[], int]:
    """A loop that returns how many entries it wrote."""
    return loop(name, *args, returns=ctypes.c_int64)
