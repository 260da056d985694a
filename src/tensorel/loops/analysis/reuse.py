"""Entries that an innermost loop need not read in each turn.

Machine code has them in registers where the compiler sees that no store of the loop changes them.
It sees places in memory; here rows and columns are known, and how counters are bound.

An entry is ``STILL`` if its place is the same in all turns and no store of the loop reaches it, and
``PREVIOUS`` if it is what the turn before has stored: the loop has one store to this array, made in
every turn and behind the read. It is ``SPLIT`` if its place is the same in all turns, and each
store that may reach it is at the counter on some axis, so that only one turn does. All are read in
every turn, so what a read before the loop finds is what the first turn reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tensorel.loops.analysis.affine import Form
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Body,
    Break,
    Choice,
    Continue,
    Copy,
    Expr,
    For,
    If,
    Item,
    Name,
    Return,
    Store,
    While,
    assigned_names,
    names_in,
    operands,
    parts,
    subexpressions,
    walk,
)

Span = tuple[int | None, int | None]


class Reuse:
    """Of one loop. ``counter``: the symbol of its counter, which moves by ``step``; ``forms``: of
    all indices that are inside; ``classes``: names that may share an array have one class."""

    def __init__(self, loop: For, counter: int, step: int, forms: Mapping[Expr, Form],
                 classes: Mapping[str, object]) -> None:
        self.loop = loop
        self.counter = counter
        self.step = step
        self.forms = forms
        self.classes = classes
        self.changed = assigned_names(loop.body)
        inner = list(walk(loop.body))
        self.stores = [s for s in inner if isinstance(s, Store)]
        arrays = {s.array for s in self.stores}
        self.is_plain = bool(arrays) and loop.target not in self.changed and not any(
            isinstance(s, For | While | Allocate | Copy) or (
                isinstance(s, Assign) and isinstance(s.value, Name) and s.value.name in classes)
            for s in inner)

    def mark(self, facts: Facts, span: Callable[[Form], Span]) -> None:
        """Add to the facts."""
        if not self.is_plain:
            return
        sure = _sure(self.loop.body)
        fixed: dict[tuple[str, tuple[Form, ...]], Fact] = {}
        for k, stmt in enumerate(sure):
            for e in _always(stmt):
                if isinstance(e, Item) and self._is_readable(e):
                    stores = [s for s in self.stores
                              if self._class(s.array) == self._class(e.array)]
                    if self._is_previous(e, stores) and stores[0] in sure[k:]:
                        facts[e] = facts.get(e, Fact(0)) | Fact.PREVIOUS
                    elif stores and self._is_still(e, stores, span):
                        fixed[self._place(e)] = Fact.STILL
                    elif stores and self._is_split(e, stores):
                        fixed[self._place(e)] = Fact.SPLIT
        for stmt in walk(self.loop.body) if fixed else ():  # read once in each turn, or again
            for e in subexpressions(*operands(stmt)):
                if isinstance(e, Item) and self._is_readable(e) and self._place(e) in fixed:
                    facts[e] = facts.get(e, Fact(0)) | fixed[self._place(e)]

    def _place(self, e: Item) -> tuple[str, tuple[Form, ...]]:
        return e.array, tuple([self.forms[i] for i in e.indices])

    def _class(self, array: str) -> object:
        return self.classes.get(array, array)

    def _is_readable(self, e: Item) -> bool:
        """Whether the place can be computed before the loop, but for the counter."""
        return all(i in self.forms for i in e.indices) and not any(
            isinstance(x, Item | Choice) for i in e.indices for x in subexpressions(i)) and not (
            names_in(*e.indices).keys() & self.changed.keys())

    def _is_previous(self, e: Item, stores: list[Store]) -> bool:
        if len(stores) != 1 or stores[0].array != e.array or not self.step:
            return False
        moves = False
        for read, write in zip(e.indices, stores[0].indices):
            place = self.forms.get(write)
            if place is None or any(s > self.counter for s in place.symbols):
                return False  # what is made in the loop differs from turn to turn
            by = place.coefficient(self.counter) * self.step
            if place.plus(self.forms[read], -1) != Form(by):
                return False
            moves = moves or by != 0
        return moves

    def _stays(self, e: Item) -> bool:
        return all(s < self.counter for i in e.indices for s in self.forms[i].symbols)

    def _is_split(self, e: Item, stores: list[Store]) -> bool:
        return self.step == 1 and self._stays(e) and split_axis(e, stores, self.loop) is not None

    def _is_still(self, e: Item, stores: list[Store], span: Callable[[Form], Span]) -> bool:
        found = [self.forms[i] for i in e.indices]
        if not self._stays(e):
            return False
        for stmt in stores:
            apart = False
            for here, index in zip(found, stmt.indices):
                place = self.forms.get(index)
                if place is not None and not apart:
                    low, high = span(here.plus(place, -1))
                    apart = (low is not None and low > 0) or (high is not None and high < 0)
            if not apart:
                return False
        return True


def split_axis(e: Item, stores: Sequence[Store], loop: For) -> int | None:
    """The axis on which all stores are at the counter of the loop."""
    for axis in range(len(e.indices)):
        if all(isinstance(i := s.indices[axis], Name) and i.name == loop.target for s in stores):
            return axis
    return None


def _sure(body: Body) -> list[object]:
    """The statements that every turn reaches."""
    found: list[object] = []
    for stmt in body:
        found.append(stmt)
        if any(isinstance(s, Break | Continue | Return) for s in walk([stmt])):
            break
    return found


def _always(stmt: object) -> Iterator[Expr]:
    """The expressions that a statement evaluates whatever they are."""
    match stmt:
        case Assign():
            stack = [stmt.value]
        case Store():
            stack = [*stmt.indices, stmt.value]
        case If():
            stack = [stmt.test]
        case _:
            stack = []
    while stack:
        e = stack.pop()
        yield e
        match e:
            case Choice():
                stack.append(e.test)
            case Apply(function="and" | "or"):
                stack.append(e.args[0])
            case _:
                stack.extend(parts(e))
