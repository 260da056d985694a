"""Formulas that reductions read in windows: each of their cells again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensorel.ir.nodes import Expr, Lambda, Read, Source, Tensor, is_gather, postorder, reads_in
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.definitions import inner_reductions

#: Times that windows read a cell, from which on it is computed once and stored.
MIN_REVISITS = 4


def revisited(lam: Lambda) -> Iterator[Tensor]:
    """Formulas over dense tensors that a reduction reads in windows: at sums of an index of the
    result and of one that is reduced, so that each cell is read as often as the window is large."""
    for r in inner_reductions(lam.body):
        extents = {a.name: a.extent for a in r.axes}
        for read in reads_in(r.body):
            tensor, indices = _through_views(read)
            mixed = set().union(*[i.free for i in indices if i.free - extents.keys()])
            times = math.prod([n for name, n in extents.items() if name in mixed])
            if isinstance(tensor, Lambda) and times >= MIN_REVISITS \
                    and not inner_reductions(tensor.body) and _is_dense(tensor):
                yield tensor


def _through_views(read: Read) -> tuple[Tensor, tuple[Expr, ...]]:
    """What is read in the end, and where, if what stands between only moves entries, to places
    that need not be looked up."""
    tensor, indices = read.tensor, read.indices
    while isinstance(tensor, Lambda) and isinstance(tensor.body, Read) \
            and not is_gather(tensor.body):
        by = {a.name: i for a, i in zip(tensor.axes, indices)}
        indices = tuple([substitute(i, by) for i in tensor.body.indices])
        tensor = tensor.body.tensor
    return tensor, indices


def _is_dense(tensor: Tensor) -> bool:
    """Whether all that it reads in the end is stored dense."""
    leaves = [t for t in postorder(tensor) if isinstance(t, Source)]
    return bool(leaves) and all(
        isinstance(t.data, Slot) and t.data.format.is_dense for t in leaves)
