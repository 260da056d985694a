"""Which variables may be used before they are set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorel.loops.syntax import (
    Allocate,
    Assign,
    Body,
    Break,
    Continue,
    Copy,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    Number,
    Return,
    Stmt,
    Store,
    While,
    operands,
    subexpressions,
)

#: The variables that are set on every way to a place; None: no way leads there.
State = frozenset[str] | None


class Assignment:
    """``unsure``: variables that some use may find unset; ``ends``: the end of the program may be
    reached without a return."""

    def __init__(self, body: Body, given: Iterable[str]) -> None:
        self.unsure: set[str] = set()
        self._breaks: list[list[State]] = [[]]  # the first: of a loop around the statements
        self.ends = self._block(body, frozenset(given)) is not None

    def _use(self, names: Iterable[str], state: frozenset[str]) -> None:
        self.unsure.update(n for n in names if n not in state)

    def _block(self, body: Sequence[Stmt], state: State) -> State:
        for stmt in body:
            if state is None:
                return None
            state = self._statement(stmt, state)
        return state

    def _statement(self, stmt: Stmt, state: frozenset[str]) -> State:
        self._use(_names(operands(stmt)), state)
        match stmt:
            case Assign() | Allocate() | Copy():
                if isinstance(stmt, Copy):
                    self._use([stmt.source], state)
                if isinstance(stmt, Allocate):
                    self._use([n for n in (stmt.like, stmt.of) if n is not None], state)
                return state | {stmt.name}
            case Store():
                self._use([stmt.array], state)
            case For():
                self._loop(stmt.body, state | {stmt.target})
            case While():
                after = self._loop(stmt.body, state)
                if isinstance(stmt.test, Number) and stmt.test.value:
                    return after
            case If():
                return _both(self._block(stmt.then, state), self._block(stmt.other, state))
            case Break():
                self._breaks[-1].append(state)
                return None
            case Continue() | Return():
                return None
        return state

    def _loop(self, body: Body, state: State) -> State:
        """What is set after a loop that only a break leaves."""
        self._breaks.append([])
        self._block(body, state)
        found: State = None
        for s in self._breaks.pop():
            found = _both(found, s)
        return found


def _both(a: State, b: State) -> State:
    if a is None or b is None:
        return a if b is None else b
    return a & b


def _names(roots: Sequence[Expr]) -> Iterable[str]:
    for e in subexpressions(*roots):
        match e:
            case Name(name=name) | Item(array=name) | Extent(array=name):
                yield name


def exposed(rest: Sequence[Stmt], candidates: Iterable[str], known: Iterable[str]) -> set[str]:
    """The variables among the candidates whose value statements may use. ``known``: all."""
    asked = set(candidates)
    return Assignment(tuple(rest), set(known) - asked).unsure & asked
