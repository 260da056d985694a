"""Dense results with few entries are stored sparse, and programs over them planned so.

A program that runs on its own results (a search along the edges of a graph) turns dense once an
estimate is too high. Formats of results are chosen by those of operands, so it would stay dense for
ever. A sample of the cells is looked at first; all are counted only if few of these differ from the
fill."""

from __future__ import annotations

import numpy as np

from tensorel.costs import Costs
from tensorel.storage.convert import dense_view, to_format
from tensorel.storage.entries import differs
from tensorel.storage.stored import Stored

MAX_DENSE_CELLS = 4096  # a dense tensor of so few cells is quicker than any list
SAMPLED_CELLS = 20  # each costs a line of memory that is no longer in the caches
_FORMATS = {1: "coo", 2: "csr"}


def sparsified(stored: Stored, format: object, sparse: bool, costs: Costs) -> Stored:
    """The result, stored sparse if it is dense and few of its cells differ from the fill, for
    programs over ``sparse`` tensors whose result was not asked for in a ``format``."""
    if format is not None or not sparse or not stored.format.is_dense:
        return stored
    values = stored.values
    if values is None or values.size <= MAX_DENSE_CELLS or len(stored.shape) not in _FORMATS:
        return stored
    part, fill = values[:: values.size // SAMPLED_CELLS].tolist(), stored.fill.item()
    if fill == fill and len(part) - part.count(fill) > 2 * costs.sparsify * len(part):
        return stored
    if dense_view(stored) is None or _count(values, stored.fill) > costs.sparsify * values.size:
        return stored
    return to_format(stored, _FORMATS[len(stored.shape)])


def _count(values: np.ndarray, fill: np.generic) -> int:
    return int(np.count_nonzero(values if fill == 0 else differs(values, fill)))
