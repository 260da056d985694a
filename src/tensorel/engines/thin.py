"""Dense results that hold little: stored sparse, so that what follows is planned as sparse.

A program that is run again and again on its own results (a search along the edges of a graph)
turns dense when its estimate says so; formats of results are chosen from formats of operands, so
nothing would ever turn it back. A sample of the cells costs microseconds; all are counted only if
it finds few."""

from __future__ import annotations

import numpy as np

from tensorel.costs import Costs
from tensorel.storage.convert import dense_view, to_format
from tensorel.storage.scalars import differs
from tensorel.storage.stored import Stored

SMALL = 4096  # a dense tensor of so few cells is quicker than any list
SAMPLE = 20  # each is a line of memory that the kernel has just sent away
_FORMATS = {1: "coo", 2: "csr"}


def thinned(stored: Stored, costs: Costs) -> Stored:
    """The same dense tensor, sparse if few of its cells differ from the fill."""
    values = stored.arrays["val"]
    if values.size <= SMALL or len(stored.shape) not in _FORMATS:
        return stored
    part, fill = values[:: values.size // SAMPLE].tolist(), stored.fill.item()
    if fill == fill and len(part) - part.count(fill) > 2 * costs.thin * len(part):
        return stored
    if dense_view(stored) is None or _count(values, stored.fill) > costs.thin * values.size:
        return stored
    return to_format(stored, _FORMATS[len(stored.shape)])


def _count(values: np.ndarray, fill: np.generic) -> int:
    return int(np.count_nonzero(values if fill == 0 else differs(values, fill)))
