"""The kernel that reads lines of coordinates and a value: Matrix Market and FROSTT text.

One call takes the bytes [lo, hi) of ``text``: whole lines, with a newline at ``hi - 1``, so that
no inner loop needs a bound: each stops at the newline at the latest, having looked at no more
than ``LOOKAHEAD_BYTES`` after it. A line that lacks a field ends the call, so an entry takes at
least two bytes per field, which bounds the outputs. Per line: coordinates (1-based in the text,
0-based in ``c0``, ``c1``, ...), then the value in ``val`` as 64 bits: a float's bit pattern, an
integer, or two floats of a complex number. What the kernel cannot decide (more than 19 digits,
subnormals, ``nan``, ``inf``, and everything malformed) goes on the hard list for Python.
"""

from __future__ import annotations

from functools import cache

from tensorel.base.records import dataclass
from tensorel.ir.nodes import INT64, DType, Local
from tensorel.kernels.loopir.statements import Kernel
from tensorel.kernels.native.decimals import float_bits
from tensorel.kernels.native.notation import UINT8, UINT64, Code, Memory, X, scalar, whole, word

LOOKAHEAD_BYTES = 8

# Elements of the array ``report``.
COUNT, LINES, ERROR, ERROR_AT, HARD, MAXIMA = 0, 1, 2, 3, 4, 5
# Values of ``report[ERROR]``; the axis of an index is added to the last two.
EXTRA, MISSING, NOT_INDEX, OUT_OF_RANGE = 1, 2, 100, 200

_NEWLINE, _SPACE, _TAB, _RETURN = 10, 32, 9, 13
_PLUS, _MINUS, _DOT, _ZERO, _LOWER_E = 43, 45, 46, 48, 101
_EXACT_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Line:
    """What stands on a line: ``rank`` coordinates of dtype ``width``, and a value of ``kind``:
    "real", "complex", "integer", "unsigned" or "pattern" (none)."""

    rank: int
    width: DType
    kind: str

    @property
    def words(self) -> int:
        """64-bit words per value."""
        return {"pattern": 0, "complex": 2}.get(self.kind, 1)

    @property
    def fields(self) -> int:
        return self.rank + self.words


class _Cursor:
    """Position in the text and the byte there."""

    def __init__(self, code: Code, text: Memory, at: X, byte: X) -> None:
        self.code, self.text, self.at, self.byte = code, text, at, byte

    def step(self) -> None:
        self.code.set(self.at, self.at + 1)
        self.look()

    def look(self) -> None:
        self.code.set(self.byte, self.text[self.at].to(INT64))

    @property
    def blank(self) -> X:
        c = self.byte
        return c.is_(_SPACE).otherwise(c.is_(_TAB).otherwise(c.is_(_RETURN)))

    @property
    def digit(self) -> X:
        return (self.byte >= _ZERO).also(self.byte <= _ZERO + 9)

    def skip_blanks(self) -> None:
        with self.code.loop(self.blank):
            self.step()

    def skip_line(self) -> None:
        with self.code.loop(self.byte.is_not(_NEWLINE)):
            self.step()

    def skip_token(self) -> None:
        c = self.byte
        rest = c.is_not(_SPACE).also(c.is_not(_TAB).also(c.is_not(_RETURN)))
        with self.code.loop(c.is_not(_NEWLINE).also(rest)):
            self.step()

    def digits(self, total: X) -> None:
        """Append the digits here to the number ``total`` (uint64, wraps)."""
        with self.code.loop(self.digit):
            self.code.set(total, total * 10 + (self.byte - _ZERO).to(UINT64))
            self.step()

    def many_digits(self, total: X) -> None:
        """The same for long numbers: eight digits at a time while there are eight."""
        code = self.code
        eight = code.let("eight", self._eight())
        with code.loop(_all_digits(eight)):
            code.set(total, total * 10**8 + _value_of_eight(eight))
            code.set(self.at, self.at + 8)
            code.set(eight, self._eight())
        code.set(self.byte, (eight & 0xFF).to(INT64))
        self.digits(total)

    def _eight(self) -> X:
        """The next eight bytes as one word, the first one lowest; LLVM makes it one load."""
        found = self.text[self.at].to(UINT64)
        for k in range(1, 8):
            found = found | (self.text[self.at + k].to(UINT64) << (8 * k))
        return found

    def sign(self, negative: X) -> None:
        """Set ``negative`` to 1 or 0 and pass the sign."""
        self.code.set(negative, self.byte.is_(_MINUS).pick(word(1), 0))
        with self.code.when(self.byte.is_(_MINUS).otherwise(self.byte.is_(_PLUS))):
            self.step()


def _all_digits(eight: X) -> X:
    """Whether each byte is 0x30 to 0x39: its upper half is 3, and still is after adding 6."""
    upper, threes = 0xF0F0F0F0F0F0F0F0, 0x3333333333333333
    return ((eight & upper) | (((eight + 0x0606060606060606) & upper) >> 4)).is_(threes)


def _value_of_eight(eight: X) -> X:
    """Pairs, then fours, then all eight digits are combined, each step in all lanes at once."""
    ones = eight - 0x3030303030303030
    pairs = (ones * 10 + (ones >> 8)) & 0x00FF00FF00FF00FF
    fours = (pairs * 100 + (pairs >> 16)) & 0x0000FFFF0000FFFF
    return (fours * 10_000 + (fours >> 32)) & 0xFFFFFFFF


class _Parser:
    """Builds the kernel for one kind of line."""

    def __init__(self, line: Line) -> None:
        self.line, self.code = line, Code()
        code = self.code
        text = code.array("text", UINT8)
        self.columns = [code.array(f"c{k}", line.width) for k in range(line.rank)]
        self.values, self.report = code.array("val", UINT64), code.array("report", INT64)
        self.hard_at, self.hard_slot = code.array("hard_at", INT64), code.array("hard_slot", INT64)
        code.array("powers", UINT64)
        self.extents = [scalar(f"extent{k}") for k in range(line.rank)]
        self.comment = scalar("comment")
        self.error, self.error_at = code.let("error", whole(0)), code.let("error_at", whole(0))
        self.count, self.hard_count = code.let("count", whole(0)), code.let("hards", whole(0))
        self.lines = code.let("lines", whole(0))
        self.maxima = [code.let(f"max{k}", word(0)) for k in range(line.rank)]
        at = code.let("p", scalar("lo"))
        self.cursor = _Cursor(code, text, at, code.let("c", whole(0)))

    def kernel(self) -> Kernel:
        code, cursor, line = self.code, self.cursor, self.line
        with code.loop((cursor.at < scalar("hi")).also(self.error.is_(0)), checked=True):
            cursor.look()
            cursor.skip_blanks()
            with code.when(cursor.byte.is_(self.comment)):
                cursor.skip_line()
            with code.when(cursor.byte.is_not(_NEWLINE)):
                self._entry()
            code.set(cursor.at, cursor.at + 1)
            code.set(self.lines, self.lines + 1)
        for place, value in (
            (COUNT, self.count), (LINES, self.lines), (ERROR, self.error),
            (ERROR_AT, self.error_at), (HARD, self.hard_count),
            *((MAXIMA + k, m) for k, m in enumerate(self.maxima)),
        ):
            code.store(self.report, place, value)
        scalars = (*(_local(e) for e in self.extents), _local(self.comment))
        written = {"val", "report", "hard_at", "hard_slot"} | {f"c{k}" for k in range(line.rank)}
        arrays = tuple(m.source for m in code.arrays.values())
        name = f"read_{line.kind}_{line.rank}_{line.width.name}"
        lo, hi = Local("lo", INT64), Local("hi", INT64)
        return Kernel(name, arrays, frozenset(written), (), scalars, lo, hi, code.done())

    def _entry(self) -> None:
        code, cursor = self.code, self.cursor
        for axis in range(self.line.rank):
            self._coordinate(axis)
        for part in range(self.line.words):
            cursor.skip_blanks()
            with code.when(cursor.byte.is_(_NEWLINE)):
                self._fail(MISSING)
            slot = code.let("slot", self.count * self.line.words + part)
            self._real(slot) if self.line.kind in ("real", "complex") else self._integer(slot)
        code.set(self.count, self.count + 1)
        cursor.skip_blanks()
        with code.when(cursor.byte.is_not(_NEWLINE)):
            self._fail(EXTRA)
            cursor.skip_line()

    def _fail(self, error: int) -> None:
        """The first error of the call stays; parsing goes on harmlessly to the line's end."""
        with self.code.when(self.error.is_(0)):
            self.code.set(self.error, error)
            self.code.set(self.error_at, self.cursor.at)

    def _coordinate(self, axis: int) -> None:
        code, cursor = self.code, self.cursor
        cursor.skip_blanks()
        start, number = code.let("start", cursor.at), code.let("number", word(0))
        cursor.digits(number)
        length = code.let("length", cursor.at - start)
        ends = code.let("ends", cursor.blank.otherwise(cursor.byte.is_(_NEWLINE)).pick(
            whole(1), 0))
        good = (length > 0).also((length < _EXACT_DIGITS).also(ends.is_(1)))
        with code.when(good):
            inside = (number >= 1).also(number <= self.extents[axis].to(UINT64))
            with code.when(inside):
                code.store(self.columns[axis], self.count, (number - 1).to(INT64))
                higher = number > self.maxima[axis]
                code.set(self.maxima[axis], higher.pick(number, self.maxima[axis]))
            with code.unless():
                code.set(cursor.at, start)
                self._fail(OUT_OF_RANGE + axis)
                cursor.look()
                cursor.skip_token()
        with code.unless():
            code.set(cursor.at, start)
            self._fail(NOT_INDEX + axis)
            cursor.look()
            cursor.skip_token()

    def _check_end(self, hard: X) -> None:
        with self.code.when(self.cursor.blank.otherwise(self.cursor.byte.is_(_NEWLINE))):
            pass
        with self.code.unless():
            self.code.set(hard, 1)

    def _leave_to_python(self, hard: X, start: X, slot: X) -> None:
        code, cursor = self.code, self.cursor
        with code.when(hard.is_not(0)):
            code.store(self.hard_at, self.hard_count, start)
            code.store(self.hard_slot, self.hard_count, slot)
            code.set(self.hard_count, self.hard_count + 1)
            cursor.skip_token()

    def _integer(self, slot: X) -> None:
        code, cursor = self.code, self.cursor
        token, hard = code.let("token", cursor.at), code.let("hard", whole(0))
        negative = code.let("negative", word(0))
        cursor.sign(negative)
        start, number = code.let("start", cursor.at), code.let("number", word(0))
        cursor.digits(number)
        length = code.let("length", cursor.at - start)
        with code.when((length < 1).otherwise(length >= _EXACT_DIGITS)):
            code.set(hard, 1)
        if self.line.kind == "unsigned":
            with code.when(negative.is_(1)):
                code.set(hard, 1)
        self._check_end(hard)
        code.store(self.values, slot, negative.is_(1).pick(word(0) - number, number))
        self._leave_to_python(hard, token, slot)

    def _real(self, slot: X) -> None:
        code, cursor = self.code, self.cursor
        token, hard = code.let("token", cursor.at), code.let("hard", whole(0))
        negative = code.let("negative", word(0))
        cursor.sign(negative)
        start, number = code.let("start", cursor.at), code.let("number", word(0))
        power = code.let("power", whole(0))
        cursor.digits(number)
        length = code.let("length", cursor.at - start)
        with code.when(cursor.byte.is_(_DOT)):
            cursor.step()
            fraction = code.let("fraction", cursor.at)
            cursor.many_digits(number)
            code.set(power, fraction - cursor.at)
            code.set(length, length - power)
        self._significant(start, length)
        with code.when((length < 1).otherwise(length > _EXACT_DIGITS)):
            code.set(hard, 1)
        with code.when((cursor.byte | 32).is_(_LOWER_E)):
            self._exponent(power, hard)
        self._check_end(hard)
        bits = code.let("bits", word(0))
        with code.when(hard.is_(0)):
            float_bits(code, number, power, bits, hard)
        code.store(self.values, slot, bits | (negative << 63))
        self._leave_to_python(hard, token, slot)

    def _significant(self, start: X, length: X) -> None:
        """Leading zeros do not count: they leave the number as it is."""
        code, text = self.code, self.cursor.text
        with code.when(length > _EXACT_DIGITS):
            scan = code.let("scan", start)
            c = code.let("first", text[scan].to(INT64))
            with code.loop(c.is_(_ZERO).otherwise(c.is_(_DOT))):
                with code.when(c.is_(_ZERO).also(length > 1)):
                    code.set(length, length - 1)
                code.set(scan, scan + 1)
                code.set(c, text[scan].to(INT64))

    def _exponent(self, power: X, hard: X) -> None:
        code, cursor = self.code, self.cursor
        below, size = code.let("below", word(0)), code.let("size", word(0))
        cursor.step()
        cursor.sign(below)
        start = code.let("start", cursor.at)
        cursor.digits(size)
        length = code.let("length", cursor.at - start)
        with code.when((length > 0).also(length < 6)):
            wide = code.let("wide", size.to(INT64))
            code.set(power, power + below.is_(1).pick(whole(0) - wide, wide))
        with code.unless():
            code.set(hard, 1)


def _local(x: X) -> Local:
    assert isinstance(x.e, Local)
    return x.e


@cache
def reader(line: Line) -> Kernel:
    """The kernel for lines of one kind."""
    return _Parser(line).kernel()
