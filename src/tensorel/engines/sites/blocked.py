"""Tensors whose blocks lie at the sites of an engine, or come into being there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.blocks.planning.cells import Copies
from tensorel.blocks.steps.layout import Box, Layout
from tensorel.engines.protocol import Placed
from tensorel.ir.nodes import Const

if TYPE_CHECKING:
    from tensorel.engines.sites.cluster import Cluster
    from tensorel.engines.sites.sites_engine import SitesEngine

#: By block and site: which part of the block the site has, and the number of that part.
Sent = Mapping[tuple[int, int], Sequence[tuple[Box, int]]]


class Blocked(Placed):
    """Data of a source. ``numbers``: of each block what the engine's sites know it by. ``make``: a
    user's function of the key, of a tensor whose blocks are not there yet: their sites are chosen
    by the first program that reads it, and they are made then, once. ``whole``: it gives all of the
    tensor, over mapped files, to who cuts a block out of it. ``copies``, ``sent``: what other sites
    were sent of it by earlier programs, and still have."""

    __slots__ = ("__weakref__", "_parts", "copies", "layout", "make", "numbers", "sent", "whole")
    engine: SitesEngine

    def __init__(self, engine: SitesEngine, layout: Layout, dtype: DType, fill: Const,
                 numbers: npt.NDArray[np.int64] | None,
                 make: Callable[..., Any] | None = None, whole: bool = False) -> None:
        super().__init__(engine, dtype, fill)
        self.layout, self.make, self.whole = layout, make, whole
        self.numbers: npt.NDArray[np.int64] | None = None
        self.copies: tuple[Copies, ...] = ()
        self.sent: Sent = {}
        self._parts: list[int] = []
        if numbers is not None:
            self.lie(layout, numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def lie(self, layout: Layout, numbers: npt.NDArray[np.int64]) -> None:
        """From now on the blocks lie so; nobody else holds them."""
        self.layout, self.numbers = layout, numbers
        finalize(self, _dropped, self.engine.cluster, numbers.ravel().tolist(), self._parts)

    def remember(self, copies: tuple[Copies, ...], sent: Sent, parts: Sequence[int]) -> None:
        """Sites have these copies, as long as the blocks are there. ``parts``: those of them that
        have numbers of their own, beside those that are known."""
        self.copies, self.sent = copies, sent
        self._parts.extend(parts)

    def forget(self) -> None:
        """Sites need not have copies any more."""
        self.copies, self.sent = (), {}
        if self.numbers is not None:
            self.engine.cluster.drop_copies(self.numbers.ravel().tolist())
        self.engine.cluster.release(self._parts)
        self._parts.clear()


def _dropped(cluster: Cluster, numbers: list[int], parts: list[int]) -> None:
    cluster.release([*numbers, *parts])
