"""Patterns compiled to searches in an e-graph.

A pattern becomes a list of steps over registers (the first holds the operator at the root); each
step reads the class in its register, tries every node there that fits, fills the registers of the
node's children and goes on with the next step. The last step copies what the names are bound to.
So a search allocates nothing until it succeeds, and which names are already bound at a step is
known when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tensorel.algebra.ops import Operator
from tensorel.ir.nodes import Axis, Const
from tensorel.rewrite.engine import Lit, Op, Pattern, Red, Rule, Var

Kids = tuple[int, ...]
Bound = tuple[Operator, tuple[Axis, ...]]


class Class(Protocol):
    """What a search sees of a class."""

    calls: dict[Operator, dict[Kids, None]]
    reduces: dict[Bound, dict[Kids, None]]
    const: Const | None
    exact: bool


Classes = Sequence[Class]
Registers = list[object]
Found = list[tuple[object, ...]]
Step = Callable[[Registers, Classes, Found], None]


class Matcher:
    """A compiled rule. ``names`` are what a match binds, in order; ``depth`` is how many levels
    of nodes a match looks at; ``required`` is what must be found among the children of the root:
    operators, literals, reductions (see ``features``)."""

    __slots__ = ("depth", "entry", "names", "required", "root", "rule", "size")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        plan = _Plan()
        plan.flatten(rule.pattern, 1)
        self.names = tuple(plan.slots)
        self.depth = plan.depth
        self.root = rule.pattern
        self.required = _required(rule.pattern)
        step = _emit(tuple(plan.slots.values()))
        for make in reversed(plan.steps[1:]):
            step = make(step)
        self.entry = _entry(rule.pattern, plan, step)
        self.size = plan.registers

    def accepts(self, op: Operator, reduction: bool) -> bool:
        """Whether a node of this operator can be the root."""
        p = self.root
        if isinstance(p, Red) is not reduction:
            return False
        if isinstance(p.op, Operator):
            return p.op is op
        if isinstance(p, Op) and op.arity != len(p.args):
            return False
        return p.when is None or p.when(op)

    def search(self, op: Operator, axes: tuple[Axis, ...], kids: Kids, classes: Classes,
               found: Found) -> None:
        """Append to ``found`` the values of ``names`` for each match of this node."""
        env: Registers = [None] * self.size
        self.entry(env, classes, found, op, axes, kids)


LITERAL, REDUCTION = "literal", "reduction"


def _required(p: Op | Red) -> frozenset[object]:
    found: set[object] = set()
    for a in p.args if isinstance(p, Op) else (p.body,):
        match a:
            case Lit():
                found.add(LITERAL)
            case Red():
                found.add(REDUCTION)
            case Op(op) if isinstance(op, Operator):
                found.add(op)
    return frozenset(found)


def features(kids: Kids, classes: Classes) -> set[object]:
    """What patterns can require of the children of a node."""
    found: set[object] = set()
    for k in kids:
        c = classes[k]
        found.update(c.calls)
        if c.reduces:
            found.add(REDUCTION)
        if c.const is not None:
            found.add(LITERAL)
    return found


Entry = Callable[[Registers, Classes, Found, Operator, tuple[Axis, ...], Kids], None]


class _Plan:
    """Registers and steps of a pattern; the first step is the root, taken by ``_entry``."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.steps: list[Callable[[Step], Step]] = []
        self.registers = 1
        self.depth = 1
        self.kids: tuple[int, ...] = ()

    def new(self) -> int:
        self.registers += 1
        return self.registers - 1

    def bind(self, name: str) -> tuple[int, bool]:
        """The register of a name and whether it is bound here for the first time."""
        first = name not in self.slots
        if first:
            self.slots[name] = self.new()
        return self.slots[name], first

    def flatten(self, pattern: Pattern, depth: int) -> None:
        queue: list[tuple[Pattern, int, int]] = [(pattern, 0, 1)]
        while queue:
            p, at, depth = queue.pop(0)
            if not isinstance(p, Var):
                self.depth = max(self.depth, depth)
            match p:
                case Var(name):
                    self.steps.append(_var(at, *self.bind(name)))
                case Lit(name):
                    self.steps.append(_lit(at, *self.bind(name)))
                case Op(op, args):
                    named = self.bind(op) if isinstance(op, str) else None
                    kids = tuple(self.new() for _ in args)
                    self.steps.append(_call(at, p, named, kids))
                    queue.extend((a, k, depth + 1) for a, k in zip(args, kids))
                case Red(op, axes, body):
                    named = self.bind(op) if isinstance(op, str) else None
                    kids = (self.new(),)
                    self.steps.append(_reduce(at, p, named, self.bind(axes), kids[0]))
                    queue.append((body, kids[0], depth + 1))
            if p is pattern and at == 0:
                self.kids = kids


def _emit(slots: tuple[int, ...]) -> Step:
    def step(env: Registers, classes: Classes, found: Found) -> None:
        found.append(tuple([env[s] for s in slots]))

    return step


def _var(at: int, slot: int, first: bool) -> Callable[[Step], Step]:
    def make(then: Step) -> Step:
        def bind(env: Registers, classes: Classes, found: Found) -> None:
            env[slot] = env[at]
            then(env, classes, found)

        def same(env: Registers, classes: Classes, found: Found) -> None:
            if env[slot] == env[at]:
                then(env, classes, found)

        return bind if first else same

    return make


def _lit(at: int, slot: int, first: bool) -> Callable[[Step], Step]:
    def make(then: Step) -> Step:
        def step(env: Registers, classes: Classes, found: Found) -> None:
            value = classes[env[at]].const  # type: ignore[call-overload]
            if value is not None and (first or env[slot] is value):
                env[slot] = value
                then(env, classes, found)

        return step

    return make


def _orders(kids: tuple[int, ...], then: Step) -> Callable[..., None]:
    """Fill the children's registers, for commutative operators in both orders."""
    if len(kids) == 2:
        left, right = kids

        def both(env: Registers, classes: Classes, found: Found, op: Operator, ids: Kids) -> None:
            env[left], env[right] = ids
            then(env, classes, found)
            if op.commutative and ids[0] != ids[1] and not (
                    op.idempotent and classes[ids[0]].exact):
                env[right], env[left] = ids
                then(env, classes, found)

        return both

    def once(env: Registers, classes: Classes, found: Found, op: Operator, ids: Kids) -> None:
        for register, value in zip(kids, ids):
            env[register] = value
        then(env, classes, found)

    return once


def _call(at: int, p: Op, named: tuple[int, bool] | None, kids: tuple[int, ...]
          ) -> Callable[[Step], Step]:
    arity, when, under = len(kids), p.when, p.under

    def make(then: Step) -> Step:
        go = _orders(kids, then)

        def fixed(env: Registers, classes: Classes, found: Found) -> None:
            op = p.op if named is None else env[named[0]]
            for ids in classes[env[at]].calls.get(op, ()):  # type: ignore[call-overload]
                go(env, classes, found, op, ids)

        def any_(env: Registers, classes: Classes, found: Found) -> None:
            assert named is not None
            for op, nodes in classes[env[at]].calls.items():  # type: ignore[call-overload]
                if op.arity == arity and (when is None or when(op)) \
                        and (under is None or under(env[0], op)):  # type: ignore[arg-type]
                    for ids in nodes:
                        env[named[0]] = op
                        go(env, classes, found, op, ids)

        return any_ if named is not None and named[1] else fixed

    return make


def _reduce(at: int, p: Red, named: tuple[int, bool] | None, axes: tuple[int, bool], kid: int
            ) -> Callable[[Step], Step]:
    slot, first = axes

    def make(then: Step) -> Step:
        def step(env: Registers, classes: Classes, found: Found) -> None:
            for (op, bound), nodes in classes[env[at]].reduces.items():  # type: ignore[call-overload]
                if named is None:
                    if op is not p.op:
                        continue
                elif named[1]:
                    if p.when is not None and not p.when(op):
                        continue
                    if p.under is not None and not p.under(env[0], op):  # type: ignore[arg-type]
                        continue
                    env[named[0]] = op
                elif env[named[0]] is not op:
                    continue
                if not first and env[slot] != bound:
                    continue
                for ids in nodes:
                    if first:
                        env[slot] = bound
                    env[kid] = ids[0]
                    then(env, classes, found)

        return step

    return make


def _entry(p: Op | Red, plan: _Plan, then: Step) -> Entry:
    named = plan.slots[p.op] if isinstance(p.op, str) else None
    slot = plan.slots[p.axes] if isinstance(p, Red) else None
    go = _orders(plan.kids, then)

    def entry(env: Registers, classes: Classes, found: Found, op: Operator,
              axes: tuple[Axis, ...], ids: Kids) -> None:
        env[0] = op
        if named is not None:
            env[named] = op
        if slot is not None:
            env[slot] = axes
        go(env, classes, found, op, ids)

    return entry


_compiled: dict[int, Matcher] = {}


def matcher(rule: Rule) -> Matcher:
    """The compiled form, kept with the rule itself so that an id is never reused."""
    found = _compiled.get(id(rule))
    if found is None:
        found = _compiled[id(rule)] = Matcher(rule)
    return found


__all__ = ["Bound", "Kids", "Matcher", "features", "matcher"]
