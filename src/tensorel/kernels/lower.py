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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import (
    both, compare, convert, either, element, int_value, minus, plus, times,
)
from tensorel.ir.nodes import (
    BOOL, INT64, Axis, Call, Const, DType, Expr, Index, Local, Read, Reduce, Source, const, postorder,
)
from tensorel.kernels.loops import Assign, Buffer, For, If, Kernel, Stmt, Store, While, array
from tensorel.kernels.spec import Nest, Slot
from tensorel.kernels.support import (
    FALSE, TRUE, Analysis, Formula, conjunction, disjunction, has, reads_of, restrict,
)
from tensorel.storage.hashing import hash_keys
from tensorel.storage.levels import Level, Position, Probe, Walk

TRUTH = const(True)
Supports = Callable[[str], Formula]  # by loop index


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


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the caller passes to the kernel: (slot name, array name) per array, extents and
    literals per scalar."""

    arrays: tuple[tuple[str, str], ...]
    scalars: tuple[tuple[str, object], ...]


@dataclass(eq=False)
class Lowering:
    """The state of lowering one nest; ``Assembler`` writes the results."""

    nest: Nest
    strict: bool = False
    counter: int = 0
    blocks: list[list[Stmt]] = field(default_factory=lambda: [[]])
    bound: dict[str, Expr] = field(default_factory=dict)
    arrays: dict[str, tuple[str, str]] = field(default_factory=dict)
    array_nodes: dict[str, Source] = field(default_factory=dict)
    own_arrays: dict[str, Source] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    buffers: list[Buffer] = field(default_factory=list)
    scalars: dict[str, tuple[Local, object]] = field(default_factory=dict)
    done_reductions: dict[Reduce, Expr] = field(default_factory=dict)
    open_reductions: set[Reduce] = field(default_factory=set)
    #: told before each loop: its index, and how many iterations it has at most (None: unknown)
    announce: Callable[[str, Expr | None], None] = field(default=lambda name, count: None)

    def __post_init__(self) -> None:
        self.extents = dict(self.nest.extents)
        for e in postorder(self.nest.body):
            if isinstance(e, Reduce):
                self.extents.update({a.name: a.extent for a in e.axes})
        self.accesses: dict[Read, Access] = {}
        roots = [self.nest.body, *self.nest.output.coords]
        roots += [e for e in (self.nest.residual, self.nest.output.guard) if e is not None]
        for node in postorder(*roots):
            if isinstance(node, Read) and node not in self.accesses:
                self.accesses[node] = self._access(node)
        analysis = Analysis(self.strict)
        self.support = TRUE if self.nest.everywhere else analysis.cover(self.nest.body).support
        self.lo, self.hi = Local("lo", INT64), Local("hi", INT64)

    def _access(self, read: Read) -> Access:
        assert isinstance(read.tensor, Source) and isinstance(read.tensor.data, Slot), read
        slot = read.tensor.data
        nodes: dict[str, Source] = {}
        for name, dtype in (*slot.dtypes, ("shape", "<i8"), ("count", "<i8")):
            full = f"{slot.name}.{name}"
            nodes[name] = self.array_nodes.setdefault(full, array(full, np.dtype(dtype)))
            self.arrays[full] = (slot.name, name)
        return Access(read, slot, nodes)

    # -- emitting ------------------------------------------------------------------------------

    def emit(self, statement: Stmt) -> None:
        self.blocks[-1].append(statement)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        body: list[Stmt] = []
        self.blocks.append(body)
        try:
            yield body
        finally:
            self.blocks.pop()

    def fresh(self, hint: str, dtype: DType = INT64) -> Local:
        self.counter += 1
        return Local(f"{hint}_{self.counter}", dtype)

    def let(self, hint: str, value: Expr) -> Expr:
        """A local that holds ``value``; literals and locals stay as they are."""
        if isinstance(value, (Const, Local)):
            return value
        target = self.fresh(hint, value.dtype)
        self.emit(Assign(target, value))
        return target

    def scalar(self, name: str, dtype: DType, value: object) -> Local:
        """A parameter of the kernel."""
        if name not in self.scalars:
            self.scalars[name] = (Local(name, dtype), value)
        return self.scalars[name][0]

    def extent(self, name: str) -> Local:
        return self.scalar(f"n_{name}", INT64, self.extents[name])

    def literal(self, c: Const) -> Expr:
        """Literals that are not special become parameters, so kernels serve all values."""
        if c.dtype not in (INT64, ops.FLOAT64) or c.value in (0, 1, -1, 2):
            return c
        if not np.isfinite(c.value):
            return c
        for local, value in self.scalars.values():
            if value is c:
                return local
        return self.scalar(f"c{len(self.scalars)}", c.dtype, c)

    def own_array(self, name: str, dtype: DType) -> Source:
        """An output or workspace array that the caller allocates."""
        node = array(name, dtype)
        self.own_arrays[name] = node
        self.written.add(name)
        return node

    def buffer(self, name: str, dtype: DType) -> Buffer:
        found = Buffer(name, dtype)
        self.buffers.append(found)
        return found

    # -- values --------------------------------------------------------------------------------

    def value(self, e: Expr) -> Expr:
        """``e`` with bound indices, resolved reads and reductions replaced by locals."""
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
                return Call(e.op, tuple(self.value(a) for a in e.args))
            case Reduce():
                if e not in self.done_reductions:
                    self.done_reductions[e] = self.reduction(e)
                return self.done_reductions[e]
            case _:
                raise AssertionError(e)

    def is_bound(self, e: Expr) -> bool:
        return all(name in self.bound for name in e.free)

    def reduction(self, e: Reduce) -> Expr:
        """An inner reduction: loops around a scalar accumulator."""
        assert e.op.identity is not None
        self.open_reductions.add(e)
        acc = self.fresh("acc", e.dtype)
        self.emit(Assign(acc, const(e.op.identity(e.dtype), e.dtype)))
        reads = {r for r in postorder(e.body) if isinstance(r, Read)}
        names = {a.name for a in e.axes}
        fixed = Analysis(self.strict, lambda r: r.free.isdisjoint(names))
        cover = fixed.cover(e.body)
        missing = cover.support.kind != "true" and not self._is_identity(e, cover.background)
        count = self.fresh("seen") if missing else None
        if count is not None:
            self.emit(Assign(count, const(0, INT64)))

        def inner() -> None:
            self.emit(Assign(acc, self.combine(e.op, acc, self.value(e.body))))
            if count is not None:
                self.emit(Assign(count, plus(count, 1)))

        states = {r: self.accesses[r].state() for r in reads}
        bound, done = dict(self.bound), dict(self.done_reductions)
        self.loops(tuple(a.name for a in e.axes), lambda name: cover.support, inner)
        self.bound, self.done_reductions = bound, done
        for r, state in states.items():
            self.accesses[r].restore(state)
        self.open_reductions.discard(e)
        if count is not None:
            self._add_missing(e, acc, count, names)
        return acc

    def _is_identity(self, e: Reduce, background: Const | None) -> bool:
        assert e.op.identity is not None
        return background is not None and background is const(e.op.identity(e.dtype), e.dtype)

    def _add_missing(self, e: Reduce, acc: Local, count: Local, names: set[str]) -> None:
        """Combine the points that were not visited, each equal to the residual."""
        with self.block() as then:
            residual = self.value(self.absent(e.body, names))
            total = math.prod(a.extent for a in e.axes)
            more = self.repeat(e.op, residual, self.missing(total, count, residual.dtype))
            self.emit(Assign(acc, self.combine(e.op, acc, more)))
        self.emit(If(self.some_missing(e.axes, count), tuple(then)))

    def some_missing(self, axes: Iterable[Axis], count: Expr) -> Expr:
        total = math.prod(a.extent for a in axes)
        name = "points_" + "_".join(a.name for a in axes)
        return compare(ops.greater, self.scalar(name, INT64, min(total, 2**62)), count)

    def missing(self, total: int, count: Expr, dtype: DType) -> Expr:
        """total - count, in floating point for such values: shapes may have more points than an
        int64 counts; integers wrap around as their sums do."""
        if dtype.kind in "fc":
            return Call(ops.subtract, (self.literal(const(float(total))),
                                       convert(count, ops.FLOAT64)))
        return minus(self.literal(const((total + 2**63) % 2**64 - 2**63, INT64)), count)

    def absent(self, e: Expr, names: set[str]) -> Expr:
        """``e`` where the sparse reads that depend on ``names`` are not stored."""
        return absent(e, lambda r: not r.free.isdisjoint(names))

    def combine(self, op: ops.Operator, acc: Expr, value: Expr) -> Expr:
        return convert(Call(op, (acc, convert(value, acc.dtype))), acc.dtype)

    def repeat(self, op: ops.Operator, value: Expr, n: Expr) -> Expr:
        """``value`` combined with itself n > 0 times."""
        if op.idempotent:
            return value
        assert op.repeat is not None, f"{op.name} cannot be repeated"
        times_op = ops.operator(op.repeat)
        if times_op is ops.power and value.dtype.kind in "fc":
            n = convert(n, value.dtype)
        elif times_op is ops.multiply:
            n = convert(n, value.dtype)
        return convert(Call(times_op, (value, n)), value.dtype)

    # -- resolving reads -------------------------------------------------------------------------

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
            self.find(access, at, self._inside(access, at))
        if access.resolved and access.value is None:
            self._load(access)

    def _axis_extent(self, access: Access, axis: int) -> Expr:
        from_shape = Read(access.arrays["shape"], (const(axis, INT64),))
        return from_shape

    def _inside(self, access: Access, at: Expr) -> Expr | None:
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
        size = access.read.tensor.shape[axis]  # type: ignore[attr-defined]
        bounds = index_range(e, self.extents)
        lowest, highest = bounds if bounds is not None else (-1, size)  # data: unknown
        low = compare(ops.greater_equal, at, 0) if lowest < 0 else None
        high = compare(ops.less, at, self._axis_extent(access, axis)) if highest >= size else None
        return both(low, high)

    def find(self, access: Access, at: Expr, inside: Expr | None) -> None:
        """Follow one level to the coordinate ``at``."""
        outer = access.coords
        level = access.level
        found = level.find(access.arrays, access.position, outer, at)
        if found is not None:
            ok = both(access.valid, inside, found.condition)
            access.valid = None if ok is None else self.let("has", ok)
            access.position = tuple(self.let("p", x) for x in found.child)
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
        access.position = tuple(self.let("p", x) for x in probe.child(entry))

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
        self._arrive(access, walk, q, hi, at, inside)

    def _arrive(
        self, access: Access, walk: Walk, q: Expr, hi: Expr, at: Expr, inside: Expr | None
    ) -> None:
        """The cursor q stands at the first coordinate >= at: present if it is equal."""
        here = both(compare(ops.less, q, hi), compare(ops.equal, walk.coord(q), at))
        ok = both(inside, here)
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
                self.run_end(walk, q, hi, at, end)
            self.emit(If(has_it, tuple(scan)))
            access.position = (q, end)
        else:
            access.position = tuple(self.let("p", x) for x in walk.child(q))
        access.valid = has_it

    def run_end(self, walk: Walk, q: Expr, hi: Expr, at: Expr, end: Local) -> None:
        self.emit(Assign(end, plus(q, 1)))
        more = both(compare(ops.less, end, hi), compare(ops.equal, walk.coord(end), at))
        assert more is not None
        self.emit(While(more, (Assign(end, plus(end, 1)),)))

    def lower_bound(self, walk: Walk, lo: Expr, hi: Expr, target: Expr) -> Local:
        """The first q in [lo, hi) with coord(q) >= target, by binary search."""
        low, high, mid = self.fresh("low"), self.fresh("high"), self.fresh("mid")
        self.emit(Assign(low, lo))
        self.emit(Assign(high, hi))
        half = Call(ops.right_shift, (plus(low, high), const(1, INT64)))
        step: tuple[Stmt, ...] = (
            Assign(mid, half),
            If(compare(ops.less, walk.coord(mid), target),
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

    # -- loops ---------------------------------------------------------------------------------

    def loops(self, names: tuple[str, ...], support: Supports, innermost: Callable[[], None],
              enter: Callable[[str], None] | None = None,
              leave: Callable[[str], None] | None = None, depth: int = 1) -> None:
        """Loops over ``names`` around ``innermost``; hooks run before and after each body.

        Depth 0 is the outer loop of the kernel, which runs over the range of this call. Loops
        look at the cancel flag down to depth 1, but an innermost loop never does: it stays free
        to be vectorized, and the ranges of calls are short."""
        self._hoist()
        if not names:
            innermost()
            return
        name, rest = names[0], names[1:]

        def body() -> None:
            if enter is not None:
                enter(name)
            self.loops(rest, support, innermost, enter, leave, depth + 1)
            if leave is not None:
                leave(name)

        Looper(
            self, name, support(name), depth == 0, depth <= 1 and bool(rest), not rest
        ).run(body)

    def _hoist(self) -> None:
        """Resolve what the bound indices determine; inner loops then read locals."""
        for access in self.accesses.values():
            if access.value is None and self._wants_early(access):
                self.resolve(access)
        for e in self._reductions():
            if e not in self.done_reductions and e not in self.open_reductions \
                    and self.is_bound(e):
                self.done_reductions[e] = self.reduction(e)

    def _wants_early(self, access: Access) -> bool:
        if access.resolved or access.slot.format.rank == 0:
            return True
        if access.slot.format.lookup(access.arrays, access.read.indices) is not None \
                and access.depth == 0:
            return all(self.is_bound(i) for i in access.read.indices)
        return self.is_bound(access.index)

    def _reductions(self) -> list[Reduce]:
        """Outermost inner reductions of the body."""
        found: list[Reduce] = []
        stack: list[Expr] = [self.nest.body]
        while stack:
            e = stack.pop()
            if isinstance(e, Reduce):
                found.append(e)
            elif isinstance(e, Call):
                stack.extend(e.args)
        return found

    def kernel(self, name: str, body: list[Stmt]) -> tuple[Kernel, Bindings]:
        """The finished kernel; only the arrays that it uses are parameters."""
        used = arrays_used(body)
        names = [n for n in self.array_nodes if n in used]
        own = [n for n in self.own_arrays if n in used or n in self.written]
        kernel = Kernel(
            name, tuple(self.array_nodes[n] for n in names) + tuple(self.own_arrays[n] for n in own),
            frozenset(own), tuple(self.buffers), tuple(s for s, _ in self.scalars.values()),
            self.lo, self.hi, tuple(body),
        )
        arrays = tuple(self.arrays[n] for n in names) + tuple(("", n) for n in own)
        scalars = tuple(
            (n, v.value.item() if isinstance(v, Const) else v)
            for n, (_, v) in self.scalars.items()
        )
        return kernel, Bindings(arrays, scalars)


@dataclass(eq=False)
class Looper:
    """One loop: chooses leaders and followers and writes the loop around the body."""

    low: Lowering
    name: str
    support: Formula
    outermost: bool
    checked: bool
    innermost: bool
    merged: tuple[Access, ...] = ()

    def run(self, body: Callable[[], None]) -> None:
        low = self.low
        if self.support.kind == "false":
            return  # the body is its background everywhere
        states = {a: a.state() for a in low.accesses.values()}
        bound, done = dict(low.bound), dict(low.done_reductions)
        candidates = {a.read: a for a in low.accesses.values() if self._is_candidate(a)}
        leaders = self._leaders(candidates)
        followers = [a for a in candidates.values() if a not in leaders]
        self.begin, self.end = (
            (low.lo, low.hi) if self.outermost else (const(0, INT64), low.extent(self.name))
        )
        cursors = self._open_followers(followers, bool(leaders))
        inner = self._body(body, followers, cursors)
        if not leaders:
            self._dense(inner)
        elif len(leaders) == 1:
            self._single(leaders[0], inner)
        elif len(leaders) == 2 and self.innermost and self._is_simple(leaders):
            self._two_way(leaders, inner)
        else:
            self._merge(leaders, inner)
        low.bound, low.done_reductions = bound, done
        for a, state in states.items():
            a.restore(state)

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

    def _leader_cost(self, group: list[Access]) -> tuple[int, int]:
        gallop = sum(a.slot.name in self.low.nest.gallop for a in group)
        return gallop, len(group)

    def _known(self, candidates: dict[Read, Access]) -> Callable[[Read], Formula]:
        def known(read: Read) -> Formula:
            return has(read) if read in candidates else TRUE

        return known

    # -- followers -----------------------------------------------------------------------------

    def _open_followers(self, followers: list[Access], led: bool
                        ) -> dict[Access, tuple[Walk, Local, Expr]]:
        """Cursors of the followers that advance beside the leader."""
        low = self.low
        cursors: dict[Access, tuple[Walk, Local, Expr]] = {}
        for a in followers:
            level = a.level
            direct = (
                level.find(a.arrays, a.position, a.coords, const(0, INT64)) is not None
                or level.probe(a.arrays, a.position, a.coords, const(0, INT64)) is not None
                or a.slot.format.lookup(a.arrays, a.read.indices) is not None
            )
            if direct or a.slot.name in low.nest.gallop:
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

    def _follow(self, a: Access, cursors: dict[Access, tuple[Walk, Local, Expr]]) -> None:
        low = self.low
        if a.slot.format.lookup(a.arrays, a.read.indices) is not None and a.depth == 0:
            return  # probed with all coordinates at once, when they are bound
        at = low.let("at", low.value(a.index))
        inside = low._inside(a, at)
        if a not in cursors:
            low.find(a, at, inside)
            return
        walk, cursor, hi = cursors[a]
        before = both(compare(ops.less, cursor, hi), compare(ops.less, walk.coord(cursor), at))
        assert before is not None
        low.emit(While(before, (Assign(cursor, plus(cursor, 1)),)))
        q = low.let("q", plus(cursor, 0)) if not walk.runs else cursor
        low._arrive(a, walk, q, hi, at, inside)
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
                if not a.resolved and low._wants_early(a):
                    low.resolve(a)
            changed = [a for a in low.accesses.values() if a.valid is not before[a]]
            changed += [a for a in self.merged if a.valid is not None]
            guard = self._guard() if changed or self.innermost else None
            if guard is None:
                body()
                return
            if isinstance(guard, Const):
                return  # nothing here differs from the background
            with low.block() as then:
                body()
            low.emit(If(guard, tuple(then)))

        return inner

    def _guard(self) -> Expr | None:
        """The support over what is known to be stored here; sure parts need no check later."""
        low = self.low

        def known(read: Read) -> Formula:
            valid = low.accesses[read].valid
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
            inner(v)
        low.emit(For(v, self.begin, self.end, tuple(body), self.checked))

    def _range(self, a: Access) -> tuple[Walk, Expr, Expr, int, Expr]:
        """The part of the walk whose coordinates fall into this loop's range."""
        low = self.low
        walk, lo, hi = low.open_walk(a)
        parts = split_affine(a.index, self.name)
        assert parts is not None
        step, offset = parts[0], low.let("off", low.value(parts[1]))
        axis = a.slot.format.order[a.depth]
        whole = (
            not self.outermost and step == 1 and int_value(parts[1]) == 0
            and low.extents[self.name] == a.read.tensor.shape[axis]  # type: ignore[attr-defined]
        )
        if whole:
            return walk, lo, hi, step, offset
        first = low.let("first", plus(times(step, self.begin), offset))
        last = low.let("last", plus(plus(times(step, minus(self.end, 1)), offset), 1))
        start = low.lower_bound(walk, lo, hi, first)
        stop = low.lower_bound(walk, start, hi, last)
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
            self.low.let("p", x) for x in walk.child(q)
        )
        a.coords = (*a.coords, c)
        a.depth += 1

    def _single(self, a: Access, inner: Callable[[Expr], None]) -> None:
        low = self.low
        walk, lo, hi, step, offset = self._range(a)
        low.announce(self.name, minus(hi, lo))
        q = low.fresh("q")
        with low.block() as body:
            c = low.let("c", walk.coord(q))
            end: Local | None = None
            if walk.runs:
                end = low.fresh("end")
                low.run_end(walk, q, hi, c, end)
            valid = a.valid
            self._enter(a, walk, q, end, c)
            a.valid = None  # the walk is empty where the parent is absent
            v, exact = self._solve(c, step, offset)
            if exact is None:
                inner(low.let(self.name, v))
            else:
                with low.block() as then:
                    inner(low.let(self.name, v))
                low.emit(If(exact, tuple(then)))
            if end is not None:
                low.emit(Assign(q, end))
            a.valid = valid
        if walk.runs:
            low.emit(Assign(q, lo))
            low.emit(While(compare(ops.less, q, hi), tuple(body), self.checked))
        else:
            low.emit(For(q, lo, hi, tuple(body), self.checked))

    def _is_simple(self, leaders: list[Access]) -> bool:
        """Walks without runs, read at the index itself."""
        for a in leaders:
            walk = a.level.walk(a.arrays, a.position, a.coords)
            parts = split_affine(a.index, self.name)
            if walk is None or walk.runs or parts is None or parts[0] != 1:
                return False
        return True

    def _two_way(self, leaders: list[Access], inner: Callable[[Expr], None]) -> None:
        """Union of two walks: one loop while both last, then the rest of each. In each of the
        three cases it is known which operand is stored, so the body is specialized."""
        low = self.low
        a, b = leaders
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
            self._peek(walk, q, hi, step, offset, v, top)
        low.announce(self.name, None)
        smallest: Expr = parts[0][6]
        for p in parts[1:]:
            smallest = Call(ops.minimum, (smallest, p[6]))
        with low.block() as body:
            v = low.let(self.name, smallest)
            ends: list[tuple[Local, Expr]] = []
            for a, walk, q, hi, step, offset, mine in parts:
                present = low.let("has", compare(ops.equal, mine, v))
                end = low.fresh("end")
                if walk.runs:
                    low.emit(Assign(end, q))
                    with low.block() as scan:
                        low.run_end(walk, q, hi, walk.coord(q), end)
                    low.emit(If(present, tuple(scan)))
                at = low.let("at", plus(times(step, v), offset))
                self._enter(a, walk, low.let("q", Call(ops.add, (q, const(0, INT64)))),
                            end if walk.runs else None, at)
                a.valid = present
                ends.append((q, end if walk.runs else plus(q, 1)))
            flags = [p[0].valid for p in parts]
            self.merged = tuple(leaders)
            inner(v)
            for (a, walk, q, hi, step, offset, mine), (_, nxt), flag in zip(parts, ends, flags):
                with low.block() as advance:
                    low.emit(Assign(q, nxt))
                    self._peek(walk, q, hi, step, offset, mine, top)
                assert flag is not None
                low.emit(If(flag, tuple(advance)))
        low.emit(While(compare(ops.less, smallest, top), tuple(body), self.checked))

    def _peek(self, walk: Walk, q: Local, hi: Expr, step: int, offset: Expr, v: Local,
              top: Const) -> None:
        """v = the index at the cursor, or ``top`` at the end; skips what has no index."""
        low = self.low
        if step != 1:
            gap = compare(ops.not_equal, Call(
                ops.remainder, (minus(walk.coord(q), offset), const(step, INT64))), 0)
            more = both(compare(ops.less, q, hi), gap)
            assert more is not None
            low.emit(While(more, (Assign(q, plus(q, 1)),)))
        here = minus(walk.coord(q), offset)
        if step != 1:
            here = Call(ops.floor_divide, (here, const(step, INT64)))
        low.emit(Assign(v, Call(ops.where, (compare(ops.less, q, hi), here, top))))


def absent(e: Expr, gone: Callable[[Read], bool]) -> Expr:
    """``e`` where the sparse reads that ``gone`` picks are not stored: they read their fill."""
    match e:
        case Read():
            assert isinstance(e.tensor, Source)
            sparse = not e.tensor.data.format.is_dense  # type: ignore[attr-defined]
            return e.tensor.fill if sparse and gone(e) else e
        case Call():
            return Call(e.op, tuple(absent(a, gone) for a in e.args))
        case _:
            return e


def index_range(e: Expr, extents: dict[str, int]) -> tuple[int, int] | None:
    """Bounds of an index expression, None if it depends on data."""
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Index():
            return 0, max(extents[e.name] - 1, 0)
        case Call() if e.op in (ops.add, ops.subtract, ops.multiply):
            left, right = (index_range(a, extents) for a in e.args)
            if left is None or right is None:
                return None
            if e.op is ops.add:
                return left[0] + right[0], left[1] + right[1]
            if e.op is ops.subtract:
                return left[0] - right[1], left[1] - right[0]
            products = [x * y for x in left for y in right]
            return min(products), max(products)
        case Call() if e.op is ops.remainder and int_value(e.args[1]):
            return 0, max(int_value(e.args[1]) or 1, 1) - 1
        case Call() if e.op is ops.floor_divide and (int_value(e.args[1]) or 0) > 0:
            inner = index_range(e.args[0], extents)
            by = int_value(e.args[1]) or 1
            return None if inner is None else (inner[0] // by, inner[1] // by)
        case _:
            return None


def arrays_used(body: list[Stmt]) -> set[str]:
    """Names of arrays that statements read or write."""
    names: set[str] = set()
    stack: list[object] = list(body)
    seen: set[int] = set()
    while stack:
        s = stack.pop()
        if isinstance(s, tuple):
            stack.extend(s)
        elif isinstance(s, Expr):
            if id(s) in seen:
                continue
            seen.add(id(s))
            for e in postorder(s):
                if isinstance(e, Source):
                    names.add(str(e.data))
        elif isinstance(s, Source):
            names.add(str(s.data))
        elif isinstance(s, Stmt):
            stack.extend(getattr(s, f) for f in s.__slots__)
    return names


__all__ = ["FALSE", "Access", "Bindings", "Lowering", "Store", "conjunction", "disjunction",
           "index_range", "reads_of"]
