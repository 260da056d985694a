"""What is known of whole numbers in a program before it runs: that indices are inside, and that
sums do not overflow.

The walk follows the statements with the values that the program is called with. A counter lies
between the bounds of its loop, a test holds in its branch, and a variable is what it was set to,
until a loop or a branch sets it again. Facts are what is true whenever an expression is evaluated
without an error, so a native program may leave out the checks that they answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorel.loops.analysis.affine import ONE, ZERO, Form
from tensorel.loops.analysis.constraints import Constraints, Span
from tensorel.loops.analysis.facts import COUNTED, SIZES, Fact, Facts, counters, step_of, target
from tensorel.loops.analysis.reuse import Reuse
from tensorel.loops.syntax import (
    Apply,
    Assign,
    Body,
    Break,
    Choice,
    Continue,
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
    assigned_names,
    names_in,
    operands,
    walk,
)
from tensorel.loops.types import is_whole
from tensorel.loops.typing import Typing

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Analysis(Constraints):
    """``numbers``: variables that are set once, or never, with their values; ``extents``: of each
    array; of those without, ``reach`` has the largest indices by axis. ``classes``: names that may
    share an array have one class."""

    def __init__(self, typing: Typing, numbers: Mapping[str, object],
                 extents: Mapping[str, tuple[int, ...]],
                 classes: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.classes = classes or {}
        self.places: dict[Expr, Form] = {}  # indices that are inside
        self.typing = typing
        self.numbers = numbers
        self.extents = extents
        self.facts: Facts = {}
        self.once: set[Expr] = set()
        self.reach: dict[str, dict[int, list[int | None]]] = {}
        self.env: dict[str, Form] = {}
        self.counters: set[str] = set()
        self.turns = 1  # of the loops around a place, at most
        self.turns_in: dict[For, int] = {}
        self.work = 0  # statements that are done, at most
        self.is_bounded = True  # that is known of all loops

    def run(self, body: Body) -> Facts:
        self.counters = counters(body, set(self.numbers), self.typing)
        self.block(body)
        return self.facts

    def note(self, e: Expr, span: Span) -> None:
        low, high = span
        found = Fact(0)
        if low is not None and high is not None:
            for size, fact in SIZES:
                if -size <= low and high <= size:
                    found |= fact
        if low is not None and low >= 0:
            found |= Fact.NATURAL | (Fact.POSITIVE if low > 0 else Fact(0))
        if high is not None and high < 0:
            found |= Fact.NEGATIVE
        self.facts[e] = self.facts.get(e, found) & found

    def variable(self, name: str) -> Form:
        """What a variable holds, of which nothing else is known."""
        if name in self.counters:
            return self.symbol(Form(-COUNTED), Form(COUNTED))
        return self.symbol()

    # -- statements --------------------------------------------------------------------------
    def block(self, body: Sequence[Stmt]) -> None:
        height = len(self.constraints)
        inside = False
        for stmt in body:
            self.statement(stmt)
            if isinstance(stmt, If) and stmt.then and isinstance(
                    stmt.then[-1], Break | Continue | Return) and not (
                    assigned_names(stmt.other).keys() & names_in(stmt.test).keys()):
                inside = True
                self.assume_test(stmt.test, False)
        if inside:
            self.forget(height)

    def statement(self, stmt: Stmt) -> None:
        self.work += self.turns
        match stmt:
            case For():
                self.for_(stmt)
            case While():
                self.is_bounded = False
                height = len(self.constraints)
                self.enter(stmt.body)
                self.form(stmt.test)
                self.assume_test(stmt.test, True)
                self.block(stmt.body)
                self.forget(height)
                self.lose(assigned_names(stmt.body))
            case If():
                self.if_(stmt)
            case Assign():
                found = self.form(stmt.value)
                if found is None:
                    self.env.pop(stmt.name, None)
                else:
                    self.env[stmt.name] = found
            case Store():
                for k, i in enumerate(stmt.indices):
                    self.index(i, stmt.array, k)
                self.form(stmt.value)
            case _:
                for e in operands(stmt):
                    if not isinstance(e, Name) or is_whole(self.typing.names.get(e.name)):
                        self.form(e)

    def if_(self, stmt: If) -> None:
        self.form(stmt.test)
        before = dict(self.env)
        for branch, holds in ((stmt.then, True), (stmt.other, False)):
            height = len(self.constraints)
            self.assume_test(stmt.test, holds)
            self.env = dict(before)
            self.block(branch)
            self.forget(height)
        self.env = before
        self.lose({**assigned_names(stmt.then), **assigned_names(stmt.other)})

    def lose(self, names: Mapping[str, int]) -> None:
        for name in names:
            self.env.pop(name, None)

    def enter(self, body: Body) -> None:
        """A loop begins: what it sets is unknown, but for counters that only go one way."""
        names = assigned_names(body)
        before = self.env
        self.env = {n: f for n, f in before.items() if n not in names}
        for name in names:
            steps = [step_of(s) for s in walk(body)
                     if isinstance(s, Assign | For) and target(s) == name]
            start = before.get(name)
            known = [k for k in steps if k is not None]
            if len(known) == len(steps) and len(steps) == names[name]:
                up = start if all(k >= 0 for k in known) else None
                down = start if all(k <= 0 for k in known) else None
                self.env[name] = self.variable(name)
                for end, sign in ((up, 1), (down, -1)):
                    if end is not None:
                        self.assume(self.env[name].plus(end, -1).times(sign))

    def for_(self, stmt: For) -> None:
        start, stop, step = [self.form(e) for e in (stmt.start, stmt.stop, stmt.step)]
        height = len(self.constraints)
        self.enter(stmt.body)
        names = assigned_names(stmt.body)
        low = high = None
        if step is not None and not step.terms and step.constant:
            by = step.constant
            if by > 0:
                low, high = start, None if stop is None else stop.plus(ONE, -1)
            else:
                low, high = None if stop is None else stop.plus(ONE), start
            if start is not None and stop is not None and not start.terms and not stop.terms:
                turns = range(start.constant, stop.constant, by)
                if turns:
                    low, high = Form(min(turns[0], turns[-1])), Form(max(turns[0], turns[-1]))
        self.env[stmt.target] = self.symbol(low, high)
        if low is not None and high is not None:
            self.assume(high.plus(low, -1))
        counter = self.env[stmt.target].symbols[0]
        outside, most = self.turns, self.most_turns(start, stop, step)
        self.is_bounded = self.is_bounded and most is not None
        self.turns = self.turns_in[stmt] = outside * (1 if most is None else most)
        self.block(stmt.body)
        self.turns = outside
        if self.classes and step is not None and not step.terms:
            Reuse(stmt, counter, step.constant, self.places, self.classes).mark(
                self.facts, self.span)
        self.forget(height)
        self.lose({**names, stmt.target: 1})

    # -- tests -------------------------------------------------------------------------------
    def assume_test(self, e: Expr, holds: bool) -> None:
        """The test gave this."""
        match e:
            case Apply(function="not", args=(inner,)):
                self.assume_test(inner, not holds)
            case Apply(function="and" | "or" as word, args=args):
                if (word == "and") == holds:
                    for a in args:
                        self.assume_test(a, holds)
            case Apply(function=symbol, args=(a, b)) if symbol in _NEGATED:
                first, second = self.value(a), self.value(b)
                if first is not None and second is not None:
                    self.compare(symbol if holds else _NEGATED[symbol], first, second)

    def value(self, e: Expr) -> Form | None:
        """A form that was found before, without a second visit."""
        facts = dict(self.facts)
        found = self.form(e)
        self.facts = facts
        return found

    # -- expressions -------------------------------------------------------------------------
    def index(self, e: Expr, array: str, axis: int) -> None:
        form, extents = self.form(e), self.extents.get(array)
        self.places.pop(e, None)
        if extents is None:
            _, high = (None, None) if form is None else self.span(form)
            self.reach.setdefault(array, {}).setdefault(axis, []).append(high)
        if form is None or extents is None:
            self.facts[e] = self.facts.get(e, Fact(0)) & ~(Fact.INSIDE | Fact.BEHIND)
            return
        low, high = self.span(form)
        n = extents[axis]
        if low is not None and high is not None:
            if low >= 0 and high < n:
                self.facts[e] |= Fact.INSIDE
                self.places[e] = form
            elif -n <= low and high < 0:
                self.facts[e] |= Fact.BEHIND

    def form(self, e: Expr) -> Form | None:
        """A whole number as a sum of symbols; None for what is none, or where nothing is known."""
        found = self._form(e)
        t = self.typing.of(e) if not isinstance(e, Name) or is_whole(
            self.typing.names.get(e.name)) else None
        if t is None or not is_whole(t):
            return None
        if found is not None and (t.weak or not isinstance(e, Apply)):
            self.note(e, self.span(found))
            if e in self.once:
                self.facts[e] |= Fact.ONCE
            return found
        self.note(e, (None, None))
        return found if t.weak else None

    def _form(self, e: Expr) -> Form | None:
        match e:
            case Number(value=int() as value):
                return Form(int(value))
            case Name():
                known = self.numbers.get(e.name)
                if isinstance(known, int | np.integer):
                    return Form(int(known))
                if e.name not in self.env and is_whole(self.typing.names.get(e.name)):
                    self.env[e.name] = self.variable(e.name)
                return self.env.get(e.name)
            case Extent():
                extents = self.extents.get(e.array)
                return None if extents is None else Form(extents[e.axis])
            case Item():
                for k, i in enumerate(e.indices):
                    self.index(i, e.array, k)
                return None
            case Choice():
                return self._choice(e)
            case Apply(function="and" | "or" as word, args=(a, b)):
                self.form(a)
                height = len(self.constraints)
                self.assume_test(a, word == "and")
                self.form(b)
                self.forget(height)
                return None
            case Apply(function="size"):
                return None
            case Apply():
                return self._apply(e, [self.form(a) for a in e.args])
        return None

    def _choice(self, e: Choice) -> Form | None:
        self.form(e.test)
        spans: list[Span] = []
        for branch, holds in ((e.then, True), (e.other, False)):
            height = len(self.constraints)
            self.assume_test(e.test, holds)
            found = self.form(branch)
            spans.append((None, None) if found is None else self.span(found))
            self.forget(height)
        return self._hull(spans)

    def _hull(self, spans: Sequence[Span]) -> Form:
        lows, highs = [s[0] for s in spans], [s[1] for s in spans]
        low = None if None in lows else Form(min(x for x in lows if x is not None))
        high = None if None in highs else Form(max(x for x in highs if x is not None))
        return self.symbol(low, high)

    def _apply(self, e: Apply, args: list[Form | None]) -> Form | None:
        if not args or any(a is None for a in args) or not is_whole(self.typing.of(e)):
            return None
        a = args[0] or ZERO
        b = args[-1] or ZERO
        match e.function:
            case "+":
                return a.plus(b)
            case "-":
                return a.plus(b, -1)
            case "neg":
                return a.times(-1)
            case "pos" | "int":
                return a
            case "*" if not b.terms:
                return a.times(b.constant)
            case "*" if not a.terms:
                return b.times(a.constant)
            case "*":
                return self._product(self.span(a), self.span(b))
            case "//" | "text./" if not b.terms and b.constant > 0:
                q = self.symbol()
                rest = a.plus(q, -b.constant)
                self.assume(rest)
                self.assume(Form(b.constant - 1).plus(rest, -1))
                return q
            case "%" | "text.%" if not b.terms and b.constant > 0:
                low, high = self.span(a)
                if low is not None and high is not None and low >= -b.constant and \
                        high < 2 * b.constant:
                    self.once.add(e)
                else:
                    self.once.discard(e)
                return self.symbol(ZERO, Form(b.constant - 1))
            case "min" | "max" as word:
                found = self._hull([self.span(a), self.span(b)])
                for x in (a, b):
                    self.assume(x.plus(found, -1) if word == "min" else found.plus(x, -1))
                return found
            case "abs":
                low, high = self.span(a)
                most = None if low is None or high is None else Form(max(-low, high))
                found = self.symbol(ZERO, most)
                self.assume(found.plus(a))
                self.assume(found.plus(a, -1))
                return found
        return None

    def _product(self, a: Span, b: Span) -> Form | None:
        ends = [x * y if x is not None and y is not None else None for x in a for y in b]
        if None in ends:
            return None
        known = [x for x in ends if x is not None]
        return self.symbol(Form(min(known)), Form(max(known)))
