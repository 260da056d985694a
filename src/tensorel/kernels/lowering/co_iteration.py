"""Loops that several operands lead: intersections and unions of ascending walks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.build import both, compare, convert, either, minus, plus, times
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, Source, const
from tensorel.kernels.loopir.statements import Assign, If, Stmt, While
from tensorel.kernels.lowering.operand_reads import Access
from tensorel.kernels.lowering.stepping import Stepper
from tensorel.kernels.lowering.support import TRUE
from tensorel.storage.levels import Walk


@dataclass(eq=False)
class Merger(Stepper):
    """A loop through what several operands have."""

    merged: tuple[Access, ...] = ()

    def _is_simple(self, leaders: list[Access]) -> bool:
        """Walks with one coordinate a step, read at the index itself."""
        for a in leaders:
            walk = a.level.walk(a.arrays, a.position, a.coords)
            parts = split_affine(a.index, self.name)
            if walk is None or not walk.plain or parts is None or parts[0] != 1:
                return False
        return True

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
                    self._enter(x, walk, q, None, c, None if here else const(False))
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
                            end if walk.runs else None, at, present)
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
