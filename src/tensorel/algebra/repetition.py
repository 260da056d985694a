"""n copies of one value under a monoid, combined at once: n*c for sums, c**n for products.

Neither is exact as NumPy's multiply and power have it. 3*(inf+0j) is inf+nanj, though no sum of
infinities has a nan; powers of float32 lose the parity of n above 2**24, those of int8 have no
place for n. The laws, for n >= 1:

- sums: each part of a number is multiplied by the real number n; integers wrap around;
- products: integers are exact modulo 2**bits; of floats the magnitude is raised and the sign is
  that of the parity; complex numbers are squared and multiplied.

Floats are computed in double precision and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[np.generic]

_MAX_COPIES = 10**300  # 0 times an infinite number of copies would be nan
_ODD_EXPONENT = 2**62  # odd numbers to this power are 1 modulo 2**64


def count_of_sum(dtype: DType, count: int) -> np.generic:
    """The second argument of ``repeat_sum`` for so many copies of a value of this dtype."""
    if dtype.kind in "fc":
        return np.float64(min(count, _MAX_COPIES))
    return np.int64((count + 2**63) % 2**64 - 2**63)


def count_of_product(dtype: DType, count: int) -> np.generic:
    """The second argument of ``repeat_product``. A number that no int64 holds has another one with
    the same power: odd bases have the order 2**62, even ones are 0 from 64 copies on."""
    return np.int64(count if count < 2**63 else count % _ODD_EXPONENT + _ODD_EXPONENT)


def repeat_sum(value: object, count: object) -> Array:
    """``count`` copies of ``value`` added up.

    >>> complex(repeat_sum(np.complex128(np.inf), np.float64(3)))
    (inf+0j)
    """
    values, counts = np.asarray(value), np.asarray(count)
    if values.dtype.kind == "b":
        return np.asarray(values & (counts != 0))
    if values.dtype.kind in "iu":
        return np.asarray(values * counts.astype(values.dtype))
    wide = _wide(values)
    made = np.empty(np.broadcast_shapes(values.shape, counts.shape), wide.dtype)
    for part, of in zip(_parts(made), _parts(wide)):
        np.multiply(of, counts, out=part)
    return made.astype(values.dtype)


def repeat_product(value: object, count: object) -> Array:
    """``count`` copies of ``value`` multiplied.

    >>> int(repeat_product(np.uint8(3), np.int64(100)))
    209
    """
    values, counts = np.asarray(value), np.asarray(count)
    if values.dtype.kind == "b":
        return np.asarray(values & (counts == counts))
    if values.dtype.kind == "f":
        size = np.abs(_wide(values)) ** counts.astype(np.float64)
        odd = (counts & 1).astype(bool)
        return np.where(odd & np.signbit(values), -size, size).astype(values.dtype)
    shape = np.broadcast_shapes(values.shape, counts.shape)
    square = np.broadcast_to(_wide(values), shape).copy()
    made = square.copy()
    left = np.broadcast_to(counts.astype(np.int64) - 1, shape).astype(np.uint64)  # bits run out
    while left.any():
        np.multiply(made, square, out=made, where=(left & 1).astype(bool))
        left >>= 1
        np.multiply(square, square, out=square, where=left > 0)
    return made.astype(values.dtype)


def _wide(values: Array) -> Array:
    """In double precision."""
    if values.dtype.kind in "iu":
        return values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _parts(values: Array) -> tuple[Array, ...]:
    return (values.real, values.imag) if values.dtype.kind == "c" else (values,)
