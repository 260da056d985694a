"""Dictionaries as sums of terms over the calculus.

A term says ``sum over indices, where the guards hold, { k1 -> { k2 -> ... value } }``; a value of
SDQLite is a sum of terms. Reading it at a key adds the guard ``k1 == key``, and an equation that
can be solved for a summed index is: the index is replaced and what remains of it is the check of
its range. So a sum over a dictionary that was made by a sum is one sum, and a join of two keys is
one index: fusion by construction, with its preconditions written out as guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import as_expr, compare, convert, minus, plus
from tensorel.ir.nodes import (
    BOOL,
    Axis,
    Call,
    Const,
    DType,
    Expr,
    Index,
    Read,
    Reduce,
    children,
    const,
    rebuild,
    substitute,
)
from tensorel.ir.ranges import Range, index_range, is_affine
from tensorel.records import dataclass
from tensorel.sdql.joins import Data, joined
from tensorel.sdql.scalars import DTYPES, adder, call, zero_of

_FALSE, _TRUE = const(False, BOOL), const(True, BOOL)


@dataclass(frozen=True, slots=True)
class Term:
    """``over``: the summed indices, their ranges known to the Space. ``told``: for the first keys,
    whether the program says @unique of them."""

    over: tuple[str, ...]
    guards: tuple[Expr, ...]
    keys: tuple[Expr, ...]
    value: Expr
    told: tuple[bool, ...] = ()

    @property
    def distinct(self) -> bool:
        """Other values of the summed indices have other keys: each is a key, or a key that is
        unique is made of it."""
        known = {k.name for k in self.keys if isinstance(k, Index)}
        return known.union(*[k.free for k, told in zip(self.keys, self.told) if told]).issuperset(
            self.over)


@dataclass(frozen=True, slots=True)
class Domain:
    """The positions low <= k < high of a total dictionary, none unless the guards hold."""

    low: Expr
    high: Expr
    guards: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A value of SDQLite. Terms of a total one say its values inside the domain only. Keys are
    below the ``extents``, where these are declared."""

    kind: str
    depth: int
    terms: tuple[Term, ...]
    domain: Domain | None = None
    extents: tuple[int, ...] = ()


def scalar(e: Expr, kind: str) -> Value:
    return Value(kind, 0, (Term((), (), (), e),))


class Space:
    """The indices of a program with their ranges, and what is known of its data."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.bounds: dict[str, Range] = {}
        self.fresh_names = (f"r{k}" for k in count())
        self.facts: dict[Expr, Range | None] = {}
        self.opened: dict[Expr, tuple[Index, int]] = {}
        self.groups: dict[int, tuple[Value, Value]] = {}
        self.scalars: dict[int, tuple[Value, Expr]] = {}  # the value, so that the id stays its own

    def fresh(self, low: int, high: int) -> Index:
        """A new index with low <= i <= high."""
        name = next(self.fresh_names)
        self.bounds[name] = low, high
        return Index(name)

    # -- ranges ------------------------------------------------------------------------------
    def range_of(self, e: Expr, guards: Iterable[Expr] = ()) -> Range | None:
        """Bounds of a whole number where the guards hold, None if there are none to be seen."""
        if isinstance(e, Const):
            return (int(e.value),) * 2 if e.dtype.kind in "biu" else None
        narrow = {n: self.bounds[n] for n in e.free}
        for g in guards:
            for name, found in self.narrowed(g).items():
                if name in narrow:
                    low, high = narrow[name]
                    narrow[name] = max(low, found[0]), min(high, found[1])
        if any(low > high for low, high in narrow.values()):
            return 0, -1
        return narrow[e.name] if isinstance(e, Index) else self._range(e, narrow)

    def _range(self, e: Expr, bounds: dict[str, Range]) -> Range | None:
        opened = self._opened(e)
        extents = {n: high - low + 1 for n, (low, high) in bounds.items()}
        moved: dict[str, Expr] = {
            n: plus(Index(n), low) for n, (low, _) in bounds.items() if low}
        for index, extent in self.opened.values():
            extents[index.name] = extent
        return index_range(substitute(opened, moved), extents)

    def _opened(self, e: Expr) -> Expr:
        """``e`` with what has known bounds, as integer data has, replaced by indices."""
        if isinstance(e, Read) and e.dtype.kind in "iu" and e not in self.facts:
            self.facts[e] = self.data.entries(e.tensor)
        known = self.facts.get(e)
        if known is not None:
            if e not in self.opened:
                self.opened[e] = Index(f"known{len(self.opened)}"), known[1] - known[0] + 1
            return plus(self.opened[e][0], known[0])
        if not isinstance(e, Call):
            return e
        kids = tuple([self._opened(a) for a in e.args])
        return e if kids == children(e) else rebuild(e, kids)  # type: ignore[return-value]

    def narrowed(self, guard: Expr) -> dict[str, Range]:
        """What a comparison of affine expressions says about each index of it."""
        if not isinstance(guard, Call) or guard.op not in _SIDES:
            return {}
        form = is_affine(Call(ops.subtract, guard.args)) if all(
            a.dtype.kind in "iu" for a in guard.args) else None
        if form is None:
            return {}
        found: dict[str, Range] = {}
        for name, c in form.coefficients.items():
            rest = [self.bounds[n] if k > 0 else self.bounds[n][::-1]
                    for n, k in form.coefficients.items() if n != name]
            factors = [k for n, k in form.coefficients.items() if n != name]
            low = form.constant + sum(k * b[0] for k, b in zip(factors, rest))
            high = form.constant + sum(k * b[1] for k, b in zip(factors, rest))
            found[name] = _solved(c, low, high, _SIDES[guard.op], self.bounds[name])
        return found

    def known(self, guard: Expr) -> bool | None:
        """Whether a guard always or never holds."""
        if isinstance(guard, Const):
            return bool(guard.value)
        found = self.range_of(guard) if guard.dtype == BOOL else None
        return None if found is None or found[0] != found[1] else bool(found[0])

    def inside(self, e: Expr, low: int, high: int) -> tuple[Expr, ...]:
        """The guards that say low <= e <= high, as far as that is not known."""
        found = self.range_of(e)
        guards: list[Expr] = []
        if found is None or found[0] < low:
            guards.append(compare(ops.less_equal, low, e))
        if found is None or found[1] > high:
            guards.append(compare(ops.less_equal, e, high))
        return tuple(guards)

    # -- terms -------------------------------------------------------------------------------
    def solve(self, term: Term) -> Term | None:
        """The term without the indices that its equations determine; None if it is zero."""
        guards: list[Expr] = []
        for g in dict.fromkeys(term.guards):
            holds = self.known(g)
            if holds is False:
                return None
            if holds is None:
                guards.append(g)
        term = Term(term.over, tuple(guards), term.keys, term.value, term.told)
        for g in guards:
            for name in term.over:
                solution = _solution(g, name)
                if solution is not None:
                    rest = tuple(x for x in guards if x is not g)
                    kept = Term(term.over, rest, term.keys, term.value, term.told)
                    return self.solve(self.replaced(kept, name, solution))
        return term

    def replaced(self, term: Term, name: str, by: Expr) -> Term:
        """The term with a summed index replaced by an expression, and the check of its range."""
        low, high = self.bounds[name]
        over = tuple(n for n in term.over if n != name)
        guards: tuple[Expr, ...] = ()
        moved: dict[str, Expr] = {name: by}
        if isinstance(by, Index) and by.name in over:  # both are summed: one index for the two
            own = self.bounds[by.name]
            both = self.fresh(max(low, own[0]), min(high, own[1]))
            moved |= {name: both, by.name: both}
            over = tuple(both.name if n == by.name else n for n in over)
        else:
            guards = self.inside(by, low, high)
            if guards and is_affine(by) is None:  # reads must be in range, seen or not
                moved[name] = call(ops.minimum, call(ops.maximum, by, as_expr(low)), as_expr(high))
        return Term(
            over, (*guards, *(substitute(g, moved) for g in term.guards)),
            self._moved(term.keys, moved), substitute(term.value, moved), term.told)

    def _moved(self, keys: tuple[Expr, ...], by: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Keys with indices replaced; what was declared of them still holds."""
        found = tuple([substitute(k, by) for k in keys])
        for old, new in zip(keys, found):
            if old in self.facts:
                self.facts.setdefault(new, self.facts[old])
        return found

    def solved(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        return tuple([t for t in map(self.solve, terms) if t is not None])

    # -- values ------------------------------------------------------------------------------
    def plain(self, value: Value) -> Value:
        """The value without its domain, which becomes guards."""
        d = value.domain
        if d is None:
            return value
        terms = [
            Term(t.over, (*d.guards, compare(ops.less_equal, d.low, t.keys[0]),
                          compare(ops.less, t.keys[0], d.high), *t.guards), t.keys, t.value,
                 t.told)
            for t in value.terms
        ]
        return Value(value.kind, value.depth, self.solved(terms))

    def at(self, value: Value, key: Expr) -> Value:
        """The value of a dictionary at a key, zero where it has none."""
        return self.inner(self.plain(value), key)

    def inner(self, value: Value, key: Expr) -> Value:
        """As ``at``, for a key inside the domain."""
        terms = [
            Term(t.over, (compare(ops.equal, t.keys[0], key), *t.guards), t.keys[1:], t.value,
                 t.told[1:])
            for t in map(self.renamed, value.terms)
        ]
        return Value(value.kind, value.depth - 1, self.solved(terms), None, value.extents[1:])

    def renamed(self, t: Term) -> Term:
        """The term with new summed indices: it may stand beside itself."""
        new = {n: self.fresh(*self.bounds[n]) for n in t.over}
        return Term(tuple([i.name for i in new.values()]),
                    tuple([substitute(g, new) for g in t.guards]),
                    self._moved(t.keys, new), substitute(t.value, new), t.told)

    def hull(self, value: Value, level: int = 0) -> Range | None:
        """Bounds of the keys of a level; None if they are not known."""
        if value.extents:
            return 0, value.extents[level] - 1
        low, high = 0, -1
        for t in value.terms:
            key = t.keys[level]
            found = self.range_of(key, t.guards)
            if found is None:
                return None
            if isinstance(key, Index):  # i < j does not make a matrix smaller
                found = found[0], self.bounds[key.name][1]
            if found[0] <= found[1]:
                low, high = (min(low, found[0]), max(high, found[1])) if low <= high else found
        return low, high

    def guarded(self, value: Value, *guards: Expr) -> Value:
        """The value where the guards hold, else zero."""
        d = value.domain
        if d is not None:
            return Value(value.kind, value.depth, value.terms,
                         Domain(d.low, d.high, (*d.guards, *guards)))
        terms = [Term(t.over, (*guards, *t.guards), t.keys, t.value, t.told)
                 for t in value.terms]
        return Value(value.kind, value.depth, self.solved(terms))

    def expr(self, value: Value, dtype: DType | None = None) -> Expr:
        """The scalar of a value of no depth. Its sums have names that no term has."""
        known = self.scalars.get(id(value))
        if known is not None:
            return known[1]
        found: Expr | None = None
        op = adder(value.kind)
        for t in value.terms:
            one = self._term(self.renamed(t), value.kind)
            found = one if found is None else call(op, found, one)
        if found is None:
            found = zero_of(value.kind, dtype or DTYPES[value.kind])
        self.scalars[id(value)] = value, found
        return found

    def _term(self, t: Term, kind: str) -> Expr:
        new, matrices, guards = joined(self, t.guards)
        body = t.value
        if kind not in ("int", "real"):
            guards, matrices = matrices + guards, ()
        if guards:
            test = guards[0]
            for g in guards[1:]:
                test = Call(ops.logical_and, (test, g))
            body = Call(ops.where, (test, body, zero_of(kind, body.dtype)))
        for m in matrices:  # as factors, which are ordered and taken out of sums
            body = Call(ops.multiply, (convert(m, body.dtype), body))
        over = t.over + new
        if not over:
            return body
        moved = {n: plus(Index(n), self.bounds[n][0]) for n in over if self.bounds[n][0]}
        axes = tuple(Axis(n, extent(self.bounds[n])) for n in over)
        return Reduce(adder(kind), axes, substitute(body, moved))


def extent(bounds: Range) -> int:
    """How many values there are."""
    return max(bounds[1] - bounds[0] + 1, 0)


#: The range of ``a - b`` where a comparison of integers holds; None: no bound on that side.
_SIDES: dict[ops.Operator, tuple[int | None, int | None]] = {
    ops.less: (None, -1), ops.less_equal: (None, 0), ops.greater: (1, None),
    ops.greater_equal: (0, None), ops.equal: (0, 0),
}


def _solved(c: int, low: int, high: int, side: tuple[int | None, int | None],
            known: Range) -> Range:
    """Bounds of i from side[0] <= c*i + rest <= side[1], with low <= rest <= high."""
    first, last = known
    most = None if side[1] is None else side[1] - low  # c*i <= most
    least = None if side[0] is None else side[0] - high
    if c < 0:
        c, most, least = -c, (None if least is None else -least), (
            None if most is None else -most)
    if most is not None:
        last = min(last, most // c)
    if least is not None:
        first = max(first, -(-least // c))
    return first, last


def _solution(guard: Expr, name: str) -> Expr | None:
    """The value of index ``name`` that an equation says, if its factor is 1 or -1."""
    if not isinstance(guard, Call) or guard.op is not ops.equal or name not in guard.free:
        return None
    a, b = guard.args
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
        return None
    left, right = split_affine(a, name), split_affine(b, name)
    if left is None or right is None or abs(left[0] - right[0]) != 1:
        return None
    # left[0]*i + left[1] == right[0]*i + right[1]
    if left[0] - right[0] == 1:
        return minus(right[1], left[1])
    return minus(left[1], right[1])


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
    known = memo.get(e)
    if known is not None:
        return known
    found: Any
    if isinstance(e, Index):
        found = Index(names.get(e.name, e.name))
    elif isinstance(e, Reduce):
        axes = tuple([Axis(names[a.name], a.extent) for a in e.axes])
        found = Reduce(e.op, axes, _renamed(e.body, names, memo))
    else:
        found = rebuild(e, tuple([
            _renamed(k, names, memo) if isinstance(k, Expr) else k for k in children(e)]))
    memo[e] = found
    return memo[e]
