"""Statistics of a stored tensor as a JSON text and back. Arrays are compressed, in base64."""

from __future__ import annotations

import binascii
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorel.errors import TensorelError
from tensorel.stats.collected.collect import collect, collected
from tensorel.stats.collected.count_vectors import Vector
from tensorel.stats.collected.facts import Degrees, TensorStats, Tiles, Values
from tensorel.storage.derived import Derived
from tensorel.storage.limits import require
from tensorel.storage.stored import Stored

AnyArray = npt.NDArray[np.generic]
T = TypeVar("T")
_INTEGERS = "iu"
_NONE, _TRUTH = type(None), (bool, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    "count": (int,), "nnz": (int, _NONE), "full": (bool,), "vectors": (list,), "sorted": _TRUTH,
    "unique": _TRUTH}


def to_text(stats: TensorStats) -> bytes:
    """The text of statistics, all but the shape.

    >>> from tensorel.storage.convert import from_dense
    >>> stats = collect(from_dense([1.0, 2.0]))
    >>> from_text(to_text(stats), (2,)).values == stats.values
    True
    """
    degrees = None if stats.degrees is None else [
        [x, y, [d.distinct, d.largest, d.l1, d.l2, d.exact]]
        for (x, y), d in stats.degrees.items()]
    body = {
        "count": stats.count, "nnz": stats.nnz, "full": stats.full,
        "vectors": [_maybe(_vector, v) for v in stats.vectors], "degrees": degrees,
        "distinct": None if stats.distinct is None else [*stats.distinct.items()],
        "spans": stats.spans, "values": _maybe(_values, stats.values),
        "sorted": stats.sorted, "unique": stats.unique,
        "bandwidth": stats.bandwidth, "tiles": _maybe(_tiles, stats.tiles),
    }
    return json.dumps(body, separators=(",", ":"), default=_plain).encode()


def from_text(text: bytes, shape: tuple[int, ...]) -> TensorStats:
    """The statistics of a tensor of that shape."""
    body: dict[str, Any] = json.loads(text)
    for name, kinds in _KINDS.items():
        if type(body[name]) not in kinds:
            raise ValueError(name)
    if len(body["vectors"]) not in (0, len(shape)):
        raise ValueError("vectors")
    degrees = body["degrees"]
    return TensorStats(
        shape, body["count"], body["nnz"], body["full"],
        vectors=tuple([_maybe(_to_vector, v) for v in body["vectors"]]),
        degrees=None if degrees is None else {
            (tuple(x), tuple(y)): Degrees(*d) for x, y, d in degrees},
        distinct=_maybe(lambda found: {tuple(x): n for x, n in found}, body["distinct"]),
        spans=_maybe(lambda found: tuple([_maybe(tuple, s) for s in found]), body["spans"]),
        values=_maybe(_to_values, body["values"]), sorted=body["sorted"], unique=body["unique"],
        bandwidth=_maybe(tuple, body["bandwidth"]),
        tiles=_maybe(lambda t: Tiles(shape, tuple(t[0]), _to_array(t[1])), body["tiles"]))


def gathered(stored: Stored) -> bytes | None:
    """The text of statistics collected in one pass; None if that is impossible."""
    try:
        return to_text(collect(replace(stored, derived=Derived()) if stored.shared else stored))
    except TensorelError:
        return None


def learned(stored: Stored, before: TensorStats | None) -> bytes | None:
    """The text of what is known, if it is more than before."""
    found = collected(stored)
    return None if found is None or found is before else to_text(found)


def give(stored: Stored, stats: TensorStats) -> None:
    """Give the tensor these statistics, as if they had been collected from it."""
    stored.derived.stats = stats
    if stats.nnz is not None:
        stored.derived.nonfill = stats.nnz


# -- parts -------------------------------------------------------------------------------------
def _maybe(convert: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else convert(value)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, complex):
        return {"re": value.real, "im": value.imag}
    raise TypeError(type(value).__name__)


def _array(array: AnyArray) -> list[object]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), 1)
    return [array.dtype.str, list(array.shape), binascii.b2a_base64(packed, newline=False).decode()]


def _to_array(found: list[Any]) -> Any:
    """The array. No more bytes are unpacked than its shape needs, whatever the text holds."""
    name, shape, text = found
    dtype = np.dtype(name)
    if dtype.kind not in _INTEGERS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(found)
    size = math.prod(shape) * dtype.itemsize
    require(size, "the statistics of a tensor")
    data = zlib.decompressobj().decompress(binascii.a2b_base64(text), size + 1)
    if len(data) != size:
        raise ValueError(found)
    return np.frombuffer(data, dtype).reshape(shape)


def _vector(vector: Vector) -> list[object]:
    return [vector.extent, _array(vector.counts), _maybe(_array, vector.keys)]


def _to_vector(found: list[Any]) -> Vector:
    extent, counts, keys = found
    return Vector(_to_array(counts), extent, _maybe(_to_array, keys))


def _tiles(tiles: Tiles) -> list[object]:
    return [tiles.size, _array(tiles.counts)]


def _values(v: Values) -> list[object]:
    return [v.least, v.greatest, v.has_nan, v.has_inf, v.constant]


def _to_values(found: list[Any]) -> Values:
    least, greatest, has_nan, has_inf, constant = found
    if isinstance(constant, dict):
        constant = complex(constant["re"], constant["im"])
    return Values(least, greatest, has_nan, has_inf, constant)
