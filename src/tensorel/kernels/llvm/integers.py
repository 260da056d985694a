"""Operators on integers and booleans that take more than one instruction."""

from __future__ import annotations

from functools import partial

from tensorel.kernels.llvm.instructions import TYPES, Assembler, Value, literal_float, literal_int
from tensorel.kernels.llvm.operator_table import lowers


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
    name, below = f"tr.power.{code}", "slt" if code[0] == "i" else "ult"
    text = SQUARING.format(  # a negative exponent, which NumPy refuses, gives 0
        name=name, kind=kind, count=kind, first=f"\n  %refused = icmp {below} {kind} %b, 0",
        last=f"\n  %result = select i1 %refused, {kind} 0, {kind} %r\n  ret {kind} %result")
    return asm.helper_call(name, text, kind, a, b)


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


#: ``b`` times ``a`` under multiplication, by squaring.
SQUARING = """
define internal {kind} @{name}({kind} %a, {count} %b) {{
entry:{first}
  br label %head
head:
  %r = phi {kind} [ 1, %entry ], [ %r2, %next ]
  %x = phi {kind} [ %a, %entry ], [ %x2, %next ]
  %n = phi {count} [ %b, %entry ], [ %n2, %next ]
  %done = icmp eq {count} %n, 0
  br i1 %done, label %end, label %next
next:
  %odd = trunc {count} %n to i1
  %rx = mul {kind} %r, %x
  %r2 = select i1 %odd, {kind} %rx, {kind} %r
  %x2 = mul {kind} %x, %x
  %n2 = lshr {count} %n, 1
  br label %head
end:{last}
}}"""


def _shift(instruction: str, asm: Assembler, code: str, a: str, b: str) -> Value:
    kind, width = TYPES[code], int(TYPES[code][1:])
    inside = asm.op(f"icmp ult {kind} {b}, {width}")
    if instruction == "ashr":
        last = asm.op(f"select i1 {inside}, {kind} {b}, {kind} {width - 1}")
        return asm.op(f"ashr {kind} {a}, {last}")
    safe = asm.op(f"select i1 {inside}, {kind} {b}, {kind} 0")
    shifted = asm.op(f"{instruction} {kind} {a}, {safe}")
    return asm.op(f"select i1 {inside}, {kind} {shifted}, {kind} 0")


lowers("left_shift", "iu")(partial(_shift, "shl"))
lowers("right_shift", "i")(partial(_shift, "ashr"))
lowers("right_shift", "u")(partial(_shift, "lshr"))


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
