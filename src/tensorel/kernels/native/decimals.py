"""Decimal text to float64 in integer arithmetic, correctly rounded.

The method is Eisel and Lemire's (Lemire, "Number parsing at a gigabyte per second", 2021): the
decimal w * 10^q, with w < 2^64 exact, is multiplied by a 128-bit truncation of 5^q; the product
decides the rounding except in cases that are recognized and left to Python's own ``float``.
The result is the bit pattern of the float, so kernels need no float arithmetic.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tensorel.ir.nodes import INT64
from tensorel.kernels.native.notation import UINT64, Code, X, whole, word

SMALLEST, LARGEST = -342, 308
_LOW32 = 2**32 - 1
_MIN_EXPONENT = -1023
_INFINITE = 0x7FF


@cache
def powers_of_five() -> npt.NDArray[np.uint64]:
    """For q in -342..308 the upper and the lower 64 bits of 5^q scaled to [2^127, 2^128)."""
    words: list[int] = []
    for q in range(SMALLEST, LARGEST + 1):
        if q >= 0:
            shift = 128 - (5**q).bit_length()
            scaled = 5**q << shift if shift >= 0 else 5**q >> -shift
        else:
            power = 5**-q
            bits = power.bit_length()
            scaled = (1 << bits + (127 if q >= -27 else bits + 128)) // power + 1
            scaled >>= scaled.bit_length() - 128
        words += [scaled >> 64, scaled & (2**64 - 1)]
    return np.array(words, dtype=np.uint64)


def multiply_high(code: Code, name: str, a: X, b: X) -> X:
    """The upper 64 bits of a 64 by 64 bit product."""
    a1, a0 = code.let(f"{name}_a1", a >> 32), code.let(f"{name}_a0", a & _LOW32)
    b1, b0 = code.let(f"{name}_b1", b >> 32), code.let(f"{name}_b0", b & _LOW32)
    middle = code.let(f"{name}_m", a1 * b0 + (a0 * b0 >> 32))
    other = code.let(f"{name}_o", a0 * b1 + (middle & _LOW32))
    return code.let(f"{name}_h", a1 * b1 + (middle >> 32) + (other >> 32))


def normalize(code: Code, w: X) -> tuple[X, X]:
    """``w`` (not 0) shifted so that its top bit is set, and the shift."""
    shifted, zeros = code.let("norm", w), code.let("zeros", whole(0))
    for step in (32, 16, 8, 4, 2, 1):
        small = code.let("small", shifted < (1 << (64 - step)))
        code.set(zeros, small.pick(zeros + step, zeros))
        code.set(shifted, small.pick(shifted << step, shifted))
    return shifted, zeros


def float_bits(code: Code, w: X, q: X, bits: X, hard: X) -> None:
    """Set ``bits`` to the float nearest to w * 10^q, or ``hard`` to 1 where Python must decide."""
    with code.when((q < SMALLEST).otherwise(q > LARGEST)):
        code.set(hard, 1)
    with code.unless():
        with code.when(w.is_(0)):
            code.set(bits, 0)
        with code.unless():
            _scaled(code, w, q, bits, hard)


def _scaled(code: Code, w: X, q: X, bits: X, hard: X) -> None:
    powers = code.array("powers", UINT64)
    norm, zeros = normalize(code, w)
    row = code.let("row", (q - SMALLEST) * 2)
    top = code.let("top", powers[row])
    high = multiply_high(code, "p", norm, top)
    low = code.let("low", norm * top)
    # 52 explicit bits, one hidden, two to round: all ones below may hide a carry.
    with code.when((high & 0x1FF).is_(0x1FF)):
        carry = multiply_high(code, "s", norm, powers[row + 1])
        code.set(low, low + carry)
        code.set(high, (low < carry).pick(high + 1, high))
        with code.when(low.is_(2**64 - 1).also((q < -27).otherwise(q > 55))):
            code.set(hard, 1)
    upper = code.let("upper", high >> 63)
    shift = code.let("shift", upper + 9)
    mantissa = code.let("mantissa", high >> shift)
    # floor(q * log2(10)) by a fixed-point multiplication, exact in this range of q
    scale = code.let("scale", ((q * 217706) >> 16) + 63)
    exponent = code.let("exponent", scale + upper.to(INT64) - zeros - _MIN_EXPONENT)
    tie = (low <= 1).also((q >= -4).also((q <= 23).also((mantissa & 3).is_(1))))
    with code.when(tie.also((mantissa << shift).is_(high))):
        code.set(mantissa, mantissa & (2**64 - 2))
    code.set(mantissa, (mantissa + (mantissa & 1)) >> 1)
    with code.when(mantissa >= 2**53):
        code.set(mantissa, word(2**52))
        code.set(exponent, exponent + 1)
    # Subnormal and overflowing results are rare: Python's float rounds them.
    with code.when((exponent <= 0).otherwise(exponent >= _INFINITE)):
        code.set(hard, 1)
    code.set(bits, (mantissa & (2**52 - 1)) | (exponent.to(UINT64) << 52))
