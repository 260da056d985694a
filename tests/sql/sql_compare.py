"""Rows of two engines compared."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]


def plain(value: Any) -> Any:
    """Numbers of all kinds alike."""
    if isinstance(value, Decimal):
        return float(value)
    return value


def _key(value: Any) -> tuple[int, Any]:
    """An order over all values; reals count in steps that rounding does not cross often."""
    value = plain(value)
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, (int, float)):
        if math.isnan(value):
            return 3, 0
        return 2, float(f"{value:.6g}")
    return 4, str(value)


def same_value(a: Any, b: Any) -> bool:
    a, b = plain(a), plain(b)
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def difference(found: list[Row], wanted: list[Row], in_order: bool) -> str | None:
    """What differs, None if nothing does."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, not {len(wanted)}\n  found {found[:5]}\n  wanted {wanted[:5]}"
    if not in_order:
        found = sorted(found, key=lambda r: [_key(v) for v in r])
        wanted = sorted(wanted, key=lambda r: [_key(v) for v in r])
    for k, (a, b) in enumerate(zip(found, wanted)):
        if len(a) != len(b) or not all(map(same_value, a, b)):
            return f"row {k}: {a}, not {b}"
    return None
