"""Sizes of joins of stored matrices, from a sample of their real entries.

Estimates that multiply chances take patterns for independent. Those of real graphs are not: two
neighbours of a node are neighbours of each other far more often than chance would have it, and a
node that is met along an edge has more neighbours than an average one. Where factors close a cycle,
entries of one factor are drawn and followed through the others, a new index at a time, as a nest of
loops would. Each new index is led by one list, all its candidates are drawn (evenly, if there are
too many) and checked against the other factors. Every tuple that is left stands for the same number
of points, so totals are unbiased, and exact where nothing had to be left out. Tuples of a smaller
join serve all larger ones (Leis et al., Cardinality Estimation Done Right: Index-Based Join
Sampling, 2017).

Joins are kept by their shape up to names of indices, with the matrices that they are over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count, permutations, product

import numpy as np
import numpy.typing as npt

from tensorel.base.records import cached_property
from tensorel.storage.levels import Compressed, Dense, Listed
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

Ints = npt.NDArray[np.signedinteger]

SAMPLED_TUPLES = 512  # of a sample
MAX_CANDIDATES = 4096  # looked at for a new index
MIN_ENTRIES, MAX_ENTRIES = 1 << 10, 1 << 24  # entries of matrices that are worth it
MAX_INDICES = 5  # joins of more indices are not looked at
_GOLDEN = 0.6180339887498949
_serials = count()


class Rows:
    """The pattern of a matrix: entry p of row r is in column ``idx[p]``, ``pos[r] <= p <
    pos[r + 1]``, ascending. ``axis``: that of the rows."""

    def __init__(self, axis: int, pos: Ints, idx: Ints, across: int) -> None:
        self.axis, self.pos, self.idx, self.across = axis, pos, idx, across
        self.start, self.stop = int(pos[0]), int(pos[-1])
        self.serial = next(_serials)
        self.samples: dict[Key, Sample] = {}
        self.forms: dict[Key, Key] = {}

    @property
    def size(self) -> int:
        return self.stop - self.start

    @cached_property
    def _tests(self) -> int:
        """Halvings of the longest row."""
        return int(np.diff(self.pos).max(initial=0)).bit_length()

    @cached_property
    def _columns(self) -> Ints:
        return np.bincount(self.idx[self.start : self.stop], minlength=self.across)

    @cached_property
    def mirrored(self) -> bool:
        """Every entry of the sample has its mirror image: for estimates the pattern counts as
        symmetric, so that joins that differ by directions alone have one size."""
        coords, _ = self.entries(SAMPLED_TUPLES)
        return self.pos.size == self.across + 1 and bool(self.has(coords[::-1]).all())

    def entries(self, most: int) -> tuple[list[Ints], float]:
        """Coordinates of entries by axis, and how many entries each stands for."""
        at, weight = evenly(self.size, most)
        at = at + self.start
        rows = np.searchsorted(self.pos, at, side="right") - 1
        found = [rows, self.idx[at].astype(np.int64)]
        return (found if self.axis == 0 else found[::-1]), weight

    def lengths(self, axis: int, values: Ints) -> Ints:
        """How many entries have each value on an axis."""
        if axis == self.axis or self.mirrored:
            return (self.pos[values + 1] - self.pos[values]).astype(np.int64)
        return self._columns[values]

    def lists(self, axis: int, values: Ints) -> tuple[Ints, Ints, Ints]:
        """Where the list of each value on an axis begins, its length, and the other
        coordinates. The lists of few columns are gathered in one pass over the entries."""
        if axis == self.axis or self.mirrored:
            return self.pos[values].astype(np.int64), self.lengths(axis, values), self.idx
        wanted = np.zeros(self.across, np.bool_)
        wanted[values] = True
        at = np.flatnonzero(wanted[self.idx[self.start : self.stop]]) + self.start
        columns = self.idx[at]
        at = at[np.argsort(columns, kind="stable")]
        rows = np.searchsorted(self.pos, at, side="right") - 1
        columns = self.idx[at]
        starts = np.searchsorted(columns, values.astype(columns.dtype))
        return starts, self.lengths(axis, values), rows

    def has(self, coords: Sequence[Ints]) -> npt.NDArray[np.bool_]:
        """Which points are entries: bisection in all rows at once."""
        row, column = coords[self.axis], coords[1 - self.axis]
        low, high = self.pos[row].astype(np.int64), self.pos[row + 1].astype(np.int64)
        ends, last = high, max(self.idx.size - 1, 0)
        for _ in range(self._tests):
            middle = (low + high) >> 1
            less = (self.idx[np.minimum(middle, last)] < column) & (middle < high)
            low = np.where(less, middle + 1, low)
            high = np.where(less, high, middle)
        found: npt.NDArray[np.bool_] = (low < ends) & (self.idx[np.minimum(low, last)] == column)
        return found


def rows_of(stored: Stored) -> Rows | None:
    """The pattern of a matrix that is stored by rows, by columns, or as a list; None for others,
    and for those that are not worth sampling."""
    fmt = stored.format
    if len(stored.shape) != 2 or not isinstance(fmt, Stack) or not 0 < stored.count <= MAX_ENTRIES:
        return None
    (outer, inner), axis = fmt.levels, fmt.order[0]
    height, across = stored.shape[axis], stored.shape[1 - axis]
    if height + across > 4 * stored.count:
        return None
    arrays: Mapping[str, Ints] = stored.arrays  # type: ignore[assignment]
    match outer, inner:
        case Dense(), Compressed(runs=False):
            pos, idx = (arrays[n] for n in inner.names)
            return Rows(axis, pos, idx, across)
        case Listed(), Listed():
            first = arrays[outer.names[0]][: stored.count]
            pos = np.searchsorted(first, np.arange(height + 1))
            return Rows(axis, pos, arrays[inner.names[0]], across)
        case _:
            return None


class Sample:
    """Points of a join by the place of each index, drawn when they are asked for; ``total``: how
    many there are in all."""

    def __init__(self, total: float, draw: Callable[[], list[Ints]]) -> None:
        self.total, self._draw = total, draw

    @cached_property
    def columns(self) -> list[Ints]:
        return self._draw()

    @property
    def weight(self) -> float:
        """How many points each of the sample stands for."""
        return self.total / max(self.columns[0].size, 1)


Edge = tuple[Rows, str, str]  # the indices of the first and of the second axis
_Placed = tuple[Rows, int, int]
Key = tuple[tuple[int, int, int], ...]


def evenly(size: int, most: int) -> tuple[Ints, float]:
    """At most so many numbers below ``size``, one from each of as many equal ranges, and how many
    each stands for. Places in ranges follow the golden ratio: no period of the data meets them."""
    if size <= most:
        return np.arange(size), 1.0
    step = size / most
    number = np.arange(most)
    return ((number + (number * _GOLDEN) % 1.0) * step).astype(np.int64), step


def join_size(edges: Collection[Edge]) -> float:
    """About how many points of all the indices that occur have all these entries."""
    total = 1.0
    for part in _parts(edges):
        total *= _sample(_canonical(part)).total
    return total


class JoinSampler:
    """Sizes of joins, each worked out once. Sets of edges are bits of an integer."""

    def __init__(self) -> None:
        self._bits: dict[Edge, int] = {}
        self._edges: list[Edge] = []
        self._sizes: dict[int, tuple[float, frozenset[str]]] = {}

    def mask(self, edges: Iterable[Edge]) -> int:
        found = 0
        for e in edges:
            if e not in self._bits:
                self._bits[e] = 1 << len(self._edges)
                self._edges.append(e)
            found |= self._bits[e]
        return found

    @property
    def oriented(self) -> bool:
        """For some matrix it matters which index comes first."""
        return any(not rows.mirrored for rows, _, _ in self._edges)

    def edges(self, mask: int) -> list[Edge]:
        return [e for k, e in enumerate(self._edges) if mask >> k & 1]

    def within(self, mask: int, names: Collection[str]) -> int:
        """The edges all of whose indices are among these."""
        return self.mask([e for e in self.edges(mask) if e[1] in names and e[2] in names])

    def renamed(self, mask: int, names: Mapping[str, str]) -> int:
        """The edges with other names of indices."""
        return self.mask([(rows, names.get(a, a), names.get(b, b))
                          for rows, a, b in self.edges(mask)])

    def size(self, mask: int) -> tuple[float, frozenset[str]]:
        """The points of a join, and its indices."""
        found = self._sizes.get(mask)
        if found is None:
            edges = self.edges(mask)
            found = self._sizes[mask] = join_size(edges), frozenset(
                [n for _, *pair in edges for n in pair])
        return found


def is_worthwhile(edges: Collection[Edge]) -> bool:
    """A cycle of factors, of matrices neither small nor so large that looking takes long."""
    sizes = [rows.size for rows, _, _ in edges]
    return len({n for _, *pair in edges for n in pair}) <= MAX_INDICES and is_cyclic(edges) \
        and MIN_ENTRIES <= max(sizes) <= MAX_ENTRIES


def is_cyclic(edges: Iterable[Edge]) -> bool:
    """Some factor has two indices that others connect already."""
    above: dict[str, str] = {}

    def top(n: str) -> str:
        while n in above:
            n = above[n]
        return n

    for _, a, b in edges:
        a, b = top(a), top(b)
        if a == b:
            return True
        above[a] = b
    return False


def _parts(edges: Collection[Edge]) -> list[list[Edge]]:
    """The edges of each connected part."""
    found: list[tuple[set[str], list[Edge]]] = []
    for e in edges:
        names, mine, apart = {e[1], e[2]}, [e], []
        for others in found:
            if names.isdisjoint(others[0]):
                apart.append(others)
            else:
                names |= others[0]
                mine += others[1]
        found = [*apart, (names, mine)]
    return [mine for _, mine in found]


def _canonical(edges: Collection[Edge]) -> list[_Placed]:
    """The edges over places instead of names; the same for the same shape."""
    names = {n: k for k, n in enumerate(sorted({n for _, *pair in edges for n in pair}))}
    by_serial = {rows.serial: rows for rows, _, _ in edges}
    spelt = tuple(sorted([(rows.serial, names[a], names[b]) for rows, a, b in edges]))
    forms = by_serial[spelt[0][0]].forms
    found = forms.get(spelt)
    if found is None:
        found = forms[spelt] = _form(edges)
    return [(by_serial[serial], a, b) for serial, a, b in found]


def _form(edges: Collection[Edge]) -> Key:
    """The least of all ways to put places for names that tell apart what they can."""
    marks: dict[str, list[tuple[int, int]]] = {}
    for rows, a, b in edges:
        marks.setdefault(a, []).append((rows.serial, 0))
        marks.setdefault(b, []).append((rows.serial, 0 if rows.mirrored else 1))
    groups: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for n in sorted(marks):
        groups.setdefault(tuple(sorted(marks[n])), []).append(n)
    return tuple(min([_key(edges, {n: k for k, n in enumerate([n for g in some for n in g])})
                      for some in product(*(permutations(groups[g]) for g in sorted(groups)))]))


def _key(edges: Collection[Edge], place: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Edges by places, sorted; the direction of mirrored ones does not matter, nor how often
    they are there."""
    found = set()
    for rows, a, b in edges:
        p, q = place[a], place[b]
        found.add((rows.serial, q, p) if rows.mirrored and q < p else (rows.serial, p, q))
    return sorted(found)


def _sample(edges: list[_Placed]) -> Sample:
    kept = edges[0][0].samples
    key = tuple([(rows.serial, a, b) for rows, a, b in edges])
    found = kept.get(key)
    if found is None:
        found = kept[key] = _drawn(edges)
    return found


def _drawn(edges: list[_Placed]) -> Sample:
    places = {p for _, *pair in edges for p in pair}
    if len(places) == 2:
        return _first(edges)
    last = _last(edges, places)
    order = [p for p in sorted(places) if p != last]
    names = {p: str(k) for k, p in enumerate(order)}
    same, smaller = _matched([(r, names[a], names[b]) for r, a, b in edges if last not in (a, b)])
    columns: list[Ints] = [np.empty(0, np.int64)] * (len(order) + 1)
    for name, place in same.items():
        columns[order[int(name)]] = smaller.columns[place]
    return _extended(columns, smaller, last, [e for e in edges if last in e[1:]])


def _matched(edges: list[Edge]) -> tuple[dict[str, int], Sample]:
    """The sample of some edges, and the place of each name in it."""
    placed = _canonical(edges)
    names = sorted({n for _, *pair in edges for n in pair})
    wanted = [(rows.serial, a, b) for rows, a, b in placed]
    for some in permutations(range(len(names))):
        place = dict(zip(names, some))
        if _key(edges, place) == wanted:
            return place, _sample(placed)
    raise AssertionError("a canonical form is a renaming")


def _first(edges: list[_Placed]) -> Sample:
    """All edges are between the same two indices."""
    lead = min(edges, key=lambda e: e[0].size)
    coords, weight = lead[0].entries(SAMPLED_TUPLES if len(edges) == 1 else MAX_CANDIDATES)
    columns = [coords[lead[1:].index(0)], coords[lead[1:].index(1)]]
    return _checked(columns, weight, [e for e in edges if e is not lead])


def _last(edges: list[_Placed], places: set[int]) -> int:
    """The index that is bound last: the rest hangs together, few factors have it, and a factor
    stored by its other index leads to it."""

    def rank(p: int) -> tuple[bool, int, bool, int]:
        rest = [e for e in edges if p not in e[1:]]
        whole = len({q for _, *pair in rest for q in pair}) == len(places) - 1 and len(
            _parts([(r, str(a), str(b)) for r, a, b in rest])) == 1
        mine = [e for e in edges if p in e[1:]]
        return not whole, len(mine), not any(_is_led(e, p) for e in mine), p

    return min(places, key=rank)


def _is_led(e: _Placed, place: int) -> bool:
    """The lists of the other index are stored."""
    rows, a, b = e
    return rows.mirrored or (a, b)[1 - rows.axis] == place


def _extended(columns: list[Ints], sample: Sample, place: int, edges: list[_Placed]) -> Sample:
    """One more index, that all these edges have."""

    def given(e: _Placed) -> tuple[int, Ints]:
        return (0, columns[e[1]]) if e[2] == place else (1, columns[e[2]])

    lead = min(edges, key=lambda e: (not _is_led(e, place), int(e[0].lengths(*given(e)).sum())))
    lengths = lead[0].lengths(*given(lead))
    size = int(lengths.sum())
    if size == 0:
        return Sample(_unseen(sample.weight, sample.total), lambda: [c[:0] for c in columns])
    if len(edges) == 1:  # nothing to check
        return Sample(sample.weight * size, lambda: _drawn_from(
            columns, lead, place, given(lead), SAMPLED_TUPLES)[0])
    columns, step = _drawn_from(columns, lead, place, given(lead), MAX_CANDIDATES)
    return _checked(columns, sample.weight * step, [e for e in edges if e is not lead])


def _drawn_from(columns: list[Ints], lead: _Placed, place: int, given: tuple[int, Ints],
                most: int) -> tuple[list[Ints], float]:
    """Candidates for an index from the lists of one factor."""
    starts, lengths, items = lead[0].lists(*given)
    ends = np.cumsum(lengths)
    at, step = evenly(int(ends[-1]), most)
    owner = np.searchsorted(ends, at, side="right")
    found = [c[owner] if c.size else c for c in columns]
    found[place] = items[starts[owner] + at - (ends[owner] - lengths[owner])].astype(np.int64)
    return found, step


def _checked(columns: list[Ints], weight: float, edges: list[_Placed]) -> Sample:
    """What is left of candidates that have to be entries of some factors too."""
    before = weight * columns[0].size
    for rows, a, b in edges:
        kept = rows.has((columns[a], columns[b]))
        columns = [c[kept] for c in columns]
    left = columns[0].size
    many = left > SAMPLED_TUPLES
    drawn = [c[evenly(left, SAMPLED_TUPLES)[0]] for c in columns] if many else columns
    return Sample(weight * left if left else _unseen(weight, before), lambda: drawn)


def _unseen(weight: float, before: float) -> float:
    """The size of what the sample did not meet: less than a tuple, none if nothing was left out."""
    return 0.0 if weight <= 1.0 else min(weight / 2.0, before)
