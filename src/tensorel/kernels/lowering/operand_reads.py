"""Reads of operands, resolved level by level: found, probed, searched, loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import both, compare, element, minus, plus
from tensorel.ir.nodes import BOOL, INT64, Call, Expr, Index, Local, Read, Source, const, postorder
from tensorel.ir.ranges import bounded, index_range
from tensorel.kernels.loopir.statements import Assign, If, Stmt, While, array
from tensorel.kernels.lowering.bounded import NOTHING, Bounds
from tensorel.kernels.lowering.emission import Emission
from tensorel.kernels.lowering.nest import Let, Slot
from tensorel.kernels.lowering.support import Formula, leads_alone, reaches
from tensorel.storage.formats.hashing import hash_keys
from tensorel.storage.levels import Level, Position, Probe, Walk

TRUTH = const(True)


@dataclass(eq=False, slots=True)
class Access:
    """How far a read has been resolved: the levels above ``depth`` are."""

    read: Read
    slot: Slot
    arrays: dict[str, Source]
    depth: int = 0
    position: Position = ()
    coords: tuple[Expr, ...] = ()
    valid: Expr | None = None  # None: surely stored
    value: Expr | None = None

    @property
    def level(self) -> Level:
        return self.slot.format.levels[self.depth]

    @property
    def index(self) -> Expr:
        return self.read.indices[self.slot.format.order[self.depth]]

    @property
    def resolved(self) -> bool:
        return self.depth == self.slot.format.rank

    def state(self) -> tuple[int, Position, tuple[Expr, ...], Expr | None, Expr | None]:
        return self.depth, self.position, self.coords, self.valid, self.value

    def restore(self, state: tuple[int, Position, tuple[Expr, ...], Expr | None, Expr | None]
                ) -> None:
        self.depth, self.position, self.coords, self.valid, self.value = state


def has_lookup(access: Access) -> bool:
    """All coordinates together are found at once."""
    return access.slot.format.lookup(access.arrays, access.read.indices) is not None


class Reading(Emission):
    """Emission that follows reads of stored operands. ``bounds``: what tests say of indices;
    ``sure``: the tests that hold in the loops being written."""

    bounds: Mapping[str, Bounds] = NOTHING
    sure: frozenset[Expr] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.roots = [self.nest.body, *self.nest.output.coords]
        self.roots += [e for e in (self.nest.residual, self.nest.output.guard) if e is not None]
        self.lets = {let.slot: let for let in self.nest.lets}
        self.filled: tuple[Let, ...] = ()
        self.led: dict[str, Access] = {}  # loops that follow the entries of one operand
        self.ahead: dict[str, Formula] = {}  # where loops have to go: those around and to come
        #: all reads, and of these the ones that matter to the loops being written
        self.known = {
            node: self._access(node)
            for node in postorder(*self.roots, *(let.body for let in self.nest.lets))
            if isinstance(node, Read)}
        self.accesses: dict[Read, Access] = self.active()

    def active(self) -> dict[Read, Access]:
        """Reads of the body and of workspaces to be filled yet, but not those of what is not
        filled."""
        coming = [let for let in self.nest.lets if let not in self.filled]
        gone = {let.slot for let in coming}
        nodes = postorder(*self.roots, *(let.body for let in coming))
        return {n: self.known[n] for n in nodes
                if isinstance(n, Read) and self.known[n].slot not in gone}

    def _access(self, read: Read) -> Access:
        assert isinstance(read.tensor, Source) and isinstance(read.tensor.data, Slot), read
        slot = read.tensor.data
        nodes: dict[str, Source] = {}
        if slot in self.lets:
            for name, dtype in slot.dtypes:
                full = f"{slot.name}.{name}"
                nodes[name] = self.own_arrays.get(full) or self.own_array(full, np.dtype(dtype))
            return Access(read, slot, nodes)
        for name, dtype in (*slot.dtypes, ("shape", "<i8"), ("count", "<i8")):
            full = f"{slot.name}.{name}"
            nodes[name] = self.array_nodes.setdefault(full, array(full, np.dtype(dtype)))
            self.arrays[full] = (slot.name, name)
        return Access(read, slot, nodes)

    def value(self, e: Expr) -> Expr:
        """``e`` in terms of locals; ``Lowering`` says how."""
        raise AssertionError

    def wants_early(self, access: Access) -> bool:
        if access.resolved or access.slot.format.rank == 0:
            return True
        if self.is_deferred(access):
            return all(self.is_bound(i) for i in access.read.indices)
        return self.is_bound(access.index)

    def is_deferred(self, access: Access, now: str = "") -> bool:
        """Nothing is asked of the operand before all of its indices are bound: it is looked up
        then, at once. ``now``: the loop being written."""
        if access.depth or not has_lookup(access):
            return False
        ahead = {n: f for n, f in self.ahead.items() if n != now and n not in self.bound}
        bound = frozenset(self.bound) | {now}

        def may_lead(read: Read, name: str, outside: frozenset[str]) -> bool:
            a = self.accesses.get(read)
            if a is None or a.resolved or (
                    a.depth == 0 and a.index.free <= bound and has_lookup(a)):
                return False  # one that was passed over at its first level is looked up at last
            order, levels = a.slot.format.order[a.depth:], a.slot.format.levels[a.depth:]
            return reaches([(read.indices[axis], level.full) for axis, level in zip(order, levels)],
                           name, bound | outside)

        return not leads_alone(access.read, ahead, may_lead)

    def resolve(self, access: Access) -> None:
        """Resolve the levels whose index is bound; at the end load the value."""
        fmt = access.slot.format
        if access.depth == 0 and fmt.rank and all(self.is_bound(i) for i in access.read.indices):
            coords = tuple(self.let("at", self.value(i)) for i in access.read.indices)
            probe = fmt.lookup(access.arrays, coords)
            if probe is not None:
                inside = self._inside_all(access, coords)
                self._probe(access, probe, inside)
                access.depth = fmt.rank
        while not access.resolved and self.is_bound(access.index):
            at = self.let("at", self.value(access.index))
            self.find(access, at, self.inside(access, at))
        if access.resolved and access.value is None:
            self._load(access)

    def axis_extent(self, access: Access, axis: int) -> Expr:
        from_shape = Read(access.arrays["shape"], (const(axis, INT64),))
        return from_shape

    def inside(self, access: Access, at: Expr) -> Expr | None:
        """The range check of a computed index; None where the index is surely in range."""
        axis = access.slot.format.order[access.depth]
        return self._range_check(access, access.read.indices[axis], axis, at)

    def _inside_all(self, access: Access, coords: tuple[Expr, ...]) -> Expr | None:
        checks = [
            self._range_check(access, e, axis, coords[axis])
            for axis, e in enumerate(access.read.indices)
        ]
        return both(*checks)

    def _range_check(self, access: Access, e: Expr, axis: int, at: Expr) -> Expr | None:
        size = access.read.tensor.shape[axis]
        if isinstance(e, Index) and self.extents.get(e.name) == size:
            return None  # also where there is no coordinate at all
        bounds = index_range(e, self.extents)
        lowest, highest = bounds if bounds is not None else (-1, size)  # data: unknown
        if self.sure and (lowest < 0 or highest >= size):
            lowest, highest = bounded(e, (lowest, highest), self.sure)
        low = compare(ops.greater_equal, at, 0) if lowest < 0 else None
        high = compare(ops.less, at, self.axis_extent(access, axis)) if highest >= size else None
        return both(low, high)

    def find(self, access: Access, at: Expr, inside: Expr | None) -> None:
        """Follow one level to the coordinate ``at``."""
        outer = access.coords
        level = access.level
        found = level.find(access.arrays, access.position, outer, at)
        if found is not None:
            ok = both(access.valid, inside, found.condition)
            access.valid = None if ok is None else self.let("has", ok)
            access.position = self.place(access, found.child)
        else:
            probe = level.probe(access.arrays, access.position, outer, at)
            if probe is not None:
                self._probe(access, probe, inside)
            else:
                self._search(access, at, inside)
        access.coords = (*outer, at)
        access.depth += 1

    def _probe(self, access: Access, probe: Probe, inside: Expr | None) -> None:
        """Linear probing until the keys match or a slot is empty."""
        keys = tuple(self.let("key", k) for k in probe.keys)
        mask = self.let("mask", minus(probe.size, 1))
        slot, entry = self.fresh("slot"), self.fresh("entry")
        none = const(-1, INT64)
        self.emit(Assign(slot, Call(ops.bitwise_and, (hash_keys(keys), mask))))
        first = element(probe.table, slot)
        ok = both(access.valid, inside)
        self.emit(Assign(entry, first if ok is None else Call(ops.where, (ok, first, none))))
        same = both(*(compare(ops.equal, a, b) for a, b in zip(probe.stored(entry), keys)))
        differs = const(False) if same is None else Call(ops.logical_not, (same,))
        more = both(compare(ops.greater_equal, entry, 0), differs)
        assert more is not None
        step = Call(ops.bitwise_and, (plus(slot, 1), mask))
        self.emit(While(more, (Assign(slot, step), Assign(entry, element(probe.table, slot)))))
        access.valid = self.let("has", compare(ops.greater_equal, entry, 0))
        access.position = self.place(access, probe.child(entry))

    def place(self, access: Access, child: Position) -> Position:
        """The position of an entry in locals. Whatever it reads is read only where the entry is
        there: a cursor may stand behind the last one, and a number of an entry may say that there
        is none."""
        sizes = {access.arrays.get("shape"), access.arrays.get("count")}  # are always there
        zero = const(0, INT64)
        return tuple(self.let("p", x if access.valid is None or sizes.issuperset(x.reads) else Call(
            ops.where, (access.valid, x, zero))) for x in child)

    def open_walk(self, access: Access) -> tuple[Walk, Expr, Expr]:
        """The walk of the next level, with its range in locals (empty if the parent is absent)."""
        walk = access.level.walk(access.arrays, access.position, access.coords)
        assert walk is not None, access.level
        lo, hi = walk.lo, walk.hi
        if access.valid is not None:
            zero = const(0, INT64)
            lo = Call(ops.where, (access.valid, lo, zero))
            hi = Call(ops.where, (access.valid, hi, zero))
        return walk, self.let("lo", lo), self.let("hi", hi)

    def _search(self, access: Access, at: Expr, inside: Expr | None) -> None:
        walk, lo, hi = self.open_walk(access)
        q = self.lower_bound(walk, lo, hi, at)
        self.arrive(access, walk, q, hi, at, inside, searched=True)

    def arrive(
        self, access: Access, walk: Walk, q: Expr, hi: Expr, at: Expr, inside: Expr | None,
        searched: bool = False
    ) -> None:
        """The cursor q stands at the first whose last coordinate is >= at: present if it reaches
        it. Who searched for it searches for the end of its run as well."""
        meets = ops.equal if walk.last is None else ops.less_equal
        here = both(compare(ops.less, q, hi), compare(meets, walk.coord(q), at))
        ok = both(inside, here, None if walk.keep is None else walk.keep(q))
        assert ok is not None
        has_it = self.fresh("has", BOOL)
        self.emit(Assign(has_it, const(False)))
        with self.block() as then:
            self.emit(Assign(has_it, TRUTH))
        self.emit(If(ok, tuple(then)))
        if walk.runs:
            end = self.fresh("end")
            self.emit(Assign(end, q))
            with self.block() as scan:
                if searched:
                    self.emit(Assign(end, self.lower_bound(walk, q, hi, plus(at, 1))))
                else:
                    self.run_end(walk, q, hi, at, end)
            self.emit(If(has_it, tuple(scan)))
            access.position = (q, end)
        access.valid = has_it
        if not walk.runs:
            access.position = self.place(access, walk.at(q, at))

    def run_end(self, walk: Walk, q: Expr, hi: Expr, at: Expr, end: Local) -> None:
        self.emit(Assign(end, plus(q, 1)))
        more = both(compare(ops.less, end, hi), compare(ops.equal, walk.coord(end), at))
        assert more is not None
        self.emit(While(more, (Assign(end, plus(end, 1)),)))

    def lower_bound(self, walk: Walk, lo: Expr, hi: Expr, target: Expr, begins: bool = False
                    ) -> Local:
        """The first q in [lo, hi) that ends (or ``begins``) at or after target, by binary
        search."""
        coord = walk.coord if begins else walk.end
        low, high, mid = self.fresh("low"), self.fresh("high"), self.fresh("mid")
        self.emit(Assign(low, lo))
        self.emit(Assign(high, hi))
        half = Call(ops.right_shift, (plus(low, high), const(1, INT64)))
        step: tuple[Stmt, ...] = (
            Assign(mid, half),
            If(compare(ops.less, coord(mid), target),
               (Assign(low, plus(mid, 1)),), (Assign(high, mid),)),
        )
        self.emit(While(compare(ops.less, low, high), step))
        return low

    def _load(self, access: Access) -> None:
        stored = access.slot.format.value(access.arrays, access.position)
        assert isinstance(access.read.tensor, Source)
        if access.valid is not None:
            fill = access.read.tensor.fill
            stored = Call(ops.where, (access.valid, stored, fill))
        access.value = self.let("v", stored)
