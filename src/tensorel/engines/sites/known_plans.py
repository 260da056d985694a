"""Plans that are found again: equal programs over operands that lie alike have one plan.

An iteration of a loop asks for the same program each time, and planning it would take longer than
some of its steps. Tensors that are at hand are left out: their plans rest on their entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock

import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.blocks.planning.block_plan import BlockPlan
from tensorel.blocks.planning.cells import Copies
from tensorel.blocks.steps.layout import Layout
from tensorel.blocks.steps.spread import Spread
from tensorel.config import Config
from tensorel.engines.binding import settings_of
from tensorel.engines.sites.blocked import Blocked
from tensorel.engines.sites.operands import Operands
from tensorel.ir.nodes import Const

MAX_KNOWN = 64


@dataclass(frozen=True, slots=True)
class Known:
    """A plan, and the fills of its definitions by name."""

    plan: BlockPlan
    fills: Mapping[str, Const]


class KnownPlans:
    """The plans of one engine, the last ones that were asked for."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable) -> Known | None:
        with self._lock:
            found = None if key is None else self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def add(self, key: Hashable, known: Known) -> Known:
        if key is not None:
            with self._lock:
                self._known[key] = known
                if len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
        return known


def key_of(bound: Operands, config: Config, *more: Hashable) -> Hashable:
    """What the plan of a program depends on, by value; None where it depends on entries."""
    if not all([isinstance(d, Blocked) for d in bound.data.values()]):  # noqa: C419
        return None
    return (tuple(bound.roots), settings_of(config), config.verify, *more,
            *[_layout(x) for x in bound.layouts.values()],
            *[tuple(map(_copies, c)) for c in bound.copies.values()])


def _array(a: npt.NDArray[object] | None) -> Hashable:  # type: ignore[type-var]
    return None if a is None else (a.shape, a.tobytes())


def _layout(x: Layout) -> Hashable:
    return (*map(_array, x.edges), _array(x.home), x.itemsize, x.density, x.pinned,
            _spread(x.spread), _array(x.absent), x.pointers)


def _spread(x: Spread | None) -> Hashable:
    return None if x is None else (x.total, *[
        (t.axes, *map(_array, t.places), _array(t.below)) for t in x.tables])


def _copies(c: Copies) -> Hashable:
    return _array(c.low), _array(c.high), _array(c.there)
