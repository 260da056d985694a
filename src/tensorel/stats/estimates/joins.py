"""Joins and unions of relations."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod, sqrt

from tensorel.ir.given import estimate
from tensorel.stats.collected import grids
from tensorel.stats.estimates.bounds import NONE, Constraints, Names, tighten
from tensorel.stats.estimates.pointset import (
    Relation,
    closed,
    everything,
    hull,
    merged_bands,
    nothing,
    rename,
)
from tensorel.stats.estimates.polys import (
    Poly,
    added,
    indicator,
    least,
    multiply,
    scaled,
    survivors,
    to_total,
    total,
    total_of_product,
)


@estimate
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
    if any(result is r for r in relations) or not result.cardinality:
        return result
    result.parts = tuple([p for r in relations for p in r.parts or (r,)])
    if any(r.larger is not None for r in relations):
        result.larger = lambda: _unreduced(relations)
    return result


def _unreduced(relations: tuple[Relation, ...]) -> Relation:
    """The join before the reductions of its parts: the reduced indices get names of their own."""
    taken = set[str]().union(*[r.all for r in relations])
    wide: list[Relation] = []
    for r in relations:
        if r.larger is not None:
            inner = r.larger()
            mapping: dict[str, str] = {}
            for n in sorted(inner.all - r.all):
                mapping[n] = n
                while mapping[n] in taken:
                    mapping[n] += "'"
                taken.add(mapping[n])
            r = rename(inner, mapping)
        wide.append(r)
    return join(*wide)


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
    limits = {s: _shared_limit(a, b, s, (fan_a, fan_b), len(shared)) for s in shared}
    for s, limit in limits.items():
        if limit is not None:
            most = min(most, total(limit, extents[s]))
    counts = {s: to_total(multiply(a.counts[s], b.counts[s]), extents[s], estimate)
              for s in shared}
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


def _shared_limit(a: Relation, b: Relation, s: str, fans: tuple[float, float], shared: int
                  ) -> Poly | None:
    """Points per coordinate of a shared index: each of a's meets each of b's, and, when other
    indices must agree as well, at most its degree in the other."""
    product = multiply(a.limits[s], b.limits[s])
    if shared == 1:
        return product
    return least([product, scaled(a.limits[s], fans[1]), scaled(b.limits[s], fans[0])],
                 a.extents[s])


@estimate
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


@estimate
def extend(r: Relation, extents: dict[str, int]) -> Relation:
    """Each point with all values of the further indices."""
    missing = {n: e for n, e in extents.items() if n not in r.all}
    if not missing:
        return r
    return join(r, everything(missing))


@estimate
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
        counts[n] = to_total(added(a.counts[n], b.counts[n]), e, estimate)
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
