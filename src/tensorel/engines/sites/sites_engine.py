"""The engine of many sites: programs are planned in blocks, and run where their blocks lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.blocks.planning.block_plan import BlockPlan
from tensorel.blocks.planning.cells import Rates
from tensorel.blocks.planning.planner import plan_blocks
from tensorel.blocks.steps.layout import FREE, Layout
from tensorel.blocks.steps.logical import steps_of
from tensorel.config import Config
from tensorel.engines.protocol import (
    Counts,
    Cut,
    Engine,
    Formats,
    IndexArray,
    Placed,
    Prepared,
)
from tensorel.engines.sites import work
from tensorel.engines.sites.blocked import Blocked
from tensorel.engines.sites.cluster import Cluster
from tensorel.engines.sites.explained import BlockExplanation
from tensorel.engines.sites.known_plans import Known, KnownPlans, key_of
from tensorel.engines.sites.operands import INDEX_BYTES, Operands, bind_blocks, with_bytes
from tensorel.engines.sites.scheduling import Scheduler
from tensorel.errors import EngineError, UnsupportedError
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Const, Tensor
from tensorel.storage.convert import to_format
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored


class SitesEngine(Engine):
    """Runs programs on a cluster; what it makes may stay there. ``planner``: "grids" (algebraic),
    "lineage" (two-phase), or "both", whichever costs less. ``rates``: of the machines, where they
    are known better."""

    has_sites = True

    def __init__(self, cluster: Cluster, planner: str = "both", rates: Rates | None = None) -> None:
        self.cluster, self.planner, self.rates = cluster, planner, rates
        self.name = cluster.kind
        self._plans = KnownPlans()
        self._closed = False

    # -- the protocol ---------------------------------------------------------------------------
    def evaluate(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> list[Stored]:
        scheduler, bound, plan = self._run(nodes, config)
        try:
            found = [scheduler.gathered(n, t.dtype) for n, t in zip(plan.results, bound.roots)]
        finally:
            self.cluster.release(scheduler.made)
        return [s if f is None else to_format(s, resolve(f, s.shape, s.dtype))
                for s, f in zip(found, formats)]

    def persist(self, nodes: Sequence[Tensor], config: Config) -> list[Placed]:
        scheduler, bound, plan = self._run(nodes, config)
        kept: set[int] = set()
        made: list[Placed] = []
        for name, root in zip(plan.results, bound.roots):
            layout, numbers = scheduler.lies[name]
            same = [d for d in bound.data.values()
                    if isinstance(d, Blocked) and d.numbers is numbers]
            if same:  # the blocks have an owner
                made.append(same[0])
                continue
            own = scheduler.own(numbers)
            kept.update(own)
            sizes = self.cluster.sizes(numbers.ravel().tolist())
            if sizes is not None:
                layout = with_bytes(layout, np.array(sizes).reshape(layout.grid), root.dtype)
            made.append(Blocked(self, replace(layout, pinned=True), root.dtype,
                                scheduler.fills[name], numbers))
        self.cluster.release([n for n in scheduler.made if n not in kept])
        return made

    def from_blocks(self, make: Callable[[tuple[int, ...]], object], edges: Sequence[IndexArray],
                    dtype: DType, fill: Const, stored: Counts | None = None, whole: bool = False
                    ) -> Placed:
        home = np.full([len(e) - 1 for e in edges], FREE)
        layout = Layout(tuple(edges), home, float(dtype.itemsize), 1.0, not whole)
        if stored is not None and not whole:
            layout = with_bytes(layout, stored * (dtype.itemsize + INDEX_BYTES), dtype)
        elif stored is not None:
            size = math.prod(layout.shape)
            layout = replace(layout, density=min(float(stored.sum()) / max(size, 1), 1.0))
        return Blocked(self, layout, dtype, fill, None, make, whole)

    def write(self, node: Tensor, config: Config, cut: Cut, fill: Const) -> list[Any]:
        self._check_open()
        bound, plan = self._planned([node], config, keep=False)
        scheduler = Scheduler(self.cluster, plan, bound.data, bound.fills, config)
        name, = plan.results
        edges, put = cut(scheduler.lies[name][0].edges)
        told = scheduler.written(name, edges, partial(work.put, put, fill), node.dtype)
        try:
            self._submitted(scheduler, told)
            return [self.cluster.fetched(n) for n in told]
        finally:
            self.cluster.release(scheduler.made)

    def prepare(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> Prepared:
        raise UnsupportedError("programs of many sites are planned when they run",
                               hint="use compute(engine=...) or persist(engine=...)")

    def explain(self, nodes: Sequence[Tensor], config: Config, level: str = "blocks",
                analyze: bool = False, formats: object = None) -> BlockExplanation:
        bound, plan = self._planned(nodes, config)
        stats = None
        if analyze:
            self.cluster.reset()
            self.evaluate(nodes, config, [None] * len(nodes))
            stats = self.cluster.stats()
        return BlockExplanation(plan, bound.shown(), stats)

    def close(self) -> None:
        self._closed = True
        self.cluster.close()

    # -- counting -------------------------------------------------------------------------------
    def stats(self) -> dict[str, Any]:
        """What was moved and done since the last ``reset``."""
        return self.cluster.stats()

    def reset(self) -> None:
        """Count anew."""
        self.cluster.reset()

    # -- inside ---------------------------------------------------------------------------------
    def _planned(self, nodes: Sequence[Tensor], config: Config, keep: bool = True
                 ) -> tuple[Operands, BlockPlan]:
        bound = bind_blocks(self, nodes, config)
        key = key_of(bound, config, self.planner, self.rates, keep)
        known = self._plans.find(key)
        if known is None:
            program = steps_of(bound.roots, bound.known, config)
            fills = {d.name: d.fill if d.fill is not None else fill_of(d.tensor)
                     for d in program.definitions}
            known = self._plans.add(key, Known(plan_blocks(
                program, bound.layouts, self.cluster.sites, self.cluster.memory, self.planner,
                self.rates, bound.copies, keep), fills))
        bound.fills = known.fills
        return bound, known.plan

    def _run(self, nodes: Sequence[Tensor], config: Config
             ) -> tuple[Scheduler, Operands, BlockPlan]:
        self._check_open()
        bound, plan = self._planned(nodes, config)
        scheduler = Scheduler(self.cluster, plan, bound.data, bound.fills, config)
        wanted = [int(n) for name in plan.results for n in scheduler.lies[name][1].ravel()]
        self._submitted(scheduler, wanted)
        return scheduler, bound, plan

    def _submitted(self, scheduler: Scheduler, wanted: Sequence[int]) -> None:
        """Run the tasks of a plan until these results are there; others go after their last use."""
        keep = {*wanted, *scheduler.kept}
        try:
            self.cluster.start(scheduler.in_order(keep),
                               [n for n in scheduler.made if n not in keep])
            self.cluster.wait(keep)
        except BaseException:
            self.cluster.release(scheduler.made)
            raise
        scheduler.settle()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("this engine is closed", hint="make another one")

