"""The engine of this process: kernels on its threads."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.config import Config
from tensorel.engines.binding import bind
from tensorel.engines.in_process.engine import Run, evaluate, plan_for, planned
from tensorel.engines.protocol import Engine, Formats
from tensorel.errors import TypeError_
from tensorel.ir.nodes import Tensor
from tensorel.kernels.loopir.printing import show as show_kernel
from tensorel.kernels.lowering.assembly import lower_nest
from tensorel.kernels.lowering.workspaces import speculative
from tensorel.kernels.native.matcher import NativeMatcher
from tensorel.kernels.native.sorter import NativeSorter
from tensorel.plan.decisions import runner_up
from tensorel.plan.explain import LEVELS, Explanation
from tensorel.plan.physical import KernelStep, Plan
from tensorel.storage import key_matching, sorting
from tensorel.storage.format import FormatLike
from tensorel.storage.limits import show_bytes
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored


class LocalEngine(Engine):
    """Plans are cached, steps run one after another, kernels on all threads. Where it is, long
    lists of coordinates are sorted and keys are matched by kernels, too."""

    name = "local"

    def __init__(self) -> None:
        sorting.install(NativeSorter())
        key_matching.install(NativeMatcher())

    def evaluate(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> list[Stored]:
        return evaluate(nodes, config, formats)

    def prepare(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> Run:
        bound = bind(nodes, formats, config)
        return Run(plan_for(bound, formats, config, anew=True), bound.stored, config)

    def explain(self, nodes: Sequence[Tensor], config: Config, level: str = "physical",
                analyze: bool = False, formats: Sequence[FormatLike | None] | None = None
                ) -> Explanation:
        if level not in LEVELS:
            raise TypeError_(
                f"explain has no level {level!r}", hint=f"levels: {', '.join(LEVELS)}")
        formats = [None] * len(nodes) if formats is None else [
            f if f is None or isinstance(f, str) else resolve(f, n.shape, n.dtype)
            for f, n in zip(formats, nodes)]
        bound = bind(nodes, formats, config)
        found = plan_for(bound, formats, config, anew=True)
        plan, run = found.plan, Run(found, bound.stored, config)
        if analyze and not found.blocked:  # steps that run in blocks have no sizes of their own
            run.run(analyze=True)
        inputs = {n: f"{s.format.name} {s.shape} {s.dtype.name}, {s.count:,} stored, "
                  f"{show_bytes(s.nbytes)}" for n, s in bound.stored.items()}
        code = kernel_texts(plan) if level == "code" else {}
        closest = None if level == "logical" or plan.windows > 1 else runner_up(
            lambda decisions: planned(bound, formats, config, decisions).plan, plan.start)
        return Explanation(
            plan, level, inputs, run.held, run.records, code, found.passes, closest)

    def close(self) -> None:
        """Threads and caches belong to the process."""


def kernel_texts(plan: Plan) -> dict[str, str]:
    """The loops of each kernel step, as text."""
    return {
        s.target.name: show_kernel(lower_nest(speculative(s.nest)).kernel)
        for s in plan.steps if isinstance(s, KernelStep) and s.nest is not None
    }
