"""Joins, unions, reductions and selections of relations."""

from __future__ import annotations

from itertools import combinations
from math import expm1, inf, prod, sqrt

import numpy as np

from tensorel.stats import grids
from tensorel.stats.bounds import NONE, Constraints, Names, chain_bound, tighten, whole
from tensorel.stats.polys import (
    Poly,
    added,
    flat,
    indicator,
    multiply,
    profile_of,
    scaled,
    survivors,
    total,
    total_of_product,
)
from tensorel.stats.relation import (
    Relation,
    closed,
    everything,
    hull,
    merged_bands,
    nothing,
    with_bands,
)

#: Bounds by pairs are tried for joins of up to so many relations.
PAIRS_LIMIT = 6


def join(*relations: Relation) -> Relation:
    """The points that are in all: a product of tensors.

    >>> a, b = everything({"i": 3, "k": 2}), everything({"k": 2, "j": 5})
    >>> join(a, b)
    Relation(i in 3, k in 2, j in 5: about 30, at most 30)
    """
    rest = list(relations)
    if not rest:
        return everything({})
    result = rest.pop(0)
    while rest:
        near = max(range(len(rest)), key=lambda k: len(rest[k].all & result.all))
        result = _join(result, rest.pop(near))
    fresh = not any(result is r for r in relations)
    if fresh and 2 < len(relations) <= PAIRS_LIMIT and result.cardinality:
        _add_pairs(relations, result)
    return result


def _add_pairs(relations: tuple[Relation, ...], result: Relation) -> None:
    """The exact sizes of pairs that share one index bound the join as well."""
    for k, a in enumerate(relations):
        for b in relations[k + 1 :]:
            shared = a.all & b.all
            if len(shared) == 1:
                (s,) = shared
                points = total_of_product(a.limits[s], b.limits[s], a.extents[s])
                if points is not None:
                    tighten(result.constraints, NONE, a.all | b.all, 1.0, points)
    result.estimate = min(result.estimate, result.cardinality)


def _join(a: Relation, b: Relation) -> Relation:
    if a is b:
        return a
    extents = {**a.extents, **b.extents}
    shared = a.all & b.all
    card_a, card_b = a.cardinality, b.cardinality
    if not card_a or not card_b:
        return nothing(extents)
    fan_a = a.degree_bound(shared) if shared else card_a
    fan_b = b.degree_bound(shared) if shared else card_b
    most = min(card_a * fan_b, card_b * fan_a, prod(map(float, extents.values())))
    estimate = min(matches(a, b, shared), a.estimate * fan_b, b.estimate * fan_a)
    limits: dict[str, Poly | None] = {}
    counts: dict[str, Poly | None] = {}
    for s in shared:
        limit = multiply(a.limits[s], b.limits[s])
        if len(shared) > 1:
            limit = _least([limit, scaled(a.limits[s], fan_b), scaled(b.limits[s], fan_a)],
                           extents[s])
        limits[s] = limit
        if limit is not None:
            most = min(most, total(limit, extents[s]))
        counts[s] = _to_total(multiply(a.counts[s], b.counts[s]), extents[s], estimate)
    distinct = _shared_distinct(a, b, shared)
    for own, other, fan in ((a, b, fan_b), (b, a, fan_a)):
        stay = _staying(own, other, shared, estimate)
        grown = estimate / own.estimate if own.estimate else 0.0
        for n in own.all - shared:
            limits[n] = scaled(own.limits[n], fan)
            counts[n] = scaled(own.counts[n], grown)
            distinct[n] = survivors(own.counts[n], extents[n], own.distinct[n], own.estimate, stay)
    constraints: Constraints = dict(a.constraints)
    for key, value in b.constraints.items():
        if value < constraints.get(key, inf):
            constraints[key] = value
    tighten(constraints, NONE, frozenset(extents), 1.0, most)
    if not extents:
        constraints[NONE, NONE, 1.0] = most
    return Relation(extents, min(estimate, most), {n: distinct[n] for n in extents}, counts,
                    limits, constraints, merged_bands(a.bands, b.bands),
                    grids.together(a.grids, b.grids))


def _least(polys: list[Poly | None], extent: int) -> Poly | None:
    held = [p for p in polys if p is not None]
    return min(held, key=lambda p: total(p, extent), default=None)


def _to_total(p: Poly | None, extent: int, wanted: float) -> Poly | None:
    if p is None:
        return None
    now = total(p, extent)
    return scaled(p, wanted / now) if now > 0 else p


def matches(a: Relation, b: Relation, shared: Names) -> float:
    """The expected number of pairs of points that agree in the shared indices.

    One index: exact for exact count vectors. Several: chances multiply, after the share of
    bands that the two have in common."""
    ea, eb = a.estimate, b.estimate
    if not ea or not eb:
        return 0.0
    result = ea * eb
    for s in shared:
        points = total_of_product(a.counts[s], b.counts[s], a.extents[s])
        if points is None:
            result /= max(a.distinct[s], b.distinct[s], 1.0)
        else:
            result *= points / (ea * eb)
    if len(shared) < 2:
        return result
    return result * max(_band_lift(a, b, shared), _grid_lift(a, b, shared))


def _band_lift(a: Relation, b: Relation, shared: Names) -> float:
    """How much likelier points meet that both lie in bands."""
    if not a.bands or not b.bands:
        return 1.0
    lift = 1.0
    theirs = closed(b.bands)
    for (x, y), (low, high) in closed(a.bands).items():
        held = theirs.get((x, y))
        if held is None and (y, x) in theirs:
            held = -theirs[y, x][1], -theirs[y, x][0]
        if held is not None and x in shared and y in shared:
            common = min(high, held[1]) - max(low, held[0]) + 1
            span = min(a.extents[x], a.extents[y])
            own, other = (min(v, span) for v in (high - low + 1, held[1] - held[0] + 1))
            lift *= max(common, 0.0) * span / (own * other)
    return lift


def _grid_lift(a: Relation, b: Relation, shared: Names) -> float:
    """The same by tiles, for the first pair of indices that both know."""
    if a.grids and b.grids:
        for x, y in combinations(sorted(shared), 2):
            first = grids.through(a.grids, x, y, a.all - shared)
            second = first and grids.through(b.grids, x, y, b.all - shared)
            if first is not None and second is not None:
                return grids.lift(first, second)
    return 1.0


def _shared_distinct(a: Relation, b: Relation, shared: Names) -> dict[str, float]:
    found: dict[str, float] = {}
    for s in shared:
        n, da, db = a.extents[s], a.distinct[s], b.distinct[s]
        if da >= n or db >= n:
            found[s] = min(da, db)
            continue
        both = total_of_product(indicator(a.counts[s]), indicator(b.counts[s]), n)
        found[s] = min(da * db / n if both is None else both, da, db)
    return found


def _staying(own: Relation, other: Relation, shared: Names, estimate: float) -> float:
    """The share of ``own``'s points that have a partner in ``other``."""
    if not own.estimate:
        return 0.0
    if len(shared) == 1:
        (s,) = shared
        n = own.extents[s]
        if other.distinct[s] >= n:
            return 1.0
        held = total_of_product(own.counts[s], indicator(other.counts[s]), n)
        if held is not None:
            return min(held / own.estimate, 1.0)
        return min(other.distinct[s] / max(n, 1), 1.0)
    return min(estimate / own.estimate, 1.0) if shared else min(other.estimate, 1.0)


def extend(r: Relation, extents: dict[str, int]) -> Relation:
    """Each point with all values of the further indices."""
    missing = {n: e for n, e in extents.items() if n not in r.all}
    if not missing:
        return r
    return join(r, everything(missing))


def union(*relations: Relation) -> Relation:
    """The points that are in any: a sum of tensors."""
    extents: dict[str, int] = {}
    for r in relations:
        extents.update(r.extents)
    if not relations:
        return nothing(extents)
    wide = [extend(r, extents) for r in relations]
    result = wide[0]
    for r in wide[1:]:
        result = _union(result, r)
    return result


def _union(a: Relation, b: Relation) -> Relation:
    if a is b or not b.cardinality:
        return a
    if not a.cardinality:
        return b
    extents, everyone = a.extents, a.all
    common = min(matches(a, b, everyone), a.estimate, b.estimate)
    estimate = a.estimate + b.estimate - common
    constraints: Constraints = {}
    for given, counted, p in _kinds(everyone, a.constraints, b.constraints):
        value = _implied(a, given, counted, p) + _implied(b, given, counted, p)
        tighten(constraints, given, counted, p, value)
    room = prod(map(float, extents.values()))
    if not extents:
        constraints[NONE, NONE, 1.0] = min(a.cardinality + b.cardinality, 1.0)
    else:
        tighten(constraints, NONE, everyone, 1.0, room)
    counts: dict[str, Poly | None] = {}
    limits: dict[str, Poly | None] = {}
    distinct: dict[str, float] = {}
    for n, e in extents.items():
        tighten(constraints, NONE, frozenset((n,)), 1.0, float(e))
        counts[n] = _to_total(added(a.counts[n], b.counts[n]), e, estimate)
        limits[n] = added(a.limits[n], b.limits[n])
        da, db = a.distinct[n], b.distinct[n]
        both = total_of_product(indicator(a.counts[n]), indicator(b.counts[n]), e)
        distinct[n] = min(da + db - (da * db / max(e, 1) if both is None else both), float(e))
    return Relation(extents, estimate, distinct, counts, limits, constraints,
                    hull(closed(a.bands), closed(b.bands)), grids.either(a.grids, b.grids))


def _kinds(names: Names, ca: Constraints, cb: Constraints) -> list[tuple[Names, Names, float]]:
    kinds: list[tuple[Names, Names, float]] = [(NONE, names, 1.0)] if names else []
    for n in names:
        one = frozenset((n,))
        kinds.append((NONE, one, 1.0))
        if len(names) > 1:
            kinds += [(one, names - one, inf), (one, names - one, 2.0)]
    kinds += [k for k in ca if k in cb and k not in kinds]
    return kinds


def _implied(r: Relation, given: Names, counted: Names, p: float) -> float:
    held = r.constraints.get((given, counted, p))
    if held is not None:
        return held
    room = prod([float(r.extents[n]) for n in counted])
    degree = min(r.chains.bound(given | counted, given), room)
    if p == inf or not given:
        return degree
    size = min(r.chains.bound(given | counted),
               prod([float(r.extents[n]) for n in given]) * degree)
    return size if p == 1 else sqrt(size * degree)


def reduce_over(r: Relation, names: Names | set[str] | list[str] | tuple[str, ...]) -> Relation:
    """The values of the other indices that have a point: a reduction over ``names``."""
    gone = r.all.intersection(names)
    if not gone:
        return r
    extents = {n: e for n, e in r.extents.items() if n not in gone}
    keep = frozenset(extents)
    if not keep:
        done = min(r.cardinality, 1.0)
        return Relation({}, min(r.estimate, done), {}, {}, {}, {(NONE, NONE, 1.0): done}, {})
    constraints = _projected(r, keep)
    bands = {pair: b for pair, b in closed(r.bands).items() if keep.issuperset(pair)}
    tighten(constraints, NONE, keep, 1.0, min(r.cardinality, prod(map(float, extents.values()))))
    most = whole(chain_bound(constraints, keep))
    tighten(constraints, NONE, keep, 1.0, most)
    estimate = min(_filled(r, keep, most), r.estimate, most)
    counts: dict[str, Poly | None] = {}
    limits: dict[str, Poly | None] = {}
    for n, e in extents.items():
        counts[n] = _to_total(r.counts[n], e, estimate)
        degree = constraints.get((frozenset((n,)), keep - {n}, inf), most)
        limits[n] = _least([r.limits[n], flat(degree if len(keep) > 1 else 1.0)], e)
    distinct = {n: min(r.distinct[n], estimate) for n in extents}
    return Relation(extents, estimate, distinct, counts, limits, constraints, bands,
                    _grids_after(r, keep), r)


def _grids_after(r: Relation, keep: Names) -> grids.Grids:
    made = {pair: g for pair, g in r.grids.items() if keep.issuperset(pair)}
    if not made and len(keep) == 2:
        x, y = sorted(keep)
        found = grids.through(r.grids, x, y, r.all - keep)
        if found is not None:
            made[x, y] = found
    return made


def project(r: Relation, names: Names | set[str] | list[str] | tuple[str, ...]) -> Relation:
    """The values of ``names`` that have a point."""
    return reduce_over(r, r.all.difference(names))


def _projected(r: Relation, keep: Names) -> Constraints:
    """Constraints of the projection. Dropping counted indices only lowers counts; constraints
    that are given a dropped index live on through the chains that used them."""
    constraints: Constraints = {}
    for (given, counted, p), value in with_bands(r).items():
        if given <= keep:
            tighten(constraints, given, counted & keep, p, value)
    if len(keep) > 1:
        for n in keep:
            one = frozenset((n,))
            tighten(constraints, one, keep - one, inf, r.chains.bound(keep, one))
            if len(keep) > 2:
                for m in keep - one:
                    tighten(constraints, one, frozenset((m,)), inf,
                            r.chains.bound(frozenset((m,)), one))
    return constraints


def _filled(r: Relation, keep: Names, most: float) -> float:
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
    least = points
    if len(keep) == 2 and r.grids:
        x, y = sorted(keep)
        grid = grids.through(r.grids, x, y, r.all - keep)
        if grid is not None:
            least = grids.filled(grid, points)
    if len(keep) == 2:
        x, y = sorted(keep)
        rows, columns = profile_of(r.counts[x], r.extents[x]), profile_of(r.counts[y], r.extents[y])
        if rows is not None and columns is not None and rows.sizes.size + columns.sizes.size > 2:
            share = room / max(r.distinct[x] * r.distinct[y], 1.0)
            alive_x = min(r.distinct[x] / max(float(rows.sizes.sum()), 1.0), 1.0)
            alive_y = min(r.distinct[y] / max(float(columns.sizes.sum()), 1.0), 1.0)
            cells = np.outer(rows.sizes * alive_x, columns.sizes * alive_y) * share
            hits = np.outer(rows.sizes * rows.degrees, columns.sizes * columns.degrees)
            hits *= points / max(float(hits.sum()), 1e-300)
            held = (cells * -np.expm1(-hits / np.maximum(cells, 1e-300))).sum()
            return min(float(held), least)
    return min(room * -expm1(-points / room), least)


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


def restrict(r: Relation, name: str, fraction: float | None = None, bound: float | None = None
             ) -> Relation:
    """The points whose ``name`` is in some set: about ``fraction`` of the coordinates that
    occur, at most ``bound`` of them."""
    held = r.distinct[name]
    if fraction is None:
        fraction = 1.0 if bound is None else min(bound / held, 1.0) if held else 0.0
    one = frozenset((name,))
    constraints = dict(r.constraints)
    if bound is not None:
        tighten(constraints, NONE, one, 1.0, float(bound))
        tighten(constraints, NONE, r.all, 1.0, whole(chain_bound(constraints, r.all)))
    estimate = r.estimate * fraction
    distinct = {
        n: d * fraction if n == name else survivors(r.counts[n], r.extents[n], d, r.estimate,
                                                    fraction)
        for n, d in r.distinct.items()}
    counts = {n: scaled(c, fraction) for n, c in r.counts.items()}
    return Relation(r.extents, estimate, distinct, counts, r.limits, constraints, r.bands,
                    r.grids)


