"""Starts of the search: placements that follow the structure of the lineage.

The greedy rules look at one aggregation group at a time and do not see that a product has rows,
columns and a summed index. These are found here: join groups that are connected by the blocks of
two operands (or of an operand and the target) have one index in common. Cutting along indices
gives grids and recursive bisections, whatever the program was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from tensorel.blocks.join_groups.lineage import FREE, JoinGroups, Placement, distinct, needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorel.blocks.join_groups.lineage import Floats, Ints

    Bools = NDArray[np.bool_]

_EFFORT = 60_000_000  # entries of lineage that one kind of start may visit
_ROUNDS = 12  # of spreading labels; indices of products need two


def chunks(label: Ints, work: Floats, parts: int) -> Ints:
    """Labels cut into so many ranges of about equal work; a label stays whole."""
    weight = np.bincount(label, work)
    before = np.cumsum(weight) - weight / 2
    cut = (before * (parts / max(float(weight.sum()), 1e-300))).astype(np.int64)
    found: Ints = np.minimum(cut, parts - 1)[label]
    return found


def loads(groups: JoinGroups) -> Floats:
    """Work of join groups, never all zero."""
    return groups.work if groups.work.any() else np.ones(len(groups.work))


def indices(groups: JoinGroups, keys: Ints | None) -> list[Ints]:
    """Labels of the join groups, each an index of the program: ``keys``, and what is connected by
    two of the columns of operands and target."""
    count, found = len(groups.target), []
    seen: set[bytes] = set()

    def add(values: Ints) -> bool:
        _, label = np.unique(values, return_inverse=True)
        name = label.tobytes()
        if label.max(initial=0) > 0 and name not in seen:
            seen.add(name)
            found.append(label.astype(np.int64))
            return True
        return False

    for column in () if keys is None else keys.T:
        add(column)
    if found:
        return found
    columns = [groups.target, *groups.blocks.T][:8]
    pairs = list(combinations(columns, 2))
    for first, second in pairs[: max(3, _EFFORT // (2 * _ROUNDS * max(count, 1)))]:
        label = _connected(first, second)
        if label is not None:
            add(label)
    if not found:
        for column in columns:
            add(column)
    return found


def _connected(first: Ints, second: Ints) -> Ints | None:
    """The connected components of join groups that share an entry of a column; None if the
    components are wide, as those of stencils are."""
    label = np.arange(len(first))
    for _ in range(_ROUNDS):
        before = label
        for column in (first, second):
            least = np.full(int(column.max(initial=0)) + 2, len(first))
            np.minimum.at(least, column, label)  # absent operands meet at the last entry
            label = np.where(column < 0, label, np.minimum(label, least[column]))
        label = label[label]
        if np.array_equal(before, label):
            return label
    return None


def grids(groups: JoinGroups, labels: list[Ints], sites: int) -> Iterator[Ints]:
    """Cells of all grids of so many sites over at most four indices."""
    labels = sorted(labels, key=lambda x: -int(x.max()))[:4]
    work = loads(groups)
    extents = [int(x.max()) + 1 for x in labels]
    shapes = [s for s in _shapes(sites, len(labels)) if all(p <= n for p, n in zip(s, extents))]
    shapes.sort(key=max)
    for shape in shapes[: max(2, _EFFORT // (8 * groups.blocks.size + 1))]:
        cell = np.zeros(len(groups.target), np.int64)
        for label, parts in zip(labels, shape):
            if parts > 1:
                cell = cell * parts + chunks(label, work, parts)
        yield cell


def _shapes(sites: int, axes: int) -> Iterator[tuple[int, ...]]:
    if axes <= 1:
        yield from [(sites,)] * axes
        return
    for parts in range(1, sites + 1):
        if sites % parts == 0:
            for rest in _shapes(sites // parts, axes - 1):
                yield (parts, *rest)


def bisection(groups: JoinGroups, labels: list[Ints], sites: int) -> Ints:
    """Cells by recursive bisection: each time along the index that cuts the fewest bytes."""
    cell = np.zeros(len(groups.target), np.int64)
    work = loads(groups)
    labels = labels[:6]
    rest: list[tuple[Ints, int, int]] = [(np.arange(len(cell)), 0, sites)]
    while rest:
        chosen, first, count = rest.pop()
        if count == 1 or not len(chosen):
            cell[chosen] = first
            continue
        share = (count // 2) / count
        best: tuple[float, Bools] | None = None
        for label in labels:
            left, off = _half(label[chosen], work[chosen], share)
            bytes_ = _cut(groups, chosen, left) * (1 + 8 * max(off - 0.03, 0.0)) + off
            if best is None or bytes_ < best[0]:
                best = bytes_, left
        if best is None:
            left = np.arange(len(chosen)) < share * len(chosen)
        else:
            left = best[1]
        rest.append((chosen[left], first, count // 2))
        rest.append((chosen[~left], first + count // 2, count - count // 2))
    return cell


def _half(label: Ints, work: Floats, share: float) -> tuple[Bools, float]:
    """Which are in the first part, ``share`` of the work; and how far off it is. Labels stay
    whole unless that is far from even."""
    low = int(label.min())
    weight = np.bincount(label - low, work)
    total = max(float(weight.sum()), 1e-300)
    before = np.cumsum(weight) / total
    at = int(np.abs(before - share).argmin())
    off = abs(float(before[at]) - share) / share
    if off < 0.25:
        return label <= at + low, off
    order = np.argsort(label, kind="stable")
    left = np.zeros(len(label), bool)
    left[order[np.cumsum(work[order]) <= share * total]] = True
    return left, 0.0


def _cut(groups: JoinGroups, chosen: Ints, left: Bools) -> float:
    """Bytes of blocks and targets that both parts touch."""
    total = 0.0
    for column, size in [(groups.target, groups.made),
                         *((c, groups.size) for c in groups.blocks.T)]:
        here = column[chosen]
        one, other = here[left], here[~left]
        mark = np.zeros(len(size) + 1, np.int8)
        mark[one] = 1
        both = other[mark[other] == 1]
        mark[both] = 2
        mark[-1] = 0  # absent operands
        total += float(size[np.flatnonzero(mark[:-1] == 2)].sum())
    return total


def named(groups: JoinGroups, cell: Ints, sites: int, chosen: Ints) -> Ints:
    """The chosen sites for as many cells: each cell, the one that has most at a site first, is at
    the site that holds most of its bytes."""
    block, where = needed(groups, cell, sites)
    known = groups.home[block] >= 0
    block, where = block[known], where[known]
    pair = where * sites + groups.home[block]
    held = np.bincount(pair, groups.size[block], sites * sites).reshape(sites, sites)
    held = held[: len(chosen), chosen]
    site = np.full(len(chosen), FREE)
    left = np.ones(len(chosen), bool)
    for c in np.argsort(-held.max(1), kind="stable"):
        s = int(np.where(left, held[c], -1.0).argmax())
        site[c] = chosen[s]
        left[s] = False
    found: Ints = site[cell]
    return found


def at_data(groups: JoinGroups, sites: int) -> Iterator[Ints]:
    """Join groups where most bytes of their operands lie; and so that work is even."""
    if not groups.blocks.size or not len(groups.home):
        return
    present = groups.blocks >= 0
    home = np.where(present, groups.home[groups.blocks], FREE)
    size = np.where(present, groups.size[groups.blocks], 0.0)
    bytes_ = np.stack([((home == h[:, None]) * size).sum(1) * (h >= 0) for h in home.T], 1)
    rows = np.arange(len(home))
    pick = bytes_.argmax(1)
    site = home[rows, pick]
    free = site < 0
    work = loads(groups)
    cap = float(work.sum()) / sites
    if free.any():
        site = _filled(site, np.flatnonzero(free), work, cap, sites)
        yield site.copy()
    else:
        yield site
    order = np.lexsort((rows, -bytes_[rows, pick], site))
    spent = np.cumsum(work[order])
    first = np.searchsorted(site[order], np.arange(sites))
    base = np.concatenate([[0.0], spent])[first]
    over = order[spent - base[site[order]] > cap * 1.02]
    if len(over):
        site = site.copy()
        site[over] = FREE
        yield _filled(site, np.sort(over), work, cap, sites)


def _filled(site: Ints, loose: Ints, work: Floats, cap: float, sites: int) -> Ints:
    """``loose`` join groups, in this order, on the sites with room."""
    set_ = site >= 0
    room = np.cumsum(np.maximum(cap - np.bincount(site[set_], work[set_], sites), 1e-9 * cap))
    need = np.cumsum(work[loose])
    at = np.searchsorted(room, need * (room[-1] / max(float(need[-1]), 1e-300)) * (1 - 1e-9))
    site[loose] = np.minimum(at, sites - 1)
    return site


def complete(groups: JoinGroups, group_site: Ints, sites: int) -> Placement:
    """Targets at sites that make a part of them, free blocks at sites that need them, in turn
    where there are several."""
    target, at, _ = distinct(groups.target, group_site, sites)
    finish = _spread(target, at, len(groups.made), sites)
    block, to = needed(groups, group_site, sites)
    home = np.where(groups.home >= 0, groups.home, _spread(block, to, len(groups.home), sites))
    return Placement(group_site, finish, home)


def _spread(owner: Ints, at: Ints, owners: int, sites: int) -> Ints:
    """One of the sites of each owner; those with the same first site take turns."""
    count = np.bincount(owner, minlength=owners)
    start = np.cumsum(count) - count
    found = np.arange(owners) % sites
    some = np.flatnonzero(count)
    kind = at[start[some]] * (sites + 1) + count[some]
    order = np.argsort(kind, kind="stable")
    ordered = kind[order]
    turn = np.empty(len(some), np.int64)
    turn[order] = np.arange(len(some)) - np.searchsorted(ordered, ordered)
    found[some] = at[start[some] + turn % count[some]]
    return found


def clusters(groups: JoinGroups, labels: list[Ints], most: int) -> Ints:
    """At most about ``most`` sets of join groups that have much in common."""
    if len(groups.target) <= most:
        return np.arange(len(groups.target))
    labels = sorted(labels, key=lambda x: -int(x.max()))[:3]
    if not labels:
        labels = [np.arange(len(groups.target))]
    parts = [1] * len(labels)
    extents = [int(x.max()) + 1 for x in labels]
    while True:
        grows = [a for a in range(len(labels)) if 2 * parts[a] <= 2 * extents[a]
                 and 2 * np.prod(parts) <= most and parts[a] < extents[a]]
        if not grows:
            break
        parts[min(grows, key=lambda a: parts[a] / extents[a])] *= 2
    cell = np.zeros(len(groups.target), np.int64)
    work = loads(groups)
    for label, count in zip(labels, parts):
        cell = cell * count + chunks(label, work, count)
    return cell
