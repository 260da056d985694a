"""The qualifiers of a comprehension: what they bind, draw, test and group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.comprehension import syntax as s
from tensorel.comprehension.operators import binary, is_whole, number, widened
from tensorel.comprehension.things import Array, Bag, Env, Group, Later, Span, Thing, kind_of
from tensorel.ir import nodes as ir
from tensorel.ir.build import compare, minus, plus
from tensorel.ir.ranges import bounded, is_affine
from tensorel.language.choices import Choices, Condition, exists
from tensorel.language.scalars import call, truth

if TYPE_CHECKING:
    from tensorel.comprehension.to_calculus import Lowering

#: What knows the group that aggregates of a constant are over.
MEMBERS = " members"
AFTER_GROUP = "after group by, a name that is not in the key stands for all members: say +/v"


class Scope:
    """The qualifiers of a comprehension so far. ``local``: the names that they bind."""

    def __init__(self, lowering: Lowering, env: Env) -> None:
        self.lowering = lowering
        self.indices = lowering.indices
        self.env: dict[str, Thing] = dict(env)
        self.local: set[str] = set()
        self.choices = Choices()

    def match(self, pattern: s.AnyPattern, thing: Thing, joins: bool) -> None:
        """Bind the names of a pattern; ``joins``: to one that is bound already it is equal."""
        if isinstance(pattern, s.Pattern):
            if not isinstance(thing, tuple) or len(thing) != len(pattern.items):
                self.lowering.fail(
                    f"a pattern of {len(pattern.items)} does not fit {kind_of(thing)}", pattern.at)
            for p, t in zip(pattern.items, thing):
                self.match(p, t, joins)
            return
        name = pattern.name
        if name == "_":
            return
        known = self.env.get(name)
        if joins and name in self.local and isinstance(known, ir.Expr) and isinstance(
                thing, ir.Expr):
            self.choices = self.choices.tested(binary("==", known, thing))
            return
        self.env[name] = thing
        self.local.add(name)

    # -- generators --------------------------------------------------------------------------
    def draw(self, q: s.Draw) -> None:
        lowering = self.lowering
        source = lowering.of(q.source, self.env)
        match source:
            case Span():
                found: Thing = self.spanned(source, q)
            case Array() if source.node.shape:
                found = self.entry(source, q)
            case Later():
                choices, env = lowering.choose(source.made, source.env)
                self.choices = self.choices.drawn(
                    choices.over, choices.guards, choices.conditions)
                found = lowering.of(source.made.head, env)
            case Bag():
                found = self.member(source)
            case _:
                hint = "a comparison of a bare name is written (i) <= n" if q.full else None
                lowering.fail(f"a generator draws from a tensor, a range or a list, not from "
                              f"{kind_of(source)}", q.source.at, hint)
        self.match(q.pattern, found, True)

    def entry(self, source: Array, q: s.Draw) -> Thing:
        """A key and its value."""
        keys = tuple([self.indices.fresh(0, n - 1) for n in source.node.shape])
        read = ir.Read(source.node, keys)
        there = [] if q.full else [differs(read, source.fill)]
        may_go = [] if self.lowering.strict else [Condition(t, {read: source.fill}) for t in there]
        self.choices = self.choices.drawn(
            [k.name for k in keys], there if self.lowering.strict else (), may_go)
        return (keys[0] if len(keys) == 1 else keys), widened(read)

    def spanned(self, span: Span, q: s.Draw) -> ir.Expr:
        """One of the numbers of a range. Where two bounds are so far apart in every choice, the
        index counts from the lower one, so that a key made of it is solved for another index."""
        lows, highs = bounds_in(span.low, ops.maximum), bounds_in(span.high, ops.minimum)
        fixed = [(w, a, b) for a in lows for b in highs
                 if (a.free or b.free) and (w := _width(a, b)) is not None]
        if fixed:
            width, low, high = min(fixed, key=lambda f: f[0])
            k = self.indices.fresh(0, width)
            value = plus(low, k)
            rest = [x for x in lows if x is not low], [x for x in highs if x is not high]
        else:
            known = (self.indices.range_of(span.low, self.choices.guards),
                     self.indices.range_of(span.high, self.choices.guards))
            if known[0] is None or known[1] is None:
                self.lowering.fail("the bounds of the range are not known before it runs",
                                   q.source.at, self.lowering.build.hints.unknown_range)
            value = k = self.indices.fresh(known[0][0], known[1][1])
            rest = ([x for x in lows if not isinstance(x, ir.Const) or x.value > known[0][0]],
                    [x for x in highs if not isinstance(x, ir.Const) or x.value < known[1][1]])
        guards = [*(compare(ops.less_equal, x, value) for x in rest[0]),
                  *(compare(ops.less_equal, value, x) for x in rest[1])]
        self.choices = self.choices.drawn([k.name], guards)
        return value

    def member(self, bag: Bag) -> Thing:
        """A member of a group: with indices of its own, for it may be drawn again."""
        members = bag.group.members
        new: dict[str, ir.Expr] = {n: self.indices.copy(n) for n in members.over}
        moved = members.moved(new)
        self.choices = self.choices.drawn(moved.over, moved.guards, moved.conditions)
        return self.moved(bag.thing, new)

    def moved(self, thing: Thing, by: dict[str, ir.Expr]) -> Thing:
        """A thing of another member."""
        if isinstance(thing, tuple):
            return tuple([self.moved(t, by) for t in thing])
        if isinstance(thing, Bag):
            group = Group(thing.group.members.moved(by))
            return Bag(group, self.moved(thing.thing, by))
        return self.lowering.build.moved(thing, by) if isinstance(thing, ir.Expr) else thing

    # -- groups ------------------------------------------------------------------------------
    def group(self, q: s.Group) -> None:
        """From here on a choice is a key that some member has."""
        lowering, build = self.lowering, self.lowering.build
        at = q.at if q.key is None else q.key.at
        made = lowering.of(s.as_expr(q.pattern) if q.key is None else q.key, self.env)
        inner = self.choices
        new: list[ir.Index] = []
        tests: list[ir.Expr] = []

        def keyed(thing: Thing) -> Thing:
            if isinstance(thing, tuple):
                return tuple(map(keyed, thing))
            if not isinstance(thing, ir.Expr):
                lowering.fail(f"a group key is made of numbers, not of {kind_of(thing)}", at,
                              AFTER_GROUP if isinstance(thing, Bag) else None)
            if not is_whole(thing):
                table, code = lowering.writer.coded(build, inner, thing, at)
                tests.append(compare(ops.equal, code, k := self.fresh_key(code, inner, at)))
                new.append(k)
                return ir.Read(table, (k,))
            whole = number(thing)
            k = self.fresh_key(whole, inner, at)
            new.append(k)
            tests.append(compare(ops.equal, whole, k))
            return truth(k) if thing.dtype == ir.BOOL else k

        found = keyed(made)
        members = Choices(inner.over, (*tests, *inner.guards), inner.conditions)
        group = Group(members)
        there = exists(build, members)
        sure = isinstance(there, ir.Const) and bool(there.value)
        self.choices = Choices(
            tuple([k.name for k in new]), (),
            () if sure else (Condition(there, group.absent),))
        group.absent[there] = ir.const(np.False_)
        kept = set(s.names_of(q.pattern))
        self.env[MEMBERS] = Bag(group, self.env.get(MEMBERS, ()))
        for name in self.local - kept:
            self.env[name] = Bag(group, self.env[name])
        self.local |= kept
        self.match(q.pattern, found, False)

    def fresh_key(self, key: ir.Expr, inner: Choices, at: int) -> ir.Index:
        known = self.indices.range_of(key, inner.guards)
        if known is None or known[1] - known[0] >= 2**62:
            known = self.lowering.writer.hull(self.lowering.build, inner, key)
        low, high = bounded(key, known, map(self.indices.tidied, inner.guards))
        return self.indices.fresh(low, max(high, low - 1))


def differs(read: ir.Expr, fill: ir.Const) -> ir.Expr:
    """An entry is there."""
    if fill.value != fill.value:
        return call(ops.logical_not, call(ops.isnan, read))
    if fill.dtype == ir.BOOL:
        return call(ops.logical_not, read) if fill.value else read
    return call(ops.not_equal, read, fill)


def bounds_in(e: ir.Expr, op: ops.Operator) -> list[ir.Expr]:
    """The parts of a maximum below a range, of a minimum above one."""
    if isinstance(e, ir.Call) and e.op is op:
        return [b for a in e.args for b in bounds_in(a, op)]
    return [e]


def _width(low: ir.Expr, high: ir.Expr) -> int | None:
    """How far apart two bounds are, if always the same."""
    form = is_affine(minus(high, low))
    return form.constant if form is not None and not form.coefficients else None
