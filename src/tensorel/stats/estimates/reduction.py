"""Reductions and selections of relations."""

from __future__ import annotations

import copy
from collections.abc import Collection
from functools import partial
from math import expm1, inf, prod

import numpy as np

from tensorel.ir.given import estimate
from tensorel.stats.collected import grids
from tensorel.stats.estimates.bounds import NONE, Constraints, Names, tighten, whole
from tensorel.stats.estimates.pointset import Later, Limits, Relation, closed, with_bands
from tensorel.stats.estimates.polys import (
    Poly,
    flat,
    indicator,
    least,
    profile_of,
    scaled,
    to_total,
)

MAX_PAIRED_INDICES = 6  # relations of more indices keep no bounds between each two of them


@estimate
def reduce_over(r: Relation, names: Collection[str]) -> Relation:
    """The values of the other indices that have a point: a reduction over ``names``."""
    gone = r.all.intersection(names)
    if not gone:
        return r
    extents = {n: e for n, e in r.extents.items() if n not in gone}
    keep = frozenset(extents)
    if not keep:
        done = min(r.cardinality, 1.0)
        return Relation({}, min(r.estimate, done), {}, {}, {}, {(NONE, NONE, 1.0): done}, {})
    bands = {pair: b for pair, b in closed(r.bands).items() if keep.issuperset(pair)}
    estimate, most, cells = _sized(r, keep)
    counts: dict[str, Poly | None] = {}
    for n, e in extents.items():
        each = r.counts[n] if len(keep) > 1 else indicator(r.counts[n])  # alone: once each
        counts[n] = to_total(each, e, estimate)
    distinct = {n: min(r.distinct[n], estimate) for n in extents}
    made = Relation(extents, estimate, distinct, counts, partial(_limits, r),
                    Later(most, partial(_projected, r, keep, most)), bands, cells)
    made.larger = lambda: r
    return made


def _sized(r: Relation, keep: Names) -> tuple[float, float, grids.Grids]:
    """How many values of some indices have a point, as expected and at most; cells per tile."""
    room = prod([float(r.extents[n]) for n in keep])
    most = whole(min(r.cardinality, room, r.chains.bound(keep)))
    cells = _grids_after(r, keep)
    return min(_filled(r, keep, most, cells), r.estimate, most), most, cells


@estimate
def projected_estimate(r: Relation, names: Collection[str]) -> float:
    """The estimate of ``project(r, names)``, for several of its indices. Relations of many are
    not asked for chains: these are many, and long ones bound little."""
    keep = r.all.intersection(names)
    if len(r.all) <= MAX_PAIRED_INDICES:
        return max(_sized(r, keep)[0], 0.0)
    room = prod([float(r.extents[n]) for n in keep])
    return min(_filled(r, keep, min(r.cardinality, room), _grids_after(r, keep)), r.estimate, room)


def _limits(wide: Relation, r: Relation) -> Limits:
    """Of a projection."""
    found: Limits = {}
    for n, e in r.extents.items():
        degree = 1.0 if len(r.all) == 1 else r.constraints.get(
            (frozenset((n,)), r.all - {n}, inf), r.cardinality)
        found[n] = least([wide.limits[n], flat(degree)], e)
    return found


def _grids_after(r: Relation, keep: Names) -> grids.Grids:
    """Cells per tile, for pairs of indices that stay."""
    made = {pair: g for pair, g in r.grids.items() if keep.issuperset(pair)}
    if not made and len(keep) == 2:
        x, y = sorted(keep)
        found = grids.through(r.grids, x, y, r.all - keep)
        if found is not None:
            made[x, y] = found
    return {pair: grids.filled(g, r.estimate) for pair, g in made.items()}


@estimate
def project(r: Relation, names: Collection[str]) -> Relation:
    """The values of ``names`` that have a point."""
    return reduce_over(r, r.all.difference(names))


def _projected(r: Relation, keep: Names, most: float) -> Constraints:
    """Constraints of a projection of at most ``most`` points. Dropping counted indices only lowers
    counts; constraints that are given a dropped index live on through the chains that used them."""
    constraints: Constraints = {}
    for (given, counted, p), value in with_bands(r).items():
        if given <= keep:
            tighten(constraints, given, counted & keep, p, value)
    if len(keep) > 1:
        for n in keep:
            one = frozenset((n,))
            tighten(constraints, one, keep - one, inf, r.chains.bound(keep, one))
            if 2 < len(keep) <= MAX_PAIRED_INDICES:
                for m in keep - one:
                    tighten(constraints, one, frozenset((m,)), inf,
                            r.chains.bound(frozenset((m,)), one))
    tighten(constraints, NONE, keep, 1.0, most)
    return constraints


def _filled(r: Relation, keep: Names, most: float, cells: grids.Grids) -> float:
    """Expected number of cells hit by the points, as uneven as the indices are: bins of alike
    coordinates of two indices make a grid, each square of which fills up by itself."""
    points = r.estimate
    if points <= 0 or most <= 0:
        return 0.0
    if len(keep) == 1:
        (n,) = keep
        return min(r.distinct[n], points)
    if keep in r.exact:
        return most
    room = _room(r, keep)
    fewest = points
    if len(keep) == 2:
        fewest = min([float(g.points.sum()) for g in cells.values()], default=points)
        x, y = sorted(keep)
        rows, columns = profile_of(r.counts[x], r.extents[x]), profile_of(r.counts[y], r.extents[y])
        if rows is not None and columns is not None and rows.sizes.size + columns.sizes.size > 2:
            share = room / max(r.distinct[x] * r.distinct[y], 1.0)
            alive_x = min(r.distinct[x] / max(float(rows.sizes.sum()), 1.0), 1.0)
            alive_y = min(r.distinct[y] / max(float(columns.sizes.sum()), 1.0), 1.0)
            places = np.outer(rows.sizes * alive_x, columns.sizes * alive_y) * share
            hits = np.outer(rows.sizes * rows.degrees, columns.sizes * columns.degrees)
            hits *= points / max(float(hits.sum()), 1e-300)
            held = (places * -np.expm1(-hits / np.maximum(places, 1e-30))).sum()
            return min(float(held), fewest)
    return min(room * -expm1(-points / room), fewest)


def _room(r: Relation, keep: Names) -> float:
    """Cells that can be hit: coordinates that occur, within bands."""
    bands = closed(r.bands)
    room, bound = 1.0, list[str]()
    for n in sorted(keep):
        ways = max(r.distinct[n], 1.0)
        for m in bound:
            band = bands.get((m, n)) or bands.get((n, m))
            if band is not None:
                ways = min(ways, max(band[1] - band[0] + 1, 1.0))
        room *= ways
        bound.append(n)
    return room


@estimate
def in_slices(r: Relation, name: str, share: float) -> Relation:
    """As many points, at a share of the values of an index."""
    other = copy.copy(r)
    other.distinct = {**r.distinct, name: min(r.extents[name] * share, r.estimate)}
    return other


@estimate
def asked_for(r: Relation, name: str) -> Relation:
    """As it looks to somebody who asks at such values of an index alone as it has: as if it had
    all of them."""
    factor = r.extents[name] / max(r.distinct[name], 1.0)
    if factor <= 1.0:
        return r
    other = copy.copy(r)
    other.estimate = r.estimate * factor
    other.distinct = {**r.distinct, name: float(r.extents[name])}
    other.counts = {n: flat(other.estimate / r.extents[name]) if n == name else scaled(c, factor)
                    for n, c in r.counts.items()}
    return other
