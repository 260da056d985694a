"""The order of inner joins: all orders of up to ``MAX_EXACT`` relations, by the rows that are
looked up, stored in tables and made; more are joined one by one, the cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tensorel.base.records import dataclass
from tensorel.sql.algebra import Filter, Join, Plan, with_inputs
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.scalars import Column, Scalar, columns_of

MAX_EXACT = 9
#: What a row costs: stored in a table, looked up there, made.
STORED, LOOKED_UP, MADE = 3.0, 1.0, 0.5


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A plan for some of the relations."""

    plan: Plan
    rows: float
    cost: float
    columns: frozenset[Column]


def order_joins(plan: Plan, estimates: Estimates) -> Plan:
    """The plan with each region of inner joins in the cheapest order."""
    return _ordered(plan, estimates, {})


def _ordered(plan: Plan, estimates: Estimates, made: dict[int, Plan]) -> Plan:
    known = made.get(id(plan))
    if known is not None:
        return known
    if isinstance(plan, Join) and plan.kind == "inner":
        relations: list[Plan] = []
        tests: list[Scalar] = []
        flatten(plan, relations, tests)
        relations = [_ordered(r, estimates, made) for r in relations]
        found = _Order(relations, tests, estimates).best()
    else:
        found = with_inputs(plan, tuple([_ordered(i, estimates, made) for i in plan.inputs]))
    made[id(plan)] = found
    return found


def flatten(plan: Plan, relations: list[Plan], tests: list[Scalar]) -> None:
    """The relations and the tests of a region of inner joins."""
    if isinstance(plan, Join) and plan.kind == "inner":
        tests.extend(plan.on)
        for side in plan.inputs:
            flatten(side, relations, tests)
    else:
        relations.append(plan)


class _Order:
    def __init__(self, relations: Sequence[Plan], tests: Sequence[Scalar], estimates: Estimates
                 ) -> None:
        self.estimates = estimates
        self.relations = list(relations)
        self.columns = [frozenset(r.columns) for r in relations]
        whole = frozenset[Column]().union(*self.columns)
        self.constant = [t for t in tests if not columns_of(t)]
        self.tests = [(t, columns_of(t) & whole) for t in tests if columns_of(t)]

    def best(self) -> Plan:
        """The cheapest plan for all of them."""
        parts = [_Part(self._own(r, c), 0.0, 0.0, c)
                 for r, c in zip(self.relations, self.columns)]
        parts = [_Part(p.plan, self.estimates.rows(p.plan), 0.0, p.columns) for p in parts]
        found = self._exact(parts) if len(parts) <= MAX_EXACT else self._greedy(parts)
        return Filter(found.plan, tuple(self.constant)) if self.constant else found.plan

    def _own(self, relation: Plan, columns: frozenset[Column]) -> Plan:
        """A relation with the tests that are about it alone."""
        tests = [t for t, used in self.tests if used <= columns]
        return Filter(relation, tuple(tests)) if tests else relation

    def _join(self, a: _Part, b: _Part) -> _Part | None:
        """Both joined, the larger one on the left; None where no test connects them."""
        both = a.columns | b.columns
        tests = [t for t, used in self.tests
                 if used <= both and not used <= a.columns and not used <= b.columns]
        if not tests:
            return None
        return self._made(a, b, tests)

    def _made(self, a: _Part, b: _Part, tests: Sequence[Scalar]) -> _Part:
        if a.rows < b.rows:
            a, b = b, a
        plan = Join("inner", a.plan, b.plan, tuple(tests))
        rows = self.estimates.rows(plan)
        pairs = 0.0 if tests else a.rows * b.rows
        cost = (a.cost + b.cost + STORED * b.rows + LOOKED_UP * a.rows + MADE * rows + pairs)
        return _Part(plan, rows, cost, a.columns | b.columns)

    def _exact(self, parts: Sequence[_Part]) -> _Part:
        best: dict[int, _Part] = {1 << k: p for k, p in enumerate(parts)}
        full = (1 << len(parts)) - 1
        for size in range(2, len(parts) + 1):
            for chosen in combinations(range(len(parts)), size):
                whole = sum(1 << k for k in chosen)
                part = (whole - 1) & whole
                while part:
                    a, b = best.get(part), best.get(whole ^ part)
                    if a is not None and b is not None and part > whole ^ part:
                        joined = self._join(a, b)
                        if joined is not None and (
                                whole not in best or joined.cost < best[whole].cost):
                            best[whole] = joined
                    part = (part - 1) & whole
        return best[full] if full in best else self._greedy(parts)

    def _greedy(self, parts: Sequence[_Part]) -> _Part:
        """The cheapest pair, again and again; pairs without a test last."""
        left = list(parts)
        while len(left) > 1:
            pairs = [(self._join(a, b), a, b) for a, b in combinations(left, 2)]
            joined = [(j, a, b) for j, a, b in pairs if j is not None] or [
                (self._made(a, b, []), a, b) for a, b in combinations(left, 2)]
            best, a, b = min(joined, key=lambda one: one[0].cost)
            left = [p for p in left if p is not a and p is not b] + [best]
        return left[0]
