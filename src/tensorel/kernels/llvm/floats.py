"""Operators on float32 and float64 that take more than one instruction."""

from __future__ import annotations

from functools import partial

from tensorel.kernels.llvm.instructions import TYPES, Assembler, Value, literal_float
from tensorel.kernels.llvm.operator_table import TABLE, lowers

_ZERO, _ONE, _INF = literal_float(0.0), literal_float(1.0), literal_float(float("inf"))
_TWO = literal_float(2.0)




def is_nan(asm: Assembler, code: str, a: str) -> str:
    return asm.op(f"fcmp uno {TYPES[code]} {a}, {_ZERO}")


def is_inf(asm: Assembler, code: str, a: str) -> str:
    size = asm.intrinsic("fabs", TYPES[code], a)
    return asm.op(f"fcmp oeq {TYPES[code]} {size}, {_INF}")


lowers("isnan", "f")(is_nan)
lowers("isinf", "f")(is_inf)


@lowers("signbit", "f")
def _signbit(asm: Assembler, code: str, a: str) -> Value:
    bits = "i32" if code == "f4" else "i64"
    raw = asm.op(f"bitcast {TYPES[code]} {a} to {bits}")
    return asm.op(f"icmp slt {bits} {raw}, 0")


@lowers("power", "f")
def _power(asm: Assembler, code: str, a: str, b: str) -> Value:
    if b == _TWO:
        return TABLE["square", "f"](asm, code, a)
    if b == _ONE:
        return a
    return asm.libm("pow", TYPES[code], a, b)


def _divmod(which: int, asm: Assembler, code: str, a: str, b: str) -> str:
    kind = TYPES[code]
    suffix = "f32" if code == "f4" else "f64"
    for name, count in (("floor", 1), ("copysign", 2)):
        asm.declare(f"llvm.{name}.{suffix}", kind, ", ".join([kind] * count), "")
    name = f"tr.divmod.{code}.{which}"
    text = _DIVMOD.format(name=name, kind=kind, suffix=suffix, half=literal_float(0.5),
                          zero=_ZERO, one=_ONE, result=("%floored", "%rest")[which],
                          by_zero=("%ratio", "%mod")[which])
    return asm.helper_call(name, text, kind, a, b)


lowers("floor_divide", "f")(partial(_divmod, 0))
lowers("remainder", "f")(partial(_divmod, 1))

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
