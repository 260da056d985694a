"""How a nest's results are put together: dense places, levels, shared patterns, lists, buckets.

Loops up to the last output index surround one *cell*; the loops after it are reductions around a
scalar accumulator. A cell is delivered once, unless a reduced loop stands outside an output loop:
then it is accumulated, in place (dense) or in a row workspace that is flushed in order (levels).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import convert, plus, times
from tensorel.ir.nodes import INT64, Call, DType, Expr, Index, Read, Source, const
from tensorel.kernels.loopir.statements import Append, If, Kernel, Prefetch, Store
from tensorel.kernels.lowering.cells import Assembler
from tensorel.kernels.lowering.compressed_rows import LevelAssembler
from tensorel.kernels.lowering.emission import Bindings
from tensorel.kernels.lowering.lower import Lowering
from tensorel.kernels.lowering.nest import Assembly, Nest
from tensorel.kernels.lowering.prefetch import CELLS_AHEAD, RESULT
from tensorel.kernels.lowering.support import wide

PREFETCH_ENTRIES = 32  # entries of a transposition between asking for a place and writing there
MAX_DOUBLE_CELLS = 16  # cells that are added up in double precision

@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and what its caller must pass."""

    kernel: Kernel
    bindings: Bindings
    accumulates: bool
    covers_all: bool  # every cell is delivered: the result needs no initial fill
    cells: DType  # of a dense result: what the kernel adds up there


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
    covers_all = not low.partial and nest.output.guard is None
    return Lowered(kernel, bindings, assembler.accumulates, covers_all, assembler.cells)


class DenseAssembler(Assembler):
    """Cells at their place in ``out``; counted reductions that accumulate also fill ``seen``."""

    def prepare(self) -> None:
        extents, op = self.low.extents, self.nest.op
        if self.accumulates and self.outer and not self.low.strict and op is not None \
                and math.prod([extents[n] for n in self.out.axes]) <= MAX_DOUBLE_CELLS:
            self.cells = wide(op, self.out.dtype)
        self.array = self.low.own_array("out", self.cells)
        self.low.adds = self.accumulates
        self.seen: Source | None = None
        if self.nest.counted and self.accumulates:
            self.seen = self.low.own_array("seen", INT64)
        if self.accumulates and any(slot == RESULT for slot, _ in self.nest.fetch):
            self.low.approach = self._fetch

    def _fetch(self, name: str, ahead: Callable[[int], Expr]) -> None:
        """Ask for the cell that entries to come are added to."""
        last = self.out.coords[-1]
        if isinstance(last, Index) and last.name == name == self.nest.loops[-1]:
            soon = self.low.let("soon", self.position(ahead(CELLS_AHEAD)))
            self.low.emit(Prefetch(self.array, soon))

    def position(self, last: Expr | None = None) -> Expr:
        """The place of the cell, or of that with another last coordinate."""
        place: Expr = const(0, INT64)
        coords = [*map(self.low.value, self.out.coords[:-1])]
        if self.out.coords:
            coords.append(self.low.value(self.out.coords[-1]) if last is None else last)
        for name, coord in zip(self.out.axes, coords):
            place = plus(times(place, self.low.extent(name)), coord)
        return place

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        place = low.let("at", self.position())
        if not self.accumulates:
            low.emit(Store(self.array, place, convert(self.complete(value, seen), self.cells)))
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
        coords = [(f"idx{k}", d) for k, d in enumerate(self.out.index_dtypes)]
        self.entries = self.low.table(*coords, ("val", self.out.dtype))
        self.accumulates = False

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        value = low.let("x", convert(self.complete(value, seen), self.out.dtype))
        with low.block() as then:
            coords = [self.coordinate(axis) for axis in range(len(self.out.axes))]
            low.emit(Append(self.entries, (*coords, value)))
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
        self.low.approach = self._fetch

    def _fetch(self, name: str, ahead: Callable[[int], Expr]) -> None:
        """Ask for the places of entries to come: each lies in a bucket of its own. The next free
        place of a bucket is still that, or close to it, ``PREFETCH_ENTRIES`` entries later."""
        low, first = self.low, self.out.coords[0]
        if isinstance(first, Index) and first.name == name:
            soon = low.let("soon", convert(Read(self.next, (ahead(PREFETCH_ENTRIES),)), INT64))
            low.emit(Prefetch(self.index, soon))
            low.emit(Prefetch(self.values, soon))

    def deliver(self, value: Expr, seen: Expr | None) -> None:
        low = self.low
        at = low.let("at", low.value(self.out.coords[0]))
        here = low.let("to", Read(self.next, (at,)))
        low.emit(Store(self.next, at, Call(ops.add, (here, const(1, self.out.place_dtype)))))
        place = convert(here, INT64)
        low.emit(Store(self.index, place, self.coordinate(1)))
        low.emit(Store(self.values, place, convert(value, self.out.dtype)))
