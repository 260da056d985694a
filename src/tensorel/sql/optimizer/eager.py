"""Aggregates below joins: where rows of a relation meet many others, its groups do instead.

    sum(f * g) over R join S   =   sum(sum_R f * sum_S g) over (groups of R) join (groups of S)

with R grouped by those of its columns that keys and tests of the join use. A relation without a
factor counts its rows; least and largest values need no count. The law is that of a semiring, so it
holds for sums of products of what each relation has, counts, least and largest values, and means,
which are two of these; not for distinct values, conditions, and orders (Yan and Larson, Eager
aggregation and lazy aggregation).
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.base.records import dataclass
from tensorel.sql.algebra import Aggregate, AggregateCall, Join, Plan, Project
from tensorel.sql.optimizer.domains import rebuilt
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.optimizer.joins import flatten
from tensorel.sql.scalars import Call, Column, Literal, Scalar, columns_of, replaced
from tensorel.sql.scope import Numbers
from tensorel.sql.types import Type
from tensorel.sql.unnesting import changed_call

#: A relation is grouped where its rows meet so many others each, and groups are so many times
#: fewer than rows.
MEETS, FEWER = 2.0, 2.0
_ZERO = Literal(0, Type.INTEGER)


def aggregate_early(plan: Plan, estimates: Estimates, numbers: Numbers) -> Plan:
    """The plan with groupings of relations before their joins where that pays."""
    return rebuilt(plan, lambda p: _early(p, estimates, numbers)
                   if isinstance(p, Aggregate) else p)


def _early(plan: Aggregate, estimates: Estimates, numbers: Numbers) -> Plan:
    source, values = plan.input, dict[Column, Scalar]()
    while isinstance(source, Project):
        values = {**{c: e for c, e in source.items if c != e}, **{
            c: replaced(e, dict(source.items)) for c, e in values.items()}}
        source = source.input
    if not isinstance(source, Join) or source.kind != "inner":
        return plan
    keys = tuple([(c, replaced(e, values)) for c, e in plan.keys])
    calls = [(c, changed_call(a, lambda e: replaced(e, values))) for c, a in plan.calls]
    if any(a.distinct or a.where is not None or a.order for _, a in calls):
        return plan
    relations, tests = list[Plan](), list[Scalar]()
    flatten(source, relations, tests)
    terms = [_term(c, a, relations) for c, a in calls]
    if any(t is None for t in terms):
        return plan
    pairs = estimates.rows(source)
    used = columns_of(*tests, *[e for _, e in keys])
    grouped = [k for k, r in enumerate(relations) if _pays(r, used, pairs, estimates)]
    if not grouped:
        return plan
    return _Split(relations, grouped, used, numbers).plan(
        keys, [t for t in terms if t is not None], tests)


def _pays(relation: Plan, used: set[Column], pairs: float, estimates: Estimates) -> bool:
    rows = estimates.rows(relation)
    keys = tuple([(c, c) for c in relation.columns if c in used])
    return bool(keys) and pairs >= MEETS * rows and (
        estimates.rows(Aggregate(relation, keys, ())) * FEWER <= rows)


@dataclass(frozen=True, eq=False, slots=True)
class _Term:
    """A call: factors by the relation that has them, ``others`` of none."""

    column: Column
    call: AggregateCall
    factors: dict[int, list[Scalar]]
    others: list[Scalar]


def _term(column: Column, call: AggregateCall, relations: Sequence[Plan]) -> _Term | None:
    """None where the call is no product of what relations have."""
    if call.function not in ("sum", "avg", "count", "min", "max"):
        return None
    if call.args and call.args[0].type is Type.MATRIX:
        return None
    factors: dict[int, list[Scalar]] = {}
    others: list[Scalar] = []
    product = call.function in ("sum", "avg")
    for f in [x for a in call.args for x in (_factors(a) if product else [a])]:
        used = columns_of(f)
        owner = next((k for k, r in enumerate(relations) if used and used <= set(r.columns)), None)
        if owner is not None:
            factors.setdefault(owner, []).append(f)
        elif used or not product:
            return None
        else:
            others.append(f)
    return _Term(column, call, factors, others)


def _factors(e: Scalar) -> list[Scalar]:
    if isinstance(e, Call) and e.function == "*":
        return [f for a in e.args for f in _factors(a)]
    return [e]


class _Split:
    """One aggregation taken apart."""

    def __init__(self, relations: Sequence[Plan], grouped: Sequence[int], used: set[Column],
                 numbers: Numbers) -> None:
        self.relations = relations
        self.grouped = grouped
        self.numbers = numbers
        self.keys = {k: tuple([(c, c) for c in relations[k].columns if c in used])
                     for k in grouped}
        self.calls: dict[int, dict[AggregateCall, Column]] = {k: {} for k in grouped}

    def plan(self, keys: tuple[tuple[Column, Scalar], ...], terms: Sequence[_Term],
             tests: Sequence[Scalar]) -> Plan:
        """The aggregation over groups; what is made of its sums are the columns that were asked."""
        made: dict[AggregateCall, Column] = {}
        items: list[tuple[Column, Scalar]] = [(c, c) for c, _ in keys]
        items += [(t.column, self._of(t, made, bool(keys))) for t in terms]
        found: Plan | None = None
        for k, r in enumerate(self.relations):
            part = Aggregate(r, self.keys[k], tuple([(c, a) for a, c in self.calls[k].items()])) \
                if k in self.keys else r
            last = k == len(self.relations) - 1
            found = part if found is None else Join(
                "inner", found, part, tuple(tests) if last else ())
        assert found is not None
        return Project(Aggregate(found, keys, tuple([(c, a) for a, c in made.items()])),
                       tuple(items))

    def _of(self, term: _Term, made: dict[AggregateCall, Column], has_keys: bool) -> Scalar:
        """A call as an expression of calls over groups."""
        function, type_ = term.call.function, term.column.type
        if function in ("min", "max"):
            (owner,) = term.factors
            inner = self._part(owner, term.call, type_, True) if owner in self.calls else (
                term.call.args[0])
            return _asked(made, AggregateCall(function, (inner,)), type_, self.numbers)
        if function == "count":
            found = self._sum(term, made, Type.INTEGER, True)
            return found if has_keys else Call("coalesce", (found, _ZERO), Type.INTEGER, False)
        total = self._sum(term, made, type_, False)
        if function == "sum":
            return total
        count = Call("nullif", (self._sum(term, made, Type.INTEGER, True), _ZERO), Type.INTEGER,
                     True)
        return Call("/", (total, _as(count, Type.DOUBLE)), Type.DOUBLE, True)

    def _sum(self, term: _Term, made: dict[AggregateCall, Column], type_: Type, counted: bool
             ) -> Column:
        """The sum of the product; ``counted``: of ones where the product is no null."""
        parts: list[Scalar] = []
        for k in range(len(self.relations)):
            factors = term.factors.get(k, [])
            if k in self.calls:
                parts.append(self._part_of(k, factors, type_, counted))
            elif counted:
                parts += [_present(f) for f in factors if f.nullable]
            else:
                parts += [_as(f, type_) for f in factors]
        if counted:
            parts += [_present(f) for f in term.others if f.nullable]
        else:
            parts += [_as(f, type_) for f in term.others]
        product = parts[0]
        for p in parts[1:]:
            product = _times(product, p, type_)
        return _asked(made, AggregateCall("sum", (product,)), type_, self.numbers)

    def _part_of(self, k: int, factors: Sequence[Scalar], type_: Type, counted: bool) -> Scalar:
        """What a group of a relation gives to the product."""
        count = AggregateCall("count")
        if not factors or (counted and not any(f.nullable for f in factors)):
            return _as(self._part(k, count, Type.INTEGER, False), type_)
        product = _as(factors[0], type_ if not counted else factors[0].type)
        for f in factors[1:]:
            product = _times(product, f, product.type)
        if counted:
            return self._part(k, AggregateCall("count", (product,)), Type.INTEGER, False)
        return self._part(k, AggregateCall("sum", (product,)), type_, True)

    def _part(self, k: int, call: AggregateCall, type_: Type, nullable: bool) -> Column:
        known = self.calls[k]
        if call not in known:
            known[call] = self.numbers.new(type_, call.function, nullable)
        return known[call]


def _asked(made: dict[AggregateCall, Column], call: AggregateCall, type_: Type, numbers: Numbers
           ) -> Column:
    if call not in made:
        made[call] = numbers.new(type_, call.function, True)
    return made[call]


def _as(e: Scalar, type_: Type) -> Scalar:
    return e if e.type is type_ else Call("cast", (e,), type_, e.nullable)


def _times(a: Scalar, b: Scalar, type_: Type) -> Scalar:
    return Call("*", (a, _as(b, type_)), type_, a.nullable or b.nullable)


def _present(e: Scalar) -> Scalar:
    """1 where there is a value, else 0."""
    absent = Call("is null", (e,), Type.BOOLEAN, False)
    return Call("case", (absent, _ZERO, Literal(1, Type.INTEGER)), Type.INTEGER, False)
