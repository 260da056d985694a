"""One spelling for the names of indices."""

from __future__ import annotations

from functools import partial

from tensorel.ir.nodes import Axis, Expr, Index, Reduce, children
from tensorel.ir.replacing import with_parts


def canonical(axes: tuple[str, ...], body: Expr) -> Expr:
    """``body`` with the free indices ``axes`` named i0, i1, ... and summed ones r0, r1, ... by
    appearance, so that equal programs are one node. Summed indices have different names before."""
    names: dict[str, str] = {name: f"i{k}" for k, name in enumerate(axes)}
    stack: list[Expr] = [body]
    while stack:
        e = stack.pop()
        if isinstance(e, Reduce):
            for axis in e.axes:
                names.setdefault(axis.name, f"r{len(names) - len(axes)}")
        stack.extend(k for k in reversed(children(e)) if isinstance(k, Expr))
    return _renamed(body, names, {})


def _renamed(e: Expr, names: dict[str, str], memo: dict[Expr, Expr]) -> Expr:
    found = memo.get(e)
    if found is None:
        if isinstance(e, Index):
            found = Index(names.get(e.name, e.name))
        elif isinstance(e, Reduce):
            axes = tuple([Axis(names[a.name], a.extent) for a in e.axes])
            found = Reduce(e.op, axes, _renamed(e.body, names, memo))
        else:
            found = with_parts(e, partial(_renamed, names=names, memo=memo))
        memo[e] = found
    return found
