"""Names of bound indices: equal reductions get equal names, others names of their own."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.ir.nodes import Axis, Call, Expr, Index, Read, Reduce
from tensorel.ir.replacing import substitute

#: Starts the names that are in use while names change; no program has it.
MARK = "\0"


def rename_bound(e: Expr, prefix: str = "k") -> Expr:
    """``e`` with bound indices named ``k1, k2, ...`` by first appearance, children first. No name
    is bound twice, except by reductions that are equal up to names: these become one object.

    >>> from tensorel.ir.parser import parse
    >>> from tensorel.ir.printer import show
    >>> show(rename_bound(parse("(sum(a in 3) a * i) + (sum(b in 3) b * i) + (sum(a in 2) a)")))
    '(sum(k1 in 3) k1 * i) + (sum(k1 in 3) k1 * i) + (sum(k2 in 2) k2)'
    """
    names: dict[object, tuple[Axis, ...]] = {}
    memo: dict[Expr, Expr] = {}
    made: list[str] = []

    def fresh() -> str:
        made.append(f"{MARK}{len(made)}")
        return made[-1]

    def reduction(x: Reduce, body: Expr) -> Expr:
        marks = {a.name: Index(f"{MARK}{MARK}{n}") for n, a in enumerate(x.axes)}
        key = (x.op, tuple(a.extent for a in x.axes), substitute(body, marks))
        if key not in names:
            names[key] = tuple(Axis(fresh(), a.extent) for a in x.axes)
        axes = names[key]
        new = substitute(body, {old.name: Index(a.name) for old, a in zip(x.axes, axes)})
        return Reduce(x.op, axes, new)

    for x in postorder(e):
        match x:
            case Call():
                memo[x] = Call(x.op, tuple([memo[a] for a in x.args]))
            case Reduce():
                memo[x] = reduction(x, memo[x.body])
            case _:
                memo[x] = x
    count, final = 0, {}
    for mark in made:
        count += 1
        while f"{prefix}{count}" in e.free:
            count += 1
        final[mark] = f"{prefix}{count}"
    return relabel(memo[e], final)


def relabel(e: Expr, names: Mapping[str, str]) -> Expr:
    """``e`` with indices renamed wherever they stand, bound or free; names stay different."""
    memo: dict[Expr, Expr] = {}
    values: dict[str, Expr] = {old: Index(new) for old, new in names.items()}
    for x in postorder(e):
        match x:
            case Call():
                memo[x] = Call(x.op, tuple([memo[a] for a in x.args]))
            case Reduce():
                axes = tuple(Axis(names.get(a.name, a.name), a.extent) for a in x.axes)
                memo[x] = Reduce(x.op, axes, memo[x.body])
            case Read() | Index():
                memo[x] = substitute(x, values)
            case _:
                memo[x] = x
    return memo[e]


def bound_names(e: Expr) -> frozenset[str]:
    """The names that reductions below bind: no free index may get one of them."""
    if isinstance(e, Read):
        return frozenset()
    return frozenset(a.name for x in postorder(e) if isinstance(x, Reduce) for a in x.axes)


def postorder(e: Expr) -> list[Expr]:
    """Every expression below once, children first; reads are leaves."""
    done: dict[Expr, None] = {}
    stack = [e]
    while stack:
        x = stack[-1]
        below = x.args if isinstance(x, Call) else (x.body,) if isinstance(x, Reduce) else ()
        left = [k for k in below if k not in done]
        if left and x not in done:
            left.reverse()
            stack += left
        else:
            done[stack.pop()] = None
    return list(done)


__all__ = ["bound_names", "postorder", "relabel", "rename_bound"]
