"""Count vectors: for each coordinate of an axis, how many entries have it.

A relation over named indices keeps per index a *polynomial* of count vectors: a sum of terms
``scale * v1[x] * v2[x] * ...``. Joins multiply polynomials, unions add them, so the number of
points of A[i,k] * B[k,j], ``sum(k) dA[k] * dB[k]``, is exact. Sums over the axis are memoized
with the first vector: planning asks for the same few again and again.
"""

from __future__ import annotations

from itertools import count
from math import sqrt

import numpy as np
import numpy.typing as npt

from tensorel.storage.limits import require

FloatArray = npt.NDArray[np.float64]
Counts = npt.NDArray[np.unsignedinteger]
#: Profiles have at most this many bins.
MAX_BINS = 24
_CHUNK_COUNTS = 1 << 13  # below the size from which BLAS uses threads for a dot product
_MAX_HISTOGRAM_VALUE = 1 << 16
_HISTOGRAM_CHUNK = 1 << 16  # values at a time: they stay in the cache
_MAX_KEPT_PRODUCTS = 256
_serial = count()  # identity of vectors in memo keys; never shown


class Vector:
    """Counts of one axis: ``counts[x]`` for each x, or for the ascending ``keys`` alone.

    Immutable. Counts are kept in the narrowest dtype."""

    __slots__ = ("_memo", "counts", "extent", "keys", "serial")

    def __init__(self, counts: npt.NDArray[np.generic], extent: int,
                 keys: npt.NDArray[np.signedinteger] | None = None) -> None:
        most = int(counts.max()) if counts.size else 0
        self.counts: Counts = counts.astype(np.min_scalar_type(most), copy=False)
        self.keys = keys
        self.extent = extent
        self.serial = next(_serial)
        self._memo: dict[object, object] = {("max",): float(most)}

    def __repr__(self) -> str:
        return f"Vector({self.distinct} of {self.extent}, sum {self.total:g}, max {self.largest:g})"

    def _keep(self, key: object, value: object) -> None:
        if len(self._memo) >= _MAX_KEPT_PRODUCTS:
            self._memo.clear()
        self._memo[key] = value

    @property
    def total(self) -> float:
        return product_sum((self,), self.extent)

    @property
    def largest(self) -> float:
        found = self._memo.get(("max",))
        if found is None:
            found = float(self.counts.max()) if self.counts.size else 0.0
            self._keep(("max",), found)
        return found  # type: ignore[return-value]

    @property
    def distinct(self) -> int:
        found = self._memo.get(("distinct",))
        if found is None:
            found = int(np.count_nonzero(self.counts))
            self._keep(("distinct",), found)
        return found  # type: ignore[return-value]

    @property
    def l2(self) -> float:
        return sqrt(product_sum((self, self), self.extent))

    def at(self, x: int) -> int:
        """The count of one coordinate."""
        if self.keys is None:
            return int(self.counts[x])
        k = int(np.searchsorted(self.keys, x))
        return int(self.counts[k]) if k < self.keys.size and self.keys[k] == x else 0

    def window(self, start: int, step: int, extent: int) -> Vector:
        """The counts of ``start + step * x`` for 0 <= x < extent; 0 outside of the axis."""
        key = ("window", start, step, extent)
        found = self._memo.get(key)
        if found is None:
            found = self._window(start, step, extent)
            self._keep(key, found)
        return found  # type: ignore[return-value]

    def _window(self, start: int, step: int, extent: int) -> Vector:
        keys = np.flatnonzero(self.counts) if self.keys is None else self.keys
        counts = self.counts[keys] if self.keys is None else self.counts
        last = start + step * (extent - 1)
        if self.keys is None and min(start, last) >= 0 and max(start, last) < self.extent:
            stop = last + step
            return Vector(self.counts[start : None if stop < 0 else stop : step], extent)
        at = (keys - start) // step
        inside = (at >= 0) & (at < extent) & (at * step + start == keys)
        at, counts = at[inside], counts[inside]
        if step < 0:
            at, counts = at[::-1], counts[::-1]
        return Vector(counts, extent, at)

    def indicator(self) -> Vector:
        """1 where the count is not 0."""
        if self.largest <= 1:
            return self
        found = self._memo.get(("indicator",))
        if found is None:
            found = Vector((self.counts != 0).view(np.uint8), self.extent, self.keys)
            self._keep(("indicator",), found)
        return found  # type: ignore[return-value]


def add(a: Vector, b: Vector) -> Vector:
    """Pointwise sum of two vectors of one extent."""
    if a.keys is None and b.keys is None:
        return Vector(a.counts.astype(np.int64) + b.counts, a.extent)
    keys = np.concatenate([_keys(a), _keys(b)])
    counts = np.concatenate([_values(a), _values(b)])
    return keyed(keys, counts, a.extent)


def keyed(keys: npt.NDArray[np.signedinteger], weights: npt.NDArray[np.generic] | None,
          extent: int) -> Vector:
    """The vector of entries at ``keys`` (any order), each counted ``weights`` times."""
    require(25 * keys.size, f"counting {keys.size} entries by coordinate")
    if not (keys[1:] >= keys[:-1]).all():
        order = None if weights is None else np.argsort(keys, kind="stable")
        keys = np.sort(keys) if order is None else keys[order]
        weights = None if weights is None else weights[order]
        del order
    fresh = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    if fresh.all():  # no key twice, as in a sorted list: nothing to add up
        counts = fresh.view(np.uint8) if weights is None else weights
        return Vector(counts, extent, keys.copy())
    starts = np.flatnonzero(fresh)
    if weights is None:
        counts = np.diff(np.append(starts, keys.size))
    elif starts.size:
        counts = np.add.reduceat(weights.astype(np.int64, copy=False), starts)
    else:
        counts = np.zeros(0, np.int64)
    return Vector(counts, extent, keys[starts])


def _keys(v: Vector) -> npt.NDArray[np.signedinteger]:
    return np.flatnonzero(v.counts) if v.keys is None else v.keys


def _values(v: Vector) -> npt.NDArray[np.int64]:
    counts = v.counts[v.counts != 0] if v.keys is None else v.counts
    return counts.astype(np.int64)


def product_sum(vectors: tuple[Vector, ...], extent: int) -> float:
    """``sum(x) v1[x] * v2[x] * ...``; the extent for no vectors."""
    if not vectors:
        return float(extent)
    key = tuple(sorted([v.serial for v in vectors]))
    first = next(v for v in vectors if v.serial == key[0])
    found = first._memo.get(key)
    if found is None:
        found = _product_sum(list(vectors))
        first._keep(key, found)
    return found  # type: ignore[return-value]


def _product_sum(vectors: list[Vector]) -> float:
    if len(vectors) == 1:
        return float(vectors[0].counts.sum(dtype=np.float64))
    if any(v.keys is not None for v in vectors):
        return float(_at_common_keys(vectors).sum())
    total = 0.0
    for lo in range(0, vectors[0].counts.size, _CHUNK_COUNTS):
        parts = [v.counts[lo : lo + _CHUNK_COUNTS].astype(np.float64) for v in vectors]
        for p in parts[1:-1]:
            parts[0] *= p
        total += float(np.dot(parts[0], parts[-1]))
    return total


def _at_common_keys(vectors: list[Vector]) -> FloatArray:
    """Products at the keys of the smallest keyed vector, 0 where another vector has none."""
    lead = min((v for v in vectors if v.keys is not None), key=lambda v: v.counts.size)
    keys = lead.keys
    assert keys is not None
    product = lead.counts.astype(np.float64)
    for v in vectors:
        if v is lead:
            continue
        if v.keys is None:
            product *= v.counts[keys]
        elif v.keys.size:
            at = np.minimum(np.searchsorted(v.keys, keys), v.keys.size - 1)
            product *= np.where(v.keys[at] == keys, v.counts[at], 0)
        else:
            product[:] = 0.0
    for _ in range(sum(v is lead for v in vectors) - 1):
        product *= lead.counts
    return product


def product_values(vectors: tuple[Vector, ...]) -> FloatArray:
    """The products that are not 0, in no special order."""
    if any(v.keys is not None for v in vectors):
        product = _at_common_keys(list(vectors))
    else:
        product = vectors[0].counts.astype(np.float64)
        for v in vectors[1:]:
            product *= v.counts
    held: FloatArray = product[product != 0]
    return held


class Profile:
    """How uneven an axis is: ``sizes[b]`` coordinates have about ``degrees[b]`` points each."""

    __slots__ = ("degrees", "sizes")

    def __init__(self, sizes: FloatArray, degrees: FloatArray) -> None:
        self.sizes = sizes
        self.degrees = degrees


def profile(vectors: tuple[Vector, ...], extent: int) -> Profile:
    """The profile of a product of vectors, by geometric bins; sizes and the sum are exact."""
    if not vectors:
        return Profile(np.full(1, float(extent)), np.ones(1))
    first = min(vectors, key=lambda v: v.serial)
    key = ("profile", *sorted([v.serial for v in vectors]))
    found = first._memo.get(key)
    if found is None:
        found = _profile_of(vectors)
        first._keep(key, found)
    return found  # type: ignore[return-value]


def _profile_of(vectors: tuple[Vector, ...]) -> Profile:
    if len(vectors) == 1 and vectors[0].largest < _MAX_HISTOGRAM_VALUE:
        whole: npt.NDArray[np.generic] = vectors[0].counts
    else:
        whole = product_values(vectors)
        if not whole.size or float(whole.max()) >= _MAX_HISTOGRAM_VALUE:
            return _binned(whole.astype(np.float64), None)
    histogram = np.zeros(int(whole.max()) + 1 if whole.size else 1, dtype=np.int64)
    for lo in range(0, whole.size, _HISTOGRAM_CHUNK):  # few different values
        part = whole[lo : lo + _HISTOGRAM_CHUNK].astype(np.int64)
        histogram += np.bincount(part, minlength=histogram.size)
    histogram[0] = 0
    values = np.flatnonzero(histogram)
    return _binned(values.astype(np.float64), histogram[values].astype(np.float64))


def _binned(values: FloatArray, weights: FloatArray | None) -> Profile:
    if not values.size:
        return Profile(np.zeros(1), np.zeros(1))
    least, most = float(values.min()), float(values.max())
    if least == most:
        size = float(values.size if weights is None else weights.sum())
        return Profile(np.full(1, size), np.full(1, most))
    at = np.searchsorted(np.geomspace(least, most, MAX_BINS + 1)[1:-1], values, side="right")
    sizes = np.bincount(at, weights, MAX_BINS)
    sums = np.bincount(at, values if weights is None else values * weights, MAX_BINS)
    filled = sizes > 0
    return Profile(sizes[filled].astype(np.float64), sums[filled] / sizes[filled])
