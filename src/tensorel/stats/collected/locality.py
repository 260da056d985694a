"""How far the coordinates of neighbouring entries lie apart.

Who reads the rows of another tensor at these coordinates finds them in the caches if they are few:
in banded matrices and meshes, entries that are stored together point to the same few rows."""

from __future__ import annotations

import math

import numpy as np

from tensorel.storage.levels import Compressed, Listed
from tensorel.storage.stored import Stored

#: Entries looked at together, and how often: some microseconds.
STRETCH_ENTRIES, MAX_STRETCHES = 1024, 9


def locality_of(stored: Stored) -> float:
    """Coordinates of the last level between the smallest and the largest of a stretch of entries,
    for half of the stretches; infinite where the level has no list of coordinates."""
    levels = stored.format.levels
    if not levels or not isinstance(levels[-1], (Compressed, Listed)):
        return math.inf
    idx = stored.arrays[f"idx{levels[-1].depth}"][: stored.count]
    if idx.size == 0:
        return 0.0
    size = min(STRETCH_ENTRIES, idx.size)
    starts = np.linspace(0, idx.size - size, MAX_STRETCHES).astype(np.int64).tolist()
    return float(np.median([np.ptp(idx[at : at + size]) for at in starts])) + 1.0
