"""Guards over integer data as reads of sparse matrices, which loops can walk and planners join.

    idx[e] == x                            P[e, x]    P: at each position of idx, its entry
    idx[e] == jdx[f]                       P[e, j] and Q[f, j], summed over a new index j
    pos[e] <= r and r < pos[e + 1]         S[e, r]    S: in each segment of pos, its positions

Without them a sum over positions compares at every point of the space of its indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tensorel.algebra import ops
from tensorel.ir.build import plus
from tensorel.ir.nodes import INT64, Call, Expr, Index, Read, Tensor
from tensorel.ir.ranges import Range

if TYPE_CHECKING:
    from tensorel.language.indices import Indices


class Data(Protocol):
    """What is known of the tensors that a program is given."""

    def entries(self, tensor: Tensor) -> Range | None:
        """The smallest and the largest entry of a tensor of integers, None if unknown."""

    def places(self, tensor: Tensor, extent: int) -> Tensor | None:
        """The matrix P[k, x] = (tensor[k] == x) with x < extent, None if it cannot be made."""

    def segments(self, tensor: Tensor, extent: int) -> Tensor | None:
        """The matrix S[k, r] = (tensor[k] <= r < tensor[k + 1]) with r < extent, or None."""


Joined = tuple[tuple[str, ...], tuple[Expr, ...], tuple[Expr, ...]]


def joined(indices: Indices, guards: tuple[Expr, ...]) -> Joined:
    """Guards that say the same: names of new indices to sum over, matrices, and the others."""
    over: list[str] = []
    matrices, rest = _segmented(indices, list(guards))
    found: list[Expr] = []
    for g in rest:
        new = _placed(indices, g)
        if new is None:
            found.append(g)
        else:
            over += new[0]
            matrices += new[1]
    return tuple(over), tuple(matrices), tuple(found)


def _read(e: Expr) -> Read | None:
    """The read of a vector that ``e`` is, seen through conversions to int64."""
    while isinstance(e, Call) and e.op is ops.cast(INT64):
        e = e.args[0]
    if isinstance(e, Read) and len(e.indices) == 1 and e.dtype.kind in "iu" and e.free:
        return e
    return None


def _placed(indices: Indices, g: Expr) -> tuple[list[str], list[Expr]] | None:
    if not isinstance(g, Call) or g.op is not ops.equal:
        return None
    a, b = (_read(x) for x in g.args)
    if a is not None and b is not None:
        first, second = indices.data.entries(a.tensor), indices.data.entries(b.tensor)
        if first is None or second is None or min(first[1], second[1]) < 0:
            return None
        key: Expr = indices.fresh(0, min(first[1], second[1]))
        both = [_place(indices, r, key) for r in (a, b)]
        return None if None in both else ([key.name], both)  # type: ignore[attr-defined, return-value]
    read, key = (a, g.args[1]) if a is not None else (b, g.args[0])
    if read is None or not isinstance(key, Index):
        return None
    one = _place(indices, read, key)
    return None if one is None else ([], [one])


def _place(indices: Indices, read: Read, key: Expr) -> Expr | None:
    known = indices.range_of(key)
    if known is None or known[0] < 0:
        return None
    matrix = indices.data.places(read.tensor, known[1] + 1)
    return None if matrix is None else Read(matrix, (read.indices[0], key))


def _segmented(indices: Indices, guards: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Pairs of comparisons with neighbours in a vector of positions as matrices; the others."""
    ends: dict[tuple[Tensor, Expr, Expr], Expr] = {}
    for g in guards:
        if isinstance(g, Call) and g.op is ops.less and (high := _read(g.args[1])) is not None:
            ends[high.tensor, high.indices[0], g.args[0]] = g
    matrices: list[Expr] = []
    for g in list(guards):
        if not isinstance(g, Call) or g.op is not ops.less_equal:
            continue
        low, r = _read(g.args[0]), g.args[1]
        known = indices.range_of(r) if isinstance(r, Index) else None
        if low is None or known is None or known[0] < 0:
            continue
        end = ends.get((low.tensor, plus(low.indices[0], 1), r))
        matrix = None if end is None else indices.data.segments(low.tensor, known[1] + 1)
        if matrix is not None:
            matrices.append(Read(matrix, (low.indices[0], r)))
            guards = [x for x in guards if x is not g and x is not end]
    return matrices, guards
