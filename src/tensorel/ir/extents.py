"""The one limit of extents.

Coordinates are signed 64-bit numbers, in the arrays as in the loops. Programs add extents to
coordinates before a condition says whether the sum is a place (``i + (n - s)`` of a roll, ``j - i``
of a triangle, starts of slices of slices): up to ``2**60`` eight of them add up without leaving
the 64 bits. Sizes, the products of extents, are Python's whole numbers; estimates are floats, which
end at 2**1024: shapes have at most 2**1000 cells."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorel.errors import ShapeError

MAX_EXTENT = 2**60
MAX_SIZE = 2**1000
MAX_COUNT = 2**63 - 1  # what an entry of dtype int64 can count


def check_extents(extents: Sequence[int], what: str = "") -> None:
    """Refuse an axis that is too long.

    >>> check_extents((3, 2**60))
    >>> check_extents((2**61,), "roll")
    Traceback (most recent call last):
        ...
    tensorel.errors.ShapeError: roll: an axis of extent 2305843009213693952 is too long
      hint: extents are at most 2**60 = 1152921504606846976; keep some of the axes apart
    """
    for n in extents:
        if n > MAX_EXTENT:
            raise ShapeError(
                f"{what}{': ' if what else ''}an axis of extent {n} is too long",
                hint=f"extents are at most 2**60 = {MAX_EXTENT}; keep some of the axes apart")
    if len(extents) > 16 and prod(extents) > MAX_SIZE:  # sixteen axes never have as many cells
        raise ShapeError(f"{what}{': ' if what else ''}{len(extents)} axes have more than 2**1000 "
                         "cells", hint="shapes have at most 2**1000 cells")


def check_count(count: int, what: str) -> None:
    """Refuse a number of entries that an int64 cannot hold."""
    if count > MAX_COUNT:
        raise ShapeError(f"{what}: {count} does not fit in int64, the dtype of counts",
                         hint="give an axis, or count in parts")


def regrouped(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Axes of two shapes of one size in the smallest groups of equal size, in order: a reshape
    merges and splits within a group.

    >>> regrouped((2, 3, 4), (6, 4))
    [([0, 1], [0]), ([2], [1])]
    """
    result: list[tuple[list[int], list[int]]] = []
    a = b = 0
    while a < len(old) or b < len(new):
        left, right = list(range(a, min(a + 1, len(old)))), list(range(b, min(b + 1, len(new))))
        sizes = [prod(old[k] for k in left), prod(new[k] for k in right)]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(a + len(left))
                sizes[0] *= old[left[-1]]
            else:
                right.append(b + len(right))
                sizes[1] *= new[right[-1]]
        a, b = a + len(left), b + len(right)
        result.append((left, right))
    return result
