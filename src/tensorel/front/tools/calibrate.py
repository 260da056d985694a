"""``tr.calibrate()``: the planner's costs, measured with our own kernels on this machine.

Each experiment is a program whose plan is one kernel of a known kind. Its time, less what costs
found before explain, gives one cost. Times are CPU time of the process, the least of several runs,
so other work on the machine hardly counts; only the experiments on threads need a clock. All
experiments are made in rounds, and the median of a cost over the rounds is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from time import perf_counter, process_time

import numpy as np

from tensorel import config as settings
from tensorel.base.records import dataclass
from tensorel.costs import MAX_COST_RATIO, SHIPPED, Costs, accepted, save
from tensorel.engines.registry import DEFAULT
from tensorel.front.array.convert import asarray, from_coo, stored_of
from tensorel.front.array.tensor import Tensor
from tensorel.front.functions.einsum import einsum
from tensorel.front.functions.shaping import expand_dims
from tensorel.front.functions.ufuncs import maximum
from tensorel.storage.convert import to_format

EXPERIMENT_SECONDS = 0.05  # each experiment: three runs at least, then more for so long
ROUNDS, MAX_SECONDS = 3, 18.0  # no round is begun that would end after so many seconds


@dataclass(frozen=True)
class Calibration:
    """What was measured: ``costs`` for the planner, ``measured`` is what was found, with values
    that cannot be true, which are not in ``costs``; ``path``: where it is kept for later
    processes."""

    costs: Costs
    measured: dict[str, float]
    seconds: float
    path: str | None = None

    def __str__(self) -> str:
        lines = [f"{'cost':<16} {'shipped':>10} {'measured':>10}"]
        for f in fields(Costs):
            shipped, value = getattr(SHIPPED, f.name), self.measured.get(f.name)
            if value is None:
                continue
            kept = "" if getattr(self.costs, f.name) == value else "  refused: shipped one kept"
            lines.append(f"{f.name:<16} {shipped:>10.4g} {value:>10.4g}{kept}")
        where = "not saved" if self.path is None else f"saved: {self.path}"
        return "\n".join([*lines, f"measured in {self.seconds:.1f} s, {where}"])


_EAGER = replace(SHIPPED, thread=1.0, thread_collect=1.0, thread_gain=0.5, memory=0.0, fresh=0.0)


class Bench:
    """Times programs. ``kind``: how the last kernel assembles its result. A plan of another kind
    would measure something else, so it counts as not measured (nan)."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.random = np.random.default_rng(7)
        self.base = 0.0  # nanoseconds of a program that does nothing
        self.made: dict[tuple[object, ...], Tensor] = {}

    def time(self, *programs: Tensor, kind: str = "", format: str | None = None, threads: int = 1,
             clock: Callable[[], float] = process_time, marked: bool = False) -> float:
        """Nanoseconds of a run of programs together, without planning. All given threads are used,
        even if fewer would be quicker. ``marked``: the kernel must have a workspace inside."""
        formats = [format] * len(programs)
        config = settings.with_overrides(settings.current(), threads=threads,
                                         costs=SHIPPED if threads == 1 else _EAGER,
                                         optimize=True, strict=False, effort="full")
        prepared = DEFAULT.prepare([p.node for p in programs], config, formats)
        nest = getattr(prepared.plan.steps[-1], "nest", None)
        if kind and (nest is None or nest.output.assembly.value != kind):
            return math.nan
        if marked and (nest is None or not nest.lets):
            return math.nan
        return self.call(prepared.run, clock)

    def call(self, run: Callable[[], object], clock: Callable[[], float] = process_time
             ) -> float:
        """Nanoseconds of a function: its best run after the first, which compiles."""
        run()
        best, runs, begun = math.inf, 0, perf_counter()
        while runs < 3 or perf_counter() - begun < self.seconds:
            start = clock()
            run()
            best = min(best, clock() - start)
            runs += 1
        return best * 1e9

    def net(self, program: Tensor, kind: str = "", format: str | None = None,
            marked: bool = False) -> float:
        """The same less what any program takes."""
        return self.time(program, kind=kind, format=format, marked=marked) - self.base

    def matrix(self, rows: int, columns: int, each: int, format: str = "csr", other: bool = False
               ) -> Tensor:
        """About ``each`` entries in every row; ``other``: not the same ones."""
        key = (rows, columns, each, format, other)
        if key not in self.made:
            at = np.repeat(np.arange(rows), each) * columns + self.random.integers(
                0, columns, rows * each)
            cells = np.unique(at)
            self.made[key] = from_coo((cells // columns, cells % columns),
                                      self.random.random(cells.size), (rows, columns),
                                      format=format)
        return self.made[key]

    def cube(self, extent: int, count: int) -> Tensor:
        """A tensor of three axes with about so many entries."""
        key = ("cube", extent, count)
        if key not in self.made:
            cells = np.unique(self.random.integers(0, extent**3, count))
            at = (cells // extent**2, cells // extent % extent, cells % extent)
            self.made[key] = from_coo(at, self.random.random(cells.size), (extent,) * 3,
                                      format="csf(0,1,2)")
        return self.made[key]

    def vector(self, extent: int, count: int) -> Tensor:
        """With so many entries."""
        key = (extent, count)
        if key not in self.made:
            at = np.sort(self.random.choice(extent, count, replace=False))
            self.made[key] = from_coo((at,), self.random.random(count), (extent,))
        return self.made[key]

    def dense(self, *shape: int) -> Tensor:
        """Dense, random."""
        return asarray(self.random.random(shape))


def calibrate(*, save: bool = True) -> Calibration:
    """Measure what work costs on this machine, in under 20 seconds. Plans of this process and,
    with ``save``, of all later ones are chosen by it. The result prints as a table.

    >>> print(calibrate(save=False))  # doctest: +SKIP
    """
    start = perf_counter()
    bench = Bench(EXPERIMENT_SECONDS)
    rounds: list[dict[str, float]] = []
    for k in range(ROUNDS):
        if k and (perf_counter() - start) * (k + 1) / k > MAX_SECONDS:
            break  # the machine is busy
        rounds.append({})
        for experiment in (_calls, _loops, _results, _reads, _workspaces, _conversions,
                           _products, _threads):
            experiment(bench, rounds[-1])
    found = {}
    for name in rounds[0]:
        values = [r[name] for r in rounds if not math.isnan(r[name])]
        if values:  # a median below zero: too cheap to be measured
            found[name] = max(float(np.median(values)), getattr(SHIPPED, name) / MAX_COST_RATIO)
    costs = accepted(found)
    path = None
    if save:
        settings.set_default(costs=costs)
        path = _save(costs)
    return Calibration(costs, found, perf_counter() - start, path)


_save = save  # the keyword of ``calibrate`` has its name


def _calls(bench: Bench, found: dict[str, float]) -> None:
    """Programs of one kernel and of two that have nothing to do."""
    a, x = bench.matrix(4, 4, 2), bench.dense(4)
    bench.base = bench.time(a @ x)
    found["call"] = bench.time(a @ x, a.sum(axis=0)) - bench.base


def _loops(bench: Bench, found: dict[str, float]) -> None:
    x = bench.dense(2000)
    long, short = bench.matrix(20_000, 2000, 32), bench.matrix(200_000, 2000, 2)
    step = found["step"] = bench.net(long @ x, "dense") / long.nnz
    found["dense_step"] = SHIPPED.dense_step * step
    rows = (bench.net(short @ x, "dense") - short.nnz * step) / 200_000
    found["enter"] = rows - found["dense_step"] - SHIPPED.dense_write
    n = 160  # both matrices stay in the caches
    a, b = bench.dense(n, n), bench.dense(n, n)
    distances = abs(expand_dims(a, 1) - expand_dims(b, 0)).sum(axis=2)
    found["vector_step"] = bench.net(distances, "dense") / n**3


def _results(bench: Bench, found: dict[str, float]) -> None:
    """What an entry or a cell of a result costs beyond finding it; entries met by walking two
    lists, and by searching a long one."""
    step = found["step"]
    a = bench.matrix(20_000, 2000, 32)
    found["reuse"] = bench.net(a * 2.0, "shared") / a.nnz - step
    found["bucket"] = bench.net(a, "bucket", "csc") / a.nnz - step
    packed = bench.matrix(4000, 2000, 32, "dcsr")
    found["append"] = bench.net(packed, "levels", "csr") / packed.nnz
    b = bench.matrix(20_000, 2000, 32, other=True)
    union = maximum(a, b)
    written = union.nnz * max(found["append"] - step, 0.0)
    found["merge_step"] = (bench.net(union, "levels") - written) / (a.nnz + b.nnz)
    few, many = bench.vector(1_000_000, 5000), bench.vector(1_000_000, 200_000)
    halvings = 5000 * math.log2(200_002.0)
    found["search_step"] = bench.net((few * many).sum(), "dense") / halvings
    wide = bench.matrix(10_000, 100_000, 32)
    found["dense_scatter"] = bench.net(wide.sum(axis=0), "dense") / wide.nnz - step
    empty = bench.matrix(100, 1000, 1)  # pages that were used before, as for the appended entries
    found["dense_write"] = bench.net(empty, "dense", "dense") / empty.size + found["vector_step"]


def _reads(bench: Bench, found: dict[str, float]) -> None:
    """One more dense operand in the innermost loop and in the one around it; entries found by a
    table."""
    a, x, y = bench.matrix(20_000, 2000, 32), bench.dense(2000), bench.dense(2000)
    one, two = a @ x, einsum("ij,j,j->i", a, x, y)
    found["gather"] = (bench.net(two, "dense") - bench.net(one, "dense")) / a.nnz
    n = 300  # most pairs of the first two indices have entries, and the operand stays in caches
    cube, d = bench.cube(n, 6 * n * n), bench.dense(n, n)
    alone, beside = cube.sum(axis=(1, 2)), einsum("ijk,ij->i", cube, d)
    found["find"] = (bench.net(beside, "dense") - bench.net(alone, "dense")) / n**2
    b, table = bench.matrix(1000, 1000, 32), bench.matrix(1000, 1000, 32, "dok", other=True)
    found["lookup"] = bench.net((b * table).sum(), "dense") / b.nnz - found["step"]


def _workspaces(bench: Bench, found: dict[str, float]) -> None:
    """Two products with the same additions; one collects many more entries. Triangles mark a row
    and look others up in it."""
    rows, each = 4000, 16
    left = bench.matrix(rows, rows, each)
    right = bench.matrix(rows, rows, each, other=True)
    (at, columns), values = right.to_coo()
    narrow = from_coo((at, columns % 100), values, right.shape,
                      duplicates="sum", format="csr")
    many, few = left @ right, left @ narrow
    cells = many.nnz - few.nnz
    most, least = bench.net(many, "levels"), bench.net(few, "levels")
    found["workspace"] = (most - least) / cells
    additions = left.nnz * narrow.nnz / rows
    collected = few.nnz * max(found["workspace"], 0.0)
    found["workspace_add"] = (least - collected) / additions - found["step"]
    triangles = einsum("ij,ik,jk->", left, left, left)
    filled = left.nnz * (2.0 * found["step"] + max(found["workspace_add"], 0.0))
    paths = left.nnz * left.nnz / rows
    marked = bench.net(triangles, "dense", marked=True)
    found["workspace_find"] = (marked - filled) / paths - found["step"]


def _conversions(bench: Bench, found: dict[str, float]) -> None:
    """Stored again: the same order of levels, another order, from and to dense cells."""
    cube = bench.cube(1000, 200_000)
    found["list_sort"] = bench.net(cube, "list", "csf(2,1,0)") / cube.nnz - found["step"]
    stored = stored_of(bench.matrix(2000, 2000, 64, "dcsr"))
    dense = to_format(stored, "dense")
    found["convert"] = bench.call(lambda: to_format(stored, "csr")) / stored.count
    found["convert_sort"] = bench.call(lambda: to_format(stored, "csc")) / stored.count
    found["convert_cell"] = bench.call(lambda: to_format(dense, "dense_f")) / dense.count


def _products(bench: Bench, found: dict[str, float]) -> None:
    """Dense products on as many threads as BLAS takes. The rate by CPU time is a lower limit, which
    counts where other work took the cores."""
    n = 384
    a = bench.dense(n, n)
    found["blas_speed"] = n**3 / min(bench.time(a @ a, clock=perf_counter), bench.time(a @ a))


def _threads(bench: Bench, found: dict[str, float]) -> None:
    """Two threads against one: what the second costs if it has little to do, for kernels whose
    ranges are calls alone and for those whose pieces are collected; and what two threads cannot
    share, reading much memory and writing to fresh pages."""
    if settings.current().workers < 2:
        return
    a, b = bench.matrix(4000, 4000, 16), bench.matrix(4000, 4000, 16, other=True)
    x = bench.dense(4000)
    for name, program in (("thread", a @ x), ("thread_collect", maximum(a, b))):
        alone = bench.time(program, clock=perf_counter)
        found[name] = bench.time(program, threads=2, clock=perf_counter) - alone / 2
    v, w = bench.dense(2_000_000), bench.dense(2_000_000)
    found["memory"] = bench.time((v * w).sum(), threads=2, clock=perf_counter) / 32e6
    made = bench.time(v + 1.0, threads=2, clock=perf_counter)
    found["fresh"] = made / 16e6 - found["memory"]
