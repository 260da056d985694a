"""Every operator in LLVM instructions.

Arguments are first cast to the dtypes that ``Operator.resolve`` has decided. Operators of one
instruction or call are entered in the table here; the longer ones by the modules ``integers``,
``floats`` and ``complexes``; those without an entry are lowered by their formulas. The meaning is
NumPy's in all corners; no input is undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from typing import cast as typed

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tensorel.algebra import ops
from tensorel.algebra.ops import Operator
from tensorel.errors import UnsupportedError
from tensorel.ir.nodes import DType, const
from tensorel.kernels.llvm import complexes, floats, integers, repetition
from tensorel.kernels.llvm.casts import cast, truth
from tensorel.kernels.llvm.instructions import (
    TYPES,
    Assembler,
    Value,
    by_parts,
    code_of,
    literal,
    literal_float,
)
from tensorel.kernels.llvm.operator_table import TABLE, lowers


def lower(
    asm: Assembler, op: Operator, dtypes: Sequence[DType], values: Sequence[Value]
) -> Value:
    """``op`` applied to values of the given dtypes, in the dtype that ``op`` resolves to."""
    into, out = op.resolve(*dtypes)
    if op.name.startswith("cast_"):
        return cast(asm, values[0], code_of(dtypes[0]), code_of(out))
    # NumPy takes small integers to float16 for some predicates; float32 gives the same answer.
    codes = [code_of(d).replace("f2", "f4") for d in into]
    args = [cast(asm, v, code_of(d), c) for v, d, c in zip(values, dtypes, codes)]
    if op.name == "where":
        return _where(asm, codes, code_of(out), args)
    if op.count is None and len(codes) == 2 and codes[0] != codes[1]:
        return _mixed(asm, op.name, codes, args)
    found = TABLE.get((op.name, into[0].kind))
    if found is None and op.formula is not None:
        return _by_formula(asm, op.formula, into, out, args)
    if found is None:
        raise UnsupportedError(
            f"{op.name} of {into[0].name} has no native form",
            hint="write it with operators of tensorel, or convert the operand first",
        )
    return found(asm, codes[0], *args)


def _where(asm: Assembler, codes: list[str], out: str, args: list[Value]) -> Value:
    condition = truth(asm, codes[0], args[0])
    yes, no = cast(asm, args[1], codes[1], out), cast(asm, args[2], codes[2], out)
    return asm.select(out, condition, yes, no)


# -- operators made of others ------------------------------------------------------------------
_BY_MEANING: dict[object, Operator] = {op.meaning: op for op in ops.operators()}


class _Register(NDArrayOperatorsMixin):
    """A value in the formula of an operator: NumPy's functions of it are lowered when called.
    A number beside it takes its dtype."""

    def __init__(self, asm: Assembler, dtype: DType, value: Value) -> None:
        self.asm, self.dtype, self.value = asm, dtype, value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any) -> _Register:
        return self._call(_BY_MEANING[ufunc], args)

    def __array_function__(self, function: object, types: object, args: Any, named: Any
                           ) -> _Register:
        return self._call(_BY_MEANING[function], args)

    def _call(self, op: Operator, args: Sequence[Any]) -> _Register:
        beside = args[1:] if op is ops.where else args
        dtype = np.result_type(*[a.dtype if isinstance(a, _Register) else a for a in beside])
        given = [a if isinstance(a, _Register) else
                 _Register(self.asm, dtype, literal(const(a, dtype))) for a in args]
        dtypes = [a.dtype for a in given]
        made = lower(self.asm, op, dtypes, [a.value for a in given])
        return _Register(self.asm, op.resolve(*dtypes)[1], made)


def _by_formula(asm: Assembler, formula: Callable[..., _Register], dtypes: Sequence[DType],
                out: DType, args: list[Value]) -> Value:
    """Each step is rounded as NumPy rounds it: products and sums are not fused."""
    flags, asm.flags = asm.flags, ""
    made = formula(*[_Register(asm, d, a) for d, a in zip(dtypes, args)])
    asm.flags = flags
    return cast(asm, made.value, code_of(made.dtype), code_of(out))


# -- tables of operators that take one instruction or call --------------------------------------
#: By kinds of dtype: {k} is the type, {f} fast-math flags, {w} whether it may wrap around. Of
#: complex numbers it is done to each part.
_INSTRUCTIONS: dict[str, dict[str, str]] = {
    "add": {"iu": "add {w}{k} {a}, {b}", "fc": "fadd {f}{k} {a}, {b}", "b": "or i1 {a}, {b}"},
    "subtract": {"iu": "sub {w}{k} {a}, {b}", "fc": "fsub {f}{k} {a}, {b}"},
    "multiply": {"iu": "mul {w}{k} {a}, {b}", "f": "fmul {f}{k} {a}, {b}", "b": "and i1 {a}, {b}"},
    "divide": {"f": "fdiv {f}{k} {a}, {b}"},
    "square": {"iu": "mul {k} {a}, {a}", "f": "fmul {f}{k} {a}, {a}"},
    "reciprocal": {"f": f"fdiv {{k}} {literal_float(1.0)}, {{a}}"},
    "negative": {"iu": "sub {k} zeroinitializer, {a}", "fc": "fneg {k} {a}"},
    "maximum": {"b": "or i1 {a}, {b}"},
    "minimum": {"b": "and i1 {a}, {b}"},
    "bitwise_and": {"biu": "and {k} {a}, {b}"},
    "bitwise_or": {"biu": "or {k} {a}, {b}"},
    "bitwise_xor": {"biu": "xor {k} {a}, {b}"},
    "invert": {"b": "xor i1 {a}, true", "iu": "xor {k} {a}, -1"},
    "equal": {"biu": "icmp eq {k} {a}, {b}", "f": "fcmp oeq {k} {a}, {b}"},
    "not_equal": {"biu": "icmp ne {k} {a}, {b}", "f": "fcmp une {k} {a}, {b}"},
}
_ORDER = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
for _name, _order in _ORDER.items():
    _INSTRUCTIONS[_name] = {
        kinds: f"{word}{_order} {{k}} {{a}}, {{b}}"
        for kinds, word in (("i", "icmp s"), ("bu", "icmp u"), ("f", "fcmp o"))}
_INTRINSICS: dict[tuple[str, str], str] = {
    ("sqrt", "f"): "sqrt", ("floor", "f"): "floor", ("ceil", "f"): "ceil",
    ("trunc", "f"): "trunc", ("rint", "fc"): "rint", ("absolute", "f"): "fabs",
    ("copysign", "f"): "copysign", ("minimum", "f"): "minimum", ("maximum", "f"): "maximum",
    ("minimum", "i"): "smin", ("minimum", "u"): "umin", ("maximum", "i"): "smax",
    ("maximum", "u"): "umax",
}
#: Functions of the C library, which calls arcsin asin.
LIBM = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
         "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt",
         "arctan2", "hypot", "nextafter")


def instruction(op: Operator, kind: str) -> str | None:
    """The text of an operator that takes one instruction on a kind of dtype."""
    return next((text for kinds, text in _INSTRUCTIONS.get(op.name, {}).items() if kind in kinds),
                None)


def intrinsic(op: Operator, kind: str) -> str:
    """The intrinsic function that an operator is on a kind of dtype."""
    return next(name for (o, kinds), name in _INTRINSICS.items() if o == op.name and kind in kinds)


def _instruction(name: str, kinds: str, text: str) -> None:
    def build(asm: Assembler, code: str, *args: Value) -> Value:
        wrap = asm.wrap if code == "i8" else ""

        def one(a: str, b: str = "") -> str:
            return asm.op(text.format(k=TYPES[code], f=asm.flags, w=wrap, a=a, b=b))

        return by_parts(one, *args)

    lowers(name, kinds)(build)


def _intrinsic(name: str, kinds: str, intrinsic: str) -> None:
    flags = "nsz " if intrinsic in ("minimum", "maximum") else ""

    def build(asm: Assembler, code: str, *args: Value) -> Value:
        return by_parts(lambda *a: asm.intrinsic(intrinsic, TYPES[code], *a, flags=flags), *args)

    lowers(name, kinds)(build)


def _library(name: str) -> None:
    def build(asm: Assembler, code: str, *args: str) -> Value:
        return asm.libm(name.replace("arc", "a"), TYPES[code], *args)

    lowers(name, "f")(build)


for _name, _texts in _INSTRUCTIONS.items():
    for _kinds, _text in _texts.items():
        _instruction(_name, _kinds, _text)
for (_name, _kinds), _text in _INTRINSICS.items():
    _intrinsic(_name, _kinds, _text)
for _name in LIBM:
    _library(_name)


# -- logic -------------------------------------------------------------------------------------
def _logic(name: str, word: str) -> None:
    def build(asm: Assembler, code: str, a: Value, b: Value) -> Value:
        return asm.op(f"{word} i1 {truth(asm, code, a)}, {truth(asm, code, b)}")

    lowers(name, "biufc")(build)


_WORDS = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
for _name, _word in _WORDS.items():
    _logic(_name, _word)


@lowers("logical_not", "biufc")
def _not(asm: Assembler, code: str, a: Value) -> Value:
    return asm.op(f"xor i1 {truth(asm, code, a)}, true")


def _mixed(asm: Assembler, name: str, codes: list[str], args: list[Value]) -> Value:
    """Comparisons of int64 with uint64: exact, though no integer dtype holds both."""
    signed_first = codes[0] == "i8"
    signed, unsigned = typed(tuple[str, str], args if signed_first else args[::-1])
    negative = asm.op(f"icmp slt i64 {signed}, 0")
    first, second = (signed, unsigned) if signed_first else (unsigned, signed)
    word = {"equal": "eq", "not_equal": "ne"}.get(name) or "u" + _ORDER[name]
    same = asm.op(f"icmp {word} i64 {first}, {second}")
    if name in ("equal", "not_equal"):
        when_negative = name == "not_equal"
    else:
        when_negative = name.startswith("less") == signed_first
    return asm.op(f"select i1 {negative}, i1 {str(when_negative).lower()}, i1 {same}")


#: Importing these modules enters their lowerings in the table.
FAMILIES = (integers, floats, complexes, repetition)

#: Operators that call a function or divide integers.
COSTLY = frozenset({*LIBM, "power", "floor_divide", "remainder", "logaddexp", "repeat_product",
                    *(op.name for op in ops.operators() if op.formula and op.slow)})
