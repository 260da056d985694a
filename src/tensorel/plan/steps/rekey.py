"""Reads of sparse operands that loops cannot follow: stored again under new keys, or joined."""

from __future__ import annotations

from dataclasses import replace

from tensorel.algebra import bulk, ops
from tensorel.ir.affine import split_affine
from tensorel.ir.build import both, compare, floordiv, minus, modulo
from tensorel.ir.nodes import (
    Axis,
    Call,
    Expr,
    Index,
    Read,
    Reduce,
    Source,
    const,
    postorder,
    reads_in,
)
from tensorel.kernels.lowering.nest import Assembly, Nest, Output, Slot
from tensorel.plan.definitions import replace_exprs
from tensorel.plan.loops.aggregate import Assignment
from tensorel.plan.physical import BulkStep, KernelStep
from tensorel.plan.slot_facts import Known, has_few_empty, index_dtype, index_dtypes
from tensorel.plan.steps.build import StepBuilder
from tensorel.storage.registry import resolve


class IndexSolver(StepBuilder):
    """Solves the key equations of reads."""

    def solve_indices(self, body: Expr, extents: dict[str, int]) -> Expr:
        """Reads of sparse operands that loops cannot follow are stored again, rekeyed."""
        table: dict[Expr, Expr] = {}
        extents = dict(extents)
        wrong = [e for e in reads_in(body) if not e.tensor.data.format.is_dense  # type: ignore[attr-defined]
                 and not all(self._can_follow(i) for i in e.indices)]
        for r in postorder(body) if wrong else ():
            if isinstance(r, Reduce):
                extents.update({a.name: a.extent for a in r.axes})
        for e in wrong:
            rekeyed = self._rekey(e, extents)
            if rekeyed is not None:
                table[e] = rekeyed
        return replace_exprs(body, table) if table else body

    def _can_follow(self, e: Expr) -> bool:
        if not e.free:
            return True
        if isinstance(e, Index) or e.reads:
            return not e.reads
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
        fmt = resolve(_by_rows(shape, count), shape, read.dtype)
        name = f"r{self.counter}"
        order = tuple(u for _, u in sorted(
            (known.slot.format.order.index(k), f"u{k}")
            for k, e in enumerate(at) if isinstance(e, Index)))
        out = Output(
            Assembly.LIST, tuple(a.name for a in own), tuple(coords), 0, read.dtype,
            read.tensor.fill, tuple(index_dtype(n) for n in shape), guard, keep_fill=True)
        extents = tuple((a.name, a.extent) for a in (*loops, *own))
        nest = Nest(order, extents, frozenset(), None, Read(read.tensor, tuple(at)), out)
        slot = replace(self.slot(name, fmt, read.dtype, shape, count), most=known.slot.most)
        size = self.bytes_of(fmt, shape, read.dtype, count)
        step = KernelStep(
            slot, shape, read.dtype, read.tensor.fill, count, size, 3 * size,
            count * self.costs.list_sort, nest=nest, operands=(known.slot.name,),
            finish=fmt, threads=self.threads(nest, count * self.costs.append,
                                             (known.slot.name,), size, count))
        made = self.add_step(step, count)
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
            return self._gather_join(read, axis, known, idx, shape)
        fmt_out = resolve("coo", shape, read.dtype)
        name = f"g{self.counter}"
        share = indexer.tensor.shape[0] / max(read.tensor.shape[axis], 1)
        count = known.count * share
        slot = self.slot(name, fmt_out, read.dtype, shape, max(count, known.count))
        size = self.bytes_of(fmt_out, shape, read.dtype, count)
        step = BulkStep(slot, shape, read.dtype, read.tensor.fill, count, size, 3 * size,
                        (count + known.count) * self.costs.convert, op=bulk.take,
                        args=(known.slot.name, idx.slot.name), params=(axis,))
        return self._gathered(read, axis, self.add_step(step, count))

    def _gather_join(self, read: Read, axis: int, known: Known, idx: Known,
                     shape: tuple[int, ...]) -> Expr:
        """T[.., idx[k], ..] = sum_j where(S[j, k], T[.., j, ..], 0) with S[j, k] = (idx[k] == j):
        each stored entry of T meets the places that ask for its coordinate."""
        extent = read.tensor.shape[axis]
        pairs = (extent, shape[axis])
        asked = float(shape[axis])
        fmt = resolve(_by_rows(pairs, asked), pairs, ops.BOOL)
        rows = float(extent) if fmt.levels[0].full else asked
        wide = index_dtypes(fmt, ops.BOOL, pairs, asked)
        chosen = self.add_step(BulkStep(
            Slot(f"s{self.counter}", fmt, wide), pairs, ops.BOOL, const(False),
            asked, 5.0 * asked + 12.0 * rows, 40.0 * asked + 16.0 * rows,
            20.0 * asked + rows, op=bulk.one_hot, args=(idx.slot.name,), params=(extent,),
        ), asked)
        axes = tuple(Axis(f"g{k}", n) for k, n in enumerate(shape))
        inner = Axis("h", extent)
        at = tuple(Index("h") if k == axis else Index(f"g{k}") for k in range(len(shape)))
        body = Call(ops.where, (Read(chosen.source, (Index("h"), Index(f"g{axis}"))),
                                Read(known.source, at), const(0, read.dtype)))
        made = self.nest(Assignment(
            f"g{self.counter}", axes, ops.add, (inner,), body, known.source.fill))
        return self._gathered(read, axis, made)

    def _gathered(self, read: Read, axis: int, made: Known) -> Expr:
        """The read of what one axis was gathered into, with the next axis gathered."""
        index = read.indices[axis].indices[0]  # type: ignore[attr-defined]
        indices = (*read.indices[:axis], index, *read.indices[axis + 1:])
        again = Read(made.source, indices)
        deeper = [k for k, i in enumerate(indices) if isinstance(i, Read)]
        return (self._gather(again, deeper[0]) if deeper else None) or again


def _by_rows(shape: tuple[int, ...], count: float) -> str:
    """A matrix by rows, without those that are empty where these are most; else a list."""
    if len(shape) != 2:
        return "coo"
    return "csr" if has_few_empty(shape[0], count) else "dcsr"
