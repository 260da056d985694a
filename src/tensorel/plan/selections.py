"""Selections pass through operators on whole tensors.

``sort``, ``topk``, ``cumulative_sum`` and ``argmax`` along an axis treat each fibre along it by
itself, so asking for some fibres of the result asks for the same fibres of the operand:
``topk(U @ V.T, 10)[users]`` ranks the rows of those users alone, and the product is made for them
alone. Formulas need no such rule: reading them at other indices is substitution.
"""

from __future__ import annotations

from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Tensor,
    postorder,
)
from tensorel.plan.definitions import product_of

#: Operators along an axis, with the place of the axis among their parameters.
ALONG = {"sort": 0, "argsort": 0, "cumulative_sum": 0, "cumulative_prod": 0,
         "topk_values": 1, "topk_indices": 1}
#: The same for those that leave the axis out.
OVER = {"argmin": 0, "argmax": 0}
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
    return rebuilt(roots, found) if found else None


def _below(lam: Lambda, read: Read, bulk: Bulk) -> Bulk | None:
    """``[axes] -> op(x)[indices]`` as ``op([axes'] -> x[indices'])``."""
    place = ALONG.get(bulk.op, OVER.get(bulk.op))
    axis = None if place is None else bulk.params[place]
    if not isinstance(axis, int) or product_of(lam.axes) >= _size(bulk):
        return None
    assert place is not None
    (x,) = bulk.args
    if bulk.op in OVER:
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
    params = tuple(at if k == place else p for k, p in enumerate(bulk.params))
    return Bulk(bulk.op, (Lambda(axes, Read(x, indices)),), params, lam.shape, bulk.dtype)


def _size(t: Tensor) -> int:
    size = 1
    for n in t.shape:
        size *= n
    return size


def rebuilt(roots: list[Tensor], instead: dict[Tensor, Tensor]) -> list[Tensor]:
    """The roots with some tensors replaced, at any depth; also inside what replaces them."""
    tensors: dict[Tensor, Tensor] = {}
    exprs: dict[Expr, Expr] = {}

    def tensor(t: Tensor) -> Tensor:
        found = tensors.get(t)
        if found is None:
            now = instead.get(t, t)
            match now:
                case Lambda():
                    found = Lambda(now.axes, expr(now.body))
                case Bulk():
                    found = Bulk(now.op, tuple(map(tensor, now.args)), now.params, now.shape,
                                 now.dtype)
                case _:
                    found = now
            tensors[t] = found
        return found

    def expr(e: Expr) -> Expr:
        found = exprs.get(e)
        if found is None:
            match e:
                case Read():
                    found = Read(tensor(e.tensor), tuple(map(expr, e.indices)))
                case Call():
                    found = Call(e.op, tuple(map(expr, e.args)))
                case Reduce():
                    found = Reduce(e.op, e.axes, expr(e.body))
                case _:
                    found = e
            exprs[e] = found
        return found

    return [tensor(t) for t in roots]
