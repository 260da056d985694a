"""Every operator in LLVM instructions.

Arguments are first cast to the dtypes that ``Operator.resolve`` has decided. Operators of one
instruction are entered in the table here; the longer ones by the modules ``integers``,
``floats`` and ``complexes``. The meaning is NumPy's in all corners; no input is undefined
behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast as typed

from tensorel.algebra.ops import Operator
from tensorel.errors import UnsupportedError
from tensorel.ir.nodes import DType
from tensorel.kernels import complexes, floats, integers
from tensorel.kernels.casts import cast, truth
from tensorel.kernels.instructions import TYPES, Assembler, Value, code_of
from tensorel.kernels.table import TABLE, lowers


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
    if len(codes) == 2 and codes[0] != codes[1]:
        return _mixed(asm, op.name, codes, args)
    found = TABLE.get((op.name, into[0].kind))
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


# -- tables of one-instruction operators -------------------------------------------------------
_INT = {"add": "add", "subtract": "sub", "multiply": "mul"}
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_FLOAT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_BOOL = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
_ORDER = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
_INTRINSICS = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "absolute": "fabs",
}
_LIBM = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "cbrt": "cbrt",
    "arctan2": "atan2", "hypot": "hypot", "nextafter": "nextafter",
}


def _instruction(name: str, kinds: str, instruction: str) -> None:
    def build(asm: Assembler, code: str, a: str, b: str) -> Value:
        wrap = asm.wrap if code == "i8" and instruction in ("add", "sub", "mul") else ""
        return asm.op(f"{instruction} {wrap}{TYPES[code]} {a}, {b}")

    lowers(name, kinds)(build)


def _float_instruction(name: str, instruction: str) -> None:
    def build(asm: Assembler, code: str, a: str, b: str) -> Value:
        return asm.op(f"{instruction} {asm.flags}{TYPES[code]} {a}, {b}")

    lowers(name, "f")(build)


def _comparison(name: str, ints: str, unsigned: str, floats: str) -> None:
    def build(asm: Assembler, code: str, a: str, b: str) -> Value:
        if code[0] == "f":
            return asm.op(f"fcmp {floats} {TYPES[code]} {a}, {b}")
        predicate = ints if code[0] == "i" else unsigned
        return asm.op(f"icmp {predicate} {TYPES[code]} {a}, {b}")

    lowers(name, "biuf")(build)


def _library(name: str, symbol: str) -> None:
    def build(asm: Assembler, code: str, *args: str) -> Value:
        return asm.libm(symbol, TYPES[code], *args)

    lowers(name, "f")(build)


def _intrinsic(name: str, intrinsic: str) -> None:
    def build(asm: Assembler, code: str, a: str) -> Value:
        return asm.intrinsic(intrinsic, TYPES[code], a)

    lowers(name, "f")(build)


def _fill_tables() -> None:
    for name, instruction in _INT.items():
        _instruction(name, "iu", instruction)
    for name, instruction in _BITS.items():
        _instruction(name, "biu", instruction)
    for name, instruction in _FLOAT.items():
        _float_instruction(name, instruction)
    for name, order in _ORDER.items():
        _comparison(name, "s" + order, "u" + order, "o" + order)
    _comparison("equal", "eq", "eq", "oeq")
    _comparison("not_equal", "ne", "ne", "une")
    for name, symbol in _LIBM.items():
        _library(name, symbol)
    for name, intrinsic in _INTRINSICS.items():
        _intrinsic(name, intrinsic)
    for name, instruction in _BOOL.items():
        _instruction(name, "b", instruction)


_fill_tables()


# -- logic -------------------------------------------------------------------------------------
def _logic(name: str, instruction: str) -> None:
    def build(asm: Assembler, code: str, a: Value, b: Value) -> Value:
        return asm.op(f"{instruction} i1 {truth(asm, code, a)}, {truth(asm, code, b)}")

    lowers(name, "biufc")(build)


for _name, _word in (("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor")):
    _logic(_name, _word)


@lowers("logical_not", "biufc")
def _not(asm: Assembler, code: str, a: Value) -> Value:
    return asm.op(f"xor i1 {truth(asm, code, a)}, true")


@lowers("invert", "biu")
def _invert(asm: Assembler, code: str, a: str) -> Value:
    return asm.op(f"xor {TYPES[code]} {a}, {'true' if code == 'b1' else '-1'}")


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
FAMILIES = (integers, floats, complexes)

#: Operators that call a function or divide integers.
COSTLY = frozenset({*_LIBM, "power", "floor_divide", "remainder", "logaddexp"})
