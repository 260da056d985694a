"""From a loop nest over operands to Loop IR.

For each loop index, in order:
- a *support formula* (``support.py``) says where the body can differ from its background;
- its *cover* is the cheapest set of operands that contains the support: these lead, one by a plain
  walk, several by a merge; without a cover the loop runs over the whole extent;
- all other operands with a level on this index follow: found directly, probed by hash, searched,
  or advanced beside the leader;
- the formula over what was found guards the rest of the body.

This one mechanism gives two-way merges, intersections, SpGEMM, SDDMM, unions with any fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tensorel.algebra import ops
from tensorel.ir.build import both, compare, convert, copies, plus
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Call,
    Const,
    DType,
    Expr,
    Index,
    Local,
    Read,
    Reduce,
    Source,
    below_calls,
    const,
    is_same_literal,
    postorder,
)
from tensorel.kernels.loopir.statements import Assign, If
from tensorel.kernels.lowering.bounded import bounds_of, decided
from tensorel.kernels.lowering.collapse import flat_level, listed_levels, needs
from tensorel.kernels.lowering.looping import Looper
from tensorel.kernels.lowering.nest import Assembly, Let
from tensorel.kernels.lowering.operand_reads import Access, Reading
from tensorel.kernels.lowering.stepping import Span
from tensorel.kernels.lowering.support import TRUE, Analysis, Cover, Formula, absent, rounds
from tensorel.kernels.lowering.workspaces import add, clear, level_of, support_of
from tensorel.kernels.passes.exact_sums import kept
from tensorel.storage.levels import Level

Supports = Callable[[str], Formula]  # by loop index


class Lowering(Reading):
    """The state of lowering one nest; an ``Assembler`` writes the results."""

    #: the innermost body is small: a merge may hold it once for each case
    may_repeat_body = True
    #: more loops stand inside the innermost body
    loops_inside = False
    #: cells are added to in place: those that nothing is added to are as they should be
    adds = False
    #: factors that are not zero here
    asked: tuple[Access, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scope: Expr = self.nest.body
        self.bounds = bounds_of(self.nest)
        self.support = TRUE if self.nest.everywhere else support_of(
            self.nest.body, self.lets, Analysis(self.strict), self.nest.op is ops.add)
        for let in self.nest.lets:
            self.emit(Assign(level_of(let.slot).count, const(0, INT64)))

    def value(self, e: Expr) -> Expr:
        return self._value(e, {})

    def _value(self, e: Expr, done: dict[Expr, Expr]) -> Expr:
        """``e`` with bound indices, resolved reads and reductions replaced by locals; ``done``:
        calls inside, which may be shared."""
        match e:
            case Const():
                return self.literal(e)
            case Local():
                return e
            case Index():
                return self.bound[e.name]
            case Read():
                found = self.accesses[e]
                if found.value is None:
                    self.resolve(found)
                assert found.value is not None, e
                return found.value
            case Call():
                call = done.get(e)
                if call is None:
                    call = decided(e, self.sure, lambda a: self._value(a, done)) \
                        if self.sure else None
                    call = done[e] = call or Call(
                        e.op, tuple([self._value(a, done) for a in e.args]))
                return call
            case Reduce():
                if e not in self.done_reductions:
                    self.done_reductions[e] = self.reduction(e)
                return self.done_reductions[e]
            case _:
                raise AssertionError(e)

    def reduction(self, e: Reduce) -> Expr:
        """An inner reduction: loops around a scalar accumulator."""
        self.open_reductions.add(e)
        acc = self.accumulator(e.op, e.dtype)
        reads = {r for r in postorder(e.body) if isinstance(r, Read)}
        names = {a.name for a in e.axes}
        fixed = Analysis(self.strict, lambda r: r.free.isdisjoint(names), summed=e.op is ops.add)
        cover = fixed.cover(e.body)
        if self.strict and rounds(e.op, e.dtype) and not self._is_identity(e, cover.background):
            cover = Cover(None, TRUE)
        missing = cover.support.kind != "true" and not self._is_identity(e, cover.background)
        count = self.fresh("seen") if missing else None
        if count is not None:
            self.emit(Assign(count, const(0, INT64)))

        def inner() -> None:
            self.accumulate(e.op, acc, e.body)
            if count is not None:
                self.emit(Assign(count, plus(count, 1)))

        states = {r: self.accesses[r].state() for r in reads}
        bound, done = dict(self.bound), dict(self.done_reductions)
        outside = self.in_cell, self.selects, self.loops_inside
        self.in_cell, self.selects, self.loops_inside = True, count is None, False
        axes = tuple(a.name for a in e.axes)
        self.summing(e.op, acc, axes, lambda: self.loops(axes, lambda name: cover.support, inner))
        self.in_cell, self.selects, self.loops_inside = outside
        self.bound, self.done_reductions = bound, done
        for r, state in states.items():
            self.accesses[r].restore(state)
        self.open_reductions.discard(e)
        if count is not None:
            rest = cover.background or absent(e.body, lambda r: not r.free.isdisjoint(names))
            self.add_missing(e.op, acc, rest, e.axes, count)
        return acc

    def accumulator(self, op: ops.Operator, dtype: DType) -> Local:
        """A local for values of ``dtype`` to be combined in, which starts as the identity."""
        assert op.identity is not None
        acc = self.fresh("acc", dtype)
        self.emit(Assign(acc, const(op.identity(dtype), dtype)))
        return acc

    def summing(self, op: ops.Operator, acc: Local, names: tuple[str, ...],
                loops: Callable[[], None]) -> None:
        """Loops over ``names`` that combine values in ``acc``; sums of many terms keep what
        additions lose."""
        with self.block() as body:
            loops()
        made = tuple(body)
        if op is ops.add and not self.strict and acc.dtype.kind in "fc":
            known: dict[Expr, int] = {x: self.extents[n[2:]] for n, (x, _) in self.scalars.items()
                                      if n[2:] in names}
            made = kept(made, acc, lambda name, like: self.fresh(name, like.dtype), known)
        self.blocks[-1].extend(made)

    def _is_identity(self, e: Reduce, background: Const | None) -> bool:
        assert e.op.identity is not None
        return is_same_literal(background, const(e.op.identity(e.dtype), e.dtype))

    def add_missing(self, op: ops.Operator, acc: Local, rest: Expr, axes: Iterable[Axis],
                    seen: Expr) -> None:
        """Combine ``acc`` with the points that were not visited, if any, each equal to ``rest``.
        Where that is known and decides the result alone, nothing is computed: a product with an
        entry that is not stored is 0, also if the others overflow."""
        dtype = acc.dtype
        decided = op.decided(1, rest.value, dtype) if isinstance(rest, Const) else None
        with self.block() as then:
            if decided is not None:
                self.emit(Assign(acc, const(decided, dtype)))
            else:
                more = convert(self.value(rest), dtype)
                if not op.idempotent:
                    times, total = copies(op, dtype, math.prod(a.extent for a in axes))
                    left = self.literal(const(total)), convert(seen, total.dtype)
                    more = Call(times, (more, Call(ops.subtract, left)))
                self.emit(Assign(acc, self.combine(op, acc, more)))
        self.emit(If(self._some_missing(axes, seen), tuple(then)))

    def _some_missing(self, axes: Iterable[Axis], count: Expr) -> Expr:
        total = math.prod(a.extent for a in axes)
        name = "points_" + "_".join(a.name for a in axes)
        return compare(ops.greater, self.scalar(name, INT64, min(total, 2**62)), count)

    def combine(self, op: ops.Operator, acc: Expr, value: Expr) -> Expr:
        return convert(Call(op, (acc, convert(value, acc.dtype))), acc.dtype)

    def accumulate(self, op: ops.Operator, acc: Local, body: Expr) -> None:
        """One point more, unless the condition around it says otherwise."""
        value = self.value(body)
        if self.condition is not None:
            assert op.identity is not None
            value = convert(value, acc.dtype)
            value = Call(ops.where, (self.condition, value, const(
                op.identity(acc.dtype), acc.dtype)))
        self.emit(Assign(acc, self.combine(op, acc, value)))

    # -- loops ---------------------------------------------------------------------------------

    def loops(self, names: tuple[str, ...], support: Supports, innermost: Callable[[], None],
              enter: Callable[[str], None] | None = None,
              leave: Callable[[str], None] | None = None, depth: int = 1) -> None:
        """Loops over ``names`` around ``innermost``; hooks run before and after each body.

        Depth 0 is the outer loop of the kernel, which runs over the range of this call. All loops
        but the innermost look at the cancel flag; those stay free to be vectorized."""
        bound = sum(n in self.bound for n in self.nest.loops)
        due = [let for let in self.nest.lets if let.depth == bound and let not in self.filled]
        if due and self.scope is self.nest.body:
            self._with_workspaces(due, lambda: self.loops(
                names, support, innermost, enter, leave, depth))
            return
        self.ahead.update({n: support(n) for n in names})
        self._hoist()
        if not names:
            innermost()
            return
        idle = self._deciding() if depth else []
        if idle:
            self.asked = (*self.asked, *idle)
            with self.block() as some:
                self.loops(names, support, innermost, enter, leave, depth)
            self.asked = self.asked[: -len(idle)]
            nonzero = both(*[compare(ops.not_equal, a.value, 0) for a in idle])  # type: ignore[arg-type]
            assert nonzero is not None
            self.emit(If(nonzero, tuple(some)))
            return
        span = None
        if enter is None:
            span = self._list(names, support, depth == 0)
            if span is None and depth == 0:
                span = self._flat(names, support)
        if span is not None:
            names = names[len(span.names) or span.level:]
        name, rest = names[0], names[1:]

        def body() -> None:
            if enter is not None:
                enter(name)
            self.loops(rest, support, innermost, enter, leave, depth + 1)
            if leave is not None:
                leave(name)

        inside = bool(rest) or self.loops_inside or self._waits()
        Looper(
            self, name, support(name), depth == 0, inside or depth == 0,
            not rest and self.may_repeat_body, not inside, span,
        ).run(body)

    def _deciding(self) -> list[Access]:
        """Factors whose values are known before the loops to come, and which are zero where these
        add nothing, whatever they meet: so it is for ``and`` and for integers."""
        nest, body = self.nest, self.nest.body
        if not (self.in_cell or self.adds) or self.scope is not body or self.open_reductions \
                or self.strict \
                or nest.op is None or nest.counted or nest.everywhere or nest.whole_cells \
                or not isinstance(body, Call) or body.op.annihilators != (0, 0) \
                or not (body.op.exact_annihilators or body.dtype.kind in "biu"):
            return []
        assert nest.op.identity is not None
        if nest.op.identity(body.dtype) != 0:
            return []
        found: list[Access] = []
        stack: list[Expr] = [body]
        while stack:
            e = stack.pop()
            if isinstance(e, Call) and e.op is body.op:
                stack.extend(e.args)
            elif isinstance(e, Read) and e in self.accesses:
                a = self.accesses[e]
                if a.value is not None and a not in self.asked and not isinstance(a.value, Const):
                    found.append(a)
        return found

    def _waits(self) -> bool:
        """A reduction is still to be evaluated in the innermost body."""
        return any(e not in self.done_reductions and e not in self.open_reductions
                   for e in self.inner_reductions())

    def _with_workspaces(self, due: list[Let], inside: Callable[[], None]) -> None:
        """Fill workspaces, do what reads them, forget them."""
        accesses, filled = self.accesses, self.filled
        for let in due:
            self._fill(let)
            self.filled = (*self.filled, let)
        self.accesses = self.active()
        inside()
        self.accesses, self.filled = accesses, filled
        for let in due:
            clear(self, let, self._arrays(let))

    def _arrays(self, let: Let) -> dict[str, Source]:
        return {name: self.own_arrays[f"{let.slot.name}.{name}"] for name, _ in let.slot.dtypes}

    def _fill(self, let: Let) -> None:
        """The loops of a workspace's own; nothing outside knows of them."""
        arrays = self._arrays(let)
        outside = (self.scope, self.accesses, self.in_cell, self.may_repeat_body,
                   self.loops_inside, self.announce, self.bound, self.done_reductions,
                   self.selects)
        self.bound, self.done_reductions = dict(self.bound), dict(self.done_reductions)
        self.scope, self.in_cell, self.announce = let.body, True, lambda name, count: None
        self.selects = False
        self.loops_inside, self.may_repeat_body = False, not self.inner_reductions()
        self.accesses = {e: self.known[e] for e in postorder(let.body) if isinstance(e, Read)}
        states = {a: a.state() for a in self.accesses.values()}
        support = support_of(let.body, self.lets, Analysis(self.strict))

        def inner() -> None:
            at = self.let("at", self.bound[let.axis])
            value = self.let("x", convert(self.value(let.body), arrays["val"].dtype))
            add(self, let, arrays, at, value)

        self.loops(let.loops, lambda name: support, inner)
        for a, state in states.items():
            a.restore(state)
        (self.scope, self.accesses, self.in_cell, self.may_repeat_body,
         self.loops_inside, self.announce, self.bound, self.done_reductions,
         self.selects) = outside

    def _flat(self, names: tuple[str, ...], support: Supports) -> Span | None:
        """The entries of an operand within the range of this call, where one loop over them
        serves for the leading loops: all else that it reads is dense."""
        roots, out = self.roots, self.nest.output
        if out.assembly is Assembly.SHARED:  # results have the place of the entry
            roots = [e for e in (self.nest.body, out.guard) if e is not None]
        found = flat_level(roots, names, self.nest.extent) if not self.lets else None
        if found is None:
            return None
        read, level = found.read, found.level
        a, flat = self.accesses[read], frozenset(names[: level + 1])
        if not all(needs(support(n), read) for n in flat) or a.depth or any(
                b is not a and not b.slot.format.is_dense and not b.read.free.isdisjoint(flat)
                for b in self.accesses.values()):
            return None
        ends: list[Expr] = [self.lo, self.hi]
        levels, arrays = a.slot.format.levels, a.arrays
        if not levels[0].full:
            walk, lo, hi = self.open_walk(a)
            ends = [self.lower_bound(walk, lo, hi, p) for p in ends]
        for below in levels[1: level + 1]:
            ends = [self.let("p", _first(below, arrays, p)) for p in ends]
        self.bound.update(dict.fromkeys(names[:level], const(0, INT64)))
        return Span(a, level, ends[0], ends[1])

    def _list(self, names: tuple[str, ...], support: Supports, outermost: bool) -> Span | None:
        """The entries of a coordinate list, where one loop over them serves for several loops:
        all else that these loops read is dense, and nothing is made once for a run."""
        extents = {n: e for n, e in self.extents.items() if not outermost or n != names[0]}
        for a in () if self.lets else self.accesses.values():
            count = 0 if a.resolved else listed_levels(a.read, a.depth, names, extents)
            outer, last = names[: count - 1], names[count - 1]
            if count < 2 or not all(needs(support(n), a.read) for n in names[:count]) or any(
                    b is not a and not b.slot.format.is_dense
                    and not b.read.free.isdisjoint(names[:count])
                    for b in self.accesses.values()) or any(
                    e not in self.done_reductions and last not in e.free
                    and not e.free.isdisjoint(outer) for e in self.inner_reductions()):
                continue
            walk, lo, hi = self.open_walk(a)
            if outermost:
                lo, hi = (self.lower_bound(walk, lo, hi, p) for p in (self.lo, self.hi))
            return Span(a, a.depth + count - 1, lo, hi, outer)
        return None

    def _hoist(self) -> None:
        """Resolve what the bound indices determine; inner loops then read locals."""
        for access in self.accesses.values():
            if access.value is None and self.wants_early(access):
                self.resolve(access)
        for e in self.inner_reductions():
            if e not in self.done_reductions and e not in self.open_reductions \
                    and self.is_bound(e) and self._is_filled(e):
                self.done_reductions[e] = self.reduction(e)

    def _is_filled(self, e: Expr) -> bool:
        """The workspaces that it reads are there."""
        return not self.lets or all(
            r in self.accesses for r in postorder(e) if isinstance(r, Read))

    def inner_reductions(self) -> list[Reduce]:
        """Outermost inner reductions of the body."""
        return [e for e in below_calls(self.scope) if isinstance(e, Reduce)]


def _first(level: Level, arrays: dict[str, Source], parent: Expr) -> Expr:
    """The first position below a parent."""
    walk = level.walk(arrays, (parent,), ())
    if walk is not None:
        return walk.lo
    found = level.find(arrays, (parent,), (), const(0, INT64))
    assert found is not None
    return found.child[0]
