"""Assembly of compressed results: entries appended in storage order, rows accumulated in a
workspace where reductions stand outside."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.build import compare, convert, minus, plus, times
from tensorel.ir.nodes import INT64, Call, DType, Expr, Local, Read, Source, const
from tensorel.kernels.loopir.statements import (
    Append,
    AppendReserved,
    Assign,
    For,
    If,
    Length,
    Reserve,
    Stmt,
    Store,
    Table,
    While,
)
from tensorel.kernels.lowering.cells import Assembler

UINT64: DType = np.dtype("uint64")
MAX_LISTED_COLUMNS = 16  # touched columns of a row that are sorted as a list


class LevelAssembler(Assembler):
    """Entries appended in storage order: ``dense`` leading levels, compressed ones below, and
    perhaps one dense level last (``dense_tail``).

    Tables: idx<l> with pos<l + 1>, where the children of each node begin, per compressed level but
    the last, whose entries are idx<l> with val. Nodes without children are not kept.
    ``pos`` gets the children of each position of the dense levels, and in the end their running
    sums over the range of this call, starting from what the buffers held before it."""

    marks_rows = True

    def prepare(self) -> None:
        out, low = self.out, self.low
        self.rank = len(out.axes)
        self.last = self.rank - 1 - out.dense_tail  # the last compressed level
        self.nodes: dict[int, Table] = {
            k: low.table((f"idx{k}", out.index_dtypes[k]), (f"pos{k + 1}", out.place_dtype))
            for k in range(out.dense, self.last)
        }
        index, value = (f"idx{self.last}", out.index_dtypes[self.last]), ("val", out.dtype)
        self.nodes[self.last] = low.table(index) if out.dense_tail else low.table(index, value)
        self.entries = low.table(value) if out.dense_tail else self.nodes[self.last]
        self.pos = low.own_array("pos", out.place_dtype) if out.dense else None
        self.before = low.fresh("before")
        if out.dense:
            low.emit(Length(self.before, self.nodes[out.dense]))
        self.starts: dict[int, Local] = {}
        self.reserved: set[Table] = set()
        self.workspace: Word | DenseRow | None = None
        if any(n in self.nest.reduced for n in self.outer):
            kind = DenseRow if out.dense_tail else Workspace if out.bitmap_levels else Word
            self.workspace = kind(self)
        low.announce = self._announce
        self.accumulates = False

    def _announce(self, name: str, count: Expr | None) -> None:
        """Room for a whole row, or all nodes below one, at once: their appends need no check. The
        outer loop asks as it goes on: its operands may be far larger than the result."""
        out = self.out
        level = out.axes.index(name) if name in out.axes else -1
        if level == self.rank - 1 and self.workspace is None:
            table = self.entries
            count = self.low.extent(name) if out.dense_tail else count
        elif out.dense <= level < self.rank - 1 and name != self.nest.loops[0]:
            table = self.nodes[level]
        else:
            return
        if count is not None:
            self.low.emit(Reserve(table, self.low.let("room", count)))
            self.reserved.add(table)

    def _append(self, table: Table, record: tuple[Expr, ...], kept: Expr | None = None) -> None:
        """Append a record, where ``kept`` holds if given."""
        low = self.low
        if table in self.reserved:
            kept = None if kept is None else low.let("kept", kept)
            low.emit(AppendReserved(table, record, kept))
        elif kept is None:
            low.emit(Append(table, record))
        else:
            low.emit(If(kept, (Append(table, record),)))

    def enter(self, name: str) -> None:
        if name in self.nest.reduced:
            return
        level = self.out.axes.index(name)
        if level < self.last and level + 1 >= self.out.dense:
            self._begin(level, self.nodes[level + 1])
        elif level == self.last and self.out.dense_tail and self.workspace is None:
            self._begin(level, self.entries)

    def _begin(self, level: int, below: Table) -> None:
        """Note where what is below a node begins: if nothing comes, the node is not kept."""
        start = self.low.fresh("start")
        self.low.emit(Length(start, below))
        self.starts[level] = start

    def leave(self, name: str) -> None:
        if name in self.nest.reduced:
            return
        low = self.low
        level = self.out.axes.index(name)
        if self.workspace is not None and level == self.rank - 2:
            self.workspace.flush()
        if level not in self.starts:
            return
        length, start = low.fresh("length"), self.starts[level]
        if level == self.last:  # above a dense level
            low.emit(Length(length, self.entries))
            self._append(self.nodes[level], (self.coordinate(level),),
                         compare(ops.greater, length, start))
            return
        low.emit(Length(length, self.nodes[level + 1]))
        if level == self.out.dense - 1:
            assert self.pos is not None
            place, count = plus(self._dense_position(), 1), minus(length, start)
            low.emit(Store(self.pos, place, convert(count, self.out.place_dtype)))
            return
        node = self.coordinate(level), convert(start, self.out.place_dtype)
        self._append(self.nodes[level], node, compare(ops.greater, length, start))

    def begin_row(self) -> None:
        """A node of the last compressed level, above a row of the workspace."""
        self._append(self.nodes[self.last], (self.coordinate(self.last),))

    def finish(self) -> None:
        if self.workspace is not None and self.rank == 1:
            self.workspace.flush()
        if self.pos is not None:
            self._sum_up(self.pos)

    def _sum_up(self, pos: Source) -> None:
        low, axes = self.low, self.out.axes
        first: Expr = const(0, INT64)
        last: Expr = low.extent(axes[0])
        if self.nest.loops[0] == axes[0]:
            first, last = low.lo, low.hi
        for name in axes[1 : self.out.dense]:
            first, last = times(first, low.extent(name)), times(last, low.extent(name))
        at = low.fresh("at")
        with low.block() as body:
            place = low.let("next", plus(at, 1))
            total = plus(self.before, convert(Read(pos, (place,)), INT64))
            low.emit(Assign(self.before, total))
            low.emit(Store(pos, place, convert(self.before, self.out.place_dtype)))
        low.emit(For(at, low.let("first", first), low.let("last", last), tuple(body)))

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
        value = low.let("x", convert(self.complete(value, seen), self.out.dtype))
        if self.out.dense_tail:
            self._append(self.entries, (value,))
            return
        self.entry(self.coordinate(self.last), value)

    def entry(self, coordinate: Expr, value: Expr) -> None:
        """One entry of the last level, unless it equals the fill."""
        kept = None if self.out.keep_fill else self.differs(value)
        self._append(self.entries, (coordinate, value), kept)

    def reserve(self, count: Expr) -> None:
        """Room for so many entries."""
        self.low.emit(Reserve(self.entries, count))
        self.reserved.add(self.entries)


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
            owner.begin_row()
            owner.reserve(size)
            copy: tuple[Stmt, ...] = (
                AppendReserved(owner.entries, (Read(self.values, (at,)),)),
                Store(self.values, at, identity),
            )
            low.emit(For(at, const(0, INT64), size, copy))
            low.emit(Assign(self.touched, const(0, INT64)))
        low.emit(If(compare(ops.greater, self.touched, 0), tuple(then)))


class Word:
    """A dense row of at most 64 accumulators; the touched ones are bits of a register, which
    flushing walks in ascending order."""

    def __init__(self, owner: LevelAssembler) -> None:
        low = owner.low
        self.owner = owner
        self.low = low
        self.values = low.own_array("w_val", owner.out.dtype)
        self.seen = low.own_array("w_seen", INT64) if owner.nest.counted else None
        self.bits: list[Source] = []  # levels of the bitmap below the register
        self.root = low.fresh("root", UINT64)
        low.emit(Assign(self.root, const(0, UINT64)))

    def add(self, value: Expr, seen: Expr | None) -> None:
        """One more value for a column."""
        low = self.low
        op = self.owner.nest.op
        assert op is not None
        at = low.let("at", low.value(self.owner.out.coords[-1]))
        old = Read(self.values, (at,))
        low.emit(Store(self.values, at, low.combine(op, old, value)))
        if self.seen is not None and seen is not None:
            low.emit(Store(self.seen, at, plus(Read(self.seen, (at,)), seen)))
        self.touch(at)

    def touch(self, at: Expr) -> None:
        self.low.emit(Assign(self.root, Call(ops.bitwise_or, (self.root, self._bit(at)))))

    def flush(self) -> None:
        """Append the touched entries in order and clear the workspace."""
        count = convert(Call(ops.bitwise_count, (self.root,)), INT64)
        with self.low.block() as some:
            self.owner.reserve(self.low.let("count", count))
            self._walk(self.root, 0, const(0, INT64))
        self.low.emit(If(Call(ops.not_equal, (self.root, const(0, UINT64))), tuple(some)))

    def _bit(self, at: Expr) -> Expr:
        low_six = convert(Call(ops.bitwise_and, (at, const(63, INT64))), UINT64)
        return Call(ops.left_shift, (const(1, UINT64), low_six))

    def _walk(self, rest: Local, level: int, word: Expr) -> None:
        """Visit the set bits of a word in ascending order; ``rest`` ends as zero."""
        low = self.low
        one = const(1, UINT64)
        below = Call(ops.subtract, (Call(ops.bitwise_and, (
            rest, Call(ops.subtract, (const(0, UINT64), rest)))), one))
        with low.block() as body:
            place = convert(Call(ops.bitwise_count, (below,)), INT64)
            at = low.let("at", plus(times(word, 64), place))
            drop = Call(ops.bitwise_and, (rest, Call(ops.subtract, (rest, one))))
            low.emit(Assign(rest, drop))
            if level == 0:
                self._emit_entry(at)
            else:
                inner = low.fresh("rest", UINT64)
                low.emit(Assign(inner, Read(self.bits[level - 1], (at,))))
                low.emit(Store(self.bits[level - 1], at, const(0, UINT64)))
                self._walk(inner, level - 1, at)
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
        owner.entry(convert(at, out.index_dtypes[owner.last]), value)


class Workspace(Word):
    """A dense row of accumulators, a bitmap of the touched ones, and above it a 64-ary tree of
    bitmaps with its root word in a register.

    The first ``MAX_LISTED_COLUMNS`` touched columns of a row are only listed. Most rows end with
    that: the list is sorted by insertion. When a row has more, the tree takes over: setting a bit
    touches a level above only when its word was zero, and flushing walks the set bits from the
    root. Either way touched entries come out in ascending order, in time proportional to their
    number."""

    def __init__(self, owner: LevelAssembler) -> None:
        super().__init__(owner)
        low = owner.low
        self.bits = [low.own_array(f"w_bits{k}", UINT64) for k in range(owner.out.bitmap_levels)]
        self.list = low.own_array("w_list", INT64)
        self.touched = low.fresh("touched")
        low.emit(Assign(self.touched, const(0, INT64)))

    def touch(self, at: Expr) -> None:
        low = self.low
        word = low.let("word", Call(ops.right_shift, (at, const(6, INT64))))
        held = low.let("old", Read(self.bits[0], (word,)))
        bit = low.let("bit", self._bit(at))
        with low.block() as then:
            low.emit(Store(self.bits[0], word, Call(ops.bitwise_or, (held, bit))))
            with low.block() as listed:
                low.emit(Store(self.list, self.touched, at))
            with low.block() as up:
                self._mark(word, 1)
            marked = If(Call(ops.equal, (held, const(0, UINT64))), tuple(up))
            fits = compare(ops.less, self.touched, MAX_LISTED_COLUMNS)
            low.emit(If(fits, tuple(listed), (marked,)))
            low.emit(Assign(self.touched, plus(self.touched, 1)))
        zero = const(0, UINT64)
        low.emit(If(Call(ops.equal, (Call(ops.bitwise_and, (held, bit)), zero)), tuple(then)))

    def _mark(self, at: Expr, level: int) -> None:
        """Set the bit of a word of the level below."""
        low = self.low
        if level == len(self.bits):
            low.emit(Assign(self.root, Call(ops.bitwise_or, (self.root, self._bit(at)))))
            return
        word = low.let("word", Call(ops.right_shift, (at, const(6, INT64))))
        old = low.let("old", Read(self.bits[level], (word,)))
        low.emit(Store(self.bits[level], word, Call(ops.bitwise_or, (old, self._bit(at)))))
        with low.block() as up:
            self._mark(word, level + 1)
        low.emit(If(Call(ops.equal, (old, const(0, UINT64))), tuple(up)))

    def flush(self) -> None:
        low = self.low
        self.owner.reserve(self.touched)
        with low.block() as few:
            self._flush_list()
        with low.block() as many:
            place = low.fresh("k")
            with low.block() as mark:
                at = low.let("at", Read(self.list, (place,)))
                self._mark(Call(ops.right_shift, (at, const(6, INT64))), 1)
            low.emit(For(place, const(0, INT64), const(MAX_LISTED_COLUMNS, INT64), tuple(mark)))
            self._walk(self.root, len(self.bits), const(0, INT64))
        fits = compare(ops.less_equal, self.touched, MAX_LISTED_COLUMNS)
        low.emit(If(fits, tuple(few), tuple(many)))
        low.emit(Assign(self.touched, const(0, INT64)))

    def _flush_list(self) -> None:
        """Sort the list by insertion and append its entries."""
        low = self.low
        k, j, at = low.fresh("k"), low.fresh("j"), low.fresh("at")
        before = Read(self.list, (minus(j, 1),))
        more = Call(ops.logical_and, (
            compare(ops.greater, j, 0), compare(ops.greater, before, at)))
        move: tuple[Stmt, ...] = (Store(self.list, j, before), Assign(j, minus(j, 1)))
        insert: tuple[Stmt, ...] = (
            Assign(at, Read(self.list, (k,))), Assign(j, k), While(more, move),
            Store(self.list, j, at),
        )
        low.emit(For(k, const(1, INT64), self.touched, insert))
        with low.block() as body:
            here = low.let("at", Read(self.list, (k,)))
            word = low.let("word", Call(ops.right_shift, (here, const(6, INT64))))
            low.emit(Store(self.bits[0], word, const(0, UINT64)))
            self._emit_entry(here)
        low.emit(For(k, const(0, INT64), self.touched, tuple(body)))
