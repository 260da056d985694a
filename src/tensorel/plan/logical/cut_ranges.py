"""A selection of a range is made before what it selects from.

``[i, j] -> where(2 <= i and i <= 6, sum(k) A[i, k] * B[k, j], 0)`` asks for five rows of the
product: these are a definition of their own, ``[i, j] -> sum(k) A[i + 2, k] * B[k, j]`` for five
values of i, and all that is known of slices holds of it. Formulas without sums need no such
definition: their loops visit what is stored, and the condition costs little. A sum over a range
of its index has so many terms, and a condition on other indices stands before the sum.
"""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.build import both, compare, int_value, minus, plus
from tensorel.ir.nodes import (
    Axis,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    const,
    is_same_literal,
)
from tensorel.ir.replacing import substitute
from tensorel.kernels.lowering.support import repeat_constant
from tensorel.plan.definitions import Definition, Program, inner_reductions, product_of

_TURNED = {ops.less: ops.greater, ops.less_equal: ops.greater_equal, ops.greater: ops.less,
           ops.greater_equal: ops.less_equal}
Bounds = dict[str, tuple[int, int]]
#: Longer axes are not cut: putting the rows back is a loop over all of the axis.
MAX_CUT_EXTENT = 2**27


def cut_ranges(program: Program) -> None:
    """Put the rows that are asked for in definitions of their own."""
    program.map_formulas(_cut)


def _cut(program: Program, d: Definition, lam: Lambda) -> list[Definition]:
    lam = Lambda(lam.axes, _summed(program, lam.body))
    if lam is not d.tensor:
        d = d.rewritten(lam)
    body = lam.body
    if not isinstance(body, Call) or body.op is not ops.where or not inner_reductions(body):
        return [d]
    condition, value, other = body.args
    if not isinstance(other, Const):
        return [d]
    bounds: Bounds = {a.name: (0, a.extent) for a in lam.axes}
    rest = [p for p in _conjuncts(condition) if not _narrows(p, bounds)]
    starts = {a.name: bounds[a.name][0] for a in lam.axes
              if bounds[a.name] != (0, a.extent)}
    if not starts or any(a.extent > MAX_CUT_EXTENT for a in lam.axes if a.name in starts):
        return [d]
    program.fire("cut-ranges: only the rows that are selected", len(starts))
    if any(low >= high for low, high in bounds.values()):
        return [d.rewritten(Lambda(lam.axes, other))]
    moved: dict[str, Expr] = {n: plus(Index(n), low) for n, low in starts.items()}
    asked = both(*rest)
    inside = value if asked is None else Call(ops.where, (asked, value, other))
    axes = tuple([Axis(a.name, bounds[a.name][1] - bounds[a.name][0]) for a in lam.axes])
    part = program.define(Lambda(axes, substitute(inside, moved)))
    there = both(*[c for n in starts for c in _within(Index(n), *bounds[n])])
    assert there is not None
    read = Read(part.source(), tuple([
        minus(Index(a.name), starts.get(a.name, 0)) for a in lam.axes]))
    return [part, d.rewritten(Lambda(lam.axes, Call(ops.where, (there, read, other))))]


def _summed(program: Program, body: Expr) -> Expr:
    """A sum of ``where(c, e, z)`` with the bounds in c of its indices as its own, if z adds
    nothing, and those of other indices before it."""
    if not isinstance(body, Reduce) or not isinstance(body.body, Call) \
            or body.body.op is not ops.where:
        return body
    condition, value, other = body.body.args
    if not isinstance(other, Const):
        return body
    identity = None if body.op.identity is None else body.op.identity(body.dtype)
    own: Bounds = {a.name: (0, a.extent) for a in body.axes}
    whole = dict(own)
    neutral = identity is not None and is_same_literal(const(identity, body.dtype), other)
    parts = _conjuncts(condition)
    before = [p for p in parts if p.free and p.free.isdisjoint(own) and _is_bound(p)]
    rest = [p for p in parts if p not in before and not (neutral and _narrows(p, own))]
    if len(rest) == len(parts) or any(low >= high for low, high in own.values()):
        return body
    program.fire("cut-ranges: only the terms that are selected")
    asked = both(*rest)
    inside = value if asked is None else Call(ops.where, (asked, value, other))
    moved = {n: plus(Index(n), low) for n, (low, _) in own.items() if own[n] != whole[n]}
    axes = tuple([Axis(n, high - low) for n, (low, high) in own.items()])
    found: Expr = Reduce(body.op, axes, substitute(inside, moved) if moved else inside)
    outside = both(*before)
    if outside is None:
        return found
    count = product_of(body.axes)
    return Call(ops.where, (outside, found, repeat_constant(body.op, other, count)))


def _is_bound(e: Expr) -> bool:
    """A comparison of one index with a number."""
    return len(e.free) == 1 and _narrows(e, dict.fromkeys(e.free, (0, 2 ** 60)))


def _within(index: Expr, low: int, high: int) -> list[Expr]:
    return [compare(ops.greater_equal, index, low), compare(ops.less, index, high)]


def _conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Call) and e.op in (ops.logical_and, ops.bitwise_and) \
            and e.dtype == ops.BOOL:
        return [p for a in e.args for p in _conjuncts(a)]
    return [e]


def _narrows(e: Expr, bounds: Bounds) -> bool:
    """Whether a condition is a bound of an axis; then it is kept in the bounds."""
    if not isinstance(e, Call) or e.op not in _TURNED:
        return False
    a, b = e.args
    op = e.op
    if not isinstance(a, Index):
        a, b, op = b, a, _TURNED[op]
    number = int_value(b)
    if not isinstance(a, Index) or number is None or a.name not in bounds:
        return False
    number = int(number)  # the plan is for this number
    low, high = bounds[a.name]
    if op in (ops.less, ops.less_equal):
        high = min(high, number + (op is ops.less_equal))
    else:
        low = max(low, number + (op is ops.greater))
    bounds[a.name] = low, max(low, high)
    return True
