"""Operators on float32 and float64 that take more than one instruction."""

from __future__ import annotations

from tensorel.kernels.instructions import TYPES, Assembler, Value, literal_float
from tensorel.kernels.table import lowers

_ZERO, _ONE, _INF = literal_float(0.0), literal_float(1.0), literal_float(float("inf"))
_TWO = literal_float(2.0)


@lowers("minimum", "f")
def _minimum(asm: Assembler, code: str, a: str, b: str) -> Value:
    return asm.intrinsic("minimum", TYPES[code], a, b, flags="nsz ")


@lowers("maximum", "f")
def _maximum(asm: Assembler, code: str, a: str, b: str) -> Value:
    return asm.intrinsic("maximum", TYPES[code], a, b, flags="nsz ")


@lowers("copysign", "f")
def _copysign(asm: Assembler, code: str, a: str, b: str) -> Value:
    return asm.intrinsic("copysign", TYPES[code], a, b)


@lowers("negative", "f")
def _negative(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"fneg {TYPES[code]} {a}")


@lowers("square", "f")
def _square(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"fmul {asm.flags}{TYPES[code]} {a}, {a}")


@lowers("reciprocal", "f")
def _reciprocal(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"fdiv {TYPES[code]} {_ONE}, {a}")


@lowers("sign", "f")
def _sign(asm: Assembler, code: str, a: str) -> Value:
    """1, -1, 0; a nan stays."""
    kind = TYPES[code]
    above = asm.op(f"fcmp ogt {kind} {a}, {_ZERO}")
    below = asm.op(f"fcmp olt {kind} {a}, {_ZERO}")
    zero = asm.op(f"fcmp oeq {kind} {a}, {_ZERO}")
    rest = asm.op(f"select i1 {zero}, {kind} {_ZERO}, {kind} {a}")
    lower = asm.op(f"select i1 {below}, {kind} {literal_float(-1.0)}, {kind} {rest}")
    return asm.op(f"select i1 {above}, {kind} {_ONE}, {kind} {lower}")


def is_nan(asm: Assembler, code: str, a: str) -> str:
    return asm.op(f"fcmp uno {TYPES[code]} {a}, {_ZERO}")


def is_inf(asm: Assembler, code: str, a: str) -> str:
    size = asm.intrinsic("fabs", TYPES[code], a)
    return asm.op(f"fcmp oeq {TYPES[code]} {size}, {_INF}")


lowers("isnan", "f")(is_nan)
lowers("isinf", "f")(is_inf)


@lowers("isfinite", "f")
def _isfinite(asm: Assembler, code: str, a: str) -> Value:
    size = asm.intrinsic("fabs", TYPES[code], a)
    return asm.op(f"fcmp olt {TYPES[code]} {size}, {_INF}")


@lowers("signbit", "f")
def _signbit(asm: Assembler, code: str, a: str) -> Value:
    bits = "i32" if code == "f4" else "i64"
    raw = asm.op(f"bitcast {TYPES[code]} {a} to {bits}")
    return asm.op(f"icmp slt {bits} {raw}, 0")


@lowers("power", "f")
def _power(asm: Assembler, code: str, a: str, b: str) -> Value:
    if b == _TWO:
        return _square(asm, code, a)
    if b == _ONE:
        return a
    return asm.libm("pow", TYPES[code], a, b)


@lowers("floor_divide", "f")
def _floor_divide(asm: Assembler, code: str, a: str, b: str) -> Value:
    return _divmod(asm, code, a, b, 0)


@lowers("remainder", "f")
def _remainder(asm: Assembler, code: str, a: str, b: str) -> Value:
    return _divmod(asm, code, a, b, 1)


def _divmod(asm: Assembler, code: str, a: str, b: str, which: int) -> str:
    kind = TYPES[code]
    suffix = "f32" if code == "f4" else "f64"
    for name, count in (("floor", 1), ("copysign", 2)):
        asm.declare(f"llvm.{name}.{suffix}", kind, ", ".join([kind] * count), "")
    name = f"tr.divmod.{code}.{which}"
    text = _DIVMOD.format(name=name, kind=kind, suffix=suffix, half=literal_float(0.5),
                          zero=_ZERO, one=_ONE, result=("%floored", "%rest")[which],
                          by_zero=("%ratio", "%mod")[which])
    return asm.helper_call(name, text, kind, a, b)


#: Python's divmod as NumPy has it: the rest has the sign of b, also when it is zero.
_DIVMOD = """
define internal {kind} @{name}({kind} %a, {kind} %b) {{
entry:
  %mod = frem {kind} %a, %b
  %ratio = fdiv {kind} %a, %b
  %none = fcmp oeq {kind} %b, {zero}
  br i1 %none, label %flat, label %go
flat:
  ret {kind} {by_zero}
go:
  %numerator = fsub {kind} %a, %mod
  %div = fdiv {kind} %numerator, %b
  %some = fcmp une {kind} %mod, {zero}
  %b.negative = fcmp olt {kind} %b, {zero}
  %mod.negative = fcmp olt {kind} %mod, {zero}
  %differ = xor i1 %b.negative, %mod.negative
  %step = and i1 %some, %differ
  %mod.up = fadd {kind} %mod, %b
  %div.down = fsub {kind} %div, {one}
  %mod.zero = call {kind} @llvm.copysign.{suffix}({kind} {zero}, {kind} %b)
  %mod.some = select i1 %step, {kind} %mod.up, {kind} %mod
  %rest = select i1 %some, {kind} %mod.some, {kind} %mod.zero
  %stepped = select i1 %step, {kind} %div.down, {kind} %div
  %low = call {kind} @llvm.floor.{suffix}({kind} %stepped)
  %over = fsub {kind} %stepped, %low
  %far = fcmp ogt {kind} %over, {half}
  %high = fadd {kind} %low, {one}
  %whole = select i1 %far, {kind} %high, {kind} %low
  %nonzero = fcmp une {kind} %stepped, {zero}
  %div.zero = call {kind} @llvm.copysign.{suffix}({kind} {zero}, {kind} %ratio)
  %floored = select i1 %nonzero, {kind} %whole, {kind} %div.zero
  ret {kind} {result}
}}"""


@lowers("logaddexp", "f")
def _logaddexp(asm: Assembler, code: str, a: str, b: str) -> Value:
    """log(exp(a) + exp(b)) without overflow; equal infinities stay, a nan stays."""
    kind = TYPES[code]
    difference = asm.op(f"fsub {kind} {a}, {b}")
    greater = asm.op(f"fcmp ogt {kind} {difference}, {_ZERO}")
    larger = asm.op(f"select i1 {greater}, {kind} {a}, {kind} {b}")
    size = asm.intrinsic("fabs", kind, difference)
    gap = asm.op(f"fneg {kind} {size}")
    tail = asm.libm("log1p", kind, asm.libm("exp", kind, gap))
    usual = asm.op(f"fadd {kind} {larger}, {tail}")
    same = asm.op(f"fcmp oeq {kind} {a}, {b}")
    double = 0.6931471805599453
    log_two = literal_float(double if code == "f8" else 0.6931471824645996)
    doubled = asm.op(f"fadd {kind} {a}, {log_two}")
    return asm.op(f"select i1 {same}, {kind} {doubled}, {kind} {usual}")
