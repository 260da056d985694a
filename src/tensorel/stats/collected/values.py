"""Facts of the stored values: range, nan, infinities, constancy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorel.stats.collected.entries import CHUNK_ENTRIES
from tensorel.stats.collected.facts import Values
from tensorel.storage.convert import entries
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored

Array = npt.NDArray[np.generic]


def value_facts(stored: Stored) -> Values:
    if isinstance(stored.format, Stack):
        start, stop = stored.format.span(stored.arrays, stored.shape)
        return facts_of(stored.arrays["val"][start:stop])
    values = entries(stored).values
    found = facts_of(values)
    if values.size < stored.count:  # padding, or cells that hold the fill
        found = join_values(found, facts_of(np.asarray([stored.fill])))
    return found


def facts_of(values: Array) -> Values:
    kind = values.dtype.kind
    found: Values | None = None
    for lo in range(0, values.size, CHUNK_ENTRIES):
        part = values[lo : lo + CHUNK_ENTRIES]
        facts = _complex(part) if kind == "c" else _real(part)
        found = facts if found is None else join_values(found, facts)
    return found or Values(None, None, False, False)


def _real(part: Array) -> Values:
    if part.dtype.kind != "f":
        least, greatest = int(part.min()), int(part.max())
        return Values(least, greatest, False, False, least if least == greatest else None)
    low, high = float(part.min()), float(part.max())
    if low - high == 0 or (low - low == 0 and high - high == 0):
        return Values(low, high, False, False, low if low == high else None)
    finite = part[np.isfinite(part)]
    has_nan, has_inf = bool(np.isnan(part).any()), bool(np.isinf(part).any())
    if not finite.size:
        return Values(None, None, has_nan, has_inf)
    return Values(float(finite.min()), float(finite.max()),
                  has_nan, has_inf)


def _complex(part: Array) -> Values:
    first = part[0]
    alike = bool((part == first).all())
    has_nan, has_inf = bool(np.isnan(part).any()), bool(np.isinf(part).any())
    constant = complex(first) if alike and not has_nan and not has_inf else None
    return Values(None, None, has_nan, has_inf, constant)


def join_values(a: Values, b: Values) -> Values:
    """Facts of both lists together; one without any entry has nothing to say."""
    if _is_void(a) or _is_void(b):
        return b if _is_void(a) else a
    least = [v.least for v in (a, b) if v.least is not None]
    greatest = [v.greatest for v in (a, b) if v.greatest is not None]
    constant = a.constant if a.constant is not None and a.constant == b.constant else None
    return Values(min(least, default=None), max(greatest, default=None),
                  a.has_nan or b.has_nan, a.has_inf or b.has_inf, constant)


def _is_void(v: Values) -> bool:
    return v.least is None and v.constant is None and not v.has_nan and not v.has_inf
