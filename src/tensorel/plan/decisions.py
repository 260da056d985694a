"""Choices by cost go through one place, so that others than the cheapest can be made.

The planner takes the cheapest option of each decision and lists no more than it must. With *picks*
it lists all options of every decision, the cheapest first, and takes those that the picks name; so
a driver walks through all plans of a program (stateless, as model checkers do): plan, look which
decisions came up, plan again with another pick."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from tensorel.base.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """What may be picked, its cost as the decision sees it, and its name for people."""

    cost: float
    value: T
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that came up: of what kind, about what, the options in order of cost, and which
    of them was taken."""

    kind: str
    subject: str
    texts: tuple[str, ...]
    costs: tuple[float, ...]
    pick: int

    @property
    def regret(self) -> float:
        """What the best other option costs more, as the decision sees it. There may be none, or
        none whose cost is known."""
        return self.costs[1] - self.costs[0] if len(self.costs) > 1 else math.inf


class Decisions:
    """The decisions of one planning: the cheapest each, or as prescribed by ``picks`` and the
    cheapest after these. Belongs to one thread's planning; nothing is shared.

    >>> decisions = Decisions([1])
    >>> decisions.decide("sweet", "tea", [Option(1.0, "sugar", "sugar"), Option(2.0, "honey", "")])
    'honey'
    >>> decisions.taken[0].pick, Decisions().listing
    (1, False)
    """

    __slots__ = ("memo", "picks", "taken")

    def __init__(self, picks: Sequence[int] | None = None,
                 memo: dict[tuple[int, ...], list[Option[Any]]] | None = None) -> None:
        self.picks = picks
        self.taken: list[Decision] = []
        self.memo = memo  # options after the same picks, listed before

    @property
    def listing(self) -> bool:
        """Decisions are recorded, and all options of each are wanted."""
        return self.picks is not None

    def decide(self, kind: str, subject: str, options: Sequence[Option[T]]) -> T:
        """The option picked; among equally cheap ones the first."""
        if self.picks is None:
            return min(options, key=_cost).value
        return self.decide_among(kind, subject, lambda: options)

    def decide_among(self, kind: str, subject: str, listed: Callable[[], Sequence[Option[T]]]
                     ) -> T:
        """The option picked of those that ``listed`` gives, where listing them takes long."""
        so_far = tuple([d.pick for d in self.taken])
        ordered = None if self.memo is None else self.memo.get(so_far)
        if ordered is None:
            ordered = sorted(listed(), key=_cost)
            if self.memo is not None:
                self.memo[so_far] = ordered
        assert self.picks is not None
        place = len(self.taken)
        pick = self.picks[place] if place < len(self.picks) else 0
        self.taken.append(Decision(
            kind, subject, tuple(o.text for o in ordered), tuple(o.cost for o in ordered), pick))
        value: T = ordered[pick].value
        return value


def _cost(option: Option[T]) -> float:
    return option.cost


class Costed(Protocol):
    """A plan, as far as it matters here."""

    @property
    def cost(self) -> float: ...


P = TypeVar("P", bound=Costed)
Planner = Callable[[Decisions], P]


def plans(plan: Planner[P], most: int, rng: Random) -> Iterator[tuple[tuple[Decision, ...], P]]:
    """All plans with the decisions that led to each, in random order but the cheapest first, at
    most so many."""
    stack: list[tuple[int, ...]] = [()]
    for _ in range(most):
        if not stack:
            return
        picks = stack.pop(rng.randrange(len(stack)))
        decisions = Decisions(picks)
        made = plan(decisions)
        taken = decisions.taken
        yield tuple(taken), made
        for place in range(len(picks), len(taken)):
            before = tuple(d.pick for d in taken[:place])
            stack += [(*before, k) for k in range(1, len(taken[place].texts))]


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The cheapest whole plan that differs from the chosen one in one decision (and in what
    follows from it): the decision, what was chosen there, what instead, and both plans' costs."""

    kind: str
    subject: str
    chosen: str
    instead: str
    cost: float
    other: float
    decisions: tuple[Decision, ...] = ()  # all that the chosen plan came from

    @property
    def text(self) -> str:
        about = f" of {self.subject}" if self.subject else ""
        return (f"{self.kind}{about}: {self.instead} instead of {self.chosen}, "
                f"{self.other / max(self.cost, 1e-9):.2f} times the cost")


MAX_TRIED_DECISIONS, MAX_DECISIONS = 4, 64


def runner_up(plan: Planner[P], start: tuple[int, ...] = ()) -> RunnerUp | None:
    """Of the plan that follows from the picks ``start``. The closest decisions are changed to
    their next best option, one at a time, and the program planned anew. Programs with very many
    decisions have none: planning them again takes too long."""
    first = Decisions(start)
    chosen = plan(first)
    best: RunnerUp | None = None
    if len(first.taken) > MAX_DECISIONS:
        return None
    places = sorted((k for k, d in enumerate(first.taken) if d.regret < math.inf),
                    key=lambda k: first.taken[k].regret)
    for place in places[:MAX_TRIED_DECISIONS]:
        d = first.taken[place]
        pick = 1 if d.pick == 0 else 0
        other = plan(Decisions((*(x.pick for x in first.taken[:place]), pick))).cost
        if best is None or other < best.other:
            best = RunnerUp(d.kind, d.subject, d.texts[d.pick], d.texts[pick], chosen.cost, other,
                            tuple(first.taken))
    return best
