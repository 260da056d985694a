"""Ways to assemble a result under a loop order, with their costs and formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from tensorel.base.records import cached_property, dataclass
from tensorel.ir.given import about, plain
from tensorel.ir.nodes import INT64, Const, Index, Read
from tensorel.kernels.lowering.nest import Assembly, Output
from tensorel.kernels.lowering.support import reads_of
from tensorel.plan.loops.aggregate import Aggregate
from tensorel.plan.loops.hoisted_joins import Hoisted, Hoisting
from tensorel.plan.loops.operands import Turn
from tensorel.plan.loops.simulate import Simulation
from tensorel.plan.slot_facts import INDEX_LIMIT, has_few_empty, index_dtype
from tensorel.storage.format import Format
from tensorel.storage.formats.coo import mixed
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.registry import resolve
from tensorel.storage.stack import Stack

MIN_MEMORY_SHARE = 0.1  # a result that may take so much of the memory limit is worth better bounds


@dataclass
class Choice:
    """The best nest found for a definition."""

    order: tuple[str, ...]
    simulation: Simulation
    output: Output
    cost: float
    converts: list[Turn]
    axes_order: tuple[int, ...]
    first: float = 0.0  # the part of the cost that conversions take, in steps of their own
    workspaces: Hoisted | None = None
    early: Hoisting | None = None  # workspaces that are not written yet


class Outputs(Aggregate):
    """An aggregate with the assemblies that fit it. ``fills_up``: by statistics most cells of the
    result have entries."""

    fills_up = False

    def _output(self, assembly: Assembly, axes: tuple[str, ...], dense: int) -> Output:
        """Made once: most orders of loops have the same few."""
        key = assembly, axes, dense
        if key not in self._made:
            self._made[key] = self._new_output(*key)
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[Assembly, tuple[str, ...], int], Output]:
        return {}

    def _new_output(self, assembly: Assembly, axes: tuple[str, ...], dense: int) -> Output:
        last = self.extents[axes[-1]] if axes else 1
        levels = 0
        while 64**levels * 64 < last:  # the bits above the lowest level fit in one word
            levels += 1
        small = self.most < INDEX_LIMIT
        return Output(
            assembly, axes, tuple(Index(n) for n in axes), dense, self.dtype, self.fill,
            tuple(index_dtype(self.extents[n]) for n in axes), bitmap_levels=levels,
            place_dtype=np.dtype(np.int32) if small else INT64)

    def _outputs(self, order: tuple[str, ...], last: int, sim: Simulation
                 ) -> list[tuple[Output, tuple[int, ...], float]]:
        """Ways to assemble the result under this order, with their cost."""
        costs = self.costs
        found: list[tuple[Output, tuple[int, ...], float]] = []
        loops = list(order[: last + 1])
        out_loops = tuple(n for n in loops if n not in self.reduced)
        head = [k for k, n in enumerate(loops) if n in self.reduced]
        if head and (self.whole_cells or (
                self.counted and not isinstance(self.residual, Const))):
            return []  # what was not visited differs per cell: it must be known at the cell
        size = about([self.extents[n] for n in self.names])
        cells = min(self.cell_count(sim), size)
        rank = len(self.names)
        if self._may_be_dense(size, cells):
            axes_order = self._dense_order()
            axes = tuple(self.names[k] for k in axes_order)
            scattered = min(sim.writes, 1e18) * (
                costs.vector_step if sim.vectorized and axes[-1] == order[-1]
                else costs.dense_scatter) if head else 0.0
            if head and self.support.kind == "true":
                scattered += self._fetched_again(loops[head[0] :], sim.writes)
            found.append((self._output(Assembly.DENSE, axes, rank), axes_order,
                          size * costs.dense_write + scattered))
        if rank == 0:
            return found
        counted_ok = not self.counted or isinstance(self.residual, Const)
        if found and self.want is None and (self.support.kind == "true" or self.fills_up):
            return found  # and who reads it was planned for that
        order_now = tuple(self.names.index(n) for n in out_loops)
        dense = self._dense_levels(out_loops, cells)
        if self.want is not None and self.want.is_dense:
            return found or [self._as_list(sim, cells, head)]
        in_order = not head or (loops.index(out_loops[-1]) > head[0] and all(
            loops.index(n) < head[0] for n in out_loops[:-1]))
        shared = self._shared(order_now, head)
        if shared is not None:
            found.append((replace(self._output(Assembly.SHARED, out_loops, dense), pattern=shared),
                          order_now, cells * costs.reuse))
        if self._order_wanted(order_now) and in_order and counted_ok:
            room = plain(self.extents[out_loops[-1]])
            workspace = bool(head)
            if self._dense_tail(order, out_loops, dense) and not self.counted:
                tail = replace(self._output(Assembly.LEVELS, out_loops, dense), dense_tail=True)
                found.append((tail, order_now, cells * costs.reuse))
            elif not workspace or room <= max(2**22, 16 * cells):
                extra = cells * (costs.workspace if workspace else costs.append)
                if workspace:
                    extra += sim.writes * costs.workspace_add + room * costs.workspace_room
                found.append((self._output(Assembly.LEVELS, out_loops, dense), order_now, extra))
        if not self.counted or not head:
            flipped = tuple(reversed(out_loops))
            if rank == 2 and not head and self.op is None and self._order_wanted(
                    tuple(self.names.index(n) for n in flipped)) \
                    and plain(self.extents[flipped[0]]) <= 8 * cells + 2**16:
                bucket = self._output(Assembly.BUCKET, flipped, 1)
                back = tuple(self.names.index(n) for n in flipped)
                found.append((bucket, back, cells * costs.bucket))
            found.append(self._as_list(sim, cells, head))
        return found

    def _fetched_again(self, loops: Sequence[str], writes: float) -> float:
        """Cells of a dense result that have left the caches before more is added to them: these
        loops, the first of which is reduced, come to so many cells between two visits."""
        between = about([self.extents[n] for n in loops if n not in self.reduced])
        bytes_ = float(self.dtype.itemsize)
        if between * bytes_ <= self.costs.near_bytes:
            return 0.0
        return 2.0 * bytes_ * self.costs.memory * min(writes, 1e18)

    def _as_list(self, sim: Simulation, cells: float, head: list[int]
                 ) -> tuple[Output, tuple[int, ...], float]:
        entries = sim.writes if head else cells
        axes_order = self._list_order()
        axes = tuple(self.names[k] for k in axes_order)
        cost = entries * self.costs.list_sort + self.costs.list_start
        if head and self.sequential:
            cost += 1e30  # equal coordinates are not combined one after another
        return self._output(Assembly.LIST, axes, 0), axes_order, cost

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

    def _may_be_dense(self, size: float, cells: float) -> bool:
        itemsize = self.dtype.itemsize
        if self.want is not None:
            fits = size * itemsize <= self.chooser.program.config.memory
            return fits and (self.want.is_dense or cells > self.costs.dense_wanted * size)
        if self.support.kind == "true" or not self.names:
            return True
        if self.fills_up:
            return True
        if not self.reduced:
            return False  # entry by entry a sparse operand gives a sparse result
        costs = self.costs
        return cells > (costs.dense_vector if len(self.names) < 2 else costs.dense_matrix) * size

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
        """Below each sparse position the last axis is full."""
        return self.want is None and len(out_loops) - dense > 1 and order[-1] == out_loops[-1] \
            and self._full_below(out_loops[-1])

    def _full_below(self, last: str) -> bool:
        """No sparse operand has the axis, or it has all of it below each of its positions: where
        one of its cells has an entry, all have."""
        sparse = [r for r in reads_of(self.support)
                  if last in r.free and not _whole_along(r, last, self.extents[last])]
        return not sparse and self.support.kind not in ("true", "false")

    def _dense_levels(self, loops: tuple[str, ...], cells: float) -> int:
        """How many leading levels are dense: as wanted, or one when most rows have entries."""
        if self.want is not None and isinstance(self.want, Stack):
            return len(list(takewhile(lambda x: isinstance(x, Dense), self.want.levels)))
        if len(loops) != 2:
            return 0
        outer, inner = [plain(self.extents[n]) for n in loops]
        rows = cells / max(inner, 1) if self._full_below(loops[1]) else cells
        return 1 if has_few_empty(outer, min(rows, self.rows_below(loops[0]))) else 0

    def cells(self, choice: Choice) -> float:
        if choice.output.assembly is Assembly.DENSE:
            return about([self.extents[n] for n in self.names])
        return self.cell_count(choice.simulation)

    def bound(self, choice: Choice) -> float:
        """An upper bound on stored entries of the result."""
        size = about([self.extents[n] for n in self.names])
        if choice.output.assembly is Assembly.DENSE:
            return size
        most = min(size, self.most)
        if most * self.dtype.itemsize > MIN_MEMORY_SHARE * self.chooser.program.config.memory:
            most = min(most, self.most_by_statistics)
        return most

    def working(self, choice: Choice) -> float:
        """Bytes of workspaces and of the threads' own copies of a result."""
        threads = self.chooser.program.config.workers
        inside = 0.0 if choice.workspaces is None else threads * choice.workspaces.bytes_()
        return inside + self._working(choice, threads)

    def _working(self, choice: Choice, threads: int) -> float:
        if choice.output.assembly is Assembly.DENSE and choice.order and \
                choice.order[0] in self.reduced:
            size = about([self.extents[n] for n in self.names])
            return (threads - 1) * size * self.dtype.itemsize
        if choice.output.assembly is not Assembly.LEVELS or not self.names:
            return 0.0
        row = plain(self.extents[choice.output.axes[-1]]) * (self.dtype.itemsize + 1.0)
        pieces = 0.1 * self.bound(choice) * (self.dtype.itemsize + 4.0) if threads > 1 else 0.0
        return pieces + (threads * row if self.reduced else 0.0)

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
            return mixed(order[: out.dense], order[out.dense : -1], order[-1:])
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


def _whole_along(read: Read, last: str, extent: int) -> bool:
    """The axis lies in full below what is stored of a read: all of the result's coordinates, not
    those alone that the read has."""
    fmt, inner = read.tensor.data.format, set[int]()  # type: ignore[attr-defined]
    for axis, level in zip(reversed(fmt.order), reversed(fmt.levels)):
        if not isinstance(level, Dense):
            break
        inner.add(axis)
    return all(k in inner and e == Index(last) and read.tensor.shape[k] == extent
               for k, e in enumerate(read.indices) if last in e.free)
