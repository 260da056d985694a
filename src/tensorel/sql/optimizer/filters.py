"""Tests go down to where their columns are made.

A test passes below an operator where that gives the same rows: below a projection with the columns
written out; into the side of an inner join that has all its columns, else it becomes a condition of
the join; into the left of other joins; below a grouping where it is about keys. A part of the plan
that is used twice keeps its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorel.sql.algebra import (
    Aggregate,
    Domain,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    scalars_of,
    walk,
    with_inputs,
)
from tensorel.sql.functions import FUNCTIONS
from tensorel.sql.scalars import (
    TRUE,
    Call,
    Column,
    Literal,
    Scalar,
    columns_of,
    conjuncts,
    negated,
    replaced,
)
from tensorel.sql.scalars import walk as parts_of


def push_filters(plan: Plan, kept: Sequence[Column]) -> Plan:
    """The plan with its tests where they belong. ``kept``: the columns that it is asked for."""
    return _Pushing(plan, kept).down(plan, [])


class _Pushing:
    def __init__(self, plan: Plan, kept: Sequence[Column]) -> None:
        self.parents: Counter[int] = Counter()
        self.uses: Counter[Column] = Counter(kept)
        for p in walk(plan):
            self.parents.update(id(i) for i in p.inputs)
            for e in scalars_of(p):
                self.uses.update(x for x in parts_of(e) if isinstance(x, Column))
        self.shared: dict[int, tuple[Plan, Plan]] = {}

    def down(self, plan: Plan, tests: list[Scalar]) -> Plan:
        """The plan where the tests hold."""
        if self.parents[id(plan)] > 1:
            known = self.shared.get(id(plan))
            if known is None:
                known = self.shared[id(plan)] = plan, self._below(plan, [])
            return _filtered(known[1], tests)
        return self._below(plan, tests)

    def _below(self, plan: Plan, tests: list[Scalar]) -> Plan:
        match plan:
            case Filter():
                more = [s for t in plan.tests for c in conjuncts(t) for s in simplified(c)]
                return self.down(plan.input, [*tests, *more])
            case Project():
                values = dict(plan.items)
                return Project(self.down(plan.input, [replaced(t, values) for t in tests]),
                               plan.items)
            case Join():
                return self._join(plan, tests)
            case Aggregate():
                return self._aggregate(plan, tests)
            case Sort():
                return Sort(self.down(plan.input, tests), plan.keys)
            case SetOperation():
                return self._set_operation(plan, tests)
            case Limit() | Domain() | Window():
                inner = with_inputs(plan, (self.down(plan.inputs[0], []),))
                return _filtered(inner, tests)
            case Scan() | Values():
                return _filtered(plan, tests)
        return _filtered(plan, tests)

    def _aggregate(self, plan: Aggregate, tests: list[Scalar]) -> Plan:
        keys = dict(plan.keys)
        below = [t for t in tests if keys and columns_of(t) and columns_of(t) <= keys.keys()]
        above = [t for t in tests if t not in below]
        inner = self.down(plan.input, [replaced(t, keys) for t in below])
        return _filtered(Aggregate(inner, plan.keys, plan.calls), above)

    def _set_operation(self, plan: SetOperation, tests: list[Scalar]) -> Plan:
        sides = [self.down(side, [replaced(t, dict(zip(plan.made, side.columns))) for t in tests])
                 for side in plan.inputs]
        return with_inputs(plan, (sides[0], sides[1]))

    # -- joins -------------------------------------------------------------------------------
    def _join(self, plan: Join, tests: list[Scalar]) -> Plan:
        plan, tests = self._as_existence(plan, tests)
        left, right = set(plan.left.columns), set(plan.right.columns)
        kind = plan.kind
        if kind == "left" and any(rejects_null(t, right) for t in tests):
            kind = "inner"
        on = [s for t in plan.on for c in conjuncts(t) for s in simplified(c)]
        if kind == "inner":
            on, tests = on + tests, []
        ours, others, above, pairs = list[Scalar](), list[Scalar](), list[Scalar](), []
        for t in tests:  # none for inner joins
            (ours if columns_of(t) <= left and kind != "full" else above).append(t)
        for t in on:
            used = columns_of(t)
            if used and used <= right and kind != "full":
                others.append(t)
            elif used and used <= left and kind in ("inner", "semi"):
                ours.append(t)
            else:
                pairs.append(t)
        found = Join(kind, self.down(plan.left, ours), self.down(plan.right, others),
                     tuple(dict.fromkeys(pairs)), plan.mark if kind == "mark" else None)
        return _filtered(found, above)

    def _as_existence(self, plan: Join, tests: list[Scalar]) -> tuple[Join, list[Scalar]]:
        """A mark that is only tested is a semijoin, or an antijoin."""
        mark = plan.mark
        if mark is None or self.uses[mark] != 1:
            return plan, tests
        for t, kind in ((mark, "semi"), (negated(mark), "anti")):
            if t in tests:
                rest = [x for x in tests if x != t]
                return Join(kind, plan.left, plan.right, plan.on), rest
        return plan, tests


def simplified(test: Scalar) -> list[Scalar]:
    """Tests that are true exactly where this one is: whether it is false or null is of no account
    where rows are chosen."""
    if isinstance(test, Call):
        if test.function == "in result":
            return simplified(test.args[0])
        inner = test.args[0] if test.function == "not" else None
        if isinstance(inner, Call):
            if inner.function == "in result":
                return [negated(inner.args[0]), negated(inner.args[1])]
            if inner.function == "or":
                return [s for a in inner.args for s in simplified(negated(a))]
            if inner.function == "not":
                return simplified(inner.args[0])
        if test.function == "or":
            return _factored(test)
        if test.function == "and":
            return [s for a in test.args for s in simplified(a)]
    return [] if test == TRUE else [test]


def _factored(test: Call) -> list[Scalar]:
    """Tests that stand in all alternatives stand before them: ``a and b or a and c``."""
    alternatives = [conjuncts(a) for a in _alternatives(test)]
    shared = [t for t in alternatives[0] if all(t in a for a in alternatives[1:])]
    if not shared:
        return [test]
    rest = [[t for t in a if t not in shared] for a in alternatives]
    if not all(rest):
        return shared
    parts = [r[0] if len(r) == 1 else Call("and", tuple(r), test.type, True) for r in rest]
    return [*shared, Call("or", tuple(parts), test.type, test.nullable)]


def _alternatives(test: Scalar) -> list[Scalar]:
    if isinstance(test, Call) and test.function == "or":
        return [x for a in test.args for x in _alternatives(a)]
    return [test]


def rejects_null(test: Scalar, columns: set[Column]) -> bool:
    """Whether a test is not true where all of these columns are null."""
    if isinstance(test, Call):
        match test.function:
            case "and":
                return any(rejects_null(a, columns) for a in test.args)
            case "or":
                return all(rejects_null(a, columns) for a in test.args)
            case "not":
                inner = test.args[0]
                if isinstance(inner, Call) and inner.function == "is null":
                    return is_null_with(inner.args[0], columns)
    return is_null_with(test, columns)


def is_null_with(e: Scalar, columns: set[Column]) -> bool:
    """Whether an expression is surely null where all of these columns are."""
    if isinstance(e, Column):
        return e in columns
    if isinstance(e, Literal):
        return e.value is None
    match e.function:
        case "and" | "or" | "coalesce":  # one that is no null may decide
            return all(is_null_with(a, columns) for a in e.args)
        case "nullif" | "in":
            return is_null_with(e.args[0], columns)
    known = FUNCTIONS.get(e.function)
    if e.function != "cast" and (known is None or not known.strict):
        return False
    return any(is_null_with(a, columns) for a in e.args)


def _filtered(plan: Plan, tests: Sequence[Scalar]) -> Plan:
    if not tests:
        return plan
    if isinstance(plan, Filter):
        return Filter(plan.input, (*plan.tests, *tests))
    return Filter(plan, tuple(dict.fromkeys(tests)))
