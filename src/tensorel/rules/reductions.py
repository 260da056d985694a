"""Reductions: into sums, out of products, merged, repeated.

An expression crosses a binder only if none of the bound indices is free in it. Products cross a
reduction only over axes that are not empty: a*0 is not 0 for every float a.
"""

from __future__ import annotations

from math import prod

from tensorel.algebra import ops
from tensorel.ir.build import repeated
from tensorel.ir.nodes import Axis, Expr, Index
from tensorel.ir.replacing import substitute
from tensorel.rewrite.engine import EXPLORE, Match, Op, Red, Rule, Var
from tensorel.rewrite.names import bound_names
from tensorel.rules.common import (
    A,
    Axes,
    B,
    N,
    axes,
    below,
    call,
    dtype,
    ex,
    given,
    identity,
    literal,
    names,
    nonempty,
    one_dtype,
    op,
    over,
    reduce,
    semiring,
)
from tensorel.rules.table import declare


def _is_plain(m: ops.Operator) -> bool:
    return m.commutative


def _closed(m: Match) -> bool:
    """Whether the monoid stays in the dtype: ``any`` of integers does not."""
    d = dtype(m)
    return op(m, "m").resolve(d, d)[1] == d


def _moved(m: Match) -> Axes:
    """The axes that ``a`` does not depend on."""
    free = ex(m).free
    return tuple(x for x in axes(m) if x.name not in free)


def _can_pull_out(m: Match) -> bool:
    moved = _moved(m)
    return bool(moved) and nonempty(moved) and one_dtype(m, "a", "b") \
        and semiring(op(m), op(m, "m"), dtype(m))


def _pull_out(m: Match) -> Expr:
    moved = _moved(m)
    kept = tuple(x for x in axes(m) if x not in moved)
    monoid = op(m, "m")
    return reduce(monoid, kept, call(op(m), ex(m), reduce(monoid, moved, ex(m, "b"))))


def _can_pull_in(m: Match) -> bool:
    over = axes(m)
    return nonempty(over) and one_dtype(m, "a", "b") and names(over).isdisjoint(ex(m).free) \
        and semiring(op(m), op(m, "m"), dtype(m))


def _matched(m: Match) -> dict[str, str] | None:
    """How the axes of the second reduction are named in the first; None if they do not fit."""
    first, second = axes(m), axes(m, "other")
    if first == second:
        return {}
    if len(first) != len(second) or not names(first).isdisjoint(ex(m, "b").free):
        return None
    pairs = list(zip(sorted(first, key=_by_extent), sorted(second, key=_by_extent)))
    return {b.name: a.name for a, b in pairs} if all(
        a.extent == b.extent for a, b in pairs) else None


def _by_extent(a: Axis) -> tuple[int, str]:
    return a.extent, a.name


def _joined(m: Match, f: ops.Operator) -> Expr | None:
    """One reduction of f(a, b), with b's bound indices named as a's."""
    renamed = _matched(m)
    if renamed is None:
        return None
    b = ex(m, "b")
    if renamed:
        whole = given(m).expand(b)
        if not whole.free <= b.free or not bound_names(whole).isdisjoint(renamed.values()):
            return None
        b = substitute(whole, {old: Index(new) for old, new in renamed.items()})
    return reduce(op(m, "m"), axes(m), call(f, ex(m), b))


def _copies(m: Match) -> int:
    return prod([x.extent for x in _moved(m)])


def _without(m: Match) -> Expr:
    unused = _moved(m)
    return reduce(op(m, "m"), tuple(x for x in axes(m) if x not in unused), ex(m))


def _repeat(m: Match) -> Expr | None:
    return repeated(op(m, "m"), _without(m), _copies(m))


def _is_absent(m: Match) -> bool:
    """The literal is the identity of the monoid, and the condition is the same for all."""
    monoid = op(m, "m")
    return literal(m) is identity(monoid, dtype(m)) and one_dtype(m, "a") \
        and names(axes(m)).isdisjoint(ex(m, "p").free) and _closed(m)


P = Var("p")

declare(
    Rule("split reduction: sum(a + b) -> sum(a) + sum(b)",
         Red("m", "axes", Op("m", (A, B)), _is_plain),
         lambda m: call(op(m, "m"), reduce(op(m, "m"), axes(m), ex(m)),
                        reduce(op(m, "m"), axes(m), ex(m, "b"))),
         "a commutative monoid regroups", lambda m: one_dtype(m, "a", "b"), EXPLORE, True),
    Rule("join reductions: sum(a) + sum(b) -> sum(a + b)",
         Op("m", (Red("m", "axes", A), Red("m", "other", B)), _is_plain),
         lambda m: _joined(m, op(m, "m")), "a commutative monoid regroups",
         lambda m: one_dtype(m, "a", "b") and _matched(m) is not None, EXPLORE, True),
    Rule("split reduction: sum(a - b) -> sum(a) - sum(b)",
         Red(ops.add, "axes", Op(ops.subtract, (A, B))),
         lambda m: call(ops.subtract, reduce(ops.add, axes(m), ex(m)),
                        reduce(ops.add, axes(m), ex(m, "b"))),
         "a commutative group regroups", lambda m: one_dtype(m, "a", "b"), EXPLORE, True),
    Rule("join reductions: sum(a) - sum(b) -> sum(a - b)",
         Op(ops.subtract, (Red(ops.add, "axes", A), Red(ops.add, "other", B))),
         lambda m: _joined({**m, "m": ops.add}, ops.subtract), "a commutative group regroups",
         lambda m: one_dtype(m, "a", "b") and _matched(m) is not None, EXPLORE, True),
    Rule("pull out: sum(a*b) -> a*sum(b)",
         Red("m", "axes", Op("f", (A, B), under=below), _is_plain),
         _pull_out, "* distributes over the monoid", _can_pull_out, EXPLORE, True),
    Rule("pull in: a*sum(b) -> sum(a*b)",
         Op("f", (A, Red("m", "axes", B, _is_plain, over)), lambda f: bool(f.distributes_over)),
         lambda m: reduce(op(m, "m"), axes(m), call(op(m), ex(m), ex(m, "b"))),
         "* distributes over the monoid", _can_pull_in, EXPLORE, True),
    Rule("merge: sum(i, sum(j, a)) -> sum(i, j, a)",
         Red("m", "axes", Red("m", "other", A)),
         lambda m: reduce(op(m, "m"), axes(m) + axes(m, "other"), ex(m)),
         "the monoid is associative, so reductions nest",
         lambda m: names(axes(m)).isdisjoint(names(axes(m, "other"))), EXPLORE, True),
    Rule("repeat: sum(k in n, a) -> a*n, k not in a", Red("m", "axes", A, lambda m: not m.idempotent
                                                     and m.repeat is not None),
         _repeat, "n copies under the monoid are repeat(a, n)",
         lambda m: bool(_moved(m)) and 0 < _copies(m) < 2**31, EXPLORE, True),
    Rule("repeat: max(k in n, a) -> a, k not in a", Red("m", "axes", A, lambda m: m.idempotent),
         _without, "the monoid is idempotent",
         lambda m: bool(_moved(m)) and _copies(m) > 0 and _closed(m), EXPLORE),
    Rule("select: sum(where(p, a, 0)) -> where(p, sum(a), 0)",
         Red("m", "axes", Op(ops.where, (P, A, N))),
         lambda m: call(ops.where, ex(m, "p"), reduce(op(m, "m"), axes(m), ex(m)), literal(m)),
         "reducing copies of the identity gives the identity", _is_absent, EXPLORE),
    Rule("select: where(p, sum(a), 0) -> sum(where(p, a, 0))",
         Op(ops.where, (P, Red("m", "axes", A), N)),
         lambda m: reduce(op(m, "m"), axes(m), call(ops.where, ex(m, "p"), ex(m), literal(m))),
         "reducing copies of the identity gives the identity", _is_absent, EXPLORE),
    Rule("prod(exp(a)) -> exp(sum(a))", Red(ops.multiply, "axes", Op(ops.exp, (A,))),
         lambda m: call(ops.exp, reduce(ops.add, axes(m), ex(m))),
         "exp takes sums to products", lambda m: one_dtype(m, "a"), EXPLORE, True),
)
