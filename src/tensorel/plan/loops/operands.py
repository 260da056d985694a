"""Operands as loops see them, and the orders of loops that are worth a look."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tensorel.base.records import cached_property, dataclass
from tensorel.ir.affine import split_affine
from tensorel.ir.given import plain
from tensorel.ir.nodes import Expr, Index, Read, Source
from tensorel.kernels.lowering.nest import Slot
from tensorel.storage.format import Format
from tensorel.storage.levels import Level

MAX_PERMUTED_LOOPS, MAX_PERMUTED_HURRIED = 5, 3


@dataclass(eq=False)
class Operand:
    """A read as the simulation sees it: its levels with average segment lengths."""

    read: Read
    axes: tuple[object, ...]  # index expression per level
    full: tuple[bool, ...]
    segments: tuple[float, ...]
    findable: tuple[bool, ...]
    count: float
    sparse: bool
    whole_lookup: bool
    marked: bool = False  # a workspace
    edges: int = 0  # stored matrices that it has the entries of, as a sampler numbers them
    runs: tuple[float, ...] = ()  # entries that a walk over a level passes for each coordinate
    sure: object = None  # the index at which it has all that is asked for
    here: float | None = None  # of a diagonal: the share of it that has entries

    def at(self, read: Read, axes: tuple[object, ...], edges: int) -> Operand:
        """The same storage read elsewhere."""
        return Operand(read, axes, self.full, self.segments, self.findable, self.count,
                       self.sparse, self.whole_lookup, self.marked, edges, self.runs, self.sure,
                       self.here)

    @cached_property
    def rank(self) -> int:
        return len(self.axes)

    @cached_property
    def fixed(self) -> bool:
        """The first level is read at a constant."""
        return bool(self.axes) and not self.axes[0].free  # type: ignore[attr-defined]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The index of each level; empty for one that is read at another expression."""
        return tuple([e.name if isinstance(e, Index) else "" for e in self.axes])

    @cached_property
    def nesting(self) -> list[tuple[str, str]]:
        """Which loop has to be outside of which for the levels to be walked: sparse ones in
        order, all full ones above before them."""
        names = [n or along(e) for n, e in zip(self.names, self.axes)]
        first = next((k for k, f in enumerate(self.full) if not f), len(names))
        return [*itertools.pairwise(names[first:]),
                *[(a, b) for a in names[:first] for b in names[first:]]]

    def follows(self, place: Mapping[str, int]) -> bool:
        """The levels are in the order of the loops, so the operand can lead."""
        return all([place[a] < place[b] for a, b in self.nesting])  # noqa: C419


#: An operand that is stored again first, and the order of indices that its levels have then.
Turn = tuple[Operand, tuple[str, ...]]


def operand(read: Read, levels: tuple[float, ...], count: float, fmt: Format | None = None,
            restricted: tuple[int, float] | None = None) -> Operand:
    """``levels``: number of nodes of each level of the operand's format, or of ``fmt``."""
    slot = read.tensor.data  # type: ignore[attr-defined]
    assert isinstance(slot, Slot)
    fmt = fmt or slot.format
    axes = tuple(read.indices[a] for a in fmt.order)
    nodes = (1.0, *levels)
    segments = tuple(nodes[k + 1] / max(nodes[k], 1.0) for k in range(fmt.rank))
    full = tuple(level.full for level in fmt.levels)
    direct = tuple(findable(level) for level in fmt.levels)
    lookup = type(fmt).lookup is not Format.lookup
    runs = tuple(count / max(n, 1.0) if getattr(level, "runs", False) else 1.0
                 for level, n in zip(fmt.levels, levels))
    return Operand(read, axes, full, segments, direct, count, not fmt.is_dense, lookup, runs=runs,
                   sure=None if restricted is None else read.indices[restricted[0]])


def findable(level: Level) -> bool:
    """A coordinate is found without walking or searching."""
    return type(level).find is not Level.find or type(level).probe is not Level.probe


def converted(o: Operand, order: tuple[str, ...], extents: dict[str, int]) -> Operand:
    """The operand stored again with its levels in loop order, all compressed."""
    axes = tuple(sorted(o.axes, key=lambda e: order.index(along(e))))
    segments, nodes, size = [], 1.0, 1.0
    for e in axes:
        size *= plain(extents[along(e)])
        here = min(size, o.count)
        segments.append(here / max(nodes, 1.0))
        nodes = max(here, 1.0)
    rank = len(axes)
    return Operand(o.read, axes, (False,) * rank, tuple(segments), (False,) * rank, o.count,
                   True, False, edges=o.edges, sure=o.sure)


def orders(names: list[str], operands: list[Operand], brief: bool = False, hurried: bool = False
           ) -> list[tuple[str, ...]]:
    """Candidate loop orders: all of them, or those that follow one operand's levels. ``brief``:
    all orders of fewer loops; ``hurried``: and fewer operands are followed."""
    if len(names) <= (MAX_PERMUTED_HURRIED if brief or hurried else MAX_PERMUTED_LOOPS):
        return list(itertools.permutations(names))
    found: dict[tuple[str, ...], None] = {tuple(names): None}
    for group in itertools.permutations(operands[: 2 if hurried else 4]):
        order: list[str] = []
        for o in group:
            for e in o.axes:
                for n in sorted(e.free):  # type: ignore[attr-defined]
                    if n not in order and n in names:  # others are bound inside the body
                        order.append(n)
        found[(*order, *(n for n in names if n not in order))] = None
    improved: dict[tuple[str, ...], None] = dict(found)
    for order_ in found:
        for k in range(len(order_) - 1):
            swapped = list(order_)
            swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
            improved[tuple(swapped)] = None
    return list(improved)


def along(e: object) -> str:
    """The one index that an axis is read along, upwards; empty if there is none such."""
    if isinstance(e, Index):
        return e.name
    free = e.free  # type: ignore[attr-defined]
    parts = split_affine(e, *free) if len(free) == 1 else None  # type: ignore[arg-type]
    return next(iter(free)) if parts is not None and parts[0] > 0 else ""


def is_turnable(read: Read) -> bool:
    """Each axis is read along an index of its own: stored in another order, it can lead there."""
    names = [along(i) for i in read.indices]
    return all(names) and len(names) == len(set(names)) and isinstance(read.tensor, Source)


def is_diagonal(read: Expr) -> bool:
    """A matrix read at one index in both places."""
    return isinstance(read, Read) and len(read.indices) == 2 \
        and isinstance(read.indices[0], Index) and read.indices[0] == read.indices[1]


def is_plain(read: Read) -> bool:
    """Each axis is read at an index of its own."""
    names = [i.name for i in read.indices if isinstance(i, Index)]
    return len(names) == len(read.indices) == len(set(names)) and isinstance(read.tensor, Source)
