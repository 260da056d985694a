"""The operands of a program that runs in blocks: slots for them, and how they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.blocks.planning.cells import Copies
from tensorel.blocks.steps.layout import FREE, Layout
from tensorel.blocks.steps.spread import of_blocks, of_entries
from tensorel.config import Config
from tensorel.engines.in_process.engine import known_of
from tensorel.engines.sites.blocked import Blocked
from tensorel.errors import EngineError
from tensorel.ir.nodes import Const, Source, Tensor, postorder
from tensorel.ir.replacing import replaced
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.slot_facts import Known, level_sizes
from tensorel.storage import convert
from tensorel.storage.limits import show_bytes
from tensorel.storage.refreshing import ready
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

if TYPE_CHECKING:
    from tensorel.engines.sites.sites_engine import SitesEngine

INDEX_BYTES = 4
POINTERS = {"csr": 0, "csc": 1}  # formats in which each index of an axis takes room of its own
MAX_SPARSE = 0.5  # of the entries of a tensor, stored; with more of them it counts as dense


class Operands:
    """A program over slots, and what its slots stand for."""

    def __init__(self, engine: SitesEngine, nodes: Sequence[Tensor], config: Config) -> None:
        self.data: dict[str, Stored | Blocked] = {}
        self.known: list[Known] = []
        self.layouts: dict[str, Layout] = {}
        self.fills: Mapping[str, Const] = {}
        self.copies: dict[str, tuple[Copies, ...]] = {}
        slots: dict[Tensor, Tensor] = {}
        for source in [n for n in postorder(*nodes) if isinstance(n, Source)]:
            name = f"S{len(slots)}"
            data = source.data
            if isinstance(data, Stored):
                ready(data)
                slot = Source(Slot(name, *data.signature, data.whole), source.shape, source.dtype,
                              source.fill)
                self.known.append(known_of(slot, data))
                self.layouts[name] = layout_of(data)
            else:
                assert isinstance(data, Blocked)
                if data.engine is not engine:
                    raise EngineError("a tensor lies at the sites of another engine",
                                      hint="compute() it first, or run the program there")
                slot = self._blocks(name, source, data.layout)
                self.layouts[name] = data.layout
                self.copies[name] = data.copies
            self.data[name] = data
            slots[source] = slot
        self.roots = replaced(list(nodes), slots)

    def _blocks(self, name: str, source: Source, layout: Layout) -> Source:
        """A slot for blocks that the driver does not have: sparse ones are coordinates to it."""
        size = float(np.prod(source.shape, dtype=np.float64)) * layout.density
        sparse = bool(source.shape) and layout.density < MAX_SPARSE
        format = resolve("coo" if sparse else "dense", source.shape, source.dtype)
        places = [(f"idx{k}", "<i8") for k in range(len(source.shape) if sparse else 0)]
        arrays = (*places, ("val", source.dtype.str))
        slot = Source(Slot(name, format, arrays), source.shape, source.dtype, source.fill)
        self.known.append(Known(slot.data, slot, size,  # type: ignore[arg-type]
                                level_sizes(format, source.shape, size),
                                size * sum([np.dtype(d).itemsize for _, d in arrays])))
        return slot

    def shown(self) -> dict[str, str]:
        return {n: f"{x.shape} {x.dtype.name}, {show_bytes(int(self.layouts[n].nbytes))}"
                for n, x in self.data.items()}


def bind_blocks(engine: SitesEngine, nodes: Sequence[Tensor], config: Config) -> Operands:
    """Slots for all that the nodes read."""
    return Operands(engine, nodes, config)


def layout_of(data: Stored) -> Layout:
    """A tensor that the driver holds: the plan cuts it, and says where its parts go."""
    shape = data.shape
    edges = tuple([np.array([0, n]) for n in shape])
    home = np.full([1] * len(shape), FREE)
    item = float(data.dtype.itemsize)
    if data.format.is_dense:
        return Layout(edges, home, item, 1.0, False)
    size = float(np.prod(shape, dtype=np.float64))
    axis = POINTERS.get(data.format.name)
    rows = 0 if axis is None else data.arrays["pos1"].nbytes
    each = (data.nbytes - rows) / max(data.count, 1)
    coo = convert.entries(data)
    return Layout(edges, home, max(each, item), coo.count / max(size, 1.0), False,
                  of_entries(coo.coords, shape),
                  pointers=None if axis is None else (axis, rows / (shape[axis] + 1)))


def with_bytes(layout: Layout, sizes: npt.NDArray[Any], dtype: DType) -> Layout:
    """A layout of blocks that have so many bytes; those that have none are all fill."""
    sizes = np.asarray(sizes, np.float64)
    size, total = math.prod(layout.shape), float(sizes.sum())
    if not layout.shape or total >= MAX_SPARSE * size * dtype.itemsize:
        return layout
    item = float(dtype.itemsize + INDEX_BYTES)
    return replace(layout, itemsize=item, density=total / item / max(size, 1),
                   spread=of_blocks(layout.edges, sizes / item), absent=sizes == 0)
