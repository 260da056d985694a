"""Physical choice: for each definition its kernel, loop order, output format, conversions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.affine import split_affine
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.build import both, compare, floordiv, minus, modulo
from tensorel.ir.nodes import (
    INT64, Axis, Bulk, Call, Const, DType, Expr, Index, Lambda, Read, Reduce, Source, const,
    postorder, substitute,
)
from tensorel.ir.printer import show
from tensorel.kernels.lower import absent
from tensorel.kernels.spec import Assembly, Nest, Output, Slot
from tensorel.kernels.support import (
    Analysis, Formula, conjunction, disjunction, reads_of, repeat_constant,
)
from tensorel.plan.blas import blas_step
from tensorel.plan.definitions import Definition, Program, replace_exprs
from tensorel.plan.estimate import Estimator, filled
from tensorel.plan.loops import (
    CONVERT, Operand, Simulation, converted, is_plain, operand, orders, simulate,
)
from tensorel.plan.physical import BulkStep, ConvertStep, KernelStep, Plan, Step, ViewStep
from tensorel.plan.views import permuted, view_of
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Dense, Listed
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack

APPEND, WORKSPACE, LIST_SORT, SCATTER = 3.0, 8.0, 60.0, 2.0
INDEX_LIMIT = 2**29  # counts of a plan may double before it is made anew: stay far below 2**31


@dataclass
class Known:
    """A slot with its statistics: stored entries and nodes per level."""

    slot: Slot
    source: Source
    count: float
    levels: tuple[float, ...]
    bytes_: float
    degrees: tuple[float, ...] | None = None  # longest segment of each level, where known


@dataclass
class Choice:
    """The best nest found for a definition."""

    order: tuple[str, ...]
    simulation: Simulation
    output: Output
    cost: float
    converts: list[Operand]
    axes_order: tuple[int, ...]


def level_sizes(fmt: Format, shape: tuple[int, ...], count: float) -> tuple[float, ...]:
    """Nodes of each level, estimated from the number of entries."""
    sizes, nodes, room = [], 1.0, 1.0
    for axis, level in zip(fmt.order, fmt.levels):
        room = min(room * max(shape[axis], 1), 1e300)
        nodes = nodes * shape[axis] if level.full else min(room, max(count, 1.0))
        sizes.append(nodes)
    return tuple(sizes)


class Chooser:
    """Turns definitions into steps, one after another."""

    def __init__(self, program: Program, known: dict[object, Known]) -> None:
        self.program = program
        self.known = known  # by Slot or Ref
        self.steps: list[Step] = []
        self.conversions: dict[tuple[str, object], Known] = {}
        self.counter = 0
        self.strict = program.config.strict

    def run(self) -> Plan:
        inputs = [k.slot.name for k in self.known.values()]
        slots: dict[str, str] = {}
        for d in self.program.definitions:
            known = self._define(d)
            whole = d.ref.whole
            if whole != known.slot.format.is_dense:
                slot = replace(known.slot, whole=whole)
                source = known.source
                known = replace(known, slot=slot, source=Source(
                    slot, source.shape, source.dtype, source.fill))
                self.known[slot] = known
            self.known[d.ref] = known
            slots[d.name] = known.slot.name
        results = [slots[n] for n in self.program.results]
        plan = Plan(self.steps, results, inputs, dict(self.program.fired), [])
        plan.plan_frees()
        return plan

    def _define(self, d: Definition) -> Known:
        assert d.fill is not None or not isinstance(d.tensor, Source)
        fill = d.fill if d.fill is not None else fill_of(d.tensor)
        want = None if d.format is None else resolve(d.format, d.shape, d.tensor.dtype)  # type: ignore[arg-type]
        match d.tensor:
            case Source():
                return self._stored_as(d, self.known[d.tensor.data], want)
            case Bulk():
                return self._bulk(d, d.tensor, want)
            case _:
                return self._formula(d.name, d.tensor, fill, want)

    # -- simple steps ----------------------------------------------------------------------------

    def _add(self, step: Step, count: float) -> Known:
        self.steps.append(step)
        source = Source(step.target, step.shape, step.dtype, step.fill)
        levels = level_sizes(step.target.format, step.shape, count)
        made = self.known[step.target] = Known(step.target, source, count, levels, step.bytes_)
        return made

    def _stored_as(self, d: Definition, known: Known, want: Format | None) -> Known:
        """A stored tensor asked for in a format: a kernel where one can write it."""
        if want is None or want.covers(known.slot.format):
            return known
        if type(want) is not Stack or type(known.slot.format) is not Stack:
            return self._convert(known, want)
        axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(known.source.shape))
        body = Read(known.source, tuple(Index(a.name) for a in axes))
        return self._nest(d.name, axes, None, (), body, known.source.fill, want, keep_fill=True)

    def _convert(self, known: Known, want: Format | None) -> Known:
        if want is None or want == known.slot.format:
            return known
        key = (known.slot.name, want)
        if key not in self.conversions:
            self.counter += 1
            slot = self._slot(f"{known.slot.name}_{self.counter}", want, known.source.dtype,
                              known.source.shape, known.count)
            size = self._bytes(want, known.source.shape, known.source.dtype, known.count)
            step = ConvertStep(
                slot, known.source.shape, known.source.dtype, known.source.fill,
                f"{slot.name} = {known.slot.name} as {want.name}", known.count, size,
                2 * size, known.count * CONVERT, source=known.slot.name, format=want)
            self.conversions[key] = self._add(step, known.count)
        return self.conversions[key]

    def _bulk(self, d: Definition, b: Bulk, want: Format | None) -> Known:
        args = tuple(self.known[a.data] for a in b.args)  # type: ignore[attr-defined]
        count = max((k.count for k in args), default=0.0)
        fmt = resolve("coo" if b.shape else "dense", b.shape, b.dtype)
        slot = Slot(d.name, fmt, ())
        size = count * (b.dtype.itemsize + 8 * len(b.shape))
        fill = d.fill if d.fill is not None else fill_of(b)
        step = BulkStep(slot, b.shape, b.dtype, fill, f"{d.name} = {b.op}({b.params})", count, size,
                        3 * size, count * LIST_SORT, op=b.op,
                        args=tuple(k.slot.name for k in args), params=b.params)
        known = self._add(step, count)
        # the operator decides how its result lies: it is brought into a known format
        fixed = self._convert_dynamic(known, want)
        return fixed

    def _convert_dynamic(self, known: Known, want: Format | None) -> Known:
        shape, dtype = known.source.shape, known.source.dtype
        size = math.prod(float(n) for n in shape)
        dense = not shape or known.count > 0.25 * size
        fmt = want or resolve("dense" if dense else "coo", shape, dtype)
        step = self.steps[-1]
        assert isinstance(step, BulkStep)
        slot = self._slot(known.slot.name, fmt, dtype, shape, known.count, wide=True)
        step.target = slot
        made = self.known[slot] = Known(
            slot, Source(slot, shape, dtype, known.source.fill), known.count,
            level_sizes(fmt, shape, known.count), known.bytes_)
        return made

    def _slot(self, name: str, fmt: Format, dtype: DType, shape: tuple[int, ...], count: float,
              wide: bool = False) -> Slot:
        """The slot of a result: index widths follow from the extents and the count."""
        return Slot(name, fmt, index_dtypes(fmt, dtype, shape, count))

    def _bytes(self, fmt: Format, shape: tuple[int, ...], dtype: DType, count: float) -> float:
        size = math.prod(float(n) for n in shape)
        if fmt.is_dense:
            return size * dtype.itemsize
        last = max(k for k, level in enumerate(fmt.levels) if not level.full)
        tail = math.prod(float(shape[a]) for a in fmt.order[last + 1 :])
        nodes = level_sizes(fmt, shape, count / max(tail, 1.0))
        total = count * dtype.itemsize
        for k in range(last + 1):
            total += nodes[k] * (8.0 if fmt.levels[k].full else index_dtype(
                shape[fmt.order[k]]).itemsize + (4.0 if k < last else 0.0))
        return total

    # -- formulas --------------------------------------------------------------------------------

    def _formula(self, name: str, lam: Lambda, fill: Const, want: Format | None) -> Known:
        body = self._bind(lam.body)
        op, reduced = None, ()
        if isinstance(body, Reduce):
            op, reduced, body = body.op, body.axes, body.body
        body = self._solve_indices(body, {a.name: a.extent for a in (*lam.axes, *reduced)})
        if op is None:
            view = self._view(name, lam, body, fill, want)
            if view is not None:
                return view
        product = blas_step(self, name, lam, op, reduced, body, fill, want)
        if product is not None:
            known = self._add(product, math.prod(float(n) for n in lam.shape))
            return self._convert(known, want)
        return self._nest(name, lam.axes, op, reduced, body, fill, want)

    def _view(self, name: str, lam: Lambda, body: Expr, fill: Const, want: Format | None
              ) -> Known | None:
        """The formula is its operand with axes permuted or rows cut off: nothing is copied."""
        found = view_of(lam.axes, body)
        if found is None:
            return None
        read, permutation, start = found
        known = self.known_of(read.tensor)  # type: ignore[arg-type]
        fmt = permuted(known.slot.format, permutation, lam.shape)
        if fmt is None or (want is not None and want != fmt):
            return None
        share = 1.0
        if start is not None:
            axis = known.slot.format.order[0]
            share = lam.shape[permutation.index(axis)] / max(known.source.shape[axis], 1)
        count = known.count * share
        slot = Slot(name, fmt, known.slot.dtypes)
        text = f"{name} = view of {known.slot.name}"
        step = ViewStep(slot, lam.shape, lam.dtype, fill, text, count, 0.0, 0.0, 0.0,
                        source=known.slot.name, permutation=permutation, start=start)
        return self._add(step, count)

    def _bind(self, e: Expr) -> Expr:
        """Reads of definitions become reads of their slots."""
        memo: dict[Expr, Expr] = {}

        def go(x: Expr) -> Expr:
            found = memo.get(x)
            if found is None:
                match x:
                    case Read():
                        assert isinstance(x.tensor, Source)
                        found = Read(self.known[x.tensor.data].source, tuple(map(go, x.indices)))
                    case Call():
                        found = Call(x.op, tuple(map(go, x.args)))
                    case Reduce():
                        found = Reduce(x.op, x.axes, go(x.body))
                    case _:
                        found = x
                memo[x] = found
            return found

        return go(e)

    def _solve_indices(self, body: Expr, extents: dict[str, int]) -> Expr:
        """Reads of sparse operands that loops cannot follow are stored again, rekeyed."""
        table: dict[Expr, Expr] = {}
        extents = dict(extents)
        for e in postorder(body):
            if isinstance(e, Reduce):
                extents.update({a.name: a.extent for a in e.axes})
        for e in postorder(body):
            if not isinstance(e, Read) or e.tensor.data.format.is_dense:  # type: ignore[attr-defined]
                continue
            if all(self._can_follow(i) for i in e.indices):
                continue
            rekeyed = self._rekey(e, extents)
            if rekeyed is not None:
                table[e] = rekeyed
        return replace_exprs(body, table) if table else body

    def _can_follow(self, e: Expr) -> bool:
        if not e.free:
            return True
        if any(isinstance(x, Read) for x in postorder(e)):
            return False
        parts = [split_affine(e, n) for n in e.free]
        return all(p is not None and p[0] > 0 for p in parts)

    def _rekey(self, read: Read, extents: dict[str, int]) -> Expr | None:
        """``read`` as a tensor of its own indices, made by walking the stored entries.

        Each index expression must be a*v + b in one index of its own, a index array read, or
        free of indices; then v = (c - b) / a for the stored coordinate c."""
        gathers = [k for k, i in enumerate(read.indices) if isinstance(i, Read)]
        if gathers:
            return self._gather(read, gathers[0])
        names = [sorted(i.free) for i in read.indices]
        used = [n[0] for n in names if n]
        if any(len(n) > 1 for n in names) or len(set(used)) != len(used):
            return None
        coords: list[Expr] = []
        guard: Expr | None = None
        own: list[Axis] = []
        loops: list[Axis] = []
        at: list[Expr] = []
        for k, (i, n) in enumerate(zip(read.indices, names)):
            extent = read.tensor.shape[k]
            if not n:
                at.append(i)
                continue
            parts = split_affine(i, n[0])
            if parts is None:
                return None
            a, b = parts
            loops.append(Axis(f"u{k}", extent))
            at.append(Index(f"u{k}"))
            shifted = minus(Index(f"u{k}"), b) if a > 0 else minus(b, Index(f"u{k}"))
            v = floordiv(shifted, abs(a))
            exact = None if abs(a) == 1 else compare(ops.equal, modulo(shifted, abs(a)), 0)
            inside = both(compare(ops.greater_equal, shifted, 0),
                          compare(ops.less, v, extents[n[0]]))
            guard = both(guard, exact, inside)
            own.append(Axis(n[0], extents[n[0]]))
            coords.append(v)
        return self._rekeyed(read, own, loops, at, coords, guard)

    def _rekeyed(self, read: Read, own: list[Axis], loops: list[Axis], at: list[Expr],
                 coords: list[Expr], guard: Expr | None) -> Expr:
        assert isinstance(read.tensor, Source)
        self.counter += 1
        known = self.known_of(read.tensor)
        shape = tuple(a.extent for a in own)
        count = known.count
        fmt = resolve("csr" if len(shape) == 2 else "coo", shape, read.dtype)
        name = f"r{self.counter}"
        order = tuple(u for _, u in sorted(
            (known.slot.format.order.index(k), f"u{k}")
            for k, e in enumerate(at) if isinstance(e, Index)))
        out = Output(
            Assembly.LIST, tuple(a.name for a in own), tuple(coords), 0, read.dtype,
            read.tensor.fill, tuple(index_dtype(n) for n in shape), guard, keep_fill=True)
        extents = tuple((a.name, a.extent) for a in (*loops, *own))
        nest = Nest(order, extents, frozenset(), None, Read(read.tensor, tuple(at)), out)
        slot = self._slot(name, fmt, read.dtype, shape, count)
        size = self._bytes(fmt, shape, read.dtype, count)
        step = KernelStep(
            slot, shape, read.dtype, read.tensor.fill, f"{name} = rekey {known.slot.name}", count,
            size, 3 * size, count * LIST_SORT, nest=nest, operands=(known.slot.name,), finish=fmt)
        made = self._add(step, count)
        return Read(made.source, tuple(Index(a.name) for a in own))

    def _gather(self, read: Read, axis: int) -> Expr | None:
        """T[..., idx[k], ...]: the entries of T are joined with the index array."""
        indexer = read.indices[axis]
        assert isinstance(indexer, Read) and isinstance(read.tensor, Source)
        fmt = read.tensor.data.format  # type: ignore[attr-defined]
        level = fmt.order.index(axis)
        if fmt.levels[level].full and all(fmt.levels[k].full for k in range(level)):
            return None  # found directly
        if len(indexer.indices) != 1 or not isinstance(indexer.indices[0], Index):
            return None
        if read.tensor.shape[axis] == 0:
            return read.tensor.fill
        others = [i for k, i in enumerate(read.indices) if k != axis]
        if any(not e.free.isdisjoint(indexer.free) for e in others):
            return None  # the same index elsewhere: pointwise gather, looked up per point
        assert isinstance(indexer.tensor, Source)
        known, idx = self.known_of(read.tensor), self.known_of(indexer.tensor)
        self.counter += 1
        shape = (*read.tensor.shape[:axis], indexer.tensor.shape[0], *read.tensor.shape[axis + 1:])
        if read.tensor.fill.value == 0:
            return self._gather_join(read, axis, indexer, known, idx, shape)
        fmt_out = resolve("coo", shape, read.dtype)
        name = f"g{self.counter}"
        share = indexer.tensor.shape[0] / max(read.tensor.shape[axis], 1)
        count = known.count * share
        slot = self._slot(name, fmt_out, read.dtype, shape, max(count, known.count))
        size = self._bytes(fmt_out, shape, read.dtype, count)
        step = BulkStep(slot, shape, read.dtype, read.tensor.fill,
                        f"{name} = take {known.slot.name} along axis {axis}", count, size, 3 * size,
                        (count + known.count) * CONVERT, op="take",
                        args=(known.slot.name, idx.slot.name), params=(axis,))
        made = self._add(step, count)
        indices = (*read.indices[:axis], indexer.indices[0], *read.indices[axis + 1:])
        again = Read(made.source, indices)
        if all(self._can_follow(i) for i in indices):
            return again
        deeper = [k for k, i in enumerate(indices) if isinstance(i, Read)]
        return (self._gather(again, deeper[0]) if deeper else None) or again

    def _gather_join(self, read: Read, axis: int, indexer: Read, known: Known, idx: Known,
                     shape: tuple[int, ...]) -> Expr:
        """T[.., idx[k], ..] = sum_j where(S[j, k], T[.., j, ..], 0) with S[j, k] = (idx[k] == j):
        each stored entry of T meets the places that ask for its coordinate."""
        extent = read.tensor.shape[axis]
        pairs = (extent, shape[axis])
        fmt = resolve("csr", pairs, ops.BOOL)
        wide = index_dtypes(fmt, ops.BOOL, pairs, float(shape[axis]))
        chosen = self._add(BulkStep(
            Slot(f"s{self.counter}", fmt, wide), pairs, ops.BOOL, const(False),
            f"s{self.counter} = places of {idx.slot.name}", float(shape[axis]),
            5.0 * shape[axis] + 4.0 * extent, 40.0 * shape[axis] + 8.0 * extent,
            20.0 * shape[axis] + extent, op="one_hot", args=(idx.slot.name,), params=(extent,),
        ), float(shape[axis]))
        axes = tuple(Axis(f"g{k}", n) for k, n in enumerate(shape))
        inner = Axis("h", extent)
        at = tuple(Index("h") if k == axis else Index(f"g{k}") for k in range(len(shape)))
        body = Call(ops.where, (Read(chosen.source, (Index("h"), Index(f"g{axis}"))),
                                Read(known.source, at), const(0, read.dtype)))
        made = self._nest(f"g{self.counter}", axes, ops.add, (inner,), body,
                          known.source.fill, None)
        indices = (*read.indices[:axis], indexer.indices[0], *read.indices[axis + 1:])
        again = Read(made.source, indices)
        deeper = [k for k, i in enumerate(indices) if isinstance(i, Read)]
        return (self._gather(again, deeper[0]) if deeper else None) or again

    def known_of(self, source: Source) -> Known:
        return self.known[source.data]

    # -- nests -----------------------------------------------------------------------------------

    def _nest(self, name: str, axes: tuple[Axis, ...], op: ops.Operator | None,
              reduced: tuple[Axis, ...], body: Expr, fill: Const, want: Format | None,
              keep_fill: bool = False) -> Known:
        search = NestSearch(self, axes, op, reduced, body, fill, want)
        fill = search.fill
        choice = search.best()
        if keep_fill or isinstance(body, Read):  # entries are moved, not made
            choice.output = replace(choice.output, keep_fill=True)
        table: dict[Expr, Expr] = {}
        for o in choice.converts:
            table[o.read] = self._reorder(o, choice.order)
        if table:
            body = replace_exprs(body, table)
            if choice.output.pattern in table:
                return self._nest(name, axes, op, reduced, body, fill, want)
        gallop = frozenset(choice.simulation.gallop)
        nest = Nest(
            choice.order, tuple((a.name, a.extent) for a in (*axes, *reduced)),
            frozenset(a.name for a in reduced), op, body, choice.output, gallop,
            search.residual, search.counted, search.everywhere)
        return self._kernel(name, axes, nest, choice, search, fill, want)

    def _reorder(self, o: Operand, order: tuple[str, ...]) -> Expr:
        """The operand stored again with its levels in loop order."""
        read = o.read
        assert isinstance(read.tensor, Source)
        known = self.known_of(read.tensor)
        rank = len(read.indices)
        axis_order = tuple(sorted(range(rank), key=lambda k: order.index(
            read.indices[k].name)))  # type: ignore[attr-defined]
        names = {(0, 1): "csr", (1, 0): "csc"}
        rows = read.tensor.shape[axis_order[0]] if rank else 1
        if axis_order in names and rows <= 4 * max(known.count, 1.0):
            fmt = resolve(names[axis_order], read.tensor.shape, read.dtype)
        else:
            fmt = resolve(f"csf({','.join(map(str, axis_order))})", read.tensor.shape, read.dtype)
        made = self._convert(known, fmt)
        return Read(made.source, read.indices)

    def _kernel(self, name: str, axes: tuple[Axis, ...], nest: Nest, choice: Choice,
                search: NestSearch, fill: Const, want: Format | None) -> Known:
        shape = tuple(a.extent for a in axes)
        out = nest.output
        dtype = out.dtype
        direct = search.direct_format(choice)
        final = want if want is not None else direct
        count = min(search.cells(choice), math.prod(float(n) for n in shape))
        slot = self._slot(name, final, dtype, shape, count)
        size = self._bytes(final, shape, dtype, count)
        bound = self._bytes(direct, shape, dtype, search.bound(choice)) + search.working(choice)
        operands = tuple(dict.fromkeys(
            r.tensor.data.name for r in postorder(nest.body, *out.coords)  # type: ignore[attr-defined]
            if isinstance(r, Read)))
        names = {r.tensor: r.tensor.data.name for r in postorder(nest.body)  # type: ignore[attr-defined]
                 if isinstance(r, Read)}
        whole: Expr = nest.body if nest.op is None else Reduce(
            nest.op, tuple(Axis(n, nest.extent[n]) for n in sorted(nest.reduced)), nest.body)
        text = f"{name}[{', '.join(a.name for a in axes)}] = {show(whole, names)}"
        step = KernelStep(
            slot, shape, dtype, fill, text, count, size, max(bound, size), choice.cost, nest=nest,
            operands=operands, order=choice.axes_order,
            direct=direct, finish=None if final == direct else final)
        return self._add(step, count)


def index_dtype(extent: int) -> DType:
    return np.dtype(np.int32) if extent < 2**31 else np.dtype(np.int64)


def index_dtypes(fmt: Format, dtype: DType, shape: tuple[int, ...], count: float
                 ) -> tuple[tuple[str, str], ...]:
    """Dtypes of the physical arrays that kernels and packers make for a format."""
    if fmt.is_dense and all(isinstance(level, Dense) for level in fmt.levels):
        return (("val", dtype.str),)
    if not isinstance(fmt, Stack):
        return ()
    wide = np.dtype(np.int32) if count < INDEX_LIMIT else np.dtype(np.int64)
    found: list[tuple[str, str]] = []
    for axis, level in zip(fmt.order, fmt.levels):
        if isinstance(level, Compressed):
            found.append((f"pos{level.depth}", wide.str))
            found.append((f"idx{level.depth}", index_dtype(shape[axis]).str))
        elif isinstance(level, Listed):
            found.append((f"idx{level.depth}", index_dtype(shape[axis]).str))
    return (*found, ("val", dtype.str))


class NestSearch:
    """The cheapest loop order, output and conversions for one aggregate."""

    def __init__(self, chooser: Chooser, axes: tuple[Axis, ...], op: ops.Operator | None,
                 reduced: tuple[Axis, ...], body: Expr, fill: Const, want: Format | None) -> None:
        self.chooser, self.axes, self.op, self.body = chooser, axes, op, body
        self.fill, self.want = fill, want
        self.names = [a.name for a in axes]
        self.reduced = frozenset(a.name for a in reduced)
        self.extents = {a.name: a.extent for a in (*axes, *reduced)}
        self.inner_extents = dict(self.extents)
        for e in postorder(body):
            if isinstance(e, Reduce):
                self.inner_extents.update({a.name: a.extent for a in e.axes})
        self.dtype = body.dtype
        strict = chooser.strict
        cover = Analysis(strict).cover(body)
        self.support = cover.support
        if cover.support.kind != "true" and cover.background is not None:
            # what the kernel leaves out equals the background, so that is the fill
            background: Const | None = cover.background
            if op is not None:
                count = math.prod(a.extent for a in reduced)
                background = repeat_constant(op, cover.background, count)
            if background is not None:
                self.fill = background
        self._count_missing(op, strict)
        reads = [e for e in postorder(body) if isinstance(e, Read)]
        self.operands = [
            operand(r, chooser.known_of(r.tensor).levels, chooser.known_of(r.tensor).count)  # type: ignore[arg-type]
            for r in reads
        ]
        self.estimator = Estimator(chooser.program.stats)

    def _count_missing(self, op: ops.Operator | None, strict: bool) -> None:
        """Does the reduction meet points that are not stored and do not equal its identity?"""
        self.counted, self.everywhere, self.residual = False, False, None
        self.whole_cells = False
        self.reduced_support = self.support
        if op is None or not self.reduced:
            return
        reduced = self.reduced
        analysis = Analysis(strict, lambda r: r.free.isdisjoint(reduced))
        cover = analysis.cover(self.body)
        assert op.identity is not None
        identity = const(op.identity(self.dtype), self.dtype)
        plain = Analysis(strict).cover(self.body)
        if plain.background is identity:
            return
        if cover.support.kind == "true":
            # a visited cell sees all its points, others keep the fill: which is not the identity,
            # so no cell may be delivered in parts
            if plain.support.kind != "true":
                self.whole_cells = bool(self.names)
                if not self.names:
                    self._dense_support()
            return
        if op.repeat is None and not op.idempotent:
            self._dense_support()
            return
        residual = absent(self.body, lambda r: not r.free.isdisjoint(reduced))
        if not residual.free.isdisjoint(reduced):
            self._dense_support()
            return
        self.counted = True
        self.residual = residual
        if not any(isinstance(e, Read) for e in postorder(residual)):
            self.residual = Analysis(strict).cover(residual).background or residual
        self.reduced_support = cover.support

    def _dense_support(self) -> None:
        """Every point counts: loops visit all of them."""
        self.everywhere = True
        self.support = self.reduced_support = Formula("true")

    def supports(self) -> dict[str, Formula]:
        return {n: self.reduced_support if n in self.reduced else self.support
                for n in self.extents}

    def best(self) -> Choice:
        supports = self.supports()
        best: Choice | None = None
        for order in orders(list(self.extents), self.operands):
            for converts in self._conversions(order):
                choice = self._evaluate(order, converts, supports)
                if choice is not None and (best is None or choice.cost < best.cost):
                    best = choice
        assert best is not None
        return best

    def _conversions(self, order: tuple[str, ...]) -> list[list[Operand]]:
        """No conversion, or all sparse operands whose levels do not follow the loops."""
        if isinstance(self.body, Read):
            return [[]]  # that is the conversion
        wrong = [o for o in self.operands if o.sparse and is_plain(o.read)
                 and all(e.name in order for e in o.axes)  # type: ignore[attr-defined]
                 and not _follows(o, order)]
        return [[], wrong] if wrong else [[]]

    def _evaluate(self, order: tuple[str, ...], converts: list[Operand],
                  supports: dict[str, Formula]) -> Choice | None:
        ops_ = [converted(o, order, self.extents) if o in converts else o for o in self.operands]
        last = max((k for k, n in enumerate(order) if n not in self.reduced), default=-1)
        sim = simulate(order, ops_, supports, self.extents, last,
                       self.names[-1] if self.names else None)
        cost = sim.cost + sum(CONVERT * o.count + 2000.0 for o in converts)
        found: Choice | None = None
        for output, axes_order, extra in self._outputs(order, last, sim):
            total = cost + extra
            if found is None or total < found.cost:
                found = Choice(order, sim, output, total, converts, axes_order)
        return found

    # -- outputs ---------------------------------------------------------------------------------

    def _output(self, assembly: Assembly, axes: tuple[str, ...], dense: int) -> Output:
        last = self.extents[axes[-1]] if axes else 1
        levels = 1
        while 64**levels * 64 < last:  # the top level is scanned: up to 64 words
            levels += 1
        return Output(
            assembly, axes, tuple(Index(n) for n in axes), dense, self.dtype, self.fill,
            tuple(index_dtype(self.extents[n]) for n in axes), bitmap_levels=levels)

    def _outputs(self, order: tuple[str, ...], last: int, sim: Simulation
                 ) -> list[tuple[Output, tuple[int, ...], float]]:
        """Ways to assemble the result under this order, with their cost."""
        found: list[tuple[Output, tuple[int, ...], float]] = []
        loops = [n for n in order[: last + 1]]
        out_loops = tuple(n for n in loops if n not in self.reduced)
        head = [k for k, n in enumerate(loops) if n in self.reduced]
        if head and (self.whole_cells or (
                self.counted and not isinstance(self.residual, Const))):
            return []  # what was not visited differs per cell: it must be known at the cell
        size = math.prod(float(self.extents[n]) for n in self.names)
        cells = min(self.cell_count(sim), size)
        rank = len(self.names)
        if self._may_be_dense(size, cells, head):
            axes_order = self._dense_order()
            axes = tuple(self.names[k] for k in axes_order)
            scattered = 0.0 if not head or sim.iterations == 0 else min(sim.iterations, 1e18) * 0.3
            found.append((self._output(Assembly.DENSE, axes, rank), axes_order,
                          size * 0.3 + scattered))
        if rank == 0:
            return found
        counted_ok = not self.counted or isinstance(self.residual, Const)
        if self.support.kind == "true" and found and self.want is None:
            return found
        order_now = tuple(self.names.index(n) for n in out_loops)
        dense = self._dense_levels(out_loops, cells)
        if self.want is not None and self.want.is_dense:
            return found or [self._as_list(sim, cells, head)]
        in_order = not head or (loops.index(out_loops[-1]) > head[0] and all(
            loops.index(n) < head[0] for n in out_loops[:-1]))
        shared = self._shared(order_now, head)
        if shared is not None:
            found.append((replace(self._output(Assembly.SHARED, out_loops, dense), pattern=shared),
                          order_now, cells * 0.5))
        if self._order_wanted(order_now) and in_order and counted_ok:
            room = self.extents[out_loops[-1]]
            workspace = bool(head)
            if self._dense_tail(order, out_loops, dense) and not self.counted:
                tail = replace(self._output(Assembly.LEVELS, out_loops, dense), dense_tail=True)
                found.append((tail, order_now, cells * 0.5))
            elif not workspace or room <= max(2**22, 16 * cells):
                extra = cells * (WORKSPACE if workspace else APPEND)
                if workspace:
                    extra += sim.iterations * 2.0 + room * 0.5
                found.append((self._output(Assembly.LEVELS, out_loops, dense), order_now, extra))
        if not self.counted or not head:
            flipped = tuple(reversed(out_loops))
            if rank == 2 and not head and self.op is None and self._order_wanted(
                    tuple(self.names.index(n) for n in flipped)) \
                    and self.extents[flipped[0]] <= 8 * cells + 2**16:
                narrow = np.dtype(np.int32) if self._points_bound(self.support) < INDEX_LIMIT else INT64
                found.append((replace(self._output(Assembly.BUCKET, flipped, 1),
                                      place_dtype=narrow), tuple(self.names.index(n) for n in flipped), cells * 6.0))
            found.append(self._as_list(sim, cells, head))
        return found

    def _as_list(self, sim: Simulation, cells: float, head: list[int]
                 ) -> tuple[Output, tuple[int, ...], float]:
        entries = sim.iterations if head else cells
        axes_order = self._list_order()
        axes = tuple(self.names[k] for k in axes_order)
        return self._output(Assembly.LIST, axes, 0), axes_order, entries * LIST_SORT + 5000.0

    def _shared(self, order: tuple[int, ...], head: list[int]) -> Read | None:
        """The read whose stored entries are exactly those of the result, if there is one."""
        f = self.support
        if f.kind != "has" or head or self.counted:
            return None
        assert f.read is not None
        fmt = f.read.tensor.data.format  # type: ignore[attr-defined]
        names = [getattr(i, "name", None) for i in f.read.indices]
        whole = names == self.names and f.read.tensor.shape == tuple(
            self.extents[n] for n in self.names)
        if not whole or not isinstance(fmt, Stack) or order != fmt.order:
            return None
        if fmt.levels[-1].full or self.want not in (None, fmt):
            return None
        return f.read

    def _may_be_dense(self, size: float, cells: float, head: list[int]) -> bool:
        itemsize = self.dtype.itemsize
        if self.want is not None:
            fits = size * itemsize <= self.chooser.program.config.memory
            return fits and (self.want.is_dense or cells > 0.1 * size)
        if self.support.kind == "true" or not self.names:
            return True
        if not self.reduced:
            return False  # entry by entry a sparse operand gives a sparse result
        return cells > (0.25 if len(self.names) < 2 else 0.5) * size

    def _dense_order(self) -> tuple[int, ...]:
        if self.want is not None and self.want.is_dense and all(
                isinstance(level, Dense) for level in self.want.levels):
            return self.want.order
        return tuple(range(len(self.names)))

    def _list_order(self) -> tuple[int, ...]:
        return self.want.order if self.want is not None else tuple(range(len(self.names)))

    def _order_wanted(self, order: tuple[int, ...]) -> bool:
        if self.want is not None and isinstance(self.want, Stack):
            return order == self.want.order
        return len(order) <= 2 or order == tuple(range(len(order)))

    def _dense_tail(self, order: tuple[str, ...], out_loops: tuple[str, ...], dense: int) -> bool:
        """No sparse operand has the last axis: below each sparse position it is full."""
        last = out_loops[-1]
        if self.want is not None or len(out_loops) - dense < 2 or order[-1] != last:
            return False
        sparse = [r for r in reads_of(self.support) if last in r.free]
        return not sparse and self.support.kind not in ("true", "false")

    def _dense_levels(self, loops: tuple[str, ...], cells: float) -> int:
        """How many leading levels are dense: as wanted, or one when most rows have entries."""
        if self.want is not None and isinstance(self.want, Stack):
            return sum(1 for level in self.want.levels if isinstance(level, Dense))
        if len(loops) != 2:
            return 0
        return 1 if self.extents[loops[0]] <= 4 * cells + 1024 else 0

    def cell_count(self, sim: Simulation) -> float:
        """Entries of the result: delivered cells, with repeated ones counted once."""
        size = math.prod(float(self.extents[n]) for n in self.names)
        if not self.reduced:
            return min(sim.cells, size)
        density = self._density(self.support)
        points = math.prod(float(self.extents[n]) for n in self.reduced)
        return min(size * filled(density, points), size, max(sim.cells, 1.0))

    def _density(self, f: Formula) -> float:
        if f.kind == "has":
            assert f.read is not None
            known = self.chooser.known_of(f.read.tensor)  # type: ignore[arg-type]
            size = math.prod(float(n) for n in known.source.shape)
            return min(known.count / size, 1.0) if size else 0.0
        if f.kind == "and":
            return math.prod(self._density(p) for p in f.parts)
        if f.kind == "or":
            return 1.0 - math.prod(1.0 - self._density(p) for p in f.parts)
        return 1.0 if f.kind == "true" else 0.0

    def cells(self, choice: Choice) -> float:
        if choice.output.assembly is Assembly.DENSE:
            return math.prod(float(self.extents[n]) for n in self.names)
        return self.cell_count(choice.simulation)

    def bound(self, choice: Choice) -> float:
        """An upper bound on stored entries of the result."""
        size = math.prod(float(self.extents[n]) for n in self.names)
        if choice.output.assembly is Assembly.DENSE:
            return size
        return min(size, self._points_bound(self.support))

    def _points_bound(self, f: Formula) -> float:
        """At most so many output cells have a point of the support."""
        everything = math.prod(float(self.extents[n]) for n in self.names)
        if f.kind == "has":
            assert f.read is not None
            read = f.read
            known = self.chooser.known_of(read.tensor)  # type: ignore[arg-type]
            others = math.prod(float(self.extents[v]) for v in self.names if v not in read.free)
            return min(known.count * others, everything)
        if f.kind == "and":
            reads = [p.read for p in f.parts if p.kind == "has" and p.read is not None]
            joins = [self._join_bound(r, reads) for r in reads]
            return min([everything, *joins, *(self._points_bound(p) for p in f.parts)])
        if f.kind == "or":
            return min(sum(self._points_bound(p) for p in f.parts), everything)
        return everything if f.kind == "true" else 0.0

    def _join_bound(self, first: Read, reads: list[Read]) -> float:
        """Entries of ``first`` times the longest segments of the others below what is bound."""
        points = self.chooser.known_of(first.tensor).count  # type: ignore[arg-type]
        bound = set(first.free)
        left = [r for r in reads if r is not first]
        while True:
            best: tuple[float, Read] | None = None
            for r in left:
                known = self.chooser.known_of(r.tensor)  # type: ignore[arg-type]
                if known.degrees is None:
                    continue
                order = known.slot.format.order
                inside = 0
                while inside < len(order) and r.indices[order[inside]].free <= bound:
                    inside += 1
                if inside == 0:
                    continue
                most = math.prod(known.degrees[inside:])
                if best is None or most < best[0]:
                    best = most, r
            if best is None:
                break
            points *= best[0]
            bound |= best[1].free
            left.remove(best[1])
        return points * math.prod(float(self.extents[n]) for n in self.names if n not in bound)

    def working(self, choice: Choice) -> float:
        """Bytes of workspaces."""
        if choice.output.assembly is Assembly.LEVELS and self.reduced and self.names:
            threads = self.chooser.program.config.workers
            return threads * self.extents[choice.output.axes[-1]] * (self.dtype.itemsize + 1.0)
        return 0.0

    def direct_format(self, choice: Choice) -> Format:
        """The format that the kernel's arrays are."""
        shape = tuple(self.extents[n] for n in self.names)
        out, order = choice.output, choice.axes_order
        rank = len(order)
        if out.assembly is Assembly.DENSE:
            natural = order == tuple(range(rank))
            if natural:
                return resolve("dense", shape, self.dtype)
            if order == tuple(reversed(range(rank))):
                return resolve("dense_f", shape, self.dtype)
            return Stack("dense*", order, tuple(Dense(k) for k in order))
        if out.assembly is Assembly.SHARED:
            assert out.pattern is not None
            fmt = out.pattern.tensor.data.format  # type: ignore[attr-defined]
            assert isinstance(fmt, Format)
            return fmt
        if out.assembly is Assembly.LIST:
            return self.want if self.want is not None else self._list_format(shape)
        if out.dense_tail:
            levels = tuple(Dense(a) for a in order[: out.dense]) + tuple(
                Compressed(k) for k in range(out.dense, rank - 1)) + (Dense(order[-1]),)
            return Stack("csf+dense", order, levels)
        if rank == 1 and out.dense == 0:
            return resolve("coo", shape, self.dtype)
        if rank == 2 and out.dense <= 1:
            name = ("csr" if order == (0, 1) else "csc") if out.dense else (
                "dcsr" if order == (0, 1) else "dcsc")
            return resolve(name, shape, self.dtype)
        if out.dense == 0:
            return resolve(f"csf({','.join(map(str, order))})", shape, self.dtype)
        name = f"{','.join(map(str, order[:out.dense]))};{','.join(map(str, order[out.dense:]))}"
        if rank - out.dense == 1:
            return resolve(name, shape, self.dtype)
        levels = tuple(Dense(a) for a in order[: out.dense]) + tuple(
            Compressed(k) for k in range(out.dense, rank))
        return Stack(f"levels({name})", order, levels)

    def _list_format(self, shape: tuple[int, ...]) -> Format:
        return resolve("coo", shape, self.dtype)


def _follows(o: Operand, order: tuple[str, ...]) -> bool:
    """The levels are in loop order, so the operand can lead."""
    places = [order.index(e.name) for e in o.axes]  # type: ignore[attr-defined]
    sparse_from = next((k for k, f in enumerate(o.full) if not f), len(places))
    return all(a < b for a, b in zip(places[sparse_from:], places[sparse_from + 1:])) and all(
        p < q for p in places[:sparse_from] for q in places[sparse_from:])


__all__ = ["Call", "Chooser", "INT64", "Known", "Simulation", "conjunction", "disjunction",
           "level_sizes", "reads_of", "replace", "substitute"]
