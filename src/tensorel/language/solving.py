"""Terms solved for their indices: reading, guarding and summing dictionaries.

Reading a dictionary at a key adds the guard ``k1 == key``, and an equation that
can be solved for a summed index is: the index is replaced and what remains of it is the check of
its range. So a sum over a dictionary that was made by a sum is one sum, and a join of two keys is
one index: fusion by construction, with its preconditions written out as guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import as_expr, both, compare, convert, int_value, minus, plus, times
from tensorel.ir.nodes import Axis, Call, Expr, Index, Reduce
from tensorel.ir.ranges import Range, is_affine
from tensorel.ir.replacing import substitute
from tensorel.language.data_joins import joined
from tensorel.language.dictionaries import Domain, Term, Value
from tensorel.language.indices import Indices, extent, shifted
from tensorel.language.scalars import Semiring, call

#: So many values of a new index are written out as terms.
WRITTEN_OUT = 2
#: A key made of several indices is solved for one of them if another has so few values.
WIDEST_WINDOW = 48


class Solver:
    """Sums of terms over the indices of a program."""

    #: equations with several long summed indices are left to the loops
    scatters = False

    def __init__(self, indices: Indices) -> None:
        self.indices = indices
        self.scalars: dict[int, tuple[Value, Expr]] = {}  # the value, so that the id stays its own

    # -- terms -------------------------------------------------------------------------------
    def solve(self, term: Term) -> Term | None:
        """The term without the indices that its equations determine; None if it is zero."""
        guards: list[Expr] = []
        for g in dict.fromkeys(term.guards):
            holds = self.indices.known(g)
            if holds is False:
                return None
            if holds is None:
                guards.append(g)
        term = Term(term.over, tuple(guards), term.keys, term.value, term.unique)
        for g in guards:
            for name in term.over:
                solution = _solution(g, name)
                if solution is not None and not (
                        self.scatters and self._is_scattered(g, name, term.over)):
                    rest = tuple(x for x in guards if x is not g)
                    kept = Term(term.over, rest, term.keys, term.value, term.unique)
                    return self.solve(self.replaced(kept, name, solution))
        return term

    def _is_scattered(self, g: Expr, name: str, over: tuple[str, ...]) -> bool:
        """Whether an equation of a key with several summed indices is better left to the loops:
        solved, all of one of them would be tried at each key."""
        known = self.indices
        others = [n for n in g.free if n in over and n != name]
        return bool(others) and len(g.free) > len(others) + 1 and all(
            extent(known.bounds[n]) > WIDEST_WINDOW for n in (name, *others))

    def replaced(self, term: Term, name: str, by: Expr) -> Term:
        """The term with a summed index replaced by an expression, and the check of its range."""
        known = self.indices
        low, high = known.bounds[name]
        over = tuple(n for n in term.over if n != name)
        guards: tuple[Expr, ...] = ()
        moved: dict[str, Expr] = {name: by}
        if isinstance(by, Index) and by.name in over:  # both are summed: one index for the two
            own = known.bounds[by.name]
            common = known.fresh(max(low, own[0]), min(high, own[1]))
            shorter = known.join_axes(name, by.name)
            if shorter is not None:
                known.axes[common.name] = shorter
            moved |= {name: common, by.name: common}
            over = tuple(common.name if n == by.name else n for n in over)
        else:
            if isinstance(by, Index):
                known.join_axes(name, by.name)
            guards = known.inside(by, low, high)
            if guards and is_affine(by) is None:  # reads must be in range, seen or not
                moved[name] = call(ops.minimum, call(ops.maximum, by, as_expr(low)), as_expr(high))
        tidied = known.tidied
        return Term(
            over, (*map(tidied, guards), *(tidied(substitute(g, moved)) for g in term.guards)),
            self._moved(term.keys, moved), tidied(substitute(term.value, moved)), term.unique)

    def _moved(self, keys: tuple[Expr, ...], by: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Keys with indices replaced; what was declared of them still holds."""
        found = tuple([substitute(k, by) for k in keys])
        for old, new in zip(keys, found):
            if old in self.indices.facts:
                self.indices.facts.setdefault(new, self.indices.facts[old])
        return found

    def solved(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        return tuple([t for t in map(self.solve, terms) if t is not None])

    def digits(self, term: Term) -> list[Term]:
        """The terms that a solved term is the sum of, with ``e // c == f`` and ``e % c == f`` as
        the equations ``e == c*f + t`` and ``e == c*q + f`` for new indices; few values of one are
        written out, each a term of its own."""
        for g in term.guards:
            found = _digit(g, term.over)
            if found is None:
                continue
            e, c, f, quotient = found
            values = self.indices.range_of(e, term.guards)
            if values is None:
                continue
            guards = [x for x in term.guards if x is not g]
            low, high = (0, c - 1) if quotient else (values[0] // c, values[1] // c)
            if not quotient:
                guards += self.indices.inside(f, 0, c - 1)
            own: list[tuple[tuple[str, ...], Expr]]
            if high - low < WRITTEN_OUT and not quotient:
                own = [((), as_expr(k)) for k in range(low, high + 1)]
            else:
                new = self.indices.fresh(low, high)
                own = [((new.name,), new)]
            made: list[Term] = []
            for names, k in own:
                whole = plus(times(c, f), k) if quotient else plus(times(c, k), f)
                scatters, self.scatters = self.scatters, False
                one = self.solve(Term((*term.over, *names), (
                    compare(ops.equal, e, whole), *guards), term.keys, term.value, term.unique))
                self.scatters = scatters
                if one is not None:
                    made += self.digits(one)
            return made
        return [term]

    # -- values ------------------------------------------------------------------------------
    def plain(self, value: Value) -> Value:
        """The value without its domain, which becomes guards."""
        d = value.domain
        if d is None:
            return value
        terms = [t.guarded(*d.guards, compare(ops.less_equal, d.low, t.keys[0]),
                           compare(ops.less, t.keys[0], d.high)) for t in value.terms]
        return Value(value.kind, value.depth, self.solved(terms))

    def at(self, value: Value, key: Expr) -> Value:
        """The value of a dictionary at a key, zero where it has none."""
        return self.inner(self.plain(value), key)

    def inner(self, value: Value, key: Expr) -> Value:
        """As ``at``, for a key inside the domain."""
        terms = [
            Term(t.over, (compare(ops.equal, t.keys[0], key), *t.guards), t.keys[1:], t.value,
                 t.unique[1:])
            for t in map(self.renamed, value.terms)
        ]
        return Value(value.kind, value.depth - 1, self.solved(terms), None, value.extents[1:])

    def renamed(self, t: Term) -> Term:
        """The term with new summed indices: it may stand beside itself."""
        new = {n: self.indices.copy(n) for n in t.over}
        return Term(tuple([i.name for i in new.values()]),
                    tuple([substitute(g, new) for g in t.guards]),
                    self._moved(t.keys, new), substitute(t.value, new), t.unique)

    def hull(self, value: Value, level: int = 0) -> Range | None:
        """Bounds of the keys of a level; None if they are not known."""
        if value.extents:
            return 0, value.extents[level] - 1
        low, high = 0, -1
        for t in value.terms:
            key = t.keys[level]
            found = self.indices.range_of(key, t.guards)
            if found is None:
                return None
            if isinstance(key, Index):  # i < j does not make a matrix smaller
                found = found[0], self.indices.bounds[key.name][1]
            if found[0] <= found[1]:
                low, high = (min(low, found[0]), max(high, found[1])) if low <= high else found
        return low, high

    def guarded(self, value: Value, *guards: Expr) -> Value:
        """The value where the guards hold, else zero."""
        d = value.domain
        if d is not None:
            return Value(value.kind, value.depth, value.terms,
                         Domain(d.low, d.high, (*d.guards, *guards)))
        return Value(value.kind, value.depth, self.solved(t.guarded(*guards) for t in value.terms))

    def expr(self, value: Value) -> Expr:
        """The scalar of a value of no depth. Its sums have names that no term has."""
        known = self.scalars.get(id(value))
        if known is not None:
            return known[1]
        found: Expr | None = None
        for t in value.terms:
            one = self._term(self.renamed(t), value.kind)
            found = one if found is None else call(value.kind.add, found, one)
        if found is None:
            found = value.kind.zero_in(value.kind.dtype)
        self.scalars[id(value)] = value, found
        return found

    def _term(self, t: Term, kind: Semiring) -> Expr:
        new, matrices, guards = joined(self.indices, t.guards)
        body = t.value
        if not kind.is_ring:
            guards, matrices = matrices + guards, ()
        test = both(*guards)
        if test is not None:
            body = Call(ops.where, (test, body, kind.zero_in(body.dtype)))
        for m in matrices:  # as factors, which are ordered and taken out of sums
            body = Call(ops.multiply, (convert(m, body.dtype), body))
        over = t.over + new
        if not over:
            return body
        bounds = self.indices.bounds
        moved = {n: plus(Index(n), bounds[n][0]) for n in over if bounds[n][0]}
        axes = tuple(Axis(n, extent(bounds[n])) for n in over)
        return Reduce(kind.add, axes, substitute(body, moved))


def _digit(guard: Expr, over: tuple[str, ...]) -> tuple[Expr, int, Expr, bool] | None:
    """(e, c, f, whether it is the quotient) of ``e // c == f`` or ``e % c == f``, where an
    equation with e can be solved for a summed index that f does not have."""
    if not isinstance(guard, Call) or guard.op is not ops.equal:
        return None
    for side, f in (guard.args, guard.args[::-1]):
        if not isinstance(side, Call) or side.op not in (ops.floor_divide, ops.remainder):
            continue
        e, c = side.args[0], int_value(side.args[1])
        if c is None or c < 1 or e.dtype.kind != "i" or not f.free.isdisjoint(over):
            continue
        if _can_solve(e, over):
            return e, c, f, side.op is ops.floor_divide
    return None


def _can_solve(e: Expr, over: tuple[str, ...]) -> bool:
    """Whether ``e == ...`` gives a summed index, at once or digit by digit."""
    while isinstance(e, Call) and e.op in (ops.floor_divide, ops.remainder) and (
            int_value(e.args[1]) or 0) > 0:
        e = e.args[0]
    return any(n in e.free and (parts := split_affine(e, n)) is not None and abs(parts[0]) == 1
               for n in over)


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
    found = minus(right[1], left[1]) if left[0] - right[0] == 1 else minus(left[1], right[1])
    index, offset = shifted(found)
    return plus(index, offset) if offset else found
