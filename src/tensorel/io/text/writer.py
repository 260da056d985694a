"""Writing numbers as text, bit for bit: floats with the fewest digits that read back the same.

Workers format chunks with a native kernel; the caller's thread writes them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import numpy.typing as npt

from tensorel import config
from tensorel.io.npy import AnyArray
from tensorel.io.text.pipelines import in_order
from tensorel.ir.nodes import DType
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.native.line_reader import Line
from tensorel.kernels.native.line_writer import COORDINATE, NUMBER, tables, writer
from tensorel.kernels.native.notation import compiled
from tensorel.kernels.runtime.compiled import Control
from tensorel.storage.entries import IndexArray

_CHUNK_LINES = 1 << 15


def kind_of(dtype: DType) -> str:
    """What the file says of values: numbers of no other kinds are written."""
    if dtype.kind in "fc":
        return "real" if dtype.kind == "f" else "complex"
    return "unsigned" if dtype == np.dtype("uint64") else "integer"


def _words(values: AnyArray, kind: str) -> npt.NDArray[np.uint64]:
    """The values as 64-bit words; a float32 becomes the float64 of equal value."""
    wide = {"real": "f8", "complex": "c16", "unsigned": "u8", "integer": "i8"}[kind]
    return np.ascontiguousarray(values, dtype=wide).view(np.uint64)


class _Chunks:
    """The lines of all entries, in pieces."""

    def __init__(self, coords: Sequence[IndexArray], values: AnyArray) -> None:
        self.values, self.coords, self.kind = values, coords, kind_of(values.dtype)
        width = np.dtype(np.result_type(*coords)) if coords else np.dtype(np.int32)
        self.line = Line(len(coords), width, self.kind)
        self.kernel = compiled(writer, self.line)
        self.control = Control(config.current().memory)

    def text(self, start: int) -> memoryview:
        stop = min(start + _CHUNK_LINES, self.values.size)
        line = self.line
        columns = [np.ascontiguousarray(c[start:stop], dtype=line.width) for c in self.coords]
        words = _words(self.values[start:stop], self.kind)
        room = (stop - start) * (COORDINATE * line.rank + NUMBER * line.words + 1)
        out, report = np.empty(room, np.uint8), np.zeros(1, np.int64)
        arrays = [out, *columns, words, report, *tables()]
        status = self.kernel.run(arrays, (), (room,), 0, stop - start, self.control)
        if status is Status.CANCELLED:
            raise KeyboardInterrupt
        return out[int(report[0]) :].data

    def run(self) -> Iterator[memoryview]:
        starts = range(0, self.values.size, _CHUNK_LINES)
        workers = config.current().workers
        if len(starts) < 2 or workers == 1:
            yield from map(self.text, starts)
            return
        yield from in_order(self.text, starts, workers, self.control.cancel)


def write_entries(stream: IO[bytes], coords: Sequence[IndexArray], values: AnyArray) -> None:
    """One line per entry: coordinates from 1, then the value."""
    for piece in _Chunks(coords, values).run():
        stream.write(piece)
