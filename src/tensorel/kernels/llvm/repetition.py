"""n copies of a value under a monoid: ``algebra.repetition`` in LLVM instructions."""

from __future__ import annotations

from tensorel.kernels.llvm.casts import cast
from tensorel.kernels.llvm.instructions import PARTS, TYPES, Assembler, Value, by_parts
from tensorel.kernels.llvm.integers import SQUARING
from tensorel.kernels.llvm.operator_table import lowers


@lowers("repeat_sum", "b")
@lowers("repeat_product", "b")
def _same(asm: Assembler, code: str, a: str, n: str) -> Value:
    return a


@lowers("repeat_sum", "iu")
def _sum_integer(asm: Assembler, code: str, a: str, n: str) -> Value:
    return asm.op(f"mul {TYPES[code]} {a}, {cast(asm, n, 'i8', code)}")


@lowers("repeat_sum", "fc")
def _sum_float(asm: Assembler, code: str, a: Value, n: str) -> Value:
    part = PARTS.get(code, code)

    def scaled(x: str) -> str:
        return str(cast(asm, asm.op(f"fmul double {cast(asm, x, part, 'f8')}, {n}"), "f8", part))

    return by_parts(scaled, a)


@lowers("repeat_product", "iu")
def _product_integer(asm: Assembler, code: str, a: str, n: str) -> Value:
    name = f"tr.copies.{code}"
    asm.helpers[name] = SQUARING.format(
        name=name, kind=TYPES[code], count="i64", first="", last=f"\n  ret {TYPES[code]} %r")
    return asm.op(f"call {TYPES[code]} @{name}({TYPES[code]} {a}, i64 {n})")


@lowers("repeat_product", "f")
def _product_float(asm: Assembler, code: str, a: str, n: str) -> Value:
    """The magnitude to the power; the sign by parity, which doubles do not hold above 2**53."""
    wide = cast(asm, a, code, "f8")
    size = asm.intrinsic("fabs", "double", str(wide))
    power = asm.libm("pow", "double", size, asm.op(f"sitofp i64 {n} to double"))
    bits = asm.op(f"bitcast double {wide} to i64")
    negative, odd = asm.op(f"icmp slt i64 {bits}, 0"), asm.op(f"trunc i64 {n} to i1")
    turned = asm.op(f"and i1 {negative}, {odd}")
    opposite = asm.op(f"fneg double {power}")
    result = asm.op(f"select i1 {turned}, double {opposite}, double {power}")
    return cast(asm, result, "f8", code)


@lowers("repeat_product", "c")
def _product_complex(asm: Assembler, code: str, a: tuple[str, str], n: str) -> Value:
    name = "tr.copies.c16"
    asm.helpers[name] = _COMPLEX.format(name=name)
    re, im = (cast(asm, part, PARTS[code], "f8") for part in a)
    both = asm.op(f"call {{double, double}} @{name}(double {re}, double {im}, i64 {n})")
    found = [asm.op(f"extractvalue {{double, double}} {both}, {k}") for k in (0, 1)]
    first, second = (str(cast(asm, part, "f8", PARTS[code])) for part in found)
    return first, second


#: By squaring, from the first copy on: 1 times an infinity has a nan.
_COMPLEX = """
define internal {{double, double}} @{name}(double %a, double %b, i64 %count) {{
entry:
  %less = sub i64 %count, 1
  br label %head
head:
  %r = phi double [ %a, %entry ], [ %r2, %next ]
  %i = phi double [ %b, %entry ], [ %i2, %next ]
  %x = phi double [ %a, %entry ], [ %x2, %next ]
  %y = phi double [ %b, %entry ], [ %y2, %next ]
  %n = phi i64 [ %less, %entry ], [ %n2, %next ]
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %next
next:
  %odd = trunc i64 %n to i1
  %rx = fmul double %r, %x
  %iy = fmul double %i, %y
  %ry = fmul double %r, %y
  %ix = fmul double %i, %x
  %re = fsub double %rx, %iy
  %im = fadd double %ry, %ix
  %r2 = select i1 %odd, double %re, double %r
  %i2 = select i1 %odd, double %im, double %i
  %xx = fmul double %x, %x
  %yy = fmul double %y, %y
  %xy = fmul double %x, %y
  %yx = fmul double %y, %x
  %x2 = fsub double %xx, %yy
  %y2 = fadd double %xy, %yx
  %n2 = lshr i64 %n, 1
  br label %head
end:
  %first = insertvalue {{double, double}} undef, double %r, 0
  %both = insertvalue {{double, double}} %first, double %i, 1
  ret {{double, double}} %both
}}"""
