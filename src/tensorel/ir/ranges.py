"""Integer facts about index expressions: affine forms and intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tensorel.algebra import ops
from tensorel.ir.nodes import (
    INT64,
    Call,
    Const,
    DType,
    Expr,
    Index,
    Node,
    Operator,
    Reduce,
    children,
)


def subexpressions(*exprs: Expr) -> list[Expr]:
    """Every expression below, children first, without entering tensors."""
    seen: set[Node] = set()
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(e, False) for e in reversed(exprs)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            below = (k for k in reversed(children(node)) if isinstance(k, Expr))
            stack.extend((k, False) for k in below if k not in seen)
    return order


class Affine(NamedTuple):
    """``constant + sum(coefficients[i] * i)`` over index names."""

    coefficients: dict[str, int]
    constant: int


_WORD = 2**63


def is_affine(expr: Expr) -> Affine | None:
    """``expr`` as an integer affine form of its indices, or None if it is not one.

    >>> is_affine(Call(ops.add, (Index("i"), Index("i"))))
    Affine(coefficients={'i': 2}, constant=0)
    """
    facts: dict[Expr, Affine | None] = {}
    for e in subexpressions(expr):
        facts[e] = _affine_of(e, facts)
    found = facts[expr]
    if found is None or abs(found.constant) >= _WORD:
        return None
    return found if all(abs(c) < _WORD for c in found.coefficients.values()) else None


def _affine_of(e: Expr, facts: Mapping[Expr, Affine | None]) -> Affine | None:
    match e:
        case Index():
            return Affine({e.name: 1}, 0)
        case Const():
            return Affine({}, e.value.item()) if e.dtype.kind in "iu" else None
        case Call() if e.dtype == INT64:
            args = [facts[a] for a in e.args]
            known = [a for a in args if a is not None]
            return _affine_call(e.op, known) if len(known) == len(args) else None
        case _:
            return None


def _affine_call(op: Operator, args: list[Affine]) -> Affine | None:
    if op is ops.negative:
        return _scaled(args[0], -1)
    if op is ops.cast(INT64) or op is ops.positive:
        return args[0]
    if op is ops.add:
        return _sum(args[0], args[1])
    if op is ops.subtract:
        return _sum(args[0], _scaled(args[1], -1))
    if op is ops.multiply:
        left, right = args
        if not left.coefficients:
            return _scaled(right, left.constant)
        return _scaled(left, right.constant) if not right.coefficients else None
    return None


def _scaled(a: Affine, factor: int) -> Affine:
    scaled = {n: c * factor for n, c in a.coefficients.items() if c * factor}
    return Affine(scaled, a.constant * factor)


def _sum(a: Affine, b: Affine) -> Affine:
    merged = dict(a.coefficients)
    for name, c in b.coefficients.items():
        merged[name] = merged.get(name, 0) + c
    return Affine({n: c for n, c in merged.items() if c}, a.constant + b.constant)


# -- ranges ----------------------------------------------------------------------------------
Range = tuple[int, int]


def index_range(expr: Expr, extents: Mapping[str, int]) -> Range | None:
    """Bounds lo <= expr <= hi when each index i takes 0 .. extents[i]-1; None if unknown.

    An index of extent 0 takes no value, so every bound is right; it counts as extent 1.

    >>> index_range(Call(ops.subtract, (Index("i"), Index("j"))), {"i": 4, "j": 3})
    (-2, 3)
    """
    facts: dict[Expr, Range | None] = {}
    for e in subexpressions(expr):
        found = _range_of(e, extents, facts)
        limit = _dtype_range(e.dtype)
        if found is not None and limit is not None:  # beyond its dtype the value wraps around
            if found[0] < limit[0] or found[1] > limit[1]:
                found = limit
        facts[e] = found
    return facts[expr]


def _dtype_range(dtype: DType) -> Range | None:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return None


def _range_of(
    e: Expr, extents: Mapping[str, int], facts: Mapping[Expr, Range | None]
) -> Range | None:
    default = _dtype_range(e.dtype) if e.dtype.itemsize < 8 else None
    match e:
        case Index():
            known = e.name in extents
            return (0, max(extents[e.name] - 1, 0)) if known else default
        case Const():
            return (e.value.item(),) * 2 if e.dtype.kind in "biu" else None
        case Call() if e.dtype.kind in "biu":
            args = [facts[a] for a in e.args]
            rule = _RANGES.get(e.op)
            known_args = [a for a in args if a is not None]
            if e.op is ops.where:
                known_args, rule = [a for a in args[1:] if a is not None], _hull
                return rule(*known_args) if len(known_args) == 2 else default
            if e.op is ops.cast(e.dtype) and e.args[0].dtype.kind in "biu":
                rule = _hull
            if rule is None or len(known_args) < len(args):
                return default
            found = rule(*known_args)
            return default if found is None else found
        case Reduce() if e.op in (ops.minimum, ops.maximum) and all(a.extent for a in e.axes):
            inner = {a.name for a in e.axes}
            return facts[e.body] if inner.isdisjoint(e.body.free) else default
        case _:
            return default


def _hull(*args: Range) -> Range:
    return min(a[0] for a in args), max(a[1] for a in args)


def _corners(f: Callable[[int, int], int]) -> Callable[..., Range | None]:
    """Ranges of functions that are monotone in each argument: extremes lie at corners."""

    def rule(a: Range, b: Range) -> Range | None:
        values = [f(x, y) for x in a for y in b]
        return min(values), max(values)

    return rule


def _floor_divide(a: Range, b: Range) -> Range | None:
    if b[0] <= 0 <= b[1]:
        return None
    return _corners(lambda x, y: x // y)(a, b)


def _remainder(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1


def _absolute(a: Range) -> Range:
    low = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return low, max(abs(a[0]), abs(a[1]))


def _comparison(f: Callable[[Range, Range], bool | None]) -> Callable[..., Range | None]:
    def rule(a: Range, b: Range) -> Range:
        known = f(a, b)
        return (0, 1) if known is None else (int(known), int(known))

    return rule


def _less(a: Range, b: Range) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _equal(a: Range, b: Range) -> bool | None:
    if a[1] < b[0] or b[1] < a[0]:
        return False
    return True if a[0] == a[1] == b[0] == b[1] else None


def _negate(known: bool | None) -> bool | None:
    return None if known is None else not known


def _truth(a: Range) -> Range:
    return (0 if a[0] <= 0 <= a[1] else 1), (0 if a == (0, 0) else 1)


def _minmax(pick: Callable[[Iterable[int]], int]) -> Callable[..., Range | None]:
    return lambda a, b: (pick((a[0], b[0])), pick((a[1], b[1])))


def _and(a: Range, b: Range) -> Range | None:
    return (0, min(a[1], b[1])) if a[0] >= 0 and b[0] >= 0 else None


def _or(a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return max(a[0], b[0]), (1 << max(a[1], b[1]).bit_length()) - 1


def _right_shift(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x >> y)(a, b) if b[0] >= 0 and b[1] < 64 else None


def _left_shift(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x << y)(a, b) if b[0] >= 0 and b[1] < 64 else None


_RANGES: dict[Operator, Callable[..., Range | None]] = {
    ops.add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ops.subtract: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ops.multiply: _corners(lambda x, y: x * y),
    ops.floor_divide: _floor_divide,
    ops.remainder: _remainder,
    ops.negative: lambda a: (-a[1], -a[0]),
    ops.positive: lambda a: a,
    ops.absolute: _absolute,
    ops.minimum: _minmax(min),
    ops.maximum: _minmax(max),
    ops.less: _comparison(_less),
    ops.greater_equal: _comparison(lambda a, b: _negate(_less(a, b))),
    ops.greater: _comparison(lambda a, b: _less(b, a)),
    ops.less_equal: _comparison(lambda a, b: _negate(_less(b, a))),
    ops.equal: _comparison(_equal),
    ops.not_equal: _comparison(lambda a, b: _negate(_equal(a, b))),
    ops.logical_and: lambda a, b: _minmax(min)(_truth(a), _truth(b)),
    ops.logical_or: lambda a, b: _minmax(max)(_truth(a), _truth(b)),
    ops.logical_not: lambda a: (1 - _truth(a)[1], 1 - _truth(a)[0]),
    ops.bitwise_and: _and,
    ops.bitwise_or: _or,
    ops.bitwise_xor: lambda a, b: None if (h := _or(a, b)) is None else (0, h[1]),
    ops.right_shift: _right_shift,
    ops.left_shift: _left_shift,
}


# -- comparisons as bounds of sums ---------------------------------------------------------------
#: A sum of indices with their factors, of which the first by name is positive.
Linear = frozenset[tuple[str, int]]
#: The range of ``a - b`` where a comparison holds.
COMPARED: dict[Operator, tuple[int | None, int | None]] = {
    ops.less: (None, -1), ops.less_equal: (None, 0), ops.greater: (1, None),
    ops.greater_equal: (0, None), ops.equal: (0, 0),
}


def sum_bounds(guard: Expr) -> tuple[Linear, int | None, int | None] | None:
    """A sum of indices, and its bounds where a comparison holds.

    >>> sum_bounds(Call(ops.less, (Index("i"), const(3, INT64))))
    (frozenset({('i', 1)}), None, 2)
    """
    if not isinstance(guard, Call) or guard.op not in COMPARED or any(
            a.dtype != INT64 for a in guard.args):
        return None
    form = is_affine(Call(ops.subtract, guard.args))
    if form is None or not form.coefficients:
        return None
    least, most = COMPARED[guard.op]
    low = None if least is None else least - form.constant
    high = None if most is None else most - form.constant
    linear, sign = _linear(form)
    if sign < 0:
        low, high = None if high is None else -high, None if low is None else -low
    return linear, low, high


def _linear(form: Affine) -> tuple[Linear, int]:
    sign = 1 if form.coefficients[min(form.coefficients)] > 0 else -1
    return frozenset((n, sign * c) for n, c in form.coefficients.items()), sign


def bounded(e: Expr, known: Range, guards: Iterable[Expr]) -> Range:
    """The range of an expression that guards bound as a whole."""
    form = is_affine(e)
    if form is None or not form.coefficients:
        return known
    low, high = known
    linear, sign = _linear(form)
    for g in guards:
        found = sum_bounds(g)
        if found is None or found[0] != linear:
            continue
        _, least, most = found
        if sign < 0:
            least, most = None if most is None else -most, None if least is None else -least
        low = low if least is None else max(low, least + form.constant)
        high = high if most is None else min(high, most + form.constant)
    return low, high
