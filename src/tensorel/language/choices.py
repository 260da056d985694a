"""Choices of entries: summed indices, tests, and what is made of all choices.

    Choices       the indices that generators have drawn, and the tests that hold
    reduced       a monoid over all choices
    exists        whether there is a choice
    written       one cell from each choice, at keys that are computed

A test that an entry is there is a ``Condition``: it may be left out where nothing comes of an entry
that is absent, and then a sum of products is the node that ``einsum`` makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir import nodes as ir
from tensorel.ir.build import both, compare
from tensorel.ir.ranges import Linear, sum_bounds
from tensorel.ir.replacing import substitute
from tensorel.language.builder import Builder
from tensorel.language.comprehension import conjuncts, fails, folded, is_value
from tensorel.language.dictionaries import Term, Value
from tensorel.language.indices import extent
from tensorel.language.scalars import BOOL, INT, REAL, Semiring, call, truth


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A test, and what parts of expressions are where it fails."""

    test: ir.Expr
    absent: Mapping[ir.Expr, ir.Const]


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """All values of the indices ``over`` for which the guards and the conditions hold. Other
    indices in them are those of choices around these."""

    over: tuple[str, ...] = ()
    guards: tuple[ir.Expr, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def drawn(self, over: Sequence[str], guards: Sequence[ir.Expr] = (),
              conditions: Sequence[Condition] = ()) -> Choices:
        """With more indices and more that holds."""
        return Choices((*self.over, *over), (*self.guards, *guards),
                       (*self.conditions, *conditions))

    def tested(self, *tests: ir.Expr) -> Choices:
        """Those for which these tests hold, too; the parts of a conjunction are tests."""
        found = [c for t in tests for c in conjuncts(truth(t))]
        return Choices(self.over, (*self.guards, *found), self.conditions)

    def needed(self, value: ir.Expr, none: object) -> tuple[ir.Expr, ...]:
        """The tests of the conditions that cannot be left out of a sum of ``value`` whose identity
        is ``none``."""
        return tuple([
            c.test for c in self.conditions
            if not fails(self.guards, c.absent) and not is_value(folded(value, c.absent), none)])

    def moved(self, by: Mapping[str, ir.Expr]) -> Choices:
        """With indices replaced."""

        def of(e: ir.Expr) -> ir.Expr:
            return substitute(e, by)

        names = tuple([getattr(by.get(n, None), "name", n) for n in self.over])
        conditions = [Condition(of(c.test), {of(e): v for e, v in c.absent.items()})
                      for c in self.conditions]
        return Choices(names, tuple(map(of, self.guards)), tuple(conditions))


def semiring(op: ops.Operator, dtype: ir.DType) -> Semiring:
    """The kind of values that a monoid combines."""
    if op is ops.add:
        return INT if dtype.kind in "iu" else REAL
    if op is ops.logical_or:
        return BOOL
    assert op.identity is not None
    zero = np.asarray(op.identity(dtype)).item()
    return Semiring(op.name, op, ops.multiply, zero, 1, dtype)


def terms_of(build: Builder, choices: Choices, value: ir.Expr, none: object,
             scatters: bool = True) -> list[Term]:
    """What a monoid with the identity ``none`` combines, solved for the summed indices.
    ``scatters``: equations that loops had better walk are left."""
    guards = (*choices.guards, *choices.needed(value, none))
    solver = build.solver
    solver.scatters = scatters
    found = solver.solve(Term(choices.over, guards, (), value))
    terms = [] if found is None else solver.digits(found)
    solver.scatters = False
    return terms


def reduced(build: Builder, choices: Choices, op: ops.Operator, value: ir.Expr) -> ir.Expr:
    """The monoid over the values of all choices, its identity where there is none."""
    kind = semiring(op, value.dtype)
    terms = terms_of(build, choices, value, kind.zero)
    if op is ops.add and terms and all(
            not t.guards and isinstance(t.value, ir.Const) and value.dtype.kind == "i"
            for t in terms):
        whole = [_count(build, t) * t.value.value.item() for t in terms
                 if isinstance(t.value, ir.Const)]
        return ir.const(sum(whole), value.dtype)
    if op in (ops.logical_or, ops.logical_and) and any(
            not t.guards and isinstance(t.value, ir.Const) and bool(t.value.value) != kind.zero
            and _is_filled(build, t) for t in terms):
        return ir.const(np.bool_(not kind.zero))
    return combined(build, terms, kind, value.dtype)


def combined(build: Builder, terms: Sequence[Term], kind: Semiring, dtype: ir.DType) -> ir.Expr:
    """The sum of terms; two that hold where one test does and where it does not are a choice."""
    if not terms:
        return kind.zero_in(dtype)
    if len(terms) == 2 and not any(t.over for t in terms):
        for a, b in (terms, terms[::-1]):
            test = both(*a.guards)
            if test is not None and _are_opposite(test, both(*b.guards)):
                return call(ops.where, test, a.value, b.value)
    return build.expr(Value(kind, 0, tuple(terms)))


def _are_opposite(less: ir.Expr | None, other: ir.Expr | None) -> bool:
    """``a < b`` and ``a >= b``."""
    return (isinstance(less, ir.Call) and isinstance(other, ir.Call) and less.op is ops.less
            and other.op is ops.greater_equal and less.args == other.args)


def _count(build: Builder, term: Term) -> int:
    return math.prod([extent(build.indices.bounds[n]) for n in term.over])


def exists(build: Builder, choices: Choices) -> ir.Expr:
    """Whether there is a choice."""
    return reduced(build, choices, ops.logical_or, ir.const(np.True_))


def counted(build: Builder, choices: Choices) -> ir.Expr:
    """How many choices there are."""
    return reduced(build, choices, ops.add, ir.const(1, ir.INT64))


def _is_filled(build: Builder, term: Term) -> bool:
    bounds = [build.indices.bounds[n] for n in term.over]
    return all(low <= high for low, high in bounds)


def at_keys(choices: Choices, keys: Sequence[ir.Expr], at: Sequence[ir.Index]) -> Choices:
    """The choices that have these keys."""
    equal = [compare(ops.equal, k, r) for k, r in zip(keys, at)]
    return Choices(choices.over, (*equal, *choices.guards), choices.conditions)


def is_one_to_one(build: Builder, terms: Sequence[Term]) -> bool:
    """Whether at most one choice of all terms holds at each place: tests leave one value of each
    summed index, and no two terms hold together."""
    if not all(_is_determined(t) for t in terms):
        return False
    for k, a in enumerate(terms):
        for b in terms[:k]:
            if not _exclude(build, a, b):
                return False
    return True


def _is_determined(term: Term) -> bool:
    """Each summed index follows from others by bounds ``0 <= r - c*i < c``, as digits do."""
    if not term.over:
        return True
    low: dict[Linear, int] = {}
    high: dict[Linear, int] = {}
    for g in term.guards:
        bound = sum_bounds(g)
        if bound is not None:
            form, least, most = bound
            if least is not None:
                low[form] = max(low.get(form, least), least)
            if most is not None:
                high[form] = min(high.get(form, most), most)
    left, before = set(term.over), -1
    while left and len(left) != before:
        before = len(left)
        for form in low.keys() & high.keys():
            names = [(n, c) for n, c in form if n in left]
            if len(names) == 1 and high[form] - low[form] < abs(names[0][1]):
                left.discard(names[0][0])
    return not left


def _exclude(build: Builder, a: Term, b: Term) -> bool:
    guards = (*a.guards, *b.guards)
    names = {n for g in guards for n in g.free}
    return any(build.indices.range_of(ir.Index(n), guards) == (0, -1) for n in names)


__all__ = [
    "Choices", "Condition", "at_keys", "combined", "counted", "exists", "is_one_to_one",
    "reduced", "semiring", "terms_of",
]
