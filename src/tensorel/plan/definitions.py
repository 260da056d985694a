"""The logical program: a list of definitions, each a closed formula over earlier ones.

Forms, each implied by the next:
  Nested      bodies may read Lambdas and Bulks in place
  Flat        bodies read only Sources: stored slots and earlier definitions (``Ref``)
  SumProduct  a body is pointwise, or one reduction at its root over a product of factors;
              reductions left inside are evaluated where they stand, around a scalar
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass, field
from tensorel.config import Config
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.analysis import is_whole
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    postorder,
)
from tensorel.ir.replacing import with_parts
from tensorel.plan.decisions import Decisions
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.join_sampling import Rows

if TYPE_CHECKING:
    from tensorel.plan.size_memory import Keys

#: Whether a slot's tensor has at most one entry for each value of some axes.
Question = tuple[str, tuple[int, ...]]
#: In place of axes: whether no stored entry equals the fill, whether all are finite, and whether
#: the tensor is the outer product of vectors.
NO_FILLS, FINITE, OUTER_PRODUCT = (-1,), (-2,), (-3,)


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of a definition, by name; ``whole``: by its formula it has a value everywhere,
    whatever its storage will be."""

    name: str
    whole: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Stats:
    """What is known or estimated of a tensor: stored entries, and whether all of it is stored.
    ``facts(exact)`` gives its statistics: without a pass over the entries unless ``exact``.
    ``rows()``: the pattern of a stored matrix, for join sampling. ``stores``: answers
    questions about the stored values."""

    count: float
    size: float
    dense: bool
    facts: Callable[[bool], TensorStats] | None = None
    rows: Callable[[], Rows | None] | None = None
    stores: Callable[[tuple[int, ...]], bool] | None = None

    @property
    def density(self) -> float:
        return 1.0 if self.dense or self.size == 0 else min(self.count / self.size, 1.0)


@dataclass(frozen=True, slots=True)
class Definition:
    """``name`` = a tensor; ``format`` pins its storage, None leaves it to the planner."""

    name: str
    tensor: Lambda | Bulk | Source
    format: object = None
    fill: Const | None = None
    whole: bool | None = None  # of the formula as it was first written; passes keep it
    origin: Tensor | None = None  # the tensor of the user's program that it is, if it is one

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def ref(self) -> Ref:
        return Ref(self.name, is_whole(self.tensor) if self.whole is None else self.whole)

    def rewritten(self, tensor: Lambda | Bulk | Source) -> Definition:
        """Another formula for the same tensor: what was promised of the first one stays."""
        return replace(self, tensor=tensor, fill=self.source().fill, whole=self.ref.whole)

    def source(self) -> Source:
        fill = self.fill if self.fill is not None else fill_of(self.tensor)
        return Source(self.ref, self.tensor.shape, self.tensor.dtype, fill)


@dataclass
class Program:
    """Definitions in order of evaluation, and which of them are asked for."""

    definitions: list[Definition]
    results: list[str]
    stats: dict[object, Stats]  # by Slot or Ref
    config: Config
    counter: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    decisions: Decisions = field(default_factory=Decisions)
    keys: Keys | None = None  # what stored tensors and definitions are known by
    asked: dict[Question, bool] = field(default_factory=dict)  # of data, by all ways to write it
    #: by Ref, the axis at which it has what its readers ask for alone, and which share that is
    restricted: dict[object, tuple[int, float]] = field(default_factory=dict)
    fusable: frozenset[str] = frozenset()  # names of definitions that loops may use up

    def copy(self) -> Program:
        """The same program, free to go another way."""
        return Program(list(self.definitions), list(self.results), dict(self.stats), self.config,
                       self.counter, dict(self.fired), self.decisions,
                       None if self.keys is None else self.keys.copy(), self.asked,
                       dict(self.restricted), self.fusable)

    def fresh(self, hint: str = "t") -> str:
        self.counter += 1
        return f"{hint}{self.counter}"

    def define(self, tensor: Lambda) -> Definition:
        """A new intermediate."""
        return Definition(self.fresh(), tensor, whole=is_whole(tensor))

    def fire(self, rule: str, times: int = 1) -> None:
        self.fired[rule] = self.fired.get(rule, 0) + times

    def map_bodies(self, change: Callable[[Lambda], Expr]) -> None:
        """Replace the body of each formula."""
        self.definitions = [
            replace(d, tensor=Lambda(d.tensor.axes, change(d.tensor)))
            if isinstance(d.tensor, Lambda) else d for d in self.definitions]

    def map_formulas(self, change: Callable[[Program, Definition, Lambda], list[Definition]]
                     ) -> None:
        """Put definitions in place of each formula."""
        self.definitions = [x for d in self.definitions for x in (
            change(self, d, d.tensor) if isinstance(d.tensor, Lambda) else (d,))]

    def rewritten(self, change: Callable[[Lambda], Expr], rule: str) -> Program | None:
        """Another program, with other bodies of formulas; None where all stay as they are."""
        changed = []
        for d in self.definitions:
            if isinstance(d.tensor, Lambda):
                body = change(d.tensor)
                if body is not d.tensor.body:
                    d = d.rewritten(Lambda(d.tensor.axes, body))
            changed.append(d)
        if all(a is b for a, b in zip(changed, self.definitions)):
            return None
        other = self.copy()
        other.definitions = changed
        other.fire(rule)
        return other


def product_of(axes: tuple[Axis, ...]) -> int:
    return prod([a.extent for a in axes])


def factors_of(e: Expr, op: Operator) -> list[Expr]:
    """The arguments of nested ``op`` calls of one dtype, flattened (op is associative)."""
    out: list[Expr] = []
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Call) and x.op is op and all(
            a.dtype == x.dtype for a in x.args
        ):
            stack.extend(reversed(x.args))
        else:
            out.append(x)
    return out


def distributing(op: Operator, body: Expr) -> Operator | None:
    """The operator of the body's root if it distributes over the monoid ``op``."""
    if isinstance(body, Call) and body.op.distributes(op, body.dtype) and body.op.associative \
            and body.op.commutative and all(a.dtype == body.dtype for a in body.args):
        return body.op
    return None


def product(factors: list[Expr], op: Operator) -> Expr:
    result = factors[0]
    for f in factors[1:]:
        result = Call(op, (result, f))
    return result


def inner_reductions(e: Expr) -> list[Reduce]:
    """Outermost reductions inside an expression."""
    found: list[Reduce] = []
    stack: list[Expr] = [e]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if isinstance(x, Reduce):
            found.append(x)
        elif isinstance(x, Call):
            stack.extend(x.args)
        elif isinstance(x, Read):
            stack.extend(x.indices)
    return found


def replace_exprs(e: Expr, table: dict[Expr, Expr]) -> Expr:
    """``e`` with whole subexpressions replaced."""
    memo: dict[Expr, Expr] = {}

    def go(x: Expr) -> Expr:
        if x in table:
            return table[x]
        found = memo.get(x)
        if found is None:
            found = memo[x] = with_parts(x, go)
        return found

    return go(e)


def reading(tensor: Lambda | Bulk | Source, instead: dict[object, Source]
            ) -> Lambda | Bulk | Source:
    """A tensor that reads others, by what their sources stand for: sources themselves are not
    compared, because their fill may be a nan of its own."""

    def other(t: Tensor) -> Tensor:
        return instead.get(t.data, t) if isinstance(t, Source) else t

    match tensor:
        case Lambda():
            table: dict[Expr, Expr] = {}
            for x in postorder(tensor.body):
                if isinstance(x, Read) and other(x.tensor) is not x.tensor:
                    table[x] = Read(other(x.tensor), tuple(
                        replace_exprs(i, table) for i in x.indices))
            return Lambda(tensor.axes, replace_exprs(tensor.body, table)) if table else tensor
        case Bulk():
            args = tuple(map(other, tensor.args))
            return Bulk(tensor.op, args, tensor.params)
        case _:
            return instead.get(tensor.data, tensor)


def sources_of(t: Tensor | Expr) -> list[Source]:
    """The stored tensors and definitions that are read below, each once."""
    body = t.body if isinstance(t, Lambda) else t
    found = body.reads if isinstance(body, Expr) else ()
    if found and all([type(x) is Source for x in found]):  # noqa: C419
        return list(found)  # type: ignore[arg-type]
    return [n for n in postorder(t) if isinstance(n, Source)]


# -- forms --------------------------------------------------------------------------------------


def is_nested(program: Program) -> bool:
    return True


def is_flat(program: Program) -> bool:
    """Bodies read Sources only; bulk operators take Sources only."""
    for d in program.definitions:
        if isinstance(d.tensor, Bulk) and not all(isinstance(a, Source) for a in d.tensor.args):
            return False
        if isinstance(d.tensor, Lambda) and any(
            isinstance(n, Read) and not isinstance(n.tensor, Source)
            for n in postorder(d.tensor.body)
        ):
            return False
    return True


def is_sum_product(program: Program) -> bool:
    """Flat, and no reduction inside the reductions left within a body."""
    return is_flat(program) and all(
        not inner_reductions(r.body)
        for d in program.definitions if isinstance(d.tensor, Lambda)
        for r in inner_reductions(
            d.tensor.body.body if isinstance(d.tensor.body, Reduce) else d.tensor.body)
    )
