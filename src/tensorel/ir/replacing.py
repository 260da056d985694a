"""Expressions with other indices, and programs with other tensors, in place of some of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from tensorel.algebra.ops import Operator, add, multiply, subtract
from tensorel.ir.nodes import (
    INT64,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Tensor,
    children,
    const,
)


def with_parts(e: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """``e`` with what ``change`` gives for each expression directly below; tensors stay. Where
    nothing changes it is ``e`` itself."""
    match e:
        case Call():
            return Call(e.op, tuple(map(change, e.args)))
        case Read():
            return Read(e.tensor, tuple(map(change, e.indices)))
        case Reduce():
            return Reduce(e.op, e.axes, change(e.body))
        case _:
            return e


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expr`` with free indices replaced. Bound names must not clash with free names of values.

    Lambdas are closed, so substitution never enters a tensor.
    """
    apart = values.keys().isdisjoint
    if apart(expr.free):
        return expr
    memo: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            match e:
                case Index():
                    found = values[e.name]
                case Read():
                    found = Read(e.tensor, tuple([
                        i if apart(i.free) else go(i) for i in e.indices]))
                case Call():
                    args = tuple([a if apart(a.free) else go(a) for a in e.args])
                    found = Call(e.op, args) if e.dtype is not INT64 else _moved(e.op, args)
                case _:
                    found = with_parts(e, go)
            memo[e] = found
        return found

    return go(expr)


def _moved(op: Operator, args: tuple[Expr, ...]) -> Expr:
    """``op(args)``; of places that are moved and scaled again and again by constants, k*x + b:
    slices of slices read as one does, and ways to the same place are the same formula."""
    found = _move(op, args)
    if found is None or not _is_moved(found[1]):
        return Call(op, args)
    k, x, b = found
    while type(x) is Call and x.dtype is INT64:
        below = _move(x.op, x.args)
        if below is None:
            break
        k, x, b = k * below[0], below[1], b + k * below[2]
    if not all(c >= -(2**63) and c < 2**63 for c in (k, b)):
        return Call(op, args)
    if k == -1:
        return Call(subtract, (const(b, INT64), x))
    if k == 1:
        return Call(add, (x, const(b, INT64))) if b else x
    scaled = Call(multiply, (const(k, INT64), x))
    return Call(add, (const(b, INT64), scaled)) if b else scaled


def _is_moved(e: Expr) -> bool:
    return type(e) is Call and e.dtype is INT64 and _move(e.op, e.args) is not None


def _move(op: Operator, args: tuple[Expr, ...]) -> tuple[int, Expr, int] | None:
    """k, x and b of k*x + b in one step; None of others."""
    if op is add or op is subtract or op is multiply:
        a, b = args
        if isinstance(b, Const) and b.dtype is INT64:
            by = b.value.item()
            return (by, a, 0) if op is multiply else (1, a, by if op is add else -by)
        if isinstance(a, Const) and a.dtype is INT64:
            by = a.value.item()
            return (by, b, 0) if op is multiply else (1 if op is add else -1, b, by)
    return None


_NONE: Mapping[Tensor, Tensor] = {}


def replaced(roots: Sequence[Tensor], instead: Mapping[Tensor, Tensor],
             first: Mapping[Tensor, Tensor] = _NONE) -> list[Tensor]:
    """The roots with ``instead`` in place of some tensors, at any depth; what is ``first`` put in
    their place has some replaced itself. Iterative, as programs are long chains of tensors."""
    replacer = _Replacer(instead, first)
    return [replacer.tensor(r) for r in roots]


class _Replacer:
    __slots__ = ("exprs", "first", "tensors")

    def __init__(self, instead: Mapping[Tensor, Tensor], first: Mapping[Tensor, Tensor]) -> None:
        self.tensors, self.first = dict(instead), first
        self.exprs: dict[Expr, Expr] = {}

    def tensor(self, root: Tensor) -> Tensor:
        done, stack = self.tensors, [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            now = self.first.get(node, node)
            below = now.body.reads if isinstance(now, Lambda) else children(now)
            missing = [cast(Tensor, t) for t in below if t not in done]
            if missing:
                stack.extend(reversed(missing))
            elif isinstance(now, Lambda):
                done[node] = Lambda(now.axes, self._expr(now.body))
            elif isinstance(now, Bulk):
                done[node] = Bulk(now.op, tuple([done[t] for t in now.args]), now.params)
            else:
                done[node] = now
        return done[root]

    def _expr(self, e: Expr) -> Expr:
        """An expression whose tensors are done."""
        if not e.reads:
            return e
        found = self.exprs.get(e)
        if found is None:
            if isinstance(e, Read):
                found = Read(self.tensors[e.tensor], tuple(map(self._expr, e.indices)))
            else:
                found = with_parts(e, self._expr)
            self.exprs[e] = found
        return found
