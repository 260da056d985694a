"""One loop of a nest: who leads, who follows, and what is known inside."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import both, compare, either, plus, times
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, Read, const
from tensorel.kernels.loopir.statements import Assign, If, While
from tensorel.kernels.lowering.co_iteration import Merger
from tensorel.kernels.lowering.operand_reads import Access
from tensorel.kernels.lowering.support import FALSE, TRUE, Formula, has, restrict
from tensorel.kernels.lowering.workspaces import is_marked
from tensorel.storage.levels import Walk


@dataclass(eq=False)
class Looper(Merger):
    """One loop: chooses leaders and followers and writes the loop around the body."""

    def run(self, body: Callable[[], None]) -> None:
        low = self.low
        if self.support.kind == "false":
            self._leave_out()
            return  # the body is its background everywhere
        states = {a: a.state() for a in low.accesses.values()}
        sure = low.sure
        bound, done = dict(low.bound), dict(low.done_reductions)
        candidates = {a.read: a for a in low.accesses.values() if self._is_candidate(a)}
        if self.span is not None:
            self.span.access.depth = self.span.level
            self.span.access.position = self.span.parent
            candidates = {self.span.access.read: self.span.access}
        leaders = self._leaders(candidates)
        partner = self._partner(leaders, candidates)
        followers = [a for a in candidates.values() if a not in leaders and a is not partner]
        self.begin = low.lo if self.outermost else const(0, INT64)
        self.end = low.hi if self.outermost else low.extent(self.name)
        cursors = self._open_followers(followers, all(map(self._is_ascending, leaders)))
        inner = self._body(body, followers, cursors)
        if leaders:
            self._leave_out()
        if leaders or self.outermost or self.span is not None or not self._is_bounded():
            fixed = None
        else:
            fixed = low.bounds[self.name].fixed(low.bound)
            self._leave_out()
        if fixed is not None:
            self._step(fixed, inner)
        elif not leaders:
            self._dense(inner)
        elif partner is not None:
            self._meet(leaders[0], partner, inner)
        elif len(leaders) == 1:
            self._single(leaders[0], inner)
        elif len(leaders) == 2 and self.innermost and self._is_simple(leaders):
            self._two_way(leaders, inner)
        else:
            self._merge(leaders, inner)
        low.bound, low.done_reductions, low.sure = bound, done, sure
        for a, state in states.items():
            a.restore(state)

    def _is_bounded(self) -> bool:
        """Whether tests say something of the index; then the range is narrowed to that."""
        low = self.low
        if low.open_reductions or self.name not in low.bounds or self.name not in low.nest.loops:
            return False
        found = low.bounds[self.name]
        limits = found.limits(low.bound)
        for b in limits:
            value = low.value(b.value)
            if b.op in (ops.greater, ops.greater_equal):
                start = plus(value, 1) if b.op is ops.greater else value
                self.begin = low.let("begin", Call(ops.maximum, (self.begin, start)))
            else:
                stop = value if b.op is ops.less else plus(value, 1)
                self.end = low.let("end", Call(ops.minimum, (self.end, stop)))
        fixed = found.fixed(low.bound)
        tests = [b.test for b in limits] + ([] if fixed is None else [fixed.test])
        low.sure = low.sure.union(tests)
        return bool(tests)

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
        """The least leads: operands that can be searched, workspaces or operands that are found
        directly are better followers."""
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
            or self.low.is_deferred(a, self.name)
        )

    def _follow(self, a: Access, cursors: dict[Access, tuple[Walk, Local, Expr]]) -> None:
        low = self.low
        if low.is_deferred(a, self.name):
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
                low.condition = None if low.nest.speculative else guard
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
