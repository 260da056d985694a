"""Loops whose index equations fix or comparisons bound: one step, or few, in place of all.

    out[k] = sum(i) where(f(i) == k and ..., x, 0)      at each i, k is f(i)
    out[k] = sum(i) where(2 * i == k, x[i], 0)           at each k, i is k / 2 if that is whole
    out[k] = sum(i) where(k <= i and i < k + 3, x[i], 0) at each k, i goes from k to k + 2

Law: where a test fails the body is the identity of the reduction (without one, the fill of
the result), so points that are not visited add nothing. A test says the index by others that
are bound further out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import minus
from tensorel.ir.nodes import Call, Const, Expr, const, is_same_literal
from tensorel.ir.ranges import is_affine
from tensorel.kernels.lowering.nest import Nest

#: ``a op b`` as ``factor * index OP value`` for a positive factor, and for a negative one.
_TURNED = {ops.equal: ops.equal, ops.less: ops.greater, ops.greater: ops.less,
           ops.less_equal: ops.greater_equal, ops.greater_equal: ops.less_equal}


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """``factor * index op value`` with a positive factor, as ``test`` says."""

    factor: int
    op: ops.Operator
    value: Expr
    test: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What tests say of one index."""

    found: tuple[Bound, ...] = ()

    def fixed(self, known: Container[str]) -> Bound | None:
        """The equation that says it by known indices, that of the least factor."""
        equations = [b for b in self.found if b.op is ops.equal and _is_known(b.value, known)]
        return min(equations, key=lambda b: b.factor) if equations else None

    def limits(self, known: Container[str]) -> list[Bound]:
        """The comparisons that bound it by known indices."""
        return [b for b in self.found if b.op is not ops.equal and b.factor == 1
                and _is_known(b.value, known)]

    def share(self, known: Container[str], extent: float) -> float:
        """How many of its values are expected: one of an equation, so many as lie between two
        bounds that are always as far apart, half of them below one that depends on others."""
        if self.fixed(known) is not None:
            return min(extent, 1.0)
        found = self.limits(known)
        least = extent
        for a in found:
            if a.op in (ops.greater, ops.greater_equal):
                for b in found:
                    form = is_affine(minus(b.value, a.value)) if b.op in (
                        ops.less, ops.less_equal) else None
                    if form is not None and not form.coefficients:
                        width = form.constant - (a.op is ops.greater) + (b.op is ops.less_equal)
                        least = min(least, max(float(width), 0.0))
        if least == extent and any(b.value.free for b in found):
            least = extent / 2.0
        return least


def _is_known(e: Expr, known: Container[str]) -> bool:
    return all(n in known for n in e.free)


NOTHING: Mapping[str, Bounds] = {}
TRUE = const(True)


def bounds_in(body: Expr, op: ops.Operator | None, fill: Const | None) -> Mapping[str, Bounds]:
    """For each index what tests say of it, by expressions of other indices."""
    if not isinstance(body, Call) or body.op is not ops.where:
        return NOTHING
    test, _, rest = body.args
    none = fill if op is None else None if op.identity is None else const(
        op.identity(body.dtype), body.dtype)
    if not isinstance(rest, Const) or not is_same_literal(rest, none):
        return NOTHING
    found: dict[str, list[Bound]] = {}
    for g in _conjuncts(test):
        if not isinstance(g, Call) or g.op not in _TURNED or any(
                a.dtype.kind != "i" for a in g.args):
            continue
        for name in sorted(g.free):
            left, right = (split_affine(a, name) for a in g.args)
            if left is None or right is None or left[0] == right[0]:
                continue
            factor = left[0] - right[0]
            one = Bound(factor, g.op, minus(right[1], left[1]), g) if factor > 0 else Bound(
                -factor, _TURNED[g.op], minus(left[1], right[1]), g)
            found.setdefault(name, []).append(one)
    return {name: Bounds(tuple(bounds)) for name, bounds in found.items()}


def bounds_of(nest: Nest) -> Mapping[str, Bounds]:
    """Those of a nest; none where points are counted that loops do not visit, nor of a dense tail,
    whose cells are written all or not at all."""
    if nest.counted or nest.everywhere or nest.whole_cells or nest.lets:
        return NOTHING
    found = bounds_in(nest.body, nest.op, nest.output.fill)
    if nest.output.dense_tail:
        found = {n: b for n, b in found.items() if n != nest.output.axes[-1]}
    return found


def decided(e: Call, sure: Container[Expr], value: Callable[[Expr], Expr]) -> Expr | None:
    """What an expression is where some tests surely hold, None if they do not decide it."""
    if e in sure:
        return TRUE
    if e.op is ops.where:
        return value(e.args[1]) if value(e.args[0]) is TRUE else None
    if e.op is not ops.logical_and:
        return None
    left = [v for v in map(value, e.args) if v is not TRUE]
    return None if len(left) == 2 else left[0] if left else TRUE


def _conjuncts(test: Expr) -> list[Expr]:
    if isinstance(test, Call) and test.op is ops.logical_and:
        return [c for a in test.args for c in _conjuncts(a)]
    return [test]
