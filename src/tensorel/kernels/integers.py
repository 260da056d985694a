"""Operators on integers and booleans that take more than one instruction."""

from __future__ import annotations

from tensorel.kernels.casts import cast
from tensorel.kernels.instructions import TYPES, Assembler, Value, literal_float, literal_int
from tensorel.kernels.table import lowers


def _is_power_of_two(number: int | None) -> bool:
    return number is not None and number > 0 and number & (number - 1) == 0


@lowers("floor_divide", "i")
def _floor_divide_signed(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind, number = TYPES[code], literal_int(b)
    if number is not None and _is_power_of_two(number):
        return asm.op(f"ashr {kind} {a}, {number.bit_length() - 1}")
    quotient, _, fix, bad = _divide_signed(asm, kind, a, b)
    step = asm.op(f"sext i1 {fix} to {kind}")
    floored = asm.op(f"add {kind} {quotient}, {step}")
    if bad is None:
        return floored
    zero = asm.op(f"icmp eq {kind} {b}, 0")
    negated = asm.op(f"sub {kind} 0, {a}")  # the lowest integer // -1 is itself
    special = asm.op(f"select i1 {zero}, {kind} 0, {kind} {negated}")
    return asm.op(f"select i1 {bad}, {kind} {special}, {kind} {floored}")


@lowers("remainder", "i")
def _remainder_signed(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind, number = TYPES[code], literal_int(b)
    if number is not None and _is_power_of_two(number):
        return asm.op(f"and {kind} {a}, {number - 1}")
    _, rest, fix, bad = _divide_signed(asm, kind, a, b)
    moved = asm.op(f"add {kind} {rest}, {b}")
    result = asm.op(f"select i1 {fix}, {kind} {moved}, {kind} {rest}")
    return result if bad is None else asm.op(f"select i1 {bad}, {kind} 0, {kind} {result}")


def _divide_signed(asm: Assembler, kind: str, a: str, b: str) -> tuple[str, str, str, str | None]:
    """Truncated quotient and rest, whether to step down, and whether b is 0 or -1 (traps)."""
    number = literal_int(b)
    if number is not None and number not in (0, -1):
        bad, safe = None, b
    else:
        shifted = asm.op(f"add {kind} {b}, 1")
        bad = asm.op(f"icmp ult {kind} {shifted}, 2")
        safe = asm.op(f"select i1 {bad}, {kind} 1, {kind} {b}")
    quotient = asm.op(f"sdiv {kind} {a}, {safe}")
    rest = asm.op(f"srem {kind} {a}, {safe}")
    uneven = asm.op(f"icmp ne {kind} {rest}, 0")
    crossed = asm.op(f"xor {kind} {rest}, {safe}")
    opposite = asm.op(f"icmp slt {kind} {crossed}, 0")
    return quotient, rest, asm.op(f"and i1 {uneven}, {opposite}"), bad


@lowers("floor_divide", "u")
def _floor_divide_unsigned(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind = TYPES[code]
    zero = asm.op(f"icmp eq {kind} {b}, 0")
    safe = asm.op(f"select i1 {zero}, {kind} 1, {kind} {b}")
    quotient = asm.op(f"udiv {kind} {a}, {safe}")
    return asm.op(f"select i1 {zero}, {kind} 0, {kind} {quotient}")


@lowers("remainder", "u")
def _remainder_unsigned(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind = TYPES[code]
    zero = asm.op(f"icmp eq {kind} {b}, 0")
    safe = asm.op(f"select i1 {zero}, {kind} 1, {kind} {b}")
    return asm.op(f"urem {kind} {a}, {safe}")


@lowers("power", "iu")
def _power_integer(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind, number = TYPES[code], literal_int(b)
    if number is not None and 0 <= number <= 64:
        return _power_literal(asm, kind, a, number)
    name = f"tr.power.{code}"
    below = "slt" if code[0] == "i" else "ult"
    return asm.helper_call(name, _POWER.format(name=name, kind=kind, below=below), kind, a, b)


def _power_literal(asm: Assembler, kind: str, a: str, exponent: int) -> str:
    result: str | None = None
    base = a
    while exponent:
        if exponent & 1:
            result = base if result is None else asm.op(f"mul {kind} {result}, {base}")
        exponent >>= 1
        if exponent:
            base = asm.op(f"mul {kind} {base}, {base}")
    return "1" if result is None else result


#: By squaring; a negative exponent, which NumPy refuses, gives 0.
_POWER = """
define internal {kind} @{name}({kind} %a, {kind} %b) {{
entry:
  %refused = icmp {below} {kind} %b, 0
  br label %head
head:
  %r = phi {kind} [ 1, %entry ], [ %r2, %next ]
  %x = phi {kind} [ %a, %entry ], [ %x2, %next ]
  %n = phi {kind} [ %b, %entry ], [ %n2, %next ]
  %done = icmp eq {kind} %n, 0
  br i1 %done, label %end, label %next
next:
  %odd = trunc {kind} %n to i1
  %rx = mul {kind} %r, %x
  %r2 = select i1 %odd, {kind} %rx, {kind} %r
  %x2 = mul {kind} %x, %x
  %n2 = lshr {kind} %n, 1
  br label %head
end:
  %result = select i1 %refused, {kind} 0, {kind} %r
  ret {kind} %result
}}"""


@lowers("left_shift", "iu")
def _left_shift(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind = TYPES[code]
    inside = asm.op(f"icmp ult {kind} {b}, {kind[1:]}")
    safe = asm.op(f"select i1 {inside}, {kind} {b}, {kind} 0")
    shifted = asm.op(f"shl {kind} {a}, {safe}")
    return asm.op(f"select i1 {inside}, {kind} {shifted}, {kind} 0")


@lowers("right_shift", "iu")
def _right_shift(asm: Assembler, code: str, a: str, b: str) -> Value:
    kind, width = TYPES[code], int(TYPES[code][1:])
    inside = asm.op(f"icmp ult {kind} {b}, {width}")
    if code[0] == "i":
        last = asm.op(f"select i1 {inside}, {kind} {b}, {kind} {width - 1}")
        return asm.op(f"ashr {kind} {a}, {last}")
    safe = asm.op(f"select i1 {inside}, {kind} {b}, {kind} 0")
    shifted = asm.op(f"lshr {kind} {a}, {safe}")
    return asm.op(f"select i1 {inside}, {kind} {shifted}, {kind} 0")


@lowers("minimum", "iu")
def _minimum_integer(asm: Assembler, code: str, a: str, b: str) -> Value:
    return asm.intrinsic("smin" if code[0] == "i" else "umin", TYPES[code], a, b)


@lowers("maximum", "iu")
def _maximum_integer(asm: Assembler, code: str, a: str, b: str) -> Value:
    return asm.intrinsic("smax" if code[0] == "i" else "umax", TYPES[code], a, b)


@lowers("negative", "iu")
def _negative_integer(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"sub {TYPES[code]} 0, {a}")


@lowers("absolute", "i")
def _absolute_integer(asm: Assembler, code: str, a: str) -> Value:
    return asm.intrinsic("abs", TYPES[code], a, more="i1 false")


@lowers("sign", "iu")
def _sign_integer(asm: Assembler, code: str, a: str) -> Value:
    kind = TYPES[code]
    some = asm.op(f"icmp ne {kind} {a}, 0")
    one = asm.op(f"zext i1 {some} to {kind}")
    if code[0] == "u":
        return one
    below = asm.op(f"icmp slt {kind} {a}, 0")
    return asm.op(f"select i1 {below}, {kind} -1, {kind} {one}")


@lowers("square", "iu")
def _square_integer(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"mul {TYPES[code]} {a}, {a}")


@lowers("reciprocal", "iu")
def _reciprocal_integer(asm: Assembler, code: str, a: str) -> Value:
    wide = cast(asm, a, code, "f8")
    inverse = asm.op(f"fdiv double {literal_float(1.0)}, {wide}")
    return cast(asm, inverse, "f8", code)


def _same(asm: Assembler, code: str, a: Value) -> Value:
    return a


for _name, _kinds in (
    ("positive", "iufc"), ("absolute", "bu"), ("floor", "biu"), ("ceil", "biu"),
    ("trunc", "biu"), ("conjugate", "biuf"), ("real", "biuf"),
):
    lowers(_name, _kinds)(_same)


@lowers("imag", "biuf")
def _imag(asm: Assembler, code: str, a: Value) -> Value:
    return "false" if code == "b1" else literal_float(0.0) if code[0] == "f" else "0"


@lowers("isnan", "biu")
@lowers("isinf", "biu")
def _never(asm: Assembler, code: str, a: Value) -> Value:
    return "false"


@lowers("isfinite", "biu")
def _always(asm: Assembler, code: str, a: Value) -> Value:
    return "true"


@lowers("bitwise_count", "iu")
def _bitwise_count(asm: Assembler, code: str, a: str) -> Value:
    """Set bits of |a|, as uint8."""
    kind = TYPES[code]
    magnitude = asm.intrinsic("abs", kind, a, more="i1 false") if code[0] == "i" else a
    count = asm.intrinsic("ctpop", kind, magnitude)
    return count if kind == "i8" else asm.op(f"trunc {kind} {count} to i8")
