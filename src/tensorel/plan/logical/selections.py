"""Selections pass through operators on whole tensors.

``sort``, ``topk``, ``cumulative_sum`` and ``argmax`` along an axis treat each fibre along it by
itself, so asking for some fibres of the result asks for the same fibres of the operand:
``topk(U @ V.T, 10)[users]`` ranks the rows of those users alone, and the product is made for them
alone. Formulas need no such rule: reading them at other indices is substitution.
"""

from __future__ import annotations

from math import prod

from tensorel.algebra import joins
from tensorel.algebra.bulk import join
from tensorel.ir.build import int_value
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Bulk,
    Expr,
    Index,
    Lambda,
    Read,
    Tensor,
    const,
    postorder,
)
from tensorel.ir.replacing import replaced
from tensorel.plan.definitions import product_of

FIBRE = "fibre"  # no index that a user or the front gives is called so


def push_selections(roots: list[Tensor]) -> list[Tensor] | None:
    """The tensors with selections moved below the operators they select from; None if there is
    none. An operator that others read as well stays where it is."""
    readers: dict[Tensor, int] = dict.fromkeys(roots, 2)
    found: dict[Tensor, Tensor] = {}
    nodes = list(postorder(*roots))
    for node in nodes:
        if isinstance(node, Bulk):
            for a in node.args:
                readers[a] = readers.get(a, 0) + 1
        elif isinstance(node, Read):
            readers[node.tensor] = readers.get(node.tensor, 0) + 1
    for node in nodes:
        if isinstance(node, Lambda) and isinstance(node.body, Read) \
                and isinstance(node.body.tensor, Bulk) and readers[node.body.tensor] == 1:
            pushed = _below(node, node.body, node.body.tensor)
            if pushed is not None:
                found[node] = pushed
    return replaced(roots, {}, found) if found else None


def _below(lam: Lambda, read: Read, bulk: Bulk) -> Bulk | None:
    """``[axes] -> op(x)[indices]`` as ``op([axes'] -> x[indices'])``."""
    if bulk.op is join:
        return _join_of_places(lam, read, bulk)
    axis = bulk.op.axis(bulk.params)
    if axis is None or product_of(lam.axes) >= prod(bulk.shape):
        return None
    x, *others = bulk.args
    if len(bulk.shape) < len(x.shape):  # the axis is left out
        at = len(lam.axes)
        axes = (*lam.axes, Axis(FIBRE, x.shape[axis]))
        indices = (*read.indices[:axis], Index(FIBRE), *read.indices[axis:])
    else:
        along = read.indices[axis]
        names = [a.name for a in lam.axes]
        if not isinstance(along, Index) or along.name not in names or any(
                along.name in i.free for k, i in enumerate(read.indices) if k != axis):
            return None
        at = names.index(along.name)
        if lam.axes[at].extent != bulk.shape[axis]:
            return None
        axes = tuple(Axis(a.name, x.shape[axis]) if k == at else a
                     for k, a in enumerate(lam.axes))
        indices = read.indices
    selected = Lambda(axes, Read(x, indices))
    return Bulk(bulk.op, (selected, *others), bulk.op.along(bulk.params, at))


def _join_of_places(lam: Lambda, read: Read, bulk: Bulk) -> Bulk | None:
    """A join read at fixed places of some axes, and as it is along the others: the operands are cut
    before. ``join(a, b)[5, i, j]`` joins the row 5 of a."""
    free = [e for e in read.indices if int_value(e) is None]
    if len(free) == len(read.indices) or [getattr(e, "name", None) for e in free] != [
            a.name for a in lam.axes]:
        return None
    a, b = bulk.args
    how: joins.Join = bulk.params[0]  # type: ignore[assignment]
    sides = [("a", k) for k in how.kept_of_a(len(a.shape))] + [("b", k) for k in how.kept]
    if [a_.extent for a_ in lam.axes] != [
            n for n, e in zip(bulk.shape, read.indices) if int_value(e) is None]:
        return None
    operands = {"a": a, "b": b}
    for (side, axis), e in reversed(list(zip(sides, read.indices))):
        place = int_value(e)
        if place is not None:
            place = int(place)  # the plan is for this number
            how = joins.fixed(how, side, axis, place)
            operands[side] = cut(operands[side], axis, place)
    return Bulk(join, (operands["a"], operands["b"]), (how,))


def cut(t: Tensor, axis: int, place: int) -> Lambda:
    """A tensor at a place of an axis."""
    axes = [Axis(f"i{k}", n) for k, n in enumerate(t.shape) if k != axis]
    at: list[Expr] = [Index(a.name) for a in axes]
    at.insert(axis, const(place, INT64))
    return Lambda(tuple(axes), Read(t, tuple(at)))
