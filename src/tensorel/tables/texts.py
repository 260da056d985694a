"""Texts in UTF-8 as Arrow lays them out: where each begins and ends in one run of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Text k is ``data[starts[k]:ends[k]]``. Arrow's offsets are both: ``starts = offsets[:-1]``,
    ``ends = offsets[1:]``. ``data`` may be a window over memory of which only these places are
    ours."""

    starts: Places
    ends: Places
    data: Bytes

    def __len__(self) -> int:
        return int(self.starts.size)

    def block(self, lo: int, hi: int) -> Texts:
        """The texts [lo, hi), on the same bytes."""
        return Texts(self.starts[lo:hi], self.ends[lo:hi], self.data)

    def take(self, positions: npt.NDArray[np.integer[Any]]) -> Texts:
        """The texts at these positions, in bytes of their own, without gaps."""
        starts = self.starts[positions].astype(np.int64)
        lengths = self.ends[positions].astype(np.int64) - starts
        stops = np.cumsum(lengths)
        total = int(stops[-1]) if stops.size else 0
        # Byte p of the result is p - (where its text begins) + (where the text began).
        shift = np.repeat(starts - (stops - lengths), lengths)
        shift += np.arange(total)
        return Texts(stops - lengths, stops, self.data[shift])

    @property
    def nbytes(self) -> int:
        """Bytes of the texts and of their places."""
        return int((self.ends - self.starts).sum()) + self.starts.nbytes + self.ends.nbytes

    def tolist(self) -> list[str]:
        """The texts as Python has them."""
        own = self.take(np.arange(len(self)))
        raw = own.data.tobytes()
        return [raw[a:b].decode() for a, b in zip(own.starts.tolist(), own.ends.tolist())]

    @staticmethod
    def joined(parts: Sequence[Texts]) -> Texts:
        """The texts of several, one after the other."""
        own = [p.take(np.arange(len(p))) for p in parts]
        begins = np.cumsum([0, *(p.data.size for p in own)])
        ends = np.concatenate([p.ends + b for p, b in zip(own, begins)] or [np.empty(0, np.int64)])
        starts = np.concatenate(
            [p.starts + b for p, b in zip(own, begins)] or [np.empty(0, np.int64)])
        return Texts(starts, ends, np.concatenate(
            [p.data for p in own] or [np.empty(0, np.uint8)]))

    @staticmethod
    def of(texts: Iterable[str]) -> Texts:
        """The texts of a Python list."""
        parts = [t.encode() for t in texts]
        ends = np.cumsum(np.array([len(p) for p in parts], np.int64))
        starts = np.concatenate((np.zeros(min(ends.size, 1), np.int64), ends[:-1]))
        return Texts(starts, ends, np.frombuffer(b"".join(parts), np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Texts in Arrow's layout of views: of each its length, and then the text itself (up to 12
    bytes), or its first four bytes, the number of a buffer, and where it begins there. ``words``
    has four numbers a text; ``data`` is a window over the views and all buffers, in which buffer k
    begins at ``begins[k]`` and the views at ``own``."""

    words: npt.NDArray[np.int32]
    begins: npt.NDArray[np.int64]
    own: int
    data: Bytes

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def block(self, lo: int, hi: int) -> Texts:
        """The texts [lo, hi), on the same bytes."""
        words = self.words[lo:hi]
        lengths = words[:, 0].astype(np.int64)
        starts = np.arange(lo, hi, dtype=np.int64) * 16 + (self.own + 4)
        far = np.flatnonzero(lengths > 12)
        starts[far] = self.begins.take(words[far, 2], mode="clip") + words[far, 3]
        return Texts(starts, starts + lengths, self.data)


AnyTexts = Texts | Views
