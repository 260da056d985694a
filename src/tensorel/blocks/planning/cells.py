"""A step on one grid: which site runs each cell, where free blocks come into being, where the
result lies, and what all that moves.

Everything is counted over the distinct boxes that cells read of an operand
(``blocks/steps/footprints.py``), and over the pairs of such a box and a block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.blocks.steps.access import Loops
from tensorel.blocks.steps.fibres import Fibres
from tensorel.blocks.steps.footprints import (
    Bytes,
    Footprints,
    Numbers,
    places,
)
from tensorel.blocks.steps.layout import FREE, Edges, Layout
from tensorel.blocks.steps.meeting import Filled, Meeting

WEIGHT_OF_ALL = 4.2  # of bytes moved in all, beside those of the busiest site
SENT_BY_HOME = 2  # copies of a block that leave its home, where many sites need it
NOWHERE = -1  # the site of a cell that changes nothing: it is not run
MAX_ROUNDS = 64  # of cells that choose their sites; the others take what is left
ALMOST = 0.999  # differences below it are no reason to go elsewhere


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of a byte between sites, of a flop, of a task, and of sending a block."""

    byte: float = 8e-9
    flop: float = 1e-10
    task: float = 5e-4
    send: float = 2e-5


@dataclass(frozen=True, slots=True)
class Copies:
    """Boxes of a tensor that sites were sent: a row for each site; ``there``: who has one."""

    low: Numbers
    high: Numbers
    there: npt.NDArray[np.bool_]

    def hold(self, low: Numbers, high: Numbers) -> npt.NDArray[np.bool_]:
        """For boxes (rows) and sites (columns), whether the site has all of the box."""
        inside = (self.low[None] <= low[:, None]) & (self.high[None] >= high[:, None])
        found: npt.NDArray[np.bool_] = inside.all(axis=2) & self.there
        return found


@dataclass(frozen=True, slots=True)
class Work:
    """Flops of a step, or of a reduction inside of it: for each value of some of its loops."""

    loops: tuple[int, ...]
    flops: float


@dataclass(frozen=True, slots=True)
class Step:
    """A formula by its loops. ``itemsize``, ``filled``: bytes of an entry of its result with its
    place, how many are stored and where; ``strict``: sums keep their order. ``vanishing``:
    operands of which blocks that are all fill change nothing. ``meeting``: how much there is to do
    in any cell; None: the same at all points."""

    name: str
    loops: Loops
    operands: tuple[str, ...]
    footprints: tuple[Footprints, ...]
    work: tuple[Work, ...]
    itemsize: float
    filled: Filled
    strict: bool = False
    vanishing: tuple[bool, ...] = ()
    meeting: Meeting | None = None

    def flops(self, grid: Sequence[int]) -> float:
        """In all cells together: what lacks a loop that is cut is done by each part of it."""
        cells = math.prod(grid)
        return sum(w.flops * cells / math.prod([grid[k] for k in w.loops]) for w in self.work)

    def partial(self, parts: int) -> float:
        """The share of the bytes of the result that one of so many partial results has."""
        return 1.0 if self.meeting is None or self.filled.density == 1.0 \
            else self.meeting.partial(parts)

    def laid(self, edges: tuple[Edges, ...], home: Numbers) -> Layout:
        """The result, cut as the loops are."""
        return self.loops.laid(Layout(
            edges, home, self.itemsize, self.filled.density, spread=self.filled.spread))


@dataclass(frozen=True, slots=True)
class Placed:
    """A step on a grid. ``cuts``: where each loop is cut. ``sites``: of each cell, in C order of
    the loops. ``layout``: of the result; ``moved``: bytes between sites; ``most``: bytes that a
    site receives or sends; ``held``: that a site holds at its end; ``homes``: of operands whose
    blocks were free; ``copies``: what sites have of each operand afterwards; ``gain``: how many
    times less it costs than a grid."""

    cuts: tuple[Edges, ...]
    sites: tuple[int, ...]
    layout: Layout
    homes: Mapping[int, Layout]
    copies: Mapping[int, Copies]
    moved: float
    most: float
    held: float
    work: float
    seconds: float
    received: Bytes
    gain: float = 0.0

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple([len(c) - 1 for c in self.cuts])


class Read:
    """An operand as the cells of a grid read it. ``had``: copies from earlier steps."""

    def __init__(self, layout: Layout, prints: Footprints, cuts: Sequence[Edges],
                 had: Sequence[Copies], sites: int) -> None:
        self.layout, self.sites = layout, sites
        self.boxes = boxes = prints.of(cuts)
        self.parts, self.total = prints.parts(layout, boxes)
        self.had = [c.hold(boxes.low, boxes.high) for c in had]
        self.where: npt.NDArray[np.bool_] | None = None
        for found in self.had:
            self.where = found if self.where is None else self.where | found

    def here(self) -> Bytes:
        """Bytes of each box at each site."""
        home = self.layout.home.ravel()[self.parts.block]
        there = home != FREE
        flat = self.parts.box[there] * self.sites + home[there]
        counted = np.bincount(flat, self.parts.size[there], len(self.total) * self.sites)
        found: Bytes = np.asarray(counted, np.float64).reshape(-1, self.sites)
        if self.where is not None:
            found = np.where(self.where, self.total[:, None], found)
        return found

    def settle(self, sites: Numbers) -> None:
        """Free blocks come into being at one of the sites that need most of them, by turns."""
        parts, layout, boxes = self.parts, self.layout, len(self.total)
        most = np.zeros(layout.home.size)
        np.maximum.at(most, parts.block, parts.size)
        likely = (parts.size > 0) & (parts.size >= ALMOST * most[parts.block])
        box, block = parts.box[likely], parts.block[likely]
        names = np.random.default_rng(0).integers(1, 2**62, boxes)
        kind = np.zeros(layout.home.size, np.int64)  # blocks that the same boxes need
        np.add.at(kind, block, names[box])
        _, first, kind, members = np.unique(
            kind, return_index=True, return_inverse=True, return_counts=True)
        # a row for each kind and each cell that reads one of its boxes, or any cell if none does
        of_first = np.flatnonzero(np.isin(block, first))
        cells = np.bincount(self.boxes.of_cell, minlength=boxes)
        order = np.argsort(self.boxes.of_cell, kind="stable")
        begin = np.cumsum(cells) - cells
        count = cells[box[of_first]]
        rows = np.repeat(of_first, count)
        turn = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        at = order[begin[box[rows]] + turn]
        of_kind = kind[block[rows]]
        for k in np.flatnonzero(np.bincount(of_kind, minlength=len(first)) == 0):
            of_kind, at = np.append(of_kind, [k] * len(order)), np.append(at, np.arange(len(order)))
        at = at[np.lexsort((at, of_kind))]
        choices = np.bincount(of_kind, minlength=len(first))
        start = np.cumsum(choices) - choices
        turn = np.empty(layout.home.size, np.int64)
        by_kind = np.argsort(kind, kind="stable")
        turn[by_kind] = np.arange(len(kind)) - np.repeat(np.cumsum(members) - members, members)
        mine, among = choices[kind], members[kind]
        pick = np.where(among >= mine, turn * mine // among, turn % mine)
        flat = layout.home.ravel()
        home = np.where(flat == FREE, sites[at[start[kind] + pick]], flat)
        self.layout = replace(layout, home=home.reshape(layout.grid))

    def copies(self, sites: Numbers) -> Copies:
        """What the sites have of it after the step."""
        rank = self.boxes.low.shape[1]
        low, high = np.zeros((2, self.sites, rank), np.int64)
        there = np.zeros(self.sites, bool)
        there[sites] = True
        low[sites] = self.boxes.low[self.boxes.of_cell]
        high[sites] = self.boxes.high[self.boxes.of_cell]
        return Copies(low, high, there)


class Traffic:
    """Bytes that each site receives and sends in a step."""

    def __init__(self, sites: int) -> None:
        self.sites, self.sends = sites, 0
        self.received, self.sent = np.zeros((2, sites))

    def fetch(self, read: Read, sites: Numbers) -> bool:
        """What cells read that does not lie where they are; whether there is any."""
        of_cell, parts, count = read.boxes.of_cell, read.parts, self.sites
        lacking = np.ones(len(sites), bool) if read.where is None \
            else ~read.where[of_cell, sites]
        cells = np.bincount(of_cell[lacking] * count + sites[lacking],
                            minlength=len(read.total) * count).reshape(-1, count)
        home = read.layout.home.ravel()[parts.block]
        here = np.bincount(parts.box * count + home, parts.size, len(read.total) * count)
        here = here.reshape(-1, count)
        np.add.at(self.received, sites[lacking], read.total[of_cell[lacking]]
                  - here[of_cell[lacking], sites[lacking]])
        out = cells.sum(axis=1)[parts.box] - cells[parts.box, home]
        blocks = read.layout.home.size
        copies = np.bincount(parts.block, out * (parts.size > 0), blocks)
        each = np.bincount(parts.block, out * parts.size, blocks)
        # who has a copy of a block sends it on: what leaves its home is a few copies
        own = each * np.minimum(SENT_BY_HOME / np.maximum(copies, 1), 1)
        self.sent += np.bincount(read.layout.home.ravel(), own, count)
        self.sent += (each.sum() - own.sum()) / count
        self.sends += int(copies.sum())
        return bool(each.any())

    def gather(self, layout: Layout, groups: Numbers, cell: Numbers, share: float) -> None:
        """Partial results, to where their parts are finished. ``groups``: the sites of each cell of
        the result; ``cell``: of each block of the result; ``share``: of its bytes in each."""
        size, home = share * layout.sizes().ravel(), layout.home.ravel()
        partials = groups.shape[1]
        self.sends += len(home) * (partials - 1)
        self.received += np.bincount(home, size * (partials - 1), self.sites)
        total = np.bincount(cell, size, len(groups))
        np.add.at(self.sent, groups.ravel(), np.repeat(total, partials))
        self.sent -= np.bincount(home, size, self.sites)


def assigned(reads: Sequence[Read], cells: int, sites: int) -> Numbers:
    """A site for each cell: where most of what it needs lies, each site once."""
    here = np.zeros((cells, sites))
    for r in reads:
        if r.where is not None or (r.layout.home != FREE).any():
            here += r.here()[r.boxes.of_cell]
    every = np.arange(cells)
    if not here.any():
        return every
    found, taken = np.full(cells, FREE), np.zeros(sites, bool)
    left = here.copy()
    for _ in range(MAX_ROUNDS):  # pairs of a cell and a site that have most of each other
        to = left.argmax(axis=1)
        first = (left[every, to] > 0) & (left.argmax(axis=0)[to] == every)
        if not first.any():
            break
        found[first], taken[to[first]] = to[first], True
        left[first], left[:, to[first]] = 0, 0
    lonely = np.flatnonzero(found == FREE)
    found[lonely] = np.flatnonzero(~taken)[:len(lonely)]
    if here[every, every].sum() >= ALMOST * here[every, found].sum():
        return every  # in the order of sites, as other steps are
    return found


def result_layout(step: Step, cuts: Sequence[Edges], groups: Numbers, sites: int
                  ) -> tuple[Layout, Numbers]:
    """Where the result lies, and the cell of each of its blocks: with its cells; where several
    sites have partial results, each of them finishes a part."""
    own = len(step.loops.axes)
    edges, grid = list(cuts[:own]), [len(c) - 1 for c in cuts[:own]]
    partials = groups.shape[1]
    axis = max(range(own), key=lambda k: int(np.diff(edges[k]).min()), default=0)
    shared = own > 0 and partials > 1 and int(np.diff(edges[axis]).min()) >= partials
    if shared:
        edges[axis] = np.concatenate(
            [np.linspace(lo, hi, partials + 1).round().astype(np.int64)[:-1]
             for lo, hi in zip(edges[axis][:-1], edges[axis][1:])] + [edges[axis][-1:]])
    shape = [len(e) - 1 for e in edges]
    at = places(shape)
    turn = at[axis] % partials if shared else np.zeros(math.prod(shape), np.int64)
    if shared:
        at[axis] //= partials
    cell: Numbers = np.zeros(1, np.int64)
    if own:
        cell = np.asarray(np.ravel_multi_index(tuple(at), tuple(grid)), np.int64)
    if not shared and partials > 1:  # by turns, so that all sites finish about as many
        turn = np.arange(len(cell)) * partials // max(len(cell), 1)
    home = groups[cell, turn].reshape(shape)
    return step.laid(tuple(edges), home), cell


def on_cuts(step: Step, cuts: tuple[Edges, ...], layouts: Sequence[Layout],
            had: Sequence[Sequence[Copies]], free: Mapping[int, Layout], sites: int, rates: Rates
            ) -> Placed:
    """The step with its loops cut so. ``free``: operands whose blocks the plan cuts."""
    grid = [len(c) - 1 for c in cuts]
    reads = [Read(free.get(k, x), f, cuts, c, sites)
             for k, (x, f, c) in enumerate(zip(layouts, step.footprints, had))]
    at = assigned(reads, math.prod(grid), sites)
    homes: dict[int, Layout] = {}
    loaded = np.zeros(sites)
    for k, r in enumerate(reads):
        if (r.layout.home == FREE).any():
            r.settle(at)
            homes[k] = r.layout
            loaded += r.layout.held(sites)  # what comes into being at a site comes in there
    traffic = Traffic(sites)
    copies = {k: r.copies(at) for k, r in enumerate(reads) if traffic.fetch(r, at)}
    groups = at.reshape(math.prod(grid[:len(step.loops.axes)]), -1)
    layout, cell = result_layout(step, cuts, groups, sites)
    received = traffic.received.copy()
    held = received + layout.held(sites)
    for r in reads:
        held += r.layout.held(sites)
    if groups.shape[1] > 1:
        traffic.gather(layout, groups, cell, step.partial(groups.shape[1]))
    moved = float(traffic.received.sum())
    busiest = max((traffic.received + loaded).max(initial=0), traffic.sent.max(initial=0))
    most = max(traffic.received.max(initial=0), traffic.sent.max(initial=0))
    work = _busiest(step, reads, cuts)
    tasks = 2 * len(at) * rates.task + traffic.sends * rates.send
    shared = tasks + WEIGHT_OF_ALL * moved * rates.byte
    seconds = float(busiest) * rates.byte + work * rates.flop + shared / sites
    return Placed(cuts, tuple(at.tolist()), layout, homes, copies, moved,
                   float(most), float(held.max()), work, seconds, received)


def _busiest(step: Step, reads: Sequence[Read], cuts: Sequence[Edges]) -> float:
    """Flops of the cell that has most: by what there is to do in it, or, of operators along an
    axis, by the entries of the operand with the fewest of them."""
    grid = [len(c) - 1 for c in cuts]
    cells = math.prod(grid)
    total = step.flops(grid)
    if step.meeting is not None:
        return _most(total, step.meeting.work.entries(*ends_of(cuts, places(grid).T)))
    known = [k for k, r in enumerate(reads) if r.layout.spread is not None]
    if not known or not total or not isinstance(step.loops, Fibres):
        return total / cells
    k = min(known, key=lambda k: reads[k].layout.density)
    return _most(total, reads[k].total[reads[k].boxes.of_cell])


def ends_of(cuts: Sequence[Edges], cells: Numbers) -> tuple[Numbers, Numbers]:
    """Where cells (rows, by their place along each loop) begin and end along each loop."""
    low, high = np.zeros((2, *cells.shape), np.int64)
    for k, c in enumerate(cuts):
        low[:, k], high[:, k] = c[:-1][cells[:, k]], c[1:][cells[:, k]]
    return low, high


def _most(total: float, share: Bytes) -> float:
    """Of what is shared out, the largest share."""
    return float(total * share.max() / share.sum()) if share.any() else total / max(len(share), 1)
