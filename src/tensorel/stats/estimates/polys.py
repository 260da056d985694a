"""Polynomials of count vectors: ``sum of scale * v1[x] * v2[x] * ...`` at each coordinate x of
one index. No vectors in a term: the same at each coordinate. None: not known."""

from __future__ import annotations

import numpy as np

from tensorel.stats.collected.count_vectors import Profile, Vector, product_sum, profile

Poly = tuple[tuple[float, tuple[Vector, ...]], ...]
_MAX_TERMS = 4
_MAX_FACTORS = 6


def flat(value: float) -> Poly:
    return ((value, ()),)


def single(vector: Vector) -> Poly:
    return ((1.0, (vector,)),)


def scaled(p: Poly | None, by: float) -> Poly | None:
    if p is None or by == 1.0:
        return p
    return tuple([(s * by, vs) for s, vs in p])


def multiply(p: Poly | None, q: Poly | None) -> Poly | None:
    """The product; None when it has too many terms to be worth it."""
    if p is None or q is None or len(p) * len(q) > _MAX_TERMS:
        return None
    terms = tuple([(s * t, vs + ws) for s, vs in p for t, ws in q])
    return None if any(len(vs) > _MAX_FACTORS for _, vs in terms) else terms


def added(p: Poly | None, q: Poly | None) -> Poly | None:
    if p is None or q is None or len(p) + len(q) > _MAX_TERMS:
        return None
    return p + q


def total(p: Poly, extent: int) -> float:
    """The sum over all coordinates."""
    result = 0.0
    for scale, vectors in p:
        result += scale * product_sum(vectors, extent)
    return result


def total_of_product(p: Poly | None, q: Poly | None, extent: int) -> float | None:
    product = multiply(p, q)
    return None if product is None else total(product, extent)


def indicator(p: Poly | None) -> Poly | None:
    """1 where the polynomial is not 0, for a single term."""
    if p is None or len(p) != 1:
        return None
    return ((1.0, tuple([v.indicator() for v in p[0][1]])),)


def profile_of(p: Poly | None, extent: int) -> Profile | None:
    """The profile of a single term, scaled."""
    if p is None or len(p) != 1:
        return None
    scale, vectors = p[0]
    found = profile(vectors, extent)
    return found if scale == 1.0 else Profile(found.sizes, found.degrees * scale)


def survivors(p: Poly | None, extent: int, distinct: float, points: float, share: float
              ) -> float:
    """How many coordinates keep a point when each point stays with chance ``share``."""
    if share >= 1.0:
        return distinct
    if share <= 0.0 or distinct <= 0.0:
        return 0.0
    loss = np.log1p(-share)
    found = profile_of(p, extent)
    if found is None:
        return float(distinct * -np.expm1(loss * max(points / distinct, 1.0)))
    return float(np.dot(found.sizes, -np.expm1(loss * np.maximum(found.degrees, 1.0))))


def least(polys: list[Poly | None], extent: int) -> Poly | None:
    """The one with the least sum."""
    held = [p for p in polys if p is not None]
    return min(held, key=lambda p: total(p, extent), default=None)


def to_total(p: Poly | None, extent: int, wanted: float) -> Poly | None:
    """Scaled to a sum of ``wanted``."""
    if p is None:
        return None
    now = total(p, extent)
    return scaled(p, wanted / now) if now > 0 else p
