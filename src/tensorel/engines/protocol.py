"""What an engine offers. The front end reaches engines only through this.

An engine takes tensors of the calculus, settings and wanted formats, and gives stored tensors. How
it computes them is its own matter: the local engine plans in this process and runs kernels on its
threads; an engine of many sites may place blocks there, run kernels on them and fetch the
results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, Self

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.config import Config
from tensorel.errors import TypeError_, UnsupportedError
from tensorel.ir.nodes import Const, Source, Tensor
from tensorel.plan.physical import Plan
from tensorel.storage.format import Format, FormatLike
from tensorel.storage.stored import Stored
from tensorel.tables.labels import Axes

IndexArray = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
#: From the edges of blocks to other edges, and to what takes a block by its key; None: all fill.
Cut = Callable[[Sequence[IndexArray]],
               tuple[Sequence[IndexArray], Callable[[tuple[int, ...], Stored | None], Any]]]
#: For each tensor how it is to be stored; None: as the planner chooses.
Formats = Sequence[str | Format | None]


class Prepared(Protocol):
    """A program that is planned and has its operands: it can be run again and again."""

    @property
    def plan(self) -> Plan: ...

    def run(self) -> list[Stored]: ...


class Explained(Protocol):
    """What a plan says of itself; prints as text."""

    def to_dict(self) -> dict[str, Any]: ...

    def html(self) -> str: ...


class Placed:
    """Data of a source that an engine holds. ``any_made``: there has been such data in this
    process, so that programs have to be asked for it. ``axes``: their names and labels."""

    __slots__ = ("axes", "dtype", "engine", "fill")
    any_made: ClassVar[bool] = False

    def __init__(self, engine: Engine, dtype: DType, fill: Const) -> None:
        self.engine, self.dtype, self.fill = engine, dtype, fill
        self.axes: Axes | None = None
        Placed.any_made = True

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def source(self) -> Source:
        """The tensor for programs."""
        return Source(self, self.shape, self.dtype, self.fill)

    def __reduce__(self) -> NoReturn:
        raise TypeError_("a tensor whose blocks lie at the sites of an engine does not pickle",
                         hint="compute() it first")


class Engine(ABC):
    """Runs programs. ``with engine:`` closes it at the end."""

    name: str
    #: Whether blocks lie at sites of its own.
    has_sites: ClassVar[bool] = False

    @abstractmethod
    def evaluate(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> list[Stored]:
        """The tensors, computed together."""

    @abstractmethod
    def prepare(self, nodes: Sequence[Tensor], config: Config, formats: Formats) -> Prepared:
        """The tensors planned anew for exactly these operands, not run."""

    @abstractmethod
    def explain(self, nodes: Sequence[Tensor], config: Config, level: str = "physical",
                analyze: bool = False, formats: Sequence[FormatLike | None] | None = None
                ) -> Explained:
        """The plan of the tensors; with ``analyze`` it is run and says what happened. ``formats``:
        of the results, where programs say them."""

    def persist(self, nodes: Sequence[Tensor], config: Config) -> list[Placed]:
        """The tensors, left where they were made."""
        raise UnsupportedError(f"the engine {self.name!r} has no sites to leave results at",
                               hint="use compute()")

    def from_blocks(self, make: Callable[[tuple[int, ...]], object], edges: Sequence[IndexArray],
                    dtype: DType, fill: Const, stored: Counts | None = None, whole: bool = False
                    ) -> Placed:
        """A tensor whose blocks come into being where programs need them. ``edges``: where blocks
        begin along each axis, and its extent. ``stored``: entries that each block stores, where
        that is known; ``whole``: ``make(())`` gives all of it, over files that are mapped, and the
        plan says how it is cut."""
        raise UnsupportedError(f"the engine {self.name!r} has no sites that make blocks",
                               hint="say engine=tr.engines.local(sites=4), for instance")

    def write(self, node: Tensor, config: Config, cut: Cut, fill: Const) -> list[Any]:
        """Compute a tensor and hand its blocks to ``put``, where they are made. ``cut``: where
        blocks that lie cut so have to be cut, and ``put``; ``fill``: that blocks shall have. What
        each call of ``put`` gave."""
        raise UnsupportedError(f"the engine {self.name!r} has no sites that write blocks",
                               hint="compute() the tensor and write it here")

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds; closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
