"""Running compiled kernels: their arguments, the call itself, and where the code is kept."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from tensorel.base.forks import renewed
from tensorel.errors import EngineError
from tensorel.kernels.llvm.bounds_checks import Report
from tensorel.kernels.llvm.module import emit
from tensorel.kernels.loopir.statements import Kernel, Status
from tensorel.kernels.runtime import compiler, kernel_cache
from tensorel.kernels.runtime.buffers import Control, GrowBuffer
from tensorel.kernels.runtime.object_code import LoadedObject
from tensorel.kernels.runtime.python_pool import run_ranges

Array = np.ndarray[Any, np.dtype[Any]]
K = TypeVar("K")
V = TypeVar("V")
_STATUSES = tuple(Status)
_OUTSIDE = Status.OUT_OF_BOUNDS
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong,
    ctypes.c_longlong, ctypes.c_void_p,
)
#: Compiled kernels of this process by effort, their text and the dtypes of their parameters, which
#: the text shows only in part; the oldest leave first.
compiled_kernels: dict[tuple[str, ...], CompiledKernel] = {}
loaded_objects: dict[tuple[str, str], LoadedObject] = {}
_MAX_KEPT_KERNELS = 4096
#: How a scalar of a kind lies in its slots.
_SLOTS = {"b": "q", "i": "q", "u": "Q", "f": "d", "c": "dd"}


_PAIR = struct.Struct("2q")
_HEADER = object.__basicsize__
_read_pointer = ctypes.c_size_t.from_address


def _pointers_by_layout(arrays: Sequence[Array]) -> list[int]:
    """Data pointers, read from the field that follows the object header in NumPy's C struct."""
    return [_read_pointer(id(a) + _HEADER).value for a in arrays]


def _pointers_by_name(arrays: Sequence[Array]) -> list[int]:
    return [a.ctypes.data for a in arrays]


def _choose_pointers() -> Callable[[Sequence[Array]], list[int]]:
    """The quick way (six times as quick) where it gives what NumPy says."""
    if sys.implementation.name == "cpython":
        sample = [np.zeros(3), np.arange(8)[2:]]
        if _pointers_by_layout(sample) == _pointers_by_name(sample):
            return _pointers_by_layout
    return _pointers_by_name


#: Where the data of arrays lie, for as long as these live.
pointers = _choose_pointers()


def _bytes_by_name(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _choose_bytes() -> Callable[[bytes], int]:
    """Bytes lie at the end of their object, where that is so."""
    behind = bytes.__basicsize__ - 1
    samples = (b"tensorel", bytes(1000))
    if sys.implementation.name == "cpython" and all(
            id(data) + behind == _bytes_by_name(data) for data in samples):
        return lambda data: id(data) + behind
    return _bytes_by_name


#: Where bytes lie, for as long as they live.
bytes_address = _choose_bytes()


class Call:
    """A kernel with its arguments, to be run on one range after another."""

    __slots__ = ("_arrays", "_buffers", "_function", "_keep", "_scalars")

    def __init__(
        self, kernel: CompiledKernel, arrays: Sequence[Array], buffers: Sequence[GrowBuffer],
        scalars: Sequence[object],
    ) -> None:
        self._function = kernel.function
        self._keep = (kernel, tuple(arrays), tuple(buffers))
        self._arrays = kernel.array_table.pack(*kernel.table(arrays))
        self._buffers = kernel.buffer_table.pack(*[b.address for b in buffers])
        self._scalars = kernel.pack(scalars)

    @property
    def kernel(self) -> CompiledKernel:
        return self._keep[0]

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of the tables of arrays, buffers and scalars, for as long as this object lives."""
        return (bytes_address(self._arrays), bytes_address(self._buffers),
                bytes_address(self._scalars))

    def __call__(self, lo: int, hi: int, control: Control) -> Status:
        """Run on the range [lo, hi) in this thread; other Python threads go on meanwhile."""
        code: int = self._function(
            self._arrays, self._buffers, self._scalars, lo, hi, control.address
        )
        return _STATUSES[code] if code < _OUTSIDE else self.kernel.verdict(_OUTSIDE)


class CompiledKernel:
    """A kernel in machine code. ``report``: of a checked one."""

    def __init__(self, kernel: Kernel, code: LoadedObject, report: Report | None = None) -> None:
        self.name = kernel.name
        self.code = code
        self.report = report
        self.function = _PROTOTYPE(code.address)
        self.table: Callable[[Sequence[Array]], list[int]] = pointers
        self.array_table = struct.Struct("P" * len(kernel.arrays))
        if report is not None:
            self.table = self._checked_table
            self.array_table = struct.Struct("P" * (2 * len(kernel.arrays) + 1))
        self.buffer_table = struct.Struct("P" * len(kernel.buffers))
        self._array_dtypes = tuple(a.dtype for a in kernel.arrays)
        self._written = tuple(str(a.data) in kernel.written for a in kernel.arrays)
        self._buffer_dtypes = tuple(b.dtype for b in kernel.buffers)
        ends = np.cumsum([len(t) for t in kernel.tables]).tolist()
        self._tables = [slice(e - len(t), e) for t, e in zip(kernel.tables, ends)]
        self._scalar_kinds = "".join(s.dtype.kind for s in kernel.scalars)
        self._counts = (len(kernel.arrays), len(kernel.buffers), len(kernel.scalars))
        self._scalar_table = struct.Struct("".join(map(_SLOTS.__getitem__, self._scalar_kinds)))

    def bind(
        self, arrays: Sequence[Array], buffers: Sequence[GrowBuffer] = (),
        scalars: Sequence[object] = (),
    ) -> Call:
        """Check the arguments and fix them, for calls on many ranges.

        The arrays that the kernel writes must not overlap others."""
        self._check(arrays, buffers, scalars)
        return Call(self, arrays, buffers, scalars)

    def run(
        self, arrays: Sequence[Array], buffers: Sequence[GrowBuffer], scalars: Sequence[object],
        lo: int, hi: int, control: Control,
    ) -> Status:
        """Run on the range [lo, hi) in this thread; other Python threads go on meanwhile."""
        return self.bind(arrays, buffers, scalars)(lo, hi, control)

    def whole(self, table: Sequence[int], scalars: bytes, extent: bytes,
              control: Control) -> Status:
        """Run in this thread on a range (two int64), with arrays at these addresses, which have
        been checked before."""
        lo, hi = _PAIR.unpack(extent)
        code: int = self.function(
            self.array_table.pack(*table), b"", scalars, lo, hi, control.address)
        return self.verdict(_STATUSES[code])

    def _checked_table(self, arrays: Sequence[Array]) -> list[int]:
        """Addresses, lengths, and where to report."""
        assert self.report is not None
        return [*pointers(arrays), *[a.size for a in arrays], self.report.address]

    def verdict(self, status: Status) -> Status:
        """What a run gave; a position outside an array is an error wherever it comes to light."""
        if status is Status.OUT_OF_BOUNDS and self.report is not None:
            raise self.report.error()
        return status

    def _check(
        self, arrays: Sequence[Array], buffers: Sequence[GrowBuffer], scalars: Sequence[object]
    ) -> None:
        counts = (len(arrays), len(buffers), len(scalars))
        if counts != self._counts:
            raise EngineError(
                f"kernel {self.name} takes (arrays, buffers, scalars) {self._counts}, not {counts}"
            )
        for array, dtype, written in zip(arrays, self._array_dtypes, self._written):
            flags = array.flags
            if array.dtype != dtype or not (flags.c_contiguous and flags.aligned):
                raise EngineError(
                    f"kernel {self.name} takes a contiguous array of {dtype.name}, "
                    f"not one of {array.dtype.name} with strides {array.strides}"
                )
            if written and not flags.writeable:
                raise EngineError(f"kernel {self.name} cannot write to a read-only array")
        for buffer, dtype in zip(buffers, self._buffer_dtypes):
            if buffer.dtype != dtype:
                raise EngineError(f"kernel {self.name} takes a buffer of {dtype.name}")
        for part in self._tables:
            if len({(b.state[1], b.state[2]) for b in buffers[part]}) > 1:
                raise EngineError(f"kernel {self.name} takes buffers of a table that are alike")

    def pack(self, values: Sequence[object]) -> bytes:
        """Scalars in slots of eight bytes."""
        if not values:
            return b""
        slots: list[object] = []
        for value, kind in zip(values, self._scalar_kinds):
            if kind == "c":
                whole = complex(cast(Any, value))
                slots += (whole.real, whole.imag)
            else:
                slots.append(bool(value) if kind == "b" else value)
        return self._scalar_table.pack(*slots)


_lock = renewed(threading.Lock())


def compile(kernel: Kernel, strict: bool = False, disk: bool = True,
            effort: str = "full", checked: bool = False) -> CompiledKernel:
    """Machine code for a kernel: from this process, from the disk cache, or made now, with the
    effort "full" or "quick". Checked: a position outside an array is an EngineError."""
    text = emit(kernel, strict, checked)
    dtypes = [p.dtype.str for group in (kernel.arrays, kernel.buffers, kernel.scalars)
              for p in group]
    key = (effort, text, *dtypes)
    found = compiled_kernels.get(key)
    if found is None:
        code = load_text(text, disk, effort)
        report = Report(kernel) if checked else None
        found = _remember(compiled_kernels, key, CompiledKernel(kernel, code, report))
    return found


def is_compiled(kernel: Kernel, strict: bool, disk: bool, effort: str, checked: bool) -> bool:
    """Whether there is machine code for a kernel, in this process or on disk."""
    text = emit(kernel, strict, checked)
    return (effort, text) in loaded_objects or (
        disk and kernel_cache.load(kernel_cache.key(text, effort)) is not None)


def load_text(text: str, disk: bool, effort: str) -> LoadedObject:
    """The machine code of a module, whose entry is named ``kernel``."""
    made = (effort, text)
    return loaded_objects.get(made) or _remember(
        loaded_objects, made, compiler.load_object(_object(text, disk, effort)))


def _remember(table: dict[K, V], key: K, value: V) -> V:
    with _lock:
        while len(table) >= _MAX_KEPT_KERNELS:
            del table[next(iter(table))]
        return table.setdefault(key, value)


def _object(text: str, disk: bool, effort: str) -> bytes:
    """Object code of a module."""
    if not disk:
        return compiler.compile_object(text, effort)
    name = kernel_cache.key(text, effort)
    code = kernel_cache.load(name)
    if code is None:
        code = compiler.compile_object(text, effort)
        kernel_cache.store(name, code)
    return code


__all__ = ["Call", "CompiledKernel", "Control", "GrowBuffer", "compile", "run_ranges"]
