"""Dense results that hold little: stored sparse, so that what follows is planned as sparse.

A program that is run again and again on its own results (a search along the edges of a graph)
turns dense when its estimate says so; formats of results are chosen from formats of operands, so
nothing would ever turn it back. A sample of the cells costs microseconds; all are counted only if
it finds few."""

from __future__ import annotations

import math

import numpy as np

from tensorel.costs import Costs
from tensorel.storage.convert import dense_view, to_format
from tensorel.storage.scalars import differs
from tensorel.storage.stored import Stored

SMALL = 4096  # a dense tensor of so few cells is quicker than any list
SAMPLE = 512
_FORMATS = {1: "coo", 2: "csr"}


def thinned(stored: Stored, costs: Costs) -> Stored:
    """The same tensor, sparse if few of its cells differ from the fill."""
    if math.prod(stored.shape) <= SMALL or len(stored.shape) not in _FORMATS:
        return stored
    if dense_view(stored) is None:
        return stored
    values = stored.arrays["val"]
    part = values[:: values.size // SAMPLE]
    if np.count_nonzero(differs(part, stored.fill)) > 2 * costs.thin * part.size:
        return stored
    if np.count_nonzero(differs(values, stored.fill)) > costs.thin * values.size:
        return stored
    return to_format(stored, _FORMATS[len(stored.shape)])
