"""Hashing of keys of whole numbers: the same function as calculus and on NumPy arrays.

All arithmetic is int64 and wraps; ``>>`` keeps the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.storage.entries import IndexArray
from tensorel.storage.limits import require

#: 2**64 divided by the golden ratio, odd, as int64 (Knuth's multiplicative hashing).
MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64
SHIFT = 32


def hash_keys(keys: tuple[Expr, ...]) -> Expr:
    """The hash of the keys; the slot to start at is its low bits."""
    result: Expr | None = None
    for key in keys:
        mixed = key if result is None else Call(ops.bitwise_xor, (result, key))
        product = Call(ops.multiply, (mixed, const(MULTIPLIER, INT64)))
        high = Call(ops.right_shift, (product, const(SHIFT, INT64)))
        result = Call(ops.bitwise_xor, (product, high))
    return const(0, INT64) if result is None else result


def hash_arrays(keys: Sequence[IndexArray], count: int) -> npt.NDArray[np.int64]:
    """``hash_keys`` for ``count`` keys at once."""
    result = np.zeros(count, dtype=np.int64)
    for key in keys:
        result ^= key
        result *= MULTIPLIER
        result ^= result >> SHIFT
    return result


def table_size(count: int) -> int:
    """Slots for ``count`` entries: a power of two, at most half full."""
    return 1 << max(2 * count - 1, 1).bit_length()


def build_table(keys: Sequence[IndexArray], count: int) -> IndexArray:
    """Entry numbers in an open-addressing table, -1 where empty; keys are unique.

    In each round every waiting entry looks at its next slot; an entry moves on only past a slot
    that is taken, which is the invariant that linear probing needs.
    """
    size = table_size(count)
    require(4 * size + 32 * count, f"a hash table of {count} entries")
    table: IndexArray = np.full(size, -1, dtype=np.int32)
    if count >= 2**31:
        table = table.astype(np.int64)
    waiting = np.arange(count)
    slots = hash_arrays(keys, count) & (size - 1)
    while waiting.size:
        free = table[slots] < 0
        table[slots[free]] = waiting[free]
        left = table[slots] != waiting
        waiting, slots = waiting[left], (slots[left] + 1) & (size - 1)
    return table


def are_found(keys: Sequence[IndexArray], table: IndexArray) -> npt.NDArray[np.bool_]:
    """Whether linear probing for each key comes to its entry before it comes to an empty slot."""
    mask, count = table.size - 1, keys[0].size
    found = np.zeros(count, dtype=bool)
    waiting = np.arange(count)
    slots = hash_arrays(keys, count) & mask
    while waiting.size:
        here = table[slots]
        found[waiting[here == waiting]] = True
        left = (here != waiting) & (here >= 0)
        waiting, slots = waiting[left], (slots[left] + 1) & mask
    return found
