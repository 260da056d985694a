"""The methods of tensors as relations of their entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensorel.front.array.base import Base
from tensorel.front.relations.aggregation import aggregate
from tensorel.front.relations.grouping import GroupBy, group_by
from tensorel.front.relations.join import cross, join
from tensorel.front.relations.selection import drop_empty, select

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


class Relations(Base):
    """The methods of this chapter: tensors as relations of coordinates and a value."""

    __slots__ = ()

    def select(self, predicate: str | Callable[..., Any]) -> Tensor:
        """The entries for which a predicate holds, and fill elsewhere; a text over ``rid``,
        ``cid``, ``i0``, ..., ``val``, or a function of the indices and the value, which is traced.
        An equality with a constant takes its axis away; of two equal axes the first stays.

        >>> import tensorel as tr
        >>> A = tr.asarray([[1, 5], [7, 2]])
        >>> A.select("val > 1").tolist(), A.select("rid = 1").tolist()
        ([[0, 5], [7, 2]], [7, 2])
        >>> A.select("rid = cid").tolist(), A.select(lambda i, j, v: (i < j) & (v > 1)).tolist()
        ([1, 2], [[0, 5], [0, 0]])
        """
        return select(self, predicate)

    def drop_empty(self, axis: int = 0) -> Tensor:
        """Without the rows (axis 0), columns (axis 1), ... whose cells are all fill; computes.

        >>> import tensorel as tr
        >>> tr.asarray([[0, 0], [0, 3]]).drop_empty(0).tolist()
        [[0, 3]]
        """
        return drop_empty(self, axis)

    def aggregate(self, fn: str, dim: object = "all") -> Tensor:
        """An aggregate of each row ("row"), column ("col"), the diagonal ("diag"), all cells
        ("all"), or over a tuple of axes. sum, mean, max, min, argmax, argmin, median and
        quantile(q) see every cell, nnz counts cells that are not zero, and count, avg,
        count_distinct, first and last see the entries: cells that differ from the fill.

        >>> import tensorel as tr
        >>> A = tr.asarray([[4, 0], [1, 3]])
        >>> A.aggregate("avg", "row").tolist(), A.aggregate("mean", "row").tolist()
        ([4.0, 2.0], [2.0, 2.0])
        """
        return aggregate(self, fn, dim)

    def group_by(self, keys: str | Sequence[str]) -> GroupBy:
        """The entries by groups: keys are axes or expressions of axes, such as "rid % 3". What
        ``.agg(fn, having=None)`` gives is a relation.

        >>> import tensorel as tr
        >>> tr.asarray([[4, 0], [1, 3]]).group_by("cid").agg("max").rows()
        [(0, 4), (1, 3)]
        """
        return group_by(self, keys)

    def join(self, other: object, on: str, merge: Callable[[Any, Any], Any],
             how: str = "inner") -> Tensor:
        """The pairs of entries of both tensors that meet a condition, merged. ``on``: comparisons
        joined by ``and``; the left side of each is of this tensor. The result has the axes of this
        tensor, then those of the other that no equality of dimensions matches. With ``how="left"``
        or ``"outer"`` (overlays) the side that is missing enters ``merge`` as 0.

        >>> import tensorel as tr
        >>> A, B = tr.asarray([[1, 2], [0, 3]]), tr.asarray([[0, 5], [6, 0]])
        >>> A.join(B, "rid = rid and cid = cid", lambda x, y: x + y).tolist()
        [[0, 7], [0, 0]]
        >>> A.join(B, "rid = rid and cid = cid", lambda x, y: x + y, how="outer").tolist()
        [[1, 7], [6, 3]]
        """
        return join(self, other, on, merge, how)

    def cross(self, other: object, merge: Callable[[Any, Any], Any]) -> Tensor:
        """All pairs of entries, merged: the axes of this tensor, then those of the other.

        >>> import tensorel as tr
        >>> tr.asarray([1, 2]).cross([3, 4], lambda x, y: x * y).tolist()
        [[3, 4], [6, 8]]
        """
        return cross(self, other, merge)
