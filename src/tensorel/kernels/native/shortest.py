"""float64 to the shortest decimal that reads back as the same float, in integer arithmetic.

The method is Giulietti's ("The Schubfach way to render doubles", 2020): with v = c * 2^q, the
interval of decimals that round to v is scaled by a 128-bit rounding of 10^-k, k chosen so that
it holds at least one integer and at most a few; the shortest one closest to v is taken.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tensorel.ir.nodes import INT64
from tensorel.kernels.native.decimals import multiply_high
from tensorel.kernels.native.notation import UINT64, Code, X, whole, word

SMALLEST, LARGEST = -292, 324
_HIDDEN = 2**52
_BIAS = 1075


@cache
def powers_of_ten() -> npt.NDArray[np.uint64]:
    """For k in -292..324 the upper and lower 64 bits of 10^k scaled to [2^127, 2^128), rounded
    up."""
    words: list[int] = []
    for k in range(SMALLEST, LARGEST + 1):
        exponent = (k * 1741647 >> 19) - 127  # floor(log2(10^k)) - 127
        top, bottom = (10**k, 1) if k >= 0 else (1, 10**-k)
        top, bottom = (top, bottom << exponent) if exponent >= 0 else (top << -exponent, bottom)
        scaled = -(-top // bottom)
        words += [scaled >> 64, scaled & (2**64 - 1)]
    return np.array(words, dtype=np.uint64)


def _round_to_odd(code: Code, name: str, high: X, low: X, factor: X) -> X:
    """The upper 64 bits of the 192-bit product, its last bit set if anything below is."""
    f = code.let(f"{name}_f", factor)
    below = multiply_high(code, f"{name}_x", low, f)
    middle = code.let(f"{name}_y", high * f + below)
    top = multiply_high(code, f"{name}_z", high, f)
    carried = code.let(f"{name}_c", (middle < below).pick(top + 1, top))
    return code.let(f"{name}_r", (middle > 1).pick(carried | 1, carried))


def shortest(code: Code, bits: X, digits: X, power: X) -> None:
    """Set ``digits`` and ``power`` so that digits * 10^power is the finite float ``bits``, sign
    aside."""
    fraction = code.let("fraction", bits & (_HIDDEN - 1))
    biased = code.let("biased", ((bits >> 52) & 0x7FF).to(INT64))
    normal = code.let("normal", biased.is_not(0).pick(whole(1), 0))
    c = code.let("c", normal.is_(1).pick(fraction | _HIDDEN, fraction))
    q = code.let("q", normal.is_(1).pick(biased, whole(1)) - _BIAS)
    down = code.let("down", ((q <= 0).also(q > -53)).pick(whole(0) - q, 0).to(UINT64))
    integral = (q <= 0).also((q > -53).also(((c >> down) << down).is_(c)))
    with code.when(integral.otherwise(c.is_(0))):
        code.set(digits, c >> down)
        code.set(power, 0)
    with code.unless():
        _interval(code, fraction, biased, c, q, digits, power)


def _interval(
    code: Code, fraction: X, biased: X, c: X, q: X, digits: X, power: X
) -> None:
    powers = code.array("tens", UINT64)
    closer = code.let("closer", fraction.is_(0).also(biased > 1).pick(whole(1), 0))
    k = code.let("k", (q * 1262611 - closer * 524031) >> 22)
    h = code.let("h", (q + ((whole(0) - k) * 1741647 >> 19) + 1).to(UINT64))
    row = code.let("row", (whole(0) - k - SMALLEST) * 2)
    high, low = code.let("g1", powers[row]), code.let("g0", powers[row + 1])
    four = code.let("four", c << 2)
    odd = code.let("odd", c & 1)
    left = _round_to_odd(code, "l", high, low, (four - 2 + closer.to(UINT64)) << h)
    here = _round_to_odd(code, "v", high, low, four << h)
    right = _round_to_odd(code, "r", high, low, (four + 2) << h)
    lower, upper = code.let("lower", left + odd), code.let("upper", right - odd)
    s = code.let("s", here >> 2)
    tens = code.let("t", (s // 10) * 40)
    under = code.let("under", (lower <= tens).pick(word(1), 0))
    over = code.let("over", (tens + 40 <= upper).pick(word(1), 0))
    with code.when((s >= 10).also(under.is_not(over))):
        code.set(digits, s // 10 + over)
        code.set(power, k + 1)
    with code.unless():
        base = code.let("base", s << 2)
        code.set(under, (lower <= base).pick(word(1), 0))
        code.set(over, (base + 4 <= upper).pick(word(1), 0))
        middle = code.let("middle", base + 2)
        tie = here.is_(middle).also((s & 1).is_(1))
        up = code.let("up", (here > middle).otherwise(tie).pick(word(1), 0))
        code.set(digits, s + under.is_not(over).pick(over, up))
        code.set(power, k)
