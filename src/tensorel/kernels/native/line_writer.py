"""The kernel that writes lines of coordinates and a value, from the last byte to the first.

Digits come out of a number last one first. So the kernel takes entries from ``hi - 1`` down to
``lo`` and fills ``text`` from its end; the text is ``text[report[0]:]``. Nothing is moved and
no lengths are computed beforehand.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tensorel.ir.nodes import INT64, Local
from tensorel.kernels.loopir.statements import Kernel
from tensorel.kernels.native.line_reader import Line
from tensorel.kernels.native.notation import UINT8, UINT64, Code, X, scalar, whole, word
from tensorel.kernels.native.shortest import powers_of_ten, shortest

#: The most bytes of a coordinate and of a number, with the separator after it.
COORDINATE, NUMBER = 20, 27

_SPACE, _NEWLINE, _ZERO, _DOT, _MINUS, _E = 32, 10, 48, 46, 45, 101
_WRITTEN_OUT = 10**17  # integers below are written with all their digits
_FRACTION = 21  # and so are numbers from 0.0001 on with at most so many decimals


def tables() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The last two arrays of a call: scaled and plain powers of ten."""
    return powers_of_ten(), np.array([10**k for k in range(20)], np.uint64)


class _Writer:
    def __init__(self, line: Line) -> None:
        self.line, self.code = line, Code()
        code = self.code
        self.text = code.array("text", UINT8)
        self.columns = [code.array(f"c{k}", line.width) for k in range(line.rank)]
        self.values, self.report = code.array("val", UINT64), code.array("report", INT64)
        code.array("tens", UINT64)
        self.units = code.array("units", UINT64)
        self.at = code.let("p", scalar("size"))
        self.entry = code.let("entry", scalar("hi"))

    def kernel(self) -> Kernel:
        code, line = self.code, self.line
        with code.loop(self.entry > scalar("lo"), checked=True):
            code.set(self.entry, self.entry - 1)
            self._put(whole(_NEWLINE))
            for part in reversed(range(line.words)):
                number = code.let("word", self.values[self.entry * line.words + part])
                self._real(number) if line.kind in ("real", "complex") else self._integer(number)
                if part or line.rank:
                    self._put(whole(_SPACE))
            for axis in reversed(range(line.rank)):
                coordinate = self.columns[axis][self.entry].to(INT64).to(UINT64)
                self._digits(code.let("left", coordinate + 1), whole(-1), whole(1))
                if axis:
                    self._put(whole(_SPACE))
        code.store(self.report, 0, self.at)
        arrays = tuple(m.source for m in code.arrays.values())
        lo, hi = Local("lo", INT64), Local("hi", INT64)
        name = f"write_{line.kind}_{line.rank}_{line.width.name}"
        size = (Local("size", INT64),)
        return Kernel(name, arrays, frozenset({"text", "report"}), (), size, lo, hi, code.done())

    def _put(self, byte: X) -> None:
        self.code.set(self.at, self.at - 1)
        self.code.store(self.text, self.at, byte)

    def _digits(self, left: X, decimals: X, least: X) -> None:
        """At least ``least`` digits of ``left``, with a point before the last ``decimals``."""
        code = self.code
        done = code.let("done", whole(0))
        with code.loop((done < least).otherwise(left.is_not(0))):
            with code.when(done.is_(decimals)):
                self._put(whole(_DOT))
            rest = code.let("rest", left // 10)
            self._put((left - rest * 10).to(INT64) + _ZERO)
            code.set(left, rest)
            code.set(done, done + 1)

    def _integer(self, number: X) -> None:
        code = self.code
        negative = code.let("negative", whole(0))
        if self.line.kind == "integer":
            with code.when((number >> 63).is_(1)):
                code.set(negative, 1)
                code.set(number, word(0) - number)
        self._digits(number, whole(-1), whole(1))
        self._sign(negative)

    def _sign(self, negative: X) -> None:
        with self.code.when(negative.is_(1)):
            self._put(whole(_MINUS))

    def _real(self, bits: X) -> None:
        code = self.code
        negative = code.let("negative", (bits >> 63).to(INT64))
        with code.when(((bits >> 52) & 0x7FF).is_(0x7FF)):
            self._special(bits, negative)
        with code.unless():
            digits, power = code.let("digits", word(0)), code.let("power", whole(0))
            shortest(code, bits, digits, power)
            self._strip(digits, power, power < 0)
            with code.loop((power > 0).also(digits < _WRITTEN_OUT // 10)):
                code.set(digits, digits * 10)
                code.set(power, power - 1)
            tiny = code.let("tiny", whole(0))
            with code.when((power < -4).also(power >= -_FRACTION)):
                small = digits < self.units[whole(-4) - power]
                code.set(tiny, small.pick(whole(1), 0))
            extreme = (power > 0).otherwise(power < -_FRACTION)
            with code.when(extreme.otherwise(tiny.is_(1))):
                self._scientific(digits, power)
            with code.unless():
                decimals = code.let("decimals", whole(0) - power)
                code.set(decimals, decimals.is_(0).pick(whole(-1), decimals))
                self._digits(digits, decimals, code.let("least", decimals.is_(-1).pick(
                    whole(1), decimals + 1)))
            self._sign(negative)

    def _special(self, bits: X, negative: X) -> None:
        code = self.code
        with code.when((bits & (2**52 - 1)).is_(0)):
            for byte in reversed(b"inf"):
                self._put(whole(byte))
            self._sign(negative)
        with code.unless():
            for byte in reversed(b"nan"):
                self._put(whole(byte))

    def _strip(self, digits: X, power: X, condition: X) -> None:
        """Move zeros at the end into the power while ``condition`` holds."""
        code = self.code
        rest = code.let("rest", digits // 10)
        with code.loop(condition.also((rest * 10).is_(digits))):
            code.set(digits, rest)
            code.set(power, power + 1)
            code.set(rest, digits // 10)

    def _scientific(self, digits: X, power: X) -> None:
        """``d.ddde-300``; zeros that the widening above left at the end go first."""
        code = self.code
        self._strip(digits, power, power > 0)
        size, bound = code.let("size_", whole(1)), code.let("bound", digits // 10)
        with code.loop(bound.is_not(0)):
            code.set(bound, bound // 10)
            code.set(size, size + 1)
        exponent = code.let("exponent", power + size - 1)
        below = code.let("below", (exponent < 0).pick(whole(1), 0))
        magnitude = (exponent < 0).pick(whole(0) - exponent, exponent)
        self._digits(code.let("left", magnitude.to(UINT64)), whole(-1), whole(1))
        self._sign(below)
        self._put(whole(_E))
        point = code.let("point", size.is_(1).pick(whole(-1), size - 1))
        self._digits(digits, point, whole(1))


@cache
def writer(line: Line) -> Kernel:
    """The kernel for lines of one kind."""
    return _Writer(line).kernel()



