"""One loop through an axis: through all of it, or through what one operand has."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.base.records import dataclass, field
from tensorel.ir.affine import split_affine
from tensorel.ir.build import both, compare, element, int_value, minus, plus, times
from tensorel.ir.nodes import INT64, Call, Expr, Local, const
from tensorel.kernels.loopir.statements import Assign, For, If, While
from tensorel.kernels.lowering.bounded import Bound
from tensorel.kernels.lowering.operand_reads import Access, Reading
from tensorel.kernels.lowering.prefetch import fetch_ahead
from tensorel.kernels.lowering.support import Formula
from tensorel.kernels.passes.exact_sums import in_blocks
from tensorel.kernels.passes.list_runs import one_pass
from tensorel.kernels.passes.outer_vectors import in_tiles, in_vectors
from tensorel.kernels.passes.unroll_and_jam import jammed
from tensorel.storage.levels import Compressed, Position, Walk


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Entries of a level that lie side by side, whatever stands above them. ``names``: loops
    further out whose coordinates each entry has beside its own (a list)."""

    access: Access
    level: int
    lo: Expr
    hi: Expr
    names: tuple[str, ...] = ()

    @property
    def parent(self) -> Position:
        """What the level has above it: all of the list, or the first of many parents."""
        return (self.lo, self.hi) if self.names else (self.lo,)

    def walk(self) -> Walk:
        a = self.access
        found = a.slot.format.levels[self.level].walk(a.arrays, self.parent, a.coords)
        zero = const(0, INT64)  # of a dense level: nothing asks for the coordinate
        return found or Walk(self.lo, self.hi, lambda q: zero, lambda q: (q,))

    def bind(self, low: Reading, q: Expr) -> Walk:
        """Bind the coordinates that the entry q has; the walk is that of its last one."""
        a = self.access
        for k, name in enumerate(self.names, self.level - len(self.names)):
            walk = a.slot.format.levels[k].walk(a.arrays, a.position, a.coords)
            assert walk is not None
            low.bound[name] = c = low.let(name, walk.coord(q))
            a.coords = (*a.coords, c)
        return self.walk()


@dataclass(eq=False)
class Stepper:
    """A loop, its range, and the walks through it."""

    low: Reading
    name: str
    support: Formula
    outermost: bool
    checked: bool
    innermost: bool
    last: bool = False  # no loops inside
    span: Span | None = None  # leads, and stands for the loops before
    begin: Expr = const(0, INT64)
    end: Expr = const(0, INT64)
    #: per operand the coordinates that the loop wants, where its walk has more
    clips: dict[Access, tuple[Expr, Expr]] = field(default_factory=dict)

    def _leave_out(self) -> None:
        """This loop may leave out cells."""
        if not self.low.in_cell:
            self.low.partial = True

    def _dense(self, inner: Callable[[Expr], None]) -> None:
        low = self.low
        v = low.fresh(self.name)
        low.announce(self.name, None)
        with low.block() as body:
            fetch_ahead(low, self.name, lambda d: Call(
                ops.minimum, (plus(v, d), minus(self.end, 1))), led=False)
            inner(v)
        loop = For(v, self.begin, self.end, tuple(body), self.checked)

        def fresh(name: str, like: Local) -> Local:
            return low.fresh(name, like.dtype)

        whole = int_value(self.begin) == 0 and self.end is low.extent(self.name)
        extent = low.extents[self.name] if whole else None
        low.blocks[-1].extend(jammed(loop, fresh, low.strict) or in_vectors(loop, fresh, extent)
                              or in_tiles(loop, fresh) or [loop])

    def _step(self, fixed: Bound, inner: Callable[[Expr], None]) -> None:
        """The only point of the loop at which the equation holds, if it is in range."""
        low = self.low
        low.announce(self.name, None)
        v, exact = self._solve(low.let("fixed", low.value(fixed.value)), fixed.factor,
                               const(0, INT64))
        v = low.let(self.name, v)
        with low.block() as then:
            inner(v)
        inside = both(exact, compare(ops.less_equal, self.begin, v),
                      compare(ops.less, v, self.end))
        assert inside is not None
        low.emit(If(inside, tuple(then)))

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

    def _enter(self, a: Access, walk: Walk, q: Expr, end: Expr | None, c: Expr,
               valid: Expr | None = None) -> None:
        """Go to the entry at q; ``valid``: it is there (None: surely)."""
        a.valid = valid
        a.position = (q, end) if end is not None else self.low.place(a, walk.at(q, c))
        a.coords = (*a.coords, c)
        a.depth += 1

    def _single(self, a: Access, inner: Callable[[Expr], None]) -> None:
        low = self.low
        walk, lo, hi, step, offset = self._range(a)
        low.announce(self.name, minus(hi, lo) if walk.last is None else None)
        q = low.fresh("q")
        low.led[self.name] = a
        with low.block() as body:
            if step == 1 and walk.plain:
                def ahead(d: int) -> Expr:
                    return self._ahead(a, walk, q, hi, offset, d)

                fetch_ahead(low, self.name, ahead, True)
                low.approach(self.name, ahead)
            if self.span is not None and self.span.names:
                walk = self.span.bind(low, q)
            if walk.last is not None:
                self._stretch(a, walk, q, step, offset, inner)
            elif walk.runs:
                self._run(a, walk, q, hi, step, offset, inner)
            else:
                c = low.let("c", walk.coord(q))
                self._visit(a, walk, q, None, c, step, offset, inner)
        if walk.runs:
            low.emit(Assign(q, lo))
            low.emit(While(compare(ops.less, q, hi), tuple(body), self.checked))
        else:
            low.emit(For(q, lo, hi, tuple(body), self.checked))

    def _run(self, a: Access, walk: Walk, q: Local, hi: Expr, step: int, offset: Expr,
             inner: Callable[[Expr], None]) -> None:
        """The run at q; then q stands behind it."""
        low, end = self.low, self.low.fresh("end")
        c = low.let("c", walk.coord(q))
        with low.block() as body:
            self._visit(a, walk, q, end, c, step, offset, inner)

        def more(at: Local) -> Expr:
            found = both(compare(ops.less, at, hi), compare(ops.equal, walk.coord(at), c))
            assert found is not None
            return found

        made = one_pass(tuple(body), q, end, more)
        if made is None:
            low.run_end(walk, q, hi, c, end)
            made = (*body, Assign(q, end))
        elif not low.strict:
            made = in_blocks(made, lambda name, like: low.fresh(name, like.dtype))
        for statement in made:
            low.emit(statement)

    def _visit(self, a: Access, walk: Walk, q: Expr, end: Expr | None, c: Expr, step: int,
               offset: Expr, inner: Callable[[Expr], None]) -> None:
        """The body at the coordinate c of the only leader."""
        low, valid = self.low, a.valid
        self._enter(a, walk, q, end, c)  # the walk is empty where the parent is absent
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
        size = a.read.tensor.shape[a.slot.format.order[a.depth]]
        if walk.width is not None and size % walk.width == 0 and a not in self.clips:
            first, k = low.let("first", first), low.fresh("k")
            with low.block() as body:
                c = low.let("c", plus(first, k))
                self._visit(a, walk, q, None, c, step, offset, inner)
            low.emit(For(k, const(0, INT64), const(walk.width, INT64), tuple(body)))
            return
        if a in self.clips:
            first = Call(ops.maximum, (first, self.clips[a][0]))
            stop = Call(ops.minimum, (stop, self.clips[a][1]))
        first, stop, c = low.let("first", first), low.let("stop", stop), low.fresh("c")
        with low.block() as body:
            self._visit(a, walk, q, None, c, step, offset, inner)
        low.emit(For(c, first, stop, tuple(body), False))

    def _ahead(self, a: Access, walk: Walk, q: Local, hi: Expr, offset: Expr, distance: int
               ) -> Expr:
        """The index ``distance`` entries further in the walk. Those after its end are the next
        walk's: the limit is the end of the array where that is known and the next walk is what
        comes next, not a row that another operand asks for. Of a walk that the loop takes a part
        of, what comes next may lie outside of the loop's range."""
        last = a.depth == a.slot.format.rank - 1 and isinstance(a.level, Compressed) \
            and a not in self.clips
        above = [a.read.indices[axis] for axis in a.slot.format.order[: a.depth]]
        last = last and all(self.low.led.get(n, a) is a for e in above for n in e.free)
        end = element(a.arrays["count"], 0) if last else hi
        there = Call(ops.minimum, (plus(q, distance), minus(end, 1)))
        return minus(walk.coord(self.low.let("there", there)), offset)
