"""Where the entries of sparse operands meet: how much there is to do in any cell of a step, and
where the entries of its result are.

Loops are cut into parts at places where operands have equal shares of their entries. In a part
operands are even and independent of each other, so that the points at which there is something to
do are a product of densities, and of points that fall on the same entry of the result the chance
says how many entries that makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.blocks.steps.access import Loops
from tensorel.blocks.steps.footprints import Footprints
from tensorel.blocks.steps.layout import Edges, even
from tensorel.blocks.steps.spread import Spread, counted
from tensorel.ir.nodes import Index, Read, Source
from tensorel.kernels.lowering.support import Analysis, Formula, reads_of

MAX_POINTS = 1 << 16  # parts of all loops together
MAX_PARTS = 256  # of a loop
ALONE = 24  # of a loop through one sparse operand: parts are for those at which several meet
DENSE = 0.5  # of a result, from which on it counts as dense
#: Flops that a point takes as long as: where entries meet one by one, and where a loop through
#: dense operands is inside (measured: 8 and 0.5 ns, where a dense product does 10^10 flops).
ONE_BY_ONE, STREAMED = 80.0, 5.0

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Filled:
    """How full an operand is, and where its entries are, as far as that is known."""

    density: float
    spread: Spread | None


@dataclass(frozen=True, eq=False, slots=True)
class Meeting:
    """``work``: flops over the loops of a step; ``points`` and ``room``: for each part of the
    result how many points fall on it, and how many places it has; ``cuts``: of these parts."""

    work: Spread
    points: Counts
    room: Counts
    cuts: tuple[Edges, ...]

    def entries(self, parts: int = 1) -> Counts:
        """Entries in each part of the result, or of one of so many partial results."""
        room, points = np.maximum(self.room, 1.0), self.points / parts
        with np.errstate(divide="ignore", invalid="ignore"):
            hit = -room * np.expm1(points * np.log1p(-1.0 / room))
        found: Counts = np.where(points > 0, np.minimum(points, hit), 0.0)
        return found

    def partial(self, parts: int) -> float:
        """The share of the entries of the result that one of so many partial results has."""
        total = float(self.entries().sum())
        return float(self.entries(parts).sum()) / total if total and parts > 1 else 1.0

    @property
    def filled(self) -> Filled:
        """The result."""
        entries, size = self.entries(), float(self.room.sum())
        density = float(entries.sum()) / size if size else 1.0
        if density >= DENSE or not self.cuts:
            return Filled(1.0, None)
        return Filled(density, Spread(float(entries.sum()), (
            counted(tuple(range(len(self.cuts))), self.cuts, entries),)))


def meeting_of(loops: Loops, known: Mapping[Source, Filled], strict: bool) -> Meeting | None:
    """Of a step; None where it is done at all points."""
    def sparse(r: Read) -> bool:
        return isinstance(r.tensor, Source) and known[r.tensor].density < 1.0

    support = Analysis(strict, sparse=sparse, summed=loops.op is not None).cover(
        loops.entry).support
    reads = reads_of(support)
    if not reads or support.kind == "true" or not loops.indices or any(
            a.extent == 0 for a in loops.indices):
        return None
    cuts = _cuts(loops, reads, known)
    grid = tuple([len(c) - 1 for c in cuts])
    room = np.ones(grid)
    for k, c in enumerate(cuts):
        room *= np.diff(c).reshape([-1 if d == k else 1 for d in range(len(grid))])
    points = room * _share(support, {r: _density(loops, r, known[r.tensor], cuts)  # type: ignore[index]
                                     for r in reads})
    own = len(loops.axes)
    reduced = tuple(range(own, len(cuts)))
    inside = loops.names - frozenset().union(*[r.free for r in reads])
    each = STREAMED if inside else ONE_BY_ONE
    return Meeting(
        Spread(each * float(points.sum()), (
            counted(tuple(range(len(cuts))), cuts, each * points),)),
        points.sum(axis=reduced), room.sum(axis=reduced) / max(
            math.prod([a.extent for a in loops.reduced]), 1), cuts[:own])


def _share(f: Formula, of: Mapping[Read, Counts]) -> Counts:
    """The share of the points of each part at which a formula holds."""
    if f.kind == "has":
        assert f.read is not None
        return of[f.read]
    shares = [_share(p, of) for p in f.parts]
    found = np.ones(())
    for s in shares:
        found = found * (s if f.kind == "and" else 1.0 - s)
    return found if f.kind == "and" else 1.0 - found


def _density(loops: Loops, read: Read, filled: Filled, cuts: Sequence[Edges]) -> Counts:
    """How full the part of an operand is that each part of the loops reads."""
    if filled.spread is None:
        return np.full((1,) * len(cuts), filled.density)
    assert isinstance(read.tensor, Source)
    boxes = Footprints(loops, read.tensor, [read]).of(cuts)
    size = np.maximum((boxes.high - boxes.low).prod(axis=1), 1)
    found = np.minimum(filled.spread.entries(boxes.low, boxes.high) / size, 1.0)
    each: Counts = found[boxes.of_cell].reshape([len(c) - 1 for c in cuts])
    return each


def _cuts(loops: Loops, reads: Sequence[Read], known: Mapping[Source, Filled]
          ) -> tuple[Edges, ...]:
    """Parts of each loop: where operands that it walks have equal shares of their entries."""
    walked: dict[str, list[tuple[Edges, Counts]]] = {}
    for r in reads:
        spread = known[r.tensor].spread  # type: ignore[index]
        for axis, e in enumerate(r.indices):
            for n in e.free & loops.names:
                found = walked.setdefault(n, [])
                if spread is not None and isinstance(e, Index):
                    found.append(spread.below(axis))
    shared = [n for n, found in walked.items() if len(found) > 1]
    few = min(ALONE if shared else MAX_PARTS, int(MAX_POINTS ** (1 / max(len(walked), 1))))
    left = MAX_POINTS / few ** (len(walked) - len(shared))
    many = min(MAX_PARTS, int(left ** (1 / max(len(shared), 1))))
    return tuple([_parts(a.extent, walked[a.name], many if a.name in shared else few)
                  if a.name in walked else np.array([0, a.extent]) for a in loops.indices])


def _parts(extent: int, below: Sequence[tuple[Edges, Counts]], parts: int) -> Edges:
    if not below:
        return np.unique(even(extent, min(parts, 16, extent)))
    places = np.unique(np.concatenate([p for p, _ in below] + [np.array([0, extent])]))
    places = places[(places >= 0) & (places <= extent)]
    if len(places) <= parts + 1:
        return places
    share = sum([np.interp(places, p, s) for p, s in below], np.zeros(len(places))) / len(below)
    at = np.searchsorted(share, np.linspace(0.0, 1.0, parts + 1))
    return np.unique(np.concatenate(([0], places[np.minimum(at, len(places) - 1)], [extent])))
