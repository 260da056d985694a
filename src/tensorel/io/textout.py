"""Writing numbers as text, bit for bit: floats with the fewest digits that read back the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import numpy as np

from tensorel.io.npy import AnyArray
from tensorel.storage.coo import IndexArray

_CHUNK = 1 << 16


def write_entries(stream: IO[bytes], coords: Sequence[IndexArray], values: AnyArray) -> None:
    """One line per entry: coordinates from 1, then the value."""
    parts = [np.real(values), np.imag(values)] if values.dtype.kind == "c" else [values]
    floats = values.dtype.kind in "fc"
    wide = [p.astype(np.float64 if floats else p.dtype, copy=False) for p in parts]
    line = " ".join(["%d"] * len(coords) + ["%r" if floats else "%d"] * len(wide)) + "\n"
    for start in range(0, values.size, _CHUNK):
        stop = min(start + _CHUNK, values.size)
        fields = [(c[start:stop].astype(np.int64) + 1).tolist() for c in coords]
        fields += [w[start:stop].tolist() for w in wide]
        flat: list[object] = [None] * (len(fields) * (stop - start))
        for k, column in enumerate(fields):
            flat[k :: len(fields)] = column
        stream.write((line * (stop - start) % tuple(flat)).encode("ascii"))
