"""The plan of a program over sites, as a value: for each step its grid, where cells run, where
blocks lie."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.planning.along_cuts import AlongStep
from tensorel.blocks.planning.cells import Copies, Placed, Step
from tensorel.blocks.steps.layout import Layout
from tensorel.ir.nodes import Bulk
from tensorel.storage.limits import show_bytes


@dataclass(frozen=True, slots=True)
class GridStep:
    """A formula on a grid of cells."""

    step: Step
    placed: Placed

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def operands(self) -> tuple[str, ...]:
        return self.step.operands


@dataclass(frozen=True, slots=True)
class WholeStep:
    """An operator on whole tensors, at one site."""

    name: str
    tensor: Bulk
    site: int
    operands: tuple[str, ...]
    layout: Layout
    moved: float


@dataclass(frozen=True, slots=True)
class AliasStep:
    """Another name for a tensor."""

    name: str
    of: str


AnyStep = GridStep | WholeStep | AlongStep | AliasStep


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """``inputs``: where the blocks of the operands lie or come into being; ``kept``: what sites
    have of them afterwards, beside that; ``planner``: which one won, and by how much;
    ``streamed``: operands that come into being go after their last use."""

    steps: tuple[AnyStep, ...]
    inputs: Mapping[str, Layout]
    results: tuple[str, ...]
    sites: int
    kept: Mapping[str, tuple[Copies, ...]]
    planner: str
    streamed: bool = False

    @property
    def moved(self) -> float:
        """Bytes between sites."""
        return sum(_moved(s) for s in self.steps)

    def layout(self, name: str) -> Layout:
        for s in self.steps:
            if s.name == name:
                match s:
                    case GridStep():
                        return s.placed.layout
                    case WholeStep() | AlongStep():
                        return s.layout
                    case AliasStep():
                        return self.layout(s.of)
        return self.inputs[name]

    def __str__(self) -> str:
        lines = [f"{n}: {_lies(x)}" for n, x in self.inputs.items()]
        for k, s in enumerate(self.steps):
            if isinstance(s, AliasStep):
                lines.append(f"{k + 1}. {s.name} is {s.of}")
                continue
            if isinstance(s, WholeStep):
                lines.append(f"{k + 1}. {s.name}: whole, at site {s.site}, "
                             f"moves {show_bytes(int(s.moved))}")
                continue
            if isinstance(s, AlongStep):
                lines.append(f"{k + 1}. {s.name} of {s.operand}: {s.tensor.op.name} of each block, "
                             f"combined, moves {show_bytes(int(s.moved))}")
                lines.append(f"   {s.name}: {_lies(s.layout)}")
                continue
            cut = ", ".join(f"{a.name} / {p}" for a, p in zip(s.step.loops.indices, s.placed.grid))
            lines.append(
                f"{k + 1}. {s.name} of {', '.join(s.operands)}: {_algorithm(s)} ({cut}), "
                f"moves {show_bytes(int(s.placed.moved))}, at most "
                f"{show_bytes(int(s.placed.most))} at a site")
            lines.append(f"   {s.name}: {_lies(s.placed.layout)}")
        if self.streamed:
            lines.append("in rounds: operands come into being for a cell, and go after it")
        lines.append(f"planner: {self.planner}")
        lines.append(f"moved between sites: {show_bytes(int(self.moved))}")
        return "\n".join(lines)


def _moved(step: AnyStep) -> float:
    match step:
        case GridStep():
            return step.placed.moved
        case WholeStep() | AlongStep():
            return step.moved
        case _:
            return 0.0


def _lies(layout: Layout) -> str:
    grid = " x ".join(map(str, layout.grid)) or "1"
    sites = len(np.unique(layout.home))
    return f"{grid} blocks at {sites} sites, {show_bytes(int(layout.nbytes))}"


def _algorithm(step: GridStep) -> str:
    """What the grid is known as."""
    if step.placed.gain:
        return f"join groups placed one by one, {step.placed.gain:.2f} times cheaper than a grid"
    own = sum(p > 1 for p in step.placed.grid[:len(step.step.loops.axes)])
    reduced = any(p > 1 for p in step.placed.grid[len(step.step.loops.axes):])
    if reduced:
        return "co-partitioned" if not own else "2.5-D or 3-D"
    if len(step.operands) < 2 or not step.placed.moved:
        return "where it lies"
    return f"{own}-D" if own > 1 else "broadcast" if own else "at one site"
