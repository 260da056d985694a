"""Relational algebra: the operators of plans.

A plan is a tree whose parts may be shared; an operator is compared by identity. Every operator
names its columns, each with a number of its own in the whole plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tensorel.base.records import dataclass
from tensorel.sql.calls import AggregateCall, Bound, SortKey, WindowCall
from tensorel.sql.scalars import Call, Column, Literal, Scalar, columns_of

Columns: TypeAlias = tuple[Column, ...]


class Plan:
    """Base of the operators."""

    __slots__ = ()

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return ()

    @property
    def columns(self) -> Columns:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Plan):
    """Fields of a relation by name."""

    source: str
    fields: tuple[tuple[Column, str], ...]

    @property
    def columns(self) -> Columns:
        return tuple([c for c, _ in self.fields])


@dataclass(frozen=True, slots=True, eq=False)
class Values(Plan):
    """Rows that the text lists, as expressions without columns."""

    made: Columns
    rows: tuple[tuple[Scalar, ...], ...]

    @property
    def columns(self) -> Columns:
        return self.made


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Plan):
    """The rows for which all tests are true."""

    input: Plan
    tests: tuple[Scalar, ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return self.input.columns


@dataclass(frozen=True, slots=True, eq=False)
class Project(Plan):
    """New columns, or the same ones again, from each row."""

    input: Plan
    items: tuple[tuple[Column, Scalar], ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return tuple([c for c, _ in self.items])


@dataclass(frozen=True, slots=True, eq=False)
class Join(Plan):
    """Pairs of rows for which all tests are true, by ``kind``:

        inner, left, full    pairs; left and full: rows without a partner beside nulls
        semi, anti           rows of the left that have a partner, or none
        mark                 each row of the left, and in ``mark`` whether it has a partner
        single               as left, and two partners are an error
    """

    kind: str
    left: Plan
    right: Plan
    on: tuple[Scalar, ...]
    mark: Column | None = None

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> Columns:
        if self.kind in ("semi", "anti"):
            return self.left.columns
        if self.mark is not None:
            return (*self.left.columns, self.mark)
        return self.left.columns + self.right.columns


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Plan):
    """One row for each group of rows with equal keys, nulls being equal; without keys one row."""

    input: Plan
    keys: tuple[tuple[Column, Scalar], ...]
    calls: tuple[tuple[Column, AggregateCall], ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return tuple([c for c, _ in self.keys] + [c for c, _ in self.calls])


@dataclass(frozen=True, slots=True, eq=False)
class Window(Plan):
    """The rows, each with columns of what it is told of others."""

    input: Plan
    calls: tuple[tuple[Column, WindowCall], ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return (*self.input.columns, *[c for c, _ in self.calls])


@dataclass(frozen=True, slots=True, eq=False)
class Sort(Plan):
    """The rows in order; equal ones keep theirs."""

    input: Plan
    keys: tuple[SortKey, ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return self.input.columns


@dataclass(frozen=True, slots=True, eq=False)
class Limit(Plan):
    """``count`` rows (None: all) behind the first ``offset``."""

    input: Plan
    count: int | None
    offset: int = 0

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return self.input.columns


@dataclass(frozen=True, slots=True, eq=False)
class Domain(Plan):
    """The different combinations of columns for which a subquery is asked. Rows that a subquery has
    for other combinations are of no account."""

    input: Plan
    items: tuple[tuple[Column, Column], ...]

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return tuple([c for c, _ in self.items])


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation(Plan):
    """``union``, ``intersect`` or ``except`` of rows, column by column; ``all``: rows count as
    often as they are there."""

    kind: str
    all: bool
    left: Plan
    right: Plan
    made: Columns

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> Columns:
        return self.made


@dataclass(frozen=True, slots=True, eq=False)
class TensorProgram(Plan):
    """An aggregation over a join of tensors, to be run as a program of the calculus. ``of``: over
    columns of the scans; ``by_rows``: the same as a plan for rows."""

    of: Aggregate
    by_rows: Plan
    scans: tuple[Scan, ...]
    tests: tuple[Scalar, ...]

    @property
    def columns(self) -> Columns:
        return self.of.columns


def scalars_of(plan: Plan) -> tuple[Scalar, ...]:
    """The expressions in an operator itself."""
    match plan:
        case Values():
            return tuple([e for row in plan.rows for e in row])
        case Filter():
            return plan.tests
        case Project() | Domain():
            return tuple([e for _, e in plan.items])
        case Join():
            return plan.on
        case Aggregate():
            return (*[e for _, e in plan.keys], *[e for _, c in plan.calls for e in c.scalars])
        case Sort():
            return tuple([k.value for k in plan.keys])
        case Window():
            return tuple([e for _, c in plan.calls for e in c.scalars])
    return ()


def walk(plan: Plan) -> Iterator[Plan]:
    """All operators, each once, parents first."""
    seen: set[int] = set()
    stack = [plan]
    while stack:
        plan = stack.pop()
        if id(plan) not in seen:
            seen.add(id(plan))
            yield plan
            stack += reversed(plan.inputs)


def postorder(plan: Plan) -> list[Plan]:
    """All operators, each once, behind its inputs."""
    found: dict[int, Plan] = {}
    stack = [(plan, False)]
    while stack:
        p, ready = stack.pop()
        if id(p) in found:
            continue
        if ready:
            found[id(p)] = p
        else:
            stack.append((p, True))
            stack += [(i, False) for i in reversed(p.inputs)]
    return list(found.values())


def free_columns(plan: Plan) -> set[Column]:
    """Columns that it uses and does not make: those of rows around it."""
    used: set[Column] = set()
    made: set[Column] = set()
    for p in walk(plan):
        used |= columns_of(*scalars_of(p))
        made.update(p.columns)
    return used - made


def with_inputs(plan: Plan, inputs: tuple[Plan, ...]) -> Plan:
    """The operator over other inputs."""
    if all(a is b for a, b in zip(plan.inputs, inputs)):
        return plan
    match plan:
        case Filter():
            return Filter(inputs[0], plan.tests)
        case Project():
            return Project(inputs[0], plan.items)
        case Domain():
            return Domain(inputs[0], plan.items)
        case Join():
            return Join(plan.kind, inputs[0], inputs[1], plan.on, plan.mark)
        case Aggregate():
            return Aggregate(inputs[0], plan.keys, plan.calls)
        case Sort():
            return Sort(inputs[0], plan.keys)
        case Window():
            return Window(inputs[0], plan.calls)
        case Limit():
            return Limit(inputs[0], plan.count, plan.offset)
        case SetOperation():
            return SetOperation(plan.kind, plan.all, inputs[0], inputs[1], plan.made)
    return plan


__all__ = [
    "Aggregate", "AggregateCall", "Bound", "Call", "Column", "Columns", "Domain", "Filter", "Join",
    "Limit", "Literal", "Plan", "Project", "Scan", "SetOperation", "Sort", "SortKey",
    "TensorProgram", "Values", "Window", "WindowCall", "free_columns", "postorder", "scalars_of",
    "walk", "with_inputs",
]
