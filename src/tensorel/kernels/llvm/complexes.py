"""Operators on complex64 and complex128: pairs of floats, NumPy's formulas.

Arithmetic is done in the precision of the dtype. Transcendental functions are those of the C
library in double; complex64 is widened and rounded back.
"""

from __future__ import annotations

import math
from functools import partial

from tensorel.kernels.llvm.casts import cast
from tensorel.kernels.llvm.floats import is_inf, is_nan
from tensorel.kernels.llvm.instructions import PARTS, TYPES, Assembler, Value, literal_float
from tensorel.kernels.llvm.operator_table import lowers

Pair = tuple[str, str]
_ZERO, _ONE = literal_float(0.0), literal_float(1.0)
_NAN = literal_float(math.nan)

_LIBM = ("exp", "log", "sqrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh",
         "tanh", "arcsinh", "arccosh", "arctanh")


@lowers("multiply", "c")
def _multiply(asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    kind, flags = TYPES[code], asm.flags
    rr = asm.op(f"fmul {flags}{kind} {a[0]}, {b[0]}")
    ii = asm.op(f"fmul {flags}{kind} {a[1]}, {b[1]}")
    ri = asm.op(f"fmul {flags}{kind} {a[0]}, {b[1]}")
    ir = asm.op(f"fmul {flags}{kind} {a[1]}, {b[0]}")
    return asm.op(f"fsub {flags}{kind} {rr}, {ii}"), asm.op(f"fadd {flags}{kind} {ri}, {ir}")


@lowers("square", "c")
def _square(asm: Assembler, code: str, a: Pair) -> Value:
    return _multiply(asm, code, a, a)


@lowers("divide", "c")
def _divide(asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    """Smith's method: scaled by the larger part of the divisor."""
    kind = TYPES[code]
    size_r = asm.intrinsic("fabs", kind, b[0])
    size_i = asm.intrinsic("fabs", kind, b[1])
    real_larger = asm.op(f"fcmp oge {kind} {size_r}, {size_i}")

    def choose(yes: str, no: str) -> str:
        return asm.op(f"select i1 {real_larger}, {kind} {yes}, {kind} {no}")

    large, small = choose(b[0], b[1]), choose(b[1], b[0])
    first, second = choose(a[0], a[1]), choose(a[1], a[0])
    ratio = asm.op(f"fdiv {kind} {small}, {large}")
    product = asm.op(f"fmul {kind} {small}, {ratio}")
    norm = asm.op(f"fadd {kind} {large}, {product}")
    scale = asm.op(f"fdiv {kind} {_ONE}, {norm}")
    second_part = asm.op(f"fmul {kind} {second}, {ratio}")
    first_part = asm.op(f"fmul {kind} {first}, {ratio}")
    upper = asm.op(f"fadd {kind} {first}, {second_part}")
    lower = choose(
        asm.op(f"fsub {kind} {second}, {first_part}"),
        asm.op(f"fsub {kind} {first_part}, {second}"),
    )
    result = asm.op(f"fmul {kind} {upper}, {scale}"), asm.op(f"fmul {kind} {lower}, {scale}")
    # Division by zero gives an infinity or nan in each part.
    at_zero = tuple(asm.op(f"fdiv {kind} {part}, {size_r}") for part in a)
    some = asm.op(f"fadd {kind} {size_r}, {size_i}")
    zero = asm.op(f"fcmp oeq {kind} {some}, {_ZERO}")
    return asm.select(code, zero, (at_zero[0], at_zero[1]), result)


@lowers("reciprocal", "c")
def _reciprocal(asm: Assembler, code: str, a: Pair) -> Value:
    kind = TYPES[code]
    size_r, size_i = asm.intrinsic("fabs", kind, a[0]), asm.intrinsic("fabs", kind, a[1])
    real_larger = asm.op(f"fcmp ole {kind} {size_i}, {size_r}")
    large = asm.op(f"select i1 {real_larger}, {kind} {a[0]}, {kind} {a[1]}")
    small = asm.op(f"select i1 {real_larger}, {kind} {a[1]}, {kind} {a[0]}")
    ratio = asm.op(f"fdiv {kind} {small}, {large}")
    product = asm.op(f"fmul {kind} {small}, {ratio}")
    norm = asm.op(f"fadd {kind} {large}, {product}")
    upper = asm.op(f"select i1 {real_larger}, {kind} {_ONE}, {kind} {ratio}")
    lower = asm.op(f"select i1 {real_larger}, {kind} {ratio}, {kind} {_ONE}")
    negated = asm.op(f"fneg {kind} {lower}")
    return asm.op(f"fdiv {kind} {upper}, {norm}"), asm.op(f"fdiv {kind} {negated}, {norm}")


@lowers("conjugate", "c")
def _conjugate(asm: Assembler, code: str, a: Pair) -> Value:
    return a[0], asm.op(f"fneg {TYPES[code]} {a[1]}")


lowers("real", "c")(lambda asm, code, a: a[0])
lowers("imag", "c")(lambda asm, code, a: a[1])


@lowers("absolute", "c")
def _absolute(asm: Assembler, code: str, a: Pair) -> Value:
    return asm.libm("hypot", TYPES[code], *a)


@lowers("sign", "c")
def _sign(asm: Assembler, code: str, a: Pair) -> Value:
    """The unit number in the direction of a; of an infinite part, that part alone."""
    kind, part = TYPES[code], PARTS[code]
    size = asm.libm("hypot", kind, *a)
    infinite = [is_inf(asm, part, x) for x in a]
    either = asm.op(f"or i1 {infinite[0]}, {infinite[1]}")
    both = asm.op(f"and i1 {infinite[0]}, {infinite[1]}")
    zero = asm.op(f"fcmp oeq {kind} {size}, {_ZERO}")
    parts = []
    for x, is_infinite in zip(a, infinite):
        unit = asm.intrinsic("copysign", kind, _ONE, x)
        direction = asm.op(f"select i1 {is_infinite}, {kind} {unit}, {kind} {_ZERO}")
        usual = asm.op(f"fdiv {kind} {x}, {size}")
        usual = asm.op(f"select i1 {zero}, {kind} {_ZERO}, {kind} {usual}")
        far = asm.op(f"select i1 {either}, {kind} {direction}, {kind} {usual}")
        parts.append(asm.op(f"select i1 {both}, {kind} {_NAN}, {kind} {far}"))
    unknown = is_nan(asm, part, size)
    return asm.select(code, unknown, (_NAN, _NAN), (parts[0], parts[1]))


# -- predicates and order ----------------------------------------------------------------------
@lowers("isnan", "c")
def _isnan(asm: Assembler, code: str, a: Pair) -> Value:
    return asm.op(f"fcmp uno {TYPES[code]} {a[0]}, {a[1]}")


@lowers("isinf", "c")
def _isinf(asm: Assembler, code: str, a: Pair) -> Value:
    first, second = (is_inf(asm, PARTS[code], x) for x in a)
    return asm.op(f"or i1 {first}, {second}")


@lowers("isfinite", "c")
def _isfinite(asm: Assembler, code: str, a: Pair) -> Value:
    infinite = literal_float(math.inf)
    kind = TYPES[code]
    sizes = (asm.intrinsic("fabs", kind, x) for x in a)
    first, second = (asm.op(f"fcmp olt {kind} {s}, {infinite}") for s in sizes)
    return asm.op(f"and i1 {first}, {second}")


@lowers("equal", "c")
def _equal(asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    first, second = (asm.op(f"fcmp oeq {TYPES[code]} {x}, {y}") for x, y in zip(a, b))
    return asm.op(f"and i1 {first}, {second}")


@lowers("not_equal", "c")
def _not_equal(asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    first, second = (asm.op(f"fcmp une {TYPES[code]} {x}, {y}") for x, y in zip(a, b))
    return asm.op(f"or i1 {first}, {second}")


def _ordered(strict: str, order: str, asm: Assembler, code: str, a: Pair, b: Pair) -> str:
    """Lexicographic: real parts first (imaginary parts must not be nan), then imaginary."""
    kind = TYPES[code]
    ahead = asm.op(f"fcmp {strict} {kind} {a[0]}, {b[0]}")
    known = asm.op(f"fcmp ord {kind} {a[1]}, {b[1]}")
    first = asm.op(f"and i1 {ahead}, {known}")
    same = asm.op(f"fcmp oeq {kind} {a[0]}, {b[0]}")
    tie = asm.op(f"fcmp {order} {kind} {a[1]}, {b[1]}")
    second = asm.op(f"and i1 {same}, {tie}")
    return asm.op(f"or i1 {first}, {second}")


def _extremum(strict: str, order: str, asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    ahead = _ordered(strict, order, asm, code, a, b)
    unknown = asm.op(f"fcmp uno {TYPES[code]} {a[0]}, {a[1]}")
    return asm.select(code, asm.op(f"or i1 {unknown}, {ahead}"), a, b)


for _name, _strict, _order in (
    ("less", "olt", "olt"), ("less_equal", "olt", "ole"),
    ("greater", "ogt", "ogt"), ("greater_equal", "ogt", "oge"),
):
    lowers(_name, "c")(partial(_ordered, _strict, _order))
lowers("minimum", "c")(partial(_extremum, "olt", "ole"))
lowers("maximum", "c")(partial(_extremum, "ogt", "oge"))


# -- functions of the C library ----------------------------------------------------------------
def _widen(asm: Assembler, code: str, a: Pair) -> Pair:
    wide = cast(asm, a, code, "c16")
    assert isinstance(wide, tuple)
    return wide


def _library(name: str) -> None:
    symbol = "c" + name.replace("arc", "a")

    def build(asm: Assembler, code: str, a: Pair) -> Value:
        return cast(asm, asm.pair_call(symbol, *_widen(asm, code, a)), "c16", code)

    lowers(name, "c")(build)


for _name in _LIBM:
    _library(_name)


def _scaled(asm: Assembler, a: Pair, factor: float) -> Pair:
    by = literal_float(factor)
    return asm.op(f"fmul double {a[0]}, {by}"), asm.op(f"fmul double {a[1]}, {by}")


@lowers("exp2", "c")
def _exp2(asm: Assembler, code: str, a: Pair) -> Value:
    scaled = _scaled(asm, _widen(asm, code, a), math.log(2.0))
    return cast(asm, asm.pair_call("cexp", *scaled), "c16", code)


def _logarithm(base: float, asm: Assembler, code: str, a: Pair) -> Value:
    natural = asm.pair_call("clog", *_widen(asm, code, a))
    return cast(asm, _scaled(asm, natural, 1.0 / math.log(base)), "c16", code)


lowers("log2", "c")(partial(_logarithm, 2.0))
lowers("log10", "c")(partial(_logarithm, 10.0))


@lowers("log1p", "c")
def _log1p(asm: Assembler, code: str, a: Pair) -> Value:
    re, im = _widen(asm, code, a)
    moved = asm.op(f"fadd double {re}, {_ONE}")
    size = asm.libm("log", "double", asm.libm("hypot", "double", moved, im))
    return cast(asm, (size, asm.libm("atan2", "double", im, moved)), "c16", code)


@lowers("expm1", "c")
def _expm1(asm: Assembler, code: str, a: Pair) -> Value:
    """expm1(x + iy) = expm1(x) cos y - 2 sin(y/2)**2 + i exp(x) sin y."""
    re, im = _widen(asm, code, a)
    half = asm.libm("sin", "double", asm.op(f"fmul double {im}, {literal_float(0.5)}"))
    grown = asm.op(f"fmul double {asm.libm('expm1', 'double', re)}, "
                   f"{asm.libm('cos', 'double', im)}")
    square = asm.op(f"fmul double {half}, {half}")
    twice = asm.op(f"fmul double {square}, {literal_float(2.0)}")
    upper = asm.op(f"fsub double {grown}, {twice}")
    lower = asm.op(f"fmul double {asm.libm('exp', 'double', re)}, "
                   f"{asm.libm('sin', 'double', im)}")
    return cast(asm, (upper, lower), "c16", code)


@lowers("power", "c")
def _power(asm: Assembler, code: str, a: Pair, b: Pair) -> Value:
    asm.declare("cpow", "{double, double}", "double, double, double, double")
    asm.declare("llvm.fabs.f64", "double", "double", "")
    asm.helpers["tr.cpower"] = _POWER
    wide = asm.pair_call("tr.cpower", *_widen(asm, code, a), *_widen(asm, code, b))
    return cast(asm, wide, "c16", code)


#: a**0 is 1, 0**b is 0 or nan, small whole exponents by squaring, the rest is cpow.
_POWER = """
define internal {double, double} @tr.cpower(double %ar, double %ai, double %br, double %bi) {
entry:
  %real = fcmp oeq double %bi, 0.0
  %br.zero = fcmp oeq double %br, 0.0
  %b.zero = and i1 %real, %br.zero
  br i1 %b.zero, label %one, label %base
one:
  ret {double, double} { double 1.0, double 0.0 }
base:
  %ar.zero = fcmp oeq double %ar, 0.0
  %ai.zero = fcmp oeq double %ai, 0.0
  %a.zero = and i1 %ar.zero, %ai.zero
  br i1 %a.zero, label %zero, label %size
zero:
  %positive = fcmp ogt double %br, 0.0
  br i1 %positive, label %nothing, label %unknown
nothing:
  ret {double, double} zeroinitializer
unknown:
  ret {double, double} { double 0x7FF8000000000000, double 0x7FF8000000000000 }
size:
  %absolute = call double @llvm.fabs.f64(double %br)
  %small = fcmp olt double %absolute, 100.0
  %candidate = and i1 %small, %real
  br i1 %candidate, label %whole, label %general
whole:
  %n0 = fptosi double %absolute to i64
  %back = sitofp i64 %n0 to double
  %exact = fcmp oeq double %back, %absolute
  br i1 %exact, label %head, label %general
head:
  %n = phi i64 [ %n0, %whole ], [ %n2, %head ]
  %rr = phi double [ 1.0, %whole ], [ %rr2, %head ]
  %ri = phi double [ 0.0, %whole ], [ %ri2, %head ]
  %pr = phi double [ %ar, %whole ], [ %pr2, %head ]
  %pi = phi double [ %ai, %whole ], [ %pi2, %head ]
  %odd = trunc i64 %n to i1
  %a1 = fmul double %rr, %pr
  %a2 = fmul double %ri, %pi
  %a3 = fmul double %rr, %pi
  %a4 = fmul double %ri, %pr
  %mr = fsub double %a1, %a2
  %mi = fadd double %a3, %a4
  %rr2 = select i1 %odd, double %mr, double %rr
  %ri2 = select i1 %odd, double %mi, double %ri
  %b1 = fmul double %pr, %pr
  %b2 = fmul double %pi, %pi
  %b3 = fmul double %pr, %pi
  %pr2 = fsub double %b1, %b2
  %pi2 = fadd double %b3, %b3
  %n2 = lshr i64 %n, 1
  %done = icmp eq i64 %n2, 0
  br i1 %done, label %finish, label %head
finish:
  %inverse = fcmp olt double %br, 0.0
  br i1 %inverse, label %invert, label %give
invert:
  %size.r = call double @llvm.fabs.f64(double %rr2)
  %size.i = call double @llvm.fabs.f64(double %ri2)
  %larger = fcmp ole double %size.i, %size.r
  %l = select i1 %larger, double %rr2, double %ri2
  %s = select i1 %larger, double %ri2, double %rr2
  %q = fdiv double %s, %l
  %sq = fmul double %s, %q
  %d = fadd double %l, %sq
  %u = select i1 %larger, double 1.0, double %q
  %w = select i1 %larger, double %q, double 1.0
  %wn = fneg double %w
  %vr = fdiv double %u, %d
  %vi = fdiv double %wn, %d
  br label %give
give:
  %or = phi double [ %rr2, %finish ], [ %vr, %invert ]
  %oi = phi double [ %ri2, %finish ], [ %vi, %invert ]
  %o1 = insertvalue {double, double} undef, double %or, 0
  %o2 = insertvalue {double, double} %o1, double %oi, 1
  ret {double, double} %o2
general:
  %power = call {double, double} @cpow(double %ar, double %ai, double %br, double %bi)
  ret {double, double} %power
}"""
