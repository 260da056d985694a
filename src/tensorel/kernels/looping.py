"""One loop of a nest: who leads, who follows, and the loop around the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import (
    both,
    compare,
    convert,
    either,
    element,
    int_value,
    minus,
    plus,
    times,
)
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, Read, Source, const
from tensorel.kernels.ahead import fetch_ahead
from tensorel.kernels.loops import Assign, For, If, Stmt, While
from tensorel.kernels.reading import Access, Reading
from tensorel.kernels.support import FALSE, TRUE, Formula, has, restrict
from tensorel.kernels.workspaces import is_marked
from tensorel.records import dataclass
from tensorel.storage.levels import Compressed, Walk


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Entries of a level that lie side by side, whatever stands above them."""

    access: Access
    level: int
    lo: Expr
    hi: Expr

    def walk(self) -> Walk:
        a = self.access
        found = a.slot.format.levels[self.level].walk(a.arrays, (self.lo,), ())
        zero = const(0, INT64)  # of a dense level: nothing asks for the coordinate
        return found or Walk(self.lo, self.hi, lambda q: zero, lambda q: (q,))


@dataclass(eq=False)
class Looper:
    """One loop: chooses leaders and followers and writes the loop around the body."""

    low: Reading
    name: str
    support: Formula
    outermost: bool
    checked: bool
    innermost: bool
    last: bool = False  # no loops inside
    span: Span | None = None  # leads, and stands for the loops before
    merged: tuple[Access, ...] = ()

    def run(self, body: Callable[[], None]) -> None:
        low = self.low
        if self.support.kind == "false":
            self._leave_out()
            return  # the body is its background everywhere
        self.clips: dict[Access, tuple[Expr, Expr]] = {}  # the coordinates that the loop wants
        states = {a: a.state() for a in low.accesses.values()}
        bound, done = dict(low.bound), dict(low.done_reductions)
        candidates = {a.read: a for a in low.accesses.values() if self._is_candidate(a)}
        if self.span is not None:
            self.span.access.depth = self.span.level
            candidates = {self.span.access.read: self.span.access}
        leaders = self._leaders(candidates)
        partner = self._partner(leaders, candidates)
        followers = [a for a in candidates.values() if a not in leaders and a is not partner]
        self.begin: Expr = low.lo if self.outermost else const(0, INT64)
        self.end: Expr = low.hi if self.outermost else low.extent(self.name)
        cursors = self._open_followers(followers, all(map(self._is_ascending, leaders)))
        inner = self._body(body, followers, cursors)
        if leaders:
            self._leave_out()
        if not leaders:
            self._dense(inner)
        elif partner is not None:
            self._meet(leaders[0], partner, inner)
        elif len(leaders) == 1:
            self._single(leaders[0], inner)
        elif len(leaders) == 2 and self.innermost and self._is_simple(leaders):
            self._two_way(leaders, inner)
        else:
            self._merge(leaders, inner)
        low.bound, low.done_reductions = bound, done
        for a, state in states.items():
            a.restore(state)

    def _leave_out(self) -> None:
        """This loop may leave out cells."""
        if not self.low.in_cell:
            self.low.partial = True

    def _is_candidate(self, a: Access) -> bool:
        """The next level of the read varies with this index alone and is not full."""
        if a.resolved or a.level.full or self.name not in a.index.free:
            return False
        if any(n != self.name and n not in self.low.bound for n in a.index.free):
            return False
        if a.level.walk(a.arrays, a.position, a.coords) is None:
            return False
        parts = split_affine(a.index, self.name)
        return parts is not None and parts[0] > 0

    def _leaders(self, candidates: dict[Read, Access]) -> list[Access]:
        """The cheapest cover of the support: of a conjunction one part, of a disjunction all."""
        formula = restrict(self.support, self._known(candidates))

        def cover(f: Formula) -> list[Access] | None:
            if f.kind == "has":
                assert f.read is not None
                return [candidates[f.read]]
            if f.kind == "or":
                found: list[Access] = []
                for p in f.parts:
                    part = cover(p)
                    if part is None:
                        return None
                    found += [a for a in part if a not in found]
                return found
            if f.kind == "and":
                options = [c for c in map(cover, f.parts) if c is not None]
                return min(options, key=self._leader_cost) if options else None
            return None if f.kind == "true" else []

        if formula.kind == "false":
            return []
        return cover(formula) or []

    def _leader_cost(self, group: list[Access]) -> tuple[int, int, int]:
        """Operands that are searched or found directly rather follow; a workspace does so
        whatever stands beside it."""
        gallop = sum(self._is_searched(a) or is_marked(a.level) for a in group)
        return gallop, sum(map(self._is_direct, group)), len(group)

    def _known(self, candidates: dict[Read, Access]) -> Callable[[Read], Formula]:
        def known(read: Read) -> Formula:
            return has(read) if read in candidates else TRUE

        return known

    def _partner(self, leaders: list[Access], candidates: dict[Read, Access]) -> Access | None:
        """Another operand without whose entries there is nothing, walked beside the leader."""
        if len(leaders) != 1 or not self._is_simple(leaders):
            return None
        parts = self.support.parts if self.support.kind == "and" else ()
        for p in parts:
            a = candidates.get(p.read) if p.kind == "has" and p.read is not None else None
            if a is not None and a not in leaders and self._is_simple([a]) \
                    and not self._is_direct(a) and not self._is_searched(a):
                return a
        return None

    # -- followers -----------------------------------------------------------------------------

    def _is_ascending(self, a: Access) -> bool:
        walk = a.level.walk(a.arrays, a.position, a.coords)
        return walk is not None and walk.ascending

    def _open_followers(self, followers: list[Access], ascending: bool
                        ) -> dict[Access, tuple[Walk, Local, Expr]]:
        """Cursors of the followers that advance beside the leader."""
        low = self.low
        cursors: dict[Access, tuple[Walk, Local, Expr]] = {}
        for a in followers if ascending else ():
            if self._is_direct(a) or self._is_searched(a):
                continue
            walk, lo, hi = low.open_walk(a)
            cursor = low.fresh("cur")
            start: Expr = lo
            if self.outermost:
                step, offset = split_affine(a.index, self.name) or (1, const(0, INT64))
                start = low.lower_bound(walk, lo, hi, plus(times(step, low.lo), low.value(offset)))
            low.emit(Assign(cursor, start))
            cursors[a] = (walk, cursor, hi)
        return cursors

    def _is_searched(self, a: Access) -> bool:
        return (a.slot.name, a.depth) in self.low.nest.gallop

    def _is_direct(self, a: Access) -> bool:
        """An entry is found without walking."""
        level, zero = a.level, const(0, INT64)
        return (
            level.find(a.arrays, a.position, a.coords, zero) is not None
            or level.probe(a.arrays, a.position, a.coords, zero) is not None
            or a.slot.format.lookup(a.arrays, a.read.indices) is not None
        )

    def _follow(self, a: Access, cursors: dict[Access, tuple[Walk, Local, Expr]]) -> None:
        low = self.low
        if a.slot.format.lookup(a.arrays, a.read.indices) is not None and a.depth == 0:
            return  # probed with all coordinates at once, when they are bound
        at = low.let("at", low.value(a.index))
        inside = low.inside(a, at)
        if a not in cursors:
            low.find(a, at, inside)
            return
        walk, cursor, hi = cursors[a]
        before = both(compare(ops.less, cursor, hi), compare(ops.less, walk.end(cursor), at))
        assert before is not None
        low.emit(While(before, (Assign(cursor, plus(cursor, 1)),)))
        q = low.let("q", plus(cursor, 0)) if not walk.runs else cursor
        low.arrive(a, walk, q, hi, at, inside)
        a.coords = (*a.coords, at)
        a.depth += 1

    def _body(self, body: Callable[[], None], followers: list[Access],
              cursors: dict[Access, tuple[Walk, Local, Expr]]) -> Callable[[Expr], None]:
        low = self.low

        def inner(v: Expr) -> None:
            low.bound[self.name] = v
            before = {a: a.valid for a in low.accesses.values()}
            for a in followers:
                self._follow(a, cursors)
            for a in low.accesses.values():
                if not a.resolved and low.wants_early(a):
                    low.resolve(a)
            changed = [a for a in low.accesses.values() if a.valid is not before[a]]
            changed += [a for a in self.merged if a.valid is not None]
            selects = self.last and low.selects and all(
                a.valid is None or is_marked(a.slot.format.levels[-1])
                for a in low.accesses.values())
            guard = self._guard() if changed or self.innermost else None
            if guard is None:
                body()
                return
            self._leave_out()
            if isinstance(guard, Const):
                return  # nothing here differs from the background
            if selects:
                low.condition = None if low.nest.hopeful else guard
                body()
                low.condition = None
                return
            with low.block() as then:
                body()
            low.emit(If(guard, tuple(then)))

        return inner

    def _guard(self) -> Expr | None:
        """The support over what is known to be stored here; sure parts need no check later."""
        low = self.low

        def known(read: Read) -> Formula:
            valid = low.accesses[read].valid if read in low.accesses else None
            if isinstance(valid, Const):
                return TRUE if bool(valid.value) else FALSE
            return TRUE if valid is None else has(read)

        formula = restrict(self.support, known)
        if formula.kind == "true":
            return None
        if formula.kind == "false":
            return const(False)
        sure = formula.parts if formula.kind == "and" else (formula,)
        guard = self._condition(formula)
        for part in sure:
            if part.kind == "has":
                assert part.read is not None
                low.accesses[part.read].valid = None
                self._forget_value(low.accesses[part.read])
        return guard

    def _forget_value(self, a: Access) -> None:
        """A value loaded under a check may be loaded without it, now that it surely is stored."""
        if a.value is not None:
            a.value = None

    def _condition(self, f: Formula) -> Expr:
        if f.kind == "has":
            assert f.read is not None
            valid = self.low.accesses[f.read].valid
            assert valid is not None
            return valid
        parts = [self._condition(p) for p in f.parts]
        result = parts[0]
        for p in parts[1:]:
            result = Call(ops.logical_and, (result, p)) if f.kind == "and" else either(result, p)
        return result

    # -- the three kinds of loops ----------------------------------------------------------------

    def _dense(self, inner: Callable[[Expr], None]) -> None:
        low = self.low
        v = low.fresh(self.name)
        low.announce(self.name, None)
        with low.block() as body:
            fetch_ahead(low, self.name, lambda d: Call(
                ops.minimum, (plus(v, d), minus(self.end, 1))), led=False)
            inner(v)
        low.emit(For(v, self.begin, self.end, tuple(body), self.checked))

    def _range(self, a: Access) -> tuple[Walk, Expr, Expr, int, Expr]:
        """The part of the walk whose coordinates fall into this loop's range."""
        low = self.low
        if self.span is not None:
            return self.span.walk(), self.span.lo, self.span.hi, 1, const(0, INT64)
        walk, lo, hi = low.open_walk(a)
        parts = split_affine(a.index, self.name)
        assert parts is not None
        step, offset = parts[0], low.let("off", low.value(parts[1]))
        axis = a.slot.format.order[a.depth]
        whole = (
            not self.outermost and step == 1 and int_value(parts[1]) == 0
            and low.extents[self.name] == a.read.tensor.shape[axis]
        )
        if whole:
            return walk, lo, hi, step, offset
        first = low.let("first", plus(times(step, self.begin), offset))
        last = low.let("last", plus(plus(times(step, minus(self.end, 1)), offset), 1))
        start = low.lower_bound(walk, lo, hi, first)
        stop = low.lower_bound(walk, start, hi, last, begins=True)
        self.clips[a] = first, last
        return walk, start, stop, step, offset

    def _solve(self, c: Expr, step: int, offset: Expr) -> tuple[Expr, Expr | None]:
        """The index v with step*v + offset == c, and the condition that there is one."""
        low = self.low
        shifted = low.let("c", minus(c, offset))
        if step == 1:
            return shifted, None
        exact = compare(ops.equal, Call(ops.remainder, (shifted, const(step, INT64))), 0)
        v = Call(ops.floor_divide, (shifted, const(step, INT64)))
        return v, exact

    def _enter(self, a: Access, walk: Walk, q: Expr, end: Expr | None, c: Expr) -> None:
        a.position = (q, end) if end is not None else tuple(
            self.low.let("p", x) for x in walk.at(q, c)
        )
        a.coords = (*a.coords, c)
        a.depth += 1

    def _single(self, a: Access, inner: Callable[[Expr], None]) -> None:
        low = self.low
        walk, lo, hi, step, offset = self._range(a)
        low.announce(self.name, minus(hi, lo) if walk.last is None else None)
        q = low.fresh("q")
        with low.block() as body:
            if step == 1 and walk.plain:
                def ahead(d: int) -> Expr:
                    return self._ahead(a, walk, q, hi, offset, d)

                fetch_ahead(low, self.name, ahead, True)
                low.approach(self.name, ahead)
            end: Local | None = None
            if walk.last is not None:
                self._stretch(a, walk, q, step, offset, inner)
            else:
                c = low.let("c", walk.coord(q))
                if walk.runs:
                    end = low.fresh("end")
                    low.run_end(walk, q, hi, c, end)
                self._visit(a, walk, q, end, c, step, offset, inner)
            if end is not None:
                low.emit(Assign(q, end))
        if walk.runs:
            low.emit(Assign(q, lo))
            low.emit(While(compare(ops.less, q, hi), tuple(body), self.checked))
        else:
            low.emit(For(q, lo, hi, tuple(body), self.checked))

    def _visit(self, a: Access, walk: Walk, q: Expr, end: Expr | None, c: Expr, step: int,
               offset: Expr, inner: Callable[[Expr], None]) -> None:
        """The body at the coordinate c of the only leader."""
        low, valid = self.low, a.valid
        self._enter(a, walk, q, end, c)
        a.valid = None  # the walk is empty where the parent is absent
        v, exact = self._solve(c, step, offset)
        asked = both(exact, None if walk.keep is None else walk.keep(q))
        if asked is None:
            inner(low.let(self.name, v))
        else:
            with low.block() as then:
                inner(low.let(self.name, v))
            low.emit(If(asked, tuple(then)))
        a.valid = valid

    def _stretch(self, a: Access, walk: Walk, q: Expr, step: int, offset: Expr,
                 inner: Callable[[Expr], None]) -> None:
        """All coordinates of the stretch at q that the loop wants."""
        low = self.low
        first, stop = walk.coord(q), plus(walk.end(q), 1)
        if a in self.clips:
            first = Call(ops.maximum, (first, self.clips[a][0]))
            stop = Call(ops.minimum, (stop, self.clips[a][1]))
        first, stop, c = low.let("first", first), low.let("stop", stop), low.fresh("c")
        with low.block() as body:
            self._visit(a, walk, q, None, c, step, offset, inner)
        low.emit(For(c, first, stop, tuple(body), False))

    def _meet(self, first: Access, second: Access, inner: Callable[[Expr], None]) -> None:
        """Intersection of two walks: both step on without branches, the body runs where they
        agree."""
        low = self.low
        (walk, lo, hi, _, offset), (other, start, end, _, shift) = map(
            self._range, (first, second))
        low.announce(self.name, low.let("most", Call(
            ops.minimum, (minus(hi, lo), minus(end, start)))))
        p, q = low.fresh("q"), low.fresh("q")
        low.emit(Assign(p, lo))
        low.emit(Assign(q, start))
        with low.block() as loop:
            x = low.let("x", minus(walk.coord(p), offset))
            y = low.let("y", minus(other.coord(q), shift))
            valid = first.valid, second.valid
            with low.block() as body:
                for a, w, at, by in ((first, walk, p, offset), (second, other, q, shift)):
                    self._enter(a, w, low.let("q", Call(ops.add, (at, const(0, INT64)))), None,
                                low.let("c", plus(x, by)))
                    a.valid = None
                inner(x)
            first.valid, second.valid = valid
            steps = [low.let("step", convert(compare(ops.less_equal, a, b), INT64))
                     for a, b in ((x, y), (y, x))]  # before either moves: x may be the cursor
            low.emit(If(compare(ops.equal, x, y), tuple(body)))
            for at, step in zip((p, q), steps):
                low.emit(Assign(at, plus(at, step)))
        more = both(compare(ops.less, p, hi), compare(ops.less, q, end))
        assert more is not None
        low.emit(While(more, tuple(loop), self.checked))

    def _ahead(self, a: Access, walk: Walk, q: Local, hi: Expr, offset: Expr, distance: int
               ) -> Expr:
        """The index ``distance`` entries further in the walk. Those after its end are the next
        walk's, which comes next: the limit is the end of the array where that is known."""
        last = a.depth == a.slot.format.rank - 1 and isinstance(a.level, Compressed)
        end = element(a.arrays["count"], 0) if last else hi
        there = Call(ops.minimum, (plus(q, distance), minus(end, 1)))
        return minus(walk.coord(self.low.let("there", there)), offset)

    def _is_simple(self, leaders: list[Access]) -> bool:
        """Walks with one coordinate a step, read at the index itself."""
        for a in leaders:
            walk = a.level.walk(a.arrays, a.position, a.coords)
            parts = split_affine(a.index, self.name)
            if walk is None or not walk.plain or parts is None or parts[0] != 1:
                return False
        return True

    def _two_way(self, leaders: list[Access], inner: Callable[[Expr], None]) -> None:
        """Union of two walks: one loop while both last, then the rest of each. Where nothing but
        the two decides, the first loop has no branches: which of two random patterns comes next
        cannot be guessed. Else the body is specialized to what is stored in each case."""
        low = self.low
        ranges = [self._range(x) for x in leaders]
        walks, los, his, _, offsets = zip(*ranges)
        count: Expr = plus(minus(his[0], los[0]), minus(his[1], los[1]))
        low.announce(self.name, low.let("most", count))
        cursors = [low.fresh("q"), low.fresh("q")]
        for q, lo in zip(cursors, los):
            low.emit(Assign(q, lo))

        def case(v: Expr, present: tuple[bool, bool]) -> list[Stmt]:
            states = {x: x.state() for x in low.accesses.values()}
            bound, done = dict(low.bound), dict(low.done_reductions)
            with low.block() as body:
                for x, walk, q, here in zip(leaders, walks, cursors, present):
                    c = low.let("c", plus(v, offsets[leaders.index(x)]))
                    self._enter(x, walk, q, None, c)
                    x.valid = None if here else const(False)
                    if not here:
                        x.value = x.read.tensor.fill if x.resolved else None  # type: ignore[attr-defined]
                inner(v)
                for q, here in zip(cursors, present):
                    if here:
                        low.emit(Assign(q, plus(q, 1)))
            low.bound, low.done_reductions = bound, done
            for x, state in states.items():
                x.restore(state)
            return body

        def coordinate(k: int) -> Expr:
            return minus(walks[k].coord(cursors[k]), offsets[k])

        more = [compare(ops.less, q, hi) for q, hi in zip(cursors, his)]
        with low.block() as loop:
            x, y = low.let("x", coordinate(0)), low.let("y", coordinate(1))
            if self._decide_alone(leaders):
                self._either(leaders, walks, cursors, offsets, (x, y), inner)
            else:
                both_there, first, second = case(x, (True, True)), case(x, (True, False)), case(
                    y, (False, True))
                rest = If(compare(ops.less, x, y), tuple(first), tuple(second))
                low.emit(If(compare(ops.equal, x, y), tuple(both_there), (rest,)))
        together = both(*more)
        assert together is not None
        low.emit(While(together, tuple(loop), self.checked))
        for k, present in ((0, (True, False)), (1, (False, True))):
            with low.block() as tail:
                tail_body = case(low.let("x", coordinate(k)), present)
                low.blocks[-1].extend(tail_body)
            low.emit(While(more[k], tuple(tail), self.checked))

    def _decide_alone(self, leaders: list[Access]) -> bool:
        """The body has entries where either of two operands has, both read at their last level."""
        reads = {a.read for a in leaders}
        return self.support.kind == "or" and len(self.support.parts) == 2 and all(
            p.kind == "has" and p.read in reads for p in self.support.parts
        ) and all(a.depth == a.slot.format.rank - 1 for a in leaders) and all(
            a.valid is None or a in leaders for a in self.low.accesses.values())

    def _either(self, leaders: list[Access], walks: Sequence[Walk], cursors: Sequence[Local],
                offsets: Sequence[Expr], at: tuple[Expr, Expr], inner: Callable[[Expr], None]
                ) -> None:
        """One step of a union: the smaller coordinate, the values of those that have it."""
        low, support = self.low, self.support
        flags = [low.let("has", compare(ops.less_equal, at[k], at[1 - k])) for k in (0, 1)]
        v = low.let(self.name, Call(ops.minimum, at))
        states = {a: a.state() for a in low.accesses.values()}
        bound, done = dict(low.bound), dict(low.done_reductions)
        for a, walk, q, here, offset in zip(leaders, walks, cursors, flags, offsets):
            self._enter(a, walk, q, None, low.let("c", plus(v, offset)))
            assert isinstance(a.read.tensor, Source)
            stored = low.let("v", a.slot.format.value(a.arrays, a.position))
            a.valid, a.value = here, low.let("v", Call(ops.where, (
                here, stored, low.value(a.read.tensor.fill))))
        self.support = TRUE
        inner(v)
        self.support = support
        low.bound, low.done_reductions = bound, done
        for a, state in states.items():
            a.restore(state)
        for q, here in zip(cursors, flags):
            low.emit(Assign(q, plus(q, convert(here, INT64))))

    def _merge(self, leaders: list[Access], inner: Callable[[Expr], None]) -> None:
        """Union of several ascending walks; each step takes the smallest coordinate."""
        low = self.low
        top = const(np.iinfo(np.int64).max, INT64)
        parts = []
        for a in leaders:
            walk, lo, hi, step, offset = self._range(a)
            q, v = low.fresh("q"), low.fresh(self.name)
            low.emit(Assign(q, lo))
            parts.append((a, walk, q, hi, step, offset, v))
            self._peek(walk, q, hi, step, offset, v, top, self.begin)
        low.announce(self.name, None)
        smallest: Expr = parts[0][6]
        for p in parts[1:]:
            smallest = Call(ops.minimum, (smallest, p[6]))
        with low.block() as body:
            here = low.let(self.name, smallest)
            ends: list[tuple[Local, Expr]] = []
            for a, walk, q, hi, step, offset, mine in parts:
                present = low.let("has", compare(ops.equal, mine, here))
                end = low.fresh("end")
                if walk.runs:
                    low.emit(Assign(end, q))
                    with low.block() as scan:
                        low.run_end(walk, q, hi, walk.coord(q), end)
                    low.emit(If(present, tuple(scan)))
                at = low.let("at", plus(times(step, here), offset))
                self._enter(a, walk, low.let("q", Call(ops.add, (q, const(0, INT64)))),
                            end if walk.runs else None, at)
                a.valid = present
                ends.append((q, end if walk.runs else plus(q, 1) if walk.last is None else q))
            flags = [p[0].valid for p in parts]
            self.merged = tuple(leaders)
            inner(here)
            for (_, walk, q, hi, step, offset, mine), (_, nxt), flag in zip(parts, ends, flags):
                with low.block() as advance:
                    low.emit(Assign(q, nxt))
                    self._peek(walk, q, hi, step, offset, mine, top, plus(here, 1))
                assert flag is not None
                low.emit(If(flag, tuple(advance)))
        low.emit(While(compare(ops.less, smallest, top), tuple(body), self.checked))

    def _peek(self, walk: Walk, q: Local, hi: Expr, step: int, offset: Expr, v: Local,
              top: Const, least: Expr) -> None:
        """v = the index at the cursor, in a stretch at ``least`` or after it, or ``top`` at the
        end; skips what has no index."""
        low = self.low
        here = minus(walk.coord(q), offset)
        idle: Expr | None = None
        if walk.last is not None:
            ceiling = here if step == 1 else minus(0, Call(
                ops.floor_divide, (minus(0, here), const(step, INT64))))
            here = Call(ops.maximum, (ceiling, least))
            idle = compare(ops.less, walk.end(q), plus(times(step, here), offset))
        elif step != 1:
            idle = compare(ops.not_equal, Call(ops.remainder, (here, const(step, INT64))), 0)
            here = Call(ops.floor_divide, (here, const(step, INT64)))
        if walk.keep is not None:
            gone = Call(ops.logical_not, (walk.keep(q),))
            idle = gone if idle is None else either(idle, gone)
        if idle is not None:
            more = both(compare(ops.less, q, hi), idle)
            assert more is not None
            low.emit(While(more, (Assign(q, plus(q, 1)),)))
        there = compare(ops.less, q, hi)
        if walk.last is not None:
            there = both(there, compare(ops.less, here, self.end)) or there
        low.emit(Assign(v, Call(ops.where, (there, here, top))))
