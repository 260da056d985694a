"""What names stand for while a program is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tensorel.base.records import dataclass, field
from tensorel.comprehension import syntax as s
from tensorel.ir import nodes as ir
from tensorel.language.choices import Choices


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """A tensor. ``name``: how errors call it."""

    node: ir.Tensor
    fill: ir.Const
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The whole numbers from low to high, both included."""

    low: ir.Expr
    high: ir.Expr


@dataclass(frozen=True, slots=True, eq=False)
class Later:
    """A list that is made anew, with indices of its own, wherever it is drawn from."""

    made: s.Comprehension
    env: Env


@dataclass(slots=True, eq=False)
class Group:
    """The members that have one key. ``absent``: aggregates and what they are where there is no
    member; ``found``: aggregates that were asked for."""

    members: Choices
    absent: dict[ir.Expr, ir.Const] = field(default_factory=dict)
    found: dict[tuple[str, ir.Expr], ir.Expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Bag:
    """What a group has lifted: ``thing`` says it of one member."""

    group: Group
    thing: Thing


Thing: TypeAlias = "ir.Expr | tuple[Thing, ...] | Array | Span | Later | Bag"
Env: TypeAlias = Mapping[str, Thing]


def kind_of(thing: Thing) -> str:
    """How errors call it."""
    match thing:
        case ir.Expr():
            return "a number"
        case tuple():
            return f"a tuple of {len(thing)}"
        case Array():
            rank = len(thing.node.shape)
            return f"the tensor {thing.name} with {rank} axes".replace("  ", " ")
        case Span() | Later():
            return "a list"
        case Bag():
            return "one value for each member of a group"


def scalars_in(thing: Thing) -> list[Thing]:
    """The parts of a tuple of tuples, in order."""
    if isinstance(thing, tuple):
        return [x for part in thing for x in scalars_in(part)]
    return [thing]
