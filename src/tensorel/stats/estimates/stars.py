"""Bounds of joins from count vectors: pairs, and stars of one relation with those around it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from tensorel.stats.estimates.bounds import Names, whole
from tensorel.stats.estimates.polys import Poly, multiply, total, total_of_product

if TYPE_CHECKING:
    from tensorel.stats.estimates.pointset import Relation

#: More parts than these are not looked at.
MAX_PARTS = 6


def part_bounds(parts: tuple[Relation, ...]) -> Iterator[tuple[Names, float]]:
    """(indices, at most so many values of them), for joins of at least three relations."""
    if 2 < len(parts) <= MAX_PARTS:
        yield from _pairs(parts)
        for centre in parts:
            yield from _star(centre, parts)


def _pairs(parts: tuple[Relation, ...]) -> Iterator[tuple[Names, float]]:
    """The size of a pair that shares one index, exact for exact count vectors."""
    for a, b in combinations(parts, 2):
        shared = a.all & b.all
        if len(shared) == 1:
            (s,) = shared
            points = total_of_product(a.limits[s], b.limits[s], a.extents[s])
            if points is not None:
                yield a.all | b.all, whole(points)


def _star(centre: Relation, parts: tuple[Relation, ...]) -> Iterator[tuple[Names, float]]:
    """Points of one part with the parts that hang on its indices x, y, ..., m of them: Hölder's
    inequality bounds ``sum(points) dx[x] * dy[y] * ...`` by the product of the m-th roots of
    ``sum(points) dx[x] ** m``, and the count vector of x turns each into a sum over x."""
    arms: dict[str, Poly | None] = {}
    names = centre.all
    for part in parts:
        shared = part.all & centre.all
        if part is not centre and len(shared) == 1:
            (s,) = shared
            arms[s] = multiply(arms[s], part.limits[s]) if s in arms else part.limits[s]
            names |= part.all
    m, value = len(arms), 1.0
    if not 1 < m < 4:
        return
    for s, degrees in arms.items():
        weighted = centre.limits[s]
        for _ in range(m):
            weighted = multiply(weighted, degrees)
        if weighted is None:
            return
        value *= total(weighted, centre.extents[s]) ** (1 / m)
    yield names, whole(value)
