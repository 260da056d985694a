"""Dense arrays of other libraries through DLPack, in the same memory (CPU only)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorel.errors import TypeError_
from tensorel.storage.convert import from_dense
from tensorel.storage.lending import lend
from tensorel.storage.stored import Stored


def from_dlpack(x: Any) -> Stored:
    """A stored tensor over the memory of an object with ``__dlpack__``.

    >>> from_dlpack(np.ones((2, 3))).shape
    (2, 3)
    """
    try:
        array = np.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError_(
            f"this {type(x).__name__} cannot be read through DLPack: {error}",
            hint="move it to the CPU and detach it first",
        ) from error
    return from_dense(lend(array))
