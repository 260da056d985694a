"""FROSTT's ``.tns`` and ``.tns.gz``: per line the coordinates of one entry, from 1, and its value.

Lines starting with ``#`` and blank lines are passed over. Values are float64. The shape is the one
given, or the one of a comment ``# shape 3 4 5`` before the first entry, as we write it, or the
largest index of each axis. Coordinates are never linearized, so extents of any size in any number
of axes are fine. Entries named twice are added up.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO

import numpy as np

from tensorel.errors import StorageError
from tensorel.io.text.mtx import check_zero_fill
from tensorel.io.text.reader import Progress, Text, index_width, open_text, read_entries
from tensorel.io.text.writer import write_entries
from tensorel.kernels.native.line_reader import Line
from tensorel.storage.convert import from_coo, to_coo
from tensorel.storage.format import FormatLike
from tensorel.storage.stored import Stored

_ANY_INDEX = 2**62
_RANK_LIMIT = 64


def _start(text: Text) -> tuple[int | None, tuple[int, ...] | None]:
    """The number of axes, from the first entry (None: no entry), and the shape of a comment."""
    shape = None
    while line := text.line():
        words = line.split()
        if not words:
            continue
        if words[0].startswith(b"#"):
            sizes = words[2:]
            if words[:2] == [b"#", b"shape"] and all(w.isdigit() and len(w) < 19 for w in sizes):
                shape = tuple(int(w) for w in sizes)
            continue
        text.unread(line)
        if not 2 <= len(words) <= _RANK_LIMIT + 1:
            raise text.fail(
                f"an entry has coordinates and a value; this line has {len(words)} words",
                text.lines + 1,
            )
        return len(words) - 1, shape
    return None, shape


def read_tns(
    path: str | os.PathLike[str], format: FormatLike | None = None,
    *, shape: Sequence[int] | None = None, progress: Progress | None = None,
) -> Stored:
    """The tensor in a FROSTT file; coo unless another format is asked for.

    >>> read_tns("t.tns", shape=(3, 4, 5)).shape  # doctest: +SKIP
    (3, 4, 5)
    """
    with open_text(path) as text:
        rank, noted = _start(text)
        extents = noted if shape is None else tuple(int(n) for n in shape)
        if rank is None and extents is None:
            raise StorageError(
                f"{text.where} holds no entries, so its shape is unknown", hint="pass shape=..."
            )
        if extents is not None and rank is not None and len(extents) != rank:
            raise StorageError(
                f"{text.where}: entries have {rank} coordinates; the shape is {extents}"
            )
        if rank is None:
            assert extents is not None
            empty = [np.empty(0, index_width((n,))) for n in extents]
            return from_coo(empty, np.empty(0), extents, format=format or "coo")
        bounds = extents or (_ANY_INDEX,) * rank
        line = Line(rank, index_width(bounds), "real")
        found = read_entries(text, line, bounds, comment=b"#", progress=progress)
    made = extents or tuple(found.maxima)
    for axis, extent in enumerate(made):
        found.columns[axis] = found.columns[axis].astype(index_width((extent,)), copy=False)
    values = found.words.view(np.float64)
    return from_coo(found.columns, values, made, duplicates="sum", format=format or "coo")


def write_tns(stream: IO[bytes], stored: Stored, where: str) -> None:
    """Write the entries; the shape stands in a comment, for ``read_tns``."""
    if not stored.shape or stored.dtype.kind == "c":
        what = "a scalar" if not stored.shape else f"dtype {stored.dtype.name}"
        raise StorageError(f"{where}: .tns does not hold {what}", hint="write .npz")
    check_zero_fill(stored, where, ".tns")
    coo = to_coo(stored)
    stream.write(f"# shape {' '.join(map(str, stored.shape))}\n".encode())
    write_entries(stream, coo.coords, coo.values)
