"""How a nest's results are put together: dense places, levels, lists, buckets.

Loops up to the last output index surround one *cell*; the loops after it are reductions around a
scalar accumulator. A cell is delivered once, unless a reduced loop stands outside an output loop:
then it is accumulated, in place (dense) or in a row workspace that is flushed in order (levels).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.build import compare, convert, minus, plus, times
from tensorel.ir.nodes import INT64, Axis, Call, DType, Expr, Index, Local, Read, Source, const
from tensorel.kernels.loops import (
    Append, AppendReserved, Assign, Buffer, For, If, Kernel, Length, Reserve, Stmt, Store, While,
)
from tensorel.kernels.lower import Bindings, Lowering
from tensorel.kernels.spec import Assembly, Nest
from tensorel.kernels.support import Analysis, Formula

UINT64: DType = np.dtype("uint64")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and what its caller must pass."""

    kernel: Kernel
    bindings: Bindings
    accumulates: bool


def lower_nest(nest: Nest, strict: bool = False, counting: bool = False) -> Lowered:
    """Loop IR of a nest; ``counting`` gives the first kernel of a BUCKET assembly."""
    low = Lowering(nest, strict)
    kinds: dict[Assembly, Callable[[Lowering], Assembler]] = {
        Assembly.DENSE: DenseAssembler, Assembly.LEVELS: LevelAssembler,
        Assembly.LIST: ListAssembler, Assembly.SHARED: SharedAssembler,
        Assembly.BUCKET: CountAssembler if counting else BucketAssembler,
    }
    assembler = kinds[nest.output.assembly](low)
    assembler.run()
    kernel, bindings = low.kernel("nest", low.blocks[0])
    return Lowered(kernel, bindings, assembler.accumulates)


def cell_loops(nest: Nest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Loops around a cell, and the reductions inside it."""
    last = max((k for k, n in enumerate(nest.loops) if n not in nest.reduced), default=-1)
    return nest.loops[: last + 1], nest.loops[last + 1 :]


class Assembler:
    """Base: loops around cells; subclasses deliver cells."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.nest = low.nest
        self.out = low.nest.output
        self.outer, self.tail = cell_loops(low.nest)
        self.accumulates = self.nest.op is not None and not self.nest.serial and (
            not self.outer or any(n in self.nest.reduced for n in self.outer))
        self.total: Expr = const(1, INT64)

    def run(self) -> None:
        self.prepare()
        self.low.loops(self.outer, self._support, self._cell, self.enter, self.leave,
                       depth=0 if self.outer else 1)
        self.finish()

    def _support(self, name: str) -> Formula:
        if name in self.nest.reduced and self.nest.counted:
            return self._reduced_support()
        return self.low.support

    def _reduced_support(self) -> Formula:
        """In counted reductions, reads without reduced indices are constants of the loop."""
        reduced = self.nest.reduced
        analysis = Analysis(self.low.strict, lambda r: r.free.isdisjoint(reduced))
        return analysis.cover(self.nest.body).support

    def prepare(self) -> None:
        """Declare outputs."""

    def finish(self) -> None:
        """After all loops."""

    def enter(self, name: str) -> None:
        """Before the body of an output loop."""

    def leave(self, name: str) -> None:
        """After the body of an output loop."""

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        """One cell's value; ``seen`` counts the visited points of a counted reduction."""
        raise AssertionError

    def _cell(self) -> None:
        low, nest = self.low, self.nest
        if not self.tail and nest.op is None:
            self._guarded(lambda: self.deliver(low.value(nest.body), None))
            return
        assert nest.op is not None and nest.op.identity is not None
        op, dtype = nest.op, self.out.dtype
        if not self.tail:
            one = const(1, INT64) if nest.counted else None
            self._guarded(lambda: self.deliver(convert(low.value(nest.body), dtype), one))
            return
        acc = low.fresh("acc", dtype)
        low.emit(Assign(acc, const(op.identity(dtype), dtype)))
        seen = low.fresh("seen") if nest.counted else None
        if seen is not None:
            low.emit(Assign(seen, const(0, INT64)))

        def inner() -> None:
            low.emit(Assign(acc, low.combine(op, acc, low.value(nest.body))))
            if seen is not None:
                low.emit(Assign(seen, plus(seen, 1)))

        low.loops(self.tail, self._support, inner, depth=len(self.outer))
        self._guarded(lambda: self.deliver(acc, seen))

    def _guarded(self, action: Callable[[], None]) -> None:
        if self.out.guard is None:
            action()
            return
        with self.low.block() as then:
            action()
        self.low.emit(If(self.low.value(self.out.guard), tuple(then)))

    def complete(self, value: Expr, seen: Expr | None) -> Expr:
        """``value`` combined with the points of its reduction that were not visited."""
        if seen is None:
            return value
        low, nest = self.low, self.nest
        assert nest.op is not None and nest.residual is not None
        axes = [Axis(n, low.extents[n]) for n in sorted(nest.reduced)]
        whole = low.fresh("whole", value.dtype)
        low.emit(Assign(whole, value))
        with low.block() as then:
            residual = convert(low.value(nest.residual), value.dtype)
            total = math.prod(a.extent for a in axes)
            rest = low.missing(total, seen, value.dtype)
            low.emit(Assign(whole, low.combine(nest.op, whole, low.repeat(
                nest.op, residual, rest))))
        low.emit(If(low.some_missing(axes, seen), tuple(then)))
        return whole

    def coordinate(self, axis: int) -> Expr:
        value = self.low.value(self.out.coords[axis])
        return convert(value, self.out.index_dtypes[axis])

    def differs(self, value: Expr) -> Expr:
        """The value is not the fill."""
        fill = self.out.fill
        if fill.value != fill.value:
            return Call(ops.logical_not, (Call(ops.isnan, (value,)),))
        return Call(ops.not_equal, (value, fill))


class DenseAssembler(Assembler):
    """Cells at their place in ``out``; counted reductions that accumulate also fill ``seen``."""

    def prepare(self) -> None:
        self.array = self.low.own_array("out", self.out.dtype)
        self.seen: Source | None = None
        if self.nest.counted and self.accumulates:
            self.seen = self.low.own_array("seen", INT64)

    def position(self) -> Expr:
        place: Expr = const(0, INT64)
        for name, coord in zip(self.out.axes, self.out.coords):
            place = plus(times(place, self.low.extent(name)), self.low.value(coord))
        return place

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        place = low.let("at", self.position())
        if not self.accumulates:
            low.emit(Store(self.array, place, convert(self.complete(value, seen), self.out.dtype)))
            return
        assert self.nest.op is not None
        old = Read(self.array, (place,))
        low.emit(Store(self.array, place, low.combine(self.nest.op, old, value)))
        if self.seen is not None and seen is not None:
            low.emit(Store(self.seen, place, plus(Read(self.seen, (place,)), seen)))


class SharedAssembler(Assembler):
    """Each cell at the position of the stored entry that led to it."""

    def prepare(self) -> None:
        self.values = self.low.own_array("val", self.out.dtype)

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        assert self.out.pattern is not None
        place = self.low.accesses[self.out.pattern].position[0]
        self.low.emit(Store(self.values, place, convert(value, self.out.dtype)))


class ListAssembler(Assembler):
    """Every delivered cell as one entry of a coordinate list."""

    def prepare(self) -> None:
        self.coords = [
            self.low.buffer(f"idx{k}", d) for k, d in enumerate(self.out.index_dtypes)
        ]
        self.values = self.low.buffer("val", self.out.dtype)
        self.accumulates = False

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        value = low.let("x", convert(self.complete(value, seen), self.out.dtype))
        with low.block() as then:
            for axis, buffer in enumerate(self.coords):
                low.emit(Append(buffer, self.coordinate(axis)))
            low.emit(Append(self.values, value))
        if self.out.keep_fill:
            low.blocks[-1].extend(then)
        else:
            low.emit(If(self.differs(value), tuple(then)))


class CountAssembler(Assembler):
    """First kernel of a transposition: how many entries each first coordinate has."""

    def prepare(self) -> None:
        self.counts = self.low.own_array("counts", self.out.place_dtype)

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        at = self.low.let("at", self.low.value(self.out.coords[0]))
        one = const(1, self.out.place_dtype)
        more = Call(ops.add, (Read(self.counts, (at,)), one))
        self.low.emit(Store(self.counts, at, more))


class BucketAssembler(Assembler):
    """Second kernel: each entry goes to the next free place of its first coordinate. The order
    of the loops is kept inside each bucket."""

    def prepare(self) -> None:
        self.next = self.low.own_array("next", self.out.place_dtype)
        self.index = self.low.own_array("idx1", self.out.index_dtypes[1])
        self.values = self.low.own_array("val", self.out.dtype)

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        at = low.let("at", low.value(self.out.coords[0]))
        here = low.let("to", Read(self.next, (at,)))
        low.emit(Store(self.next, at, Call(ops.add, (here, const(1, self.out.place_dtype)))))
        place = convert(here, INT64)
        low.emit(Store(self.index, place, self.coordinate(1)))
        low.emit(Store(self.values, place, convert(value, self.out.dtype)))


class LevelAssembler(Assembler):
    """Entries appended in storage order: ``dense`` leading levels, compressed ones below, and
    perhaps one dense level last (``dense_tail``).

    Buffers: idx<l> per compressed level, kids<l> (children of each node) between them, val.
    ``counts`` holds the children of each position of the dense levels."""

    def prepare(self) -> None:
        out, low = self.out, self.low
        self.rank = len(out.axes)
        self.last = self.rank - 1 - out.dense_tail  # the last compressed level
        self.indices: dict[int, Buffer] = {
            l: low.buffer(f"idx{l}", out.index_dtypes[l]) for l in range(out.dense, self.last + 1)
        }
        self.kids: dict[int, Buffer] = {
            l: low.buffer(f"kids{l}", INT64) for l in range(out.dense, self.last)
        }
        self.values = low.buffer("val", out.dtype)
        self.counts = low.own_array("counts", INT64) if out.dense else None
        self.starts: dict[int, Local] = {}
        self.reserved = False
        self.workspace: Workspace | DenseRow | None = None
        if any(n in self.nest.reduced for n in self.outer):
            self.workspace = DenseRow(self) if out.dense_tail else Workspace(self)
        low.announce = self._announce
        self.accumulates = False

    def _announce(self, name: str, count: Expr | None) -> None:
        """Room for a whole row at once: its appends need no check."""
        if name != self.out.axes[-1] or self.workspace is not None:
            return
        if self.out.dense_tail:
            count = self.low.extent(name)
        self.reserved = count is not None
        if count is not None:
            room = self.low.let("room", count)
            if not self.out.dense_tail:
                self.low.emit(Reserve(self.indices[self.last], room))
            self.low.emit(Reserve(self.values, room))

    def enter(self, name: str) -> None:
        if name in self.nest.reduced:
            return
        level = self.out.axes.index(name)
        if level < self.last and level + 1 >= self.out.dense:
            start = self.low.fresh("start")
            self.low.emit(Length(start, self.indices[level + 1]))
            self.starts[level] = start

    def leave(self, name: str) -> None:
        if name in self.nest.reduced:
            return
        low = self.low
        level = self.out.axes.index(name)
        if self.workspace is not None and level == self.rank - 2:
            self.workspace.flush()
        elif self.out.dense_tail and level == self.last:
            low.emit(Append(self.indices[level], self.coordinate(level)))
        if level not in self.starts:
            return
        length = low.fresh("length")
        low.emit(Length(length, self.indices[level + 1]))
        count = low.let("kids", minus(length, self.starts[level]))
        if level == self.out.dense - 1:
            assert self.counts is not None
            low.emit(Store(self.counts, self._dense_position(), count))
            return
        with low.block() as then:
            low.emit(Append(self.indices[level], self.coordinate(level)))
            low.emit(Append(self.kids[level], count))
        low.emit(If(compare(ops.greater, count, 0), tuple(then)))

    def finish(self) -> None:
        if self.workspace is not None and self.rank == 1:
            self.workspace.flush()

    def _dense_position(self) -> Expr:
        place: Expr = const(0, INT64)
        for level in range(self.out.dense):
            name = self.out.axes[level]
            place = plus(times(place, self.low.extent(name)), self.low.bound[name])
        return place

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        if self.workspace is not None:
            self.workspace.add(value, seen)
            return
        add = AppendReserved if self.reserved else Append
        value = low.let("x", convert(self.complete(value, seen), self.out.dtype))
        if self.out.dense_tail:
            low.emit(add(self.values, value))
            return
        with low.block() as then:
            low.emit(add(self.indices[self.last], self.coordinate(self.last)))
            low.emit(add(self.values, value))
        if self.out.keep_fill:
            low.blocks[-1].extend(then)
        else:
            low.emit(If(self.differs(value), tuple(then)))


class DenseRow:
    """Accumulators of a dense last level: flushed whole when anything was added."""

    def __init__(self, owner: LevelAssembler) -> None:
        self.owner, self.low = owner, owner.low
        self.values = self.low.own_array("w_val", owner.out.dtype)
        self.touched = self.low.fresh("touched")
        self.low.emit(Assign(self.touched, const(0, INT64)))

    def add(self, value: Expr, seen: Expr | None) -> None:
        low, op = self.low, self.owner.nest.op
        assert op is not None
        at = low.let("at", low.value(self.owner.out.coords[-1]))
        low.emit(Store(self.values, at, low.combine(op, Read(self.values, (at,)), value)))
        low.emit(Assign(self.touched, const(1, INT64)))

    def flush(self) -> None:
        low, owner, out = self.low, self.owner, self.owner.out
        op = owner.nest.op
        assert op is not None and op.identity is not None
        size = low.extent(out.axes[-1])
        at = low.fresh("at")
        identity = const(op.identity(out.dtype), out.dtype)
        with low.block() as then:
            low.emit(Append(owner.indices[owner.last], owner.coordinate(owner.last)))
            low.emit(Reserve(owner.values, size))
            copy: tuple[Stmt, ...] = (
                AppendReserved(owner.values, Read(self.values, (at,))),
                Store(self.values, at, identity),
            )
            low.emit(For(at, const(0, INT64), size, copy))
            low.emit(Assign(self.touched, const(0, INT64)))
        low.emit(If(compare(ops.greater, self.touched, 0), tuple(then)))


class Workspace:
    """A dense row of accumulators with a 64-ary tree of bitmaps over the touched ones.

    Setting a bit touches a level above only when its word was zero; flushing scans the few words
    of the top level and walks the set bits below, so touched entries come out in ascending order
    without sorting, in time proportional to their number."""

    def __init__(self, owner: LevelAssembler) -> None:
        low = owner.low
        self.owner = owner
        self.low = low
        self.values = low.own_array("w_val", owner.out.dtype)
        self.bits = [low.own_array(f"w_bits{k}", UINT64) for k in range(owner.out.bitmap_levels)]
        self.seen = low.own_array("w_seen", INT64) if owner.nest.counted else None
        self.touched = low.fresh("touched")
        low.emit(Assign(self.touched, const(0, INT64)))

    def add(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        op = self.owner.nest.op
        assert op is not None
        at = low.let("at", low.value(self.owner.out.coords[-1]))
        old = Read(self.values, (at,))
        low.emit(Store(self.values, at, low.combine(op, old, value)))
        if self.seen is not None and seen is not None:
            low.emit(Store(self.seen, at, plus(Read(self.seen, (at,)), seen)))
        self._mark(at, 0)

    def _bit(self, at: Expr) -> Expr:
        low_six = convert(Call(ops.bitwise_and, (at, const(63, INT64))), UINT64)
        return Call(ops.left_shift, (const(1, UINT64), low_six))

    def _mark(self, at: Expr, level: int) -> None:
        low = self.low
        word = low.let("word", Call(ops.right_shift, (at, const(6, INT64))))
        old = low.let("old", Read(self.bits[level], (word,)))
        bit = low.let("bit", self._bit(at))
        zero = const(0, UINT64)
        with low.block() as then:
            low.emit(Store(self.bits[level], word, Call(ops.bitwise_or, (old, bit))))
            if level == 0:
                low.emit(Assign(self.touched, plus(self.touched, 1)))
            if level + 1 < len(self.bits):
                with low.block() as up:
                    self._mark(word, level + 1)
                low.emit(If(Call(ops.equal, (old, zero)), tuple(up)))
        low.emit(If(Call(ops.equal, (Call(ops.bitwise_and, (old, bit)), zero)), tuple(then)))

    def flush(self) -> None:
        """Append the touched entries in order and clear the workspace."""
        low, owner = self.low, self.owner
        index = owner.indices[owner.last]
        low.emit(Reserve(index, self.touched))
        low.emit(Reserve(owner.values, self.touched))
        top = low.fresh("top")
        with low.block() as scan:
            self._scan(len(self.bits) - 1, top)
        room = low.extent(owner.out.axes[-1])
        shift = 6 * len(self.bits)
        words = Call(ops.right_shift, (plus(room, 2**shift - 1), const(shift, INT64)))
        with low.block() as then:
            low.emit(For(top, const(0, INT64), low.let("words", words), tuple(scan)))
            low.emit(Assign(self.touched, const(0, INT64)))
        low.emit(If(compare(ops.greater, self.touched, 0), tuple(then)))

    def _scan(self, level: int, word: Expr) -> None:
        low = self.low
        rest = low.fresh("rest", UINT64)
        low.emit(Assign(rest, Read(self.bits[level], (word,))))
        low.emit(Store(self.bits[level], word, const(0, UINT64)))
        one = const(1, UINT64)
        below = Call(ops.subtract, (Call(ops.bitwise_and, (
            rest, Call(ops.subtract, (const(0, UINT64), rest)))), one))
        with low.block() as body:
            place = convert(Call(ops.bitwise_count, (below,)), INT64)
            at = low.let("at", plus(times(word, 64), place))
            drop = Call(ops.bitwise_and, (rest, Call(ops.subtract, (rest, one))))
            low.emit(Assign(rest, drop))
            if level > 0:
                self._scan(level - 1, at)
            else:
                self._emit_entry(at)
        low.emit(While(Call(ops.not_equal, (rest, const(0, UINT64))), tuple(body)))

    def _emit_entry(self, at: Expr) -> None:
        low, owner, out = self.low, self.owner, self.owner.out
        op = owner.nest.op
        assert op is not None and op.identity is not None
        seen = None
        if self.seen is not None:
            seen = low.let("seen", Read(self.seen, (at,)))
            low.emit(Store(self.seen, at, const(0, INT64)))
        value = low.let("x", owner.complete(Read(self.values, (at,)), seen))
        low.emit(Store(self.values, at, const(op.identity(out.dtype), out.dtype)))
        entry: tuple[Stmt, ...] = (
            AppendReserved(owner.indices[owner.last], convert(at, out.index_dtypes[owner.last])),
            AppendReserved(owner.values, value),
        )
        low.emit(If(owner.differs(value), entry))


__all__ = ["For", "Index", "Lowered", "cell_loops", "lower_nest"]
