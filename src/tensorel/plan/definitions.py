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
from typing import TYPE_CHECKING

from tensorel.algebra.ops import Operator
from tensorel.config import Config
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.analysis import is_whole
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    postorder,
)
from tensorel.kernels.spec import Slot
from tensorel.plan.decide import Decisions
from tensorel.records import dataclass, field
from tensorel.stats.facts import TensorStats
from tensorel.stats.pilot import Rows

if TYPE_CHECKING:
    from tensorel.plan.recall import Keys

#: Whether a slot's tensor has at most one entry for each value of some axes.
Question = tuple[str, tuple[int, ...]]


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
    ``rows()``: the pattern of a stored matrix, for pilots."""

    count: float
    size: float
    dense: bool
    facts: Callable[[bool], TensorStats] | None = None
    rows: Callable[[], Rows | None] | None = None

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

    def copy(self) -> Program:
        """The same program, free to go another way."""
        return Program(list(self.definitions), list(self.results), dict(self.stats), self.config,
                       self.counter, dict(self.fired), self.decisions,
                       None if self.keys is None else self.keys.copy(), self.asked,
                       dict(self.restricted))

    def fresh(self, hint: str = "t") -> str:
        self.counter += 1
        return f"{hint}{self.counter}"

    def define(self, tensor: Lambda) -> Definition:
        """A new intermediate."""
        return Definition(self.fresh(), tensor, whole=is_whole(tensor))

    def fire(self, rule: str, times: int = 1) -> None:
        self.fired[rule] = self.fired.get(rule, 0) + times

    def map_bodies(self, change: object) -> None:
        """Replace the body of each formula."""
        changed = []
        for d in self.definitions:
            if isinstance(d.tensor, Lambda):
                body = change(d.tensor)  # type: ignore[operator]
                d = replace(d, tensor=Lambda(d.tensor.axes, body))
            changed.append(d)
        self.definitions = changed


def product_of(axes: tuple[Axis, ...]) -> int:
    total = 1
    for a in axes:
        total *= a.extent
    return total


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
            match x:
                case Call():
                    found = Call(x.op, tuple([go(a) for a in x.args]))
                case Reduce():
                    found = Reduce(x.op, x.axes, go(x.body))
                case Read():
                    found = Read(x.tensor, tuple([go(i) for i in x.indices]))
                case _:
                    found = x
            memo[x] = found
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
            return Bulk(tensor.op, args, tensor.params, tensor.shape, tensor.dtype)
        case _:
            return instead.get(tensor.data, tensor)


def sources_of(t: Tensor | Expr) -> list[Source]:
    """The stored tensors and definitions that are read below, each once."""
    body = t.body if isinstance(t, Lambda) else t
    found = body.reads if isinstance(body, Expr) else ()
    if found and all([type(x) is Source for x in found]):  # noqa: C419
        return list(found)  # type: ignore[arg-type]
    return [n for n in postorder(t) if isinstance(n, Source)]


def slot_of(source: Source) -> Slot | None:
    return source.data if isinstance(source.data, Slot) else None


def index_names(names: list[str]) -> tuple[Expr, ...]:
    return tuple(Index(n) for n in names)
